//! Evaluations within tool calls, and budgets.

use super::{done, note, notes, noting, over, scripted, take_note};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weftwork_agents::{EvaluationErrorKind, Evaluator, Prompt, PromptContext, Section, Session};
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_models::{ChatModel, ChatRequest, ChatStream, ModelInfo};
use weftwork_runtime::Runtime;
use weftwork_store::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_tools::{Deps, ToolError, tool};
use weftwork_types::port::{LimitedBudget, Limits};
use weftwork_types::run::Answers;
use weftwork_types::usage::{Tokens, Usage};

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
    let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
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
        let evaluator = Evaluator::builder(Arc::clone(&model)).open().await.expect("opens");
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
    let evaluator = over(&store, Evaluator::builder(Arc::clone(&model))).await;
    let answers = || Answers::One(json!("yes"));
    let again = evaluator.answer(&noting(), &thread, answers()).await.expect("one call is left");
    assert!(again.interrupted().is_some());
    let error = evaluator.answer(&noting(), &thread, answers()).await.expect_err("none is left");
    assert_eq!(error.kind, EvaluationErrorKind::Budget);
    assert_eq!((error.usage.model_calls, model.calls()), (2, 1));
}

#[tokio::test]
async fn the_wall_time_of_an_evaluation_is_limited_with_its_continuations() {
    let clock = ManualClock::new();
    let ask = Step::call("ask_human", json!({"question": "More?"}));
    let model = scripted(vec![ask, Step::text("x").hanging()]);
    let runtime = Runtime::in_memory().clock(Arc::new(clock.clone()));
    let evaluator = Evaluator::builder(Arc::clone(&model)).runtime(runtime).open().await;
    let evaluator = evaluator.expect("opens");
    let limits = Limits::wall_time(Duration::from_secs(60));
    let waiting = evaluator.evaluate(&noting(), ()).budget(limits).await.expect("evaluates");
    let thread = waiting.interrupted().expect("asks").thread;
    clock.advance(Duration::from_secs(3_600));
    let goes_on = evaluator.answer(&noting(), &thread, Answers::One(json!("yes"))).into_future();
    let passes = async {
        while model.calls() < 2 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(60));
    };
    let (ended, ()) = tokio::join!(goes_on, passes);
    let error = ended.expect_err("the time is over");
    assert_eq!((error.kind, error.code()), (EvaluationErrorKind::Budget, "W0601"));
    assert_eq!(error.usage.model_calls, 2, "with the request that was cut off");
}
