//! A process that is killed inside the call of a tool: the process that takes the run over sends one tree,
//! under the span of the client of the first.

use super::collector::{Collector, Spans, text};
use super::desk::{Desk, SPAN, WAIT, sampled, settings_for};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use weftwork::config::StorePlace;
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};

/// Names the folder of a story, in the process that is killed.
const FOLDER: &str = "WEFT_TEST_TRACED";
/// Address of the collector, in that process.
const COLLECTOR: &str = "WEFT_TEST_TRACED_COLLECTOR";

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the folder of the story"))
}

/// Pays. The first process waits here to be killed.
#[tool(effect = external_side_effect, on_unknown = idempotent, timeout_ms = 600000)]
async fn pay(euros: u32) -> String {
    let place = folder().join("pay");
    if !place.exists() {
        std::fs::write(place, "").expect("writes");
        std::future::pending::<()>().await;
    }
    format!("paid {euros}")
}

/// Looks something up.
#[tool]
fn look_up(order: String) -> String {
    order
}

/// A model whose answers depend on the results alone, so that each process has the same.
#[derive(Debug)]
struct Mind {
    info: ModelInfo,
    role: &'static str,
}

impl ChatModel for Mind {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let results = request.messages.iter().flat_map(Message::tool_results).count();
        let step = match (self.role, results) {
            ("desk", 0) => Step::calls(vec![
                ("look_up".to_owned(), json!({"order": "A1"})),
                ("ask_cashier".to_owned(), json!({"request": "Pay."})),
            ]),
            ("cashier", 0) => Step::call("look_up", json!({"order": "A2"})),
            ("cashier", 1) => Step::call("pay", json!({"euros": 5})),
            _ => Step::text("Done."),
        };
        ScriptedModel::from_steps(vec![step]).stream(request)
    }
}

fn mind(role: &'static str) -> Arc<dyn ChatModel> {
    Arc::new(Mind { info: ScriptedModel::rules().info().clone(), role })
}

fn team() -> CompiledGraph {
    let policy = || Policy::new().allow("*").expect("a name");
    let cashier = ReactAgent::new("cashier", mind("cashier"))
        .tools(ToolBox::new().with(look_up).with(pay))
        .policy(policy());
    let cashier = cashier.as_tool("ask_cashier", "pays").expect("sound");
    let tools = ToolBox::new().with(look_up).with(cashier);
    ReactAgent::new("desk", mind("desk")).tools(tools).policy(policy()).build().expect("sound")
}

/// Begins the run for a client, or takes it over, and brings it to its end.
async fn tell() {
    let url = std::env::var(COLLECTOR).expect("an address");
    let store = StorePlace::Sqlite(folder().join("weft.db")).open().expect("opens");
    let is_begun = folder().join("pay").exists();
    let desk = Desk::over(store, team(), settings_for(&url, &[])).await;
    if !is_begun {
        let message = json!({"role": "user", "content": "Pay me."});
        let input = json!({"input": {"messages": [message]}});
        desk.post("t", Some(&sampled()), input).await;
    }
    let thread = desk.runtime.thread("desk", "t").expect("an id");
    loop {
        match thread.resume().await {
            Ok(resumed) => {
                resumed.await.output().expect("completes");
                break;
            }
            // The death of the process before is not known yet.
            Err(error) if error.fault().retriable => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    desk.close().await;
}

/// The process that is killed. Without a story it is no test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_traced() {
    if std::env::var_os(FOLDER).is_some() {
        tell().await;
    }
}

fn process(folder: &Path, collector: &Collector) -> Child {
    let this = std::env::current_exe().expect("the test");
    let mut process = Command::new(this);
    process.args(["--exact", "traces::killed::a_process_that_is_traced"]);
    process.env(FOLDER, folder).env(COLLECTOR, collector.url()).spawn().expect("starts")
}

async fn wait(mut process: Child) -> bool {
    let ended = tokio::task::spawn_blocking(move || process.wait().expect("ends").success());
    ended.await.expect("waits")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_taken_over_is_one_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let collector = Collector::start().await;
    let mut first = process(folder.path(), &collector);
    let at_place = async {
        while !folder.path().join("pay").exists() {
            assert!(first.try_wait().expect("is asked").is_none(), "it did not come to the call");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WAIT, at_place).await.expect("comes to the call");
    first.kill().expect("is killed");
    wait(first).await;
    assert!(wait(process(folder.path(), &collector)).await);
    let spans: Spans = collector.spans();
    let roots = spans.roots();
    assert_eq!(roots.len(), 1, "{}", spans.tree());
    assert_eq!(hex(&roots[0].parent_span_id), SPAN);
    assert_eq!(spans.doubled(), Vec::<String>::new());
    let count = |name: &str| spans.0.iter().filter(|span| span.name == name).count();
    // Two answers of the desk and three of the cashier; two calls of one tool, and one of the others.
    assert_eq!(count("chat rules"), 5, "{}", spans.tree());
    let tools =
        ["look_up", "ask_cashier", "pay"].map(|tool| count(&format!("execute_tool {tool}")));
    assert_eq!(tools, [2, 1, 1], "{}", spans.tree());
    assert_eq!(text(spans.named("execute_tool pay"), "weft.outcome"), Some("ok"));
    insta::assert_snapshot!("taken_over", spans.tree());
}
