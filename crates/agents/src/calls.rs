//! Calls of tools by nodes: the questions that a call takes, the call, and its outcome.

mod outside;

pub(crate) use outside::call_outside;

use crate::evaluate::PromptScope;
use crate::model::no_source;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::{
    BuildInfo, Ctx, Deps, FromTask, NodeError, NodeResult, Question, Reads, TaskInput,
};
use weftwork_tools::{
    AskingCall, Executed, LeftOpen, Prepared, ReadyCall, Reply, ToolRunner, UnknownAnswer,
    UnknownCall, code, not_decided, tool_result,
};
use weftwork_types::ToolCallId;
use weftwork_types::approval::ApprovalDecision;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::message::{Message, ToolCall, ToolResult};
use weftwork_types::port::CallContext;
use weftwork_types::secret::SECRET;
use weftwork_types::tool::{ToolFailure, ToolOutcome, ToolSpec, wire_name};

/// The tools of a graph, as an argument of its nodes: a node calls them itself, without a model.
///
/// In the run of an evaluation they are the tools that its prompt offers now: which ones depends on
/// the enabled and opened sections. Otherwise the graph has the [`ToolRunner`] as a dependency
/// ([`Graph::with`](weftwork_graph::Graph::with)); a graph without one does not build. A call takes the
/// same steps as that of a model: schema, policy, journal, budget, redaction, one start event and one
/// result event.
///
/// ```
/// use serde_json::{Value, json};
/// use weftwork_agents::Tools;
/// use weftwork_graph::run_loop::{Host, Start};
/// use weftwork_graph::{Graph, NodeResult, RunOutcome, START, State};
/// use weftwork_tools::{Policy, ToolBox, ToolRunner, tool};
///
/// /// Returns the price of an article in cents.
/// #[tool]
/// fn price(article: String) -> u64 {
///     article.len() as u64 * 100
/// }
///
/// #[derive(Debug, State)]
/// struct Sale {
///     article: String,
///     price: u64,
/// }
///
/// async fn look_up(sale: State<Sale>, tools: Tools) -> NodeResult<SaleUpdate> {
///     let article = sale.article().cloned().unwrap_or_default();
///     let found = tools.call("price", json!({"article": article})).await?;
///     Ok(SaleUpdate::new().price(found.value.as_u64().unwrap_or_default()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runner = ToolRunner::new(ToolBox::new().with(price), Policy::new())?;
/// let graph =
///     Graph::<Sale>::new("sale").with(runner).node("look_up", look_up).edge(START, "look_up").build()?;
/// let run = graph.run(&Host::new(), Start::from(json!({"article": "lamp"}))).finish().await?;
/// let RunOutcome::Completed { output } = run.outcome() else { panic!("the run did not complete") };
/// assert_eq!(output["price"], Value::from(400));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Tools {
    source: ToolSource,
    ctx: Ctx,
}

/// Where the tools are from.
#[derive(Debug, Clone)]
enum ToolSource {
    Prompt(PromptScope),
    Graph(Arc<ToolRunner>),
}

impl ToolSource {
    fn runner(&self) -> NodeResult<Arc<ToolRunner>> {
        match self {
            Self::Graph(runner) => Ok(Arc::clone(runner)),
            Self::Prompt(prompt) => prompt.runner()?.ok_or_else(no_prompt),
        }
    }

    fn prompt(&self) -> PromptScope {
        match self {
            Self::Graph(_) => PromptScope::none(),
            Self::Prompt(prompt) => prompt.clone(),
        }
    }
}

fn no_prompt() -> NodeError {
    NodeError::message("the run evaluates no prompt; begin it with `Evaluator::evaluate`")
}

impl Tools {
    /// Calls a tool by its canonical name, such as `price` or `files/read`.
    ///
    /// The id of the call is [`Ctx::tool_call_id`]: taken when this function is called, not when the
    /// future is polled. It is the same when the task is executed again, so that a recorded call is
    /// not made twice. A call that needs approval, `ask_human`, and a tool that asks interrupt the
    /// node like [`Ctx::ask`], and are repeated from its first line.
    ///
    /// The value of the result is the whole one, as a model reads it: over the size limit of the
    /// runner it is cut. A node that puts it into the state shows it. To show the declared members
    /// alone, put the result as a part of a message.
    ///
    /// # Errors
    /// [`ToolCallError::Failed`] if the call failed or was refused, [`ToolCallError::Stopped`] if the node
    /// has to stop: return it with `?`.
    ///
    /// # Cancel safety
    /// See [`ToolRunner::execute`].
    pub fn call(
        &self,
        name: &str,
        args: serde_json::Value,
    ) -> impl Future<Output = Result<ToolResult, ToolCallError>> + Send + use<'_> {
        let ready = self.source.runner().map(|runner| {
            let call = own_call(&self.ctx, &runner, name, args);
            (runner, call)
        });
        async move {
            let (runner, call) = ready.map_err(ToolCallError::Stopped)?;
            result_of_call(&self.ctx, &runner, &call, &self.source.prompt()).await
        }
    }

    /// Calls a tool as [`call`](Self::call) does, and returns also the arguments with which it was
    /// called: a tool completes them, and a person who approves a call may edit them.
    ///
    /// # Errors
    /// [`NodeError`] if the node has to stop: return it with `?`.
    ///
    /// # Cancel safety
    /// See [`ToolRunner::execute`].
    pub fn call_with_args(
        &self,
        name: &str,
        args: serde_json::Value,
    ) -> impl Future<Output = NodeResult<CalledTool>> + Send + use<'_> {
        let ready = self.source.runner().map(|runner| {
            let call = own_call(&self.ctx, &runner, name, args);
            (runner, call)
        });
        async move {
            let (runner, call) = ready?;
            let prompt = self.source.prompt();
            let made = Box::pin(made_call(&self.ctx, &runner, &call, &prompt)).await?;
            let result = match made.outcome {
                ToolOutcome::Failed(failure) => Err(failure),
                outcome => Ok(tool_result(&call, &outcome)),
            };
            let args = made.changed_args.or(call.shown).unwrap_or(call.args);
            Ok(CalledTool { args, result })
        }
    }

    /// Returns the arguments of a call as they are shown to people: without the secret ones.
    ///
    /// # Errors
    /// [`NodeError`] if the tools of the prompt cannot be put together.
    pub fn shown_args(
        &self,
        name: &str,
        args: &serde_json::Value,
    ) -> NodeResult<serde_json::Value> {
        let runner = self.source.runner()?;
        let id = ToolCallId::new("shown")?;
        let call = ToolCall { id, name: wire_name(name), args: args.clone(), shown: None };
        if !runner.has(&call.name) {
            return Ok(SECRET.into());
        }
        Ok(runner.shown_args(&call).unwrap_or(call.args))
    }

    /// Executes a tool call of a model, and returns its result. A failure is a result for the model.
    /// Events that the tool dispatches to the session of a prompt are written with the node's own
    /// update.
    ///
    /// # Errors
    /// [`NodeError`] if the node has to stop, because a question is open or the budget is used up.
    ///
    /// # Cancel safety
    /// See [`ToolRunner::execute`].
    pub async fn execute(&self, call: &ToolCall) -> NodeResult<ToolResult> {
        let runner = self.source.runner()?;
        let outcome = outcome_of_call(&self.ctx, &runner, call, &self.source.prompt()).await?;
        Ok(tool_result(call, &outcome))
    }

    /// Specifications of the tools, for a model.
    ///
    /// # Errors
    /// [`NodeError`] if the tools of the prompt cannot be put together.
    pub fn specs(&self) -> NodeResult<Vec<ToolSpec>> {
        Ok(self.source.runner()?.specs())
    }
}

/// A call of a tool that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CalledTool {
    /// The arguments with which the tool was called, as they are shown: without secret ones.
    pub args: serde_json::Value,
    /// Its result, or its failure.
    pub result: Result<ToolResult, ToolFailure>,
}

impl FromTask for Tools {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let prompt = PromptScope::from_task(input)?;
        let source = match prompt.run() {
            Some(_) => ToolSource::Prompt(prompt),
            None => ToolSource::Graph(Deps::from_task(input)?.0),
        };
        Ok(Self { source, ctx: Ctx::from_task(input)? })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        no_source::<ToolRunner>(info).then(|| {
            let fix = "give it one by `Graph::with`, or declare by `Graph::with_run_scoped::<PromptRun>` that its runs evaluate prompts";
            ("`Tools`, and the graph has no `ToolRunner`".to_owned(), fix.to_owned())
        })
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

/// A call of a node without a result.
///
/// It is no [`Error`](std::error::Error), so that `?` in a node passes an open question on: a function
/// that calls tools returns a [`NodeResult`].
///
/// ```
/// use serde_json::json;
/// use weftwork_agents::{ToolCallError, Tools};
/// use weftwork_graph::NodeResult;
///
/// /// The price of an article, or the usual one if it is not known.
/// async fn price_of(article: &str, tools: &Tools) -> NodeResult<u64> {
///     match tools.call("price", json!({"article": article})).await {
///         Ok(price) => Ok(price.value.as_u64().unwrap_or_default()),
///         Err(ToolCallError::Failed(_)) => Ok(20),
///         // An open question of the tool ends the node.
///         Err(stopped) => Err(stopped.into()),
///     }
/// }
/// ```
#[derive(Debug)]
pub enum ToolCallError {
    /// The tool failed, or the call was refused by schema, policy or person.
    Failed(ToolFailure),
    /// The node has to stop: a question is open, a record was refused, or the budget is used up.
    Stopped(NodeError),
}

impl From<ToolCallError> for NodeError {
    fn from(error: ToolCallError) -> Self {
        let failure = match error {
            ToolCallError::Failed(failure) => failure,
            ToolCallError::Stopped(stopped) => return stopped,
        };
        let mut fault = Fault::new(code::TOOL_FAILED, failure.safe_message);
        if let Some(code) = failure.code {
            fault.code = code;
        }
        fault.in_phase(Phase::Tool).into()
    }
}

/// Returns the call that a node itself makes of a tool, with its shown arguments.
pub(crate) fn own_call(
    ctx: &Ctx,
    runner: &ToolRunner,
    name: &str,
    args: serde_json::Value,
) -> ToolCall {
    let name = wire_name(name);
    let call = ToolCall { id: ctx.tool_call_id(&name), name, args, shown: None };
    let shown = match runner.has(&call.name) {
        true => runner.shown_args(&call),
        // Its secret arguments are not known.
        false => Some(SECRET.into()),
    };
    ToolCall { shown, ..call }
}

/// Brings a call that the node itself makes to its result.
pub(crate) async fn result_of_call(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    prompt: &PromptScope,
) -> Result<ToolResult, ToolCallError> {
    match outcome_of_call(ctx, runner, call, prompt).await {
        Ok(outcome) => result_of_outcome(call, outcome),
        Err(stopped) => Err(ToolCallError::Stopped(stopped)),
    }
}

/// Converts the outcome of a call to its result.
pub(crate) fn result_of_outcome(
    call: &ToolCall,
    outcome: ToolOutcome,
) -> Result<ToolResult, ToolCallError> {
    match outcome {
        ToolOutcome::Failed(failure) => Err(ToolCallError::Failed(failure)),
        outcome => Ok(tool_result(call, &outcome)),
    }
}

/// Brings a call to its outcome, and asks a person where that takes one. A call for a prompt also
/// records what its tool dispatched to the session.
pub(crate) async fn outcome_of_call(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    prompt: &PromptScope,
) -> NodeResult<ToolOutcome> {
    Ok(made_call(ctx, runner, call, prompt).await?.outcome)
}

/// Brings a call to its outcome as [`outcome_of_call`] does.
async fn made_call(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    prompt: &PromptScope,
) -> NodeResult<MadeCall> {
    let Some(of_prompt) = prompt.call(ctx, call) else {
        return make_call(ctx, runner, call, ctx.calls()).await;
    };
    let made = make_call(ctx, runner, call, of_prompt.calls()).await?;
    of_prompt.ended(ctx, call, &made.outcome);
    Ok(made)
}

/// A call with its outcome.
#[derive(Debug)]
pub(crate) struct MadeCall {
    pub(crate) outcome: ToolOutcome,
    /// The arguments with which it was made, as they are shown, if they are others than those of the
    /// call.
    changed_args: Option<serde_json::Value>,
}

/// The node that makes a call, for a tool that runs a graph: a question within stops the node.
#[derive(Debug)]
pub(crate) struct CallingNode {
    ctx: Ctx,
    stopped: Mutex<Option<NodeError>>,
}

impl CallingNode {
    fn new(ctx: &Ctx) -> Arc<Self> {
        Arc::new(Self { ctx: ctx.clone(), stopped: Mutex::default() })
    }

    /// The context of a call with the node that makes it.
    fn calls(self: &Arc<Self>, calls: &CallContext) -> CallContext {
        let dependencies = calls.dependencies.clone().with_shared(Arc::clone(self));
        CallContext { dependencies, ..calls.clone() }
    }

    pub(crate) fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Stops the node after the tool has returned that it waits.
    pub(crate) fn stop(&self, error: NodeError) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    fn take_stop(&self) -> Option<NodeError> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the outcome of a call that is left open, from the record. Nothing is made.
pub(crate) async fn left_open(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    prompt: &PromptScope,
) -> NodeResult<ToolOutcome> {
    let Some(of_prompt) = prompt.call(ctx, call) else {
        return recorded_outcome(ctx, runner, call, ctx.calls()).await;
    };
    let outcome = recorded_outcome(ctx, runner, call, of_prompt.calls()).await?;
    of_prompt.write_events(ctx, &outcome);
    Ok(outcome)
}

/// A result that tells a model how a call ended.
pub(crate) fn result_message(ctx: &Ctx, call: &ToolCall, outcome: &ToolOutcome) -> Message {
    Message::tool_result(ctx.message_id(), tool_result(call, outcome))
}

/// Returns the outcome of a call from the record, in this context of the call.
pub(crate) async fn recorded_outcome(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    calls: &CallContext,
) -> NodeResult<ToolOutcome> {
    let calls = CallingNode::new(ctx).calls(calls);
    let mut left = match runner.recorded(call, &calls).await.map_err(|error| error.fault())? {
        Some(left) => left,
        None => match unless_open(ready_call(ctx, runner, call, &calls))? {
            Some(ready) => runner.left_open(ready).await.map_err(|error| error.fault())?,
            None => return Ok(not_decided(call)),
        },
    };
    loop {
        let asking = match left {
            LeftOpen::Closed(outcome) => return Ok(outcome),
            LeftOpen::Asked(asking) => asking,
        };
        let Some(replies) = unless_open(read_replies(ctx, &asking))? else {
            return Ok(asking.left_open());
        };
        let next = runner.left_open_after(asking, replies).await;
        left = next.map_err(|error| error.fault())?;
    }
}

/// Returns `None` instead of the stop at an open question.
fn unless_open<T>(answered: NodeResult<T>) -> NodeResult<Option<T>> {
    match answered {
        Ok(answered) => Ok(Some(answered)),
        Err(error) if error.is_interrupt() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the call as it can be executed, with the decision or the answer of a person.
fn ready_call(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    calls: &CallContext,
) -> NodeResult<ReadyCall> {
    Ok(match runner.prepare(call, calls) {
        Prepared::Ready(ready) => ready,
        Prepared::NeedsApproval(pending) => {
            let question = Question::new(pending.ask()).answer_schema(pending.answer_schema());
            let question = match pending.expiry() {
                Some((at, lapse)) => question.expires_at(at, lapse),
                None => question,
            };
            let binding = pending.request().binding;
            // A decision about a different call is not an answer, so the question is asked again.
            let fits = |decision: &ApprovalDecision| decision.binding == binding;
            pending.decide(&ask_until_fits(ctx, &question, fits)?)
        }
        Prepared::AskHuman(question) => {
            let answer = ctx.ask(question.ask(), Some(question.answer_schema()))?;
            question.answer(answer.value)
        }
    })
}

/// Brings a call to its outcome, in this context of the call.
pub(crate) async fn make_call(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    calls: &CallContext,
) -> NodeResult<MadeCall> {
    let node = CallingNode::new(ctx);
    let calls = node.calls(calls);
    let ready = ready_call(ctx, runner, call, &calls)?;
    let changed_args = ready.changed_args(call).cloned();
    let mut executed = runner.execute(ready).await;
    let mut asked = 0;
    loop {
        match executed.map_err(|error| error.fault())? {
            Executed::Done(outcome) => return Ok(MadeCall { outcome, changed_args }),
            Executed::OutcomeUnknown(unknown) => {
                let answer = unknown_answer(ctx, &unknown, &mut asked)?;
                executed = runner.resolve(unknown, answer).await;
            }
            Executed::Asks(asking) => {
                if let Some(stopped) = node.take_stop() {
                    return Err(stopped);
                }
                // Otherwise the tool would be called again at once, without end.
                if asking.questions().is_empty() && !asking.is_recorded() {
                    let name = &call.name;
                    return Err(NodeError::message(format!(
                        "tool `{name}` returned `Waits`, and no graph that it runs asks a question; return `Questions`"
                    )));
                }
                // Each round has attempts of its own.
                asked = 0;
                let replies = read_replies(ctx, &asking)?;
                executed = runner.reply(asking, replies).await;
            }
        }
    }
}

/// Asks the questions of a tool, one after the other.
fn read_replies(ctx: &Ctx, asking: &AskingCall) -> NodeResult<Vec<Reply>> {
    let reply = |one| {
        let question = Question::new(asking.ask(one)).answer_schema(asking.answer_schema(one));
        let question = match asking.expiry(one) {
            Some((at, reply)) => question.expires_at(at, reply),
            None => question,
        };
        // A round whose outcome was unknown had an answer of another kind, which is passed over.
        ask_until_fits(ctx, &question, |_: &Reply| true)
    };
    asking.questions().iter().map(reply).collect()
}

/// Asks about a call of unknown outcome once for each time that it was begun: earlier answers led to
/// attempts whose outcome is unknown too.
fn unknown_answer(ctx: &Ctx, unknown: &UnknownCall, asked: &mut u32) -> NodeResult<UnknownAnswer> {
    let question = Question::new(unknown.ask()).answer_schema(unknown.answer_schema());
    loop {
        *asked += 1;
        let answer = ask_until_fits(ctx, &question, |_: &UnknownAnswer| true)?;
        if *asked >= unknown.made() {
            return Ok(answer);
        }
    }
}

/// Repeats the question until the answer is a `T` that satisfies `fits`.
fn ask_until_fits<T: serde::de::DeserializeOwned>(
    ctx: &Ctx,
    question: &Question,
    fits: impl Fn(&T) -> bool,
) -> NodeResult<T> {
    loop {
        let answer = ctx.ask_question(question.clone())?;
        if let Some(value) = serde_json::from_value(answer.value).ok().filter(&fits) {
            return Ok(value);
        }
    }
}
