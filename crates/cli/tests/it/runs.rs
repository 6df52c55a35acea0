//! Tests of requeued, queued and replaced runs.

use crate::home::{Came, Home};
use crate::trial;

/// Creates a home with the thread `t`, whose run failed.
fn failed() -> Home {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let args = ["run", "failing", "--thread", "t", "--input-json", "{}"];
    let came = run_trial(&home, Some("no luck"), &args);
    assert_eq!(came.status, Some(1), "{came:?}");
    home
}

fn run_trial(home: &Home, fails: Option<&str>, args: &[&str]) -> Came {
    let mut command = home.program(&trial::program(), args);
    if let Some(why) = fails {
        command.env("WEFT_TRIAL_FAILS", why);
    }
    command.output().expect("it starts").into()
}

/// Returns the id of the failed run of the thread.
fn run_of(home: &Home) -> String {
    let shown = run_trial(home, None, &["threads", "show", "t"]).out;
    let (_, rest) = shown.split_once("no luck (run ").expect("a failed run");
    rest.split_once(')').expect("its id").0.to_owned()
}

#[test]
fn a_failed_run_is_requeued_and_executed_here() {
    let home = failed();
    let run = run_of(&home);
    let came = run_trial(&home, Some("no luck"), &["runs", "requeue", &run]);
    assert_eq!(came.status, Some(1), "it fails once more: {came:?}");
    assert_eq!(run_of(&home), run, "it is the same run");
    let came = run_trial(&home, None, &["runs", "requeue", &run, "--json"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let outcome = came.out.lines().last().expect("a line");
    assert!(outcome.contains(&run) && outcome.contains("\"name\":\"done\""), "{came:?}");
    let came = run_trial(&home, None, &["runs", "requeue", &run]);
    assert_eq!(came.status, Some(2), "{came:?}");
    let refused =
        format!("error[W0217]: run `{run}` of thread `t` cannot be requeued: it completed");
    assert!(came.errors.contains(&refused), "{came:?}");
    let came = run_trial(&home, None, &["runs", "requeue", "nobody"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("run `nobody` does not exist"), "{came:?}");
}

#[test]
fn a_run_requeued_with_leave_waits_for_a_worker() {
    let home = failed();
    let run = run_of(&home);
    let came = run_trial(&home, None, &["runs", "requeue", &run, "--leave"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(came.errors, format!("requeued run {run} of thread t for a worker\n"));
    assert!(run_trial(&home, None, &["threads", "list"]).out.contains("not finished"));
    let came = run_trial(&home, None, &["runs", "requeue", &run, "--leave"]);
    assert!(came.errors.contains("error[W0202]"), "{came:?}");
    // An answer without a known question does not start the run.
    for answer in [&["--reject"][..], &["--answer", "yes"], &["--answer-json", "x=1"]] {
        let came = run_trial(&home, None, &[&["threads", "resume", "t"][..], answer].concat());
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains("error[W0709]"), "{came:?}");
        assert!(came.errors.contains("its last run is unfinished"), "{came:?}");
    }
    assert!(run_trial(&home, None, &["threads", "list"]).out.contains("not finished"));
    let came = run_trial(&home, None, &["threads", "resume", "t"]);
    assert_eq!(came.status, Some(0), "{came:?}");
}

#[test]
fn a_run_on_a_busy_thread_is_refused_or_queued() {
    let home = failed();
    let run = run_of(&home);
    run_trial(&home, None, &["runs", "requeue", &run, "--leave"]);
    let again = ["run", "failing", "--thread", "t", "--input-json", "{}"];
    let came = run_trial(&home, None, &again);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("error[W0202]"), "{came:?}");
    let came =
        run_trial(&home, None, &[&again[..], &["--multitask", "enqueue", "--json"]].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("the run is queued"), "{came:?}");
    let shown = run_trial(&home, None, &["threads", "show", "t"]).out;
    let ended: Vec<_> = shown.lines().filter(|line| line.starts_with("run ")).collect();
    assert_eq!(ended.len(), 2, "{shown}");
    assert!(ended.iter().all(|line| line.ends_with("completed")), "both completed: {shown}");
}

#[test]
fn a_run_that_failed_at_its_input_is_requeued_by_resume() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let failing = |input: &str| {
        run_trial(&home, None, &["run", "failing", "--thread", "t", "--input-json", input])
    };
    let came = failing("{\"nmae\": \"Ada\"}");
    assert_eq!(came.status, Some(1), "{came:?}");
    assert!(came.errors.contains("the input was not applied to the thread"), "{came:?}");
    let why = |came: &Came| {
        let line = came.errors.lines().find(|line| line.starts_with("error["));
        line.unwrap_or_else(|| panic!("{came:?}")).to_owned()
    };
    for _ in 0..2 {
        let again = run_trial(&home, None, &["threads", "resume", "t"]);
        assert_eq!((again.status, why(&again)), (Some(1), why(&came)), "{again:?}");
    }
    let shown = run_trial(&home, None, &["threads", "show", "t"]).out;
    assert_eq!(shown.matches("failed: ").count(), 1, "no other run: {shown}");
    let came = failing("{\"name\": \"Ada\"}");
    assert_eq!(came.status, Some(0), "{came:?}");
    let came = failing("{\"nmae\": \"Ada\"}");
    assert!(came.errors.contains("the input was not applied to the thread"), "{came:?}");
}

#[test]
fn an_input_replaces_an_open_question_with_a_note() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let run = ["run", "changing", "--thread", "t", "--input-json", "{}"];
    let first = run_trial(&home, None, &run);
    assert!(!first.errors.contains("replaced"), "{first:?}");
    let wrong = ["run", "changing", "--thread", "t", "--input-json", "{\"nmae\":1}"];
    let wrong = run_trial(&home, None, &wrong);
    assert!(wrong.errors.contains("error[W0105]"), "{wrong:?}");
    assert!(!wrong.errors.contains("replaced"), "the question is still open: {wrong:?}");
    let second = run_trial(&home, None, &run);
    assert_eq!(second.status, Some(3), "it asks again: {second:?}");
    let said =
        "the input replaced this open question:\n? the agent asks:\n    \"What is your name?\"\n";
    assert!(second.errors.contains(said), "{second:?}");
    let shown = run_trial(&home, None, &["threads", "show", "t"]).out;
    assert_eq!(shown.matches("  ended at a question\n").count(), 1, "{shown}");
    assert_eq!(shown.matches("  waits for an answer\n").count(), 1, "{shown}");
}

#[test]
fn a_failed_input_does_not_block_nodes_that_are_due() {
    for strategy in ["reject", "enqueue", "rollback"] {
        let home = failed();
        let wrong = ["run", "failing", "--thread", "t", "--input-json", "{\"nmae\":1}"];
        let came = run_trial(&home, None, &[&wrong[..], &["--multitask", strategy]].concat());
        assert!(came.errors.contains("error[W0105]"), "{came:?}");
        let came = run_trial(&home, None, &["threads", "resume", "t"]);
        assert_eq!(came.status, Some(0), "{strategy}: {came:?}");
        assert!(run_trial(&home, None, &["threads", "state", "t"]).out.contains("done"));
    }
}

#[test]
fn a_run_that_was_rolled_back_is_not_resumed() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let run = |fails: Option<&str>, more: &[&str]| {
        run_trial(
            &home,
            fails,
            &[&["run", "failing", "--thread", "t", "--input-json"][..], more].concat(),
        )
    };
    assert_eq!(run(None, &["{}"]).status, Some(0));
    assert_eq!(run(Some("no luck"), &["{\"name\":\"x\"}"]).status, Some(1));
    let left = run_trial(&home, None, &["runs", "requeue", &run_of(&home), "--leave"]);
    assert_eq!(left.status, Some(0), "{left:?}");
    let came = run(None, &["{\"nmae\":1}", "--multitask", "rollback"]);
    assert!(came.errors.contains("error[W0105]"), "{came:?}");
    let came = run_trial(&home, None, &["threads", "resume", "t"]);
    assert!(came.errors.contains("error[W0105]"), "{came:?}");
    let shown = run_trial(&home, None, &["threads", "show", "t"]).out;
    assert_eq!(shown.matches("\nrun ").count(), 3, "{shown}");
    assert!(shown.contains("  cancelled\n"), "{shown}");
}
