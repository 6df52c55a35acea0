//! Compile errors of `#[tool]`: their locations and messages.

#[test]
fn mistakes_are_compile_errors_that_say_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
