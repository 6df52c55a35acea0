//! Tests of the options of runs, and of states and histories of threads.

use crate::home::{Came, Home};
use crate::trial;
use serde_json::Value;

fn trial(home: &Home, args: &[&str]) -> Came {
    home.program(&trial::program(), args).output().expect("it starts").into()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn home() -> Home {
    Home::new().set("WEFT_MODEL", "scripted")
}

const RUN: [&str; 6] = ["run", "failing", "--thread", "t", "--input-json", "{}"];

#[test]
fn a_run_stops_before_a_node_and_is_resumed() {
    let home = home();
    let came = trial(&home, &[&RUN[..], &["--before", "work"]].concat());
    assert_eq!(came.status, Some(3), "{came:?}");
    let stopped = "stopped before or after a node; continue with: weft threads resume t";
    assert!(came.errors.contains(stopped), "{came:?}");
    let full = json(&trial(&home, &["threads", "state", "t", "--full"]).out);
    assert_eq!(full["next"], serde_json::json!(["work"]));
    // It waits for no answer.
    for args in [&["threads", "list"][..], &["runs", "list"], &["threads", "show", "t"]] {
        let listed = trial(&home, args).out;
        assert!(listed.contains("stopped at a node"), "{args:?}: {listed}");
        assert!(!listed.contains("waits for an answer"), "{args:?}: {listed}");
    }
    let came = trial(&home, &["threads", "resume", "t"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(json(&trial(&home, &["threads", "state", "t"]).out)["name"], "done");
    let came = trial(&home, &[&RUN[..], &["--after", "*"]].concat());
    assert_eq!(came.status, Some(3), "{came:?}");
}

#[test]
fn the_options_of_a_run_are_stored_with_it() {
    let home = home();
    let options = [
        "--context",
        "{\"user\":\"ada\"}",
        "--configurable",
        "{\"speed\":2}",
        "--metadata",
        "order=7",
        "--metadata",
        "{\"from\":\"shop\"}",
        "--tag",
        "night",
        "--tag",
        "batch",
        "--deadline",
        "5m",
        "--step-limit",
        "9",
        "--concurrency",
        "2",
        "--idempotency-key",
        "k",
        "--durability",
        "async",
    ];
    assert_eq!(trial(&home, &[&RUN[..], &options].concat()).status, Some(0));
    // A repetition shows the same run.
    assert_eq!(
        trial(&home, &[&RUN[..], &["--metadata", "order=8", "--idempotency-key", "k"]].concat())
            .status,
        Some(2)
    );
    let rows = trial(&home, &["runs", "list", "--json"]).out;
    assert_eq!(rows.lines().count(), 1, "{rows}");
    let stored = json(&rows)["new"]["options"].clone();
    for (name, value) in [
        ("context", serde_json::json!({"user": "ada"})),
        ("configurable", serde_json::json!({"speed": 2})),
        ("metadata", serde_json::json!({"order": 7, "from": "shop"})),
        ("tags", serde_json::json!(["night", "batch"])),
        ("step_limit", serde_json::json!(9)),
        ("concurrency", serde_json::json!(2)),
        ("durability", serde_json::json!("async")),
    ] {
        assert_eq!(stored[name], value, "{name}");
    }
    assert!(stored["deadline"].is_i64(), "{stored}");
    for (wrong, why) in [
        (&["--context", "{"][..], "not JSON"),
        (&["--configurable", "[1]"], "expected a JSON object"),
        (&["--before", "a,,b"], "expected names of nodes"),
        (&["--deadline", "soon"], "expected whole numbers with the units"),
        (&["--step-limit", "0"], "0 is not in"),
    ] {
        let came = trial(&home, &[&RUN[..], wrong].concat());
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains(why), "{came:?}");
    }
}

#[test]
fn a_thread_is_read_at_its_checkpoints_and_changed_from_outside() {
    let home = home();
    assert_eq!(trial(&home, &RUN).status, Some(0));
    let listed = trial(&home, &["threads", "history", "t", "--json"]).out;
    let rows: Vec<Value> = listed.lines().map(json).collect();
    assert_eq!(rows.first().expect("a checkpoint")["values"]["name"], "done");
    let oldest = rows.last().expect("a checkpoint");
    assert_eq!(oldest["source"], "input");
    let at = oldest["checkpoint"].as_str().expect("its id");
    let then = trial(&home, &["threads", "state", "t", "--at", at]);
    assert_ne!(json(&then.out)["name"], "done", "{then:?}");
    let one = trial(&home, &["threads", "history", "t", "--source", "input", "--limit", "1"]);
    assert_eq!(one.out.lines().count(), 2, "a head and a row: {one:?}");
    assert!(one.out.contains(at), "{one:?}");
    let update = ["threads", "update", "t", "--as", "work", "{\"name\": \"other\"}"];
    let came = trial(&home, &update);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(came.errors, "updated thread t as work; no node is due\n");
    assert_eq!(json(&trial(&home, &["threads", "state", "t"]).out)["name"], "other");
    let newest = trial(&home, &["threads", "history", "t", "--limit", "1", "--json"]).out;
    assert_eq!(json(&newest)["source"], "update");
    let wrong = trial(&home, &["threads", "update", "t", "--as", "wrok", "{}"]);
    assert_ne!(wrong.status, Some(0), "{wrong:?}");
    assert!(wrong.errors.contains("wrok"), "{wrong:?}");
    let wrong = trial(&home, &["threads", "history", "t", "--source", "nothing"]);
    assert_eq!(wrong.status, Some(2), "{wrong:?}");
}

/// Ten at once with a thread, and one after the other without: there is one run, and all show it.
#[test]
fn a_repeated_request_shows_the_first_run() {
    let home = home();
    let said = ["run", "desk", "--input", "Where is order A1001?", "--deadline", "5m", "--json"];
    for more in [&["--idempotency-key", "a", "--thread", "t"][..], &["--idempotency-key", "b"]] {
        let request = [&said[..], more].concat();
        let shown: Vec<Came> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..10).map(|_| scope.spawn(|| home.weft(&request))).collect();
            asked.into_iter().map(|one| one.join().expect("no panic")).collect()
        });
        let outcome = |came: &Came| came.out.lines().last().map(str::to_owned);
        let first = shown.first().expect("ten");
        for one in &shown {
            assert_eq!(one.status, Some(0), "{one:?}");
            assert_eq!(outcome(one), outcome(first), "{one:?}");
        }
    }
    let other = [&said[..2], &["--input", "Something else", "--idempotency-key", "a"]].concat();
    let refused = home.weft(&other);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.errors.contains("W0205"), "{refused:?}");
    assert_eq!(home.weft(&["runs", "list", "--json"]).out.lines().count(), 2);
}
