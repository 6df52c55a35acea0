//! Records for the conformance cases.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::Store;
use weftwork_store::{CheckpointBatch, NewCheckpoint, NewPending, Pending};
use weftwork_store::{Claim, Commit, NewRun, UsageRow, WorkerRow};
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::canonical;
use weftwork_types::event::AiEvent;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallResult, CallState};
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{
    CheckpointId, InterruptId, InvocationId, OrgId, Principal, RunId, TaskId, ThreadId, Timestamp,
    WorkerId,
};

/// The lease of every worker in the cases, in milliseconds.
pub(super) const LEASE_MS: i64 = 8_000;

pub(super) fn principal(org: &str) -> Principal {
    Principal::new(OrgId::new(org).expect("an id"), format!("someone at {org}"))
}

pub(super) fn us() -> Principal {
    principal("us")
}

pub(super) fn thread(id: &str) -> ThreadId {
    ThreadId::new(id).expect("an id")
}

pub(super) fn worker(id: &str) -> WorkerId {
    WorkerId::new(id).expect("an id")
}

pub(super) fn at(thread_id: &str, run: &str) -> RunRef {
    RunRef { thread: thread(thread_id), run: RunId::new(run).expect("an id") }
}

pub(super) fn caller() -> Caller {
    Caller::local("request-1").expect("an id")
}

pub(super) fn new_run(thread_id: &str, run: &str) -> NewRun {
    NewRun {
        at: at(thread_id, run),
        graph: "test:graph".to_owned(),
        caller: caller(),
        input: RunInput::Start { input: json!({"text": "hello", "n": [1, 2.5, null]}) },
        options: RunOptions::default(),
        created_at: Timestamp(1_000),
    }
}

pub(super) fn keyed(mut run: NewRun, key: &str) -> NewRun {
    run.options.idempotency_key = Some(key.to_owned());
    run
}

pub(super) async fn register(store: &dyn Store, id: &str, now: i64) -> WorkerId {
    let row = WorkerRow {
        id: worker(id),
        renewed_at: Timestamp(now),
        expires_at: Timestamp(now + LEASE_MS),
    };
    store.keep_alive(row).await.expect("keeps a worker alive");
    worker(id)
}

/// Creates a run and claims it for the worker `w1`, whose lease starts at 1000.
pub(super) async fn begin(store: &dyn Store, thread_id: &str, run: &str) -> Claim {
    begin_as(store, &us(), new_run(thread_id, run)).await
}

pub(super) async fn begin_as(store: &dyn Store, who: &Principal, run: NewRun) -> Claim {
    let worker = register(store, "w1", 1_000).await;
    let at = run.at.clone();
    store.create_run(who, run, BTreeMap::new()).await.expect("makes a run");
    store.claim(who, &at, &worker, Timestamp(1_001)).await.expect("claims the run").0
}

/// A checkpoint of the root graph without task results.
pub(super) fn checkpoint(id: u128) -> NewCheckpoint {
    NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(id),
        of: None,
        tasks: Vec::new(),
        body: format!("body of {id}\u{0}\u{ff}").into_bytes(),
        blobs: Vec::new(),
    }
}

fn part(of: u128, what: Pending, body: &str) -> NewPending {
    let of = CheckpointId(of);
    let body = body.as_bytes().to_vec();
    NewPending { ns: String::new(), of, what, body, blobs: Vec::new() }
}

pub(super) fn outside(of: u128, body: &str) -> NewPending {
    part(of, Pending::Outside, body)
}

pub(super) fn tasks(of: u128, body: &str) -> NewPending {
    part(of, Pending::Tasks, body)
}

pub(super) fn these(checkpoints: Vec<NewCheckpoint>) -> CheckpointBatch {
    CheckpointBatch { checkpoints, ..CheckpointBatch::default() }
}

pub(super) fn question(id: u128) -> Interrupt {
    Interrupt {
        id: InterruptId(id),
        task: TaskId(id + 1),
        node: "ask".to_owned(),
        graph: None,
        ask: Ask::Value { value: json!({"question": id.to_string()}) },
        answer_schema: Some(json!({"type": "string"})),
        expires_at: Some(Timestamp(9_000)),
        default: Some(serde_json::Value::Null),
        key: Some(format!("key {id}")),
    }
}

pub(super) fn answer(value: &str) -> Answer {
    Answer { value: json!(value), answered_by: "ada".to_owned(), answered_at: Timestamp(2_000) }
}

pub(super) fn answers(given: &[(u128, &str)]) -> BTreeMap<InterruptId, Answer> {
    given.iter().map(|(id, value)| (InterruptId(*id), answer(value))).collect()
}

pub(super) fn custom_event(n: i64) -> AiEvent {
    AiEvent::custom(json!({"n": n}))
}

pub(super) fn commit(at: i64) -> Commit {
    Commit { at: Timestamp(at), ..Commit::default() }
}

pub(super) fn completed() -> Option<RunOutcome> {
    Some(RunOutcome::Completed { output: json!({"text": "bye"}) })
}

pub(super) fn interrupted(ids: &[u128]) -> Option<RunOutcome> {
    let interrupts = ids.iter().copied().map(InterruptId).collect();
    Some(RunOutcome::Interrupted { interrupts, questions: Vec::new() })
}

pub(super) async fn write(store: &dyn Store, claim: &Claim, commit: Commit) {
    store.commit(&us(), claim, commit).await.expect("commits");
}

pub(super) async fn finish(store: &dyn Store, claim: &Claim, at: i64) {
    write(store, claim, Commit { finish: completed(), ..commit(at) }).await;
}

pub(super) fn key(n: u8) -> CallKey {
    CallKey(canonical::hash_bytes(&[n]))
}

/// A call that was started and has no result.
pub(super) fn call(n: u8, effect: Effect) -> CallRecord {
    CallRecord {
        key: key(n),
        kind: CallKind::Tool,
        name: format!("tool_{n}"),
        node: "tools".to_owned(),
        step: 1,
        effect,
        state: CallState::Intent,
        result: None,
        made: 1,
        possibly_paid: 0,
        reused: 0,
        opened_at: Timestamp(1_100),
        settled_at: None,
    }
}

/// The same call with a result.
pub(super) fn settled(call: &CallRecord, value: Value) -> CallRecord {
    CallRecord {
        state: CallState::Settled,
        result: Some(CallResult { value }),
        settled_at: Some(Timestamp(1_200)),
        ..call.clone()
    }
}

/// Records calls.
pub(super) async fn record(store: &dyn Store, claim: &Claim, calls: Vec<CallRecord>) {
    let calls = calls.into_iter().map(Into::into).collect();
    write(store, claim, Commit { calls, ..commit(1_200) }).await;
}

pub(super) fn fact(invocation: &str, run: &str, started_at: i64) -> UsageRow {
    let graph = GraphCaller {
        caller: caller(),
        run: RunId::new(run).expect("an id"),
        graph: "test:graph".to_owned(),
        graph_version: "1".to_owned(),
    };
    UsageRow {
        caller: graph.into(),
        fact: UsageFact {
            invocation_id: InvocationId::new(invocation).expect("an id"),
            attempt: 1,
            provider: "local".to_owned(),
            model: "small".to_owned(),
            status: UsageStatus::Ok,
            error_code: None,
            tokens: Tokens::reported(7, 3).cached(5).reasoning(2),
            cost_micro_usd: Some(11),
            provider_call_id: None,
            prompt_hash: canonical::hash_bytes(b"prompt"),
            started_at: Timestamp(started_at),
            latency_ms: 5,
            provider_cost_micro_usd: None,
            compared_micro_usd: None,
            saved_micro_usd: None,
            first_token_ms: None,
        },
    }
}

/// A fact of a call outside of runs.
pub(super) fn program_fact(invocation: &str, started_at: i64) -> UsageRow {
    let caller = CallOrigin::Program(Arc::new(caller()));
    UsageRow { caller, ..fact(invocation, "none", started_at) }
}
