use serde_json::json;
use std::fmt::Write as _;
use weftwork_store::StoreError;
use weftwork_store::items::NamespaceProblem;
use weftwork_types::Timestamp;
use weftwork_types::interrupt::Answer;

fn text(text: &str) -> String {
    text.to_owned()
}

fn all() -> Vec<StoreError> {
    let place = || text("/data/weft.db");
    let first = Answer { value: json!("yes"), answered_by: text("ada"), answered_at: Timestamp(1) };
    vec![
        StoreError::NotFound { kind: "thread", id: text("t-1") },
        StoreError::Busy { thread: text("t-1"), run: text("r-1") },
        StoreError::Fenced { run: text("r-1"), newest: 3, ours: 2 },
        StoreError::Answered { interrupt: text("1f"), first: Box::new(first) },
        StoreError::KeyReused { key: text("order-7") },
        StoreError::Locked { location: place(), waited_ms: 5_000 },
        StoreError::Full { location: place(), reason: text("database or disk is full") },
        StoreError::ReadOnly { location: place(), reason: text("attempt to write") },
        StoreError::Newer { location: format!("store `{}`", place()), found: 2, known: 0 },
        StoreError::Older { location: format!("store `{}`", place()), found: 2, oldest: 16 },
        StoreError::Corrupt { location: text("table `blobs`"), what: text("the checksum differs") },
        StoreError::Unavailable {
            location: place(),
            reason: text("permission denied"),
            retriable: false,
        },
        StoreError::Conflict {
            location: text("checkpoint `2` of thread `t-1`"),
            expected: text("a new checkpoint id"),
            found: text("a checkpoint of this id"),
        },
        StoreError::NotRequeued { run: text("r-1"), thread: text("t-1"), why: "completed" },
        StoreError::Dropped { run: text("r-1"), after: 3, oldest: 9 },
        StoreError::BadNamespace {
            found: text(r#"["langgraph", "x"]"#),
            problem: NamespaceProblem::Reserved { label: text("langgraph") },
        },
        StoreError::BadKey { found: text(r#""""#), bytes: 0 },
        StoreError::BadValue {
            item: text(r#""likes""#),
            namespace: text("users.ann"),
            expected: text("an object"),
            found: text("a list"),
        },
        StoreError::BadFilter {
            location: text("filter at `age`"),
            expected: text("one of `$eq`, `$ne`"),
            found: text("$in"),
        },
    ]
}

#[test]
fn every_error_has_a_code_and_names_thing_and_fix() {
    let mut shown = String::new();
    for error in all() {
        let retriable = if error.is_retriable() { "retriable" } else { "final" };
        writeln!(shown, "{} ({retriable}): {error}", error.code()).expect("a string takes all");
        assert_eq!(error.fault().code, error.code().0);
    }
    insta::assert_snapshot!(shown);
}
