//! Going on where a run stopped or failed: what finished stays, and nothing else is lost.

use crate::support::{Count, answer, chain, empty, graph, kept, log, logged, note};
use serde_json::{Value, json};
use weftwork_graph::channel::LastValue;
use weftwork_graph::run_loop::{AsNode, Start, StateQuery, StateUpdate};
use weftwork_graph::{
    ChannelDef, Command, Ctx, Durability, DynUpdate, Dynamic, Graph, Input, NodeError, NodeResult,
    RunOutcome, START, Semantics, Stops, SubgraphState,
};

fn asks(
    name: &'static str,
) -> impl Fn(Input, Ctx) -> std::pin::Pin<Box<dyn Future<Output = NodeResult<DynUpdate>> + Send>> {
    move |_, ctx| {
        Box::pin(async move {
            let answer = ctx.interrupt(json!(name))?;
            Ok(log(&format!("{name}={answer}")))
        })
    }
}

fn questions(outcome: &RunOutcome) -> usize {
    match outcome {
        RunOutcome::Interrupted { questions: interrupts, .. } => interrupts.len(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answered_question_is_not_asked_again_after_a_stop_within() {
    let inner = graph("inner").node("a", asks("a")).node("b", note("b")).edge(START, "a");
    let inner = inner.edge("a", "b").interrupt_before(Stops::at(["b"])).build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).edge(START, "p");
    let outer = outer.build().expect("sound");
    let host = kept();
    let run = |start| outer.run(&host, start).thread("t").outcome();
    assert_eq!(questions(&run(empty()).await.expect("asks")), 1);
    assert_eq!(questions(&run(answer(json!(1))).await.expect("stops before b")), 0);
    let state = outer.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
    assert_eq!(state.interrupts, [], "the question was answered");
    assert_eq!(logged(run(Start::Continue).await.expect("goes on")), ["a=1", "b"]);
}

#[tokio::test]
async fn an_answer_is_for_the_question_that_was_open() {
    let inner = graph("inner").node("a", asks("a")).node("b", asks("b")).edge(START, "a");
    let inner = inner.edge("a", "b").build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).edge(START, "p");
    let outer = outer.build().expect("sound");
    let host = kept();
    let run = |start| outer.run(&host, start).thread("t").outcome();
    assert_eq!(questions(&run(empty()).await.expect("asks a")), 1);
    assert_eq!(questions(&run(answer(json!(1))).await.expect("asks b")), 1);
    assert_eq!(logged(run(answer(json!(2))).await.expect("ends")), ["a=1", "b=2"]);
}

#[tokio::test]
async fn a_change_as_one_of_two_due_nodes_keeps_the_result_of_the_other() {
    // Without a closer it is dropped, as in the reference.
    for has_closer in [true, false] {
        let paid = Count::default();
        let counted = paid.clone();
        let pays = move |_: Input| {
            counted.up();
            std::future::ready(log("paid"))
        };
        let graph = graph("two").node("asks", asks("asks")).node("pays", pays);
        let graph = graph.node("after", note("after")).edge(START, "asks").edge(START, "pays");
        let graph = graph.edge("asks", "after").edge("pays", "after");
        let graph = if has_closer { graph.on_left_open("pays", note("closed")) } else { graph };
        let graph = graph.build().expect("sound");
        let host = kept();
        let run = |start| graph.run(&host, start).thread("t").outcome();
        assert_eq!(questions(&run(empty()).await.expect("asks")), 1);
        let values = Some(vec![("log".to_owned(), json!(["from outside"]))]);
        let change = StateUpdate { values, as_node: AsNode::Node("asks".to_owned()) };
        let changed = graph.update(&host, &StateQuery::thread("t"), vec![vec![change]]).await;
        changed.expect("changes");
        let log = logged(run(Start::Continue).await.expect("goes on"));
        assert_eq!(paid.get(), 1, "{has_closer}");
        let expected: &[&str] = match has_closer {
            true => &["paid", "from outside", "after"],
            false => &["from outside", "after"],
        };
        assert_eq!(log, expected);
    }
}

#[tokio::test]
async fn a_change_beside_what_is_due_leaves_its_questions_and_results() {
    let paid = Count::default();
    let counted = paid.clone();
    let pays = move |_: Input| {
        counted.up();
        std::future::ready(log("paid"))
    };
    let graph = graph("beside").node("asks", asks("asks")).node("pays", pays);
    let graph = graph.edge(START, "asks").edge(START, "pays").build().expect("sound");
    let host = kept();
    let thread = StateQuery::thread("t");
    let change = async |at: &StateQuery, line: &str| {
        let values = Some(vec![("log".to_owned(), json!([line]))]);
        let change = StateUpdate { values, as_node: AsNode::Beside };
        graph.update(&host, at, vec![vec![change]]).await
    };
    let run = |start| graph.run(&host, start).thread("t").outcome();
    let empty_thread = change(&thread, "first").await.expect("makes the first checkpoint");
    assert_eq!(questions(&run(empty()).await.expect("asks")), 1);
    let before = graph.state(&host, &thread, false).await.expect("is kept");
    for line in ["x", "y"] {
        let changed = change(&thread, line).await.expect("changes");
        assert_eq!(
            changed.id,
            before.config.as_ref().and_then(|at| at.id),
            "no checkpoint is made"
        );
    }
    let after = graph.state(&host, &thread, false).await.expect("is kept");
    assert_eq!((&after.interrupts, &after.next), (&before.interrupts, &before.next));
    assert_eq!(after.values["log"], json!(["first", "x", "y", "paid"]));
    let wrong = Some(vec![("nowhere".to_owned(), json!(1))]);
    let wrong = StateUpdate { values: wrong, as_node: AsNode::Beside };
    graph.update(&host, &thread, vec![vec![wrong]]).await.expect_err("no such channel");
    let older = StateQuery { checkpoint: empty_thread.id, ..StateQuery::thread("t") };
    let refused = change(&older, "z").await.expect_err("is not the newest");
    assert!(matches!(refused, weftwork_graph::RuntimeError::BadUpdate { .. }), "{refused}");
    let ended = run(answer(json!(1))).await.expect("ends");
    assert_eq!(logged(ended), ["first", "x", "y", "asks=1", "paid"]);
    assert_eq!(paid.get(), 1);
    change(&thread, "last").await.expect("changes");
    let state = graph.state(&host, &thread, false).await.expect("is kept");
    assert_eq!(state.values["log"], json!(["first", "x", "y", "asks=1", "paid", "last"]));
    assert!(state.next.is_empty());
}

#[tokio::test]
async fn an_error_handler_that_finished_does_not_run_again() {
    for (semantics, runs) in [(Semantics::weft(), 1), (Semantics::langgraph(), 2)] {
        let handled = Count::default();
        let counted = handled.clone();
        let fails = async |_: Input| Err::<DynUpdate, _>(NodeError::message("boom"));
        let handler = move |_: Input| {
            counted.up();
            std::future::ready(Command::<Dynamic>::update(log("handled")).goto("c"))
        };
        let graph = graph("handled").semantics(semantics).node("a", fails).node("b", asks("b"));
        let graph = graph.on_error("a", handler).ends("a", ["c"]).node("c", note("c"));
        let graph = graph.edge(START, "a").edge(START, "b").build().expect("sound");
        let host = kept();
        let run = |start| graph.run(&host, start).thread("t").outcome();
        assert_eq!(questions(&run(empty()).await.expect("asks")), 1);
        if runs == 1 {
            let state = graph.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
            assert_eq!(
                (state.values["log"].clone(), state.next),
                (json!(["handled"]), vec!["b".to_owned()])
            );
        }
        assert_eq!(logged(run(answer(json!(1))).await.expect("ends")), ["handled", "b=1", "c"]);
        assert_eq!(handled.get(), runs);
    }
}

#[tokio::test]
async fn a_graph_that_keeps_its_state_takes_its_input_when_the_run_goes_on() {
    let count = |_: Input, state: weftwork_graph::State<Dynamic>| {
        let n = state.get("s").and_then(|s| s.as_i64()).unwrap_or_default();
        std::future::ready(DynUpdate::new().write("s", json!(n + 1)))
    };
    let seen = |Input(input): Input| std::future::ready(log(&input["s"].to_string()));
    let inner = graph("inner").node("x", seen).edge(START, "x").output(["log"]);
    let inner = inner.build().expect("sound");
    let outer = graph("outer")
        .node("a", count)
        .subgraph("p", inner, SubgraphState::PerThread)
        .reads("p", ["s"]);
    let outer = outer.edge(START, "a").edge("a", "p").build().expect("sound");
    let host = kept();
    outer.run(&host, empty()).thread("t").outcome().await.expect("runs");
    let stopped = outer.run(&host, empty()).thread("t").interrupt_before(Stops::at(["p"]));
    assert_eq!(questions(&stopped.outcome().await.expect("stops")), 0);
    let ended = outer.run(&host, Start::Continue).thread("t").outcome().await.expect("goes on");
    assert_eq!(logged(ended), ["1", "1", "2"], "it has kept its own list, and runs again");
}

#[tokio::test]
async fn half_a_superstep_is_never_kept() {
    let both = |value: i64| {
        move |_: Input| {
            let update = DynUpdate::new().write("first", json!(value)).write("s", json!(value));
            std::future::ready(update)
        }
    };
    let channels = vec![
        ChannelDef::new("first", weftwork_graph::channel::Append::<Value>::new()),
        ChannelDef::new("s", LastValue::<Value>::new()),
    ];
    let graph = Graph::dynamic("clash", channels).node("a", both(1)).node("b", both(2));
    let graph = graph.edge(START, "a").edge(START, "b").build().expect("sound");
    let host = kept();
    let run = graph.run(&host, empty()).thread("t").durability(Durability::Exit);
    let error = run.outcome().await.expect_err("both wrote `s`");
    assert_eq!(error.code().0, "W0102");
    let history = graph.history(&host, &StateQuery::thread("t")).await.expect("is kept");
    assert_eq!(history[0].values["first"], json!([]), "as it was before the superstep");
    assert_eq!(history[0].next, ["a", "b"]);
    let again = graph.run(&host, Start::Continue).thread("t").outcome().await;
    assert_eq!(again.expect_err("nothing has changed").code().0, "W0102");
}

#[tokio::test]
async fn an_answer_that_is_given_twice_answers_one_question() {
    let twice = async |_: Input, ctx: Ctx| {
        let first = ctx.interrupt(json!("first"))?;
        let second = ctx.interrupt(json!("second"))?;
        NodeResult::Ok(log(&format!("{first}{second}")))
    };
    let graph = graph("twice").node("a", twice).edge(START, "a").build().expect("sound");
    let host = kept();
    let run = |start| graph.run(&host, start).thread("t").outcome();
    let RunOutcome::Interrupted { questions: interrupts, .. } = run(empty()).await.expect("asks")
    else {
        panic!("it asks")
    };
    let by_id = |id, n: i64| {
        let resume = weftwork_graph::Answers::ById([(id, json!(n))].into());
        let command =
            weftwork_graph::run_loop::StartCommand { resume: Some(resume), ..Default::default() };
        Start::Command(command)
    };
    let RunOutcome::Interrupted { questions: next, .. } =
        run(by_id(interrupts[0].id, 1)).await.expect("asks")
    else {
        panic!("it asks")
    };
    let again = run(by_id(interrupts[0].id, 1)).await.expect_err("it has its answer").fault();
    assert_eq!(again.code, "W0138");
    assert!(again.message.contains(&next[0].id.to_string()), "{again}");
    assert_eq!(logged(run(by_id(next[0].id, 2)).await.expect("ends")), ["12"]);
}

#[tokio::test]
async fn a_chain_goes_on_from_every_superstep() {
    let graph = chain(&["a", "b", "c", "d"]).build().expect("sound");
    let host = kept();
    let mut start = empty();
    for _ in 0..3 {
        let stopped = graph.run(&host, start).thread("t").step_limit(1).outcome().await;
        assert_eq!(stopped.expect("runs"), RunOutcome::LimitReached { step_limit: 1 });
        start = Start::Continue;
    }
    let ended = graph.run(&host, start).thread("t").outcome().await.expect("ends");
    assert_eq!(logged(ended), ["a", "b", "c", "d"]);
}
