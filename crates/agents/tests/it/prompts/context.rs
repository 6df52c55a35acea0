//! The context of the tools of a prompt, the event of its rendering, and evaluations for others.

use super::{Note, Recording, done, note, notes, noting, over, scripted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_agents::{
    EvaluationErrorKind, Evaluator, EventBus, Overrides, Prompt, PromptContext, PromptEvent,
    PromptEventKind, Section, Session,
};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork_runtime::Runtime;
use weftwork_store::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_tools::{Deps, Questions, Replies, ToolError, ToolOutput, question, tool};
use weftwork_types::canonical::hash_bytes;
use weftwork_types::port::{
    Attempts, CallKind, CallResult, Clock, Demand, Intent, LimitedBudget, Limits, Opened,
};
use weftwork_types::run::Answers;
use weftwork_types::tool::{Effect, ToolOutcome};
use weftwork_types::usage::{Tokens, Usage};
use weftwork_types::{OrgId, Principal};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    city: String,
}

fn other() -> Principal {
    Principal::new(OrgId::new("other").expect("an id"), "ada")
}

/// Returns what the context of its call has.
#[tool(shown("."))]
async fn look_around(prompt: Deps<PromptContext>) -> Value {
    let call = Demand::ToolCall { tool: "another".to_owned() };
    let reported = prompt.budget_left().tool_calls;
    let mut left = Vec::new();
    while let Ok(reserved) = prompt.budget().reserve(&call).await {
        left.push(reserved);
    }
    json!({
        "prompt": prompt.prompt(), "text": prompt.rendered().text(),
        "inputs": prompt.rendered().inputs(), "hash": prompt.rendered().hash(),
        "adapter": prompt.adapter(), "session": prompt.session(), "deadline": prompt.deadline(),
        "org": prompt.principal().org, "subject": prompt.principal().subject,
        "calls_left": left.len(), "reported_left": reported,
    })
}

#[tokio::test]
async fn a_tool_has_the_context_of_its_evaluation() {
    let task = Section::new("task", "Task", "Look around in ${city}.").tool(look_around);
    let prompt = Prompt::<Trip>::builder("tests", "trip", "Trip").section(task).build();
    let prompt = prompt.expect("sound");
    let trip = || Trip { city: "Bern".to_owned() };
    let rendered = prompt.render(&trip(), &Overrides::new()).expect("renders");
    let clock = Arc::new(ManualClock::new());
    let model = scripted(vec![Step::call("look_around", json!({})), Step::text("Done.")]);
    let runtime = Runtime::in_memory().clock(Arc::clone(&clock) as _);
    let evaluator = Evaluator::builder(model).name("desk").runtime(runtime).open().await;
    let evaluator = evaluator.expect("opens").on_behalf_of(other());
    let mut events = evaluator.bus().subscribe();
    let limits = Limits { tool_calls: Some(3), ..Limits::default() };
    let session = Session::new("s").expect("an id");
    let evaluation = evaluator.evaluate(&prompt, trip()).session(&session);
    let evaluation = evaluation.deadline(Duration::from_secs(60));
    let response = evaluation.budget(LimitedBudget::new(limits, Usage::default())).await;
    assert_eq!(done(response.expect("evaluates")).text, "Done.");

    let found = events.drain().into_iter().find_map(|event| match &event.kind {
        PromptEventKind::ToolInvoked(invoked) => Some(json!(invoked.result)["value"].clone()),
        _ => None,
    });
    let expected = json!({
        "prompt": {"namespace": "tests", "key": "trip", "name": "Trip"},
        "text": "## 1. Task\n\nLook around in Bern.", "inputs": {"city": "Bern"},
        "hash": rendered.hash(), "adapter": "desk", "session": "s",
        "deadline": clock.now().plus(Duration::from_secs(60)), "org": "other", "subject": "ada",
        // One is that of the call itself.
        "calls_left": 2, "reported_left": 2,
    });
    assert_eq!(found, Some(expected));
}

/// Does something once, by the journal of its task, and asks after it.
#[tool]
async fn do_once(
    replies: Option<Replies>,
    prompt: Deps<PromptContext>,
) -> Result<ToolOutput<String>, ToolError> {
    let opened = prompt.journal().open(Intent {
        kind: CallKind::Once,
        name: "thing".to_owned(),
        input: hash_bytes(b"thing"),
        call_id: None,
        effect: Effect::StateChange,
        attempts: Attempts::Shared,
    });
    match (opened.await?, replies) {
        (Opened::New { key }, None) => {
            let result = CallResult { value: json!("the first time") };
            prompt.journal().settle(key, result).await?;
            Ok(Questions::new([question::<String>("Again?")]).into())
        }
        (Opened::Settled { result, .. }, Some(_)) => {
            Ok(ToolOutput::Value(format!("recorded {}", result.value)))
        }
        (opened, _) => Err(ToolError::failed(format!("{opened:?}"))),
    }
}

#[tokio::test]
async fn a_tool_records_by_the_journal_of_its_task() {
    let task = Section::new("task", "Task", "Do it.").tool(do_once);
    let prompt = Prompt::<()>::builder("tests", "once", "Once").section(task).build();
    let prompt = prompt.expect("sound");
    let store = Arc::new(MemoryStore::new());
    let model = scripted(vec![Step::call("do_once", json!({}))]);
    let evaluator = over(&store, Evaluator::builder(model)).await;
    let evaluated = evaluator.evaluate(&prompt, ()).await.expect("evaluates");
    let thread = evaluated.interrupted().expect("it asks").thread;
    drop(evaluator);
    let evaluator = over(&store, Evaluator::builder(scripted(vec![Step::text("Done.")]))).await;
    let mut events = evaluator.bus().subscribe();
    let reply = Answers::One(json!({"action": "accept", "content": "no"}));
    done(evaluator.answer(&prompt, &thread, reply).await.expect("continues"));
    let result = events.drain().into_iter().find_map(|event| match &event.kind {
        PromptEventKind::ToolInvoked(invoked) => Some(invoked.result.clone()),
        _ => None,
    });
    let Some(ToolOutcome::Ok { value, .. }) = &result else { panic!("{result:?}") };
    assert_eq!(*value, json!("recorded \"the first time\""));
}

/// Events, each with the text of the request that came after it.
type Seen = Vec<(Arc<PromptEvent>, String)>;

#[tokio::test]
async fn a_rendered_prompt_is_reported_with_its_text_before_the_first_call() {
    let bus = EventBus::new();
    let events = Mutex::new(bus.subscribe());
    let before: Arc<Mutex<Seen>> = Arc::default();
    let seen = Arc::clone(&before);
    let model = ScriptedModel::from_fn(move |request| {
        let events = events.lock().expect("no panic").drain();
        let text = request.messages[0].joined_text();
        let events = events.into_iter().map(|event| (event, text.clone()));
        seen.lock().expect("no panic").extend(events);
        Step::text("Done.")
    });
    let task = Section::new("task", "Task", "Plan a day in ${city}.");
    let rest = Section::new("rest", "Rest", "Long.").summarized("A rest.");
    let prompt = Prompt::<Trip>::builder("tests", "trip", "Trip").section(task).section(rest);
    let prompt = prompt.build().expect("sound");
    let trip = || Trip { city: "Bern".to_owned() };
    let rendered = prompt.render(&trip(), &Overrides::new()).expect("renders");
    let evaluator = Evaluator::builder(model).bus(&bus).open().await.expect("opens");
    evaluator.evaluate(&prompt, trip()).await.expect("evaluates");

    let before = before.lock().expect("no panic");
    let [(event, sent)] = &before[..] else { panic!("one event before the call: {before:?}") };
    let PromptEventKind::PromptRendered(reported) = &event.kind else { panic!("{event:?}") };
    assert_eq!((&reported.text, reported.text.as_str()), (sent, rendered.text()));
    assert!(reported.text.contains("Plan a day in Bern.") && reported.text.contains("A rest."));
    assert_eq!((&reported.inputs, reported.hash), (&json!({"city": "Bern"}), rendered.hash()));
}

#[tokio::test]
async fn evaluations_and_sessions_of_another_organisation_do_not_exist() {
    let store = Arc::new(MemoryStore::new());
    let ask = Step::call("ask_human", json!({"question": "More?"}));
    let steps =
        vec![Step::calls(vec![note("mine")]), ask, Step::text("Theirs."), Step::text("Mine.")];
    let model = Recording::new(steps, &[]);
    let evaluator = over(&store, Evaluator::builder(Arc::clone(&model))).await;
    let others = evaluator.on_behalf_of(other());
    let session = Session::new("s").expect("an id");
    let evaluated = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let thread = evaluated.interrupted().expect("it asks").thread;
    assert_eq!(notes(&session), ["mine"]);

    let yes = || Answers::One(json!("yes"));
    for refused in
        [others.answer(&noting(), &thread, yes()).await, others.resume(&noting(), &thread).await]
    {
        assert_eq!(refused.expect_err("there is no such thread").code(), "W0201");
    }
    let theirs = others.session(&thread).await.expect("is empty");
    assert_eq!(notes(&theirs), Vec::<String>::new());
    // One of the same id is another one.
    let evaluated = others.evaluate(&noting(), ()).session(&theirs).await.expect("evaluates");
    assert_eq!(done(evaluated).text, "Theirs.");
    let request = model.requests().last().cloned().expect("a request");
    assert_eq!(request.messages.len(), 1, "the prompt alone: {:?}", request.messages);
    let answered = evaluator.answer(&noting(), &thread, yes()).await.expect("continues");
    assert_eq!(done(answered).text, "Mine.");
    let mine = evaluator.session(&thread).await.expect("reads");
    assert_eq!(notes(&mine), ["mine"]);
}

/// A scripted model under another name.
#[derive(Debug)]
struct Named(ModelInfo, ScriptedModel);

impl ChatModel for Named {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.1.stream(request)
    }
}

#[tokio::test]
async fn a_limit_of_the_cost_ends_an_evaluation() {
    // The first call costs 2,000 millionths of a dollar.
    let used = Tokens::reported(1_000, 0);
    for (provider, name, code, calls) in
        [("openai", "gpt-4.1", "W0601", 1), ("lab", "tiny", "W0609", 0)]
    {
        let steps = vec![Step::calls(vec![note("a")]).using(used), Step::text("Done.")];
        let info = ModelInfo { provider: provider.to_owned(), model: name.to_owned(), label: None };
        let model = Arc::new(Named(info, ScriptedModel::from_steps(steps)));
        let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
        let session = evaluator.new_session();
        session.dispatch::<Note>(&Note("before".to_owned())).expect("dispatches");
        let limits = Limits { cost_micro_usd: Some(1_900), ..Limits::default() };
        let evaluation = evaluator.evaluate(&noting(), ()).session(&session).budget(limits);
        let error = evaluation.await.expect_err("the limit is reached");
        assert_eq!((error.kind, error.code()), (EvaluationErrorKind::Budget, code), "{error}");
        assert_eq!((model.1.calls(), error.usage.model_calls), (calls, calls as u64), "{name}");
        assert_eq!(error.usage.cost_micro_usd >= 2_000, calls > 0, "{name}: {:?}", error.usage);
        let expected: &[&str] = if calls > 0 { &["before", "a"] } else { &["before"] };
        assert_eq!(notes(&session), expected, "what was done before stays");
    }
}
