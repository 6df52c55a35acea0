//! Random interleavings of a run, its claims and its followers.

use super::{Follower, RunLog};
use crate::context::WorkerContext;
use crate::event_bus::EventBus;
use crate::ledger::StoreLedger;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weftwork_graph::run_loop::{EventSource, Host};
use weftwork_store::{Claim, Commit, MemoryStore, NewRun, Store};
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, AttemptReset, Position, RunEvent};
use weftwork_types::port::{Clock, Unlimited};
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRef, RunStatus};
use weftwork_types::{BoxStream, Principal, RunId, TaskId, ThreadId, WorkerId};

/// Number of followers of the run, besides the handle of each claim.
const FOLLOWERS: usize = 3;

#[derive(Debug, Clone)]
enum Action {
    /// A node emits text.
    Text(u128, usize),
    /// A node emits an event.
    Emit(usize),
    /// The waiting events and a superstep are committed.
    Step,
    /// The waiting events and text are committed.
    Save,
    /// The store refuses a commit.
    Refuse,
    /// A follower receives some of its events.
    Receive(usize, usize),
    /// The holder of the handle of the claim receives some of its events.
    ReceiveHere(usize),
    /// A follower reconnects at its position.
    Reconnect(usize),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// Another worker takes the run over, in this process or in another.
    TakeOver(bool),
    /// The attempt of a node fails, and its text is void.
    Reset(u128),
    /// Reads of the store wait until the follower is asked again, or no more.
    Wait(bool),
}

thread_local! {
    /// `true` if reads of the store wait.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Waits for the store if reads wait.
pub(super) async fn store_answers() {
    if WAITS.get() {
        tokio::task::yield_now().await;
    }
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..2_u128, prop_oneof![1..20_usize, 20_000..30_000_usize])
            .prop_map(|(task, len)| Action::Text(task, len)),
        2 => prop_oneof![1..20_usize, 30_000..70_000_usize].prop_map(Action::Emit),
        2 => Just(Action::Step),
        3 => Just(Action::Save),
        1 => Just(Action::Refuse),
        6 => (0..FOLLOWERS, 1..6_usize).prop_map(|(who, n)| Action::Receive(who, n)),
        2 => (1..6_usize).prop_map(Action::ReceiveHere),
        1 => (0..FOLLOWERS).prop_map(Action::Reconnect),
        2 => (50..600_u64).prop_map(Action::Pass),
        1 => any::<bool>().prop_map(Action::TakeOver),
        1 => (0..2_u128).prop_map(Action::Reset),
        1 => prop::bool::weighted(0.8).prop_map(Action::Wait),
    ]
}

/// A client of the run, with the events it received.
struct Client {
    events: BoxStream<'static, RunEvent>,
    received: Vec<RunEvent>,
    ended: bool,
}

impl Client {
    fn new(follower: Follower) -> Self {
        Self { events: follower.events(), received: Vec::new(), ended: false }
    }

    fn at(&self) -> Position {
        self.received.last().and_then(RunEvent::position).unwrap_or(Position::START)
    }

    /// Receives at most so many events that are there now.
    fn receive(&mut self, most: usize) -> usize {
        for n in 0..most {
            match self.events.next().now_or_never() {
                Some(Some(event)) => self.received.push(event),
                Some(None) => {
                    self.ended = true;
                    return n;
                }
                None => return n,
            }
        }
        most
    }
}

/// A worker's claim on the run.
struct Worker {
    claim: Claim,
    bus: Arc<EventBus>,
    handle: Client,
}

struct World {
    context: Arc<WorkerContext>,
    clock: ManualClock,
    at: RunRef,
    worker: Worker,
    earlier: Vec<Worker>,
    clients: Vec<Client>,
    step: i64,
    /// Texts of each node under a claim: a superstep and a reset begin another one.
    said: BTreeMap<(u64, String), Vec<String>>,
}

fn who() -> Principal {
    Principal::local()
}

fn context(store: Arc<dyn Store>, clock: &ManualClock) -> Arc<WorkerContext> {
    Arc::new(WorkerContext {
        ledger: StoreLedger::new(Arc::clone(&store), Arc::new(clock.clone())),
        store,
        clock: Arc::new(clock.clone()),
        program_version: crate::program_version::ProgramVersion::new(None),
        observer: None,
        limits: None,
        budgets: Arc::new(Unlimited),
        thread_budget: None,
        of_source: None,
        dependencies: BTreeMap::new(),
        provided: Default::default(),
        rebuilds: false,
        suspects: Arc::new(Semaphore::new(1)),
        attempts_max: 3,
        local: Host::new(),
        recent: Arc::default(),
        live: Arc::default(),
        timers: Arc::default(),
        shutdown: Arc::default(),
    })
}

/// Returns the result of a future of the store in memory, which waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the store in memory waits for nothing")
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let context = context(Arc::new(MemoryStore::new()), &clock);
        let thread = ThreadId::new("t").expect("valid id");
        let at = RunRef { thread, run: RunId::new("r").expect("valid id") };
        let new = NewRun {
            at: at.clone(),
            graph: "test:graph".to_owned(),
            caller: Caller::local("request").expect("valid id"),
            input: RunInput::Start { input: json!({}) },
            options: RunOptions::default(),
            created_at: clock.now(),
        };
        now(context.store.create_run(&who(), new, [].into())).expect("accepted");
        let log = RunLog { context: Arc::clone(&context), who: who(), at: at.clone() };
        let follower = || Client::new(Follower::of_run(log.clone(), Position::START));
        let clients = (0..FOLLOWERS).map(|_| follower()).collect();
        let worker = Self::claim(&log, true);
        WAITS.set(false);
        let said = BTreeMap::new();
        Self { context, clock, at, worker, earlier: Vec::new(), clients, step: 0, said }
    }

    fn log(&self) -> RunLog {
        RunLog { context: Arc::clone(&self.context), who: who(), at: self.at.clone() }
    }

    fn claim(log: &RunLog, is_here: bool) -> Worker {
        let RunLog { context, at, .. } = log;
        let id = WorkerId::from_uuid(uuid::Uuid::from_u128(context.clock.unique()));
        let claimed = now(context.store.claim(&who(), at, &id, context.clock.now()));
        let claim = claimed.expect("its worker is dead").0;
        let bus = Arc::new(EventBus::new(Arc::clone(&context.clock), claim.fence));
        let handle = Client::new(Follower::of_claim(log.clone(), Arc::clone(&bus), claim.fence));
        if is_here {
            context.live.begin(&who().org, at, &bus);
        }
        Worker { claim, bus, handle }
    }

    fn commit(&mut self, own: Vec<AiEvent>, finish: Option<RunOutcome>) {
        let carried = self.worker.bus.begin(&own);
        let mut events = carried.events;
        events.extend(own.iter().cloned());
        let void = carried.void;
        let pieces = carried.pieces;
        let at = self.clock.now();
        let commit = Commit { events, void, pieces, finish, at, ..Commit::default() };
        let committed = now(self.context.store.commit(&who(), &self.worker.claim, commit));
        self.worker.bus.committed(committed.expect("commits").first_seq, at, own);
    }

    fn refuse(&self) {
        self.worker.bus.begin(&[]);
        self.worker.bus.failed();
        self.worker.bus.pause(Fault::new(weftwork_graph::NODE_FAILED, "refused"));
    }

    fn take_over(&mut self, is_here: bool) {
        let log = self.log();
        let next = Self::claim(&log, is_here);
        let dead = std::mem::replace(&mut self.worker, next);
        let tail = AiEvent::TakenOver { claim: self.worker.claim.fence };
        self.commit(vec![tail, AiEvent::AttemptReset(AttemptReset::of_node("a"))], None);
        self.context.live.end(&who().org, &self.at.run, &dead.bus);
        dead.bus.give_up(AiEvent::Done { outcome: RunStatus::Failed });
        self.earlier.push(dead);
    }

    fn act(&mut self, action: &Action) {
        let step = self.step;
        let by = |task: u128| EventSource {
            node: format!("n{task}").into(),
            task: TaskId(task),
            step,
            ns: "".into(),
            graph_step: step,
            message: None,
        };
        match action {
            Action::Text(task, len) => {
                let said = self.texts(*task).last_mut().expect("a text");
                // No part of a text is found at another place in it.
                let words =
                    (said.len()..).map(|n| format!("{n}.{task} ")).flat_map(String::into_bytes);
                let delta: String = words.take(*len).map(char::from).collect();
                said.push_str(&delta);
                self.worker.bus.emit(&by(*task), AiEvent::TextDelta { delta });
            }
            Action::Emit(len) => {
                let event = AiEvent::custom(json!("x".repeat(*len)));
                self.worker.bus.emit(&by(0), event);
            }
            Action::Step => {
                let step = AiEvent::Step { step: self.step, nodes: Vec::new() };
                self.commit(vec![step], None);
                self.step += 1;
                (0..2).for_each(|task| self.texts(task).push(String::new()));
            }
            Action::Save => self.commit(Vec::new(), None),
            Action::Refuse => self.refuse(),
            Action::Receive(client, most) => {
                self.clients[*client].receive(*most);
            }
            Action::ReceiveHere(most) => {
                self.worker.handle.receive(*most);
            }
            Action::Reconnect(client) => {
                let follower = Follower::of_run(self.log(), self.clients[*client].at());
                self.clients[*client].events = follower.events();
            }
            Action::Pass(ms) => self.clock.advance(Duration::from_millis(*ms)),
            Action::TakeOver(is_here) => self.take_over(*is_here),
            Action::Reset(task) => {
                self.texts(*task).push(String::new());
                let reset = AiEvent::AttemptReset(AttemptReset::of_node(format!("n{task}")));
                self.worker.bus.emit(&by(*task), reset);
            }
            Action::Wait(waits) => WAITS.set(*waits),
        }
    }

    /// The texts of a node under the current claim.
    fn texts(&mut self, task: u128) -> &mut Vec<String> {
        let speaker = (self.worker.claim.fence, format!("n{task}"));
        self.said.entry(speaker).or_insert_with(|| vec![String::new()])
    }

    /// Ends the run, and lets everybody receive everything.
    fn end(&mut self) {
        WAITS.set(false);
        let outcome = RunOutcome::cancelled();
        self.commit(vec![AiEvent::Done { outcome: outcome.status() }], Some(outcome));
        self.context.live.end(&who().org, &self.at.run, &self.worker.bus);
        let handles = self.earlier.iter_mut().map(|worker| &mut worker.handle);
        let handles = handles.chain([&mut self.worker.handle]);
        for client in self.clients.iter_mut().chain(handles) {
            for _ in 0..20 {
                client.receive(usize::MAX);
                self.clock.advance(Duration::from_secs(1));
            }
            assert!(client.ended, "at {:?}", client.at());
        }
    }

    fn check(&self) {
        let log = now(self.context.store.events(&who(), &self.at, 0, usize::MAX));
        let log = log.expect("reads");
        let stored: Vec<_> = log.iter().map(|event| (event.seq, event.event.clone())).collect();
        for client in &self.clients {
            assert_eq!(durable(&client.received), stored, "each event once, in order");
        }
        let claimed = |(_, event): &(u64, AiEvent)| match event {
            AiEvent::TakenOver { claim } => Some(*claim),
            _ => None,
        };
        let workers = self.earlier.iter().chain([&self.worker]);
        for Worker { claim, handle, .. } in workers.clone() {
            let mut current = 1;
            let of_claim = stored.iter().filter(|event| {
                current = claimed(event).unwrap_or(current);
                current == claim.fence
            });
            let of_claim: Vec<_> = of_claim.cloned().collect();
            assert_eq!(durable(&handle.received), of_claim, "the events of claim {}", claim.fence);
            let done =
                matches!(handle.received.last().map(|e| &e.event), Some(AiEvent::Done { .. }));
            assert!(done, "its last event");
        }
        let handles = workers.map(|worker| &worker.handle);
        for client in self.clients.iter().chain(handles) {
            check_order(&client.received);
        }
        for client in &self.clients {
            self.check_beginnings(1, &client.received);
        }
        for worker in self.earlier.iter().chain([&self.worker]) {
            self.check_beginnings(worker.claim.fence, &worker.handle.received);
        }
        self.check_text();
    }

    /// A client that receives a part of a text has received all of the text before it.
    fn check_beginnings(&self, mut claim: u64, events: &[RunEvent]) {
        let mut received: BTreeMap<&str, String> = BTreeMap::new();
        for event in events {
            match (&event.event, &event.piece) {
                (AiEvent::TextDelta { delta }, Some(at)) => {
                    let text = received.entry(&at.node).or_default();
                    text.push_str(delta);
                    let said = &self.said[&(claim, at.node.clone())];
                    let begins = said.iter().any(|said| said.starts_with(text.as_str()));
                    assert!(begins, "a part without its beginning: {delta:.20} at {:?}", at.end);
                }
                (AiEvent::Step { .. }, _) => received.clear(),
                (AiEvent::TakenOver { claim: next }, _) => {
                    claim = *next;
                    received.clear();
                }
                (AiEvent::AttemptReset(reset), _) => drop(received.remove(reset.node.as_str())),
                _ => {}
            }
        }
    }

    /// The text at each position is the same for all.
    fn check_text(&self) {
        let mut text: BTreeMap<(u64, u64), u8> = BTreeMap::new();
        let handles = self.earlier.iter().chain([&self.worker]).map(|worker| &worker.handle);
        for event in self.clients.iter().chain(handles).flat_map(|client| &client.received) {
            let (AiEvent::TextDelta { delta }, Some(at)) = (&event.event, event.position()) else {
                continue;
            };
            for (n, byte) in (at.bytes - delta.len() as u64..).zip(delta.bytes()) {
                // An attempt that died had text of its own after the last event it stored.
                let found = text.entry((at.seq, n)).or_insert(byte);
                assert_eq!(*found, byte, "at {at:?}");
            }
        }
    }
}

fn durable(events: &[RunEvent]) -> Vec<(u64, AiEvent)> {
    let durable = events.iter().filter_map(|event| Some((event.seq?, event.event.clone())));
    durable.collect()
}

fn check_order(events: &[RunEvent]) {
    let mut last = Position::START;
    for at in events.iter().filter_map(RunEvent::position) {
        assert!(at > last, "{at:?} after {last:?}");
        last = at;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn each_event_is_received_once_and_in_order(actions in prop::collection::vec(action(), 1..80)) {
        play(&actions);
    }
}

#[test]
fn a_text_that_is_void_is_removed_as_a_whole() {
    use Action::{Receive, Reset, Save, Text};
    let stories: [&[Action]; 3] = [
        // Its end is stored with text that is not void.
        &[Text(1, 1), Save, Text(1, 1), Text(0, 1), Save, Reset(1), Save, Receive(0, 1)],
        // Text that is not void is stored between its parts.
        &[Text(1, 1), Save, Text(0, 1), Save, Text(1, 1), Save, Reset(1), Save, Receive(0, 1)],
        // It is retained by another void text, whose end is stored with text that is not void.
        &[
            Text(1, 1),
            Save,
            Text(1, 1),
            Text(0, 1),
            Save,
            Text(0, 1),
            Text(2, 1),
            Save,
            Reset(1),
            Reset(0),
            Save,
            Receive(0, 2),
        ],
    ];
    for story in stories {
        play(story);
    }
}

fn play(actions: &[Action]) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let _tokio = tokio.as_ref().expect("a runtime").enter();
    let mut world = World::new();
    actions.iter().for_each(|action| world.act(action));
    world.end();
    world.check();
}
