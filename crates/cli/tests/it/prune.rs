//! Tests of pruning: old data is deleted, and remaining threads can be resumed.

use crate::home::{Came, Home};
use crate::trial;

/// Creates a home with three threads that have not changed for a year, of which `form` waits, and a
/// new one.
fn filled() -> Home {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for thread in ["one", "two"] {
        let said = ["run", "desk", "--thread", thread, "--input", "What is 6 times 7?"];
        assert_eq!(home.weft(&said).status, Some(0));
    }
    let args = ["run", "changing", "--thread", "form", "--input-json", "{}"];
    assert_eq!(trial(&home, &args).status, Some(3));
    let conn = rusqlite::Connection::open(home.store_file()).expect("opens");
    let year = 365 * 86_400_000_i64;
    conn.execute("UPDATE threads SET updated_at = updated_at - ?1", [year]).expect("done");
    conn.execute("UPDATE runs SET ended_at = ended_at - ?1", [year]).expect("done");
    assert_eq!(home.weft(&["run", "desk", "--thread", "new", "--input", "Hello"]).status, Some(0));
    home
}

fn trial(home: &Home, args: &[&str]) -> Came {
    home.program(&trial::program(), args).output().expect("it starts").into()
}

fn threads(home: &Home) -> Vec<String> {
    let rows = home.weft(&["threads", "list", "--json"]).out;
    let rows = rows.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let mut ids: Vec<String> =
        rows.map(|row: serde_json::Value| row["id"].as_str().expect("an id").to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn old_threads_are_deleted_after_confirmation() {
    let home = filled();
    let prune = |more: &[&str]| {
        trial(&home, &[&["threads", "prune", "--older-than", "30d"][..], more].concat())
    };
    let listed = prune(&["--dry-run"]);
    assert_eq!(listed.status, Some(0), "{listed:?}");
    assert!(listed.out.contains("one ") && !listed.out.contains("form"), "{listed:?}");
    assert_eq!(listed.errors, "2 threads; nothing was changed\n");
    assert!(prune(&["--dry-run", "--waiting"]).out.contains("form"));
    let asked = prune(&[]);
    assert_eq!(asked.status, Some(2), "{asked:?}");
    assert!(asked.errors.contains("deleting 2 threads with"), "{asked:?}");
    assert_eq!(threads(&home), ["form", "new", "one", "two"]);
    assert_eq!(prune(&["--yes"]).errors, "deleted 2 threads\n");
    assert_eq!(threads(&home), ["form", "new"]);
    assert_eq!(prune(&["--yes", "--waiting"]).errors, "deleted 1 threads\n");
    assert_eq!(prune(&["--yes", "--waiting"]).errors, "0 threads; nothing was changed\n");
    assert_eq!(threads(&home), ["new"]);
}

#[test]
fn old_checkpoints_and_events_are_deleted_and_threads_continue() {
    let home = filled();
    let args = ["threads", "prune", "--older-than", "4w"];
    let came = trial(&home, &[&args[..], &["--keep", "1"]].concat());
    assert_eq!(came.errors, "pruned 3 threads to their newest 1 checkpoints\n", "{came:?}");
    let conn = rusqlite::Connection::open(home.store_file()).expect("opens");
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count");
    assert_eq!(count("SELECT count(*) FROM checkpoints WHERE thread = 'one'"), 1);
    let came = trial(&home, &[&args[..], &["--events", "--yes"]].concat());
    assert_eq!(came.errors, "deleted events of 3 runs\n", "{came:?}");
    let events =
        "SELECT sum(json_array_length(events)) FROM log JOIN runs r ON r.number = place >> 32
                  WHERE r.thread IN ('one', 'two', 'form')";
    assert_eq!(count(events), 3);
    // Nothing is damaged, and all threads continue.
    let came = home.weft(&["store", "verify"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(home.weft(&["store", "export", "all.jsonl"]).status, Some(0));
    let import = ["--store", "sqlite:new.db", "store", "import", "all.jsonl"];
    assert_eq!(home.weft(&import).status, Some(0));
    let shown = home.weft(&["threads", "show", "one"]);
    assert!(shown.out.contains("What is 6 times 7?"), "{shown:?}");
    let more = ["run", "desk", "--thread", "one", "--input", "What is 6 times 8?"];
    assert_eq!(home.weft(&more).status, Some(0));
    let question = trial(&home, &["threads", "resume", "form", "--answer", "Ada"]);
    assert_eq!(question.status, Some(0), "{question:?}");
}

#[test]
fn an_age_is_a_number_and_a_unit() {
    let home = Home::new();
    for age in ["", "30", "d", "1y", "-1d", "99999999999999999999s", "30 d"] {
        let came = home.weft(&["threads", "prune", &format!("--older-than={age}")]);
        assert_eq!(came.status, Some(2), "{age}: {came:?}");
        assert!(came.errors.contains("expected whole numbers with the units"), "{age}: {came:?}");
    }
}
