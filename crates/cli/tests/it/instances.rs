//! Tests of `weft instances`.

use crate::home::{Came, Home};
use crate::trial;
use crate::worker::Worker;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn an_instance_is_created_sent_to_shown_and_terminated() {
    let home = Home::new();
    let weft = |args: &[&str]| home.weft(&[&["--model", "scripted", "instances"], args].concat());
    let created = weft(&["create", "desk", "--id", "front"]);
    assert_eq!((created.status, created.out.as_str()), (Some(0), "front\n"), "{created:?}");
    let sent = weft(&["send", "front", "--message", "Hello"]);
    assert_eq!(sent.status, Some(0), "{sent:?}");
    let state: Value = serde_json::from_str(&sent.out).expect("the state");
    assert!(state["messages"].as_array().is_some_and(|all| all.len() >= 2), "{state}");
    let own = r#"{"shift": "late"}"#;
    let leave = ["send", "front", "--message", "Bye", "--leave", "--priority", "2"];
    let left = weft(&[&leave[..], &["--configurable", own]].concat());
    assert_eq!(left.status, Some(0), "{left:?}");

    let shown = weft(&["show", "front", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    let statistics = &shown["instance"]["statistics"];
    assert_eq!((&statistics["succeeded"], &statistics["waiting"]), (&1.into(), &1.into()));
    let listed = weft(&["list"]);
    assert!(listed.out.contains("front"), "{listed:?}");

    let kept = weft(&["terminate", "front"]);
    assert!(kept.out.contains("kept, payload null"), "{kept:?}");
    let ended = weft(&["terminate", "front", "--dead-letter", "--json"]);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON");
    let again = &report["dead_lettered"][0]["again"];
    assert_eq!(again["configurable"].to_string(), own.replace(": ", ":"), "{report}");
    assert_eq!((&again["payload"], &again["priority"]), (&Value::Null, &2.into()), "{report}");
    assert_eq!(again["input"]["messages"][0]["parts"][0]["text"], "Bye", "{report}");
    let listed = weft(&["list"]);
    assert!(listed.out.contains("CANCELLED"), "{listed:?}");
    let refused = weft(&["send", "front", "1"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.errors.contains("W0641"), "{refused:?}");
    let missing = weft(&["show", "back"]);
    assert_eq!(missing.status, Some(2), "{missing:?}");
    assert!(missing.errors.contains("W0642"), "{missing:?}");
    assert!(missing.errors.contains("weft instances list"), "{missing:?}");
    let again = weft(&["create", "desk", "--id", "front"]);
    assert_eq!(again.status, Some(2), "{again:?}");
    assert!(again.errors.contains("W0641"), "{again:?}");
}

#[test]
fn options_of_an_instance_hold_for_each_of_its_activities() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let weft = |args: &[&str]| home.weft(&[&["instances"], args].concat());
    let settings = r#"{"shift":"early","desk":1}"#;
    let create = ["create", "desk", "--id", "front", "--configurable", settings];
    let created = weft(&[&create[..], &["--budget", "calls=7", "--step-limit", "1"]].concat());
    assert_eq!(created.status, Some(0), "{created:?}");
    let sent = weft(&[
        "send",
        "front",
        "--message",
        "What is 6 times 7?",
        "--configurable",
        r#"{"shift":"late"}"#,
    ]);
    assert_eq!(sent.status, Some(1), "{sent:?}");
    assert!(sent.errors.contains("limit of 1 supersteps"), "{sent:?}");
    assert!(sent.errors.contains("error[W0646]") && sent.errors.contains("help: "), "{sent:?}");
    assert!(sent.errors.contains("used 1 of 7 model calls"), "{sent:?}");
    let shown = weft(&["show", "front"]).out;
    let told = "each activity: budget calls=7, at most 1 supersteps, configurable ";
    assert!(shown.contains(told) && shown.contains("a question holds the mailbox"), "{shown}");
    let id = sent.errors.split_whitespace().nth(1).expect("`activity ID for instance front`");
    let run = home.weft(&["runs", "show", id, "--json"]);
    let run: Value = serde_json::from_str(&run.out).expect("JSON");
    let options = &run["new"]["options"];
    assert_eq!(
        (&options["step_limit"], &options["budget"]["model_calls"]),
        (&1.into(), &7.into()),
        "{run}"
    );
    let entries = &options["configurable"];
    assert_eq!((&entries["shift"], &entries["desk"]), (&"late".into(), &1.into()), "{run}");
}

#[test]
fn the_model_of_an_instance_answers_its_activities() {
    // Nobody listens there.
    let home = Home::new().provider("http://127.0.0.1:9/v1");
    let weft = |args: &[&str]| home.weft(&[&["instances"], args].concat());
    let refused = weft(&["create", "desk", "--id", "front", "--model", "nobody:x"]);
    assert!(matches!(refused.status, Some(2 | 5)), "{refused:?}");
    assert_eq!(weft(&["list", "--json"]).out, "", "nothing is created");
    let created = weft(&["create", "desk", "--id", "front", "--model", "scripted"]);
    assert_eq!(created.status, Some(0), "{created:?}");
    let sent = weft(&["send", "front", "--message", "Refund order A1002, amount 40."]);
    assert_eq!(sent.status, Some(3), "{sent:?}");
    let answered = home.weft(&["threads", "resume", "front", "--approve"]);
    assert_eq!(answered.status, Some(0), "what follows the answer has it, too: {answered:?}");
    assert!(weft(&["show", "front"]).out.contains("each activity: model scripted"));
    let shown: Value = serde_json::from_str(&weft(&["show", "front", "--json"]).out).expect("JSON");
    assert_eq!(shown["instance"]["options"]["run_model"], "scripted", "{shown}");
}

#[test]
fn the_model_of_an_instance_suffices_to_execute_it() {
    let home = Home::new();
    let create = ["--model", "scripted", "instances", "create", "desk", "--id", "front"];
    assert_eq!(home.weft(&create).status, Some(0));
    let send = ["instances", "send", "front", "--message", "Refund order A1002, amount 40."];
    let sent = home.weft(&send);
    assert_eq!(sent.status, Some(3), "{sent:?}");
    let shown = home.weft(&["threads", "show", "front"]);
    assert!(shown.out.contains("model    scripted"), "{shown:?}");
    let answered = home.weft(&["threads", "resume", "front", "--approve"]);
    assert_eq!(answered.status, Some(0), "{answered:?}");
}

#[test]
fn a_terminated_instance_is_deleted_with_what_it_keeps() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let weft = |args: &[&str]| home.weft(args);
    assert_eq!(weft(&["instances", "create", "desk", "--id", "front"]).status, Some(0));
    for priority in ["1", "2"] {
        let send = ["instances", "send", "front", "--leave", "--priority", priority];
        assert_eq!(weft(&send).status, Some(0));
    }
    assert_eq!(weft(&["instances", "terminate", "front"]).status, Some(0));
    let deleted = weft(&["threads", "delete", "front", "--yes"]);
    assert_eq!(deleted.status, Some(0), "{deleted:?}");
    assert!(weft(&["instances", "show", "front"]).errors.contains("W0642"));
}

#[test]
fn commands_that_read_instances_create_no_store() {
    let home = Home::new();
    let store = home.path("mistyped.db");
    let flag = format!("sqlite:{}", store.display());
    let commands: [&[&str]; 6] = [
        &["list"],
        &["show", "front"],
        &["watch", "front"],
        &["terminate", "front"],
        &["send", "front", "1"],
        &["resend", "front", "r", "--to", "front"],
    ];
    for command in commands {
        let args = [&["--store", &flag, "--model", "scripted", "instances"], command].concat();
        let refused = home.weft(&args);
        assert_eq!(refused.status, Some(6), "{refused:?}");
        assert!(refused.errors.contains("W0211"), "{refused:?}");
        assert!(!store.exists(), "{command:?}");
    }
    // The default store is only not there yet.
    let listed = home.weft(&["instances", "list"]);
    assert_eq!((listed.status, listed.out.as_str()), (Some(0), ""), "{listed:?}");
    let shown = home.weft(&["instances", "show", "front"]);
    assert!(shown.errors.contains("W0642"), "{shown:?}");
}

#[test]
fn a_list_says_that_there_are_more_instances() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for id in ["a", "b"] {
        let created = home.weft(&["instances", "create", "desk", "--id", id]);
        assert_eq!(created.status, Some(0), "{created:?}");
    }
    let listed = home.weft(&["instances", "list", "--limit", "1"]);
    assert!(listed.out.contains("a ") && !listed.out.contains("\nb "), "{listed:?}");
    assert!(listed.errors.contains("the oldest 1 instances, and there are more"), "{listed:?}");
    assert!(!home.weft(&["instances", "list", "--limit", "2"]).errors.contains("more"));
}

#[test]
fn a_dead_letter_is_sent_again() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let weft = |args: &[&str]| home.weft(&[&["instances"], args].concat());
    for id in ["front", "back"] {
        assert_eq!(weft(&["create", "desk", "--id", id]).status, Some(0));
    }
    let leave = ["send", "front", "--message", "Hello", "--leave", "--priority", "2"];
    assert_eq!(weft(&leave).status, Some(0));
    let ended = weft(&["terminate", "front", "--dead-letter"]);
    assert!(ended.out.contains("dead letter, payload null, priority 2, input "), "{ended:?}");
    assert!(ended.out.contains("UTC by local, W0637 "), "{ended:?}");
    let command = ended.errors.lines().find_map(|line| line.split_once("weft instances resend "));
    let command = command.expect("the command").1.replace("INSTANCE", "back");
    let args: Vec<_> = ["resend"].into_iter().chain(command.split_whitespace()).collect();
    let sent = weft(&args);
    assert_eq!(sent.status, Some(0), "{sent:?}");
    assert!(sent.out.contains("Hello"), "{sent:?}");
    let again = weft(&[&args[..], &["--timeout", "10m"]].concat());
    let state: Value = serde_json::from_str(&again.out).expect("the state");
    let roles = state["messages"].as_array().expect("a list").iter();
    let roles: Vec<_> = roles.map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"], "each is asked: {state}");
    let run = args[2];
    let refused = weft(&["resend", "front", run, "--to", "front"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.errors.contains("error[W0641]"), "{refused:?}");
    let refused = weft(&["resend", "back", run, "--to", "back"]);
    assert!(refused.errors.contains("error[W0201]"), "{refused:?}");
}

#[test]
fn an_interrupted_termination_says_what_it_left() {
    // It takes connections, and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", silent.local_addr().expect("an address"));
    let home = Home::new().provider(&url);
    let weft = |args: &[&str]| home.weft(&[&["instances"], args].concat());
    assert_eq!(weft(&["create", "desk", "--id", "front"]).status, Some(0));
    let start = |args: &[&str]| {
        let args = [&["instances"], args].concat();
        home.program(&trial::program(), &args).spawn().expect("it starts")
    };
    let until = |status: &str| {
        let found = (0..200).any(|_| weft(&["list"]).out.contains(status));
        assert!(found, "the instance is not {status}");
    };
    let mut sender = start(&["send", "front", "--message", "Hello"]);
    until("processing");
    let terminator = start(&["terminate", "front", "--deadline", "10m"]);
    until("terminated");
    crate::signals::send(terminator.id(), "-INT");
    let ended = Came::from(terminator.wait_with_output().expect("it ends"));
    assert_eq!(ended.status, Some(130), "{ended:?}");
    let left = "instance front takes no more activities; 1 executed, 0 asking and 0 waiting";
    assert!(ended.errors.contains(left), "{ended:?}");
    sender.kill().expect("it is there");
    sender.wait().expect("it ends");
}

#[test]
fn requests_that_cannot_be_executed_are_refused() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let weft = |args: &[&str]| home.weft(&[&["instances"], args].concat());
    let refused = weft(&["create", "desk", "--id", "front", "--state", "[1]"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.errors.contains("W0648"), "{refused:?}");
    let threads = home.weft(&["threads", "list"]);
    assert!(!threads.out.contains("front"), "{threads:?}");
    let refused = weft(&["create", "desk", "--mailbox", "0"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");

    assert_eq!(weft(&["create", "desk", "--id", "front"]).status, Some(0));
    for (flags, reason) in [
        (vec!["--key", "weft:a"], "W0137"),
        (vec!["--key", ""], "W0137"),
        (vec!["--not-before", "tomorrow"], "a delay such as 5m"),
        (vec!["--not-before", "1h", "--timeout", "10m"], "W0648"),
    ] {
        let refused = weft(&[vec!["send", "front", "1"], flags].concat());
        assert_eq!(refused.status, Some(2), "{refused:?}");
        assert!(refused.errors.contains(reason), "{refused:?}");
    }
    let left = weft(&["send", "front", "1", "--leave", "--not-before", "1h"]);
    assert_eq!(left.status, Some(0), "{left:?}");
    let kept = weft(&["terminate", "front"]);
    assert!(kept.out.contains("kept, payload 1"), "{kept:?}");
}

#[test]
fn an_activity_that_asks_prints_its_question() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(&["instances", "create", "desk", "--id", "front"]).status, Some(0));
    let ask = "Refund order A1002, amount 40.";
    let send = || home.weft(&["instances", "send", "front", "--message", ask, "--key", "k"]);
    let asked = send();
    assert_eq!(asked.status, Some(3), "{asked:?}");
    assert!(asked.errors.contains("weft threads resume front --approve"), "{asked:?}");
    // The message has the same id, so that the activity is the same one.
    let again = send();
    assert_eq!((again.status, &again.errors), (Some(3), &asked.errors), "{again:?}");
    // The others wait behind the question, and not before its answer.
    let behind = ["instances", "send", "front", "--message", "Hello", "--leave"];
    assert_eq!(home.weft(&behind).status, Some(0));
    let answered = home.weft(&["threads", "resume", "front", "--approve"]);
    assert_eq!(answered.status, Some(0), "{answered:?}");
}

#[test]
fn an_activity_that_is_set_aside_prints_the_command_that_answers_it() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let create = ["instances", "create", "desk", "--id", "front", "--on-question", "set-aside"];
    assert_eq!(home.weft(&create).status, Some(0));
    let ask = "Refund order A1002, amount 40.";
    let asked = home.weft(&["instances", "send", "front", "--message", ask]);
    assert_eq!(asked.status, Some(3), "{asked:?}");
    let command = asked.errors.lines().find_map(|line| line.split_once("weft threads resume "));
    let (thread, _) = command.expect("a command").1.split_once(' ').expect("its flags");
    assert_ne!(thread, "front", "{asked:?}");
    let other = home.weft(&["instances", "send", "front", "--message", "Hello"]);
    assert_eq!(other.status, Some(0), "{other:?}");
    let answered = home.weft(&["threads", "resume", thread, "--approve"]);
    assert_eq!(answered.status, Some(0), "{answered:?}");
    assert!(answered.out.contains("efund"), "{answered:?}");
    // It stays when the instance is deleted, which says so.
    assert_eq!(home.weft(&["instances", "terminate", "front"]).status, Some(0));
    let deleted = home.weft(&["threads", "delete", "front", "--yes"]);
    assert_eq!(deleted.status, Some(0), "{deleted:?}");
    let command = format!("weft threads delete {thread}");
    assert!(deleted.errors.contains(&command), "{deleted:?}");
}

#[test]
fn an_activity_that_waits_behind_a_question_says_how_to_answer_it() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    assert_eq!(home.weft(&["instances", "create", "desk", "--id", "front"]).status, Some(0));
    let ask = ["instances", "send", "front", "--message", "Refund order A1002, amount 40."];
    assert_eq!(home.weft(&ask).status, Some(3));
    let mut sender = home
        .program(&trial::program(), &["instances", "send", "front", "--message", "Hello"])
        .spawn()
        .expect("it starts");
    let mut errors = BufReader::new(sender.stderr.take().expect("a pipe")).lines();
    let mut told = |words: &str| {
        let line = errors.find(|line| line.as_ref().is_ok_and(|line| line.contains(words)));
        assert!(line.is_some(), "nothing says `{words}`");
    };
    told("waits behind one that asks");
    told("weft threads resume front --approve");
    let answered = home.weft(&["threads", "resume", "front", "--approve"]);
    assert_eq!(answered.status, Some(0), "{answered:?}");
    let ended = sender.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn a_worker_executes_activities_that_were_left_and_a_watcher_prints_them() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let weft = |args: &[&str]| -> Came {
        let args = [&["instances"], args].concat();
        home.program(&trial::program(), &args).output().expect("it starts").into()
    };
    let leave = || {
        let left = weft(&["send", "front", "--message", "Hello", "--leave"]);
        assert_eq!((left.status, left.out.as_str()), (Some(0), ""), "{left:?}");
        let words: Vec<_> = left.errors.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "activity").expect("the id");
        words[at + 1].to_owned()
    };
    assert_eq!(weft(&["create", "desk", "--id", "front"]).status, Some(0));
    let first = leave();
    let mut worker = Worker::start(&home, &[]);
    let begun = worker.line();
    let ended = worker.line();
    assert_eq!((&begun["type"], &begun["run"]), (&"run_begun".into(), &first.as_str().into()));
    assert_eq!((&begun["thread"], &ended["run"]), (&"front".into(), &begun["run"]));
    assert_eq!(ended["status"], "completed");

    let mut watcher = home.program(&trial::program(), &["instances", "watch", "front"]);
    let mut watcher = watcher.spawn().expect("it starts");
    let out = BufReader::new(watcher.stdout.take().expect("a pipe"));
    let (tell, lines) = mpsc::channel::<Value>();
    let reader = std::thread::spawn(move || {
        for line in out.lines() {
            let line = serde_json::from_str(&line.expect("read")).expect("JSON");
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    // It prints what begins after it has subscribed, which it does not report.
    let mut sent = Vec::new();
    let mut line = loop {
        assert!(sent.len() < 60, "nothing is printed");
        sent.push(leave());
        if let Ok(line) = lines.recv_timeout(Duration::from_secs(1)) {
            break line;
        }
    };
    let mut states = Vec::new();
    let activity = line["activity"].clone();
    assert!(sent.iter().any(|id| activity == id.as_str()), "{line}");
    while line["event"] != "ended" {
        assert_eq!(line["activity"], activity);
        if line["event"] == "state" {
            states.push(line["state"].clone());
        }
        line = lines.recv_timeout(Duration::from_secs(20)).expect("goes on");
    }
    assert_eq!((&line["activity"], &line["error"]), (&activity, &Value::Null));
    let last = states.last().expect("a state");
    assert!(last["messages"].as_array().is_some_and(|all| all.len() >= 4), "{last}");
    let id = watcher.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill starts").success());
    assert_eq!(watcher.wait().expect("it ends").code(), Some(130));
    drop(lines);
    reader.join().expect("ends");
    worker.terminate();
    assert_eq!(worker.end().status, Some(0));
}
