//! Processes that are killed between the attempts of a call, and within one: the next process makes
//! the attempts that are left, and the call has one record.

use crate::stores;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use weftwork::prelude::*;
use weftwork::runtime::LeaseConfig;
use weftwork::tools::RetryPolicy;
use weftwork::types::port::{CallRecord, CallState};
use weftwork::types::{Principal, ThreadId};

/// Names the folder of a story, in the process that is killed.
const FOLDER: &str = "WEFT_TEST_RETRY";
/// Names the tool that the story calls, in that process.
const TOOL: &str = "WEFT_TEST_RETRY_TOOL";
/// Names the place at which that process waits to be killed: `in 2` is in the second attempt,
/// `after 2` in the wait after it.
const PLACE: &str = "WEFT_TEST_RETRY_PLACE";
const ATTEMPTS_MAX: u32 = 3;

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the folder of the story"))
}

/// Makes an attempt, which fails.
async fn make_attempt(context: &ToolContext) -> ToolError {
    let path = folder().join("made");
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    writeln!(file.as_mut().expect("opens"), "{}", context.idempotency_key).expect("writes");
    let number = std::fs::read_to_string(&path).expect("reads").lines().count();
    let place = std::env::var(PLACE).unwrap_or_default();
    let failed = ToolError::unavailable("the shop is closed");
    if place == format!("in {number}") {
        std::fs::write(folder().join("reached"), "").expect("writes");
        std::future::pending::<()>().await;
    }
    if place == format!("after {number}") {
        std::fs::write(folder().join("reached"), "").expect("writes");
        return failed.retry_after(Duration::from_secs(3600));
    }
    failed
}

/// Reads a price.
#[tool(timeout_ms = 600000)]
async fn read_price(context: ToolContext) -> Result<String, ToolError> {
    Err(make_attempt(&context).await)
}

/// Orders a lamp.
#[tool(effect = external_side_effect, on_unknown = idempotent, timeout_ms = 600000)]
async fn order_lamp(context: ToolContext) -> Result<String, ToolError> {
    Err(make_attempt(&context).await)
}

#[derive(Debug, State)]
struct Job {
    tool: String,
    said: String,
}

async fn work(job: State<Job>, tools: Tools) -> NodeResult<JobUpdate> {
    let tool = job.tool().cloned().unwrap_or_default();
    let said = match tools.call(&tool, json!({})).await {
        Err(ToolCallError::Failed(failure)) => failure.safe_message,
        other => other?.value.to_string(),
    };
    Ok(JobUpdate::new().said(said))
}

fn graph() -> CompiledGraph {
    let retry = RetryPolicy {
        attempts_max: ATTEMPTS_MAX,
        backoff_first: Duration::from_millis(2),
        retry_after_max: Duration::from_secs(7200),
        ..RetryPolicy::default()
    };
    let policy = Policy::builder().allow("*").retry(retry).build().expect("a policy");
    let tools = ToolBox::new().with(read_price).with(order_lamp);
    let graph = Graph::<Job>::new("job").with(ToolRunner::new(tools, policy).expect("tools"));
    graph.node("work", work).edge(START, "work").build().expect("sound")
}

/// Brings the story to its end, or to the place of the kill.
async fn tell() {
    let beat = Duration::from_millis(50);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
    let runtime = Runtime::builder(stores::sqlite(&folder())).lease(lease).graph("job", graph());
    let runtime = runtime.open().await.expect("opens");
    let id = ThreadId::new("t").expect("an id");
    let thread = runtime.thread("job", id.as_str()).expect("hosted");
    let mut begun = runtime.threads().get(&id).await.is_ok();
    loop {
        let tool = std::env::var(TOOL).expect("the tool of the story");
        let ended = match begun {
            true => match thread.resume().await {
                Ok(resumed) => Ok(resumed.await),
                Err(error) => Err(error),
            },
            false => thread.start(json!({"tool": tool})).await,
        };
        begun = true;
        match ended {
            Ok(ended) => {
                let output = ended.output().expect("completed");
                std::fs::write(folder().join("said"), output["said"].to_string()).expect("writes");
                return;
            }
            // The death of the process before is not known yet.
            Err(error) if error.fault().retriable => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The process that is killed. Without a story it is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_a_call() {
    if std::env::var_os(FOLDER).is_some() {
        tell().await;
    }
}

fn process(folder: &Path, tool: &str, place: &str) -> Child {
    let this = std::env::current_exe().expect("the test");
    let mut process = Command::new(this);
    process.args(["--exact", "retry_kills::a_process_of_a_call"]);
    process.env(FOLDER, folder).env(TOOL, tool).env(PLACE, place).spawn().expect("starts")
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).expect("reads")
}

async fn record(folder: &Path) -> CallRecord {
    let t = ThreadId::new("t").expect("an id");
    let calls = stores::sqlite(folder).calls(&Principal::local(), &t).await.expect("reads");
    let [call] = &calls[..] else { panic!("one call, found {calls:?}") };
    call.clone()
}

async fn tell_a_story(tool: &str, place: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let at = format!("{tool}, killed {place}");
    let mut first = process(folder, tool, place);
    while !folder.join("reached").exists() {
        assert!(first.try_wait().expect("is asked").is_none(), "{at}: it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    if place.starts_with("after") {
        // The attempt returns, and the wait begins.
        std::thread::sleep(Duration::from_millis(30));
    }
    first.kill().expect("is killed");
    first.wait().expect("is gone");
    assert!(process(folder, tool, "").wait().expect("ends").success(), "{at}");

    let made = read(folder, "made");
    let keys: BTreeSet<&str> = made.lines().collect();
    let made = made.lines().count();
    assert_eq!(keys.len(), 1, "{at}: one key for all attempts");
    let most = ATTEMPTS_MAX as usize + 1;
    assert!((most - 1..=most).contains(&made), "{at}: {made} attempts");
    let call = record(folder).await;
    assert_eq!(call.state, CallState::Settled, "{at}: {call:?}");
    let said = read(folder, "said");
    assert!(said.contains("the shop is closed; "), "{at}: {said}");
    let recorded: &Value = &call.result.as_ref().expect("a result").value["safe_message"];
    assert_eq!(recorded.to_string(), said, "{at}");
    match tool {
        "order_lamp" => assert_eq!(call.made as usize, made, "{at}: {call:?}"),
        _ => assert!(made <= 1 + call.possibly_paid as usize, "{at}: {made}, {call:?}"),
    }
}

#[tokio::test]
async fn a_killed_process_leaves_the_attempts_that_it_has_not_made() {
    for (tool, places) in
        [("read_price", ["in 1", "after 2", "in 3"]), ("order_lamp", ["after 1", "in 2", "in 3"])]
    {
        for place in places {
            tell_a_story(tool, place).await;
        }
    }
}
