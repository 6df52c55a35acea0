//! Tests of `weft runs list`, `show` and `watch`.

use crate::database;
use crate::home::{Came, Home};
use crate::trial;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

fn weft(home: &Home, args: &[&str]) -> Came {
    home.program(&trial::program(), args).output().expect("it starts").into()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the lines that do not depend on the time at which the run is watched: without partial
/// text, which is void once its message is final.
fn durable(text: &str) -> Vec<Value> {
    let is_durable = |line: &Value| line["seq"].is_u64() || line["type"] == "outcome";
    lines(text).into_iter().filter(is_durable).collect()
}

/// Returns the id of the newest run.
fn newest(home: &Home) -> String {
    let listed = weft(home, &["runs", "list", "--limit", "1", "--json"]).out;
    let row = lines(&listed).pop().expect("a run");
    row["new"]["at"]["run"].as_str().expect("its id").to_owned()
}

/// Starts a run of the thread `t` that waits in a tool until it is cancelled.
pub(crate) fn waiting(home: &Home) -> Child {
    waiting_on(home, "t")
}

/// Starts a run of a thread that waits in a tool until it is cancelled.
pub(crate) fn waiting_on(home: &Home, thread: &str) -> Child {
    let args = ["run", "trial", "--thread", thread, "--input", "Please wait long."];
    let mut child = home.program(&trial::program(), &args).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("→ wait_long") {
        line.clear();
        assert!(out.read_line(&mut line).expect("read") > 0, "the tool is called");
    }
    child.stdout = Some(out.into_inner());
    child
}

#[test]
fn runs_are_listed_and_shown() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let none = weft(&home, &["runs", "list"]);
    assert_eq!((none.status, none.errors.as_str()), (Some(0), "no such runs\n"));
    for thread in ["a", "b", "a"] {
        let said = ["run", "desk", "--thread", thread, "--input", "What is 6 times 7?"];
        assert_eq!(weft(&home, &said).status, Some(0));
    }
    let limited = ["run", "desk", "--thread", "c", "--budget", "calls=9"];
    let asked = [&limited[..], &["--input", "Refund order A1001, amount 25.", "--json"]].concat();
    let asked = weft(&home, &asked);
    assert_eq!(asked.status, Some(3));
    let used = |lines: &[Value]| lines.last().expect("the outcome")["used"].clone();
    let watched = weft(&home, &["runs", "watch", &newest(&home), "--json"]).out;
    assert_eq!(used(&lines(&watched)), used(&lines(&asked.out)));
    assert_eq!(used(&lines(&watched))["model_calls"], 1);
    let threads = |args: &[&str]| -> Vec<String> {
        let listed = weft(&home, &[&["runs", "list", "--json"][..], args].concat()).out;
        let thread = |row: &Value| row["new"]["at"]["thread"].as_str().expect("an id").to_owned();
        lines(&listed).iter().map(thread).collect()
    };
    assert_eq!(threads(&[]), ["c", "a", "b", "a"]);
    assert_eq!(threads(&["--limit", "2"]), ["c", "a"]);
    assert_eq!(threads(&["--thread", "a"]), ["a", "a"]);
    assert_eq!(threads(&["--status", "interrupted"]), ["c"]);
    assert!(threads(&["--status", "failed"]).is_empty());
    let run = newest(&home);
    let table = weft(&home, &["runs", "list"]).out;
    assert!(table.starts_with("RUN ") && table.contains(&run), "{table}");
    let shown = weft(&home, &["runs", "show", &run]).out;
    for part in ["thread   c", "agent    builtin:desk", "waits for an answer", "--approve"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = weft(&home, &["runs", "show", &run, "--json"]).out;
    assert_eq!(lines(&shown)[0]["status"], "interrupted");
    for command in ["show", "watch", "cancel"] {
        let came = weft(&home, &["runs", command, "nobody"]);
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains("run `nobody` does not exist"), "{came:?}");
    }
    let wrong = weft(&home, &["runs", "list", "--status", "done"]);
    assert!(wrong.errors.contains("expected one of queued"), "{wrong:?}");
}

#[test]
fn a_run_is_watched_later_from_any_position() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let said = ["run", "desk", "--json", "--thread", "t", "--input", "What is 6 times 7?"];
    let ran: Vec<Value> =
        lines(&weft(&home, &said).out).into_iter().filter(|line| line["seq"].is_u64()).collect();
    let run = newest(&home);
    let later = weft(&home, &["runs", "watch", &run, "--json"]);
    assert_eq!(later.status, Some(0), "{later:?}");
    let all = lines(&later.out);
    let (last, events) = all.split_last().expect("an outcome");
    assert_eq!((&last["type"], &last["outcome"]), (&"outcome".into(), &"completed".into()));
    assert_eq!(events.len(), ran.len());
    for (event, ran) in events.iter().zip(&ran) {
        assert_eq!(event["seq"], ran["seq"]);
        assert_eq!(event["type"], ran["type"]);
    }
    for (nth, event) in events.iter().enumerate() {
        let after = event["position"].as_str().expect("a position");
        let rest = weft(&home, &["runs", "watch", &run, "--json", "--after", after]).out;
        assert_eq!(lines(&rest), all[nth + 1..], "after {after}");
    }
    let text = weft(&home, &["runs", "watch", &run]).out;
    assert!(text.starts_with("1        run_started graph=builtin:desk"), "{text}");
    assert!(text.ends_with(&format!("{:<8} done outcome=completed\n", events.len())), "{text}");
    let wrong = weft(&home, &["runs", "watch", &run, "--after", "x"]);
    assert_eq!(wrong.status, Some(2), "{wrong:?}");
}

/// A run of one process, a follower that leaves, one that stays, and one that reads later.
fn is_followed_by_others(home: &Home) {
    let child = waiting(home);
    let run = newest(home);
    let watch = ["runs", "watch", &run, "--json"];
    let mut leaves = home.program(&trial::program(), &watch).spawn().expect("it starts");
    let mut out = BufReader::new(leaves.stdout.take().expect("a pipe"));
    let mut seen = String::new();
    while !seen.contains("tool_call_start") {
        assert!(out.read_line(&mut seen).expect("read") > 0, "the tool is called: {seen}");
    }
    let stays = home.program(&trial::program(), &watch).spawn().expect("it starts");
    let id = leaves.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill starts").success());
    out.read_to_string(&mut seen).expect("read");
    let left: Came = leaves.wait_with_output().expect("it ends").into();
    assert_eq!(left.status, Some(130), "{left:?}");
    let after = lines(&seen).pop().expect("a line")["position"].as_str().expect("text").to_owned();
    let again = format!("weft runs watch {run} --after {after}\n");
    assert!(left.errors.ends_with(&again), "the run continues: {left:?}");
    let cancelled = weft(home, &["runs", "cancel", &run]);
    assert_eq!(cancelled.status, Some(0), "{cancelled:?}");
    let ran: Came = child.wait_with_output().expect("it ends").into();
    assert_eq!(ran.status, Some(4), "{ran:?}");
    let live: Came = stays.wait_with_output().expect("it ends").into();
    assert_eq!(live.status, Some(4), "{live:?}");
    let later = weft(home, &watch);
    assert_eq!(later.status, Some(4), "{later:?}");
    assert!(durable(&live.out).len() > 3, "{live:?}");
    assert_eq!(durable(&live.out), durable(&later.out));
    let rest = weft(home, &[&watch[..], &["--after", &after]].concat());
    assert_eq!([durable(&seen), durable(&rest.out)].concat(), durable(&later.out));
}

#[test]
fn a_run_of_another_process_is_watched_over_sqlite() {
    is_followed_by_others(&Home::new().set("WEFT_MODEL", "scripted"));
}

#[test]
fn a_run_of_another_process_is_watched_over_postgres() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    is_followed_by_others(&home.set("WEFT_STORE", &database::fresh()));
}

#[test]
fn a_run_is_watched_in_stream_modes_from_any_frame() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let said = ["run", "desk", "--thread", "t", "--input", "What is 6 times 7?"];
    assert_eq!(weft(&home, &said).status, Some(0));
    let run = newest(&home);
    let watch = ["runs", "watch", &run, "--mode", "values,updates,tasks", "--json"];
    let all = lines(&weft(&home, &watch).out);
    let (last, frames) = all.split_last().expect("an outcome");
    assert_eq!(last["outcome"], "completed");
    let modes: Vec<_> =
        frames.iter().map(|frame| frame["mode"].as_str().expect("a mode")).collect();
    assert_eq!(modes.iter().filter(|mode| **mode == "values").count(), 4, "{modes:?}");
    for mode in ["updates", "tasks"] {
        assert!(modes.contains(&mode), "{mode}: {modes:?}");
    }
    for (nth, frame) in frames.iter().enumerate() {
        let after = frame["position"].as_str().expect("a position");
        let rest = weft(&home, &[&watch[..], &["--after", after]].concat()).out;
        assert_eq!(lines(&rest), all[nth + 1..], "after {after}");
    }
    for (args, says) in [
        (&["--mode", "vals"][..], "`vals` is no stream mode"),
        (&["--mode", "values", "--after", "12"], "the position of a frame"),
        (&["--after", "12-3"], "the position of an event"),
        (&["--subgraphs"], "--mode"),
    ] {
        let wrong = weft(&home, &[&["runs", "watch", &run][..], args].concat());
        assert_eq!(wrong.status, Some(2), "{wrong:?}");
        assert!(wrong.errors.contains(says), "{says}: {wrong:?}");
    }
}

#[test]
fn a_run_is_rolled_back_and_listed_only_on_request() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for said in ["What is 6 times 7?", "What is 6 times 8?"] {
        let came = weft(&home, &["run", "desk", "--thread", "t", "--input", said]);
        assert_eq!(came.status, Some(0), "{came:?}");
    }
    let state = |home: &Home| weft(home, &["threads", "state", "t", "--full"]).out;
    let after = state(&home);
    assert!(after.contains("6 times 8"), "{after}");
    let run = newest(&home);
    let came = weft(&home, &["runs", "cancel", &run, "--rollback"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("rolled back"), "{came:?}");
    let before = state(&home);
    assert!(before.contains("6 times 7") && !before.contains("6 times 8"), "{before}");
    let is_listed = |args: &[&str]| {
        let listed = weft(&home, &[&["runs", "list", "--json"][..], args].concat()).out;
        lines(&listed).iter().any(|row| row["new"]["at"]["run"] == run.as_str())
    };
    assert!(!is_listed(&[]) && is_listed(&["--all"]));
}

#[test]
fn a_run_prints_the_frames_that_a_later_follower_gets() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let modes = ["--mode", "values,updates,tasks,checkpoints", "--json"];
    let run = ["run", "desk", "--thread", "t", "--input", "What is 6 times 7?"];
    let ran = weft(&home, &[&run[..], &modes].concat());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let run = newest(&home);
    let later = weft(&home, &[&["runs", "watch", &run][..], &modes].concat());
    let ran = lines(&ran.out);
    let later = lines(&later.out);
    let (end, ran) = ran.split_last().expect("an outcome");
    let (last, later) = later.split_last().expect("an outcome");
    assert!(ran.len() > 8, "{ran:?}");
    assert_eq!(ran, later);
    assert_eq!((&end["outcome"], &end["run"]), (&last["outcome"], &last["run"]));
    let alone = weft(&home, &["run", "desk", "--input", "Hello", "--subgraphs"]);
    assert_eq!(alone.status, Some(2), "subgraphs need modes: {alone:?}");
}

#[test]
fn a_copy_of_a_thread_keeps_its_question() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let said = ["run", "desk", "--thread", "t", "--input", "Refund order A1001, amount 25."];
    assert_eq!(weft(&home, &said).status, Some(3));
    let copied = weft(&home, &["threads", "copy", "t", "other"]);
    assert_eq!((copied.status, copied.errors.as_str()), (Some(0), "created thread other from t\n"));
    let resume = ["threads", "resume", "other", "--approve"];
    let again = weft(&home, &resume);
    assert_eq!(again.status, Some(3), "an approval of another thread is not valid here: {again:?}");
    let resumed = weft(&home, &resume);
    assert_eq!(resumed.status, Some(0), "{resumed:?}");
    let original = weft(&home, &["threads", "show", "t"]);
    assert!(original.out.contains("--approve"), "it still asks: {original:?}");
    let again = weft(&home, &["threads", "copy", "t", "other"]);
    assert_eq!(again.status, Some(2), "the id is taken: {again:?}");
}

#[test]
fn the_history_is_filtered_by_run_and_by_metadata() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for ticket in ["1", "2"] {
        let ticket = format!("ticket={ticket}");
        let run = ["run", "desk", "--thread", "t", "--input", "What is 6 times 7?"];
        let ran = weft(&home, &[&run[..], &["--metadata", &ticket]].concat());
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let run = newest(&home);
    let history = |more: &[&str]| {
        lines(&weft(&home, &[&["threads", "history", "t", "--json"], more].concat()).out)
    };
    let all = history(&[]);
    let second = history(&["--run", &run]);
    assert!(!second.is_empty(), "{all:?}");
    assert_eq!(all.len(), 2 * second.len());
    assert_eq!(second, all[..second.len()]);
    assert_eq!(history(&["--metadata", "ticket=2"]), second);
    assert!(history(&["--metadata", "ticket=3"]).is_empty());
}

#[test]
fn what_only_the_model_reads_is_in_no_line() {
    let canary = "CANARY_CARD";
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let modes = ["--mode", "values,updates,messages,custom,tasks,checkpoints,debug", "--json"];
    let run = ["run", "trial", "--input", "Please find the order."];
    let live = weft(&home, &[&run[..], &["--json"]].concat());
    let frames = weft(&home, &[&run[..], &["--thread", "t"], &modes].concat());
    let id = newest(&home);
    let watch = ["runs", "watch", &id];
    let state = ["threads", "state", "t"];
    let history = ["threads", "history", "t", "--json"];
    for came in [
        live,
        frames,
        weft(&home, &[&watch[..], &["--json"]].concat()),
        weft(&home, &[&watch[..], &modes].concat()),
        weft(&home, &[&watch[..], &modes, &["--after", "3-1"]].concat()),
        weft(&home, &state),
        weft(&home, &[&state[..], &["--full", "--subgraphs"]].concat()),
        weft(&home, &history),
    ] {
        assert_eq!(came.status, Some(0), "{came:?}");
        assert!(came.out.contains("A-1") && !came.out.contains(canary), "{came:?}");
    }
    assert!(weft(&home, &[&state[..], &["--whole"]].concat()).out.contains(canary));
    let whole = weft(&home, &[&watch[..], &modes[..2], &["--whole"]].concat());
    let (values, others): (Vec<_>, Vec<_>) =
        lines(&whole.out).into_iter().partition(|frame| frame["mode"] == "values");
    assert!(values.iter().any(|frame| frame.to_string().contains(canary)), "{values:?}");
    assert!(others.iter().all(|frame| !frame.to_string().contains(canary)), "{others:?}");
}
