//! An app: a store, a model and agents, wired together.

use crate::agent_def::{AgentDef, find_agent};
use crate::config::{Flags, Origin, Setting};
use crate::run_model::RunModels;
use crate::{Config, Error, Reply};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use weftwork_agents::{AgentError, AgentRuntime};
use weftwork_graph::{CompiledGraph, SystemClock};
use weftwork_models::{ChatModel, ModelInfo, Recorder};
use weftwork_runtime::{Recovery, Runtime};
use weftwork_store::{Store, StoreError, ThreadRow};
use weftwork_types::caller::Caller;
use weftwork_types::event::Position;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Budgets, Clock, GraphExecutor, Limits, RunHandle};
use weftwork_types::run::{
    Durability, Multitask, RunInput, RunOptions, RunOutcome, RunRef, RunRequest,
};
use weftwork_types::{InterruptId, MessageId, Principal, RunId, ThreadId};

/// Builder of an [`App`].
#[derive(Debug, Default)]
#[must_use]
pub struct AppBuilder {
    config: Option<Config>,
    model: Option<String>,
    default_model: Option<String>,
    agents: Vec<AgentDef>,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    durability: Durability,
    multitask: Multitask,
    record: Option<PathBuf>,
    budgets: Option<Arc<dyn Budgets>>,
    recovery: Recovery,
    runs_max: Option<usize>,
}

impl AppBuilder {
    /// Sets the configuration; the default is that of the process ([`Config::from_env`]).
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the model, overriding the configuration.
    pub fn model(mut self, id: impl Into<String>) -> Self {
        self.model = Some(id.into());
        self
    }

    /// Sets the model that is used if the configuration names none; the default is `scripted`.
    pub fn default_model(mut self, id: impl Into<String>) -> Self {
        self.default_model = Some(id.into());
        self
    }

    /// Adds an agent, under the id `app:NAME`.
    pub fn agent(
        self,
        name: &str,
        make: impl Fn(Arc<dyn ChatModel>) -> Result<CompiledGraph, AgentError> + Send + Sync + 'static,
    ) -> Self {
        self.agent_def(AgentDef::new(name, make))
    }

    /// Adds an agent.
    pub fn agent_def(mut self, agent: AgentDef) -> Self {
        self.agents.push(agent);
        self
    }

    /// Sets an open store, overriding the configuration.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the clock; the default is the system clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets when checkpoints of runs started by this app are stored; the default is
    /// [`Durability::Sync`], before the next superstep begins.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the handling of runs started by this app on a thread whose last run has not ended; the
    /// default is [`Multitask::Reject`].
    pub fn multitask(mut self, multitask: Multitask) -> Self {
        self.multitask = multitask;
        self
    }

    /// Records every complete answer of the model in a cassette, which the model `replay:PATH`
    /// plays back. An existing file is replaced.
    pub fn record(mut self, cassette: impl Into<PathBuf>) -> Self {
        self.record = Some(cassette.into());
        self
    }

    /// Sets the source of the budgets of runs; runs have no limits by default. See also
    /// [`App::with_budget`].
    pub fn budgets(mut self, budgets: impl Budgets + 'static) -> Self {
        self.budgets = Some(Arc::new(budgets));
        self
    }

    /// Sets the handling of runs that no living worker has; see [`Recovery`]. The default is
    /// [`Recovery::Manual`].
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// Limits the number of runs that this app executes at once; see
    /// [`RuntimeBuilder::runs_max`](weftwork_runtime::RuntimeBuilder::runs_max). There is no limit by
    /// default.
    pub fn runs_max(mut self, runs_max: usize) -> Self {
        self.runs_max = Some(runs_max);
        self
    }

    /// Opens the model and the store, compiles the agents, and registers this process as a worker.
    ///
    /// # Errors
    /// [`Error`] for an invalid configuration or agent, or a model or store that cannot be opened.
    pub async fn open(self) -> Result<App, Error> {
        let config = match self.config {
            Some(config) => config,
            None => Config::with_flags(&Flags::default())?,
        };
        let usual = || Setting {
            value: self.default_model.unwrap_or_else(|| "scripted".to_owned()),
            origin: Origin::Default,
        };
        let program = self.model.map(|value| Setting { value, origin: Origin::Program });
        let chosen = program.or(config.model.clone()).unwrap_or_else(usual);
        let mut model = config.open_model(&chosen.value)?;
        let models = Arc::new(RunModels::new(config.clone(), model.as_ref()));
        if let Some(cassette) = self.record {
            model = Arc::new(Recorder::new(model, cassette));
        }
        let graphs = self
            .agents
            .iter()
            .map(|agent| Ok((agent.id().to_owned(), agent.compile(Arc::clone(&model))?)))
            .collect::<Result<Vec<_>, AgentError>>()?;
        let store = match self.store {
            Some(store) => store,
            None => config.store.value.open()?,
        };
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let mut builder = Runtime::builder(store).clock(Arc::clone(&clock)).recovery(self.recovery);
        if let Some(budgets) = self.budgets {
            builder = builder.budgets(budgets);
        }
        if let Some(runs_max) = self.runs_max {
            builder = builder.runs_max(runs_max);
        }
        for (id, graph) in graphs {
            let models = Arc::clone(&models);
            builder = builder.graph_with(id, graph, move |_, run| models.dependencies(run));
        }
        let runtime = builder.open().await?;
        let instances = AgentRuntime::over(runtime.clone()).model("default", Arc::clone(&model));
        let instances = instances
            .build()
            .map_err(|source| AgentError::Tools { agent: "agent runtime".to_owned(), source })?;
        let who = Principal::local();
        let (agents, durability, multitask) = (self.agents, self.durability, self.multitask);
        let (run_model, budget, limit) = (None, None, None);
        Ok(App {
            runtime,
            instances,
            model,
            chosen,
            models,
            run_model,
            budget,
            limit,
            agents,
            who,
            clock,
            durability,
            multitask,
        })
    }
}

/// Agents with an open model and store, ready to run.
///
/// Must be opened and used within a multi-threaded tokio runtime. Clones share the runtime; each
/// may serve another principal ([`App::on_behalf_of`]), with a model ([`App::with_model`]) and a
/// budget ([`App::with_budget`]) of its own:
///
/// ```
/// use weftwork::prelude::*;
/// use weftwork::types::port::Limits;
/// use weftwork::types::{OrgId, Principal};
///
/// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
/// # async fn main() -> Result<(), weftwork::Error> {
/// let app = App::builder()
///     .config(Config::in_memory())
///     .model("scripted")
///     .agent("chat", |model| ReactAgent::new("chat", model).build())
///     .open()
///     .await?;
/// // For each request:
/// let principal = Principal { org: OrgId::new("acme")?, subject: "ada".to_owned() };
/// let limits = Limits { model_calls: Some(3), ..Limits::default() };
/// let reply = app.on_behalf_of(principal).with_budget(limits).ask("t", "Hello").await?;
/// assert_eq!(reply.outcome().status(), RunStatus::Completed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct App {
    runtime: Runtime,
    instances: AgentRuntime,
    model: Arc<dyn ChatModel>,
    chosen: Setting<String>,
    models: Arc<RunModels>,
    /// Model of the runs, if it is not the one that the graphs were opened with.
    run_model: Option<String>,
    budget: Option<Limits>,
    limit: Option<Duration>,
    agents: Vec<AgentDef>,
    who: Principal,
    clock: Arc<dyn Clock>,
    durability: Durability,
    multitask: Multitask,
}

impl App {
    /// Creates a builder with default settings.
    pub fn builder() -> AppBuilder {
        AppBuilder::default()
    }

    /// Returns the app for another principal: its storage calls and runs are made on behalf of it.
    #[must_use]
    pub fn on_behalf_of(&self, principal: Principal) -> Self {
        Self { who: principal, ..self.clone() }
    }

    /// Returns the app with another model for the runs it starts. The model is stored with each
    /// run, so that another process that takes the run over opens the same one. Calls that a graph
    /// makes to models other than that of the app are not affected.
    ///
    /// # Errors
    /// As [`Config::open_model`].
    pub fn with_model(&self, id: impl Into<String>) -> Result<Self, Error> {
        let id = id.into();
        let model = self.models.open(&id)?;
        let chosen = Setting { value: id.clone(), origin: Origin::Program };
        Ok(Self { model, chosen, run_model: Some(id), ..self.clone() })
    }

    /// Returns the app with limits for each of the runs it starts, in addition to the budgets of
    /// the app. A run that continues another one, by an answer for example, has them less what that
    /// run used.
    #[must_use]
    pub fn with_budget(&self, limits: Limits) -> Self {
        Self { budget: Some(limits), ..self.clone() }
    }

    /// Returns the app with a time limit for each of the runs it starts, counted from the
    /// acceptance of the run.
    #[must_use]
    pub fn with_deadline(&self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self.clone() }
    }

    /// Shuts down in order: accepts no more runs, lets the active ones complete their superstep and
    /// releases them, and ends the streams of the runs that are watched; see [`Runtime::shutdown`].
    /// The store is closed when the last clone of the app and of its [`store`](Self::store) is
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the lease of this process cannot be ended; it expires later.
    pub async fn shutdown(self, grace: Duration) -> Result<Vec<RunId>, Error> {
        Ok(self.runtime.shutdown(grace).await?)
    }

    /// The runtime that hosts the agents' graphs.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The agent runtime: instances of the agents, on behalf of the principal of this app. The model
    /// of the app is its model `default`.
    #[must_use]
    pub fn instances(&self) -> AgentRuntime {
        self.instances.on_behalf_of(self.who.clone())
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.runtime.store()
    }

    /// The principal on whose behalf all storage calls and runs are made.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.who
    }

    /// Details of the model: provider, name and label.
    #[must_use]
    pub fn model(&self) -> &ModelInfo {
        self.model.info()
    }

    /// The id of the model as requested, with its origin.
    #[must_use]
    pub fn model_setting(&self) -> &Setting<String> {
        &self.chosen
    }

    /// The agents, in the order in which they were added.
    #[must_use]
    pub fn agents(&self) -> &[AgentDef] {
        &self.agents
    }

    /// Finds an agent by name or id.
    ///
    /// # Errors
    /// [`Error::UnknownAgent`], whose message suggests the most similar name.
    pub fn agent(&self, name: &str) -> Result<&AgentDef, Error> {
        find_agent(&self.agents, name)
    }

    /// Generates a new thread id.
    #[must_use]
    pub fn new_thread(&self) -> ThreadId {
        ThreadId::from_uuid(uuid::Uuid::from_u128(self.clock.unique()))
    }

    /// Creates the input of a chat agent: one user message with this text.
    #[must_use]
    pub fn say(&self, text: &str) -> Value {
        let id = MessageId::from_uuid(uuid::Uuid::from_u128(self.clock.unique()));
        json!({"messages": [Message::text(id, Role::User, text)]})
    }

    /// Starts a run and returns once it is accepted, with a stream of its events.
    ///
    /// # Errors
    /// [`Error::UnknownAgent`], and [`Error::Run`] if the run is not accepted.
    pub async fn start(
        &self,
        agent: &str,
        thread: ThreadId,
        input: RunInput,
    ) -> Result<RunHandle, Error> {
        let graph = self.agent(agent)?.id().to_owned();
        let request = uuid::Uuid::from_u128(self.clock.unique()).to_string();
        let request = RunRequest {
            principal: self.who.clone(),
            caller: Caller::local(request)?,
            graph,
            thread,
            input,
            options: self.options(),
        };
        Ok(self.runtime.execute(request).await?)
    }

    /// Watches a run from a position on. The run may be executing here or in another process, or
    /// may have ended. Events after the position are delivered exactly once and in order: a client
    /// whose stream broke continues from the
    /// [`position`](weftwork_types::event::RunEvent::position) of the last event it received.
    /// Watching does not affect the run, and dropping the stream does not cancel it. See
    /// [`Runtime::watch`].
    ///
    /// ```
    /// use futures_util::StreamExt;
    /// use weftwork::prelude::*;
    /// use weftwork::types::ThreadId;
    /// use weftwork::types::event::{Position, RunEvent};
    /// use weftwork::types::run::RunInput;
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), weftwork::Error> {
    /// let app = App::builder()
    ///     .config(Config::in_memory())
    ///     .model("scripted")
    ///     .agent("chat", |model| ReactAgent::new("chat", model).build())
    ///     .open()
    ///     .await?;
    /// let input = RunInput::Start { input: app.say("Hello") };
    /// let mut started = app.start("chat", ThreadId::new("t")?, input).await?;
    /// let first = started.events.next().await.expect("a run reports its start");
    /// drop(started.events); // the client disconnects
    ///
    /// let after = first.position().unwrap_or(Position::START);
    /// let watched = app.watch(&started.run, after).await?;
    /// let rest: Vec<RunEvent> = watched.events.collect().await;
    /// assert_eq!(watched.outcome.await.status(), RunStatus::Completed);
    ///
    /// // A client that connects after the end receives the same durable events.
    /// let again = app.watch(&started.run, after).await?;
    /// let again: Vec<RunEvent> = again.events.collect().await;
    /// let durable = |events: Vec<RunEvent>| -> Vec<RunEvent> {
    ///     events.into_iter().filter(|event| event.seq.is_some()).collect()
    /// };
    /// assert_eq!(durable(rest), durable(again));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Runtime`] if the run does not exist, or its graph is not an agent of this app.
    pub async fn watch(&self, run: &RunRef, after: Position) -> Result<RunHandle, Error> {
        Ok(self.runtime.watch(&self.who, run, after).await?)
    }

    /// Sends a user message to an agent on a thread, and waits for the run to end. A new thread is
    /// created with the first agent; an existing thread continues with its own agent.
    ///
    /// # Errors
    /// [`Error::Run`] if the run is not accepted or fails.
    pub async fn ask(&self, thread: &str, text: &str) -> Result<Reply, Error> {
        let thread = ThreadId::new(thread)?;
        let agent = self.agent_of(&thread).await?;
        let input = RunInput::Start { input: self.say(text) };
        self.reply(self.start(&agent, thread, input).await?).await
    }

    /// Answers open questions of a thread, and waits for the run to end.
    ///
    /// # Errors
    /// As [`App::ask`].
    pub async fn answer(
        &self,
        thread: &str,
        answers: BTreeMap<InterruptId, Value>,
    ) -> Result<Reply, Error> {
        let thread = ThreadId::new(thread)?;
        let agent = self.agent_of(&thread).await?;
        self.reply(self.start(&agent, thread, RunInput::answers(answers)).await?).await
    }

    /// Resumes a thread whose last run did not complete, as [`Runtime::resume`] does, with the
    /// model and the settings of this app.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is nothing to resume, or a live process executes the run.
    pub async fn resume(&self, thread: &ThreadId) -> Result<RunHandle, Error> {
        Ok(self.runtime.resume_with(&self.who, thread, self.options()).await?)
    }

    fn options(&self) -> RunOptions {
        RunOptions {
            model: Some(self.chosen.value.clone()),
            run_model: self.run_model.clone(),
            budget: self.budget,
            deadline: self.limit.map(|limit| self.clock.now().plus(limit)),
            durability: self.durability,
            multitask: self.multitask,
            ..RunOptions::default()
        }
    }

    /// Requeues the last run of a thread after it failed, and executes it; see
    /// [`Runtime::requeue`].
    ///
    /// # Errors
    /// [`Error::Runtime`] if the run cannot be requeued: it has not ended, it did not fail, or the
    /// thread has had later runs.
    pub async fn requeue(&self, run: &RunRef) -> Result<RunHandle, Error> {
        Ok(self.runtime.requeue(&self.who, run).await?)
    }

    /// Requests cancellation of a run.
    ///
    /// # Errors
    /// [`Error::Run`] if the run does not exist or has ended.
    pub async fn cancel(&self, run: &RunRef) -> Result<(), Error> {
        Ok(self.runtime.cancel(&self.who, run).await?)
    }

    /// Waits for the end of a run and collects its events.
    ///
    /// # Errors
    /// [`Error::Run`] if the run fails.
    pub async fn reply(&self, handle: RunHandle) -> Result<Reply, Error> {
        let RunHandle { run, events, outcome } = handle;
        let events = events.collect().await;
        match outcome.await {
            RunOutcome::Failed { fault } => Err(Error::Run(fault)),
            outcome => Ok(Reply::new(run, self.model().clone(), events, outcome)),
        }
    }

    async fn agent_of(&self, thread: &ThreadId) -> Result<String, Error> {
        match self.store().thread(&self.who, thread).await {
            Ok(ThreadRow { graph: Some(graph), .. }) => Ok(graph),
            Ok(_) | Err(StoreError::NotFound { .. }) => {
                let first = self.agents.first().map(|agent| agent.id().to_owned());
                first.ok_or_else(|| Error::UnknownAgent { found: String::new(), known: Vec::new() })
            }
            Err(error) => Err(error.into()),
        }
    }
}
