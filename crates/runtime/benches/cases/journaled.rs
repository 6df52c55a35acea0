//! The agent's loop as hosted runs that do what agents do: each answer of the model and each result
//! of its tool, which reads, is journaled; answers are billed, and calls of the tool told.

use super::{Bench, BenchUpdate, TURNS, Turn, said};
use crate::inline::DONE;
use std::path::PathBuf;
use std::sync::Arc;
use weftwork_graph::{CompiledGraph, Ctx, Graph, NodeError, NodeResult, START, State};
use weftwork_runtime::Runtime;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_types::caller::Caller;
use weftwork_types::canonical::hash;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{Attempts, CallKind, CallResult, GraphExecutor, Intent, Opened};
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{InvocationId, Principal, ThreadId, ToolCallId};

const GRAPH: &str = "bench:agent";

/// A runtime over a file of its own.
pub(crate) struct Journaled {
    runtime: Runtime,
    threads: u64,
    dir: tempfile::TempDir,
}

/// Makes a call unless its answer is on record.
async fn call(ctx: &Ctx, kind: CallKind, nth: usize) -> NodeResult<()> {
    let input = serde_json::json!({"nth": nth});
    let call_id = (kind == CallKind::Tool).then(|| format!("call-{nth}"));
    let name = "bench".to_owned();
    let effect = Effect::ReadOnly;
    let attempts = Attempts::Each;
    let intent = Intent { kind, name, input: hash(&input), call_id, effect, attempts };
    let calls = ctx.calls();
    let Opened::New { key } = calls.journal.open(intent).await? else {
        return Err(NodeError::message("every call is new"));
    };
    let value = serde_json::json!({"text": format!("result {nth}")});
    if kind == CallKind::Tool {
        let tool_call_id = || ToolCallId::new(format!("call-{nth}")).expect("valid id");
        let tool_name = "bench".to_owned();
        let args = input;
        let start = AiEvent::ToolCallStart {
            tool_call_id: tool_call_id(),
            tool_name,
            args,
            charged: true,
            task: None,
            ns: String::new(),
        };
        calls.emit.emit(start);
        calls.journal.settle(key, CallResult { value: value.clone() }).await?;
        let tool_call_id = tool_call_id();
        calls.emit.emit(AiEvent::ToolCallResult {
            tool_call_id,
            result: value,
            is_error: false,
            task: None,
        });
        return Ok(());
    }
    calls.journal.settle(key, CallResult { value }).await?;
    let fact = UsageFact {
        invocation_id: InvocationId::new(format!("{}-{nth}", calls.thread)).expect("valid id"),
        attempt: 1,
        provider: "bench".to_owned(),
        model: "bench".to_owned(),
        status: UsageStatus::Ok,
        error_code: None,
        tokens: Tokens::reported(100, 10),
        cost_micro_usd: Some(1),
        provider_call_id: None,
        prompt_hash: hash(&serde_json::json!(nth)),
        started_at: calls.clock.now(),
        latency_ms: 1,
        provider_cost_micro_usd: None,
        compared_micro_usd: None,
        saved_micro_usd: None,
        first_token_ms: None,
    };
    calls.ledger.record(&fact);
    Ok(())
}

pub(super) fn graph() -> CompiledGraph {
    async fn speak(state: State<Bench>, ctx: Ctx) -> NodeResult<BenchUpdate> {
        let len = state.messages().len();
        let kind = if len.is_multiple_of(2) { CallKind::Model } else { CallKind::Tool };
        call(&ctx, kind, len).await?;
        Ok(BenchUpdate::new().messages([said(len, TURNS)]))
    }
    Graph::<Bench>::new("agent")
        .node("agent", speak)
        .node("tool", speak)
        .edge(START, "agent")
        .route("agent", |state: State<Bench>| {
            let done = state.messages().last().is_some_and(|said| said.content == DONE);
            if done { Turn::End } else { Turn::Tool }
        })
        .edge("tool", "agent")
        .build()
        .expect("sound")
}

impl Journaled {
    /// Tasks of a run.
    pub(crate) const TASKS: u32 = TURNS as u32 * 2 + 1;

    pub(crate) async fn open(durability: Durability) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options { durability, ..Options::default() };
        let store = SqliteStore::open(dir.path().join("bench.db"), &options).expect("opens");
        let runtime = Runtime::builder(Arc::new(store)).graph(GRAPH, graph());
        Self { runtime: runtime.open().await.expect("opens"), threads: 0, dir }
    }

    /// Runs on a thread of its own.
    pub(crate) async fn run(&mut self) {
        self.threads += 1;
        let request = RunRequest {
            principal: Principal::local(),
            caller: Caller::local("bench").expect("valid id"),
            graph: GRAPH.to_owned(),
            thread: ThreadId::new(format!("t{}", self.threads)).expect("valid id"),
            input: RunInput::Start { input: serde_json::json!({}) },
            options: RunOptions::default(),
        };
        let handle = self.runtime.execute(request).await.expect("accepted");
        drop(handle.events);
        let outcome = handle.outcome.await;
        assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
    }

    /// Everything of the last run is on record.
    pub(crate) async fn verify(&self) {
        let who = Principal::local();
        let store = self.runtime.store();
        let thread = ThreadId::new(format!("t{}", self.threads)).expect("valid id");
        let calls = store.calls(&who, &thread).await.expect("reads");
        assert_eq!(calls.len(), Self::TASKS as usize);
        assert!(calls.iter().all(|call| call.result.is_some() && call.made == 1));
        let usage = store.usage_of_thread(&who, &thread).await.expect("reads");
        assert_eq!(usage.len(), TURNS + 1);
    }

    /// The bytes of a commit, of those so far: what its two rows have besides numbers.
    pub(crate) fn bytes(&self) -> usize {
        let conn = rusqlite::Connection::open(self.dir.path().join("bench.db")).expect("opens");
        let sql = "SELECT ((SELECT sum(length(tasks) + length(body)) FROM checkpoint_rows)
                       + sum(octet_length(concat(calls, usage, events)))) / count(*) FROM log";
        conn.query_row(sql, [], |row| row.get(0)).expect("a number")
    }

    /// Returns the number of commits in the write-ahead log, from the file itself.
    pub(crate) fn commits(&self) -> u64 {
        let log: PathBuf = self.dir.path().join("bench.db-wal");
        let bytes = std::fs::read(log).expect("a log");
        let number = |at: usize| {
            u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let page = number(8);
        let salts = &bytes[16..24];
        // A frame is of this log when it has its salts; the last one of a commit says how many
        // pages the file has after it.
        let frames = (32..bytes.len()).step_by(24 + page);
        let frames = frames.take_while(|at| bytes.get(at + 8..at + 16) == Some(salts));
        frames.filter(|at| number(at + 4) > 0).count() as u64
    }
}
