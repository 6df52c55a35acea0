//! Generated operations, and their application. Tests of other stores include this file and
//! `keep.rs`.

use super::keep;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_store::sequence::{self, Content, Sequence, SequenceQuery};
use weftwork_store::{
    CheckpointBatch, Claim, Commit, IfExists, Metadata, NewRun, NewThread, Period, Store,
    ThreadQuery, Untouched, UsageRow, UsageTotal, Waiting, WorkerRow, move_all_usage,
};
use weftwork_types::caller::{Caller, GraphCaller};
use weftwork_types::canonical;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, Piece, PieceAt, PieceKind, Position};
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallResult, CallState};
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunOutcome, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{
    ErrorCode, InterruptId, InvocationId, OrgId, Principal, RunId, TaskId, ThreadId, Timestamp,
    WorkerId,
};

/// An operation on one of few ids, so that operations affect each other.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create { org: u8, at: (u8, u8), how: (Option<u8>, Multitask), input: Value, answers: Vec<u8> },
    Claim { run: Index, worker: u8 },
    Commit { claim: Index, commit: Box<Commit> },
    Cancel { run: Index },
    Requeue { run: Index },
    Release { claim: Index },
    Delete { org: u8, thread: u8 },
    Call { org: u8, thread: u8, key: u8 },
    KeepAlive { worker: u8, lease: i64 },
    Retire { worker: u8 },
    Orphans { limit: usize },
    Forget { org: u8, age: i64, limit: usize },
    DropEvents { org: u8, age: i64, limit: usize },
    Events { run: Index, after: u64, limit: usize },
    Describe { org: u8, thread: u8, metadata: Metadata, create: bool },
    Search { org: u8, metadata: Metadata, limit: usize },
    Keep(Box<keep::KeepOp>),
}

/// The entities created so far, so that operations find existing ones.
#[derive(Debug, Default)]
pub(crate) struct World {
    runs: Vec<(u8, RunRef)>,
    claims: Vec<(u8, Claim)>,
}

/// Returns one of the last three, usually the selected one.
fn recent<T: Clone>(made: &[T], index: Index) -> Option<T> {
    let newest = &made[made.len().saturating_sub(3)..];
    (!newest.is_empty()).then(|| newest[index.index(newest.len())].clone())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn interrupt() -> impl Strategy<Value = Interrupt> {
    (0u128..4, value()).prop_map(|(id, value)| Interrupt {
        id: InterruptId(id),
        task: TaskId(1),
        node: "ask".to_owned(),
        graph: None,
        ask: Ask::Value { value },
        answer_schema: None,
        expires_at: None,
        default: None,
        key: None,
    })
}

/// Generates a call in some state: started, or with a result, and with any counters.
fn call() -> impl Strategy<Value = CallRecord> {
    let effect = prop::sample::select(vec![Effect::ReadOnly, Effect::ExternalSideEffect]);
    let count = || 0..4u32;
    let result = prop::option::of(value());
    (0..4u8, effect, result, (count(), count(), count()), 0..90i64).prop_map(
        |(n, effect, result, (made, possibly_paid, reused), at)| CallRecord {
            key: key(n),
            kind: CallKind::Tool,
            name: "tool".to_owned(),
            node: "tools".to_owned(),
            step: 1,
            effect,
            state: if result.is_some() { CallState::Settled } else { CallState::Intent },
            settled_at: result.is_some().then_some(Timestamp(at + 1)),
            result: result.map(|value| CallResult { value }),
            made,
            possibly_paid,
            reused,
            opened_at: Timestamp(at),
        },
    )
}

/// Moves all facts to the bill, and reads the sums of each organisation.
pub(crate) async fn bill(store: &dyn Store) -> Vec<UsageTotal> {
    move_all_usage(store).await.expect("moves");
    let mut totals = Vec::new();
    for org in [0, 1] {
        let found = store.usage_totals(&principal(org), Period::ALL).await;
        totals.extend(found.expect("reads"));
    }
    totals
}

/// Generates a fact of one of few invocations.
fn usage() -> impl Strategy<Value = UsageRow> {
    (0..4u8, 0..90i64).prop_map(|(n, at)| UsageRow {
        caller: GraphCaller {
            caller: Caller::local("request").expect("an id"),
            run: self::at(0, 0).run,
            graph: "test:graph".to_owned(),
            graph_version: "1".to_owned(),
        }
        .into(),
        fact: UsageFact {
            invocation_id: InvocationId::new(format!("i{n}")).expect("an id"),
            attempt: 1,
            provider: "local".to_owned(),
            model: "small".to_owned(),
            status: UsageStatus::Ok,
            error_code: None,
            tokens: Tokens::reported(7, 3),
            cost_micro_usd: None,
            provider_call_id: None,
            prompt_hash: canonical::hash_bytes(b"prompt"),
            started_at: Timestamp(at),
            latency_ms: 5,
            provider_cost_micro_usd: None,
            compared_micro_usd: None,
            saved_micro_usd: None,
            first_token_ms: None,
        },
    })
}

fn position() -> impl Strategy<Value = Position> {
    (0..4u64, 0..4u64).prop_map(|(seq, bytes)| Position::in_text(seq, bytes))
}

/// Generates partial text in order.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let some = prop::collection::btree_map(position(), any::<String>(), 1..4);
    some.prop_map(|pieces| {
        let pieces = pieces.into_iter().map(|(end, text)| {
            let at = PieceAt::new(end, "writer", TaskId(1));
            Piece { at, told_at: Timestamp(1), kind: PieceKind::Text, text }
        });
        pieces.collect()
    })
}

/// Generates a write to one of few sequences, which may expect a version.
fn sequence_write() -> impl Strategy<Value = sequence::SequenceWrite> {
    let content = any::<Vec<u8>>().prop_map(|bytes| Content { format: 1, bytes });
    (0..2u8, prop::option::weighted(0.2, 0..3u64), 0..3u8, content, 0..9u64).prop_map(
        |(key, expected, change, content, up_to)| {
            let to = Sequence::new("mail", format!("k{key}"));
            let write = match change {
                0 => sequence::SequenceWrite::append(to, content),
                1 => sequence::SequenceWrite::replace(to, content),
                _ => sequence::SequenceWrite::delete(to, up_to),
            };
            sequence::SequenceWrite { expected, ..write }
        },
    )
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let name = prop::sample::select(vec!["a", "b", "\"\0"]);
    let plain = prop::sample::select(vec![json!("x"), json!(1), json!(1.0), json!(null)]);
    let value = prop_oneof![3 => plain, 1 => value()];
    let members = prop::collection::btree_map(name, value, 0..3);
    members.prop_map(|all| all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn commit() -> impl Strategy<Value = Box<Commit>> {
    let completed = value().prop_map(|output| RunOutcome::Completed { output });
    let failed = Just(RunOutcome::Failed { fault: Fault::new(ErrorCode("W0109"), "no luck") });
    let finish = prop::option::weighted(0.2, prop_oneof![completed, failed]);
    (
        prop::collection::vec(interrupt(), 0..3),
        prop::collection::vec(value().prop_map(AiEvent::custom), 0..4),
        finish,
        prop_oneof![1 => Just(CheckpointBatch::default()), 2 => keep::batch()],
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(call(), 1..4)],
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(usage(), 1..3)],
        prop_oneof![2 => Just(Vec::new()), 1 => pieces()],
        prop::option::weighted(0.3, position()),
        prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(sequence_write(), 1..4)],
        any::<bool>(),
    )
        .prop_map(
            |(
                interrupts,
                events,
                finish,
                batch,
                calls,
                usage,
                pieces,
                void,
                sequence_writes,
                is_unbegun,
            )| {
                let wakes_at = interrupts.first().map(|asked| Timestamp(asked.id.0 as i64 * 200));
                let at = Timestamp(0);
                Box::new(Commit {
                    batch: batch.into(),
                    calls: calls.into_iter().map(Arc::new).collect(),
                    usage: usage.into_iter().map(Arc::new).collect(),
                    interrupts,
                    is_unbegun,
                    events,
                    void,
                    pieces,
                    sequence_writes,
                    finish,
                    wakes_at,
                    at,
                })
            },
        )
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let org = || 0..2u8;
    let thread = || 0..2u8;
    let worker = || 0..3u8;
    let any_of = any::<Index>;
    let key = prop::option::weighted(0.2, 0..3u8);
    let input = prop::sample::select(vec![json!({"a": 1}), json!({"a": 2.5})]);
    let answers = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(0..4u8, 0..3)];
    let multitask = prop::sample::select(Multitask::ALL.map(|(how, _)| how).to_vec());
    prop_oneof![
        6 => (org(), (thread(), any::<u8>()), (key, multitask), input, answers).prop_map(
            |(org, at, how, input, answers)| Op::Create { org, at, how, input, answers }),
        6 => (any_of(), worker()).prop_map(|(run, worker)| Op::Claim { run, worker }),
        12 => (any_of(), commit()).prop_map(|(claim, commit)| Op::Commit { claim, commit }),
        1 => any_of().prop_map(|run| Op::Cancel { run }),
        2 => any_of().prop_map(|run| Op::Requeue { run }),
        2 => any_of().prop_map(|claim| Op::Release { claim }),
        1 => (org(), thread()).prop_map(|(org, thread)| Op::Delete { org, thread }),
        2 => (org(), thread(), 0..4u8).prop_map(|(org, thread, key)| Op::Call { org, thread, key }),
        2 => (worker(), 1..200i64).prop_map(|(worker, lease)| Op::KeepAlive { worker, lease }),
        1 => worker().prop_map(|worker| Op::Retire { worker }),
        1 => (0..4usize).prop_map(|limit| Op::Orphans { limit }),
        1 => (org(), 0..300i64, 0..3usize)
            .prop_map(|(org, age, limit)| Op::Forget { org, age, limit }),
        2 => (org(), 0..100i64, 0..3usize)
            .prop_map(|(org, age, limit)| Op::DropEvents { org, age, limit }),
        1 => (any_of(), 0..6u64, 0..5usize)
            .prop_map(|(run, after, limit)| Op::Events { run, after, limit }),
        2 => (org(), thread(), metadata(), any::<bool>()).prop_map(
            |(org, thread, metadata, create)| Op::Describe { org, thread, metadata, create }),
        1 => (org(), metadata(), 0..3usize)
            .prop_map(|(org, metadata, limit)| Op::Search { org, metadata, limit }),
        14 => keep::op().prop_map(|op| Op::Keep(Box::new(op))),
    ]
}

pub(crate) fn principal(org: u8) -> Principal {
    Principal::new(OrgId::new(format!("o{org}")).expect("an id"), format!("s{org}"))
}

pub(super) fn at(thread: u8, run: u8) -> RunRef {
    RunRef {
        thread: ThreadId::new(format!("t{thread}")).expect("an id"),
        run: RunId::new(format!("r{run}")).expect("an id"),
    }
}

fn worker(n: u8) -> WorkerId {
    WorkerId::new(format!("w{n}")).expect("an id")
}

fn key(n: u8) -> CallKey {
    CallKey(canonical::hash_bytes(&[n]))
}

fn new_run(
    at: RunRef,
    key: Option<u8>,
    multitask: Multitask,
    input: Value,
    now: Timestamp,
) -> NewRun {
    NewRun {
        at,
        graph: "test:graph".to_owned(),
        caller: Caller::local("request").expect("an id"),
        input: RunInput::Start { input },
        options: RunOptions {
            idempotency_key: key.map(|key| key.to_string()),
            multitask,
            ..RunOptions::default()
        },
        created_at: now,
    }
}

fn answers(ids: Vec<u8>, now: Timestamp) -> BTreeMap<InterruptId, Answer> {
    let answer =
        |id: u8| Answer { value: json!(id), answered_by: "ada".to_owned(), answered_at: now };
    ids.into_iter().map(|id| (InterruptId(id.into()), answer(id))).collect()
}

/// Applies the operation and formats its result.
pub(crate) async fn apply(store: &dyn Store, op: Op, now: Timestamp, world: &mut World) -> String {
    match op {
        Op::Create { org, at: (thread, run), how: (key, multitask), input, answers: given } => {
            let run = new_run(at(thread, run), key, multitask, input, now);
            let made = store.create_run(&principal(org), run, answers(given, now)).await;
            world.runs.extend(made.iter().map(|row| (org, row.new.at.clone())));
            format!("{made:?}")
        }
        Op::Claim { run, worker: by } => {
            let Some((org, at)) = recent(&world.runs, run) else { return String::new() };
            let made = store.claim(&principal(org), &at, &worker(by), now).await;
            world.claims.extend(made.iter().map(|(claim, _)| (org, claim.clone())));
            format!("{made:?}")
        }
        Op::Cancel { run } => {
            let Some((org, at)) = recent(&world.runs, run) else { return String::new() };
            format!("{:?}", store.request_cancel(&principal(org), &at).await)
        }
        Op::Requeue { run } => {
            let Some((org, at)) = recent(&world.runs, run) else { return String::new() };
            format!("{:?}", store.requeue(&principal(org), &at, now).await)
        }
        Op::Events { run, after, limit } => {
            let Some((org, at)) = recent(&world.runs, run) else { return String::new() };
            let pieces = store.pieces(&principal(org), &at, Position::after(after), limit).await;
            format!("{:?} {pieces:?}", store.events(&principal(org), &at, after, limit).await)
        }
        Op::Delete { org, thread } => {
            let id = at(thread, 0).thread;
            format!("{:?}", store.delete_thread(&principal(org), &id).await)
        }
        Op::KeepAlive { worker: n, lease } => {
            let expires_at = Timestamp(now.0 + lease);
            let row = WorkerRow { id: worker(n), renewed_at: now, expires_at };
            format!("{:?}", store.keep_alive(row).await)
        }
        Op::Forget { org, age, limit } => {
            let waiting = if age % 2 == 0 { Waiting::Spared } else { Waiting::Included };
            let which = Untouched { before: Timestamp(now.0 - age), waiting, limit };
            let found = store.untouched(&principal(org), which).await;
            format!("{found:?} {:?}", store.delete_untouched(&principal(org), which).await)
        }
        Op::DropEvents { org, age, limit } => {
            let before = Timestamp(now.0 - age);
            format!("{:?}", store.drop_events(&principal(org), before, limit).await)
        }
        Op::Describe { org, thread, metadata, create } => {
            let who = principal(org);
            let id = at(thread, 0).thread;
            if !create {
                return format!("{:?}", store.update_metadata(&who, &id, metadata, now).await);
            }
            let if_exists = if thread == 0 { IfExists::Refuse } else { IfExists::Return };
            let new = NewThread { id, graph: None, metadata, created_at: now, if_exists };
            format!("{:?}", store.create_thread(&who, new).await)
        }
        Op::Search { org, metadata, limit } => {
            let query = ThreadQuery { metadata, limit, ..ThreadQuery::default() };
            format!("{:?}", store.search_threads(&principal(org), query).await)
        }
        Op::Retire { worker: n } => format!("{:?}", store.retire(&worker(n)).await),
        Op::Keep(op) => keep::apply(store, *op).await,
        Op::Orphans { limit } => {
            let due = store.due(now, vec!["test:graph".to_owned()], limit).await;
            format!("{:?} {due:?}", store.orphans(now, limit).await)
        }
        Op::Call { org, thread, key: n } => {
            format!("{:?}", store.call(&principal(org), &at(thread, 0).thread, key(n)).await)
        }
        Op::Commit { claim, .. } | Op::Release { claim } => {
            let Some((org, claim)) = recent(&world.claims, claim) else { return String::new() };
            apply_claimed(store, op, now, org, &claim).await
        }
    }
}

/// Applies an operation that needs a claim.
async fn apply_claimed(
    store: &dyn Store,
    op: Op,
    now: Timestamp,
    org: u8,
    claim: &Claim,
) -> String {
    let who = principal(org);
    match op {
        Op::Commit { mut commit, .. } => {
            commit.at = now;
            for row in &mut commit.usage {
                // An invocation belongs to one run.
                let row = Arc::make_mut(row);
                let id = format!("{}-{}", claim.at.run, row.fact.invocation_id);
                row.fact.invocation_id = InvocationId::new(id).expect("an id");
                let of_run = row.caller.run().cloned();
                let caller = of_run.map(|of| GraphCaller { run: claim.at.run.clone(), ..of });
                row.caller = caller.expect("a run").into();
            }
            let committed = store.commit(&who, claim, *commit).await;
            let rows = store.sequence_rows(&who, SequenceQuery::all("mail")).await;
            format!("{committed:?} {rows:?}")
        }
        Op::Release { .. } => format!("{:?}", store.release(&who, claim, now).await),
        _ => String::new(),
    }
}
