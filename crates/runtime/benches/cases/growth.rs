//! A conversation that grows: hosted runs over SQLite, with a log of events and a journal that
//! records each answer.

use futures_util::StreamExt;
use std::sync::Arc;
use weftwork_engine::pregel::Machine;
use weftwork_graph::run_loop::{CheckpointAddress, Checkpointer};
use weftwork_graph::{CompiledGraph, Ctx, Graph, List, NodeResult, START, State};
use weftwork_runtime::{Runtime, StoreCheckpointer};
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash;
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::{RunInput, RunOptions, RunRequest, RunStatus};
use weftwork_types::tool::Effect;
use weftwork_types::{Principal, ThreadId};

const GRAPH: &str = "bench:chat";
/// Bytes of each message's text: two of them a turn are 0.43 MB in 1,000 turns.
const TEXT: usize = 215;
/// Number of the last messages that a turn reads.
const READ: usize = 10;

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

async fn answer(state: State<Talk>, ctx: Ctx) -> NodeResult<TalkUpdate> {
    let messages = state.messages();
    let last: usize =
        messages.iter().rev().take(READ).map(|message| message.joined_text().len()).sum();
    let intent = Intent {
        kind: CallKind::Model,
        name: "bench".to_owned(),
        input: hash(&serde_json::json!({ "read": last, "at": messages.len() })),
        call_id: None,
        effect: Effect::ReadOnly,
        attempts: Attempts::Each,
    };
    let text = "y".repeat(TEXT);
    let journal = &ctx.calls().journal;
    if let Opened::New { key } = journal.open(intent).await? {
        journal.settle(key, CallResult { value: serde_json::json!(text) }).await?;
    }
    Ok(TalkUpdate::new().messages([Message::text(ctx.message_id(), Role::Assistant, text)]))
}

fn graph() -> CompiledGraph {
    let graph = Graph::<Talk>::new("chat").node("answer", answer).edge(START, "answer");
    graph.build().expect("sound")
}

/// A thread and the file it is in.
pub(crate) struct Growth {
    store: Arc<SqliteStore>,
    runtime: Runtime,
    graph: CompiledGraph,
    turns: u32,
    dir: tempfile::TempDir,
}

impl Growth {
    pub(crate) async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { durability: Durability::Normal, ..Options::default() };
        let store = SqliteStore::open(dir.path().join("chat.db"), &options).expect("opens");
        let store = Arc::new(store);
        let graph = graph();
        let builder = Runtime::builder(Arc::clone(&store) as _).graph(GRAPH, graph.clone());
        let runtime = builder.open().await.expect("opens");
        Self { store, runtime, graph, turns: 0, dir }
    }

    pub(crate) async fn turn(&mut self) {
        self.turns += 1;
        let said = serde_json::json!({
            "id": format!("u{}", self.turns),
            "role": "user",
            "parts": [{"type": "text", "text": "x".repeat(TEXT)}],
        });
        let request = RunRequest {
            principal: Principal::local(),
            caller: Caller::local("bench").expect("valid id"),
            graph: GRAPH.to_owned(),
            thread: thread(),
            input: RunInput::Start { input: serde_json::json!({ "messages": [said] }) },
            options: RunOptions::default(),
        };
        let handle = self.runtime.execute(request).await.expect("accepted");
        // As a client does that shows messages as they come.
        let told: Vec<_> = handle.events.map(|told| told.event).collect().await;
        let said = told.iter().filter(|event| matches!(event, AiEvent::MessageFinal { .. }));
        assert_eq!(said.count(), 1, "{told:?}");
        let done = AiEvent::Done { outcome: RunStatus::Completed };
        assert_eq!(told.last(), Some(&done));
    }

    /// The bytes of the file once its log is in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.store.compact().expect("nobody reads");
        std::fs::metadata(self.dir.path().join("chat.db")).expect("a file").len()
    }

    /// Reads the thread from the file, as the first run after a restart does. What it gives is
    /// dropped beside the time.
    pub(crate) async fn load(&self) -> Machine {
        let saver = StoreCheckpointer::new(Arc::clone(&self.store) as _, Principal::local());
        let at = CheckpointAddress { thread: "chat".into(), ns: "".into() };
        let saved = saver.load(&at, self.graph.plan(), None).await.expect("reads");
        let machine = saved.expect("is there").checkpoint.machine;
        let list = machine.slots().get(0).and_then(|value| value.get::<List<Message>>());
        assert_eq!(list.expect("messages").len(), 2 * self.turns as usize);
        machine
    }

    /// Reads the newest page of the thread's history.
    pub(crate) async fn page(&self) {
        let filter = weftwork_graph::HistoryFilter { limit: 10, ..Default::default() };
        let page = self.runtime.history(&Principal::local(), &thread(), &filter).await;
        assert!(!page.expect("reads").is_empty());
    }
}

fn thread() -> ThreadId {
    ThreadId::new("chat").expect("valid id")
}
