//! What the compiler says to states, nodes and routes that cannot be.

#[test]
fn wrong_signatures_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
