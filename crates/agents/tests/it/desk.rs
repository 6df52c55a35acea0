//! An order desk with a read-only tool and a tool with an effect that counts its calls.

use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_agents::ReactAgent;
use weftwork_graph::CompiledGraph;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_runtime::{Runtime, Thread};
use weftwork_store::memory::MemoryStore;
use weftwork_store::{Store, open_questions};
use weftwork_tools::{
    Deps, Policy, Questions, Replies, ToolBox, ToolError, ToolOutput, question, tool,
};
use weftwork_types::caller::Caller;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::interrupt::Ask;
use weftwork_types::message::Message;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest};
use weftwork_types::{InterruptId, Principal, ThreadId};

/// The number of refunded orders, of rounds of `book_table`, and of letters.
#[derive(Debug, Default)]
pub(crate) struct Refunds(AtomicU32, AtomicU32, AtomicU32);

/// Looks up an order.
#[tool]
fn lookup_order(order_id: String) -> String {
    format!("order {order_id} is on its way")
}

/// Refunds an order.
#[tool(effect = external_side_effect, on_unknown = idempotent)]
fn refund_order(order_id: String, amount: u32, refunds: Deps<Refunds>) -> String {
    refunds.0.0.fetch_add(1, Ordering::SeqCst);
    format!("refunded {amount} for {order_id}")
}

/// Sends a letter, without an approval. A letter to nobody is sent, and nothing is heard of it.
#[tool(effect = external_side_effect)]
async fn send_letter(to: String, world: Deps<Refunds>) -> String {
    world.0.2.fetch_add(1, Ordering::SeqCst);
    if to == "nobody" {
        std::future::pending::<()>().await;
    }
    format!("a letter is on its way to {to}")
}

/// Books a table.
#[tool(effect = external_side_effect)]
fn book_table(
    day: String,
    replies: Option<Replies>,
    world: Deps<Refunds>,
) -> Result<ToolOutput<String>, ToolError> {
    world.0.1.fetch_add(1, Ordering::SeqCst);
    let Some(replies) = replies else {
        return Ok(Questions::new([question::<u32>(format!("How many guests on {day}?"))]).into());
    };
    if replies.round == 1 {
        let Some(guests) = replies.content::<u32>(0)? else {
            return Ok(ToolOutput::Value("nothing was booked".to_owned()));
        };
        let ask = question::<String>(format!("{guests} guests: which name?"));
        return Ok(Questions::new([ask]).state(json!(guests)).into());
    }
    let guests = replies.state::<u32>()?;
    let name = replies.content::<String>(0)?;
    Ok(ToolOutput::Value(format!("{day}, {guests}, {}", name.unwrap_or_default())))
}

/// Refunds an order by means that a person chooses.
#[tool(effect = external_side_effect)]
fn refund_by(
    order_id: String,
    replies: Option<Replies>,
    refunds: Deps<Refunds>,
) -> Result<ToolOutput<String>, ToolError> {
    let Some(replies) = replies else {
        return Ok(Questions::new([question::<String>("By which means?")]).into());
    };
    refunds.0.0.fetch_add(1, Ordering::SeqCst);
    let means = replies.content::<String>(0)?.unwrap_or_default();
    Ok(ToolOutput::Value(format!("{order_id} by {means}")))
}

/// An agent with its thread and its scripted model.
pub(crate) struct Desk {
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) refunds: Arc<Refunds>,
    pub(crate) store: Arc<dyn Store>,
    runtime: Runtime,
}

impl Desk {
    pub(crate) async fn new(steps: Vec<Step>) -> Self {
        Self::on(Arc::new(MemoryStore::new()), Arc::new(Refunds::default()), steps).await
    }

    /// Opens the same thread as in a new process.
    pub(crate) async fn reopened(self, steps: Vec<Step>) -> Self {
        Self::on(self.store, self.refunds, steps).await
    }

    async fn on(store: Arc<dyn Store>, refunds: Arc<Refunds>, steps: Vec<Step>) -> Self {
        let model = Arc::new(ScriptedModel::from_steps(steps));
        let runtime = Runtime::builder(Arc::clone(&store))
            .graph("test:desk", agent(Arc::clone(&model), Arc::clone(&refunds)))
            .open()
            .await
            .expect("opens");
        Self { model, refunds, store, runtime }
    }

    pub(crate) fn refunded(&self) -> u32 {
        self.refunds.0.load(Ordering::SeqCst)
    }

    pub(crate) fn letters(&self) -> u32 {
        self.refunds.2.load(Ordering::SeqCst)
    }

    /// The thread, as programs have it.
    pub(crate) fn thread(&self) -> Thread {
        self.runtime.thread("desk", thread().as_str()).expect("a name")
    }

    /// Number of times that `book_table` was executed.
    pub(crate) fn rounds(&self) -> u32 {
        self.refunds.1.load(Ordering::SeqCst)
    }

    /// The open questions of the thread.
    pub(crate) async fn open_questions(&self) -> Vec<(InterruptId, Ask)> {
        let stored = self.store.interrupts(&Principal::local(), &thread()).await.expect("reads");
        open_questions(stored).into_iter().map(|asked| (asked.id, asked.ask)).collect()
    }

    pub(crate) async fn run(&self, input: RunInput) -> (Vec<RunEvent>, RunOutcome) {
        self.run_with(input, RunOptions::default()).await
    }

    pub(crate) async fn run_with(
        &self,
        input: RunInput,
        options: RunOptions,
    ) -> (Vec<RunEvent>, RunOutcome) {
        let request = RunRequest { options, ..request(input) };
        let handle = self.runtime.execute(request).await.expect("accepted");
        let events = handle.events.collect().await;
        (events, handle.outcome.await)
    }

    /// Begins a run in which a letter is sent to nobody, lets the process die once it is sent, and
    /// cancels the run in another one.
    pub(crate) async fn dies_in_a_letter(self, options: RunOptions, steps: Vec<Step>) -> Self {
        let request = request(RunInput::Start { input: said("Write to nobody.") });
        let before = self.letters();
        let begun = self.runtime.execute(RunRequest { options, ..request }).await;
        let begun = begun.expect("accepted");
        while self.letters() == before {
            tokio::task::yield_now().await;
        }
        self.store.retire(self.runtime.worker()).await.expect("it is dead");
        let who = Principal::local();
        let runtime = self.runtime.clone();
        let next = self.reopened(steps).await;
        next.runtime.cancel(&who, &begun.run).await.expect("it is there");
        let ended = next.runtime.take_over(&who, &begun.run).await.expect("taken over");
        assert_eq!(ended.outcome.await, RunOutcome::cancelled());
        drop(runtime);
        next
    }

    pub(crate) async fn say(&self, text: &str) -> (Vec<RunEvent>, RunOutcome) {
        self.run(RunInput::Start { input: said(text) }).await
    }

    /// Returns the code of the error for a rejected answer.
    pub(crate) async fn refused(&self, id: InterruptId, value: Value) -> String {
        let answers = BTreeMap::from([(id, value)]);
        let run = self.runtime.execute(request(RunInput::answers(answers))).await;
        run.expect_err("refused").fault.code
    }

    pub(crate) async fn answer(
        &self,
        id: InterruptId,
        value: Value,
    ) -> (Vec<RunEvent>, RunOutcome) {
        self.run(RunInput::answers(BTreeMap::from([(id, value)]))).await
    }
}

/// The agent of the desk.
pub(crate) fn agent(model: Arc<ScriptedModel>, refunds: Arc<Refunds>) -> CompiledGraph {
    let tools = ToolBox::new()
        .with(lookup_order)
        .with(refund_order)
        .with(send_letter)
        .with(book_table)
        .with(refund_by)
        .with_ask_human()
        .provide_shared(refunds);
    let policy = Policy::new()
        .ask_human("refund_order", "it moves money")
        .and_then(|policy| policy.ask_human("refund_by", "it moves money"))
        .and_then(|policy| policy.allow("book_table"))
        .and_then(|policy| policy.allow("send_letter"))
        .expect("names");
    let graph = ReactAgent::new("desk", model).tools(tools).policy(policy).build();
    graph.expect("a sound agent")
}

/// An input in which a person says something.
pub(crate) fn said(text: &str) -> Value {
    let message = json!({
        "id": format!("user-{}", text.len()),
        "role": "user",
        "parts": [{"type": "text", "text": text}],
    });
    json!({"messages": [message]})
}

fn request(input: RunInput) -> RunRequest {
    RunRequest {
        principal: Principal::local(),
        caller: Caller::local("request").expect("valid id"),
        graph: "test:desk".to_owned(),
        thread: thread(),
        input,
        options: RunOptions::default(),
    }
}

pub(crate) fn thread() -> ThreadId {
    ThreadId::new("t").expect("valid id")
}

pub(crate) fn messages(outcome: &RunOutcome) -> Vec<Message> {
    match outcome {
        RunOutcome::Completed { output } => {
            serde_json::from_value(output["messages"].clone()).expect("messages")
        }
        other => panic!("expected a completed run, got {other:?}"),
    }
}

pub(crate) fn open(outcome: &RunOutcome) -> Vec<InterruptId> {
    match outcome {
        RunOutcome::Interrupted { interrupts, .. } => interrupts.clone(),
        other => panic!("expected an interrupted run, got {other:?}"),
    }
}

/// Start and result events by tool call, in order.
pub(crate) fn tool_events(events: &[RunEvent]) -> Vec<String> {
    events
        .iter()
        .filter_map(|e| match &e.event {
            AiEvent::ToolCallStart { tool_name, .. } => Some(format!("start {tool_name}")),
            AiEvent::ToolCallResult { is_error, .. } => Some(format!("result error={is_error}")),
            _ => None,
        })
        .collect()
}
