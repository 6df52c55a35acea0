//! Servers in a file, their allowed tools, and agents that call them.

use crate::server::{ARGS, FOLDER, KIND};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use weftwork_agents::ReactAgent;
use weftwork_graph::SystemClock;
use weftwork_mcp::{Limits, LockFile, McpError, McpFile, McpServers, Terms};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::Runtime;
use weftwork_store::memory::MemoryStore;
use weftwork_store::{Store, open_questions};
use weftwork_tools::{Deps, Policy, ToolBox, tool};
use weftwork_types::caller::Caller;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::{Message, Part};
use weftwork_types::port::{Clock, Egress, GraphExecutor};
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::tool::Effect;
use weftwork_types::{InterruptId, Principal, ThreadId};

/// A folder with a file of servers.
pub(crate) struct Rig {
    folder: TempDir,
    pub(crate) limits: Limits,
    pub(crate) egress: BTreeMap<String, Arc<dyn Egress>>,
    entries: Map<String, Value>,
}

/// The calls of the program's own tool with an effect.
#[derive(Debug, Default)]
pub(crate) struct Erased(AtomicU32);

/// Erases everything.
#[tool(effect = external_side_effect)]
fn erase(erased: Deps<Erased>) -> String {
    erased.0.0.fetch_add(1, Ordering::SeqCst);
    "erased".to_owned()
}

/// Adds two numbers.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Terms of a tool that only reads and shows everything.
pub(crate) fn reads() -> Terms {
    Terms {
        effect: Effect::ReadOnly,
        idempotent: false,
        output: None,
        shown: vec![".".into()],
        secret: Vec::new(),
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            limits: Limits::default(),
            egress: BTreeMap::new(),
            entries: Map::new(),
        }
    }

    /// A rig with one server, named as its kind.
    pub(crate) fn with(kind: &str) -> Self {
        Self::new().server(kind, kind)
    }

    pub(crate) fn server(mut self, name: &str, kind: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let entry = json!({
            "command": program, "args": ARGS, "timeout": 5_000,
            "env": {KIND: kind, FOLDER: self.folder.path()},
        });
        self.entries.insert(name.to_owned(), entry);
        self
    }

    pub(crate) fn at(mut self, name: &str, url: &str, egress: Arc<dyn Egress>) -> Self {
        self.entries.insert(name.to_owned(), json!({"url": url}));
        self.egress.insert(name.to_owned(), egress);
        self
    }

    /// A server with this entry in the file.
    pub(crate) fn entry(mut self, name: &str, entry: Value) -> Self {
        self.entries.insert(name.to_owned(), entry);
        self
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Sets the time limit of calls of all servers.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        for entry in self.entries.values_mut() {
            entry["timeout"] = json!(timeout.as_millis());
        }
        self
    }

    /// Sets the time limit of calls that report progress, of all servers.
    pub(crate) fn max_timeout(mut self, milliseconds: u64) -> Self {
        for entry in self.entries.values_mut() {
            entry["maxTimeout"] = json!(milliseconds);
        }
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Reads the files, as at the start of a program.
    pub(crate) fn servers(&self) -> McpServers {
        self.servers_at(Arc::new(SystemClock::new()))
    }

    /// As [`Rig::servers`], with another clock.
    pub(crate) fn servers_at(&self, clock: Arc<dyn Clock>) -> McpServers {
        let path = self.path("mcp.json");
        std::fs::write(&path, json!({"mcpServers": self.entries}).to_string()).expect("written");
        let file = McpFile::read(&path, &|name| std::env::var(name).ok()).expect("a valid file");
        let logins = self.path("logins");
        McpServers::new(file, clock, self.egress.clone(), self.limits, Some(&logins))
            .expect("a valid lock file")
    }

    /// Allows tools as they are offered now, and reads the files again.
    pub(crate) async fn allowing(&self, tools: &[&str], terms: &Terms) -> McpServers {
        self.try_allowing(tools, terms).await.expect("all of them can be allowed")
    }

    pub(crate) async fn try_allowing(
        &self,
        tools: &[&str],
        terms: &Terms,
    ) -> Result<McpServers, McpError> {
        let servers = self.servers();
        let mut lock: LockFile = servers.lock().clone();
        for tool in tools {
            let server = tool.split_once('/').expect("SERVER/TOOL").0;
            lock.allow(servers.offer(server).await?.find(tool)?, terms.clone())?;
        }
        lock.write()?;
        servers.shutdown().await;
        Ok(self.servers())
    }

    /// The calls that the servers have received, by name of the tool.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A result of a call, as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) is_error: bool,
    pub(crate) value: Value,
}

impl Said {
    pub(crate) fn ok(&self) -> &Value {
        assert!(!self.is_error, "{self:?}");
        &self.value
    }

    /// The code and message of a failure.
    pub(crate) fn failure(&self) -> (&str, &str) {
        assert!(self.is_error, "{self:?}");
        let member = |name: &str| self.value[name].as_str().unwrap_or_default();
        (member("code"), member("safe_message"))
    }
}

/// Runs an agent whose model makes these calls one after the other, and at last `add`, which shows
/// that the run goes on. Returns the results of the calls.
pub(crate) async fn run(servers: &McpServers, calls: &[(&str, Value)]) -> Vec<Said> {
    run_under(servers.policy(), servers, calls).await
}

/// As [`run`], under another policy.
pub(crate) async fn run_under(
    policy: Policy,
    servers: &McpServers,
    calls: &[(&str, Value)],
) -> Vec<Said> {
    let own = ("add", json!({"a": 2, "b": 3}));
    let steps = calls.iter().chain([&own]).map(|(name, args)| Step::call(name, args.clone()));
    let steps = steps.chain([Step::text("Done.")]).collect();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let talk = Talk::open(Arc::new(MemoryStore::new()), clock, servers, policy, steps).await;
    let mut results = results(&talk.say().await);
    let last = results.pop().expect("the own call");
    assert_eq!(last, Said { is_error: false, value: json!(5) }, "the run goes on");
    assert_eq!(results.len(), calls.len(), "{results:?}");
    results
}

/// The results of the calls of a run.
pub(crate) fn results(outcome: &RunOutcome) -> Vec<Said> {
    let RunOutcome::Completed { output } = outcome else { panic!("not completed: {outcome:?}") };
    let messages: Vec<Message> =
        serde_json::from_value(output["messages"].clone()).expect("messages");
    let results =
        messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
            Part::ToolResult(result) => {
                Some(Said { is_error: result.is_error, value: result.value.clone() })
            }
            _ => None,
        });
    results.collect()
}

/// A thread of an agent with the tools of the servers, in one process.
pub(crate) struct Talk {
    store: Arc<dyn Store>,
    runtime: Runtime,
    /// Progress of tools, as clients see it.
    pub(crate) reports: Mutex<Vec<Value>>,
}

impl Talk {
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        servers: &McpServers,
        policy: Policy,
        steps: Vec<Step>,
    ) -> Self {
        let tools = ToolBox::new().with(erase).with(add).provide(Erased::default());
        let agent = ReactAgent::new("tester", Arc::new(ScriptedModel::from_steps(steps)))
            .tools(tools.with_all(servers.tools()))
            .policy(policy)
            .build()
            .expect("a sound agent");
        let runtime = Runtime::builder(Arc::clone(&store))
            .clock(clock)
            .graph("test:agent", agent)
            .open()
            .await
            .expect("opens");
        Self { store, runtime, reports: Mutex::default() }
    }

    pub(crate) async fn say(&self) -> RunOutcome {
        let user = json!({"id": "u", "role": "user", "parts": [{"type": "text", "text": "Go."}]});
        self.run(RunInput::Start { input: json!({"messages": [user]}) }).await
    }

    pub(crate) async fn answer(&self, interrupt: InterruptId, reply: Value) -> RunOutcome {
        self.run(RunInput::answers(BTreeMap::from([(interrupt, reply)]))).await
    }

    async fn run(&self, input: RunInput) -> RunOutcome {
        let request = RunRequest {
            principal: Principal::local(),
            caller: Caller::local("request").expect("a valid id"),
            graph: "test:agent".to_owned(),
            thread: ThreadId::new("t").expect("a valid id"),
            input,
            options: RunOptions { step_limit: Some(1_000), ..RunOptions::default() },
        };
        let handle = self.runtime.execute(request).await.expect("accepted");
        let events = handle.events.for_each(|event| async {
            if let AiEvent::Custom { value, .. } = event.event {
                self.reports.lock().expect("no panic").push(value);
            }
        });
        events.await;
        handle.outcome.await
    }

    /// The open question of the thread: its id and its text.
    pub(crate) async fn question(&self, outcome: &RunOutcome) -> (InterruptId, String) {
        let RunOutcome::Interrupted { interrupts, .. } = outcome else {
            panic!("no question: {outcome:?}")
        };
        let [id] = interrupts.as_slice() else { panic!("one question: {interrupts:?}") };
        let who = Principal::local();
        let thread = ThreadId::new("t").expect("a valid id");
        let open = open_questions(self.store.interrupts(&who, &thread).await.expect("read"));
        let text = open.iter().find(|one| one.id == *id).map(|one| match &one.ask {
            Ask::Question { question, .. } => question.clone(),
            other => format!("{other:?}"),
        });
        (*id, text.expect("stored"))
    }
}
