//! Tests of `weft worker`.

use crate::database;
use crate::home::{Came, Home};
use crate::trial;
use crate::watch::{waiting, waiting_on};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command};

fn weft(home: &Home, args: &[&str]) -> Came {
    home.program(&trial::program(), args).output().expect("it starts").into()
}

/// A worker, and its output.
pub(crate) struct Worker {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(home: &Home, more: &[&str]) -> Self {
        let args = [&["worker", "--json"][..], more].concat();
        let mut child = home.program(&trial::program(), &args).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out }
    }

    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).expect("read") > 0, "the worker ended");
        serde_json::from_str(&line).expect("JSON")
    }

    pub(crate) fn terminate(&self) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args(["-TERM", &id]).status().expect("kill starts");
        assert!(done.success());
    }

    pub(crate) fn end(mut self) -> Came {
        let mut out = String::new();
        let mut errors = String::new();
        self.out.read_to_string(&mut out).expect("read");
        let stderr = self.child.stderr.as_mut().expect("a pipe");
        stderr.read_to_string(&mut errors).expect("read");
        Came { status: self.child.wait().expect("it ends").code(), out, errors }
    }
}

/// A worker takes over the run of a killed process, and releases it when it is drained.
fn takes_over_and_drains(home: &Home) {
    let mut killed = waiting(home);
    killed.kill().expect("it is there");
    killed.wait().expect("it ends");
    let mut worker = Worker::start(home, &["--grace", "1s"]);
    let begun = worker.line();
    assert_eq!(begun["type"], "run_begun");
    assert_eq!((&begun["thread"], &begun["graph"]), (&"t".into(), &"app:trial".into()));
    let run = begun["run"].as_str().expect("an id").to_owned();
    worker.terminate();
    let released = worker.line();
    assert_eq!((&released["type"], &released["run"]), (&"run_released".into(), &begun["run"]));
    let came = worker.end();
    assert_eq!(came.status, Some(0), "{came:?}");
    assert!(came.errors.contains("draining: 1 active runs"), "{came:?}");
    assert!(came.errors.ends_with("drained\n"), "{came:?}");
    let shown = weft(home, &["runs", "show", &run]).out;
    assert!(shown.contains("status   not finished"), "{shown}");
    // The next worker takes it over at once; a request to cancel the run reaches it.
    let mut worker = Worker::start(home, &[]);
    assert_eq!(worker.line()["run"], begun["run"]);
    let came = weft(home, &["runs", "cancel", &run]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let ended = worker.line();
    assert_eq!((&ended["type"], &ended["status"]), (&"run_ended".into(), &"cancelled".into()));
    worker.terminate();
    assert_eq!(worker.end().status, Some(0));
}

#[test]
fn a_worker_takes_over_and_drains_over_sqlite() {
    takes_over_and_drains(&Home::new().set("WEFT_MODEL", "scripted"));
}

#[test]
fn a_worker_takes_over_and_drains_over_postgres() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    takes_over_and_drains(&home.set("WEFT_STORE", &database::fresh()));
}

#[test]
fn a_worker_executes_runs_that_were_left_to_it() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let mut failing =
        home.program(&trial::program(), &["run", "failing", "--thread", "t", "--input-json", "{}"]);
    let failed: Came = failing.env("WEFT_TRIAL_FAILS", "no luck").output().expect("starts").into();
    assert_eq!(failed.status, Some(1), "{failed:?}");
    let listed = weft(&home, &["runs", "list", "--json"]).out;
    let row: Value = serde_json::from_str(&listed).expect("JSON");
    let run = row["new"]["at"]["run"].as_str().expect("an id");
    assert_eq!(weft(&home, &["runs", "requeue", run, "--leave"]).status, Some(0));
    let mut worker = Worker::start(&home, &[]);
    assert_eq!(worker.line()["run"], run);
    let ended = worker.line();
    assert_eq!((&ended["run"], &ended["status"]), (&run.into(), &"completed".into()));
    worker.terminate();
    let came = worker.end();
    assert_eq!((came.status, came.out.as_str()), (Some(0), ""), "{came:?}");
}

/// Each of three runs that were left behind begins when there is room for it.
#[test]
fn a_worker_executes_at_most_so_many_runs_at_a_time() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    for thread in ["a", "b", "c"] {
        let mut killed = waiting_on(&home, thread);
        killed.kill().expect("it is there");
        killed.wait().expect("it ends");
    }
    let mut worker = Worker::start(&home, &["--concurrency", "2", "--grace", "1s"]);
    let first = worker.line();
    let second = worker.line();
    for begun in [&first, &second] {
        assert_eq!(begun["type"], "run_begun");
    }
    // Runs that are found together are claimed before the first of them is reported.
    let workers = || -> Vec<String> {
        let listed = weft(&home, &["runs", "list", "--json"]).out;
        let rows = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        rows.map(|row| row["worker"].as_str().expect("an id").to_owned()).collect()
    };
    let count = |workers: &[String]| {
        let most = workers.iter().map(|one| workers.iter().filter(|other| *other == one).count());
        most.max()
    };
    assert_eq!(count(&workers()), Some(2), "one waits in the store");
    let run = first["run"].as_str().expect("an id");
    assert_eq!(weft(&home, &["runs", "cancel", run]).status, Some(0));
    // The third one begins when there is room, which may be before the end is reported.
    let mut ended = worker.line();
    let mut third = worker.line();
    if third["type"] == "run_ended" {
        std::mem::swap(&mut ended, &mut third);
    }
    assert_eq!((&ended["type"], &ended["run"]), (&"run_ended".into(), &first["run"]));
    assert_eq!(third["type"], "run_begun");
    let mut threads = [&first, &second, &third].map(|begun| begun["thread"].as_str());
    threads.sort_unstable();
    assert_eq!(threads, [Some("a"), Some("b"), Some("c")]);
    worker.terminate();
    let came = worker.end();
    assert_eq!(came.status, Some(0), "{came:?}");
    let none = weft(&home, &["worker", "--concurrency", "0"]);
    assert_eq!(none.status, Some(2), "{none:?}");
}

#[test]
fn a_worker_needs_a_store_that_others_use() {
    let home = Home::new().set("WEFT_MODEL", "scripted");
    let came = weft(&home, &["worker", "--store", "memory"]);
    assert_eq!(came.status, Some(2), "{came:?}");
    assert!(came.errors.contains("a worker needs a store"), "{came:?}");
}

/// Begins a run of the agent `golf`, and kills its process while the model is asked.
async fn killed_run(home: &Home, asked: &mut tokio::sync::mpsc::UnboundedReceiver<()>) {
    let mut child = home.command(&["agents", "run", "golf", "Hello"]).spawn().expect("it starts");
    asked.recv().await.expect("is asked");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
}

/// A server of a model that never answers, with a report of each request.
async fn hanging_model()
-> (weftwork_testkit::LoopbackServer, tokio::sync::mpsc::UnboundedReceiver<()>) {
    let (sender, asked) = tokio::sync::mpsc::unbounded_channel();
    let model = weftwork_testkit::LoopbackServer::start(move |_, _| {
        // Later requests are those of the worker, which nobody waits for.
        sender.send(()).unwrap_or_default();
        weftwork_testkit::Reply::nothing().hang()
    });
    (model.await.expect("a server"), asked)
}

/// A worker executes runs of definitions that were added to the store after it had started.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_follows_the_definitions_of_its_store() {
    let (model, mut asked) = hanging_model().await;
    let home = Home::new().provider(&model.url("/v1"));
    let mut worker = Worker::start(&home, &["--grace", "1s"]);
    std::fs::create_dir_all(home.path("drafts/golf")).expect("is made");
    std::fs::write(home.path("drafts/golf/agent.yaml"), "type: context\n").expect("is written");
    let added = home.weft(&["agents", "add", "drafts/golf"]);
    assert_eq!(added.status, Some(0), "{added:?}");
    killed_run(&home, &mut asked).await;
    let begun = tokio::task::block_in_place(|| worker.line());
    assert_eq!(begun["type"], "run_begun");
    assert!(begun["graph"].as_str().is_some_and(|of| of.starts_with("agents:golf@")), "{begun}");
    worker.terminate();
    tokio::task::block_in_place(|| worker.end());
}

/// A run whose agent cannot be built here stays for others, and is not named by each look for runs.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_agents_that_cannot_be_built_do_not_fill_the_log() {
    let (model, mut asked) = hanging_model().await;
    let home = Home::new().provider(&model.url("/v1"));
    std::fs::create_dir_all(home.path("agents/golf")).expect("is made");
    let text = "type: context\nllm: {provider: fake, model: desk}\n";
    std::fs::write(home.path("agents/golf/agent.yaml"), text).expect("is written");
    killed_run(&home, &mut asked).await;
    // This process has no such provider.
    let home = home.config("model = \"scripted\"\n");
    tokio::task::block_in_place(|| {
        let mut worker = Worker::start(&home, &["--grace", "1s"]);
        for thread in ["t1", "t2", "t3"] {
            let mut killed = waiting_on(&home, thread);
            killed.kill().expect("it is there");
            killed.wait().expect("it ends");
            assert_eq!(worker.line()["thread"], thread, "the others are taken over");
        }
        worker.terminate();
        let came = worker.end();
        assert!(came.errors.lines().count() < 12, "{came:?}");
        assert!(!came.errors.contains("WARN"), "{came:?}");
    });
}
