//! Breaks the connection after each response of the database in turn. Every operation in progress
//! takes effect exactly once, and every call has the same result as in memory.

use crate::support::{Schema, address, at, block_on, custom_event, new_run, thread, worker};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use weftwork_postgres::PostgresStore;
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Claim, Commit, MemoryStore, NewCheckpoint, NewPending,
    Pending, Store, UsageRow, WorkerRow,
};
use weftwork_store_conformance::{dump, dump_checkpoints};
use weftwork_types::caller::{Caller, GraphCaller};
use weftwork_types::canonical::{self, Hash};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallResult, CallState};
use weftwork_types::run::RunOutcome;
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{
    CheckpointId, ErrorCode, InterruptId, InvocationId, OrgId, Principal, TaskId, Timestamp,
};

/// A proxy between the store and the database. It breaks the connection instead of forwarding the
/// response at which the count reaches zero.
struct Between {
    address: String,
    left: Arc<AtomicIsize>,
}

impl Between {
    fn new() -> Self {
        let address = address();
        let left = Arc::new(AtomicIsize::new(isize::MAX));
        let (front, back) = address.split_once("127.0.0.1:").expect("an address");
        let (port, rest) = back.split_once('/').expect("a database");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let ours = listener.local_addr().expect("its number").port();
        let server: u16 = port.parse().expect("a number");
        let count = Arc::clone(&left);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", server)).expect("connects");
                carry(client, server, &count);
            }
        });
        Self { address: format!("{front}127.0.0.1:{ours}/{rest}"), left }
    }
}

fn carry(client: TcpStream, server: TcpStream, left: &Arc<AtomicIsize>) {
    client.set_nodelay(true).and(server.set_nodelay(true)).expect("two sockets");
    let mut from = client.try_clone().expect("a socket");
    let mut to = server.try_clone().expect("a socket");
    std::thread::spawn(move || {
        // Either end may be closed.
        drop(std::io::copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Write));
    });
    let mut from = server;
    let mut to = client;
    let left = Arc::clone(left);
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(bytes) = from.read(&mut buffer) {
            let breaks = left.fetch_sub(1, Ordering::SeqCst) == 0;
            if bytes == 0 || breaks || to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    });
}

fn id(number: u128) -> CheckpointId {
    CheckpointId(number)
}

fn checkpoint(number: u128, blobs: Vec<Hash>) -> NewCheckpoint {
    NewCheckpoint {
        ns: String::new(),
        id: id(number),
        of: (number > 1).then(|| id(number - 1)),
        tasks: vec![1],
        body: vec![2; 9],
        blobs,
    }
}

fn part(what: Pending) -> NewPending {
    NewPending { ns: String::new(), of: id(1), what, body: vec![3], blobs: Vec::new() }
}

fn question() -> Interrupt {
    Interrupt {
        id: InterruptId(1),
        task: TaskId(1),
        node: "ask".to_owned(),
        graph: None,
        ask: Ask::Value { value: serde_json::json!("well?") },
        answer_schema: None,
        expires_at: None,
        default: None,
        key: None,
    }
}

fn call(effect: Effect) -> CallRecord {
    CallRecord {
        key: CallKey(canonical::hash_bytes(format!("{effect:?}").as_bytes())),
        kind: CallKind::Tool,
        name: "tool".to_owned(),
        node: "tools".to_owned(),
        step: 1,
        effect,
        state: CallState::Intent,
        result: None,
        made: 1,
        possibly_paid: 0,
        reused: 0,
        opened_at: Timestamp(5),
        settled_at: None,
    }
}

fn usage() -> UsageRow {
    UsageRow {
        caller: GraphCaller {
            caller: Caller::local("request").expect("an id"),
            run: at("t", "r1").run,
            graph: "test:graph".to_owned(),
            graph_version: "1".to_owned(),
        }
        .into(),
        fact: UsageFact {
            invocation_id: InvocationId::new("i").expect("an id"),
            attempt: 1,
            provider: "local".to_owned(),
            model: "small".to_owned(),
            status: UsageStatus::Ok,
            error_code: None,
            tokens: Tokens::reported(7, 3),
            cost_micro_usd: None,
            provider_call_id: None,
            prompt_hash: canonical::hash_bytes(b"prompt"),
            started_at: Timestamp(4),
            latency_ms: 5,
            provider_cost_micro_usd: None,
            compared_micro_usd: None,
            saved_micro_usd: None,
            first_token_ms: None,
        },
    }
}

/// A superstep with every kind of record.
fn full() -> Commit {
    let blob = b"a blob".to_vec();
    let hash = canonical::hash_bytes(&blob);
    Commit {
        batch: CheckpointBatch {
            checkpoints: vec![checkpoint(1, vec![hash]), checkpoint(2, Vec::new())],
            pending: vec![part(Pending::Tasks), part(Pending::Outside)],
            blobs: vec![(hash, blob)],
            layouts: vec![(hash, b"names".to_vec())],
        }
        .into(),
        interrupts: vec![question()],
        events: vec![custom_event(1), custom_event(2)],
        at: Timestamp(6),
        ..Commit::default()
    }
}

/// Applies every kind of operation and returns all results.
async fn play(store: &dyn Store, who: &Principal) -> Vec<String> {
    let t = thread("t");
    let mut told_all = Vec::new();
    macro_rules! tell {
        ($call:expr) => {{
            let result = $call.await;
            told_all.push(format!("{result:?}"));
            result.ok()
        }};
    }
    let lease =
        |by| WorkerRow { id: worker(by), renewed_at: Timestamp(0), expires_at: Timestamp(1_000) };
    tell!(store.keep_alive(lease("w1")));
    tell!(store.create_run(who, new_run("t", "r1"), BTreeMap::new()));
    let claimed = tell!(store.claim(who, &at("t", "r1"), &worker("w1"), Timestamp(1)));
    let claim: Claim = claimed.expect("claims").0;
    let begun = call(Effect::ExternalSideEffect);
    let result = Some(CallResult { value: serde_json::json!({"n": 1}) });
    let state = CallState::Settled;
    let settled_at = Some(Timestamp(7));
    let ended = CallRecord { state, result, settled_at, ..begun.clone() };
    let first = vec![begun.clone().into()];
    for calls in [first, vec![call(Effect::ReadOnly).into(), ended.into()]] {
        let usage = vec![usage().into()];
        tell!(store.commit(who, &claim, Commit { calls, usage, ..Commit::default() }));
    }
    tell!(store.call(who, &t, begun.key));
    tell!(store.commit(who, &claim, full()));
    let only = |number| CheckpointBatch {
        checkpoints: vec![checkpoint(number, Vec::new())],
        ..CheckpointBatch::default()
    };
    let usual = Commit {
        batch: only(3).into(),
        events: vec![custom_event(3)],
        at: Timestamp(8),
        ..Commit::default()
    };
    tell!(store.commit(who, &claim, usual.clone()));
    tell!(store.request_cancel(who, &claim.at));
    tell!(store.retire(&claim.worker));
    tell!(store.keep_alive(lease("w2")));
    let heir = tell!(store.claim(who, &claim.at, &worker("w2"), Timestamp(9)));
    let heir = heir.expect("takes over").0;
    tell!(store.commit(who, &claim, usual));
    let asks = Commit {
        interrupts: vec![question()],
        events: vec![custom_event(4)],
        finish: Some(RunOutcome::Interrupted {
            interrupts: vec![InterruptId(1)],
            questions: Vec::new(),
        }),
        at: Timestamp(10),
        ..Commit::default()
    };
    tell!(store.commit(who, &heir, asks));
    let given = Answer {
        value: serde_json::json!("yes"),
        answered_by: "ada".to_owned(),
        answered_at: Timestamp(11),
    };
    let answers: BTreeMap<_, _> = [(InterruptId(1), given)].into();
    tell!(store.create_run(who, new_run("t", "r2"), answers));
    tell!(store.record_usage(who, usage()));
    // Without a run, and without a row.
    let loose = thread("loose");
    let mut batch = only(1);
    tell!(store.put_checkpoints(who, &loose, batch.clone()));
    batch.pending = vec![part(Pending::Tasks), part(Pending::Tasks)];
    tell!(store.put_checkpoints(who, &loose, batch));
    let root = CheckpointNamespace { thread: loose.clone(), ns: String::new() };
    tell!(store.rewrite(who, &root, id(1), only(1)));
    tell!(store.copy_checkpoints(who, &t, &thread("copy")));
    tell!(store.create_run(who, new_run("gone", "r3"), BTreeMap::new()));
    let claimed = tell!(store.claim(who, &at("gone", "r3"), &worker("w2"), Timestamp(12)));
    tell!(store.release(who, &claimed.expect("claims").0, Timestamp(13)));
    let claimed = tell!(store.claim(who, &at("gone", "r3"), &worker("w2"), Timestamp(14)));
    let fault = Fault::new(ErrorCode("W0109"), "no luck");
    let end = Commit { finish: Some(RunOutcome::Failed { fault }), ..Commit::default() };
    tell!(store.commit(who, &claimed.expect("claims").0, end.clone()));
    tell!(store.requeue(who, &at("gone", "r3"), Timestamp(15)));
    tell!(store.events(who, &at("gone", "r3"), 0, 9));
    let claimed = tell!(store.claim(who, &at("gone", "r3"), &worker("w2"), Timestamp(16)));
    tell!(store.commit(who, &claimed.expect("claims").0, end));
    tell!(store.delete_thread(who, &thread("gone")));
    told_all
}

/// Returns the final state.
async fn left(store: &dyn Store, who: &Principal) -> Vec<String> {
    let mut lines = dump(store, std::slice::from_ref(who)).await.expect("reads");
    for name in ["loose", "copy"] {
        lines.extend(dump_checkpoints(store, who, &thread(name)).await.expect("reads"));
    }
    lines
}

#[test]
fn a_break_after_any_answer_changes_nothing() {
    let between = Between::new();
    let schema = Schema::new("doubt");
    let direct = schema.open();
    // All positions take half a minute.
    let full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    for breaks_at in (0..).step_by(if full { 1 } else { 3 }) {
        // Each iteration uses an empty organisation.
        let org = OrgId::new(format!("o{breaks_at}")).expect("an id");
        let who = Principal::new(org, "somebody");
        let memory = MemoryStore::new();
        let expected = block_on(play(&memory, &who));
        let store = PostgresStore::open(&between.address, &schema.options()).expect("opens");
        between.left.store(breaks_at, Ordering::SeqCst);
        let played = block_on(play(&store, &who));
        let broke = between.left.swap(isize::MAX, Ordering::SeqCst) < 0;
        assert_eq!(played, expected, "broken at answer {breaks_at}");
        let in_memory = block_on(left(&memory, &who));
        let kept = block_on(left(&direct, &who));
        assert_eq!(kept, in_memory, "broken at answer {breaks_at}");
        if !broke {
            assert!(breaks_at > 40, "there were only {breaks_at} answers");
            return;
        }
    }
}
