//! Evaluations of prompts: sessions, sections, budgets, output, and errors, with scripted answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_agents::{
    CallError, Chat, ChatUpdate, Evaluated, EvaluationErrorKind, EvaluationPhase, Evaluator,
    EvaluatorBuilder, EventBus, ExecutedOutcome, ModelConfig, Overrides, Prompt, PromptContext,
    PromptEvent, PromptModel, PromptResponse, PromptRun, PromptTools, Section, Session, Slice,
    Visibility,
};
use weftwork_graph::{Ctx, Graph, NodeResult, START, State};
use weftwork_models::scripted::Step;
use weftwork_models::{
    ChatModel, ChatRequest, ChatStream, ModelInfo, ModelOption, ScriptedModel, ToolChoice,
};
use weftwork_runtime::Runtime;
use weftwork_store::MemoryStore;
use weftwork_tools::{Deps, Policy, ToolBox, ToolContext, ToolError, tool};
use weftwork_types::ThreadId;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{LimitedBudget, Limits};
use weftwork_types::run::{Answers, RunOutcome};
use weftwork_types::usage::{Tokens, Usage};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note(String);

impl Slice for Note {
    const NAME: &'static str = "notes";
    type Event = Note;

    fn reduce(mut notes: Vec<Self>, note: Note) -> Vec<Self> {
        notes.push(note);
        notes
    }
}

/// Takes a note; fails after it for the text `bad`.
#[tool]
fn take_note(text: String, prompt: Deps<PromptContext>) -> Result<usize, ToolError> {
    prompt.dispatch::<Note>(&Note(text.clone()))?;
    if text == "bad" {
        return Err(ToolError::failed("it is a bad note"));
    }
    Ok(prompt.query::<Note>()?.all().len())
}

fn notes(session: &Session) -> Vec<String> {
    let notes = session.query::<Note>().expect("notes");
    notes.all().iter().map(|note| note.0.clone()).collect()
}

fn note(text: &str) -> (String, Value) {
    ("take_note".to_owned(), json!({"text": text}))
}

fn scripted(steps: Vec<Step>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::from_steps(steps))
}

fn noting() -> Prompt<()> {
    let task = Section::new("task", "Task", "Take notes.").tool(take_note).ask_human();
    Prompt::<()>::builder("tests", "notes", "Notes").section(task).build().expect("sound")
}

fn done<T>(evaluated: Evaluated<T>) -> PromptResponse<T> {
    evaluated.done().expect("no question is open")
}

#[tokio::test]
async fn events_of_calls_are_applied_in_their_order_and_failed_calls_leave_none() {
    let model = scripted(vec![
        Step::calls(vec![note("b"), note("bad"), note("a")]),
        Step::calls(vec![note("c")]),
        Step::text("Done."),
    ]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    let session = evaluator.new_session();
    session.dispatch::<Note>(&Note("mine".to_owned())).expect("dispatches");
    let response = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    assert_eq!(done(response).text, "Done.");
    assert_eq!(notes(&session), ["mine", "b", "a", "c"]);
    let results: Vec<Value> = events
        .drain()
        .iter()
        .filter_map(|event| match event {
            PromptEvent::ToolInvoked(event) => Some(json!(event.result)),
            _ => None,
        })
        .collect();
    // Calls beside each other see the state before them and their own events.
    let seen: Vec<&Value> = results.iter().map(|result| &result["value"]).collect();
    assert_eq!(seen, [&json!(2), &Value::Null, &json!(2), &json!(4)]);
}

#[tokio::test]
async fn without_a_checkpointer_evaluations_share_only_their_session() {
    let (first, second) = (Step::calls(vec![note("one")]), Step::calls(vec![note("two")]));
    let model = scripted(vec![first, Step::text("1"), second, Step::text("2")]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let session = evaluator.new_session();
    for _ in 0..2 {
        evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    }
    assert_eq!(notes(&session), ["one", "two"]);
    let threads = evaluator.runtime().threads().search(Default::default()).await.expect("reads");
    assert!(threads.threads.is_empty(), "their threads are deleted");
}

async fn over(store: &Arc<MemoryStore>, builder: EvaluatorBuilder) -> Evaluator {
    let runtime = Runtime::builder(Arc::clone(store) as _);
    builder.runtime(runtime).open().await.expect("opens")
}

#[tokio::test]
async fn a_session_is_that_of_its_thread_in_every_process() {
    let store = Arc::new(MemoryStore::new());
    let ask = ("ask_human".to_owned(), json!({"question": "More?"}));
    let model = scripted(vec![Step::calls(vec![note("before"), ask])]);
    let session = Session::new("s").expect("an id");
    let evaluator = over(&store, Evaluator::builder(model)).await;
    let waiting = evaluator.evaluate(&noting(), ()).session(&session).await.expect("evaluates");
    let waiting = waiting.interrupted().expect("a question is open");
    assert!(notes(&session).is_empty(), "the superstep is open: {:?}", notes(&session));
    drop(evaluator);

    let model = scripted(vec![Step::calls(vec![note("after")]), Step::text("Done.")]);
    let evaluator = over(&store, Evaluator::builder(model)).await;
    let opened = evaluator.session(&waiting.thread).await.expect("reads");
    let answers = Some(Answers::One(json!("yes")));
    let evaluation = evaluator.resume(&noting(), &waiting.thread, answers).session(&opened);
    let response = done(evaluation.await.expect("continues"));
    assert_eq!(notes(&opened), ["before", "after"]);
    assert_eq!((response.usage.model_calls, response.usage.tool_calls), (3, 3));
    let again = evaluator.session(session.id()).await.expect("reads");
    assert_eq!(notes(&again), ["before", "after"]);
}

#[test]
fn sessions_are_copied_restored_and_have_children() {
    let session = Session::new("s").expect("an id");
    let add = |to: &Session, text: &str| to.dispatch::<Note>(&Note(text.to_owned())).expect("adds");
    add(&session, "a");
    let before = session.snapshot();
    let child = session.child(ThreadId::new("c").expect("an id"));
    add(&child, "child");
    add(&session, "b");
    assert_eq!(
        (notes(&session), notes(&child)),
        (vec!["a".into(), "b".into()], vec!["a".into(), "child".into()])
    );
    assert_eq!(child.parent(), Some(session.id()));
    session.restore(&before).expect("restores");
    add(&session, "c");
    assert_eq!(notes(&session), ["a", "c"]);
    let stored = json!(session.snapshot());
    let other = Session::new("other").expect("an id");
    other.restore(&serde_json::from_value(stored.clone()).expect("a snapshot")).expect("restores");
    assert_eq!(notes(&other), ["a", "c"]);
    let mut newer = stored;
    newer["v"] = json!(2);
    let newer = other.restore(&serde_json::from_value(newer).expect("a snapshot"));
    assert_eq!(newer.expect_err("a newer version").code().0, "W0619");
    let wrong = json!({"v": 1, "events": [{"slice": "notes", "event": {"text": 1}}]});
    other.restore(&serde_json::from_value(wrong).expect("a snapshot")).expect("restores");
    assert_eq!(other.query::<Note>().expect_err("no note").code().0, "W0619");
}

/// A model that records the requests it gets.
#[derive(Debug)]
struct Recording {
    inner: ScriptedModel,
    requests: std::sync::Mutex<Vec<Arc<ChatRequest>>>,
    lacks: &'static [ModelOption],
}

impl Recording {
    fn new(steps: Vec<Step>, lacks: &'static [ModelOption]) -> Arc<Self> {
        let (inner, requests) = (ScriptedModel::from_steps(steps), Default::default());
        Arc::new(Self { inner, requests, lacks })
    }

    fn requests(&self) -> Vec<Arc<ChatRequest>> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

impl ChatModel for Recording {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn lacks(&self) -> &[ModelOption] {
        self.lacks
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.requests.lock().expect("not poisoned").push(Arc::clone(&request));
        self.inner.stream(request)
    }
}

#[tokio::test]
async fn a_section_that_is_opened_brings_its_text_and_its_tools() {
    let rules = Section::new("rules", "Rules", "Note everything.")
        .summarized("Rules for notes.")
        .tool(take_note);
    let prompt = Prompt::<()>::builder("tests", "rules", "Rules")
        .section(Section::new("task", "Task", "Work."))
        .section(rules)
        .build()
        .expect("sound");
    let open = |path: &str| Step::call("open_section", json!({"path": path}));
    let steps = vec![
        Step::calls(vec![note("too early")]),
        open("none"),
        open("rules"),
        Step::calls(vec![note("now")]),
        Step::text("Done."),
    ];
    let model = Recording::new(steps, &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
    let session = evaluator.new_session();
    evaluator.evaluate(&prompt, ()).session(&session).await.expect("evaluates");
    assert_eq!(notes(&session), ["now"]);
    let requests = model.requests();
    let offered = |at: usize| -> Vec<&str> {
        requests[at].tools.iter().map(|tool| tool.name.as_str()).collect()
    };
    assert_eq!(offered(0), ["open_section"]);
    assert_eq!(offered(3), ["take_note", "open_section"]);
    let said = json!(requests[3].messages).to_string();
    assert!(said.contains("Note everything."), "{said}");
    assert_eq!(said.matches("Rules for notes.").count(), 1, "the text is sent once");

    // In full from the start, there is nothing to open.
    let model = Recording::new(vec![Step::text("Done.")], &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
    let full = Overrides::new().visibility("rules", Visibility::Full);
    evaluator.evaluate(&prompt, ()).overrides(full).await.expect("evaluates");
    let first = &model.requests()[0];
    assert_eq!(first.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(), ["take_note"]);
    assert_eq!(first.messages.len(), 1, "one message, not a system message too");
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Day {
    city: String,
    hours: u32,
}

#[tokio::test]
async fn structured_output_is_repaired_twice_and_no_more() {
    let section = || Section::new("task", "Task", "Plan days.");
    let one = Prompt::<()>::builder("tests", "day", "Day").section(section()).output::<Day>();
    let many =
        Prompt::<()>::builder("tests", "days", "Days").section(section()).output::<Vec<Day>>();
    let (one, many) = (one.build().expect("sound"), many.build().expect("sound"));
    let day = r#"{"city": "Bern", "hours": 3}"#;
    let bern = Day { city: "Bern".to_owned(), hours: 3 };

    let model = Recording::new(vec![Step::text("Sure!"), Step::text("[]"), Step::text(day)], &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
    let response = done(evaluator.evaluate(&one, ()).await.expect("evaluates"));
    assert_eq!((response.output, response.usage.model_calls), (Some(bern), 3));
    let last = &model.requests()[2];
    let repair = last.messages.last().expect("a message").joined_text();
    assert!(repair.contains("a list, and the output type is an object"), "{repair}");
    assert!(last.response_schema.is_some());

    let model = scripted(vec![Step::text(&format!(r#"{{"items": [{day}]}}"#))]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let response = done(evaluator.evaluate(&many, ()).await.expect("evaluates"));
    assert_eq!(response.output.map(|days| days.len()), Some(1));

    let model = scripted(vec![Step::text("no"), Step::text("no"), Step::text(""), Step::text(day)]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let error = evaluator.evaluate(&one, ()).await.expect_err("no repair is left");
    assert_eq!((error.kind, error.phase), (EvaluationErrorKind::Output, EvaluationPhase::Response));
    assert_eq!((error.code(), error.usage.model_calls), ("W0617", 3));
}

#[tokio::test]
async fn options_reach_the_model_and_what_it_lacks_is_refused_by_name() {
    let steps = || vec![Step::calls(vec![note("x")]), Step::text("Done.")];
    let config = ModelConfig {
        temperature: Some(0.5),
        max_tokens: Some(100),
        parallel_tool_calls: None,
        tool_choice: ToolChoice::Named("take_note".to_owned()),
    };
    let model = Recording::new(steps(), &[]);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).model_config(config.clone());
    let evaluator = evaluator.open().await.expect("opens");
    evaluator.evaluate(&noting(), ()).await.expect("evaluates");
    let requests = model.requests();
    let [first, second] = &requests[..] else { panic!("two requests") };
    assert_eq!((first.temperature, first.max_tokens), (Some(0.5), Some(100)));
    assert_eq!(first.parallel_tool_calls, Some(true), "on where the model has the option");
    assert_eq!(first.tool_choice, ToolChoice::Named("take_note".to_owned()));
    assert_eq!(second.tool_choice, ToolChoice::Auto, "an answer must be possible");

    for (lacks, config) in [
        (ModelOption::Temperature, config.clone()),
        (ModelOption::MaxTokens, config.clone()),
        (ModelOption::ToolChoice, config.clone()),
        (
            ModelOption::ParallelToolCalls,
            ModelConfig { parallel_tool_calls: Some(true), ..config.clone() },
        ),
    ] {
        let lacking: &'static [ModelOption] = Box::leak(Box::new([lacks]));
        let model = Recording::new(steps(), lacking);
        let evaluator = Evaluator::builder(Arc::clone(&model) as _).model_config(config);
        let error = evaluator.open().await.expect("opens").evaluate(&noting(), ()).await;
        let error = error.expect_err("refused");
        assert_eq!((error.code(), model.requests().len()), ("W0310", 0));
        assert!(error.to_string().contains(&format!("`{}`", lacks.name())), "{error}");
    }
    let model = Recording::new(steps(), &[ModelOption::ParallelToolCalls]);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
    evaluator.evaluate(&noting(), ()).await.expect("the default is no request for it");
    assert_eq!(model.requests()[0].parallel_tool_calls, None);
}

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
    let evaluator = over(&store, Evaluator::builder(Arc::clone(&model) as _)).await;
    let section = |text: &str| Section::new("task", "Task", text).tool(take_note).ask_human();
    let build = |key: &str, text: &str| {
        Prompt::<()>::builder("tests", key, "Notes").section(section(text)).build().expect("sound")
    };
    let answers = || Some(Answers::One(json!("yes")));
    for (prompt, code) in
        [(build("notes", "Take no notes."), "W0614"), (build("other", "Take notes."), "W0613")]
    {
        let error = evaluator.resume(&prompt, &thread, answers()).await.expect_err(code);
        assert_eq!((error.code(), error.kind), (code, EvaluationErrorKind::Prompt));
    }
    let open = evaluator.runtime().thread("prompt:react", thread.as_str()).expect("hosted");
    assert_eq!((open.questions().await.expect("reads").len(), model.calls()), (1, 0));
    let response = evaluator.resume(&noting(), &thread, answers()).await.expect("continues");
    assert_eq!(done(response).text, "Done.");
    let none = ThreadId::new("none").expect("an id");
    let none = evaluator.resume(&noting(), &none, answers()).await;
    assert!(none.is_err(), "there is no such thread");
}

/// Asks another prompt, and returns its answer.
#[tool]
async fn ask_expert(topic: String, prompt: Deps<PromptContext>) -> Result<String, ToolError> {
    let expert = Section::new("task", "Task", format!("Explain {topic}.")).tool(take_note);
    let expert = Prompt::<()>::builder("tests", "expert", "Expert").section(expert).build()?;
    let evaluated = prompt.evaluate(&expert, ()).await?;
    evaluated.done().map(|response| response.text).ok_or_else(|| ToolError::failed("it asks"))
}

fn asking() -> Prompt<()> {
    let task = Section::new("task", "Task", "Ask experts.").tool(ask_expert);
    Prompt::<()>::builder("tests", "asking", "Asking").section(task).build().expect("sound")
}

/// A model that answers by the role of its prompt: it asks three experts at once, who each take
/// notes until the budget is used up.
#[derive(Debug)]
struct Experts {
    info: ModelInfo,
    calls: AtomicUsize,
    notes: usize,
}

impl ChatModel for Experts {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let results = request.messages.iter().flat_map(|message| message.tool_results()).count();
        let text = request.messages[0].joined_text();
        let step = match text.contains("Explain") {
            true if results < self.notes => Step::calls(vec![note(&text[text.len() - 2..])]),
            false if results == 0 => {
                let ask = |topic: &str| ("ask_expert".to_owned(), json!({"topic": topic}));
                Step::calls(vec![ask("a"), ask("b"), ask("c")])
            }
            _ => Step::text("Done."),
        };
        let step = step.using(Tokens::reported(10, 5));
        ScriptedModel::from_steps(vec![step]).stream(request)
    }
}

fn experts(notes: usize) -> Arc<Experts> {
    let info = ScriptedModel::rules().info().clone();
    Arc::new(Experts { info, calls: AtomicUsize::new(0), notes })
}

#[tokio::test]
async fn evaluations_within_a_call_share_session_and_usage() {
    let model = experts(1);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
    let session = evaluator.new_session();
    let response = evaluator.evaluate(&asking(), ()).session(&session).await.expect("evaluates");
    let response = done(response);
    assert_eq!(notes(&session), ["a.", "b.", "c."], "in the order of the calls");
    assert_eq!(response.usage.model_calls, 2 + 3 * 2);
    assert_eq!(response.usage.tool_calls, 3 + 3);
}

#[tokio::test]
async fn four_evaluations_at_once_never_exceed_their_budget() {
    for limit in [1, 4, 10] {
        let model = experts(20);
        let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
        let limits = Limits { model_calls: Some(limit), ..Limits::default() };
        let budget = LimitedBudget::new(limits, Usage::default());
        let evaluation = evaluator.evaluate(&asking(), ()).budget(budget.clone());
        let error = evaluation.await.expect_err("the budget is used up");
        assert_eq!(error.kind, EvaluationErrorKind::Budget, "{error}");
        let made = model.calls.load(Ordering::SeqCst) as u64;
        assert_eq!((made, budget.used().model_calls), (limit, limit));
        assert_eq!(error.usage.model_calls, limit, "what was spent is reported");
        // Nothing is called with what is left: nothing.
        let again = evaluator.evaluate(&asking(), ()).budget(budget.clone()).await;
        assert_eq!(again.expect_err("used up").kind, EvaluationErrorKind::Budget);
        assert_eq!(model.calls.load(Ordering::SeqCst) as u64, limit);
    }
}

#[tokio::test]
async fn limits_are_of_an_evaluation_with_its_continuations() {
    let store = Arc::new(MemoryStore::new());
    let ask = || Step::call("ask_human", json!({"question": "More?"}));
    let evaluator = over(&store, Evaluator::builder(scripted(vec![ask()]))).await;
    let session = Session::new("s").expect("an id");
    let limits = Limits { model_calls: Some(2), ..Limits::default() };
    let evaluation = evaluator.evaluate(&noting(), ()).session(&session).budget(limits);
    let thread = evaluation.await.expect("evaluates").interrupted().expect("asks").thread;
    drop(evaluator);
    let model = scripted(vec![ask(), Step::text("never")]);
    let evaluator = over(&store, Evaluator::builder(Arc::clone(&model) as _)).await;
    let answers = || Some(Answers::One(json!("yes")));
    let again = evaluator.resume(&noting(), &thread, answers()).await.expect("one call is left");
    assert!(again.interrupted().is_some());
    let error = evaluator.resume(&noting(), &thread, answers()).await.expect_err("none is left");
    assert_eq!(error.kind, EvaluationErrorKind::Budget);
    assert_eq!((error.usage.model_calls, model.calls()), (2, 1));
}

#[tokio::test]
async fn a_loop_ends_at_the_recursion_limit() {
    let steps = (0..30).map(|_| Step::calls(vec![note("again")])).collect();
    let evaluator = Evaluator::builder(scripted(steps)).open().await.expect("opens");
    let error = evaluator.evaluate(&noting(), ()).await.expect_err("25 supersteps");
    assert_eq!(error.kind, EvaluationErrorKind::RecursionLimit);
    assert_eq!((error.phase, error.code()), (EvaluationPhase::Request, "W0621"));
    assert!(error.to_string().contains("25"), "{error}");
}

#[tokio::test]
async fn every_evaluation_reports_its_end_once_also_if_it_is_dropped_or_not_rendered() {
    let bus = EventBus::new();
    let mut events = bus.subscribe();
    let ends = |events: &mut weftwork_agents::Subscription| -> Vec<ExecutedOutcome> {
        let ends = events.drain().into_iter().filter_map(|event| match event {
            PromptEvent::PromptExecuted(event) => Some(event.outcome.clone()),
            _ => None,
        });
        ends.collect()
    };
    let model = scripted(vec![Step::text("x").hanging()]);
    let evaluator =
        Evaluator::builder(Arc::clone(&model) as _).bus(&bus).open().await.expect("opens");
    let evaluation = evaluator.evaluate(&noting(), ()).into_future();
    tokio::select! {
        _ = evaluation => panic!("the model hangs"),
        () = async { while model.calls() == 0 { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(ends(&mut events), [ExecutedOutcome::Dropped]);
    let overrides = Overrides::new().visibility("none", Visibility::Full);
    let error = evaluator.evaluate(&noting(), ()).overrides(overrides).await.expect_err("refused");
    assert_eq!((error.code(), error.phase), ("W0612", EvaluationPhase::Render));
    assert!(
        matches!(&ends(&mut events)[..], [ExecutedOutcome::Failed { code, .. }] if code == "W0612")
    );
}

/// Returns a secret beside what may be shown.
#[tool(effect = external_side_effect, shown(city))]
fn book(city: String, #[arg(secret)] card: String, context: ToolContext) -> Value {
    json!({"city": city, "card": card, "id": context.tool_call_id})
}

#[tokio::test]
async fn policies_belong_to_sections_and_values_leave_the_process_in_their_shown_form() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct May {
        book: bool,
    }
    let allow = Policy::new().allow("book").expect("a name");
    let prompt = Prompt::<May>::builder("tests", "book", "Book")
        .section(Section::new("task", "Task", "Book a room.").tool(book))
        .section(
            Section::new("may", "Rules", "You may.").policy(allow).enabled(|may: &May| may.book),
        )
        .build()
        .expect("sound");
    for may in [true, false] {
        let call = Step::call("book", json!({"city": "Bern", "card": "4111"}));
        let model = scripted(vec![call, Step::text("Done.")]);
        let evaluator = Evaluator::builder(model).open().await.expect("opens");
        let mut events = evaluator.bus().subscribe();
        evaluator.evaluate(&prompt, May { book: may }).await.expect("evaluates");
        let event = events.drain().into_iter().find(|event| event.name() == "tool_invoked");
        let shown = event.expect("a call").to_shown();
        assert!(!shown.to_string().contains("4111"), "{shown}");
        match may {
            true => assert_eq!(shown["result"]["value"], json!({"city": "Bern"})),
            false => assert_eq!(shown["result"]["code"], json!("W0403")),
        }
    }
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
        while let Some(event) = stream.next().await {
            if let weftwork_types::event::AiEvent::TextDelta { delta } = event.event {
                text.push_str(&delta);
            }
        }
        assert_eq!(text, "Two words.");
        assert_eq!(done(stream.outcome().await.expect("evaluates")).text, text);
    });
}

#[tokio::test]
async fn a_tool_without_its_value_is_refused_before_any_call() {
    #[derive(Debug)]
    struct Database;

    /// Reads.
    #[tool]
    fn read(database: Deps<Database>) -> String {
        format!("a row of {:?}", *database)
    }
    let task = Section::new("task", "Task", "Read.").tool(read);
    let prompt =
        Prompt::<()>::builder("tests", "read", "Read").section(task).build().expect("sound");
    let model = scripted(vec![Step::call("read", json!({})), Step::text("Done.")]);
    let evaluator = Evaluator::builder(Arc::clone(&model) as _).open().await.expect("opens");
    let error = evaluator.evaluate(&prompt, ()).await.expect_err("no database");
    assert!(error.to_string().contains("Database"), "{error}");
    assert_eq!((error.kind, model.calls()), (EvaluationErrorKind::Prompt, 0));
    let evaluator = Evaluator::builder(model).tools(ToolBox::new().provide(Database));
    evaluator.open().await.expect("opens").evaluate(&prompt, ()).await.expect("evaluates");
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
    let error = evaluator.resume(&noting(), &id, None).await.expect_err("no evaluation");
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

#[tokio::test]
async fn a_dispatch_in_a_graph_without_sessions_is_refused() {
    async fn ask(chat: State<Chat>, model: PromptModel) -> NodeResult<ChatUpdate> {
        Ok(ChatUpdate::new().messages([model.ask(chat.messages().iter()).await?]))
    }
    async fn note(tools: PromptTools, ctx: Ctx) -> NodeResult<ChatUpdate> {
        let refused = tools.call("take_note", json!({"text": "x"})).await;
        let Err(CallError::Failed(failure)) = refused else { panic!("it has no session") };
        assert_eq!(failure.code.as_deref(), Some("W0619"));
        let text = failure.safe_message;
        Ok(ChatUpdate::new().messages([Message::text(ctx.message_id(), Role::User, text)]))
    }
    let graph = Graph::<Chat>::new("plain")
        .with_run_scoped::<PromptRun>()
        .node("note", note)
        .node("ask", ask)
        .edge(START, "note")
        .edge("note", "ask")
        .build()
        .expect("sound");
    let evaluator = Evaluator::builder(scripted(vec![Step::text("Done.")])).graph(graph);
    let evaluator = evaluator.open().await.expect("opens");
    let response = evaluator.evaluate(&noting(), ()).await.expect("evaluates");
    assert_eq!(done(response).text, "Done.");
    let session = evaluator.new_session();
    session.dispatch::<Note>(&Note("mine".to_owned())).expect("dispatches");
    let error = evaluator.evaluate(&noting(), ()).session(&session).await.expect_err("no channel");
    assert_eq!((error.code(), error.kind), ("W0619", EvaluationErrorKind::Session));
}
