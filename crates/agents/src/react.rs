//! The ReAct agent: a model that reasons, calls tools, reads their results, and answers.
//!
//! Source: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2022),
//! implemented as a graph with a model node, a tool node and a human node.

use crate::bound::{BoundModel, ModelConfig};
use crate::calls::{left_open, outcome_of_call, result_message};
use crate::conversation::{for_model, invalid_rounds, open_calls};
use crate::error::{AgentError, cannot_repair};
use crate::evaluate::{PromptRun, PromptScope};
use crate::session::Session;
use crate::team::{HandOffs, as_tool};
use serde_json::Value;
use std::sync::Arc;
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Deps, END, Graph, List, Next, NodeResult, START, SendTo, State,
};
use weftwork_models::{ChatModel, IntoModel, ModelCaller, check_media};
use weftwork_tools::{ASK_HUMAN, FnTool, Policy, ToolBox, ToolRunner};
use weftwork_types::MessageId;
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role, ToolCall};
use weftwork_types::run::Stops;

/// Number of times in a row that a model may send arguments that violate a tool's schema.
pub(crate) const REPAIRS_MAX: usize = 3;

/// The state of a chat agent: its conversation.
///
/// ```
/// use weftwork_agents::{Chat, ChatUpdate};
/// use weftwork_graph::{Graph, START, State};
/// use weftwork_types::message::Message;
///
/// async fn greet(chat: State<Chat>) -> ChatUpdate {
///     let text = format!("{} messages before", chat.messages().len());
///     ChatUpdate::new().messages([Message::system(text)])
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<Chat>::new("greeter").node("greet", greet).edge(START, "greet").build()?;
/// let ended = graph.invoke(serde_json::json!({})).await?;
/// assert_eq!(ended.messages()?.iter().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, State)]
pub struct Chat {
    /// The conversation, oldest first.
    #[channel(messages)]
    pub messages: List<Message>,
}

/// A builder of a ReAct agent.
///
/// In the graph, the node `model` sends the conversation to the model. Each tool call becomes a
/// task of the node `tool`, or of `human` for `ask_human`. When all of them have results, `model`
/// runs again. A call that needs approval and a question of the model end the run with an open
/// question, while the other calls of the same message run to their results.
///
/// ```
/// use serde_json::json;
/// use weftwork_agents::ReactAgent;
/// use weftwork_models::ScriptedModel;
/// use weftwork_models::scripted::Step;
/// use weftwork_runtime::Runtime;
/// use weftwork_tools::{ToolBox, tool};
///
/// /// Tells the price of an article in euros.
/// #[tool]
/// fn price(article: String) -> u32 {
///     u32::try_from(article.len()).unwrap_or_default()
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = Step::call("price", json!({"article": "lamp"}));
/// let model = ScriptedModel::from_steps([call, Step::text("A lamp costs 4 euros.")]);
/// let agent = ReactAgent::new("shop", model)
///     .instructions("You sell lamps.")
///     .tools(ToolBox::new().with(price))
///     .build()?;
/// let runtime = Runtime::in_memory().graph("shop", agent).open().await?;
/// let ended = runtime.thread("shop", "t")?.say("What is a lamp?").await?;
/// assert_eq!(ended.text(), "A lamp costs 4 euros.");
/// assert_eq!(ended.messages()?.tool_result("price").map(|result| result.text()), Some("4".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct ReactAgent {
    pub(crate) name: String,
    version: String,
    instructions: String,
    bound: BoundModel,
    pub(crate) tools: ToolBox,
    policy: Policy,
    step_limit: u32,
    before: Stops,
    after: Stops,
    /// Tools after whose success the agent ends: another member of its swarm goes on.
    pub(crate) hand_offs: HandOffs,
}

/// The data that the nodes share.
#[derive(Debug)]
struct ReactParts {
    instructions: Option<Message>,
    bound: BoundModel,
    runner: ToolRunner,
    hand_offs: HandOffs,
}

impl ReactAgent {
    /// Creates an agent without instructions and tools.
    pub fn new(name: impl Into<String>, model: impl IntoModel) -> Self {
        Self {
            name: name.into(),
            version: "0".to_owned(),
            instructions: String::new(),
            bound: BoundModel::new(model.into_model()),
            tools: ToolBox::new(),
            policy: Policy::new(),
            step_limit: 100,
            before: Stops::None,
            after: Stops::None,
            hand_offs: HandOffs::default(),
        }
    }

    /// Sets the version that usage facts record.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the system message, which describes the agent's purpose and behaviour.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = text.into();
        self
    }

    /// Sets the tools.
    pub fn tools(mut self, tools: ToolBox) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the policy that allows calls, denies them or requires approval. Without a policy only
    /// read-only tools may run.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the caller, which defines the retries of model calls.
    pub fn model_caller(mut self, caller: ModelCaller) -> Self {
        self.bound.caller = caller;
        self
    }

    /// Sets the options of the model's calls, such as the temperature.
    pub fn model_config(mut self, config: ModelConfig) -> Self {
        self.bound.config = config;
        self
    }

    /// Stops runs before these of the nodes `model`, `tool` and `human`.
    pub fn interrupt_before(mut self, stops: Stops) -> Self {
        self.before = stops;
        self
    }

    /// Stops runs after these nodes.
    pub fn interrupt_after(mut self, stops: Stops) -> Self {
        self.after = stops;
        self
    }

    /// Sets the maximum number of supersteps of a run; the default is 100. The model and the tools
    /// alternate, so a round of tools takes two supersteps.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.step_limit = steps;
        self
    }

    /// Validates the agent and compiles its graph.
    ///
    /// # Errors
    /// [`AgentError`] with all problems of its tools or its graph.
    pub fn build(self) -> Result<CompiledGraph, AgentError> {
        Ok(self.build_graph()?.build()?)
    }

    /// Returns the agent as a tool of other agents: each call gives it a request, and its last answer
    /// is the result. See [`as_tool`](crate::as_tool()).
    ///
    /// # Errors
    /// [`AgentError`] as for [`build`](Self::build).
    pub fn as_tool(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<FnTool, AgentError> {
        as_tool(self.build()?, name, description)
    }

    /// Compiles the graph for evaluations of prompts: each run has a prompt and a session.
    pub(crate) fn build_for_prompts(self) -> Result<CompiledGraph, AgentError> {
        let graph = self.build_graph()?.channel(Session::channel()).with_run_scoped::<PromptRun>();
        Ok(graph.build()?)
    }

    fn build_graph(self) -> Result<Graph<Chat>, AgentError> {
        let runner = ToolRunner::new(self.tools, self.policy)
            .map_err(|source| AgentError::Tools { agent: self.name.clone(), source })?;
        let instructions = system_message(self.instructions);
        let model = Arc::clone(&self.bound.model);
        let parts =
            ReactParts { instructions, bound: self.bound, runner, hand_offs: self.hand_offs };
        Ok(Graph::<Chat>::new(self.name)
            .version(self.version)
            .with(parts)
            .check_input(move |input| check_new_media(&*model, input))
            .node("model", ask_model)
            .node("tool", run_tool)
            .node("human", run_tool)
            .on_left_open("tool", close_call)
            .on_left_open("human", close_call)
            .edge(START, "model")
            .route_to("model", ["tool", "human", END], calls_of_last)
            .edge("tool", "model")
            .edge("human", "model")
            .step_limit(self.step_limit)
            .interrupt_before(self.before)
            .interrupt_after(self.after))
    }
}

/// Checks that a model takes the media of the messages of an input.
pub(crate) fn check_new_media(model: &dyn ChatModel, input: &Value) -> Result<(), Fault> {
    check_media(model, messages_in(input)).map_err(|error| error.fault())
}

/// Returns the messages of an input. Others are refused when the input is read.
fn messages_in(input: &Value) -> Vec<Message> {
    let messages = input.get("messages").and_then(Value::as_array);
    let read = |message: &Value| serde_json::from_value(message.clone()).ok();
    messages.into_iter().flatten().filter_map(read).collect()
}

/// Returns the system message with these instructions, if there are any.
pub(crate) fn system_message(instructions: String) -> Option<Message> {
    #[expect(clippy::expect_used, reason = "the literal is a valid id")]
    let id = MessageId::new("instructions").expect("`instructions` is a valid message id");
    (!instructions.is_empty()).then(|| Message::text(id, Role::System, instructions))
}

/// Calls the model with the conversation.
async fn ask_model(
    state: State<Chat>,
    parts: Deps<ReactParts>,
    prompt: PromptScope,
    ctx: Ctx,
) -> NodeResult<ChatUpdate> {
    if parts.hand_offs.taken(state.messages()).is_some() {
        return Ok(ChatUpdate::new());
    }
    let bound = prompt.model().unwrap_or(&parts.bound);
    let rounds = invalid_rounds(state.messages().iter());
    if rounds > REPAIRS_MAX {
        return Err(cannot_repair(&bound.model.info().id(), rounds).into());
    }
    let tools = match prompt.runner()? {
        Some(runner) => runner.specs(),
        None => parts.runner.specs(),
    };
    let mut messages: Vec<Message> = parts.instructions.iter().cloned().collect();
    let said: Vec<&Message> = state.messages().iter().collect();
    messages.extend(for_model(said.into_iter(), &ctx.calls().hidden));
    let answer = bound.answer(messages, tools, &ctx).await?;
    Ok(ChatUpdate::new().messages([answer]))
}

/// Starts a task for each tool call of the last answer that has no result; without such calls the
/// answer is final.
fn calls_of_last(state: State<Chat>) -> Vec<Next> {
    let tasks: Vec<_> = open_calls(state.messages().iter())
        .into_iter()
        .map(|call| {
            let node = if call.name == ASK_HUMAN { "human" } else { "tool" };
            Next::from(SendTo::to(node, call.clone()))
        })
        .collect();
    if tasks.is_empty() { vec![Next::End] } else { tasks }
}

/// Brings a tool call to its result, and asks a person where that takes one.
async fn run_tool(
    Arg(call): Arg<ToolCall>,
    parts: Deps<ReactParts>,
    prompt: PromptScope,
    ctx: Ctx,
) -> NodeResult<ChatUpdate> {
    let own = prompt.runner()?;
    let outcome =
        outcome_of_call(&ctx, own.as_deref().unwrap_or(&parts.runner), &call, &prompt).await?;
    Ok(ChatUpdate::new().messages([result_message(&ctx, &call, &outcome)]))
}

/// Closes a tool call that is left open.
async fn close_call(
    Arg(call): Arg<ToolCall>,
    parts: Deps<ReactParts>,
    prompt: PromptScope,
    ctx: Ctx,
) -> NodeResult<ChatUpdate> {
    let own = prompt.runner()?;
    let outcome = left_open(&ctx, own.as_deref().unwrap_or(&parts.runner), &call, &prompt).await?;
    Ok(ChatUpdate::new().messages([result_message(&ctx, &call, &outcome)]))
}
