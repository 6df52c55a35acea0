use crate::support::{Count, answer, chain, empty, graph, kept, log, logged, note};
use futures_util::FutureExt;
use serde_json::json;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::{Continued, Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{
    Ctx, DynUpdate, Finish, Flow, Input, MessagePart, Modes, NodeResult, RunOutcome, START,
    Semantics, StreamEvent, SubgraphState, TaskDef,
};
use weftwork_testkit::ManualClock;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, MessageId};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn timed(clock: &ManualClock) -> Host {
    kept().with_clock(Arc::new(clock.clone()))
}

fn open(outcome: RunOutcome) -> Vec<Interrupt> {
    let RunOutcome::Interrupted { questions: interrupts, .. } = outcome else {
        panic!("{outcome:?}")
    };
    interrupts
}

/// A node that sleeps for a while and notes its name.
fn nap(length: Duration) -> impl Fn(Input, Ctx) -> BoxFuture<'static, NodeResult<DynUpdate>> {
    move |_, ctx| {
        Box::pin(async move {
            ctx.sleep(length).await?;
            Ok(log(ctx.node()))
        })
    }
}

#[tokio::test]
async fn a_timer_outlives_the_process() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |_: Input, ctx: Ctx| {
        let ran = counted.clone();
        async move {
            ran.up();
            ctx.sleep(HOUR).await?;
            NodeResult::Ok(log("up"))
        }
    };
    let graph = graph("nap").node("a", node).node("b", note("b"));
    let graph = graph.edge(START, "a").edge(START, "b").build().expect("sound");
    let clock = ManualClock::new();
    let saver = InMemoryCheckpointer::new();
    let host = || Host::new().with_checkpointer(saver.clone()).with_clock(Arc::new(clock.clone()));
    let until = clock.now().plus(HOUR);
    let asked = open(graph.run(&host(), empty()).thread("t").outcome().await.expect("naps"));
    let [timer] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(timer.ask, Ask::Timer { until });
    assert_eq!((timer.expires_at, &timer.default), (Some(until), &Some(json!(null))));
    let state = graph.state(&host(), &StateQuery::thread("t"), false).await.expect("is kept");
    assert_eq!((state.next, &state.interrupts), (vec!["a".to_owned()], &asked));
    clock.advance(HOUR / 2);
    let early = graph.run(&host(), Start::Continue).thread("t").outcome().await.expect("waits");
    assert_eq!((open(early), ran.get()), (asked, 1));
    clock.advance(HOUR / 2);
    let ended = graph.run(&host(), Start::Continue).thread("t").outcome().await.expect("ends");
    assert_eq!((logged(ended), ran.get()), (vec!["up".to_owned(), "b".to_owned()], 2));
    assert!(clock.sleeps().is_empty(), "nobody slept");
}

#[tokio::test]
async fn an_answer_ends_a_timer_early() {
    let graph = graph("nap").node("a", nap(HOUR)).edge(START, "a").build().expect("sound");
    let host = timed(&ManualClock::new());
    open(graph.run(&host, empty()).thread("t").outcome().await.expect("naps"));
    let ended = graph.run(&host, answer(json!(null))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), ["a"]);
}

#[tokio::test]
async fn a_time_that_has_passed_is_no_stop() {
    let node = async |_: Input, ctx: Ctx| {
        ctx.sleep_until(ctx.clock().now()).await?;
        ctx.sleep(Duration::ZERO).await?;
        let answer = ctx.interrupt(json!("?"))?;
        ctx.sleep_until(weftwork_types::Timestamp(5)).await?;
        NodeResult::Ok(log(&answer.to_string()))
    };
    let graph = graph("past").node("a", node).edge(START, "a").build().expect("sound");
    let host = timed(&ManualClock::new());
    let asked = open(graph.run(&host, empty()).thread("t").outcome().await.expect("asks"));
    assert!(matches!(asked.as_slice(), [one] if one.ask == Ask::Value { value: json!("?") }));
    let ended = graph.run(&host, answer(json!(1))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), ["1"]);
}

#[tokio::test]
async fn a_waiting_run_sleeps_through_its_timers() {
    for semantics in [Semantics::weft(), Semantics::langgraph()] {
        let built = graph("naps").node("a", nap(2 * SECOND)).node("b", nap(3 * SECOND));
        let built = built.node("c", nap(HOUR)).semantics(semantics);
        let built = built.edge(START, "a").edge(START, "b").join(["a", "b"], "c");
        let graph = built.build().expect("sound");
        let clock = ManualClock::moved_by_sleeps();
        let run = graph.run(&timed(&clock), empty()).thread("t").waiting();
        assert_eq!(logged(run.outcome().await.expect("ends")), ["a", "b", "c"]);
        assert_eq!(clock.sleeps(), [2 * SECOND, SECOND, HOUR]);
    }
}

#[tokio::test]
async fn a_waiting_run_wakes_at_the_time_and_not_before() {
    let graph = graph("nap").node("a", nap(HOUR)).edge(START, "a").build().expect("sound");
    let clock = ManualClock::new();
    let host = timed(&clock);
    let mut run = pin!(graph.run(&host, empty()).thread("t").waiting().outcome());
    assert!(run.as_mut().now_or_never().is_none());
    clock.advance(HOUR - SECOND);
    assert!(run.as_mut().now_or_never().is_none());
    clock.advance(SECOND);
    assert_eq!(logged(run.await.expect("ends")), ["a"]);
}

#[tokio::test]
async fn a_waiting_run_takes_defaults_and_ends_at_what_only_a_person_can_answer() {
    let asks = async |_: Input, ctx: Ctx| {
        let until = ctx.clock().now().plus(HOUR);
        let answer = ctx.ask_until(Ask::Value { value: json!("?") }, None, until, json!("none"))?;
        let more = ctx.interrupt(json!("sure?"))?;
        NodeResult::Ok(log(&format!("{} {more}", answer.value)))
    };
    let built = graph("mixed").node("a", asks).node("b", nap(2 * HOUR));
    let graph = built.edge(START, "a").edge(START, "b").build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let host = timed(&clock);
    let run = graph.run(&host, empty()).thread("t").waiting();
    let left = open(run.outcome().await.expect("stops"));
    assert_eq!((left.len(), clock.sleeps()), (2, vec![HOUR]));
    let sure = left.iter().find(|question| question.expires_at.is_none()).expect("a question");
    let by_id = weftwork_graph::Answers::ById([(sure.id, json!(1))].into());
    let command =
        weftwork_graph::run_loop::StartCommand { resume: Some(by_id), ..Default::default() };
    let run = graph.run(&host, Start::Command(command)).thread("t").waiting();
    assert_eq!(logged(run.outcome().await.expect("ends")), [r#""none" 1"#, "b"]);
    assert_eq!(clock.sleeps(), [HOUR, HOUR]);
}

#[tokio::test]
async fn timers_of_one_node_may_end_in_any_order() {
    let node = async |_: Input, ctx: Ctx| {
        let one = ctx.sleep(2 * SECOND).await;
        let two = ctx.sleep(SECOND).await;
        one.and(two)?;
        NodeResult::Ok(log("up"))
    };
    let graph = graph("race").node("a", node).edge(START, "a").build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let run = graph.run(&timed(&clock), empty()).thread("t").waiting();
    assert_eq!(logged(run.outcome().await.expect("ends")), ["up"]);
    assert_eq!(clock.sleeps(), [SECOND, SECOND]);
}

#[tokio::test]
async fn graphs_within_sleep_too() {
    for keep in [SubgraphState::PerTask, SubgraphState::PerThread, SubgraphState::Stateless] {
        let ran = Count::default();
        let counted = ran.clone();
        let counts = move |_: Input| {
            counted.up();
            std::future::ready(log("x"))
        };
        let inner = graph("inner").node("x", counts).node("nap", nap(HOUR));
        let inner = inner.edge(START, "x").edge("x", "nap").build().expect("sound");
        let outer = graph("outer").subgraph("p", inner, keep).node("b", nap(SECOND));
        let outer = outer.edge(START, "p").edge("p", "b").build().expect("sound");
        let clock = ManualClock::moved_by_sleeps();
        let run = outer.run(&timed(&clock), empty()).thread("t").waiting();
        assert_eq!(logged(run.outcome().await.expect("ends")), ["x", "nap", "b"], "{keep:?}");
        assert_eq!((clock.sleeps(), ran.get()), (vec![HOUR, SECOND], 1), "{keep:?}");
    }
}

#[tokio::test]
async fn tasks_of_a_flow_sleep_too() {
    let task = TaskDef::new("nap", async |Input(n): Input, ctx: Ctx| {
        ctx.sleep(HOUR).await?;
        let more = ctx.interrupt(json!("more?"))?;
        NodeResult::Ok(Finish::value(json!([n, more])))
    });
    let flow = Flow::new("main", move |Input(n): Input, ctx: Ctx| {
        let task = task.clone();
        async move {
            let told = ctx.task(&task, n).await?;
            ctx.sleep(SECOND).await?;
            NodeResult::Ok(Finish::value(told))
        }
    });
    let graph = flow.build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let host = timed(&clock);
    let run = graph.run(&host, Start::Input(json!(1))).thread("t").waiting();
    assert_eq!(open(run.outcome().await.expect("asks")).len(), 1);
    assert_eq!(clock.sleeps(), [HOUR]);
    let run = graph.run(&host, answer(json!(2))).thread("t").waiting();
    assert_eq!(run.outcome().await.expect("ends").output(), Some(json!([1, 2])));
    assert_eq!(clock.sleeps(), [HOUR, SECOND]);
}

#[tokio::test]
async fn without_checkpoints_a_node_sleeps_in_place() {
    let graph = graph("nap").node("a", nap(HOUR)).edge(START, "a").build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let host = Host::new().with_clock(Arc::new(clock.clone()));
    assert_eq!(logged(graph.run(&host, json!({})).outcome().await.expect("ends")), ["a"]);
    assert_eq!(clock.sleeps(), [HOUR]);
    let waiting = graph.run(&host, empty()).waiting().outcome().await;
    assert_eq!(waiting.expect_err("no saver").code().0, "W0119");
}

#[tokio::test]
async fn limits_hold_for_all_of_a_waiting_run() {
    for semantics in [Semantics::weft(), Semantics::langgraph()] {
        let mut outcomes = Vec::new();
        for length in [Duration::ZERO, SECOND] {
            let mut built = chain(&["a", "b", "c"]).node("n", nap(length)).edge("b", "n");
            built = built.edge("n", "d").node("d", note("d")).semantics(semantics);
            let graph = built.build().expect("sound");
            for limit in 1..8 {
                let host = timed(&ManualClock::moved_by_sleeps());
                let run = graph.run(&host, empty()).thread("t").step_limit(limit).waiting();
                outcomes.push(run.outcome().await.expect("ends"));
            }
        }
        let (straight, napping) = outcomes.split_at(7);
        assert_eq!(straight, napping);
        assert_eq!(straight[0], RunOutcome::LimitReached { step_limit: 1 });
        assert!(matches!(straight[6], RunOutcome::Completed { .. }));
    }
    let graph = graph("nap").node("a", nap(HOUR)).edge(START, "a").build().expect("sound");
    let clock = ManualClock::new();
    let host = timed(&clock);
    let run = graph.run(&host, empty()).thread("t").waiting().deadline(SECOND);
    let mut run = pin!(run.outcome());
    assert!(run.as_mut().now_or_never().is_none());
    clock.advance(SECOND);
    assert_eq!(run.await.expect_err("too long").code().0, "W0124");
}

#[tokio::test]
async fn a_run_that_waited_is_the_same_run() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let note_call = move |_: Input, ctx: Ctx| {
        let calls = ctx.calls();
        noted.lock().expect("sound").push((calls.deadline, calls.origin.run().cloned()));
        if ctx.node() == "before" {
            // A value that a call before the wait hides.
            calls.hidden.add_args(&json!({"pin": "kumquat"}), &json!({}));
        }
        std::future::ready(log("noted"))
    };
    let again = note_call.clone();
    let fails = async |_: Input| -> NodeResult<DynUpdate> {
        Err(weftwork_graph::NodeError::message("the pin is kumquat"))
    };
    let graph = graph("waits").node("before", note_call).node("nap", nap(SECOND));
    let graph = graph.node("after", again).node("fails", fails).edge(START, "before");
    let graph = graph.edge("before", "nap").edge("nap", "after").edge("after", "fails");
    let graph = graph.build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let end = clock.now().plus(HOUR);
    let run = graph.run(&timed(&clock), empty()).thread("t").waiting().deadline(HOUR);
    let error = run.outcome().await.expect_err("fails").to_string();
    assert_eq!(clock.sleeps().last(), Some(&SECOND));
    assert!(!error.contains("kumquat"), "{error}");
    let seen = seen.lock().expect("sound");
    assert_eq!(seen.iter().map(|(deadline, _)| *deadline).collect::<Vec<_>>(), [Some(end); 2]);
    assert_eq!(seen[0].1, seen[1].1, "one run");
}

#[tokio::test]
async fn a_node_that_asks_to_stop_ends_the_wait() {
    let stops = async |_: Input, ctx: Ctx| {
        ctx.drain("enough");
        log("asked")
    };
    let graph = graph("stops").node("stops", stops).node("nap", nap(HOUR));
    let graph = graph.edge(START, "stops").edge(START, "nap").build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let run = graph.run(&timed(&clock), empty()).thread("t").waiting();
    assert_eq!(open(run.outcome().await.expect("stops")).len(), 1);
    assert_eq!(clock.sleeps(), []);
}

#[tokio::test]
async fn supersteps_of_an_earlier_process_count_once() {
    for limit in 1..10 {
        let mut outcomes = Vec::new();
        for length in [Duration::ZERO, SECOND] {
            let mut built = chain(&["a", "b", "c"]).node("n", nap(length)).edge("c", "n");
            built = built.node("m", nap(length)).edge("n", "m").node("d", note("d"));
            let graph = built.edge("m", "d").build().expect("sound");
            let host = timed(&ManualClock::moved_by_sleeps());
            // The earlier process has executed the first two nodes.
            let earlier = graph.run(&host, empty()).thread("t").step_limit(2).outcome().await;
            assert_eq!(earlier, Ok(RunOutcome::LimitReached { step_limit: 2 }));
            let continued = Continued { steps: 2, ran: vec!["b".to_owned()], input: false };
            let run = graph.run(&host, Start::Continue).thread("t").step_limit(limit);
            outcomes.push(run.continued(continued).waiting().outcome().await);
        }
        assert_eq!(outcomes[0], outcomes[1], "{limit}");
        let ends = matches!(&outcomes[0], Ok(RunOutcome::Completed { .. }));
        assert_eq!(ends, limit >= 6, "{limit}: {outcomes:?}");
    }
}

fn said(id: &str) -> serde_json::Value {
    let id = MessageId::new(id).expect("a valid id");
    json!(Message::text(id.clone(), Role::Assistant, id.as_str()))
}

fn notes(what: serde_json::Value) -> DynUpdate {
    DynUpdate::new().write("log", what)
}

#[tokio::test]
async fn a_stream_tells_what_a_waiting_run_does() {
    let first = async |_: Input| notes(said("night"));
    let node = async |_: Input, ctx: Ctx| {
        ctx.sleep(HOUR).await?;
        NodeResult::Ok(notes(json!([said("night"), said("morning")])))
    };
    let graph = graph("told").node("first", first).node("a", node).reads("a", Vec::<&str>::new());
    let graph = graph.edge(START, "first").edge("first", "a").build().expect("sound");
    let host = timed(&ManualClock::moved_by_sleeps());
    let run = graph.run(&host, empty()).thread("t").waiting();
    let mut stream = run.modes(Modes::UPDATES | Modes::MESSAGES).stream();
    let mut told = Vec::new();
    while let Some(item) = stream.next().await {
        told.push(match item.event {
            StreamEvent::Interrupts(open) => format!("{} open", open.len()),
            StreamEvent::Message { part: MessagePart::Returned(message), .. } => {
                format!("{}", json!(message)["id"])
            }
            StreamEvent::Updates { node, .. } => node,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(told, ["\"night\"", "first", "1 open", "\"morning\"", "a"]);
    assert!(matches!(stream.outcome(), Some(Ok(RunOutcome::Completed { .. }))));
}

#[tokio::test]
async fn a_timer_that_ended_is_not_waited_for_again() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |_: Input, ctx: Ctx| {
        let run = counted.up();
        async move {
            ctx.sleep(HOUR).await?;
            match run {
                2 => Err(weftwork_graph::NodeError::message("not yet")),
                _ => Ok(log("up")),
            }
        }
    };
    let graph = graph("fails").node("a", node).edge(START, "a").build().expect("sound");
    let clock = ManualClock::moved_by_sleeps();
    let host = timed(&clock);
    let failed = graph.run(&host, empty()).thread("t").waiting().outcome().await;
    failed.expect_err("it fails once");
    let ended = graph.run(&host, Start::Continue).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), ["up"]);
    assert_eq!(clock.sleeps(), [HOUR]);
}
