//! The ReAct agent: a model that reasons, calls tools, reads their results, and answers.
//!
//! Source: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2022),
//! implemented as a graph with a model node, a tool node and a human node.

use crate::agent::{
    Agent, AgentKind, AgentOptions, AsksModel, CallsTools, Compile, TakesInstructions,
};
use crate::bound::BoundModel;
use crate::calls::{left_open, outcome_of_call, result_message};
use crate::conversation::{for_model, invalid_rounds, open_calls};
use crate::error::{AgentError, cannot_repair};
use crate::evaluate::{PromptRun, PromptScope};
use crate::session::Session;
use crate::state_writes::{Channels, StateWrites, left_open_with_writes, outcome_with_writes};
use crate::team::HandOffs;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use weftwork_graph::{
    Arg, CompiledGraph, Conversation, Ctx, Deps, END, Graph, List, Next, NodeResult, OUTPUT, Once,
    START, SendTo, State,
};
use weftwork_models::{ChatModel, IntoModel, check_media};
use weftwork_tools::{ASK_HUMAN, ToolRunner};
use weftwork_types::MessageId;
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role, ToolCall};

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

/// A builder of a ReAct agent. Its options are those of [`Agent`].
///
/// In the graph, the node `model` sends the conversation to the model. Each tool call becomes a
/// task of the node `tool`, or of `human` for `ask_human`. When all of them have results, `model`
/// runs again. A call that needs approval and a question of the model end the run with an open
/// question, while the other calls of the same message run to their results.
///
/// ```
/// use serde_json::json;
/// use weftwork_agents::ReactAgent;
/// use weftwork_models::scripted::ScriptedModel;
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
pub type ReactAgent<S = Chat> = Agent<React<S>>;

/// The kind of [`ReactAgent`], with its state.
pub struct React<S: Conversation = Chat> {
    model: Arc<dyn ChatModel>,
    /// Tools after whose success the agent ends: another member of its swarm goes on.
    pub(crate) hand_offs: HandOffs,
    instructions_from: Option<InstructionsFrom<S>>,
}

/// Function that makes the instructions from the state.
type InstructionsFrom<S> = Arc<dyn Fn(&State<S>) -> String + Send + Sync>;

impl<S: Conversation> fmt::Debug for React<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("React").field("model", &self.model).finish_non_exhaustive()
    }
}

impl<S: Conversation> AgentKind for React<S> {}
impl<S: Conversation> AsksModel for React<S> {}
impl<S: Conversation> TakesInstructions for React<S> {}
impl<S: Conversation> CallsTools for React<S> {}

/// The data that the nodes share.
struct ReactParts<S: Conversation> {
    instructions: Instructions<S>,
    bound: BoundModel,
    runner: ToolRunner,
    hand_offs: HandOffs,
    /// Channels that tools may write to.
    channels: Channels,
}

/// The system message of an agent.
enum Instructions<S: Conversation> {
    Fixed(Option<Message>),
    From(InstructionsFrom<S>),
}

impl<S: Conversation> Instructions<S> {
    /// Returns the system message of the next call. Text that is made from the state is recorded, so
    /// that a task that runs again makes the same request.
    async fn message(&self, state: &State<S>, ctx: &Ctx) -> NodeResult<Option<Message>> {
        let make = match self {
            Self::Fixed(message) => return Ok(message.clone()),
            Self::From(make) => make,
        };
        let record = Once::new("instructions").reads();
        Ok(system_message(ctx.once(record, async |_| Ok(make(state))).await?))
    }
}

impl ReactAgent {
    /// Creates an agent without instructions and tools, whose state is a [`Chat`].
    pub fn new(name: impl Into<String>, model: impl IntoModel) -> Self {
        Self::with_state(name, model)
    }

    /// Creates an agent over a state of your own: the conversation and further fields.
    ///
    /// ```
    /// use weftwork_agents::ReactAgent;
    /// use weftwork_graph::{List, State};
    /// use weftwork_models::scripted::{ScriptedModel, Step};
    /// use weftwork_runtime::Runtime;
    /// use weftwork_types::message::Message;
    ///
    /// #[derive(State)]
    /// struct Desk {
    ///     #[channel(messages)]
    ///     messages: List<Message>,
    ///     customer: String,
    /// }
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::from_steps([Step::text("Hello, Anna.")]);
    /// let agent = ReactAgent::with_state::<Desk>("desk", model).instructions_from(|desk| {
    ///     format!("You talk to {}.", desk.customer().map_or("a guest", String::as_str))
    /// });
    /// let runtime = Runtime::in_memory().graph("desk", agent).open().await?;
    /// let said = Message::user("Hello.");
    /// let input = DeskUpdate::new().customer("Anna".to_owned()).messages([said]);
    /// let ended = runtime.thread("desk", "t-1")?.start(input).await?;
    /// assert_eq!(ended.text(), "Hello, Anna.");
    /// assert_eq!(ended.state::<Desk>()?.customer().map(String::as_str), Some("Anna"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_state<S: Conversation>(
        name: impl Into<String>,
        model: impl IntoModel,
    ) -> ReactAgent<S> {
        let kind = React {
            model: model.into_model(),
            hand_offs: HandOffs::default(),
            instructions_from: None,
        };
        Agent::of_kind(name, kind)
    }
}

impl<S: Conversation> ReactAgent<S> {
    /// Makes the system message from the state, before each call of the model, in place of
    /// [`instructions`](Self::instructions). The text is recorded with the answer: a run that is
    /// resumed makes the same request, also if the function returns another text by then.
    pub fn instructions_from(
        mut self,
        make: impl Fn(&State<S>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.kind.instructions_from = Some(Arc::new(make));
        self
    }
}

impl<S: Conversation> Compile for React<S> {
    fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError> {
        Ok(react_graph(agent)?.build()?)
    }
}

impl ReactAgent {
    /// Creates an agent with the options of another one.
    pub(crate) fn from_options(options: AgentOptions, model: Arc<dyn ChatModel>) -> Self {
        let kind = React { model, hand_offs: HandOffs::default(), instructions_from: None };
        Self { options, kind }
    }

    /// Compiles the graph for evaluations of prompts: each run has a prompt and a session.
    pub(crate) fn build_for_prompts(self) -> Result<CompiledGraph, AgentError> {
        let graph = react_graph(self)?.channel(Session::channel()).with_run_scoped::<PromptRun>();
        Ok(graph.build()?)
    }
}

pub(crate) fn react_graph<S: Conversation>(agent: ReactAgent<S>) -> Result<Graph<S>, AgentError> {
    let Agent { options, kind } = agent;
    let graph = options.with_output(options.graph::<S>());
    let bound = options.bind(&kind.model);
    let channels = Channels::of::<S>();
    let tools = match channels.is_empty() {
        true => options.tools,
        false => options.tools.provide_run_scoped::<StateWrites>(),
    };
    let runner = ToolRunner::new(tools, options.policy)
        .map_err(|source| AgentError::Tools { agent: options.name.clone(), source })?;
    let instructions = match kind.instructions_from {
        None => Instructions::Fixed(system_message(options.instructions)),
        Some(_) if !options.instructions.is_empty() => {
            let problem = "`instructions` and `instructions_from` are both set; set one, and let the function return all of the text";
            let problem = problem.to_owned();
            return Err(AgentError::Option { agent: options.name, problem });
        }
        Some(make) => Instructions::From(make),
    };
    let tools = kind.hand_offs.other_tools(runner.summaries());
    let parts = ReactParts { instructions, bound, runner, hand_offs: kind.hand_offs, channels };
    let model = kind.model;
    Ok(graph
        .with(parts)
        .with(tools)
        .check_input(move |input| check_new_media(&*model, input))
        .node("model", ask_model::<S>)
        .node("tool", run_tool::<S>)
        .node("human", run_tool::<S>)
        .on_left_open("tool", close_call::<S>)
        .on_left_open("human", close_call::<S>)
        .edge(START, "model")
        .route_to("model", ["tool", "human", END], calls_of_last::<S>)
        .edge("tool", "model")
        .edge("human", "model"))
}

/// Checks that a model takes the media of the messages of an input.
///
/// # Errors
/// The code W0314, or another one of [`check_media`].
pub fn check_new_media(model: &dyn ChatModel, input: &Value) -> Result<(), Fault> {
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
async fn ask_model<S: Conversation>(
    state: State<S>,
    parts: Deps<ReactParts<S>>,
    prompt: PromptScope,
    ctx: Ctx,
) -> NodeResult<S::Update> {
    let conversation = S::conversation(&state);
    if parts.hand_offs.taken(conversation).is_some() {
        return Ok(S::Update::default());
    }
    let bound = prompt.model().unwrap_or(&parts.bound);
    let rounds = invalid_rounds(conversation.iter());
    if rounds > REPAIRS_MAX {
        return Err(cannot_repair(&bound.model.info().id(), rounds).into());
    }
    let tools = match prompt.runner()? {
        Some(runner) => runner.specs(),
        None => parts.runner.specs(),
    };
    let opening = match prompt.hosted() {
        Some(run) => Some(run.rendered().opening(ctx.message_id(), conversation.iter().next())),
        None => parts.instructions.message(&state, &ctx).await?,
    };
    let mut messages: Vec<Message> = opening.into_iter().collect();
    let said: Vec<&Message> = conversation.iter().collect();
    messages.extend(for_model(said.into_iter(), &ctx.calls().hidden));
    let answer = bound.answer(messages, tools, &ctx).await?;
    // Those of evaluations are read from their answers.
    let is_evaluation = prompt.run().is_some() && prompt.hosted().is_none();
    if !is_evaluation && let Some(value) = bound.final_value(&answer)? {
        ctx.write_also(OUTPUT, value);
    }
    Ok(S::say(answer))
}

/// Starts a task for each tool call of the last answer that has no result; without such calls the
/// answer is final.
fn calls_of_last<S: Conversation>(state: State<S>) -> Vec<Next> {
    let tasks: Vec<_> = open_calls(S::conversation(&state).iter())
        .into_iter()
        .map(|call| {
            let node = if call.name == ASK_HUMAN { "human" } else { "tool" };
            Next::from(SendTo::to(node, call.clone()))
        })
        .collect();
    if tasks.is_empty() { vec![Next::End] } else { tasks }
}

/// Brings a tool call to its result, and asks a person where that takes one.
async fn run_tool<S: Conversation>(
    Arg(call): Arg<ToolCall>,
    parts: Deps<ReactParts<S>>,
    prompt: PromptScope,
    ctx: Ctx,
) -> NodeResult<S::Update> {
    let outcome = match prompt.runner()? {
        Some(own) => outcome_of_call(&ctx, &own, &call, &prompt).await?,
        None if parts.channels.is_empty() => {
            outcome_of_call(&ctx, &parts.runner, &call, &prompt).await?
        }
        None => outcome_with_writes(&ctx, &parts.runner, &call, &parts.channels).await?,
    };
    Ok(S::say(result_message(&ctx, &call, &outcome)))
}

/// Closes a tool call that is left open.
async fn close_call<S: Conversation>(
    Arg(call): Arg<ToolCall>,
    parts: Deps<ReactParts<S>>,
    prompt: PromptScope,
    ctx: Ctx,
) -> NodeResult<S::Update> {
    let outcome = match prompt.runner()? {
        Some(own) => left_open(&ctx, &own, &call, &prompt).await?,
        None if parts.channels.is_empty() => left_open(&ctx, &parts.runner, &call, &prompt).await?,
        None => left_open_with_writes(&ctx, &parts.runner, &call, &parts.channels).await?,
    };
    Ok(S::say(result_message(&ctx, &call, &outcome)))
}
