//! OpenAPI files beside definitions: each problem is at the line that is marked in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use weftwork_platform::{DefinitionFolder, Problem, read_texts};

const SHOP: &str = include_str!("shop.yaml");

fn read(operations: &str, file: Option<&str>) -> Result<DefinitionFolder, Vec<Problem>> {
    let definition = format!(
        "type: api\nopenapi: api.yaml\noperations: {operations}\ntransport: {{kind: api, api: {{endpoint: 'https://api.example.com'}}}}\n"
    );
    let mut texts = BTreeMap::from([("agent.yaml".to_owned(), definition)]);
    texts.extend(file.map(|text| ("api.yaml".to_owned(), text.to_owned())));
    read_texts(Some("shop"), None, &texts)
}

#[test]
fn each_problem_is_at_the_line_of_the_file_that_is_wrong() {
    let mut report = String::new();
    for block in include_str!("operations.txt").split("=== ").skip(1) {
        let (name, text) = block.split_once('\n').expect("a name");
        let problems = read("[x]", Some(text)).expect_err(name);
        let marked = text.lines().enumerate().filter(|(_, line)| line.contains("# !"));
        let marked: BTreeSet<u64> = marked.map(|(location, _)| location as u64 + 1).collect();
        let found: BTreeSet<u64> = problems.iter().map(|problem| problem.location.line).collect();
        assert_eq!(found, marked, "{name}: {problems:#?}");
        assert!(problems.iter().all(|problem| problem.file == "shop/api.yaml"), "{problems:#?}");
        writeln!(report, "{name}").expect("writes");
        for problem in &problems {
            writeln!(report, "  {problem}").expect("writes");
        }
    }
    insta::assert_snapshot!(report);
}

#[test]
fn an_operation_or_a_file_that_is_not_there_is_named_in_the_definition() {
    let line = |read: Result<DefinitionFolder, Vec<Problem>>| {
        let problems = read.expect_err("is wrong");
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        line(read("[getOrder, getOrdr]", Some(SHOP))),
        "shop/agent.yaml:3:24: W1006: the word is not known here: `operations.1`: found getOrdr; expected an `operationId` of api.yaml; did you mean `getOrder`?"
    );
    assert_eq!(
        line(read("[getOrder]", None)),
        "shop/agent.yaml:2:10: W1001: the file cannot be read: `openapi`: found api.yaml; expected a file of the folder"
    );
}

#[test]
fn the_file_is_a_part_of_the_version() {
    let one = read("[getOrder]", Some(SHOP)).expect("sound");
    let other = read("[getOrder]", Some(&SHOP.replace("Reads an order", "Reads"))).expect("sound");
    assert_ne!(one.version(), other.version());
    // JSON is read as YAML is.
    let json = r#"{"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "getOrder"}}}}"#;
    assert!(read("[getOrder]", Some(json)).is_ok());
}

#[test]
fn large_files_and_those_made_to_do_harm_are_read_in_bounded_time() {
    let mut large = "openapi: 3.0.3\npaths:\n".to_owned();
    for number in 0..8_000 {
        writeln!(large, "  /p{number}: {{get: {{operationId: get{number}, responses: {{200: {{description: x}}}}}}}}")
            .expect("writes");
    }
    assert!(large.len() < 1 << 20, "{}", large.len());
    let folder = read("[get7999]", Some(&large)).expect("sound");
    assert_eq!(folder.tool_sizes().len(), 1);
    let longer = format!("{large}{}", large.replace("/p", "/q"));
    let problems = read("[get1]", Some(&longer)).expect_err("is too large");
    assert_eq!(problems[0].kind.code().0, "W1002");
    let deep = format!("openapi: 3.0.3\npaths: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(read("[x]", Some(&deep)).expect_err("is deep")[0].kind.code().0, "W1003");
}
