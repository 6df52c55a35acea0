//! Evaluations within calls that are executed again: with answers, or after the end of a process.

use super::{Note, done, notes, take_note};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_agents::{
    EvaluationErrorKind, Evaluator, EvaluatorBuilder, Prompt, PromptContext, Section, Session,
};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork_runtime::{LeaseConfig, Runtime};
use weftwork_store::MemoryStore;
use weftwork_tools::{Deps, Questions, Replies, ToolError, ToolOutput, question, tool};
use weftwork_types::message::Message;
use weftwork_types::port::Limits;
use weftwork_types::run::Answers;
use weftwork_types::tool::ToolOutcome;

fn expert(topic: &str) -> Result<Prompt<()>, ToolError> {
    let task = Section::new("task", "Task", format!("Explain {topic}.")).tool(take_note);
    Ok(Prompt::<()>::builder("tests", "expert", "Expert").section(task).build()?)
}

/// Asks an expert about a topic, then a person, then the expert about the reply.
#[tool]
async fn consult(
    topic: String,
    replies: Option<Replies>,
    prompt: Deps<PromptContext>,
) -> Result<ToolOutput<String>, ToolError> {
    let Some(replies) = replies else {
        ask(&prompt, &topic).await?;
        return Ok(Questions::new([question::<String>("What else?")]).into());
    };
    // In another order than before.
    let other = replies.content::<String>(0)?.unwrap_or_default();
    let second = ask(&prompt, &other).await?;
    let first = ask(&prompt, &topic).await?;
    Ok(ToolOutput::Value(format!("{first} {second}")))
}

async fn ask(prompt: &PromptContext, topic: &str) -> Result<String, ToolError> {
    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Topic {
        topic: String,
    }
    let task = Section::new("task", "Task", "Explain ${topic}.").tool(take_note);
    let expert = Prompt::<Topic>::builder("tests", "expert", "Expert").section(task).build()?;
    let evaluated = prompt.evaluate(&expert, Topic { topic: topic.to_owned() }).await?;
    evaluated.done().map(|response| response.text).ok_or_else(|| ToolError::failed("it asks"))
}

/// Asks an expert once.
#[tool(timeout_ms = 600000)]
async fn ask_once(topic: String, prompt: Deps<PromptContext>) -> Result<String, ToolError> {
    let evaluated = prompt.evaluate(&expert(&topic)?, ()).await?;
    evaluated.done().map(|response| response.text).ok_or_else(|| ToolError::failed("it asks"))
}

/// A model whose answers depend on the conversation alone: the first prompt calls its tool, and an
/// expert takes a note before its answer.
#[derive(Debug)]
struct Author {
    info: ModelInfo,
    tool: &'static str,
    /// Topics of the calls of experts, and `main` for those of the first prompt.
    calls: Mutex<Vec<String>>,
    /// `true` if an expert with a note hangs.
    hangs: AtomicBool,
}

impl ChatModel for Author {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let results = request.messages.iter().flat_map(Message::tool_results).count();
        let text = request.messages[0].joined_text();
        let topic = text.split("Explain ").nth(1).map(|rest| rest.trim_end_matches('.').to_owned());
        self.calls.lock().expect("sound").push(topic.clone().unwrap_or("main".to_owned()));
        let step = match (&topic, results) {
            (None, 0) => Step::call(self.tool, json!({"topic": "tea"})),
            (None, _) => Step::text("Done."),
            (Some(topic), 0) => Step::call("take_note", json!({"text": topic})),
            (Some(topic), _) if self.hangs.load(Ordering::SeqCst) => Step::text(topic).hanging(),
            (Some(topic), _) => Step::text(topic),
        };
        ScriptedModel::from_steps(vec![step]).stream(request)
    }
}

impl Author {
    fn new(tool: &'static str, hangs: bool) -> Arc<Self> {
        Arc::new(Self {
            info: ScriptedModel::rules().info().clone(),
            tool,
            calls: Mutex::default(),
            hangs: AtomicBool::new(hangs),
        })
    }

    fn calls(&self, of: &str) -> usize {
        self.calls.lock().expect("sound").iter().filter(|topic| *topic == of).count()
    }
}

fn consulting() -> Prompt<()> {
    let task = Section::new("task", "Task", "Ask experts.").tool(consult).tool(ask_once);
    Prompt::<()>::builder("tests", "consulting", "Consulting").section(task).build().expect("sound")
}

fn reply() -> Answers {
    Answers::One(json!({"action": "accept", "content": "milk"}))
}

#[tokio::test]
async fn a_tool_that_evaluates_and_then_asks_pays_for_each_evaluation_once() {
    for durable in [true, false] {
        let model = Author::new("consult", false);
        let builder = Evaluator::builder(Arc::clone(&model));
        let builder = if durable { builder.runtime(Runtime::in_memory()) } else { builder };
        let evaluator = builder.open().await.expect("opens");
        let session = evaluator.new_session();
        session.dispatch::<Note>(&Note("mine".to_owned())).expect("dispatches");
        let evaluated = evaluator.evaluate(&consulting(), ()).session(&session).await;
        let thread = evaluated.expect("evaluates").interrupted().expect("asks").thread;
        assert_eq!(model.calls("tea"), 2);
        // The state of the session is another one in the second round.
        session.dispatch::<Note>(&Note("later".to_owned())).expect("dispatches");
        let evaluation = evaluator.answer(&consulting(), &thread, reply()).session(&session);
        let response = done(evaluation.await.expect("continues"));
        assert_eq!(model.calls("tea"), 2, "its outcome was stored");
        assert_eq!((model.calls("milk"), model.calls("main")), (2, 2));
        assert_eq!((response.usage.model_calls, response.usage.tool_calls), (6, 3));
        assert_eq!(notes(&session), ["mine", "later", "milk", "tea"]);
        let threads = evaluator.runtime().threads().search(Default::default()).await;
        let left = threads.expect("reads").threads.len();
        assert_eq!(left, if durable { 3 } else { 0 }, "threads in memory are deleted");
    }
}

#[tokio::test]
async fn model_calls_of_evaluations_within_calls_count_in_continuations() {
    let model = Author::new("consult", false);
    let builder = Evaluator::builder(Arc::clone(&model)).runtime(Runtime::in_memory());
    let evaluator = builder.open().await.expect("opens");
    let limits = Limits { model_calls: Some(3), ..Limits::default() };
    let evaluated = evaluator.evaluate(&consulting(), ()).budget(limits).await;
    let interrupted = evaluated.expect("evaluates").interrupted().expect("asks");
    assert_eq!(interrupted.usage.model_calls, 3, "one of the prompt, two of the expert");
    let error = evaluator.answer(&consulting(), &interrupted.thread, reply()).await;
    let error = error.expect_err("nothing is left");
    assert_eq!((error.kind, error.usage.model_calls), (EvaluationErrorKind::Budget, 3));
    assert_eq!((model.calls("milk"), model.calls("main")), (0, 1));
}

fn short_leases(store: &Arc<MemoryStore>, builder: EvaluatorBuilder) -> EvaluatorBuilder {
    let beat = Duration::from_millis(50);
    let lease = LeaseConfig { renew_every: beat, lease: beat * 8, look_every: beat };
    builder.runtime(Runtime::builder(Arc::clone(store) as _).lease(lease))
}

#[test]
fn a_process_that_ends_within_a_nested_evaluation_pays_nothing_twice() {
    let store = Arc::new(MemoryStore::new());
    let model = Author::new("ask_once", true);
    let tokio = || {
        let mut tokio = tokio::runtime::Builder::new_multi_thread();
        tokio.worker_threads(1).enable_all().build().expect("a runtime")
    };
    let id = || weftwork_types::ThreadId::new("s").expect("an id");
    let first = tokio();
    let of_first = Arc::clone(&model);
    let in_store = Arc::clone(&store);
    first.spawn(async move {
        let builder = short_leases(&in_store, Evaluator::builder(of_first));
        let evaluator = builder.open().await.expect("opens");
        let session = Session::new("s").expect("an id");
        let _cut_off = evaluator.evaluate(&consulting(), ()).session(&session).await;
    });
    while model.calls("tea") < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    first.shutdown_background();
    model.hangs.store(false, Ordering::SeqCst);
    tokio().block_on(async {
        let builder = short_leases(&store, Evaluator::builder(Arc::clone(&model)));
        let evaluator = builder.open().await.expect("opens");
        let session = evaluator.session(&id()).await.expect("reads");
        let response = loop {
            match evaluator.resume(&consulting(), &id()).session(&session).await {
                Ok(evaluated) => break done(evaluated),
                // The death of the process is not known yet.
                Err(error) => assert!(error.fault.retriable, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(response.text, "Done.");
        assert_eq!(notes(&session), ["tea"]);
    });
    assert_eq!(
        (model.calls("main"), model.calls("tea")),
        (2, 3),
        "only the call cut off is repeated"
    );
}

/// Fails, and dispatches afterwards.
#[tool]
async fn dispatch_late(prompt: Deps<PromptContext>) -> Result<String, ToolError> {
    tokio::spawn(async move {
        for _ in 0..1_000 {
            let late = prompt.dispatch::<Note>(&Note("late".to_owned()));
            REFUSED.fetch_add(usize::from(late.is_err()), Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    Err(ToolError::failed("it failed"))
}

static REFUSED: AtomicUsize = AtomicUsize::new(0);

#[tokio::test]
async fn what_a_tool_dispatches_after_its_failure_is_refused() {
    let task = Section::new("task", "Task", "Fail.").tool(dispatch_late);
    let prompt = Prompt::<()>::builder("tests", "late", "Late").section(task).build();
    let model = super::scripted(vec![Step::call("dispatch_late", json!({})), Step::text("Done.")]);
    let evaluator = Evaluator::builder(model).open().await.expect("opens");
    let mut events = evaluator.bus().subscribe();
    let session = evaluator.new_session();
    let evaluation = evaluator.evaluate(&prompt.expect("sound"), ()).session(&session);
    evaluation.await.expect("evaluates");
    let failed = events.drain().into_iter().any(|event| match &event.kind {
        weftwork_agents::PromptEventKind::ToolInvoked(event) => {
            matches!(event.result, ToolOutcome::Failed(_))
        }
        _ => false,
    });
    assert!(failed);
    assert_eq!(notes(&session), Vec::<String>::new());
    while REFUSED.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}
