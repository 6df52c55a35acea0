//! Outcomes, errors and reports of evaluations.

use super::{done, note, noting, over, scripted, take_note};
use futures_util::TryStreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weftwork_agents::{
    EvaluationErrorKind, EvaluationPhase, Evaluator, EventBus, ExecutedOutcome, Overrides, Prompt,
    PromptEventKind, PromptExecuted, Section, Session, Subscription, Visibility,
};
use weftwork_graph::{Graph, START, State};
use weftwork_models::scripted::Step;
use weftwork_models::{ModelError, RefusalKind};
use weftwork_runtime::Runtime;
use weftwork_store::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_types::ThreadId;
use weftwork_types::port::Clock;
use weftwork_types::run::{Answers, RunOutcome};
use weftwork_types::usage::{Tokens, Usage};

#[tokio::test]
async fn a_prompt_that_changed_or_is_missing_leaves_the_question_open() {
    let store = Arc::new(MemoryStore::new());
    let ask = || Step::call("ask_human", json!({"question": "More?"}));
    let evaluator = over(&store, Evaluator::builder(scripted(vec![ask()]))).await;
    let session = Session::new("s").expect("an id");
    let waiting = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let thread = waiting.interrupted().expect("a question").thread;
    drop(evaluator);

    let model = scripted(vec![Step::text("Done.")]);
    let evaluator = over(&store, Evaluator::builder(Arc::clone(&model))).await;
    let section = |text: &str| Section::new("task", "Task", text).tool(take_note).ask_human();
    let build = |key: &str, text: &str| {
        Prompt::<()>::builder("tests", key, "Notes").section(section(text)).build().expect("sound")
    };
    let answers = || Answers::One(json!("yes"));
    for (prompt, code) in
        [(build("notes", "Take no notes."), "W0614"), (build("other", "Take notes."), "W0613")]
    {
        let error = evaluator.answer(&prompt, &thread, answers()).await.expect_err(code);
        assert_eq!((error.code(), error.kind), (code, EvaluationErrorKind::Prompt));
    }
    let open = evaluator.runtime().thread("prompt:react", thread.as_str()).expect("hosted");
    assert_eq!((open.questions().await.expect("reads").len(), model.calls()), (1, 0));
    let response = evaluator.answer(&noting(), &thread, answers()).await.expect("continues");
    assert_eq!(done(response).text, "Done.");
    let none = ThreadId::new("none").expect("an id");
    let none = evaluator.answer(&noting(), &none, answers()).await;
    assert_eq!(none.expect_err("no such thread").code(), "W0201");
}

#[tokio::test]
async fn every_evaluation_reports_its_end_once_also_if_it_is_dropped_or_not_rendered() {
    let bus = EventBus::new();
    let mut events = bus.subscribe();
    let model = scripted(vec![
        Step::calls(vec![note("a")]).using(Tokens::reported(10, 5)),
        Step::text("x").hanging(),
    ]);
    let evaluator = Evaluator::builder(Arc::clone(&model)).bus(&bus).open().await.expect("opens");
    let evaluation = evaluator.evaluate(&noting(), ()).into_future();
    tokio::select! {
        _ = evaluation => panic!("the model hangs"),
        () = async { while model.calls() < 2 { tokio::task::yield_now().await } } => {}
    }
    let dropped = next_end(&mut events).await;
    assert_eq!(dropped.outcome, ExecutedOutcome::Dropped);
    // The model reported the usage of its first call; that of the request in flight is estimated.
    let used = dropped.usage;
    assert_eq!(
        (used.model_calls, used.tool_calls, used.tokens.estimated),
        (2, 1, true),
        "{used:?}"
    );
    assert!(used.tokens.input > 10, "{used:?}");
    let overrides = Overrides::new().visibility("none", Visibility::Full);
    let error = evaluator.evaluate(&noting(), ()).overrides(overrides).await.expect_err("refused");
    assert_eq!((error.code(), error.phase), ("W0612", EvaluationPhase::Render));
    let refused = next_end(&mut events).await;
    assert!(
        matches!(&refused.outcome, ExecutedOutcome::Failed { code, .. } if code == "W0612"),
        "{refused:?}"
    );
    assert_eq!(refused.usage, Usage::default());
    assert!(events.drain().is_empty(), "each end is reported once");
}

/// Waits for the end of an evaluation.
async fn next_end(events: &mut Subscription) -> PromptExecuted {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
        let event = event.expect("an end is reported soon").expect("the bus is open");
        if let PromptEventKind::PromptExecuted(end) = &event.kind {
            return end.clone();
        }
    }
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Lamps {
    lamps: u32,
}

#[tokio::test]
async fn events_have_an_id_a_time_their_evaluation_and_its_result() {
    let clock = ManualClock::new();
    let ask = Step::call("ask_human", json!({"question": "More?"}));
    let model = scripted(vec![ask, Step::text(r#"{"lamps": 2}"#)]);
    let runtime = Runtime::in_memory().clock(Arc::new(clock.clone()));
    let evaluator = Evaluator::builder(model).runtime(runtime).open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    let section = Section::new("task", "Task", "Count the lamps.").ask_human();
    let prompt = Prompt::<()>::builder("tests", "lamps", "Lamps").section(section);
    let prompt = prompt.output::<Lamps>().build().expect("sound");
    let waiting = evaluator.evaluate(&prompt, ()).await.expect("evaluates");
    let thread = waiting.interrupted().expect("a question").thread;
    let begun = clock.now();
    clock.advance(Duration::from_secs(60));
    let answers = Answers::One(json!("yes"));
    let counted = evaluator.answer(&prompt, &thread, answers).await.expect("continues");
    assert_eq!(done(counted).output, Some(Lamps { lamps: 2 }));

    let events = events.drain();
    let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), events.len(), "each has an id of its own");
    let evaluation = events[0].evaluation.as_deref().expect("it began");
    let session = events[0].session.clone();
    let PromptEventKind::PromptRendered(rendered) = &events[0].kind else { panic!("{events:?}") };
    let shown = events.iter().map(|event| {
        let mut shown = event.to_shown();
        let members = shown.as_object_mut().expect("an object");
        let own = ["id", "at", "evaluation", "prompt", "adapter", "session"];
        let own = own.map(|name| members.remove(name).expect("each event has it"));
        // Seconds since the evaluation began.
        let since = event.at.since(begun).as_secs();
        let prompt = json!({"namespace": "tests", "key": "lamps", "name": "Lamps"});
        let expected = [
            json!(event.id.to_string()),
            json!(event.at),
            // Of the continuation, too.
            json!(evaluation),
            prompt,
            json!("weft"),
            json!(session),
        ];
        assert_eq!(own, expected);
        json!([since, shown])
    });
    let shown: Vec<_> = shown.collect();
    let hash = &rendered.hash;
    let tool = json!({"tool_calls": 1, "tokens": {"input": 0, "output": 0, "estimated": false}});
    let used = |model_calls: u32, input: u32, output: u32| {
        let tokens = json!({"input": input, "output": output, "estimated": true});
        json!({"model_calls": model_calls, "tokens": tokens})
    };
    let expected = json!([
        [0, {"type": "prompt_rendered", "hash": hash}],
        [0, {"type": "prompt_executed", "outcome": {"status": "interrupted", "questions": 1},
            "usage": used(1, 195, 5)}],
        [60, {"type": "prompt_rendered", "hash": hash}],
        [60, {"type": "tool_invoked", "tool": "ask_human", "params": {"question": "More?"},
            "result": {"status": "ok", "value": "yes"}, "usage": tool}],
        [60, {"type": "prompt_executed", "usage": used(2, 445, 8), "outcome": {
            "status": "done", "text": r#"{"lamps": 2}"#, "value": {"lamps": 2}}}],
    ]);
    assert_eq!(json!(shown), expected);
}

#[tokio::test]
async fn a_failure_is_reported_with_its_kind_phase_and_attempt() {
    let refused = ModelError::BadRequest {
        provider: "p".to_owned(),
        status: 400,
        message: "no".to_owned(),
        kind: RefusalKind::InvalidRequest,
    };
    let evaluator = Evaluator::builder(scripted(vec![Step::fails(refused)]));
    let evaluator = evaluator.open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    let error = evaluator.evaluate(&noting(), ()).await.expect_err("refused");
    let events = events.drain();
    let Some(PromptEventKind::PromptExecuted(end)) = events.last().map(|event| &event.kind) else {
        panic!("{events:?}")
    };
    let ExecutedOutcome::Failed { kind, phase, attempt, code, .. } = &end.outcome else {
        panic!("{end:?}")
    };
    assert_eq!((*kind, *phase, *attempt), (error.kind, error.phase, error.attempt));
    assert_eq!((code.as_str(), end.usage), (error.code(), *error.usage));
}

#[test]
fn an_evaluation_blocks_outside_of_a_runtime_and_streams_within_one() {
    let mut tokio = tokio::runtime::Builder::new_multi_thread();
    let tokio = tokio.worker_threads(1).enable_all().build().expect("a runtime");
    let model = scripted(vec![Step::text("One."), Step::text("Two words.")]);
    let evaluator = tokio.block_on(Evaluator::builder(model).open()).expect("opens");
    let response = evaluator.evaluate(&noting(), ()).blocking().expect("evaluates");
    assert_eq!(done(response).text, "One.");
    tokio.block_on(async {
        let mut stream = evaluator.evaluate(&noting(), ()).stream();
        let mut text = String::new();
        let mut last = None;
        while let Some(output) = stream.try_next().await.expect("reads") {
            text.extend(output.text().map(|part| part.text.as_str()));
            last = Some(output.position);
        }
        assert_eq!(text, "Two words.");
        assert_eq!(last.as_ref(), Some(stream.position()));
        assert_eq!(done(stream.await.expect("evaluates")).text, text);
    });
}

#[tokio::test]
async fn threads_and_graphs_without_prompts_are_refused() {
    let evaluator = Evaluator::builder(scripted(Vec::new())).runtime(Runtime::in_memory());
    let evaluator = evaluator.open().await.expect("opens");
    let thread = evaluator.runtime().thread("prompt:react", "t").expect("hosted");
    let ended = thread.start(json!({})).await.expect("accepted");
    let RunOutcome::Failed { fault } = ended.outcome() else { panic!("{ended:?}") };
    assert!(fault.code == "W0136", "the run has no prompt: {fault}");
    let id = ThreadId::new("t").expect("an id");
    let error = evaluator.resume(&noting(), &id).await.expect_err("no evaluation");
    assert_eq!(error.code(), "W0622");

    #[derive(State)]
    struct Count {
        #[channel(default)]
        count: u32,
    }
    async fn add(count: State<Count>) -> CountUpdate {
        CountUpdate::new().count(count.count() + 1)
    }
    let graph = Graph::<Count>::new("count").node("add", add).edge(START, "add").build();
    let evaluator = Evaluator::builder(scripted(Vec::new())).graph(graph.expect("sound"));
    assert_eq!(evaluator.open().await.expect_err("no conversation").code().0, "W0623");
}
