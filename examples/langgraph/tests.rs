//! Tests of an agent with a scripted model: approvals, retries, time limits:
//! `cargo test -p weftwork --test langgraph`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork::graph::{NodeError, Retry, Timeout};
use weftwork::models::ModelError;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::RetryPolicy;
use weftwork::types::interrupt::Interrupt;
use weftwork::types::port::Limits;
use weftwork::types::run::AnswerTo;

type Paid = Mutex<Vec<u32>>;

/// Refunds an order.
#[tool(effect = external_side_effect)]
fn refund(order: String, euros: u32, paid: Deps<Paid>) -> String {
    paid.lock().unwrap().push(euros);
    format!("refunded {euros} for {order}")
}

struct Shop {
    thread: Thread,
    paid: Arc<Paid>,
}

impl Shop {
    async fn new() -> Self {
        let paid = Arc::new(Paid::default());
        let call = Step::call("refund", json!({"order": "A1", "euros": 90}));
        let model = ScriptedModel::from_steps([call, Step::text("It is done.")]);
        let agent = ReactAgent::new("shop", model)
            .tools(ToolBox::new().with(refund).provide_shared(Arc::clone(&paid)))
            .policy(Policy::new().ask_human("refund", "it moves money").unwrap());
        let thread = hosted(agent).await;
        thread.say("Refund A1.").await.unwrap();
        Self { thread, paid }
    }

    async fn question(&self) -> Interrupt {
        self.thread.questions().await.unwrap().remove(0)
    }

    async fn answer(&self, answer: AnswerTo) -> String {
        let ended = self.thread.answer(answer).await.unwrap();
        ended.messages().unwrap().tool_result("refund").unwrap().text()
    }

    fn paid(&self) -> Vec<u32> {
        self.paid.lock().unwrap().clone()
    }
}

async fn hosted(agent: ReactAgent) -> Thread {
    let runtime = Runtime::in_memory().graph("agent", agent.build().unwrap());
    runtime.open().await.unwrap().thread("agent", "t").unwrap()
}

#[tokio::test]
async fn the_question_names_tool_and_arguments() {
    let shop = Shop::new().await;
    let asked = shop.question().await.ask.to_string();
    assert!(asked.contains("`refund`") && asked.contains("90"), "{asked}");
    assert!(shop.paid().is_empty());
}

#[tokio::test]
async fn an_approved_call_is_made_once() {
    let shop = Shop::new().await;
    let question = shop.question().await;
    assert_eq!(shop.answer(question.approve()).await, "refunded 90 for A1");
    assert_eq!(shop.paid(), [90]);
}

#[tokio::test]
async fn a_rejected_call_is_not_made() {
    let shop = Shop::new().await;
    let question = shop.question().await;
    assert!(shop.answer(question.reject("too much")).await.contains("too much"));
    assert!(shop.paid().is_empty());
}

#[tokio::test]
async fn an_edited_call_has_the_new_arguments() {
    let shop = Shop::new().await;
    let question = shop.question().await;
    let args = json!({"order": "A1", "euros": 50});
    assert!(shop.answer(question.edit(args)).await.contains("refunded 50"));
    assert_eq!(shop.paid(), [50]);
}

#[tokio::test(start_paused = true)]
async fn a_model_is_called_again_after_a_failure() {
    let busy =
        ModelError::Truncated { provider: "scripted".into(), events: 0, reason: "busy".into() };
    let model = Arc::new(ScriptedModel::from_steps([Step::fails(busy), Step::text("Hello.")]));
    let thread = hosted(ReactAgent::new("agent", Arc::clone(&model))).await;
    assert_eq!(thread.say("Hi.").await.unwrap().text(), "Hello.");
    assert_eq!(model.calls(), 2);
}

/// Looks up an order.
#[tool]
fn look_up(order: String, calls: Deps<AtomicU32>) -> Result<String, ToolError> {
    match calls.fetch_add(1, Ordering::SeqCst) {
        2 => Ok(format!("{order} is paid")),
        _ => Err(ToolError::unavailable("busy")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_tool_is_called_again() {
    let call = Step::call("look_up", json!({"order": "A1"}));
    let agent = ReactAgent::new("agent", ScriptedModel::from_steps([call, Step::text("Paid.")]))
        .tools(ToolBox::new().with(look_up).provide(AtomicU32::new(0)))
        .policy(Policy::builder().allow("look_up").retry(RetryPolicy::default()).build().unwrap());
    let ended = hosted(agent).await.say("Paid?").await.unwrap();
    let messages = ended.messages().unwrap();
    assert_eq!(messages.tool_result("look_up").unwrap().text(), "A1 is paid");
}

/// Searches.
#[tool]
fn search(query: String) -> String {
    format!("nothing about {query}")
}

#[tokio::test]
async fn an_agent_stops_at_its_budget() {
    let call = Step::call("search", json!({"query": "it"}));
    let model = Arc::new(ScriptedModel::from_steps(vec![call; 9]));
    let agent = ReactAgent::new("agent", Arc::clone(&model));
    let agent = agent.tools(ToolBox::new().with(search)).build().unwrap();
    let runtime = Runtime::in_memory().graph("agent", agent).budgets(Limits::model_calls(3));
    let thread = runtime.open().await.unwrap().thread("agent", "t").unwrap();
    let ended = thread.say("Find it.").await.unwrap();
    assert!(ended.output().unwrap_err().to_string().contains("budget"));
    assert_eq!(model.calls(), 3);
}

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

async fn flaky(ctx: Ctx) -> NodeResult<LogUpdate> {
    if ctx.attempt() < 3 {
        return Err(NodeError::message("busy").retriable());
    }
    Ok(LogUpdate::new().log([format!("attempt {}", ctx.attempt())]))
}

#[tokio::test(start_paused = true)]
async fn a_node_is_repeated() {
    let graph = Graph::<Log>::new("log").node("flaky", flaky).retry("flaky", Retry::new(3));
    let ended = graph.edge(START, "flaky").build().unwrap().invoke(json!({})).await.unwrap();
    assert_eq!(*ended.output().unwrap(), json!({"log": ["attempt 3"]}));
}

async fn stuck(_: Ctx) {
    std::future::pending().await
}

#[tokio::test]
async fn a_node_that_hangs_is_cut_off() {
    let limit = Timeout::run(Duration::from_millis(10));
    let graph = Graph::<Log>::new("log").node("stuck", stuck).timeout("stuck", limit);
    let ended = graph.edge(START, "stuck").build().unwrap().invoke(json!({})).await;
    assert!(ended.unwrap_err().to_string().contains("stuck"));
}
