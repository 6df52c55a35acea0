use crate::support::{Count, answer, empty, graph, kept, log, logged};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StartCommand, StateQuery};
use weftwork_graph::{
    Answers, Ctx, DynUpdate, Flow, Input, NodeResult, Question, RunOutcome, RuntimeError, START,
    Semantics, Stops, SubgraphState, TaskDef,
};
use weftwork_testkit::ManualClock;
use weftwork_types::Timestamp;
use weftwork_types::interrupt::{Ask, Interrupt};

const HOUR: Duration = Duration::from_secs(3_600);

fn timed(clock: &ManualClock) -> Host {
    kept().with_clock(Arc::new(clock.clone()))
}

fn resume(resume: Answers) -> Start {
    Start::Command(StartCommand { resume: Some(resume), ..StartCommand::default() })
}

fn by_key(answers: &[(&str, Value)]) -> Start {
    let answers = answers.iter().map(|(key, answer)| ((*key).to_owned(), answer.clone()));
    resume(Answers::ByKey(answers.collect()))
}

fn open(outcome: Result<RunOutcome, RuntimeError>) -> Vec<Interrupt> {
    match outcome {
        Ok(RunOutcome::Interrupted { questions: interrupts, .. }) => interrupts,
        other => panic!("open questions: {other:?}"),
    }
}

fn asks(value: Value) -> Ask {
    Ask::Value { value }
}

/// A node that asks for a number and notes it.
async fn number(_: Input, ctx: Ctx) -> NodeResult<DynUpdate> {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"], "additionalProperties": false});
    let answer = ctx.ask(asks(json!("how many?")), Some(schema))?;
    Ok(log(&answer.value["n"].to_string()))
}

#[tokio::test]
async fn a_wrong_answer_is_refused_before_anything_runs() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |input: Input, ctx: Ctx| {
        counted.up();
        number(input, ctx)
    };
    let graph = graph("typed").node("a", node).edge(START, "a").build().expect("sound");
    let host = kept();
    let asked = open(graph.run(&host, empty()).thread("t").outcome().await);
    let wrong = [json!({"n": "many", "m": 1}), json!(7), Value::Null];
    for wrong in wrong {
        let by_id = resume(Answers::ById([(asked[0].id, wrong.clone())].into()));
        for start in [answer(wrong.clone()), by_id] {
            let error = graph.run(&host, start).thread("t").outcome().await.expect_err("refused");
            let RuntimeError::WrongAnswer { question, node, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!((*question, node.as_str(), error.code().0), (asked[0].id, "a", "W0127"));
            assert!(error.to_string().contains(&asked[0].id.to_string()), "{error}");
        }
    }
    let first = graph.run(&host, answer(json!({"n": "many", "m": 1}))).thread("t").outcome().await;
    let text = first.expect_err("refused").to_string();
    assert!(text.contains("at /n: ") && text.contains("'m' was unexpected"), "{text}");
    assert_eq!(ran.get(), 1, "nothing ran");
    let state = graph.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
    assert_eq!(state.interrupts, asked, "the question stays open");
    let ended = graph.run(&host, answer(json!({"n": 7}))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), ["7"]);
}

#[tokio::test]
async fn answers_within_are_checked_too() {
    let inner = graph("inner").node("ask", number).edge(START, "ask").build().expect("sound");
    let outer = graph("outer").subgraph("p", inner, SubgraphState::PerTask).edge(START, "p");
    let outer = outer.build().expect("sound");
    let host = kept();
    open(outer.run(&host, empty()).thread("t").outcome().await);
    let refused = outer.run(&host, answer(json!(7))).thread("t").outcome().await;
    let error = refused.expect_err("refused");
    assert!(matches!(&error, RuntimeError::WrongAnswer { node, .. } if node == "ask"), "{error}");
    let ended = outer.run(&host, answer(json!({"n": 7}))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), ["7"]);
}

#[tokio::test]
async fn an_answer_that_comes_before_its_question_is_checked_when_it_is_asked() {
    let graph = graph("early").node("a", number).edge(START, "a");
    let graph = graph.interrupt_before(Stops::at(["a"])).build().expect("sound");
    let host = kept();
    open(graph.run(&host, empty()).thread("t").outcome().await);
    let refused = graph.run(&host, answer(json!(7))).thread("t").outcome().await;
    let error = refused.expect_err("it does not fit").fault();
    assert_eq!(error.code, "W0127", "{error}");
    let asked = open(graph.run(&host, Start::Continue).thread("t").outcome().await);
    assert_eq!(asked.len(), 1, "the wrong answer is not on record");
    let ended = graph.run(&host, answer(json!({"n": 7}))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), ["7"]);
}

#[tokio::test]
async fn a_schema_that_is_none_fails_the_node() {
    for schema in [json!({"type": "no such type"}), json!({"$ref": "file:///etc/passwd"})] {
        let ask = move |_: Input, ctx: Ctx| {
            let asked = ctx.ask(asks(json!("?")), Some(schema.clone()));
            std::future::ready(asked.map(|_| log("never")))
        };
        let graph = graph("bad").node("a", ask).edge(START, "a").build().expect("sound");
        let ended = graph.run(&kept(), empty()).thread("t").outcome().await;
        let fault = ended.expect_err("no schema").fault();
        assert_eq!(fault.code, "W0129", "{fault}");
    }
}

#[tokio::test]
async fn questions_are_answered_by_their_keys() {
    let waits = async |Input(input): Input, ctx: Ctx| {
        let key = input["s"].as_str().unwrap_or_default();
        let paid = ctx.wait_for(key, asks(json!("paid?")), Some(json!({"type": "boolean"})))?;
        NodeResult::Ok(log(&format!("{} {key}={}", ctx.node(), paid.value)))
    };
    let inner = graph("inner").node("b", waits).edge(START, "b").build().expect("sound");
    let built = graph("keys").node("a", waits).subgraph("p", inner, SubgraphState::PerTask);
    let built = built.node("c", async |_: Input, ctx: Ctx| {
        let question = Question::value(json!("sent?")).key("parcel-7");
        NodeResult::Ok(log(&ctx.ask_question(question)?.value.to_string()))
    });
    let graph = built.edge(START, "a").edge(START, "p").edge(START, "c").build().expect("sound");
    let host = kept();
    let input = Start::Input(json!({"s": "order-1"}));
    let asked = open(graph.run(&host, input).thread("t").outcome().await);
    let keys: Vec<_> = asked.iter().map(|question| question.key.as_deref()).collect();
    assert_eq!(keys, [Some("order-1"), Some("parcel-7"), Some("order-1")]);

    let unknown = by_key(&[("order-1", json!(true)), ("order-2", json!(true))]);
    let error = graph.run(&host, unknown).thread("t").outcome().await.expect_err("no such key");
    assert_eq!(error.code().0, "W0128");
    assert!(error.to_string().ends_with("the open ones are: order-1, parcel-7"), "{error}");
    let wrong = by_key(&[("order-1", json!("yes"))]);
    let error = graph.run(&host, wrong).thread("t").outcome().await.expect_err("no boolean");
    assert_eq!(error.code().0, "W0127");

    let both = by_key(&[("order-1", json!(true))]);
    let left = open(graph.run(&host, both).thread("t").outcome().await);
    assert_eq!(left.len(), 1, "{left:?}");
    let again = by_key(&[("order-1", json!(false))]);
    let error = graph.run(&host, again).thread("t").outcome().await.expect_err("not open");
    assert!(error.to_string().ends_with("the open ones are: parcel-7"), "{error}");
    let last = graph.run(&host, by_key(&[("parcel-7", json!(9))])).thread("t").outcome().await;
    assert_eq!(logged(last.expect("ends")), ["a order-1=true", "9", "b order-1=true"]);
}

#[tokio::test]
async fn an_answer_by_key_where_no_question_has_one() {
    let graph = graph("none").node("a", number).edge(START, "a").build().expect("sound");
    let host = kept();
    open(graph.run(&host, empty()).thread("t").outcome().await);
    let ended = graph.run(&host, by_key(&[("k", json!(1))])).thread("t").outcome().await;
    assert!(ended.expect_err("no key").to_string().ends_with("none has a key"));
}

/// A node that asks until an hour from now, and counts how often it ran.
fn hour(ran: Count) -> impl Fn(Input, Ctx) -> std::future::Ready<NodeResult<DynUpdate>> {
    move |_, ctx| {
        ran.up();
        let until = ctx.clock().now().plus(HOUR);
        let schema = Some(json!({"type": "string"}));
        let answer = ctx.ask_until(asks(json!("ok?")), schema, until, json!({"none": true}));
        std::future::ready(answer.map(|a| log(&format!("{}: {}", ctx.node(), a.value))))
    }
}

#[tokio::test]
async fn a_question_takes_its_default_once_it_has_expired() {
    for semantics in [Semantics::weft(), Semantics::langgraph()] {
        for command in [false, true] {
            let ran = Count::default();
            let built = graph("hour").node("a", hour(ran.clone())).edge(START, "a");
            let graph = built.semantics(semantics).build().expect("sound");
            let clock = ManualClock::new();
            let saver = InMemoryCheckpointer::new();
            let host =
                || Host::new().with_checkpointer(saver.clone()).with_clock(Arc::new(clock.clone()));
            let asked = open(graph.run(&host(), empty()).thread("t").outcome().await);
            let due = clock_start(&clock).plus(HOUR);
            assert_eq!(
                (asked[0].expires_at, &asked[0].default),
                (Some(due), &Some(json!({"none": true})))
            );
            clock.advance(HOUR - Duration::from_millis(1));
            let early = open(graph.run(&host(), Start::Continue).thread("t").outcome().await);
            assert_eq!(early, asked, "it waits, and its time does not move");
            let reran = u32::from(semantics == Semantics::langgraph());
            assert_eq!(ran.get(), 1 + reran);
            clock.advance(Duration::from_millis(1));
            let update = vec![("s".to_owned(), json!(1))];
            let start = if command {
                Start::Command(StartCommand { update, ..StartCommand::default() })
            } else {
                Start::Continue
            };
            let ended = graph.run(&host(), start).thread("t").outcome().await.expect("ends");
            assert_eq!(logged(ended), [r#"a: {"none":true}"#], "whatever the schema says");
            assert_eq!(ran.get(), 2 + reran);
        }
    }
}

fn clock_start(clock: &ManualClock) -> Timestamp {
    use weftwork_types::port::Clock;
    assert_eq!(clock.elapsed(), Duration::ZERO);
    clock.now()
}

#[tokio::test]
async fn an_answer_that_comes_late_counts_while_nothing_went_on() {
    let graph = graph("late").node("a", hour(Count::default())).edge(START, "a");
    let graph = graph.build().expect("sound");
    let clock = ManualClock::new();
    let host = timed(&clock);
    open(graph.run(&host, empty()).thread("t").outcome().await);
    clock.advance(2 * HOUR);
    let wrong = graph.run(&host, answer(json!(1))).thread("t").outcome().await;
    assert_eq!(wrong.expect_err("no words").code().0, "W0127");
    let ended = graph.run(&host, answer(json!("yes"))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), [r#"a: "yes""#]);
}

#[tokio::test]
async fn one_answer_is_for_the_question_that_has_not_expired() {
    let built = graph("two").node("a", hour(Count::default())).node("b", number);
    let graph = built.edge(START, "a").edge(START, "b").build().expect("sound");
    let clock = ManualClock::new();
    let host = timed(&clock);
    open(graph.run(&host, empty()).thread("t").outcome().await);
    let two = graph.run(&host, answer(json!({"n": 1}))).thread("t").outcome().await;
    assert_eq!(two.expect_err("which one?").code().0, "W0120");
    clock.advance(HOUR);
    let wrong = graph.run(&host, answer(json!("yes"))).thread("t").outcome().await;
    let error = wrong.expect_err("it is for b");
    assert!(matches!(&error, RuntimeError::WrongAnswer { node, .. } if node == "b"), "{error}");
    let ended = graph.run(&host, answer(json!({"n": 1}))).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("ends")), [r#"a: {"none":true}"#, "1"]);
}

#[tokio::test]
async fn a_default_stays_the_answer_when_a_later_question_is_answered() {
    let node = async |_: Input, ctx: Ctx| {
        let past = ctx.clock().now();
        let first = ctx.ask_until(asks(json!("first?")), None, past, json!("gone"))?;
        let second = ctx.interrupt(json!("second?"))?;
        NodeResult::Ok(log(&format!("{} {second}", first.value)))
    };
    for semantics in [Semantics::weft(), Semantics::langgraph()] {
        let built = graph("later").node("a", node).edge(START, "a").semantics(semantics);
        let graph = built.build().expect("sound");
        let clock = ManualClock::new();
        for by_id in [false, true] {
            let host = timed(&clock);
            let asked = open(graph.run(&host, empty()).thread("t").outcome().await);
            assert_eq!(asked.len(), 1, "what has expired already is no stop: {asked:?}");
            assert_eq!(asked[0].ask, asks(json!("second?")));
            let start = match by_id {
                false => answer(json!(2)),
                true => resume(Answers::ById(BTreeMap::from([(asked[0].id, json!(2))]))),
            };
            let ended = graph.run(&host, start).thread("t").outcome().await;
            assert_eq!(logged(ended.expect("ends")), [r#""gone" 2"#]);
        }
    }
}

#[tokio::test]
async fn an_answered_question_is_not_open_again_after_a_failure() {
    let ran = Count::default();
    let counted = ran.clone();
    let node = move |_: Input, ctx: Ctx| {
        let run = counted.up();
        let answer = ctx.wait_for("k", asks(json!("?")), None);
        std::future::ready(answer.and_then(|answer| match run {
            1 | 2 => Err(weftwork_graph::NodeError::message("not yet")),
            _ => Ok(log(&answer.value.to_string())),
        }))
    };
    let graph = graph("fails").node("a", node).edge(START, "a").build().expect("sound");
    let host = kept();
    open(graph.run(&host, empty()).thread("t").outcome().await);
    let failed = graph.run(&host, by_key(&[("k", json!(1))])).thread("t").outcome().await;
    failed.expect_err("it fails once");
    let again = graph.run(&host, by_key(&[("k", json!(2))])).thread("t").outcome().await;
    assert_eq!(again.expect_err("it was answered").code().0, "W0128");
    let ended = graph.run(&host, Start::Continue).thread("t").outcome().await;
    assert_eq!(logged(ended.expect("runs again")), ["1"]);
}

#[tokio::test]
async fn a_task_of_a_flow_keeps_the_answers_it_got() {
    let task = TaskDef::new("ask", async |_: Input, ctx: Ctx| {
        let one = ctx.interrupt(json!("one?"))?;
        let two = ctx.interrupt(json!("two?"))?;
        NodeResult::Ok(weftwork_graph::Finish::value(json!([one, two])))
    });
    let flow = Flow::new("main", move |Input(_): Input, ctx: Ctx| {
        let task = task.clone();
        async move { ctx.task(&task, json!(null)).await.map(weftwork_graph::Finish::value) }
    });
    let graph = flow.build().expect("sound");
    let host = kept();
    open(graph.run(&host, Start::Input(json!(0))).thread("t").outcome().await);
    open(graph.run(&host, answer(json!(1))).thread("t").outcome().await);
    let ended = graph.run(&host, answer(json!(2))).thread("t").outcome().await;
    assert_eq!(ended.expect("ends").output(), Some(json!([1, 2])));
}
