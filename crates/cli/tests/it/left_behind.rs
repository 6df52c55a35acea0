//! Tests of unfinished runs with a dead or a live process: cancelling, deleting, listing.

use crate::home::{Came, Home, read_until};
use crate::trial::program;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

fn trial(home: &Home, args: &[&str]) -> Came {
    home.program(&program(), args).output().expect("it starts").into()
}

/// Starts a run of the thread `t` that waits in a tool.
fn waiting(home: &Home) -> Child {
    begun(home, "Please wait long.", "→ wait_long")
}

/// Starts a run of the thread `t`, and waits until its output contains `until`.
fn begun(home: &Home, said: &str, until: &str) -> Child {
    let args = ["run", "trial", "--thread", "t", "--model", "scripted", "--input"];
    let args = [&args[..], &[said]].concat();
    let mut command = home.program(&program(), &args);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    read_until(&mut out, until);
    child.stdout = Some(out.into_inner());
    child
}

/// Creates a home with a waiting run whose process was killed.
fn killed() -> Home {
    let home = Home::new();
    let mut child = waiting(&home);
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    home
}

/// Returns the run id in the command that `weft threads show` prints to cancel the run.
fn run_of(home: &Home) -> String {
    let shown = trial(home, &["threads", "show", "t"]);
    let (_, rest) =
        shown.out.split_once("weft runs cancel ").unwrap_or_else(|| panic!("{shown:?}"));
    rest.lines().next().expect("its id").to_owned()
}

#[test]
fn a_run_whose_process_is_gone_is_shown_as_that_and_cancelled() {
    let home = killed();
    let listed = trial(&home, &["threads", "list"]).out;
    assert!(listed.contains("not finished") && !listed.contains("running"), "{listed}");
    let shown = trial(&home, &["threads", "show", "t"]).out;
    assert!(shown.contains("  no process executes it: weft threads resume t"), "{shown}");
    // The commands that are printed have the flags of the one that prints them.
    let store = format!("sqlite:{}", home.store_file().display());
    let shown = trial(&home, &["--store", &store, "threads", "show", "t"]).out;
    let resume = format!("weft --store {store} threads resume t");
    assert!(shown.contains(&resume), "{shown}");
    let more = ["run", "trial", "--thread", "t", "--input", "And?", "--store", &store];
    let busy = trial(&home, &[&more[..], &["--model", "scripted"]].concat());
    let resume = format!("weft --store {store} --model scripted threads resume t");
    assert_eq!(busy.status, Some(2), "{busy:?}");
    assert!(busy.errors.contains("no process executes run"), "{busy:?}");
    assert!(busy.errors.contains(&resume), "{busy:?}");
    // A build without the agent can cancel the run.
    let run = run_of(&home);
    let came = home.weft(&["runs", "cancel", &run]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(came.errors, format!("run {run} of thread t: cancelled\n"));
    let came = home.weft(&["runs", "cancel", &run]);
    assert_eq!(came.status, Some(0), "{came:?}");
    assert_eq!(came.errors, format!("run {run} has already ended: cancelled\n"));
    let came = home.weft(&["runs", "cancel", "nobody"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("run `nobody` does not exist"), "{came:?}");
    // The messages are kept, and the thread continues with new input.
    let went =
        ["run", "trial", "--thread", "t", "--model", "scripted", "--input", "Please panic now."];
    let came = trial(&home, &went);
    assert_eq!(came.status, Some(0), "{came:?}");
    let shown = trial(&home, &["threads", "show", "t"]).out;
    assert!(shown.contains("you> Please wait long.") && shown.contains("completed"), "{shown}");
    assert_eq!(home.weft(&["store", "verify"]).status, Some(0));
}

#[test]
fn a_thread_whose_process_is_gone_is_deleted_without_its_agent() {
    let home = killed();
    let came = home.weft(&["threads", "delete", "t"]);
    assert_eq!(came.status, Some(2), "it needs confirmation: {came:?}");
    let came = home.weft(&["threads", "delete", "t", "--yes"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let came = home.weft(&["threads", "show", "t"]);
    assert!(came.errors.contains("thread `t` does not exist"), "{came:?}");
    let bytes = std::fs::read(home.store_file()).expect("the store");
    let said = b"Please wait long.";
    assert!(!bytes.windows(said.len()).any(|some| some == said), "nothing is left in the file");
}

#[test]
fn old_threads_with_unfinished_runs_are_deleted_only_on_request() {
    let home = killed();
    let said = ["run", "trial", "--thread", "new", "--model", "scripted", "--input", "Hello"];
    assert_eq!(trial(&home, &said).status, Some(0));
    let conn = rusqlite::Connection::open(home.store_file()).expect("opens");
    let year = 365 * 86_400_000_i64;
    let sql = "UPDATE threads SET updated_at = updated_at - ?1 WHERE id = 't'";
    conn.execute(sql, [year]).expect("done");
    // The time of the last commit counts as well.
    let sql = "UPDATE log SET at = at - ?1 WHERE place >> 32 =
                   (SELECT number FROM runs WHERE thread = 't')";
    conn.execute(sql, [year]).expect("done");
    drop(conn);
    let prune = |more: &[&str]| {
        home.weft(&[&["threads", "prune", "--older-than", "30d"][..], more].concat())
    };
    let came = prune(&["--yes"]);
    assert_eq!(
        came.errors,
        "0 threads; nothing was changed\n\
         1 more threads have an unfinished run; delete them too with --unfinished\n"
    );
    let came = prune(&["--unfinished", "--dry-run"]);
    assert!(came.out.contains("t ") && came.errors.starts_with("1 threads;"), "{came:?}");
    let came = prune(&["--unfinished"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("deleting 1 threads with"), "{came:?}");
    assert_eq!(prune(&["--unfinished", "--yes"]).errors, "deleted 1 threads\n");
    let listed = home.weft(&["threads", "list", "--json"]).out;
    assert!(listed.contains("\"new\"") && !listed.contains("\"t\""), "{listed}");
}

#[test]
fn a_run_whose_process_is_there_is_stopped_there() {
    let home = Home::new();
    let child = waiting(&home);
    let came = home.weft(&["threads", "delete", "t", "--yes"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("error[W0202]: thread `t` is busy"), "{came:?}");
    let shown = trial(&home, &["threads", "show", "t"]).out;
    assert!(shown.contains("if its process is dead: weft threads resume t"), "{shown}");
    let run = run_of(&home);
    let came = home.weft(&["runs", "cancel", &run]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let asked = format!("requested cancellation of run {run} from its process\n");
    assert_eq!(came.errors, format!("{asked}run {run} of thread t: cancelled\n"));
    let ended: Came = child.wait_with_output().expect("it ends").into();
    assert_eq!(ended.status, Some(4), "{ended:?}");
    assert_eq!(home.weft(&["threads", "delete", "t", "--yes"]).status, Some(0));
}

#[test]
fn a_process_that_dies_instead_of_stopping_is_not_waited_for() {
    let home = Home::new();
    let mut stubborn = begun(&home, "Please compute stubbornly.", "computing");
    let run = run_of(&home);
    let mut cancel = home.command(&["runs", "cancel", &run]);
    let mut cancel = cancel.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut told = BufReader::new(cancel.stderr.take().expect("a pipe"));
    let mut line = String::new();
    told.read_line(&mut line).expect("read");
    assert_eq!(line, format!("requested cancellation of run {run} from its process\n"));
    stubborn.kill().expect("it is there");
    stubborn.wait().expect("it ends");
    line.clear();
    told.read_line(&mut line).expect("read");
    assert_eq!(line, format!("run {run} of thread t: cancelled\n"));
    assert!(cancel.wait().expect("it ends").success());
}

#[test]
fn a_run_that_waits_behind_another_one_is_cancelled_after_it() {
    let home = killed();
    let first = run_of(&home);
    let next = ["run", "trial", "--thread", "t", "--model", "scripted", "--multitask", "enqueue"];
    let mut next = home.program(&program(), &[&next[..], &["--input", "Hello"]].concat());
    let mut next = next.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut told = BufReader::new(next.stderr.take().expect("a pipe"));
    read_until(&mut told, "the run is queued");
    next.kill().expect("it is there");
    next.wait().expect("it ends");
    let conn = rusqlite::Connection::open(home.store_file()).expect("opens");
    let sql = "SELECT id FROM runs WHERE status = 'queued'";
    let queued: String = conn.query_row(sql, [], |row| row.get(0)).expect("a queued run");
    drop(conn);
    let came = home.weft(&["runs", "cancel", &queued]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let behind = format!(
        "after run {first}, which no process executes; end that one with: weft runs cancel {first}"
    );
    assert!(came.errors.contains(&behind), "{came:?}");
    for run in [&first, &queued] {
        let came = home.weft(&["runs", "cancel", run]);
        assert_eq!(came.errors, format!("run {run} of thread t: cancelled\n"), "{came:?}");
    }
}

#[test]
fn a_thread_that_waits_is_not_deleted_for_a_run_that_was_not_finished() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let run =
        |input: &str| trial(&home, &["run", "changing", "--thread", "t", "--input-json", input]);
    assert_eq!(run("{}").status, Some(3), "it asks");
    let wrong = run("{\"nmae\":1}");
    let (_, id) = wrong.errors.split_once("weft runs requeue ").expect("the failed run");
    let left = trial(&home, &["runs", "requeue", id.trim(), "--leave"]);
    assert_eq!(left.status, Some(0), "{left:?}");
    let conn = rusqlite::Connection::open(home.store_file()).expect("opens");
    for sql in ["UPDATE threads SET updated_at = 1", "UPDATE log SET at = 1"] {
        conn.execute(sql, []).expect("done");
    }
    drop(conn);
    let prune = |more: &[&str]| {
        home.weft(&[&["threads", "prune", "--older-than", "30d", "--yes"][..], more].concat())
            .errors
    };
    for flags in [&[][..], &["--unfinished"], &["--waiting", "--dry-run"]] {
        let told = prune(flags);
        assert!(told.starts_with("0 threads; nothing was changed\n"), "{flags:?}: {told}");
    }
    assert_eq!(prune(&["--unfinished", "--waiting"]), "deleted 1 threads\n");
}
