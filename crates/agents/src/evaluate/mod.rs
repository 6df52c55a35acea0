//! Evaluation of prompts: in a program, or as durable threads.

mod bus;
mod context;
mod error;
mod evaluation;
mod hosted;
mod outcome;
mod record;
mod request;
mod resources;
mod running;
mod scope;
mod sessions;

pub use bus::{
    BUS_EVENTS_MAX, EventBus, ExecutedOutcome, PromptEvent, PromptEventKind, PromptExecuted,
    PromptRendered, Subscription, ToolInvoked,
};
pub use context::PromptContext;
pub use error::{EvaluationError, EvaluationErrorKind, EvaluationPhase, ThrottleKind};
pub use evaluation::{Allowance, Evaluation, EvaluationStream};
pub(crate) use hosted::HostedPrompt;
pub(crate) use hosted::kind as hosted_kind;
pub use hosted::{Params, PromptAgent};
pub use outcome::{Evaluated, Interrupted, PromptResponse};
pub use scope::PromptRun;
pub(crate) use scope::PromptScope;

use crate::ReactAgent;
use crate::bound::ModelConfig;
use crate::error::AgentError;
use crate::prompt::Prompt;
use resources::{EvaluatorResources, SharedBudgets};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use weftwork_graph::{CompiledGraph, IntoGraph, InvalidGraph, RuntimeError};
use weftwork_models::{IntoModel, ModelCaller};
use weftwork_runtime::{Runtime, RuntimeBuilder, Thread};
use weftwork_tools::ToolBox;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::Budgets;
use weftwork_types::run::{Answers, Stops};
use weftwork_types::{ErrorCode, Principal, ThreadId};

/// Id of the graph of evaluations without a graph of their own.
const REACT: &str = "prompt:react";

/// Id of the custom graph of an evaluator.
const CUSTOM: &str = "prompt:custom";

/// Channel that custom graphs need for the conversation.
const MESSAGES: &str = "messages";

/// Options of the graph of evaluations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Maximum number of supersteps of an evaluation; 25 by default. The model and its tools
    /// alternate, so a round of tools takes two.
    pub recursion_limit: u32,
    /// Nodes before which evaluations stop; `None` selects those of the graph.
    pub interrupt_before: Option<Stops>,
    /// Nodes after which evaluations stop; `None` selects those of the graph.
    pub interrupt_after: Option<Stops>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { recursion_limit: 25, interrupt_before: None, interrupt_after: None }
    }
}

/// Evaluates prompts with a model. Cloning shares it.
///
/// Without a graph of its own, it uses the [`ReactAgent`]: model and tools alternate until the model
/// answers. A custom graph ([`EvaluatorBuilder::graph`]) gets the rendered prompt as its first
/// message, and its nodes take [`Model`](crate::Model) and [`Tools`](crate::Tools).
///
/// Each evaluation is a thread. Without a checkpointer the thread is deleted when the evaluation
/// completes or fails, and two evaluations share no state but their session. Over a runtime
/// ([`EvaluatorBuilder::runtime`]) the thread is that of the session, and the conversation continues.
///
/// ```
/// use std::sync::Arc;
/// use weftwork_agents::{Evaluator, Prompt, Section};
/// use weftwork_models::scripted::{ScriptedModel, Step};
/// use weftwork_tools::tool;
///
/// /// Adds two numbers.
/// #[tool]
/// fn calculator(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let prompt = Prompt::<()>::builder("examples", "sum", "Sum")
///     .section(Section::new("task", "Task", "Calculate 2 + 2 using the calculator tool.").tool(calculator))
///     .build()?;
/// let call = Step::call("calculator", serde_json::json!({"a": 2, "b": 2}));
/// let model = ScriptedModel::from_steps(vec![call, Step::text("2 + 2 is 4.")]);
/// let evaluator = Evaluator::builder(Arc::new(model)).open().await?;
/// let session = evaluator.new_session();
/// let evaluated = evaluator.evaluate(&prompt, ()).session(&session).await?;
/// let response = evaluated.done().ok_or("no question is asked")?;
/// assert!(response.text.contains('4'));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Evaluator {
    resources: Arc<EvaluatorResources>,
    runtime: Runtime,
    config: Arc<Config>,
    principal: Principal,
}

/// Settings that all evaluations of an evaluator share.
#[derive(Debug, Clone)]
struct Config {
    client: ClientConfig,
    /// Id of the graph.
    graph: &'static str,
    /// `true` if threads are stored under the ids of their sessions.
    durable: bool,
}

/// Builder of an [`Evaluator`].
#[must_use]
pub struct EvaluatorBuilder {
    resources: EvaluatorResources,
    client: ClientConfig,
    graph: Option<Result<CompiledGraph, InvalidGraph>>,
    runtime: Option<RuntimeBuilder>,
    budgets: Option<Arc<dyn Budgets>>,
}

impl fmt::Debug for EvaluatorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluatorBuilder")
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

/// An evaluator cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluatorError {
    /// The agent cannot be built.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The runtime cannot be opened.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A custom graph has no channel for the conversation.
    #[error(
        "graph `{graph}` cannot evaluate prompts: it has no channel `messages` for a conversation; add one with `#[channel(messages)] messages: List<Message>`"
    )]
    NoMessages {
        /// The graph.
        graph: String,
    },
}

impl EvaluatorError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Agent(error) => error.code(),
            Self::Runtime(error) => error.code(),
            Self::NoMessages { .. } => ErrorCode("W0623"),
        }
    }
}

impl EvaluatorBuilder {
    /// Sets the name that events report as the adapter; `weft` by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.resources.name = name.into();
        self
    }

    /// Sets the options of the graph.
    pub fn client_config(mut self, config: ClientConfig) -> Self {
        self.client = config;
        self
    }

    /// Sets the options of the model's calls.
    pub fn model_config(mut self, config: ModelConfig) -> Self {
        self.resources.bound.config = config;
        self
    }

    /// Sets the caller of the model, which defines its retries.
    pub fn model_caller(mut self, caller: ModelCaller) -> Self {
        self.resources.bound.caller = caller;
        self
    }

    /// Sets the values that tools take, and tools that all prompts have.
    pub fn tools(mut self, tools: ToolBox) -> Self {
        self.resources.base = tools;
        self
    }

    /// Sets the bus of the events.
    pub fn bus(mut self, bus: &EventBus) -> Self {
        self.resources.bus = bus.clone();
        self
    }

    /// Evaluates prompts with this graph. It has a conversation in the channel `messages`, declares
    /// [`PromptRun`] as run-scoped, and stores sessions if it has
    /// [`Session::channel`](crate::Session::channel).
    pub fn graph(mut self, graph: impl IntoGraph) -> Self {
        self.graph = Some(graph.into_graph());
        self
    }

    /// Stores evaluations as threads of this runtime, under the ids of their sessions: they continue
    /// after questions and crashes, in this process or another.
    pub fn runtime(mut self, runtime: RuntimeBuilder) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets the source of the budgets of evaluations that are given none, in place of that of the
    /// runtime. There are no limits by default.
    pub fn budgets(mut self, budgets: impl Budgets + 'static) -> Self {
        self.budgets = Some(Arc::new(budgets));
        self
    }

    /// Registers a prompt, so that this process can continue its evaluations. An evaluation
    /// registers its prompt itself.
    pub fn prompt<P, T>(self, prompt: &Prompt<P, T>) -> Self
    where
        P: Serialize + DeserializeOwned + 'static,
    {
        self.resources.register(prompt.id(), prompt.erased());
        self
    }

    /// Opens the runtime. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`EvaluatorError`] for a graph that cannot evaluate prompts, or a runtime that cannot be
    /// opened.
    pub async fn open(self) -> Result<Evaluator, EvaluatorError> {
        let Self { resources, client, graph, runtime, budgets } = self;
        let graph = graph.transpose().map_err(AgentError::from)?;
        if let Some(graph) = graph.as_ref().filter(|graph| !graph.holds_messages(MESSAGES)) {
            return Err(EvaluatorError::NoMessages { graph: graph.name().to_owned() });
        }
        let react = ReactAgent::new("prompt", Arc::clone(&resources.bound.model));
        let config = Arc::new(Config {
            client,
            graph: if graph.is_some() { CUSTOM } else { REACT },
            durable: runtime.is_some(),
        });
        let resources = Arc::new(resources);
        let graph = graph.map_or_else(|| react.build_for_prompts(), Ok)?;
        let of_runs = Arc::clone(&resources);
        let runtime = runtime.unwrap_or_else(Runtime::in_memory);
        let runtime = runtime
            .graph_with(config.graph, graph, move |who, run| of_runs.dependencies(who, run))
            .map_budgets(|own| {
                let resources = Arc::clone(&resources);
                Arc::new(SharedBudgets { resources, otherwise: budgets.unwrap_or(own) })
            })
            .open()
            .await?;
        // It was not set before: the resources is that of this evaluator alone.
        let _first = resources.runtime.set((runtime.downgrade(), Arc::downgrade(&config)));
        Ok(Evaluator { resources, runtime, config, principal: Principal::local() })
    }
}

impl Evaluator {
    /// Begins an evaluator of a model.
    pub fn builder(model: impl IntoModel) -> EvaluatorBuilder {
        EvaluatorBuilder {
            resources: EvaluatorResources::new("weft".to_owned(), model.into_model()),
            client: ClientConfig::default(),
            graph: None,
            runtime: None,
            budgets: None,
        }
    }

    /// The evaluator of these resources, for evaluations within its runs; `None` if it is closed.
    pub(crate) fn within(resources: Arc<EvaluatorResources>, principal: Principal) -> Option<Self> {
        let (runtime, config) = resources.runtime.get()?;
        let runtime = runtime.upgrade()?;
        let config = config.upgrade()?;
        Some(Self { resources, runtime, config, principal })
    }

    /// The same evaluator for another principal.
    #[must_use]
    pub fn on_behalf_of(&self, principal: Principal) -> Self {
        Self { principal, ..self.clone() }
    }

    /// The bus of the events.
    #[must_use]
    pub fn bus(&self) -> &EventBus {
        &self.resources.bus
    }

    /// The runtime that executes evaluations.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Evaluates a prompt; see [`Evaluation`].
    pub fn evaluate<'a, P, T>(&self, prompt: &Prompt<P, T>, params: P) -> Evaluation<'a, P, T> {
        Evaluation::new(self, prompt, evaluation::Start::Params(params))
    }

    /// Evaluates a prompt with parameters as they are stored.
    fn evaluate_stored<'a, P, T>(
        &self,
        prompt: &Prompt<P, T>,
        params: serde_json::Value,
    ) -> Evaluation<'a, P, T> {
        Evaluation::new(self, prompt, evaluation::Start::Stored(params))
    }

    /// Continues an evaluation that was interrupted, in this process or another, with answers to its
    /// questions. It has the same session, what is left of its budget, and no deadline unless a new
    /// one is set. A prompt that is not the one that the evaluation began with is refused (W0614), and
    /// the questions stay open.
    pub fn answer<'a, P, T>(
        &self,
        prompt: &Prompt<P, T>,
        thread: &ThreadId,
        answers: impl Into<Answers>,
    ) -> Evaluation<'a, P, T> {
        let thread = thread.clone();
        let start = evaluation::Start::Answers { thread, answers: Some(answers.into()) };
        Evaluation::new(self, prompt, start)
    }

    /// Returns the open questions of the evaluation on a thread, in any process that has the store. The
    /// thread of an evaluation with a session has the id of the session. The methods of a question,
    /// such as [`Interrupt::approve`], return an answer for [`answer`](Self::answer).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use weftwork_agents::{Evaluator, Prompt, Section, Session};
    /// use weftwork_models::scripted::{ScriptedModel, Step};
    /// use weftwork_runtime::Runtime;
    /// use weftwork_store::MemoryStore;
    /// use weftwork_tools::{Policy, tool};
    /// use weftwork_types::ThreadId;
    ///
    /// /// Refunds an order.
    /// #[tool(effect = external_side_effect)]
    /// fn refund(order: String) -> String {
    ///     format!("{order} is refunded")
    /// }
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = Policy::builder().ask_human("refund", "it moves money").build()?;
    /// let task = Section::new("task", "Task", "Refund order A1.").tool(refund).policy(policy);
    /// let prompt = Prompt::<()>::builder("shop", "refund", "Refund").section(task).build()?;
    /// let store = Arc::new(MemoryStore::new());
    /// let call = Step::call("refund", serde_json::json!({"order": "A1"}));
    /// let model = Arc::new(ScriptedModel::from_steps([call, Step::text("It is done.")]));
    /// let open = || {
    ///     let runtime = Runtime::builder(Arc::clone(&store) as _);
    ///     Evaluator::builder(Arc::clone(&model)).runtime(runtime).open()
    /// };
    /// open().await?.evaluate(&prompt, ()).session(&Session::new("customer-7")?).await?;
    ///
    /// // Later, in a process that knows the session alone.
    /// let evaluator = open().await?;
    /// let thread = ThreadId::new("customer-7")?;
    /// let questions = evaluator.questions(&thread).await?;
    /// let evaluated = evaluator.answer(&prompt, &thread, questions[0].approve()).await?;
    /// assert_eq!(evaluated.text(), "It is done.");
    /// assert!(evaluator.questions(&thread).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn questions(&self, thread: &ThreadId) -> Result<Vec<Interrupt>, RuntimeError> {
        let thread = self.runtime.thread(self.config.graph, thread)?;
        thread.with_principal(self.principal.clone()).questions().await
    }

    /// Continues an evaluation that stopped without a question, or whose process died, or that failed,
    /// was cancelled, or reached its limit: recorded calls are not made again. It has the same
    /// session, what is left of its budget, and no deadline unless a new one is set.
    ///
    /// While the death of the process is not known, it is refused with an error that can be retried.
    /// The run of a dead process, and one that failed before its first superstep, are themselves
    /// executed again: with the deadline and the limits that they began with, and not with those set
    /// here.
    ///
    /// A prompt that is not the one that the evaluation began with is refused (W0614).
    pub fn resume<'a, P, T>(
        &self,
        prompt: &Prompt<P, T>,
        thread: &ThreadId,
    ) -> Evaluation<'a, P, T> {
        let start = evaluation::Start::Answers { thread: thread.clone(), answers: None };
        Evaluation::new(self, prompt, start)
    }

    fn new_id(&self) -> ThreadId {
        ThreadId::from_uuid(uuid::Uuid::from_u128(self.runtime.clock().unique()))
    }

    fn thread(&self, id: &ThreadId) -> Result<Thread, RuntimeError> {
        let thread = self.runtime.thread(self.config.graph, id.as_str())?;
        Ok(thread.with_principal(self.principal.clone()).whole_state())
    }
}
