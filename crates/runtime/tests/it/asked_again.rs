//! Reports about questions and answers of other engines, as tests: nodes that ask several times, fail
//! after an answer, or ask side by side.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::channel::Append;
use weftwork_graph::{
    ChannelDef, Ctx, DynUpdate, Dynamic, Finish, Graph, Next, NodeError, NodeResult, RuntimeError,
    START, Semantics, State, TaskDef,
};
use weftwork_runtime::{Runtime, Thread};
use weftwork_types::InterruptId;
use weftwork_types::run::{Answers, RunInput, RunOutcome};

const GRAPH: &str = "test:graph";

fn graph(semantics: Semantics) -> Graph<Dynamic> {
    let log = ChannelDef::new("log", Append::<Value>::new());
    Graph::dynamic("shop", vec![log]).semantics(semantics)
}

async fn started(graph: Graph<Dynamic>) -> Thread {
    let graph = graph.build().expect("sound");
    let runtime = Runtime::in_memory().graph(GRAPH, graph).open().await.expect("opens");
    let thread = runtime.thread(GRAPH, "t").expect("valid names");
    thread.start(json!({})).await.expect("accepted");
    thread
}

fn profiles() -> [Semantics; 2] {
    [Semantics::weft(), Semantics::langgraph()]
}

async fn asked(thread: &Thread) -> Vec<(InterruptId, String)> {
    let open = thread.questions().await.expect("reads");
    let text = |ask: &weftwork_types::interrupt::Ask| match ask {
        weftwork_types::interrupt::Ask::Value { value } => value.as_str().unwrap_or("").to_owned(),
        other => format!("{other:?}"),
    };
    open.iter().map(|one| (one.id, text(&one.ask))).collect()
}

/// A node that asked, took an answer and asks again is due, and the run that has no answer asks the
/// same again instead of giving the first answer to it.
#[tokio::test]
async fn a_node_that_asks_twice_stays_due_and_gets_two_answers() {
    async fn asks(ctx: Ctx) -> NodeResult<DynUpdate> {
        let first = ctx.interrupt(json!("first"))?;
        let second = ctx.interrupt(json!("second"))?;
        Ok(DynUpdate::new().write("log", json!([first, second])))
    }
    // The reference gives the first answer to the second question then.
    let thread = started(graph(Semantics::weft()).node("asks", asks).edge(START, "asks")).await;
    thread.answer(json!("one")).await.expect("accepted");
    for _ in 0..2 {
        assert_eq!(thread.state().await.expect("reads").next, ["asks"]);
        thread.proceed().await.expect("accepted");
    }
    let open = asked(&thread).await;
    assert_eq!(open.iter().map(|(_, text)| &**text).collect::<Vec<_>>(), ["second"]);
    let ended = thread.answer(json!("two")).await.expect("accepted");
    assert_eq!(ended.output().expect("completes")["log"], json!(["one", "two"]));
}

/// A node in a loop gets each answer once, and as many as it asks for.
#[tokio::test]
async fn a_question_in_a_loop_takes_one_answer_for_each_turn() {
    async fn asks(ctx: Ctx) -> NodeResult<DynUpdate> {
        let mut prompt = "age?".to_owned();
        loop {
            let answer = ctx.interrupt(json!(prompt))?;
            if let Some(age) = answer.as_u64() {
                return Ok(DynUpdate::new().write("log", json!([age])));
            }
            prompt = format!("{answer} is no age");
        }
    }
    for semantics in profiles() {
        let thread = started(graph(semantics).node("asks", asks).edge(START, "asks")).await;
        for answer in ["young", "old"] {
            let told = thread.answer(json!(answer)).await.expect("accepted");
            assert_eq!(told.questions().len(), 1, "{semantics:?}");
            let open = asked(&thread).await;
            let expected = format!("\"{answer}\" is no age");
            assert!(open.iter().any(|(_, text)| *text == expected), "{semantics:?}: {open:?}");
        }
        let ended = thread.answer(json!(40)).await.expect("accepted");
        assert_eq!(ended.output().expect("completes")["log"], json!([40]), "{semantics:?}");
    }
}

/// A route that fails after its node was answered leaves the node due, with its answer.
#[tokio::test]
async fn a_route_that_fails_after_an_answer_leaves_the_answer() {
    async fn asks(ctx: Ctx) -> NodeResult<DynUpdate> {
        Ok(DynUpdate::new().write("log", json!([ctx.interrupt(json!("pay?"))?])))
    }
    async fn end(_: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("log", json!(["end"]))
    }
    let failures = Arc::new(AtomicU32::new(0));
    let route = move |_: State<Dynamic>| match failures.fetch_add(1, Ordering::SeqCst) {
        0 => Err(NodeError::message("the route fails")),
        _ => Ok(Next::node("end")),
    };
    // The reference takes the node as finished then, and never asks its route again.
    let graph = graph(Semantics::weft()).node("asks", asks).node("end", end).edge(START, "asks");
    let thread = started(graph.route_to("asks", ["end"], route)).await;
    let open = asked(&thread).await;
    let answers = Answers::ById(BTreeMap::from([(open[0].0, json!("yes"))]));
    let failed = thread.answer(answers).await.expect("accepted");
    assert!(matches!(failed.outcome(), RunOutcome::Failed { .. }), "{failed:?}");
    assert_eq!(thread.state().await.expect("reads").next, ["asks"]);
    let ended = thread.proceed().await.expect("accepted");
    assert_eq!(ended.output().expect("completes")["log"], json!(["yes", "end"]));
}

/// Questions of tasks that one node runs side by side have ids of their own, and take their answers
/// in any order, one at a time.
#[tokio::test]
async fn questions_side_by_side_in_one_node_take_their_own_answers() {
    async fn tool(name: &'static str, ctx: Ctx) -> NodeResult<Finish> {
        let answer = ctx.interrupt(json!(name))?;
        Ok(Finish::value(json!(format!("{name}: {answer}"))))
    }
    let calls = |ctx: Ctx| async move {
        let a = TaskDef::new("a", |ctx: Ctx| tool("a", ctx));
        let b = TaskDef::new("b", |ctx: Ctx| tool("b", ctx));
        let (first, second) = tokio::join!(ctx.task(&a, Value::Null), ctx.task(&b, Value::Null));
        Ok::<_, NodeError>(DynUpdate::new().write("log", json!([first?, second?])))
    };
    // The reference asks the first of them, and the next one after its answer.
    let semantics = Semantics::weft();
    for order in [["a", "b"], ["b", "a"]] {
        let thread = started(graph(semantics).node("calls", calls).edge(START, "calls")).await;
        let mut last = Value::Null;
        for name in order {
            let open = asked(&thread).await;
            let (id, _) = open.iter().find(|(_, text)| text == name).expect("it is open");
            let answers = BTreeMap::from([(*id, json!(format!("for {name}")))]);
            let ended = thread.answer(Answers::ById(answers)).await.expect("accepted");
            if let RunOutcome::Completed { output } = ended.outcome() {
                last = output["log"].clone();
            }
        }
        assert_eq!(last, json!(["a: \"for a\"", "b: \"for b\""]), "{order:?}");
    }
}

/// An answer to an id that is not open is refused with the ids that are, and changes nothing.
#[tokio::test]
async fn an_answer_to_an_unknown_id_is_refused_with_the_open_ones() {
    async fn asks(ctx: Ctx) -> NodeResult<DynUpdate> {
        Ok(DynUpdate::new().write("log", json!([ctx.interrupt(json!("pay?"))?])))
    }
    let thread = started(graph(Semantics::weft()).node("asks", asks).edge(START, "asks")).await;
    let open = asked(&thread).await;
    let unknown = BTreeMap::from([(InterruptId(7), json!("yes"))]);
    let refused = thread.start(RunInput::answers(unknown)).await.expect_err("it is not open");
    assert!(matches!(refused, RuntimeError::UnknownQuestion { .. }), "{refused}");
    assert!(refused.to_string().contains(&open[0].0.to_string()), "{refused}");
    assert_eq!(asked(&thread).await, open);
}
