//! The builder that all agents share.

use crate::bound::{BoundModel, ModelConfig};
use crate::error::AgentError;
use crate::output::TypedOutput;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use weftwork_graph::{CompiledGraph, Graph, IntoGraph, InvalidGraph, OUTPUT, StateSpec};
use weftwork_models::{ChatModel, ModelCaller};
use weftwork_tools::{Policy, ToolBox};
use weftwork_types::run::Stops;

/// Default limit of the supersteps of a run.
const STEP_LIMIT: u32 = 100;

/// A builder of an agent. Its kind `K` is one of [`kind`](crate::kind), and each kind has a name of
/// its own: [`ReactAgent`](crate::ReactAgent), [`Supervisor`](crate::Supervisor),
/// [`Swarm`](crate::Swarm), [`PlanAndExecute`](crate::PlanAndExecute) and
/// [`ParallelMap`](crate::ParallelMap).
///
/// All agents have a version, a step limit and stops. Other options exist only for the kinds that use
/// them: a swarm, for example, has no model, and `Swarm::new("desk").instructions("…")` does not
/// compile.
///
/// ```compile_fail
/// # use weftwork_agents::Swarm;
/// let swarm = Swarm::new("desk").instructions("Be brief.");
/// ```
#[derive(Debug)]
#[must_use]
pub struct Agent<K> {
    pub(crate) options: AgentOptions,
    pub(crate) kind: K,
}

/// The options of an agent. Those that its kind does not use have their first values.
#[derive(Debug)]
pub(crate) struct AgentOptions {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) instructions: String,
    pub(crate) caller: ModelCaller,
    pub(crate) config: ModelConfig,
    pub(crate) tools: ToolBox,
    pub(crate) policy: Policy,
    pub(crate) output: Option<TypedOutput>,
    /// `None` for the default of graphs.
    pub(crate) step_limit: Option<u32>,
    pub(crate) before: Stops,
    pub(crate) after: Stops,
}

impl AgentOptions {
    /// Checks the type of the output.
    fn check_output(&self) -> Result<(), AgentError> {
        let Some(output) = &self.output else { return Ok(()) };
        match output.spec.problem() {
            None => Ok(()),
            Some(problem) => Err(AgentError::Option {
                agent: self.name.clone(),
                problem: format!("`output::<{}>()`: {problem}", output.type_name),
            }),
        }
    }

    /// Adds the channel of the typed output, unless the state has a field of this name.
    pub(crate) fn with_output<S: StateSpec>(&self, graph: Graph<S>) -> Graph<S> {
        let has_field = || S::channels().iter().any(|channel| channel.name == OUTPUT);
        match &self.output {
            Some(output) if !has_field() => graph.channel(output.channel()),
            _ => graph,
        }
    }

    /// Returns a model with the options of its calls.
    pub(crate) fn bind(&self, model: &Arc<dyn ChatModel>) -> BoundModel {
        BoundModel {
            caller: self.caller.clone(),
            config: self.config.clone(),
            output: self.output.as_ref().map(|output| output.spec.clone()),
            ..BoundModel::new(Arc::clone(model))
        }
    }

    /// Begins the graph of the agent, with the options that concern its runs.
    pub(crate) fn graph<S: StateSpec>(&self) -> Graph<S> {
        let graph = Graph::<S>::new(self.name.as_str())
            .version(self.version.as_deref().unwrap_or_default())
            .interrupt_before(self.before.clone())
            .interrupt_after(self.after.clone());
        match self.step_limit {
            Some(steps) => graph.step_limit(steps),
            None => graph,
        }
    }
}

mod sealed {
    use super::{Agent, AgentError, CompiledGraph};

    /// The graph of a kind of agents.
    pub trait Compile: Sized {
        fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError>;
    }
}

pub(crate) use sealed::Compile;

/// A kind of agents.
pub trait AgentKind: sealed::Compile {}

/// A kind of agents that call a model.
#[diagnostic::on_unimplemented(
    message = "agents of kind `{Self}` call no model",
    note = "set the options of models at its members"
)]
pub trait AsksModel: AgentKind {}

/// A kind of agents whose model has instructions.
#[diagnostic::on_unimplemented(
    message = "agents of kind `{Self}` have no instructions",
    note = "set the instructions of its members; those of a prompt are its sections"
)]
pub trait TakesInstructions: AsksModel {}

/// A kind of agents whose model calls tools.
#[diagnostic::on_unimplemented(
    message = "agents of kind `{Self}` have no tools",
    note = "give the tools to its members"
)]
pub trait CallsTools: AsksModel {}

impl<K> Agent<K> {
    pub(crate) fn of_kind(name: impl Into<String>, kind: K) -> Self {
        let options = AgentOptions {
            name: name.into(),
            version: None,
            instructions: String::new(),
            caller: ModelCaller::default(),
            config: ModelConfig::default(),
            tools: ToolBox::new(),
            policy: Policy::new(),
            output: None,
            step_limit: Some(STEP_LIMIT),
            before: Stops::None,
            after: Stops::None,
        };
        Self { options, kind }
    }
}

/// Options of all agents.
impl<K: AgentKind> Agent<K> {
    /// Sets the version that usage facts record; without one it is that of the program.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.options.version = Some(version.into());
        self
    }

    /// Sets the maximum number of supersteps of a run. The default is 100 for agents whose models
    /// decide how far they go: a round of tools of a [`ReactAgent`](crate::ReactAgent) takes two, a
    /// hand-off of a [`Supervisor`](crate::Supervisor) three, and in a [`Swarm`](crate::Swarm) it is
    /// the number of members that work one after the other, so that it ends hand-offs in a circle.
    /// Others have the default of graphs.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.options.step_limit = Some(steps);
        self
    }

    /// Stops runs before these nodes of the agent's graph. A name that is none of its nodes is
    /// refused by [`build`](Self::build).
    pub fn interrupt_before(mut self, stops: Stops) -> Self {
        self.options.before = stops;
        self
    }

    /// Stops runs after these nodes.
    pub fn interrupt_after(mut self, stops: Stops) -> Self {
        self.options.after = stops;
        self
    }

    /// Validates the agent and compiles its graph.
    ///
    /// # Errors
    /// [`AgentError`] with all problems of its tools or its graph; of a team also if a member has no
    /// conversation or an unusable name, or a name is that of no member.
    pub fn build(self) -> Result<CompiledGraph, AgentError> {
        self.options.check_output()?;
        K::compile(self)
    }
}

/// Options of agents that call a model.
impl<K: AsksModel> Agent<K> {
    /// Sets the caller, which defines the retries of the agent's model calls.
    pub fn model_caller(mut self, caller: ModelCaller) -> Self {
        self.options.caller = caller;
        self
    }

    /// Sets the options of the agent's model calls, such as the temperature. With parallel tool calls
    /// forbidden, one member of a [`Supervisor`](crate::Supervisor) works at a time.
    pub fn model_config(mut self, config: ModelConfig) -> Self {
        self.options.config = config;
        self
    }
}

/// Options of agents with instructions.
impl<K: TakesInstructions> Agent<K> {
    /// Sets the system message of the agent's model, which describes its purpose and behaviour. Those
    /// of a [`PlanAndExecute`](crate::PlanAndExecute) are for planner and replanner, before the
    /// description of their tasks.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.options.instructions = text.into();
        self
    }
}

/// Options of agents with tools.
impl<K: CallsTools> Agent<K> {
    /// Sets the tools of the agent's model. A [`Supervisor`](crate::Supervisor) has them beside its
    /// hand-offs.
    pub fn tools(mut self, tools: ToolBox) -> Self {
        self.options.tools = tools;
        self
    }
}

/// Options of agents whose model answers, with tools.
impl<K: TakesInstructions + CallsTools> Agent<K> {
    /// Sets the policy that allows calls, denies them or requires approval. Without a policy only
    /// read-only tools may run. Hand-offs of a [`Supervisor`](crate::Supervisor) are read-only tools.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// Declares that the final answer is a `T`: an object, a list (`Vec`), or an enum with data. The
    /// model gets its schema, and an answer that does not fit goes back to it at most twice; then the
    /// run fails (W0615 to W0618). The value is in the channel `output`, from which
    /// [`Ended::value`](weftwork_graph::Ended::value) reads it.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use weftwork_agents::ReactAgent;
    /// use weftwork_models::scripted::{ScriptedModel, Step};
    /// use weftwork_runtime::Runtime;
    ///
    /// #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    /// struct Verdict {
    ///     refund: bool,
    /// }
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::from_steps([Step::text(r#"{"refund": true}"#)]);
    /// let agent = ReactAgent::new("desk", model).output::<Verdict>();
    /// let runtime = Runtime::in_memory().graph("desk", agent).open().await?;
    /// let ended = runtime.thread("desk", "order-7")?.say("It is broken.").await?;
    /// assert_eq!(ended.value::<Verdict>()?, Verdict { refund: true });
    /// # Ok(())
    /// # }
    /// ```
    pub fn output<T: DeserializeOwned + JsonSchema>(mut self) -> Self {
        self.options.output = Some(TypedOutput::of::<T>());
        self
    }
}

impl<K: AgentKind> IntoGraph for Agent<K> {
    fn into_graph(self) -> Result<CompiledGraph, InvalidGraph> {
        Ok(self.build()?)
    }
}
