//! A runtime with defined agents, a scripted model and two tools.

use serde_json::Value;
use std::fs;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use weftwork_models::scripted::{ScriptedModel, Step};
use weftwork_models::{ChatModel, ChatRequest, ModelError};
use weftwork_platform::{Agents, DefinitionFolder, Services, read_folder};
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::{MemoryStore, Store};
use weftwork_tools::{Policy, Tool, tool};
use weftwork_types::message::Message;

pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) agents: Agents,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

/// Reads a definition from its text.
pub(crate) fn agent(slug: &str, text: &str) -> DefinitionFolder {
    let root = TempDir::new().expect("a folder");
    let folder = root.path().join(slug);
    fs::create_dir(&folder).expect("is made");
    fs::write(folder.join("agent.yaml"), text).expect("is written");
    read_folder(&folder).expect("sound")
}

/// Adds two numbers.
#[tool(name = "math/add", example(request = "Add 2 and 40.", args = {"a": 2, "b": 40}))]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Changes the sign of a number.
#[tool(name = "math/negate", example(request = "Negate 7.", args = {"n": 7}))]
fn negate(n: i64) -> i64 {
    -n
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(add), Arc::new(negate)]
}

impl Bench {
    pub(crate) async fn new(
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> Self {
        Self::over(Arc::new(MemoryStore::new()), definitions, steps).await
    }

    pub(crate) async fn over(
        store: Arc<dyn Store>,
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let steps = Mutex::new(steps.into_iter().collect::<std::collections::VecDeque<_>>());
        let seen = Arc::clone(&asked);
        let model: Arc<dyn ChatModel> = Arc::new(ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            steps.lock().expect("no panic").pop_front().expect("a further step")
        }));
        let services = Services {
            model,
            open_model: Arc::new(|id| {
                Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
            }),
            tools: tools(),
            policy: Policy::new().allow("math/*").expect("a pattern"),
            store: Arc::clone(&store),
        };
        let agents = Agents::new(definitions, services);
        let runtime = Runtime::builder(Arc::clone(&store)).graph_source(Arc::new(agents.clone()));
        let runtime = runtime.open().await.expect("opens");
        Self { runtime, store, agents, asked }
    }

    pub(crate) fn thread(&self, slug: &str, id: &str) -> Thread {
        self.runtime.thread(&format!("agents:{slug}"), id).expect("is there")
    }

    /// The requests that the model got.
    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.asked.lock().expect("no panic").clone()
    }

    /// A message of the user.
    pub(crate) fn user(&self, text: &str) -> Value {
        serde_json::to_value(Message::user(text)).expect("JSON")
    }
}
