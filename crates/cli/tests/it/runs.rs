//! Runs that are put back.

use crate::home::{Came, Home};
use crate::trial;

/// A home with the thread `t`, whose run failed.
fn failed() -> Home {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let args = ["run", "failing", "--thread", "t", "--input-json", "{}"];
    let came = told(&home, Some("no luck"), &args);
    assert_eq!(came.status, Some(1), "{came:?}");
    home
}

fn told(home: &Home, fails: Option<&str>, args: &[&str]) -> Came {
    let mut command = home.program(&trial::program(), args);
    if let Some(why) = fails {
        command.env("WEFT_TRIAL_FAILS", why);
    }
    command.output().expect("it starts").into()
}

/// The run that the thread shows as failed.
fn run_of(home: &Home) -> String {
    let shown = told(home, None, &["threads", "show", "t"]).out;
    let (_, rest) = shown.split_once("no luck (run ").expect("a failed run");
    rest.split_once(')').expect("its id").0.to_owned()
}

#[test]
fn a_failed_run_is_requeued_and_goes_on_here() {
    let home = failed();
    let run = run_of(&home);
    let came = told(&home, Some("no luck"), &["runs", "requeue", &run]);
    assert_eq!(came.status, Some(1), "it fails once more: {came:?}");
    assert_eq!(run_of(&home), run, "it is the same run");
    let came = told(&home, None, &["runs", "requeue", &run, "--json"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let outcome = came.out.lines().last().expect("a line");
    assert!(outcome.contains(&run) && outcome.contains("\"name\":\"done\""), "{came:?}");
    let came = told(&home, None, &["runs", "requeue", &run]);
    assert_eq!(came.status, Some(2), "{came:?}");
    let refused =
        format!("error[W0217]: run `{run}` of thread `t` cannot be requeued: it completed");
    assert!(came.errors.contains(&refused), "{came:?}");
    let came = told(&home, None, &["runs", "requeue", "nobody"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("run `nobody` does not exist"), "{came:?}");
}

#[test]
fn a_run_that_is_only_put_back_waits_for_a_worker() {
    let home = failed();
    let run = run_of(&home);
    let came = told(&home, None, &["runs", "requeue", &run, "--leave"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(came.errors, format!("run {run} of thread t waits for a worker\n"));
    assert!(told(&home, None, &["threads", "list"]).out.contains("not begun"));
    let came = told(&home, None, &["runs", "requeue", &run, "--leave"]);
    assert!(came.errors.contains("error[W0202]"), "{came:?}");
    // An answer to nothing that was seen is no reason to go on.
    for answer in [&["--reject"][..], &["--answer", "yes"], &["--answer-json", "x=1"]] {
        let came = told(&home, None, &[&["threads", "resume", "t"][..], answer].concat());
        assert_eq!(came.status, Some(2), "{came:?}");
        assert!(came.errors.contains("error[W0709]"), "{came:?}");
        assert!(came.errors.contains("was not finished"), "{came:?}");
    }
    assert!(told(&home, None, &["threads", "list"]).out.contains("not begun"));
    let came = told(&home, None, &["threads", "resume", "t"]);
    assert_eq!(came.status, Some(0), "{came:?}");
}

#[test]
fn a_run_on_a_busy_thread_is_refused_or_waits_for_its_turn() {
    let home = failed();
    let run = run_of(&home);
    told(&home, None, &["runs", "requeue", &run, "--leave"]);
    let again = ["run", "failing", "--thread", "t", "--input-json", "{}"];
    let came = told(&home, None, &again);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("error[W0202]"), "{came:?}");
    let came = told(&home, None, &[&again[..], &["--multitask", "enqueue", "--json"]].concat());
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("waits for its turn"), "{came:?}");
    let shown = told(&home, None, &["threads", "show", "t"]).out;
    let ended: Vec<_> = shown.lines().filter(|line| line.starts_with("run ")).collect();
    assert_eq!(ended.len(), 2, "{shown}");
    assert!(ended.iter().all(|line| line.ends_with("completed")), "nobody else had it: {shown}");
}
