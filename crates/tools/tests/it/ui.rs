//! Mistakes under `#[tool]` are shown where they are, in words.

#[test]
fn mistakes_are_compile_errors_that_say_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
