use crate::support::{Count, answer, chain, empty, graph, kept, log, logged, note};
use serde_json::json;
use std::time::Duration;
use weftwork_graph::run_loop::{Host, Start, StateQuery};
use weftwork_graph::{
    Cache, Ctx, Finish, Flow, Graph, Input, NodeError, NodeResult, Routes, RunOutcome, START,
    State, Stops, TaskDef,
};

#[tokio::test]
async fn a_limit_is_exact() {
    let graph = chain(&["a", "b", "c"]).build().expect("sound");
    let run = |limit| graph.run(&Host::new(), empty()).step_limit(limit);
    assert_eq!(logged(run(3).outcome().await.expect("runs")), ["a", "b", "c"]);
    let short = run(2).outcome().await.expect("runs");
    assert_eq!(short, RunOutcome::LimitReached { step_limit: 2 });
    let host = kept();
    let first = graph.run(&host, empty()).thread("t").step_limit(1).outcome().await;
    assert_eq!(first.expect("runs"), RunOutcome::LimitReached { step_limit: 1 });
    let rest = graph.run(&host, Start::Continue).thread("t").step_limit(2).outcome().await;
    assert_eq!(logged(rest.expect("goes on")), ["a", "b", "c"]);
}

#[tokio::test]
async fn stops_hold_once() {
    let graph = chain(&["a", "b", "c"]).interrupt_before(Stops::at(["b"])).build().expect("sound");
    let host = kept();
    let stopped = graph.run(&host, empty()).thread("t").outcome().await.expect("runs");
    assert_eq!(stopped, RunOutcome::interrupted(Vec::new()));
    let state = graph.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
    assert_eq!(state.next, ["b"]);
    let rest = graph.run(&host, Start::Continue).thread("t").outcome().await.expect("goes on");
    assert_eq!(logged(rest), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_question_that_waits_is_not_asked_again() {
    let asked = Count::default();
    let counted = asked.clone();
    let ask = move |_: Input, ctx: Ctx| {
        let asked = counted.clone();
        async move {
            asked.up();
            let answer = ctx.interrupt(json!(ctx.node()))?;
            NodeResult::Ok(log(&format!("{}={answer}", ctx.node())))
        }
    };
    let graph = graph("ask").node("a", ask.clone()).node("b", ask);
    let graph = graph.edge(START, "a").edge(START, "b").build().expect("sound");
    let host = kept();
    let outcome = graph.run(&host, empty()).thread("t").outcome().await.expect("asks");
    let RunOutcome::Interrupted { questions: interrupts, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((interrupts.len(), asked.get()), (2, 2));
    let one = weftwork_graph::Answers::ById([(interrupts[1].id, json!(1))].into());
    let command =
        weftwork_graph::run_loop::StartCommand { resume: Some(one), ..Default::default() };
    let outcome = graph.run(&host, Start::Command(command)).thread("t").outcome().await;
    let outcome = outcome.expect("goes on");
    assert_eq!(outcome, RunOutcome::interrupted(vec![interrupts[0].clone()]));
    assert_eq!(asked.get(), 3, "the question without an answer was not asked again");
    let outcome = graph.run(&host, answer(json!(2))).thread("t").outcome().await;
    assert_eq!(logged(outcome.expect("ends")), ["a=2", "b=1"]);
}

#[tokio::test]
async fn a_drained_run_goes_on_later() {
    let drains = async |_: Input, ctx: Ctx| {
        ctx.drain("going down");
        log("a")
    };
    let graph = graph("drain").node("a", drains).node("b", note("b"));
    let graph = graph.edge(START, "a").edge("a", "b").build().expect("sound");
    let host = kept();
    let drained = graph.run(&host, empty()).thread("t").outcome().await.expect("runs");
    assert_eq!(drained, RunOutcome::Cancelled { reason: Some("going down".to_owned()) });
    let rest = graph.run(&host, Start::Continue).thread("t").outcome().await.expect("goes on");
    assert_eq!(logged(rest), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_lasts_its_time() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |_: Input| {
        let ran = counted.clone();
        async move { log(&format!("run {}", ran.up())) }
    };
    let graph = graph("cache").node("a", node).cache("a", Cache::for_time(Duration::from_secs(5)));
    let graph = graph.edge(START, "a").build().expect("sound");
    let host = Host::new();
    for expected in ["run 1", "run 1"] {
        let outcome = graph.run(&host, json!({"s": 1})).outcome().await.expect("runs");
        assert_eq!(logged(outcome), [expected]);
    }
    let other = graph.run(&host, json!({"s": 2})).outcome().await.expect("runs");
    assert_eq!(logged(other), ["run 2"], "another input is another result");
}

#[tokio::test]
async fn a_host_keeps_no_more_results_than_its_limit() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |_: Input| {
        counted.up();
        async move { log("ran") }
    };
    let graph = graph("limit").node("a", node).cache("a", Cache::forever());
    let graph = graph.edge(START, "a").build().expect("sound");
    let host = Host::new().with_cache_limit(2);
    // The third has no room beside the first two, so the one that was used longest ago goes.
    for (input, expected) in [(1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)] {
        graph.run(&host, json!({"s": input})).outcome().await.expect("runs");
        assert_eq!(ran.get(), expected, "{input}");
    }
}

#[tokio::test]
async fn a_flow_does_not_run_its_finished_tasks_again() {
    let ran = Count::default();
    let counted = ran.clone();
    let task = TaskDef::new("plus", move |Input(n): Input| {
        counted.up();
        async move { NodeResult::Ok(Finish::value(json!(n.as_i64().unwrap_or_default() + 1))) }
    });
    let flow = Flow::new("main", move |Input(n): Input, ctx: Ctx| {
        let task = task.clone();
        async move {
            let more = ctx.task(&task, n).await?;
            let answer = ctx.interrupt(json!("sure?"))?;
            let before = ctx.previous().unwrap_or_default();
            NodeResult::Ok(Finish::saving(json!([more, answer, before]), more))
        }
    });
    let graph = flow.build().expect("sound");
    let host = kept();
    let asked = graph.run(&host, Start::Input(json!(1))).thread("t").outcome().await;
    assert!(matches!(asked.expect("asks"), RunOutcome::Interrupted { .. }));
    let ended = graph.run(&host, answer(json!("yes"))).thread("t").outcome().await;
    assert_eq!(ended.expect("ends").output(), Some(json!([2, "yes", null])));
    assert_eq!(ran.get(), 1);
    let again = graph.run(&host, Start::Input(json!(5))).thread("t").outcome().await;
    assert!(matches!(again.expect("asks"), RunOutcome::Interrupted { .. }));
    let ended = graph.run(&host, answer(json!("no"))).thread("t").outcome().await;
    assert_eq!(ended.expect("ends").output(), Some(json!([6, "no", 2])));
}

#[tokio::test]
async fn code_that_blocks_does_not_hold_the_rest() {
    let (send, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let blocks = move |_: Input| {
        let wait = wait.clone();
        async move {
            let wait = wait.lock().map_err(|_| NodeError::message("poisoned"))?;
            wait.recv().map_err(NodeError::from)?;
            NodeResult::Ok(log("blocked"))
        }
    };
    let frees = move |_: Input| {
        let sent = send.send(());
        async move { sent.map(|()| log("freed")).map_err(NodeError::from) }
    };
    // The first task waits for the second one, which the run starts while the first one blocks.
    let graph = graph("block").node("a", blocks).blocking("a").node("b", frees);
    let graph = graph.edge(START, "a").edge(START, "b").build().expect("sound");
    let outcome = graph.invoke(json!({})).await.expect("runs");
    assert_eq!(logged(outcome.outcome().clone()), ["blocked", "freed"], "in task order");
}

#[derive(State)]
struct Count2 {
    #[channel(default)]
    n: u64,
}

#[derive(Routes)]
enum Turn {
    More,
    End,
}

#[tokio::test]
async fn typed_states_run_too() {
    let graph = Graph::<Count2>::new("typed")
        .node("more", async |state: State<Count2>| Count2Update::new().n(state.n() + 1))
        .edge(START, "more")
        .route("more", |s: State<Count2>| if *s.n() < 4 { Turn::More } else { Turn::End })
        .build()
        .expect("sound");
    let start = Start::typed(Count2Update::new().n(1)).expect("an update");
    let ended = graph.run(&Host::new(), start).finish().await.expect("runs");
    assert!(ended.is_completed());
    assert_eq!(ended.state::<Count2>().map(|state| *state.n()), Some(4));
    assert!(ended.state::<weftwork_graph::Dynamic>().is_none(), "it is another state");
}

#[tokio::test]
async fn a_deadline_passes_while_code_blocks() {
    let (send, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let blocks = move |_: Input| {
        let wait = wait.clone();
        async move {
            // It ends when the test does, not when the run does.
            let _ended = wait.lock().map(|wait| wait.recv());
            log("too late")
        }
    };
    let graph = graph("stuck").node("a", blocks).blocking("a").edge(START, "a");
    let graph = graph.build().expect("sound");
    let run = graph.run(&Host::new(), empty()).deadline(Duration::from_millis(20));
    let error = run.outcome().await.expect_err("it never ends");
    assert_eq!(error.code().0, "W0124");
    let other = chain(&["b"]).build().expect("sound");
    let outcome = other.invoke(json!({})).await.expect("the rest goes on");
    assert_eq!(logged(outcome.outcome().clone()), ["b"]);
    drop(send);
}
