//! Activities that wait for a person: they hold their mailbox, and their answers end them.

#![expect(clippy::print_stdout, reason = "the seed and the figures are part of the result")]

use super::{Place, close, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityEnd, ActivityPayload, AgentRuntime, InstanceEventKind, InstanceOptions,
    InstanceStatus, OnQuestion,
};
use weftwork::graph::{RuntimeError, SystemClock};
use weftwork::prelude::*;
use weftwork::runtime::{FollowFrom, LeaseConfig, Recovery, Runtime};
use weftwork::store::StoreError;
use weftwork::types::port::Clock;
use weftwork::types::run::CancelAction;
use weftwork::types::{InstanceId, Principal, ThreadId};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    number: u32,
    asks: bool,
}

#[derive(Debug, State)]
struct Book {
    /// Lines of the activities that were executed, in order.
    #[channel(append)]
    done: List<String>,
    /// Number of activities that reached the second node.
    seen: u64,
}

async fn count(book: State<Book>) -> NodeResult<BookUpdate> {
    Ok(BookUpdate::new().seen(book.seen().copied().unwrap_or_default() + 1))
}

/// Does what the payload says, after the answer of a person if it asks one.
async fn order(payload: ActivityPayload<Order>, ctx: Ctx) -> NodeResult<BookUpdate> {
    let Order { number, asks } = payload.0;
    let line = match asks {
        false => number.to_string(),
        true => format!("{number}: {}", ctx.interrupt(json!({"order": number}))?),
    };
    Ok(BookUpdate::new().done([line]))
}

/// A graph whose last superstep has a node that writes beside the one that asks.
fn graph() -> CompiledGraph {
    let graph = Graph::<Book>::new("orders").node("count", count).node("order", order);
    graph.edge(START, "count").edge(START, "order").build().expect("sound")
}

fn payload(number: u32, asks: bool) -> Value {
    json!(Order { number, asks })
}

async fn create(agents: &AgentRuntime) {
    agents.create_graph_agent(&graph(), json!({}), options()).await.expect("created");
}

/// Answers the open question of an instance with a text that is made of it.
async fn answer(agents: &AgentRuntime, id: &InstanceId) -> Result<(), RuntimeError> {
    let thread = agents.runtime().thread("app:orders", id.as_str())?;
    let store = agents.store();
    let rows = store.interrupts(&Principal::local(), &ThreadId::from(id)).await?;
    let Some(open) = rows.iter().find(|row| row.is_open()) else { return Ok(()) };
    let asked = json!(open.interrupt.ask)["value"]["order"].clone();
    thread.answer(json!(format!("answer to {asked}"))).await.map(drop)
}

async fn done(agents: &AgentRuntime, id: &InstanceId) -> Value {
    agents.get_state(id).await.expect("exists")["done"].clone()
}

async fn an_activity_that_waits_for_an_answer_holds_its_mailbox(place: Place) {
    let agents = open(&place).await;
    create(&agents).await;
    let asks = agents.send(id(), Activity::new(payload(1, true))).await.expect("accepted");
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Asks));
    let cancelled = agents.send(id(), Activity::new(payload(2, false))).await.expect("accepted");
    let urgent = Activity::new(payload(3, false)).priority(9);
    let urgent = agents.send(id(), urgent).await.expect("accepted");
    let now = info(&agents).await;
    assert_eq!((now.status, now.questions.len()), (InstanceStatus::Asking, 1));
    let counts = now.statistics;
    assert_eq!((counts.asking, counts.waiting, counts.succeeded), (1, 2, 0));
    // One that is cancelled meanwhile does not let the others pass.
    let who = Principal::local();
    let cancel = CancelAction::Interrupt;
    agents.runtime().cancel_run(&who, cancelled.activity(), cancel).await.expect("is cancelled");
    cancelled.ended().await.expect_err("is cancelled");
    assert_eq!(info(&agents).await.status, InstanceStatus::Asking);
    let thread = agents.runtime().thread("app:orders", "i-1").expect("hosted");
    let beside = thread.start(json!({})).await.map(drop).expect_err("passes by the mailbox");
    assert_eq!(beside.fault().code, "W0649");
    assert_eq!(done(&agents, &id()).await, json!([]));
    close(agents).await;

    let agents = open(&place).await;
    create(&agents).await;
    agents.attend(id());
    let refused = agents.runtime().take_over(&who, urgent.activity()).await.map(drop);
    assert!(matches!(refused, Err(RuntimeError::Store(StoreError::Busy { .. }))), "{refused:?}");
    let now = info(&agents).await;
    assert_eq!((now.status, now.questions.len()), (InstanceStatus::Asking, 1));
    answer(&agents, &id()).await.expect("is accepted before the activities that wait");
    until(&agents, |info| info.statistics.succeeded == 2).await;
    assert_eq!(done(&agents, &id()).await, json!(["1: \"answer to 1\"", "3"]));
    let after = info(&agents).await;
    let counts = after.statistics;
    assert_eq!((counts.asking, counts.waiting, counts.cancelled, counts.failed), (0, 0, 1, 0));
    assert_eq!(after.status, InstanceStatus::Idle);
    close(agents).await;
}

/// Answers the questions of an activity that was set aside; returns the lines of its thread.
async fn answer_aside(agents: &AgentRuntime, thread: &ThreadId) -> Value {
    let thread = agents.runtime().thread("app:orders", thread.as_str()).expect("hosted");
    let asked = thread.questions().await.expect("reads");
    let number = json!(asked[0].ask)["value"]["order"].clone();
    let ended = thread.answer(json!(format!("answer to {number}"))).await.expect("accepted");
    ended.output().expect("completed")["done"].clone()
}

async fn an_activity_that_asks_is_set_aside_and_answered_later(place: Place) {
    let agents = open(&place).await;
    let options = options().on_question(OnQuestion::SetAside);
    agents.create_graph_agent(&graph(), json!({}), options.clone()).await.expect("created");
    let send = async |number, asks| {
        agents.send(id(), Activity::new(payload(number, asks))).await.expect("accepted")
    };
    // The others wait already when the first one asks.
    let asks = send(1, true).await;
    let others = [send(2, false).await, send(3, true).await, send(4, false).await];
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Asks));
    let [second, third, fourth] = others;
    assert_eq!(second.ended().await, Ok(ActivityEnd::Succeeded));
    assert_eq!(third.ended().await, Ok(ActivityEnd::Asks));
    assert_eq!(fourth.ended().await, Ok(ActivityEnd::Succeeded));
    let now = info(&agents).await;
    assert_eq!(
        (now.status, now.questions.len(), now.set_aside.len()),
        (InstanceStatus::Idle, 0, 2)
    );
    let counts = now.statistics;
    assert_eq!((counts.asking, counts.waiting, counts.succeeded, counts.failed), (0, 0, 2, 0));
    let state = agents.get_state(id()).await.expect("exists");
    assert_eq!(state["done"], json!(["2", "4"]));
    // The nodes beside the one that asks have written what they wrote.
    assert_eq!(state["seen"], 4, "{state}");
    close(agents).await;

    // Another process: each thread has its question, with the state in which it was asked.
    let agents = open(&place).await;
    agents.create_graph_agent(&graph(), json!({}), options).await.expect("exists");
    let [first, last] = &info(&agents).await.set_aside[..] else { panic!("two") };
    let answered = answer_aside(&agents, &last.thread).await;
    assert_eq!(answered, json!(["2", "3: \"answer to 3\""]));
    assert_eq!(info(&agents).await.set_aside.len(), 1);
    assert_eq!(answer_aside(&agents, &first.thread).await, json!(["1: \"answer to 1\""]));
    assert_eq!(info(&agents).await.set_aside, []);
    assert_eq!(
        done(&agents, &id()).await,
        json!(["2", "4"]),
        "the instance has what was not asked"
    );
    let later = agents.send(id(), Activity::new(payload(5, false))).await.expect("accepted");
    assert_eq!(later.ended().await, Ok(ActivityEnd::Succeeded));
    close(agents).await;
}

async fn the_last_state_precedes_the_end_at_a_question(place: Place) {
    let agents = open(&place).await;
    create(&agents).await;
    for number in 1..=2 {
        let sent = agents.send(id(), Activity::new(payload(number, true))).await.expect("accepted");
        assert_eq!(sent.ended().await, Ok(ActivityEnd::Asks));
        answer(&agents, &id()).await.expect("accepted");
    }
    let mut events = agents.subscribe_from(id(), FollowFrom::Start).await.expect("exists");
    let mut told = Vec::new();
    let mut last = json!(null);
    let mut ends = Vec::new();
    // The first run wrote the initial state.
    while ends.len() < 5 {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = event.expect("in time").expect("goes on").expect("no error");
        told.push((event.activity.to_string(), json!(event)["event"].take()));
        match event.kind {
            InstanceEventKind::State { state } => last = state,
            InstanceEventKind::Ended { questions, .. } => {
                ends.push((questions.len(), last.clone()))
            }
            _ => {}
        }
    }
    // A run begins, has states, and ends; nothing of it follows.
    for run in told.chunk_by(|one, next| one.0 == next.0) {
        let words: Vec<_> = run.iter().map(|(_, word)| word.as_str().expect("a word")).collect();
        let [first, between @ .., end] = words.as_slice() else { panic!("{told:?}") };
        assert_eq!((*first, *end), ("started", "ended"), "{told:?}");
        assert!(between.iter().all(|word| *word == "state"), "{told:?}");
    }
    let mut runs: Vec<_> = told.iter().map(|(run, _)| run).collect();
    runs.dedup();
    assert_eq!(runs.len(), 5, "{told:?}");
    // The state at each end is what the instance has then: the answer adds a line, a question none.
    let lines = |state: &Value| state["done"].as_array().map_or(0, Vec::len);
    let lines: Vec<_> = ends.iter().map(|(asked, state)| (*asked, lines(state))).collect();
    assert_eq!(lines, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]);
    assert_eq!(last, agents.get_state(id()).await.expect("exists"));
    close(agents).await;
}

/// Numbers of activities, of those that ask, of instances, and of kills.
struct Dose {
    activities: u32,
    asking: u32,
    instances: u32,
    kills: u32,
}

fn dose() -> Dose {
    match std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full") {
        true => Dose { activities: 1_000, asking: 100, instances: 10, kills: 30 },
        false => Dose { activities: 60, asking: 12, instances: 4, kills: 4 },
    }
}

/// Draws numbers from a seed.
struct Draw(u64);

impl Draw {
    fn new() -> Self {
        let seed = std::env::var("WEFT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| SystemClock::new().now().0.unsigned_abs());
        println!("WEFT_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).expect("below a limit of 32 bits")
    }
}

fn instance(number: u32) -> InstanceId {
    InstanceId::new(format!("i-{number}")).expect("an id")
}

/// A process with an agent runtime that recovers what other processes left.
struct Process {
    tasks: tokio::runtime::Runtime,
    agents: AgentRuntime,
}

impl Process {
    async fn start(place: &Place) -> Self {
        let mut tasks = tokio::runtime::Builder::new_multi_thread();
        let tasks = tasks.worker_threads(2).enable_all().build().expect("starts");
        let store = place.open();
        let opened = tasks.spawn(async move {
            let beat = Duration::from_millis(50);
            let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
            let runtime = Runtime::builder(store).lease(lease).recovery(Recovery::Automatic);
            // The kills come faster than a process executes all that it takes over.
            let runtime = runtime.attempts_max(100).open().await.expect("opens");
            let agents = AgentRuntime::over(runtime).build().expect("sound");
            agents.host("app:orders", graph()).await.expect("hosted");
            agents
        });
        let agents = opened.await.expect("no panic");
        Self { tasks, agents }
    }

    /// Answers a question of an instance, in the process.
    async fn answer(&self, id: InstanceId) {
        let agents = self.agents.clone();
        let answered = self.tasks.spawn(async move { answer(&agents, &id).await });
        match answered.await.expect("no panic") {
            // It was answered, or the run of the answer before is unfinished.
            Ok(())
            | Err(RuntimeError::Store(StoreError::Answered { .. } | StoreError::Busy { .. })) => {}
            Err(RuntimeError::ManyQuestions { open: 0 }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends everything that the process does, wherever it is.
    fn kill(self) {
        self.tasks.shutdown_background();
    }

    async fn succeeded(&self, instances: u32) -> (u64, Vec<InstanceId>) {
        let mut succeeded = 0;
        let mut asking = Vec::new();
        for number in 0..instances {
            let info = self.agents.info(instance(number)).await.expect("exists");
            assert_eq!(info.statistics.failed, 0, "{info:?}");
            succeeded += info.statistics.succeeded;
            if info.status == InstanceStatus::Asking {
                asking.push(info.id);
            }
        }
        (succeeded, asking)
    }
}

async fn every_question_is_answered_once_and_no_activity_is_lost(place: Place) {
    let Dose { activities, asking, instances, kills } = dose();
    let mut draw = Draw::new();
    let mut process = Process::start(&place).await;
    let mut sent = vec![Vec::new(); usize::try_from(instances).expect("small")];
    for number in 0..instances {
        let options = InstanceOptions::new().id(instance(number));
        let graph = "app:orders";
        process.agents.create_of(graph, json!({}), options).await.expect("created");
    }
    let mut asks: Vec<bool> = (0..activities).map(|number| number < asking).collect();
    for last in (1..activities).rev() {
        let other = draw.below(last + 1);
        asks.swap(usize::try_from(last).expect("small"), usize::try_from(other).expect("small"));
    }
    for (number, asks) in (0..activities).zip(asks) {
        let of = draw.below(instances);
        let activity = Activity::new(payload(number, asks));
        process.agents.leave(instance(of), activity).await.expect("accepted");
        let line =
            if asks { format!("{number}: \"answer to {number}\"") } else { number.to_string() };
        sent[usize::try_from(of).expect("small")].push(line);
    }
    let mut killed = 0;
    loop {
        let (succeeded, waiting) = process.succeeded(instances).await;
        if succeeded == u64::from(activities) {
            break;
        }
        // The first kills come between the questions and their answers.
        let share = u64::from(activities) * u64::from(killed + 1) / u64::from(kills + 1);
        if killed < kills && (succeeded >= share || draw.below(8) == 0) {
            process.kill();
            killed += 1;
            process = Process::start(&place).await;
            continue;
        }
        for id in waiting {
            process.answer(id).await;
        }
        tokio::time::sleep(Duration::from_millis(u64::from(draw.below(10)))).await;
    }
    let mut questions = 0;
    for (number, lines) in (0..instances).zip(&sent) {
        let id = instance(number);
        // Each is there once, in the order in which they were sent.
        assert_eq!(done(&process.agents, &id).await, json!(lines), "{id}");
        let store = process.agents.store();
        let rows = store.interrupts(&Principal::local(), &ThreadId::from(&id)).await;
        for row in rows.expect("reads") {
            assert!(row.answer.is_some(), "{row:?}");
            questions += 1;
        }
    }
    println!(
        "{activities} activities, {questions} questions answered once, {killed} kills, 0 lost"
    );
    assert_eq!((questions, killed), (asking, kills));
    process.kill();
}

on_three_stores![
    an_activity_that_asks_is_set_aside_and_answered_later,
    an_activity_that_waits_for_an_answer_holds_its_mailbox,
    the_last_state_precedes_the_end_at_a_question,
    every_question_is_answered_once_and_no_activity_is_lost,
];
