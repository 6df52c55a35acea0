//! Tests of weights that are missing, truncated or invalid.

use crate::home::Home;

const KNOWN: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const BYTES: u64 = 98_362_432;

fn cached(home: &Home, bytes: u64) {
    let folder = home.path(".cache/weftwork/models");
    std::fs::create_dir_all(&folder).expect("made");
    let file = std::fs::File::create(folder.join(format!("{KNOWN}.gguf"))).expect("made");
    file.set_len(bytes).expect("grown");
}

#[test]
fn weights_that_cannot_be_used_are_named_and_never_replaced_by_another_model() {
    let say = ["run", "desk", "--input", "hello"];
    let mut text = String::new();
    let mut tell = |what: &str, home: &Home, args: &[&str]| {
        let came = home.weft(args);
        let status = came.status.unwrap_or(-1);
        let errors = home.plain(&came.errors);
        text.push_str(&format!("{what}\n{}{errors}exit status {status}\n\n", came.out));
        assert!(!home.store_file().exists(), "no store is created without a model");
    };
    tell("missing", &Home::new(), &say);
    let home = Home::new();
    cached(&home, BYTES / 2);
    tell("truncated", &home, &say);
    let home = Home::new();
    cached(&home, BYTES);
    tell("another hash", &home, &say);
    let home = Home::new().set("WEFT_MODEL_FILE", "own.gguf");
    tell("named and missing", &home, &say);
    std::fs::write(home.path("own.gguf"), "no weights at all").expect("written");
    tell("named and no GGUF", &home, &say);
    tell("import of no weights", &home, &["models", "import", "own.gguf"]);
    tell("unknown", &home, &["run", "desk", "--input", "hello", "--model", "local:gpt-9"]);
    insta::assert_snapshot!(text);
}

#[test]
fn the_list_and_the_doctor_say_what_is_missing() {
    let home = Home::new().set("GROQ_API_KEY", "sk-hunter2").set("WEFT_MODEL", "groq:llama");
    let came = home.weft(&["models", "list"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let line = |start: &str| came.out.lines().find(|line| line.starts_with(start)).expect("a line");
    assert!(line("local:smollm2-135m").contains("missing; weft models pull"));
    assert!(line("groq:").contains("key set") && line("openai:").contains("needs OPENAI_API_KEY"));
    let doctor = home.weft(&["doctor", "--json"]);
    assert_eq!(doctor.status, Some(0), "{doctor:?}");
    let findings: Vec<serde_json::Value> =
        doctor.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found = |what: &str| findings.iter().find(|one| one["what"] == what).expect("a finding");
    assert_eq!(found("model")["found"], "groq:llama is ready");
    assert!(found("settings")["found"].to_string().contains("model groq:llama from WEFT_MODEL"));
    assert_eq!(found("weights")["state"], "note");
    assert!(!format!("{came:?}{doctor:?}").contains("hunter2"));
    let missing = Home::new().weft(&["doctor"]);
    assert_eq!(missing.status, Some(5), "{missing:?}");
    assert!(missing.out.contains("!! model"), "{missing:?}");
}
