//! `weft agents check`, `weft agents new` and `weft schema agent`.

use crate::home::Home;
use serde_json::{Value, json};

#[test]
fn a_new_definition_of_each_type_is_sound() {
    let home = Home::new();
    for of in ["context", "tool", "api", "external", "function"] {
        let slug = format!("my-{of}");
        let came = home.weft(&["agents", "new", &slug, "--type", of]);
        assert_eq!(came.status, Some(0), "{came:?}");
        assert!(came.out.contains(&format!("agents/{slug}/agent.yaml")), "{came:?}");
        let again = home.weft(&["agents", "new", &slug, "--type", of]);
        assert_eq!(again.status, Some(2), "{again:?}");
        assert!(again.errors.contains("exists; choose another slug"), "{again:?}");
    }
    let came = home.weft(&["agents", "check"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(came.out.lines().filter(|line| line.starts_with("my-")).count(), 5, "{came:?}");
    let api = "my-api  api  agents/my-api\n  api/my-api  about 31 tokens\n";
    assert!(came.out.starts_with(api), "{came:?}");
    let one = home.weft(&["agents", "check", "agents/my-tool"]);
    let tool = "my-tool  tool  agents/my-tool\n  server/tool  declared by its server\n";
    assert_eq!((one.status, one.out.as_str()), (Some(0), tool));
}

#[test]
fn problems_are_printed_for_people_and_for_programs() {
    let home = Home::new();
    home.weft(&["agents", "new", "sound"]);
    std::fs::create_dir_all(home.path("agents/wrong")).expect("made");
    let text = "type: context\nllm:\n  provider: openai\n  modle: gpt\n";
    std::fs::write(home.path("agents/wrong/agent.yaml"), text).expect("written");
    let came = home.weft(&["agents", "check"]);
    assert_eq!(came.status, Some(1), "{came:?}");
    insta::assert_snapshot!(came.out);
    let came = home.weft(&["agents", "check", "--json"]);
    let problems: Vec<Value> =
        came.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(problems.len(), 2, "{came:?}");
    assert_eq!(
        problems[1],
        json!({
            "kind": "unknown_key", "code": "W1004", "file": "wrong/agent.yaml", "line": 4,
            "column": 3, "path": "llm.modle", "found": "", "expected": "`provider`, `model`",
            "nearest": "model",
        })
    );
}

#[test]
fn what_is_no_folder_of_definitions_is_refused() {
    let home = Home::new();
    for (args, expected) in [
        (&["agents", "check"][..], "agents:1:1: W1001"),
        (&["agents", "check", "."], "has no definition; expected folders with an `agent.yaml`"),
        (&["agents", "new", "Not A Slug"], "W1008"),
        (&["agents", "new", "../escape"], "W1008"),
        (&["agents", "new", "a #/../../escape"], "W1008"),
        (&["agents", "new", "a\ncontext: b"], "W1008"),
    ] {
        let came = home.weft(args);
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains(expected), "{expected}: {came:?}");
    }
    assert!(!home.path("agents").exists());
}

#[test]
fn the_schema_of_definitions_is_one_that_editors_read() {
    let came = Home::new().weft(&["schema", "agent"]);
    let schema: Value = serde_json::from_str(&came.out).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(schema["properties"]["yaml"]["description"].is_string(), "{schema}");
}

/// Each command shows the same record as the action of the agent.
#[test]
fn conversations_tasks_and_records_are_shown_and_deleted() {
    let home = Home::new();
    let none = home.weft(&["conversations", "list"]);
    assert_eq!(none.status, Some(6), "{none:?}");
    home.weft(&["agents", "new", "writer"]);
    let ask = |more: &[&str]| {
        let args = ["--model", "scripted", "agents", "run", "writer", "--conversation", "notes"];
        home.weft(&[&args[..], &["--json", "--mode", "build"], more].concat())
    };
    let made = ask(&["--action", "create", "--payload", r#"{"title":"First","content":"One."}"#]);
    assert_eq!(made.status, Some(0), "{made:?}");
    let made: Value = serde_json::from_str(&made.out).expect("JSON");
    let id = made["content"]["id"].as_str().expect("an id").to_owned();
    let edited = ask(&["--action", "edit", "--id", &id, "--payload", r#"{"content":"Two."}"#]);
    assert_eq!(edited.status, Some(0), "{edited:?}");

    let of = |args: &[&str]| {
        let came = home.weft(args);
        assert_eq!(came.status, Some(0), "{args:?}: {came:?}");
        came.out
    };
    let listed = of(&["conversations", "list"]);
    assert!(listed.contains("notes  writer  First"), "{listed}");
    let listed = of(&["deliverables", "notes"]);
    assert!(listed.contains(&format!("{id}  First  2        2")), "{listed}");
    assert_eq!(of(&["deliverables", "notes", &id]), "Two.\n");
    assert_eq!(of(&["deliverables", "notes", &id, "--version", "1"]), "One.\n");
    let read = ask(&["--action", "read", "--id", &id]);
    let read: Value = serde_json::from_str(&read.out).expect("JSON");
    let shown: Value =
        serde_json::from_str(&of(&["deliverables", "notes", &id, "--json"])).expect("JSON");
    assert_eq!(shown, read["content"]);
    assert_eq!(of(&["plans", "notes"]).lines().count(), 1);
    assert_eq!(of(&["tasks", "notes"]).lines().count(), 1);
    let whole: Value =
        serde_json::from_str(&of(&["conversations", "export", "notes"])).expect("JSON");
    assert!(whole.to_string().contains("One."), "{whole}");

    let unsure = home.weft(&["conversations", "delete", "notes"]);
    assert!(unsure.errors.contains("W0713"), "{unsure:?}");
    of(&["conversations", "delete", "notes", "--yes"]);
    let gone = home.weft(&["conversations", "show", "notes"]);
    assert!(gone.errors.contains("W0201"), "{gone:?}");
}

/// A file that is broken takes neither the agent nor its versions away.
#[test]
fn a_broken_definition_goes_on_with_its_last_version() {
    let home = Home::new();
    home.weft(&["agents", "new", "writer"]);
    let ask = || home.weft(&["--model", "scripted", "agents", "run", "writer", "Hello"]);
    assert_eq!(ask().status, Some(0));
    let file = home.path("agents/writer/agent.yaml");
    std::fs::write(&file, "type: contxt\n").expect("written");
    let came = ask();
    assert_eq!(came.status, Some(0), "{came:?}");
    std::fs::remove_dir_all(home.path("agents/writer")).expect("removed");
    assert_eq!(ask().status, Some(2));
    let versions = home.weft(&["agents", "versions", "writer"]);
    assert_eq!(versions.out.lines().count(), 2, "{versions:?}");
    let hash = versions.out.lines().nth(1).and_then(|line| line.split(' ').next());
    let exported = home.weft(&["agents", "export", "writer", hash.expect("a version")]);
    assert!(exported.out.contains("type: \"context\""), "{exported:?}");
}

/// The folder of the configuration is that of all commands.
#[test]
fn new_definitions_and_checks_use_the_configured_folder() {
    let home = Home::new();
    let other = home.path("other").display().to_string();
    let home = home.set("WEFT_AGENTS", &other);
    let made = home.weft(&["agents", "new", "writer"]);
    assert_eq!(made.status, Some(0), "{made:?}");
    assert!(home.path("other/writer/agent.yaml").exists(), "{made:?}");
    let checked = home.weft(&["agents", "check"]);
    assert!(checked.out.starts_with("writer  context  "), "{checked:?}");
}

/// Contents of models and tools cannot steer the terminal.
#[test]
fn contents_are_printed_without_control_characters() {
    let home = Home::new();
    home.weft(&["agents", "new", "writer"]);
    let payload = json!({"title": "T", "content": "a\u{1b}[2Jb\u{202e}c"}).to_string();
    let args = ["--model", "scripted", "agents", "run", "writer", "--conversation", "c"];
    let create = ["--mode", "build", "--action", "create", "--payload", &payload, "--json"];
    let made = home.weft(&[&args[..], &create].concat());
    let made: Value = serde_json::from_str(&made.out).expect("JSON");
    let id = made["content"]["id"].as_str().expect("an id");
    let shown = home.weft(&["deliverables", "c", id]);
    assert_eq!(shown.out, "a\\u{1b}[2Jb\\u{202e}c\n");
}

/// The flag is for all agents, so that nothing is paid where a test model was asked for.
#[test]
fn the_flag_of_the_model_is_used_in_place_of_that_of_the_definition() {
    let home = Home::new();
    home.weft(&["agents", "new", "writer"]);
    let text = "type: context\nllm: {provider: openai, model: gpt-4o-mini}\n";
    std::fs::write(home.path("agents/writer/agent.yaml"), text).expect("written");
    std::fs::remove_file(home.path("agents/writer/context.md")).expect("removed");
    let came = home.weft(&["--model", "scripted", "agents", "run", "writer", "Hello"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let without = home.weft(&["agents", "run", "writer", "Hello"]);
    assert_ne!(without.status, Some(0), "{without:?}");
}

#[test]
fn steps_are_drawn_and_their_changes_are_lines_while_they_run() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    std::fs::create_dir_all(home.path("agents/boss")).expect("made");
    let text = "type: context\norchestration:\n  steps:\n    - {id: check, checkpoint: {question: Good?}}\n";
    std::fs::write(home.path("agents/boss/agent.yaml"), text).expect("written");
    for name in ["boss", "agents:boss"] {
        let drawn = home.weft(&["graph", "show", name]);
        assert!(drawn.out.contains("n0[\"check · checkpoint\"]"), "{drawn:?}");
        assert!(drawn.out.contains("n0 -.-> END"), "{drawn:?}");
        let image = home.weft(&["graph", "show", name, "--format", "svg"]);
        assert!(image.out.contains(">check · checkpoint</text>"), "{image:?}");
    }
    // Rows of the store are drawn too.
    std::fs::create_dir_all(home.path("rows/other")).expect("made");
    std::fs::write(home.path("rows/other/agent.yaml"), text).expect("written");
    let added = home.weft(&["agents", "add", "rows/other"]);
    assert_eq!(added.status, Some(0), "{added:?}");
    let drawn = home.weft(&["graph", "show", "agents:other"]);
    assert!(drawn.out.contains("n0[\"check · checkpoint\"]"), "{drawn:?}");
    let begin = [
        "agents",
        "run",
        "boss",
        "--mode",
        "build",
        "--conversation",
        "c",
        "--payload",
        r#"{"orchestrate": true}"#,
        "Go.",
    ];
    let came = home.weft(&begin);
    assert_eq!(came.status, Some(3), "{came:?}");
    let lines: Vec<&str> = came.errors.lines().filter(|line| line.starts_with("step ")).collect();
    assert_eq!(lines, ["step check: started", "step check: asked"], "{came:?}");
}
