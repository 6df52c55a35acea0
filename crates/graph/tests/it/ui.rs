//! Compiler messages for invalid states, nodes and routes.

#[test]
fn wrong_signatures_are_explained() {
    weftwork_testkit::compile_errors::assert_recorded("tests/ui", &["weftwork_graph"]);
}
