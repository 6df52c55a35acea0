//! A runtime with defined agents, a scripted model and two tools.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use weftwork_models::scripted::{ScriptedModel, Step};
use weftwork_models::{ChatModel, ChatRequest, ModelError};
use weftwork_platform::{Agents, DefinitionFolder, HostedAgents, Services, read_folder};
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::{MemoryStore, Store};
use weftwork_tools::{Policy, Tool, ToolError, tool};
use weftwork_types::caller::Caller;
use weftwork_types::item::{
    Item, ItemQuery, ItemRef, ItemStore, Namespace, NamespaceQuery, Prefix, PutOptions, ReadItems,
    Ttl, WriteItems,
};
use weftwork_types::message::Message;
use weftwork_types::port::{
    Egress, EgressError, EgressRequest, EgressResponse, ManualClock, Platform, TaskCaller,
};
use weftwork_types::task::TaskResponse;
use weftwork_types::{BoxFuture, CallChain, Principal, StoreError, Timestamp};

type Result<T> = std::result::Result<T, StoreError>;

/// A long-term store that hangs, fails or has a note, by the namespace.
#[derive(Debug)]
struct OddItems;

impl ReadItems for OddItems {
    fn get<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a ItemRef,
        _: Ttl,
    ) -> BoxFuture<'a, Result<Option<Item>>> {
        Box::pin(async { Ok(None) })
    }

    fn search<'a>(
        &'a self,
        _: &'a Principal,
        within: &'a Prefix,
        _: &'a ItemQuery,
    ) -> BoxFuture<'a, Result<Vec<Item>>> {
        Box::pin(async move {
            let within = format!("{within:?}");
            if within.contains("slow") {
                std::future::pending::<()>().await;
            }
            if within.contains("broken") {
                let location = "the items".to_owned();
                let reason = "no room".to_owned();
                return Err(StoreError::Full { location, reason });
            }
            Ok(vec![Item {
                namespace: Namespace::new(["notes"]).expect("a namespace"),
                key: "one".to_owned(),
                value: json!("A note."),
                created_at: Timestamp(0),
                updated_at: Timestamp(0),
                expires_at: None,
                score: None,
            }])
        })
    }

    fn namespaces<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a NamespaceQuery,
    ) -> BoxFuture<'a, Result<Vec<Namespace>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl WriteItems for OddItems {
    fn put<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a ItemRef,
        _: Value,
        _: PutOptions,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, _: &'a Principal, _: &'a ItemRef) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    fn clear<'a>(&'a self, _: &'a Principal, _: &'a Prefix) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async { Ok(0) })
    }

    fn sweep(&self, _: usize) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async { Ok(0) })
    }
}

pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) agents: Agents,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
    answers: Answers,
}

/// The answers of the model, in their order. One may do something first.
type Answers = Arc<Mutex<VecDeque<Box<dyn FnOnce() -> Step + Send>>>>;

/// Optional parts of a bench.
#[derive(Default)]
struct Extras {
    items: Option<Arc<dyn ItemStore>>,
    clock: Option<ManualClock>,
    egress: Option<Arc<dyn Egress>>,
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

/// Fails.
#[tool(name = "math/fail", example(request = "Fail.", args = {}))]
fn fail() -> std::result::Result<i64, ToolError> {
    Err(ToolError::failed("it failed"))
}

/// Returns the length of a key.
#[tool(name = "math/weigh", example(request = "Weigh the key k.", args = {"key": "k"}))]
fn weigh(#[arg(secret)] key: String) -> std::result::Result<usize, ToolError> {
    match key.len() {
        0..=40 => Ok(key.len()),
        _ => Err(ToolError::failed(format!("the key {key} is too long"))),
    }
}

/// Calls of `math/count`, by their keys.
static COUNTS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Returns the number of calls of `math/count` with a key.
pub(crate) fn counted(key: &str) -> usize {
    COUNTS.lock().expect("no panic").get(key).copied().unwrap_or_default()
}

/// Counts its calls.
#[tool(name = "math/count", example(request = "Count a.", args = {"key": "a"}))]
fn count(key: String) -> usize {
    let mut counts = COUNTS.lock().expect("no panic");
    let calls = counts.entry(key).or_default();
    *calls += 1;
    *calls
}

/// Lines that tools wrote outside of the runs, by the names of books.
static OUTSIDE: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());

/// Returns the lines of a book.
pub(crate) fn outside(book: &str) -> Vec<String> {
    OUTSIDE.lock().expect("no panic").get(book).cloned().unwrap_or_default()
}

fn write_outside(book: String, line: String) {
    OUTSIDE.lock().expect("no panic").entry(book).or_default().push(line);
}

/// Writes a line, and returns it.
#[tool(
    name = "stock/write",
    effect = external_side_effect,
    example(request = "Write a to b.", args = {"book": "b", "line": "a"})
)]
fn write(book: String, line: String) -> String {
    write_outside(book, line.clone());
    line
}

/// Writes a line the first time, and fails unless the book has the line already.
#[tool(
    name = "stock/falter",
    effect = external_side_effect,
    example(request = "Write a to b.", args = {"book": "b", "line": "a"})
)]
fn falter(book: String, line: String) -> std::result::Result<String, ToolError> {
    let failed = format!("failed {line}");
    if outside(&book).contains(&failed) {
        write_outside(book, line.clone());
        return Ok(line);
    }
    write_outside(book, failed);
    Err(ToolError::failed("the stock is locked"))
}

/// Writes a line, and does not end.
#[tool(
    name = "stock/hang",
    effect = external_side_effect,
    example(request = "Write a to b.", args = {"book": "b", "line": "a"})
)]
async fn hang(book: String, line: String) -> String {
    write_outside(book, line);
    std::future::pending().await
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(count),
        Arc::new(add),
        Arc::new(negate),
        Arc::new(fail),
        Arc::new(weigh),
        Arc::new(write),
        Arc::new(falter),
        Arc::new(hang),
    ]
}

impl Bench {
    pub(crate) fn new(
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> BoxFuture<'static, Self> {
        Self::over(Arc::new(MemoryStore::new()), definitions, steps)
    }

    /// A bench with a long-term store, of which one namespace hangs and another one fails.
    pub(crate) fn with_items(
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> BoxFuture<'static, Self> {
        let items: Arc<dyn ItemStore> = Arc::new(OddItems);
        let items = Extras { items: Some(items), ..Extras::default() };
        Self::open(Arc::new(MemoryStore::new()), items, definitions, steps)
    }

    pub(crate) fn over(
        store: Arc<dyn Store>,
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> BoxFuture<'static, Self> {
        Self::open(store, Extras::default(), definitions, steps)
    }

    /// A bench whose time is that of a clock.
    pub(crate) fn with_clock(
        clock: ManualClock,
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> BoxFuture<'static, Self> {
        let clock = Extras { clock: Some(clock), ..Extras::default() };
        Self::open(Arc::new(MemoryStore::new()), clock, definitions, steps)
    }

    /// A bench whose agents reach servers, and whose time is that of a clock if there is one.
    pub(crate) fn with_egress(
        egress: Arc<dyn Egress>,
        clock: Option<ManualClock>,
        definitions: impl IntoIterator<Item = DefinitionFolder>,
    ) -> BoxFuture<'static, Self> {
        let extras = Extras { egress: Some(egress), clock, ..Extras::default() };
        Self::open(Arc::new(MemoryStore::new()), extras, definitions, [])
    }

    fn open(
        store: Arc<dyn Store>,
        extras: Extras,
        definitions: impl IntoIterator<Item = DefinitionFolder>,
        steps: impl IntoIterator<Item = Step>,
    ) -> BoxFuture<'static, Self> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = Answers::default();
        for step in steps {
            answers.lock().expect("no panic").push_back(Box::new(move || step));
        }
        let left = Arc::clone(&answers);
        let seen = Arc::clone(&asked);
        let model: Arc<dyn ChatModel> = Arc::new(ScriptedModel::from_fn(move |request| {
            seen.lock().expect("no panic").push(request.clone());
            let next = left.lock().expect("no panic").pop_front();
            next.expect("a further answer")()
        }));
        let services = Services {
            model,
            open_model: Arc::new(|id| {
                Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
            }),
            tools: tools(),
            policy: Policy::new()
                .allow("math/*")
                .and_then(|of| of.allow("stock/*"))
                .expect("a pattern"),
            store: Arc::clone(&store),
            sandbox: None,
            egress: extras.egress.unwrap_or_else(|| Arc::new(NoEgress)),
            egress_of_organizations: Arc::new(NoEgress),
            secrets: Arc::new(|_, name| match name {
                "PARTNER_KEY" => Ok("CANARY-KEY".to_owned()),
                _ => Err("there are none".to_owned()),
            }),
        };
        let agents = Agents::new(definitions.into_iter().collect::<Vec<_>>().into(), services);
        let runtime = Runtime::builder(Arc::clone(&store)).graph_source(Arc::new(agents.clone()));
        let runtime = runtime.map_budgets(|others| agents.budgets(others));
        let runtime = match extras.items {
            Some(items) => runtime.items(items),
            None => runtime,
        };
        let runtime = match extras.clock {
            Some(clock) => runtime.clock(Arc::new(clock)),
            None => runtime,
        };
        Box::pin(async move {
            let runtime = runtime.open().await.expect("opens");
            Self { runtime, store, agents, asked, answers }
        })
    }

    /// Does something while the model makes its next answer.
    pub(crate) fn during_next(&self, answer: impl FnOnce() -> Step + Send + 'static) {
        self.answers.lock().expect("no panic").push_back(Box::new(answer));
    }

    /// Asks an agent in the form of requests.
    pub(crate) async fn ask(&self, platform: &HostedAgents, request: Value) -> TaskResponse {
        let by = TaskCaller {
            principal: Principal::local(),
            caller: Caller::local("request").expect("an id"),
            parent_span: None,
            idempotency_key: None,
            chain: CallChain::default(),
        };
        platform.task(by, serde_json::from_value(request).expect("a request")).await
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

/// A network that nothing reaches.
#[derive(Debug)]
struct NoEgress;

impl Egress for NoEgress {
    fn send(
        &self,
        _: EgressRequest,
    ) -> BoxFuture<'_, std::result::Result<EgressResponse, EgressError>> {
        let reason = "there is no network".to_owned();
        Box::pin(std::future::ready(Err(EgressError::Connect { host: String::new(), reason })))
    }
}
