//! Compiler messages for invalid states, nodes and routes.

#[test]
fn wrong_signatures_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
