//! An app: a store, a model and agents, wired together.

mod builder;

pub use builder::AppBuilder;

use crate::Error;
use crate::agent_def::{AgentDef, find_agent};
use crate::config::{Origin, Setting};
use crate::run_dependencies::RunDependencies;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_agents::AgentRuntime;
use weftwork_models::{ChatModel, ModelInfo};
use weftwork_runtime::{EndedRun, Runtime, StartedRun, Thread, unversioned};
use weftwork_store::{Store, StoreError, ThreadRow};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Clock, GraphExecutor, Limits};
use weftwork_types::run::{Answers, Durability, Multitask, RunOptions, RunOutcome, RunRef};
use weftwork_types::{MessageId, Principal, RunId, ThreadId};

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
/// let principal = Principal::new(OrgId::new("acme")?, "ada");
/// let limits = Limits { model_calls: Some(3), ..Limits::default() };
/// let ended = app.on_behalf_of(principal).with_budget(limits).ask("t", "Hello").await?;
/// assert_eq!(ended.outcome().status(), RunStatus::Completed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct App {
    runtime: Runtime,
    instances: AgentRuntime,
    model: Arc<dyn ChatModel>,
    chosen: Setting<String>,
    models: Arc<RunDependencies>,
    /// Model of the runs, if it is not the one that the graphs were opened with.
    run_model: Option<String>,
    budget: Option<Limits>,
    limit: Option<Duration>,
    step_limit: Option<u32>,
    agents: Vec<AgentDef>,
    #[cfg(feature = "platform")]
    defined: weftwork_platform::Agents,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<weftwork_telemetry::Telemetry>>,
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
    /// As [`Config::open_model`](crate::Config::open_model).
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

    /// Returns the app with a maximum number of supersteps for each of the runs it starts. A run that
    /// continues another one has that of the other one by default.
    #[must_use]
    pub fn with_step_limit(&self, steps: u32) -> Self {
        Self { step_limit: Some(steps), ..self.clone() }
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

    /// The export of traces and metrics, if the configuration has a collector. It is completed by
    /// [`shutdown`](Self::shutdown), or by `close` of its own.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn telemetry(&self) -> Option<&Arc<weftwork_telemetry::Telemetry>> {
        self.telemetry.as_ref()
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

    /// The agents that are defined in files.
    #[cfg(feature = "platform")]
    #[must_use]
    pub fn defined_agents(&self) -> &weftwork_platform::Agents {
        &self.defined
    }

    /// The agents that are defined in files, as servers and commands ask them.
    #[cfg(feature = "platform")]
    #[must_use]
    pub fn platform(&self) -> weftwork_platform::HostedAgents {
        weftwork_platform::HostedAgents::new(self.runtime.clone(), self.defined.clone())
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

    /// A thread of this app's store, on which its agent runs with the model, the budget and the other
    /// settings of the app. A new thread is one of the first agent; an existing thread continues with
    /// its own agent.
    ///
    /// # Errors
    /// [`Error::Id`] if `thread` is not a valid id, [`Error::UnknownAgent`] if the thread is of an
    /// agent that the app does not have.
    pub async fn thread(&self, thread: impl AsRef<str>) -> Result<Thread, Error> {
        let id = ThreadId::new(thread)?;
        self.thread_of(&self.agent_of(&id).await?, &id)
    }

    /// A thread on which an agent runs with the settings of the app: for the first run of a thread on
    /// an agent that is not the first one of the app. Each run may have further settings, such as
    /// metadata or an idempotency key:
    ///
    /// ```
    /// use weftwork::prelude::*;
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let app = App::builder().config(Config::in_memory()).model("scripted");
    /// # let app = app.agent("chat", |model| ReactAgent::new("chat", model).build()).open().await?;
    /// let thread = app.thread_of("chat", "t")?;
    /// let ended = thread.say("Hello").tags(["trial"]).idempotency_key("message-1").await?;
    /// // The key of a request that was sent twice starts one run.
    /// let again = thread.say("Hello").tags(["trial"]).idempotency_key("message-1").await?;
    /// assert_eq!(again.run(), ended.run());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Id`] if `thread` is not a valid id, [`Error::UnknownAgent`].
    pub fn thread_of(&self, agent: &str, thread: impl AsRef<str>) -> Result<Thread, Error> {
        let agent = self.agent_id(agent)?;
        let thread = self.runtime.thread_for(&self.who, &agent, thread)?;
        let options = RunOptions { deadline: None, ..self.options() };
        let thread = thread.with_options(options);
        Ok(match self.limit {
            Some(limit) => thread.with_deadline(limit),
            None => thread,
        })
    }

    /// Sends a user message to an agent on a [thread](Self::thread), and waits for the run to end.
    ///
    /// # Errors
    /// As [`thread`](Self::thread), [`Error::Runtime`] if the run is not accepted, and
    /// [`Error::Run`] if it fails.
    pub async fn ask(&self, thread: impl AsRef<str>, text: &str) -> Result<EndedRun, Error> {
        unless_failed(self.thread(thread).await?.say(text).await?)
    }

    /// Answers open questions of a thread, and waits for the run to end.
    ///
    /// # Errors
    /// As [`App::ask`].
    pub async fn answer(
        &self,
        thread: impl AsRef<str>,
        answers: impl Into<Answers>,
    ) -> Result<EndedRun, Error> {
        unless_failed(self.thread(thread).await?.answer(answers).await?)
    }

    /// Approves all calls of a thread that wait for an approval, and waits for the run to end. Other
    /// questions stay open.
    ///
    /// # Errors
    /// As [`App::ask`]; [`Error::NothingToApprove`] if no call waits for an approval.
    pub async fn approve(&self, thread: impl AsRef<str>) -> Result<EndedRun, Error> {
        let thread = self.thread(thread).await?;
        let mut questions = thread.questions().await?;
        questions.retain(|question| question.approval().is_some());
        if questions.is_empty() {
            return Err(Error::NothingToApprove { thread: thread.id().clone() });
        }
        let answers: Answers = questions.iter().map(Interrupt::approve).collect();
        unless_failed(thread.answer(answers).await?)
    }

    /// Resumes a thread whose last run did not complete, as [`Runtime::resume`] does, with the
    /// model and the settings of this app.
    ///
    /// # Errors
    /// [`Error::Runtime`] if there is nothing to resume, or a live process executes the run.
    pub async fn resume(&self, thread: &ThreadId) -> Result<StartedRun, Error> {
        Ok(self.runtime.resume_with(&self.who, thread, self.options()).await?)
    }

    fn options(&self) -> RunOptions {
        RunOptions {
            model: Some(self.chosen.value.clone()),
            run_model: self.run_model.clone(),
            budget: self.budget,
            deadline: self.limit.map(|limit| self.clock.now().plus(limit)),
            step_limit: self.step_limit,
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
    pub async fn requeue(&self, run: &RunRef) -> Result<StartedRun, Error> {
        Ok(self.runtime.requeue(&self.who, run).await?)
    }

    /// Requests cancellation of a run.
    ///
    /// # Errors
    /// [`Error::Run`] if the run does not exist or has ended.
    pub async fn cancel(&self, run: &RunRef) -> Result<(), Error> {
        Ok(self.runtime.cancel(&self.who, run).await?)
    }

    /// Returns the id of the graph of an agent, by name or id: one of the app, or one that is defined in
    /// a file.
    fn agent_id(&self, name: &str) -> Result<String, Error> {
        let unknown = match self.agent(name) {
            Ok(agent) => return Ok(agent.id().to_owned()),
            Err(unknown) => unknown,
        };
        let plain = unversioned(name);
        let listed = self.runtime.listed(&self.who);
        let is_it =
            |id: &str| id == plain || id.split_once(':').is_some_and(|(_, own)| own == plain);
        let found = listed.into_iter().find(|listed| is_it(&listed.id));
        found.map(|listed| listed.id).ok_or(unknown)
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

fn unless_failed(ended: EndedRun) -> Result<EndedRun, Error> {
    match ended.outcome() {
        RunOutcome::Failed { fault } => Err(Error::Run(fault.clone())),
        _ => Ok(ended),
    }
}
