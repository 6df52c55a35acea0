//! Activities that wait for a person: they hold their mailbox, and their answers end them.

#![expect(clippy::print_stdout, reason = "the seed and the figures are part of the result")]

use super::{Place, close, id, info, on_three_stores, open, options, until};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weftwork::agents::{
    Activity, ActivityEnd, ActivityPayload, AgentRuntime, AgentRuntimeErrorKind, InstanceEventKind,
    InstanceOptions, InstanceStatus, OnQuestion,
};
use weftwork::graph::{RuntimeError, SystemClock};
use weftwork::prelude::*;
use weftwork::runtime::{FollowFrom, LeaseConfig, Recovery, Runtime};
use weftwork::store::StoreError;
use weftwork::types::port::Clock;
use weftwork::types::run::{Answers, CancelAction};
use weftwork::types::{InstanceId, InterruptId, Principal, ThreadId};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    number: u32,
    asks: bool,
    /// Time that it waits before, in milliseconds.
    #[serde(default)]
    sleeps: u64,
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
    let Order { number, asks, sleeps } = payload.0;
    if sleeps > 0 {
        ctx.sleep(Duration::from_millis(sleeps)).await?;
    }
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
    json!(Order { number, asks, sleeps: 0 })
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
    // New input would take its question away.
    let aside = now.set_aside[0].thread.as_str();
    let refused = agents.runtime().thread("app:orders", aside).expect("hosted").start(json!({}));
    let refused = refused.await.expect_err("takes answers alone");
    assert!(matches!(refused, RuntimeError::Store(StoreError::BelongsToInstance { .. })));
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

async fn an_activity_behind_a_question_ends_at_its_timeout(place: Place) {
    let agents = open(&place).await;
    create(&agents).await;
    let asks = agents.send(id(), Activity::new(payload(1, true))).await.expect("accepted");
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Asks));
    let late = Activity::new(payload(2, false)).priority(9).timeout(Duration::from_millis(50));
    let late = agents.send(id(), late).await.expect("accepted");
    let behind = agents.send(id(), Activity::new(payload(3, false))).await.expect("accepted");
    let ended = tokio::time::timeout(Duration::from_secs(20), late.ended()).await;
    let error = ended.expect("before the answer").expect_err("its time is over");
    assert_eq!(error.kind, AgentRuntimeErrorKind::TimedOut);
    let now = info(&agents).await;
    assert_eq!((now.status, now.questions.len()), (InstanceStatus::Asking, 1));
    let counts = now.statistics;
    assert_eq!((counts.asking, counts.waiting, counts.failed), (1, 1, 1));
    // The question is that of the activity that asked it.
    answer(&agents, &id()).await.expect("accepted");
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Succeeded), "after the answer");
    assert_eq!(behind.ended().await, Ok(ActivityEnd::Succeeded));
    assert_eq!(done(&agents, &id()).await, json!(["1: \"answer to 1\"", "3"]));
    let counts = info(&agents).await.statistics;
    assert_eq!((counts.asking, counts.succeeded, counts.failed), (0, 2, 1));
    close(agents).await;
}

async fn an_activity_that_is_set_aside_ends_after_its_answer(place: Place) {
    let agents = open(&place).await;
    let options = options().on_question(OnQuestion::SetAside);
    agents.create_graph_agent(&graph(), json!({}), options).await.expect("created");
    let asks = agents.send(id(), Activity::new(payload(1, true))).await.expect("accepted");
    until(&agents, |info| info.set_aside.len() == 1).await;
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Asks));
    let thread = info(&agents).await.set_aside.remove(0).thread;
    answer_aside(&agents, &thread).await;
    assert_eq!(asks.ended().await, Ok(ActivityEnd::Succeeded));
    close(agents).await;
}

async fn an_activity_that_asks_after_a_sleep_is_set_aside(place: Place) {
    let process = Process::start(&place).await;
    let agents = &process.agents;
    let options = InstanceOptions::new().id(id()).on_question(OnQuestion::SetAside);
    agents.create_of("app:orders", json!({}), options).await.expect("created");
    let asks = json!(Order { number: 1, asks: true, sleeps: 20 });
    agents.leave(id(), Activity::new(asks)).await.expect("accepted");
    agents.leave(id(), Activity::new(payload(2, false))).await.expect("accepted");
    until(agents, |info| !info.set_aside.is_empty() && info.statistics.succeeded == 1).await;
    assert_eq!(done(agents, &id()).await, json!(["2"]));
    let thread = info(agents).await.set_aside[0].thread.clone();
    process.answer_aside(thread).await;
    until(agents, |info| info.set_aside.is_empty()).await;
    process.kill();
}

/// Two nodes that ask beside each other.
fn pair() -> CompiledGraph {
    async fn ask(payload: ActivityPayload<u32>, ctx: Ctx) -> NodeResult<BookUpdate> {
        let asked = json!({"order": payload.0, "of": ctx.node()});
        let answer: Value = ctx.interrupt(asked)?;
        Ok(BookUpdate::new().done([format!("{} {answer}", payload.0)]))
    }
    let graph = Graph::<Book>::new("pair").node("a", ask).node("b", ask);
    graph.edge(START, "a").edge(START, "b").build().expect("sound")
}

async fn two_answers_at_once_lose_no_activity(place: Place) {
    let rounds = (dose().activities / 2).min(100);
    let agents = open(&place).await;
    agents.create_graph_agent(&pair(), json!({}), options()).await.expect("created");
    for number in 0..rounds {
        agents.send(id(), Activity::new(json!(number))).await.expect("accepted");
    }
    let answer = async |question: InterruptId| {
        let thread = agents.runtime().thread("app:pair", id().as_str()).expect("hosted");
        let answers = Answers::ById(BTreeMap::from([(question, json!("yes"))]));
        while let Err(error) = thread.answer(answers.clone()).await {
            // The run of the other answer is unfinished.
            assert!(matches!(error, RuntimeError::Store(StoreError::Busy { .. })), "{error}");
            tokio::task::yield_now().await;
        }
    };
    for _ in 0..rounds {
        until(&agents, |info| info.questions.len() == 2).await;
        let questions = info(&agents).await.questions;
        tokio::join!(answer(questions[0].id), answer(questions[1].id));
    }
    until(&agents, |info| info.status == InstanceStatus::Idle).await;
    let counts = info(&agents).await.statistics;
    assert_eq!((counts.succeeded, counts.failed), (u64::from(rounds), 0));
    let lines =
        (0..rounds).flat_map(|number| [format!("{number} \"yes\""), format!("{number} \"yes\"")]);
    assert_eq!(done(&agents, &id()).await, json!(lines.collect::<Vec<_>>()));
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
        self.accepts(async move { answer(&agents, &id).await }).await;
    }

    /// Answers the question of an activity that was set aside, in the process.
    async fn answer_aside(&self, thread: ThreadId) {
        let agents = self.agents.clone();
        let answers = async move {
            let thread = agents.runtime().thread("app:orders", thread.as_str())?;
            let asked = thread.questions().await?;
            let Some(question) = asked.first() else { return Ok(()) };
            let number = json!(question.ask)["value"]["order"].clone();
            thread.answer(json!(format!("answer to {number}"))).await.map(drop)
        };
        self.accepts(answers).await;
    }

    async fn accepts(
        &self,
        answers: impl Future<Output = Result<(), RuntimeError>> + Send + 'static,
    ) {
        match self.tasks.spawn(answers).await.expect("no panic") {
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

    /// The threads of the instances' activities that are set aside and wait for answers.
    async fn set_aside(&self, instances: u32) -> Vec<ThreadId> {
        let mut threads = Vec::new();
        for number in 0..instances {
            let info = self.agents.info(instance(number)).await.expect("exists");
            threads.extend(info.set_aside.into_iter().map(|aside| aside.thread));
        }
        threads
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

/// Creates the instances of a dose and sends them its activities. Returns the activities of each
/// instance in order, with `true` for those that ask.
async fn send_all(agents: &AgentRuntime, draw: &mut Draw, on: OnQuestion) -> Vec<Vec<(u32, bool)>> {
    let Dose { activities, asking, instances, .. } = dose();
    let mut sent = vec![Vec::new(); usize::try_from(instances).expect("small")];
    for number in 0..instances {
        let options = InstanceOptions::new().id(instance(number)).on_question(on);
        agents.create_of("app:orders", json!({}), options).await.expect("created");
    }
    let mut asks: Vec<bool> = (0..activities).map(|number| number < asking).collect();
    for last in (1..activities).rev() {
        let other = draw.below(last + 1);
        asks.swap(usize::try_from(last).expect("small"), usize::try_from(other).expect("small"));
    }
    for (number, asks) in (0..activities).zip(asks) {
        let of = draw.below(instances);
        let activity = Activity::new(payload(number, asks));
        agents.leave(instance(of), activity).await.expect("accepted");
        sent[usize::try_from(of).expect("small")].push((number, asks));
    }
    sent
}

fn answered(number: u32) -> String {
    format!("{number}: \"answer to {number}\"")
}

/// Kills of a process at random times, which are spread over the work.
struct Kills {
    done: u32,
    draw: Draw,
}

impl Kills {
    /// Kills the process and starts the next one, if it is time to.
    async fn kill_when_due(&mut self, process: &mut Process, place: &Place, ended: u64) -> bool {
        let Dose { activities, kills, .. } = dose();
        // The first kills come between the questions and their answers.
        let share = u64::from(activities) * u64::from(self.done + 1) / u64::from(kills + 1);
        if self.done == kills || (ended < share && self.draw.below(8) > 0) {
            return false;
        }
        let dead = std::mem::replace(process, Process::start(place).await);
        dead.kill();
        self.done += 1;
        true
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(u64::from(self.draw.below(10)))).await;
    }
}

async fn every_question_is_answered_once_and_no_activity_is_lost(place: Place) {
    let Dose { activities, asking, instances, kills: planned } = dose();
    let mut draw = Draw::new();
    let mut process = Process::start(&place).await;
    let sent = send_all(&process.agents, &mut draw, OnQuestion::Hold).await;
    let mut kills = Kills { done: 0, draw };
    loop {
        let (succeeded, waiting) = process.succeeded(instances).await;
        if succeeded == u64::from(activities) {
            break;
        }
        if kills.kill_when_due(&mut process, &place, succeeded).await {
            continue;
        }
        for id in waiting {
            process.answer(id).await;
        }
        kills.pause().await;
    }
    let mut questions = 0;
    for (number, activities) in (0..instances).zip(&sent) {
        let id = instance(number);
        let lines = activities.iter().map(|(number, asks)| match asks {
            true => answered(*number),
            false => number.to_string(),
        });
        // Each is there once, in the order in which they were sent.
        assert_eq!(done(&process.agents, &id).await, json!(lines.collect::<Vec<_>>()), "{id}");
        let store = process.agents.store();
        let rows = store.interrupts(&Principal::local(), &ThreadId::from(&id)).await;
        for row in rows.expect("reads") {
            assert!(row.answer.is_some(), "{row:?}");
            questions += 1;
        }
    }
    println!(
        "{activities} activities, {questions} questions answered once, {} kills, 0 lost",
        kills.done
    );
    assert_eq!((questions, kills.done), (asking, planned));
    process.kill();
}

async fn every_question_that_is_set_aside_is_answered_once(place: Place) {
    let Dose { activities, asking, instances, kills: planned } = dose();
    let mut draw = Draw::new();
    let mut process = Process::start(&place).await;
    let sent = send_all(&process.agents, &mut draw, OnQuestion::SetAside).await;
    let mut kills = Kills { done: 0, draw };
    let mut aside = BTreeSet::new();
    loop {
        let waiting = process.set_aside(instances).await;
        aside.extend(waiting.iter().cloned());
        let (succeeded, _) = process.succeeded(instances).await;
        let ended = succeeded + u64::try_from(aside.len() - waiting.len()).expect("small");
        if ended == u64::from(activities) && kills.done == planned {
            break;
        }
        if kills.kill_when_due(&mut process, &place, ended).await {
            continue;
        }
        for thread in waiting {
            process.answer_aside(thread).await;
        }
        kills.pause().await;
    }
    let store = process.agents.store();
    let mut lines = BTreeSet::new();
    for thread in &aside {
        let ended = async {
            while store.thread(&Principal::local(), thread).await.expect("exists").status
                != Some(RunStatus::Completed)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
        assert!(ended.is_ok(), "{thread} is not at its end");
        let handle = process.agents.runtime().thread("app:orders", thread.as_str());
        let state = handle.expect("hosted").state().await.expect("reads").values;
        let last = state["done"].as_array().and_then(|lines| lines.last()).cloned();
        lines.insert(last.expect("a line").as_str().expect("a text").to_owned());
        let rows = store.interrupts(&Principal::local(), thread).await.expect("reads");
        let [row] = &rows[..] else { panic!("the question of its activity alone: {rows:?}") };
        assert!(row.answer.is_some(), "{row:?}");
    }
    let all = sent.iter().flatten().filter(|activity| activity.1);
    assert_eq!(lines, all.map(|activity| answered(activity.0)).collect());
    for (number, activities) in (0..instances).zip(&sent) {
        let id = instance(number);
        let others = activities.iter().filter(|activity| !activity.1);
        let others: Vec<_> = others.map(|activity| activity.0.to_string()).collect();
        assert_eq!(done(&process.agents, &id).await, json!(others), "{id}");
    }
    println!(
        "{activities} activities, {} questions set aside and answered once, {} kills, 0 lost",
        aside.len(),
        kills.done
    );
    assert_eq!((aside.len(), kills.done), (usize::try_from(asking).expect("small"), planned));
    process.kill();
}

on_three_stores![
    an_activity_behind_a_question_ends_at_its_timeout,
    an_activity_that_is_set_aside_ends_after_its_answer,
    two_answers_at_once_lose_no_activity,
    an_activity_that_asks_after_a_sleep_is_set_aside,
    an_activity_that_asks_is_set_aside_and_answered_later,
    an_activity_that_waits_for_an_answer_holds_its_mailbox,
    the_last_state_precedes_the_end_at_a_question,
    every_question_is_answered_once_and_no_activity_is_lost,
    every_question_that_is_set_aside_is_answered_once,
];
