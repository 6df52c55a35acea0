//! Processes that are killed while a member of a team asks, and inside the call of its tool: the
//! team ends as without a kill, and pays once.

use crate::stores;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;
use weftwork::agents::{Supervisor, Swarm};
use weftwork::models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork::prelude::*;
use weftwork::runtime::LeaseConfig;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;
use weftwork::types::ThreadId;

/// Names the folder of a story, in the process that is killed.
const FOLDER: &str = "WEFT_TEST_TEAM";
/// Names the form of the team, in that process.
const FORM: &str = "WEFT_TEST_TEAM_FORM";
/// Names the place at which that process waits to be killed.
const PLACE: &str = "WEFT_TEST_TEAM_PLACE";

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the folder of the story"))
}

/// Adds a line to a file of the story.
fn note(file: &str, line: &str) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(folder().join(file));
    writeln!(file.expect("opens"), "{line}").expect("writes");
}

/// Reports that the process is at a place, and waits there if it is to be killed at it.
async fn at(place: &str) {
    if std::env::var(PLACE).is_ok_and(|killed_at| killed_at == place) {
        std::fs::write(folder().join(place), "").expect("writes");
        std::future::pending::<()>().await;
    }
}

/// Pays an amount.
#[tool(effect = external_side_effect, on_unknown = idempotent, timeout_ms = 600000)]
async fn pay(euros: u32, context: ToolContext) -> String {
    note("paid", &context.idempotency_key);
    at("pay").await;
    format!("paid {euros}")
}

/// A model whose answers depend on the results alone, so that each process has the same.
#[derive(Debug)]
struct Mind(ModelInfo, &'static str);

impl ChatModel for Mind {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let results = request.messages.iter().flat_map(Message::tool_results).count();
        note("asked", &format!("{} {results}", self.1));
        let step = match (self.1, results) {
            ("tool", 0) => Step::call("ask_cashier", json!({"request": "Pay."})),
            ("cashier", 0) => Step::call("ask_human", json!({"question": "Which account?"})),
            ("cashier", 1) => Step::call("pay", json!({"euros": 5})),
            (_, 0) => Step::call("transfer_to_cashier", json!({})),
            _ => Step::text("Done."),
        };
        ScriptedModel::from_steps(vec![step]).stream(request)
    }
}

fn mind(name: &'static str) -> Arc<dyn ChatModel> {
    Arc::new(Mind(ScriptedModel::rules().info().clone(), name))
}

fn team(form: &str) -> CompiledGraph {
    let policy = Policy::new().allow("pay").expect("a name");
    let cashier = ReactAgent::new("cashier", mind("cashier"))
        .tools(ToolBox::new().with(pay).with_ask_human())
        .policy(policy);
    let built = match form {
        "supervisor" => Supervisor::new("team", mind("supervisor"))
            .member(cashier.build().expect("sound"), "pays")
            .build(),
        "swarm" => Swarm::new("team")
            .member(ReactAgent::new("clerk", mind("clerk")), "greets")
            .member(cashier, "pays")
            .build(),
        _ => {
            let cashier = cashier.as_tool("ask_cashier", "pays").expect("sound");
            ReactAgent::new("team", mind("tool")).tools(ToolBox::new().with(cashier)).build()
        }
    };
    built.expect("a sound team")
}

/// Brings the story to its end, or to the place of the kill.
async fn tell() {
    let beat = Duration::from_millis(100);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
    let form = std::env::var(FORM).expect("the form of the team");
    let runtime =
        Runtime::builder(stores::sqlite(&folder())).lease(lease).graph("team", team(&form));
    let runtime = runtime.open().await.expect("opens");
    let id = ThreadId::new("t").expect("an id");
    let thread = runtime.thread("team", id.as_str()).expect("hosted");
    let mut begun = runtime.threads().get(&id).await.is_ok();
    loop {
        let open = match begun {
            true => thread.questions().await.expect("reads"),
            false => Vec::new(),
        };
        let parts = json!([{"type": "text", "text": "Pay me."}]);
        let said = json!({"messages": [{"id": "m", "role": "user", "parts": parts}]});
        let ended = match open.first() {
            Some(question) => {
                assert_eq!(question.graph.as_deref(), Some("cashier"));
                at("question").await;
                thread.answer(json!("the first")).await
            }
            None if begun => match thread.resume().await {
                Ok(resumed) => Ok(resumed.await),
                Err(error) => Err(error),
            },
            None => thread.start(said).await,
        };
        begun = true;
        match ended {
            Ok(ended) if ended.output().is_ok() => return,
            Ok(ended) => assert_eq!(ended.questions().len(), 1, "{:?}", ended.outcome()),
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
async fn a_process_of_a_team() {
    if std::env::var_os(FOLDER).is_some() {
        tell().await;
    }
}

fn process(folder: &Path, form: &str, place: &str) -> Child {
    let this = std::env::current_exe().expect("the test");
    let mut process = Command::new(this);
    process.args(["--exact", "team_kills::a_process_of_a_team"]);
    process.env(FOLDER, folder).env(FORM, form).env(PLACE, place).spawn().expect("starts")
}

#[test]
fn a_team_that_is_killed_asks_and_pays_once() {
    for (form, lead_calls) in [("supervisor", 2), ("swarm", 1), ("tool", 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        for place in ["question", "pay"] {
            let mut process = process(folder.path(), form, place);
            while !folder.path().join(place).exists() {
                let ended = process.try_wait().expect("is asked");
                assert!(ended.is_none(), "{form} did not come to `{place}`: {ended:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
            process.kill().expect("is killed");
            process.wait().expect("is gone");
        }
        let last = process(folder.path(), form, "").wait();
        assert!(last.expect("ends").success(), "{form}");
        let lines = |file: &str| -> Vec<String> {
            let text = std::fs::read_to_string(folder.path().join(file)).expect("reads");
            text.lines().map(str::to_owned).collect()
        };
        let paid = lines("paid");
        let keys: BTreeSet<&String> = paid.iter().collect();
        assert_eq!((paid.len(), keys.len()), (2, 1), "{form}: the cut call is repeated as itself");
        let asked = lines("asked");
        assert_eq!(asked.len(), lead_calls + 3, "{form}: {asked:?}");
    }
}
