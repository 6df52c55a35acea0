//! Compile errors of programs: their locations and messages.

#[test]
fn mistakes_are_compile_errors_that_say_what_to_do() {
    weftwork_testkit::compile_errors::assert_recorded("tests/ui", &["weftwork"]);
}
