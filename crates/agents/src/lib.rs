//! Agents: prompts and their evaluation, sessions, and prebuilt graphs.
//!
//! A [`Prompt`] is an agent as a typed document, and an [`Evaluator`] evaluates it with a model, a
//! [`Session`], a deadline and a budget; or it is hosted like an agent ([`Prompt::with_model`]). An
//! [`Agent`] is a graph on the public API of `weftwork-graph`, like a user's own graphs: a
//! [`ReactAgent`], or a team of agents ([`Supervisor`], [`Swarm`], [`PlanAndExecute`],
//! [`ParallelMap`]). [`Tools`] is for the nodes of any graph: they call tools themselves. The guide, `docs/guide/agents.md`, shows all of it.

mod agent;
mod bound;
mod calls;
mod conversation;
mod error;
mod evaluate;
mod instance;
mod model;
mod output;
mod prompt;
mod react;
mod session;
mod state_writes;
mod team;

/// Kinds of agents: the parameter of [`Agent`].
pub mod kind {
    pub use crate::evaluate::hosted_kind::Prompt;
    pub use crate::react::React;
    pub use crate::team::kinds::{ParallelMap, PlanAndExecute, Supervisor, Swarm};
}

pub use agent::{Agent, AgentKind, AsksModel, CallsTools, TakesInstructions};
pub use bound::ModelConfig;
pub use calls::{CalledTool, ToolCallError, Tools};
pub use error::AgentError;
pub use evaluate::{
    Allowance, BUS_EVENTS_MAX, ClientConfig, Evaluated, Evaluation, EvaluationError,
    EvaluationErrorKind, EvaluationPhase, EvaluationStream, Evaluator, EvaluatorBuilder,
    EvaluatorError, EventBus, ExecutedOutcome, Interrupted, Params, PromptAgent, PromptContext,
    PromptEvent, PromptEventKind, PromptExecuted, PromptRendered, PromptResponse, PromptRun,
    Subscription, ThrottleKind, ToolInvoked,
};
pub use instance::{
    Activity, ActivityContext, ActivityEnd, ActivityPayload, AgentRuntime, AgentRuntimeBuilder,
    DeadLetter, HostedInstance, Hosting, Instance, InstanceEvent, InstanceEventKind, InstanceInfo,
    InstanceOptions, InstanceStatus, Logic, MAILBOX_CAPACITY, MAILBOX_CAPACITY_MAX, Models,
    OnQuestion, QueuedActivities, Sent, SetAside, Statistics, Terminated, handler_graph,
};
pub use model::{IntoConversation, Model, WithModel};
pub use output::OutputError;
pub use prompt::{
    OPEN_SECTION, Overrides, Prompt, PromptBuilder, PromptError, PromptId, Rendered,
    RenderedSection, Section, Visibility,
};
pub use react::{Chat, ChatUpdate, ChatView, ReactAgent, check_new_media};
pub use session::{Query, Session, SessionError, SessionSnapshot, Slice};
pub use state_writes::StateWrites;
pub use team::{
    Handed, ITEMS_MAX, MapState, Mapped, OutputMode, ParallelMap, PlanAndExecute, PlanState,
    Replan, Report, StepResult, Supervisor, Swarm, SwarmState, TeamState, as_tool,
};
pub use weftwork_types::instance::{
    ACTIVITY_PAYLOAD, AgentRuntimeError, AgentRuntimeErrorKind, PAYLOAD_BYTES_MAX,
};
#[doc(no_inline)]
pub use weftwork_types::run::RunRetry;
