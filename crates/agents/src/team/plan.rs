//! Plan and execute: a planner, an executor for the steps of its plan, and a replanner.

use super::member::Member;
use crate::agent::{Agent, AgentKind, AsksModel, Compile, TakesInstructions};
use crate::bound::BoundModel;
use crate::conversation::for_model;
use crate::error::{AgentError, too_many_steps};
use crate::output::OutputSpec;
use crate::react::{check_new_media, system_message};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, END, IntoGraph, InvalidGraph, List, Next, NodeResult, START, State,
    SubgraphState,
};
use weftwork_models::{ChatModel, FinishReason, IntoModel};
use weftwork_types::MessageId;
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{CallContext, Emit};
use weftwork_types::secret::HiddenValues;

const PLAN: &str = "plan";
const EXECUTE: &str = "execute";
const REPLAN: &str = "replan";

/// Default limit of the executed steps of a request.
const STEPS_MAX: usize = 10;

/// Instructions of the planner, after those of the program.
const PLANNER: &str = "Make a plan for the last request of the user: short steps, in order, each \
    of which is one thing to do. Another assistant executes them, with the tools that it has.";

/// Instructions of the replanner, after those of the program.
const REPLANNER: &str = "Steps of a plan for the request of the user were executed; each is \
    followed by its result. Answer the request if the results suffice. Otherwise give the steps \
    that are left, short and in order.";

/// The state of a [`PlanAndExecute`].
#[derive(Debug, State)]
pub struct PlanState {
    /// The conversation, oldest first.
    #[channel(messages)]
    pub messages: List<Message>,
    /// The steps that are left, in order.
    #[channel(default)]
    pub plan: List<String>,
    /// The executed steps of the last request, oldest first.
    #[channel(default)]
    pub done: List<StepResult>,
}

/// An executed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    /// The step.
    pub step: String,
    /// The last answer of the executor.
    pub result: String,
}

/// The time at which the plan is made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Replan {
    /// After each step.
    #[default]
    EachStep,
    /// After the last step.
    AtEnd,
}

/// The planner's output.
#[derive(Debug, Deserialize, JsonSchema)]
struct Plan {
    /// The steps, in order.
    steps: Vec<String>,
}

/// The replanner's output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// The request can be answered.
    Answer {
        /// The answer to the user.
        text: String,
    },
    /// Further steps have to be executed.
    Continue {
        /// The steps that are left, in order.
        steps: Vec<String>,
    },
}

/// A builder of an agent that plans, executes its plan step by step, and replans. Its options are
/// those of [`Agent`].
///
/// In the graph, the node `plan` asks the model for a list of steps, as structured output. The node
/// `execute` runs the executor, a graph with a conversation, for the next step: it reads the
/// conversation with the steps so far and their results. The node `replan` asks the model for an
/// answer or for the steps that are left.
///
/// Source: Wang et al., "Plan-and-Solve Prompting" (2023), with replanning as in the examples of
/// LangGraph.
pub type PlanAndExecute = Agent<kind::PlanAndExecute>;

/// Kinds of agents.
pub(crate) mod kind {
    use super::{Arc, ChatModel, CompiledGraph, InvalidGraph, Replan};

    /// The kind of [`PlanAndExecute`](crate::PlanAndExecute).
    #[derive(Debug)]
    pub struct PlanAndExecute {
        pub(super) model: Arc<dyn ChatModel>,
        pub(super) executor: Result<CompiledGraph, InvalidGraph>,
        pub(super) replan: Replan,
        pub(super) steps_max: usize,
    }
}

impl AgentKind for kind::PlanAndExecute {}
impl AsksModel for kind::PlanAndExecute {}
impl TakesInstructions for kind::PlanAndExecute {}

/// The data that the nodes share.
#[derive(Debug)]
struct PlanParts {
    name: String,
    instructions: String,
    planner: BoundModel,
    replanner: BoundModel,
    executor: Member,
    steps_max: usize,
}

impl PlanAndExecute {
    /// Creates an agent whose model plans and whose executor is a graph with a conversation.
    pub fn new(name: impl Into<String>, model: impl IntoModel, executor: impl IntoGraph) -> Self {
        let kind = kind::PlanAndExecute {
            model: model.into_model(),
            executor: executor.into_graph(),
            replan: Replan::EachStep,
            steps_max: STEPS_MAX,
        };
        let mut agent = Self::of_kind(name, kind);
        // The steps of a plan are limited.
        agent.options.step_limit = None;
        agent
    }

    /// Sets the time at which the plan is made anew; by default after each step.
    pub fn replan(mut self, replan: Replan) -> Self {
        self.kind.replan = replan;
        self
    }

    /// Sets the maximum number of executed steps of a request; the default is 10. A request that
    /// needs more fails (W0630).
    pub fn steps_max(mut self, steps: usize) -> Self {
        self.kind.steps_max = steps;
        self
    }
}

impl Compile for kind::PlanAndExecute {
    fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError> {
        let Agent { options, kind } = agent;
        let graph = options.graph::<PlanState>();
        let executor = Member::new(kind.executor?, "an executor")?;
        let inner = executor.graph().clone();
        let bound = |output| BoundModel { output: Some(output), ..options.bind(&kind.model) };
        let parts = PlanParts {
            name: options.name.clone(),
            planner: bound(OutputSpec::of::<Plan>()),
            replanner: bound(OutputSpec::of::<Decision>()),
            instructions: options.instructions.clone(),
            executor,
            steps_max: kind.steps_max,
        };
        let model = kind.model;
        let each_step = kind.replan == Replan::EachStep;
        let graph = graph
            .with(parts)
            .check_input(move |input| check_new_media(&*model, input))
            .node(PLAN, make_plan)
            .node(EXECUTE, execute_step)
            .on_left_open(EXECUTE, close_step)
            .node(REPLAN, revise_plan)
            .calls(EXECUTE, inner, SubgraphState::PerTask)
            .edge(START, PLAN)
            .route_to(PLAN, [EXECUTE, REPLAN], |state: State<PlanState>| {
                Next::node(if state.plan().is_empty() { REPLAN } else { EXECUTE })
            })
            .route_to(EXECUTE, [EXECUTE, REPLAN], move |state: State<PlanState>| {
                Next::node(if each_step || state.plan().is_empty() { REPLAN } else { EXECUTE })
            })
            .route_to(REPLAN, [EXECUTE, END], |state: State<PlanState>| {
                if state.plan().is_empty() { Next::End } else { Next::node(EXECUTE) }
            });
        Ok(graph.build()?)
    }
}

/// Asks the planner for a plan.
async fn make_plan(
    state: State<PlanState>,
    parts: Deps<PlanParts>,
    ctx: Ctx,
) -> NodeResult<PlanStateUpdate> {
    let messages = parts.conversation(&state, PLANNER, Vec::new(), &ctx.calls().hidden);
    let Plan { steps } = ask_model(&parts.planner, messages, &ctx).await?;
    Ok(PlanStateUpdate::new().plan(steps.into()).done(List::new()))
}

/// Executes the next step.
async fn execute_step(
    state: State<PlanState>,
    parts: Deps<PlanParts>,
    ctx: Ctx,
) -> NodeResult<PlanStateUpdate> {
    let mut done = state.done().clone();
    let mut left = state.plan().iter();
    let Some(step) = left.next() else { return Ok(PlanStateUpdate::new()) };
    if done.len() >= parts.steps_max {
        return Err(too_many_steps(&parts.name, done.len()).into());
    }
    let conversation = of_step(&state, step, &ctx);
    let work = parts.executor.work(&ctx, &conversation).await?;
    let result = work.answer(parts.executor.name())?.joined_text();
    done.push(StepResult { step: step.clone(), result });
    Ok(PlanStateUpdate::new().plan(left.cloned().collect()).done(done))
}

/// Closes a step that is left open: calls that the executor has made become part of the conversation.
async fn close_step(
    state: State<PlanState>,
    parts: Deps<PlanParts>,
    ctx: Ctx,
) -> NodeResult<PlanStateUpdate> {
    let Some(step) = state.plan().iter().next() else { return Ok(PlanStateUpdate::new()) };
    let conversation = of_step(&state, step, &ctx);
    let work = parts.executor.work(&ctx, &conversation).await?;
    Ok(PlanStateUpdate::new().messages(work.messages))
}

/// Returns the conversation as the executor of a step reads it.
fn of_step(state: &State<PlanState>, step: &str, ctx: &Ctx) -> Vec<Message> {
    let mut conversation: Vec<Message> = state.messages().iter().cloned().collect();
    conversation.extend(as_messages(state.done(), ctx));
    conversation.push(Message::text(ctx.message_id(), Role::User, step));
    conversation
}

/// Asks the replanner for the answer, or for the steps that are left.
async fn revise_plan(
    state: State<PlanState>,
    parts: Deps<PlanParts>,
    ctx: Ctx,
) -> NodeResult<PlanStateUpdate> {
    let mut steps = as_messages(state.done(), &ctx);
    let left: Vec<&str> = state.plan().iter().map(String::as_str).collect();
    let left = match left.as_slice() {
        [] => "No step of the plan is left.".to_owned(),
        left => format!("These steps of the plan are left: {}", left.join("; ")),
    };
    steps.push(Message::text(ctx.message_id(), Role::User, left));
    let messages = parts.conversation(&state, REPLANNER, steps, &ctx.calls().hidden);
    let text = match ask_model(&parts.replanner, messages, &ctx).await? {
        Decision::Continue { steps } if !steps.is_empty() => {
            return Ok(PlanStateUpdate::new().plan(steps.into()));
        }
        Decision::Answer { text } => text,
        // Nothing is left to do: the last result is the answer.
        Decision::Continue { .. } => {
            state.done().last().map(|last: &StepResult| last.result.clone()).unwrap_or_default()
        }
    };
    let answer = Message::text(ctx.message_id(), Role::Assistant, text);
    Ok(PlanStateUpdate::new().plan(List::new()).messages([answer]))
}

impl PlanParts {
    /// Returns the conversation as planner and replanner read it.
    fn conversation(
        &self,
        state: &State<PlanState>,
        task: &str,
        more: Vec<Message>,
        hidden: &HiddenValues,
    ) -> Vec<Message> {
        let instructions = match self.instructions.as_str() {
            "" => task.to_owned(),
            own => format!("{own}\n\n{task}"),
        };
        let mut messages: Vec<Message> = system_message(instructions).into_iter().collect();
        let said: Vec<&Message> = state.messages().iter().collect();
        messages.extend(for_model(said.into_iter(), hidden));
        messages.extend(more);
        messages
    }
}

/// Executed steps as a conversation.
fn as_messages(done: &List<StepResult>, ctx: &Ctx) -> Vec<Message> {
    let pair = |StepResult { step, result }: &StepResult| {
        [(Role::User, step), (Role::Assistant, result)]
            .map(|(role, text)| Message::text(ctx.message_id(), role, text.as_str()))
    };
    done.iter().flat_map(pair).collect()
}

/// Asks a model for structured output, whose text is not part of the answer to the user.
async fn ask_model<T: DeserializeOwned + JsonSchema>(
    bound: &BoundModel,
    messages: Vec<Message>,
    ctx: &Ctx,
) -> NodeResult<T> {
    let plain = ctx.calls();
    let emit = Arc::new(WithoutText(Arc::clone(&plain.emit)));
    let calls = CallContext { emit, ..plain.clone() };
    let answer = bound.answer_within(messages, Vec::new(), ctx, &calls).await?;
    let value = OutputSpec::of::<T>().read(&answer.joined_text(), FinishReason::Stop);
    Ok(serde_json::from_value(value.map_err(|error| error.fault())?)?)
}

/// A sink without the text of messages.
#[derive(Debug)]
struct WithoutText(Arc<dyn Emit>);

impl Emit for WithoutText {
    fn emit(&self, event: AiEvent) {
        self.0.emit(event);
    }

    fn emit_of(&self, _: &MessageId, _: AiEvent) {}
}
