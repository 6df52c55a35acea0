//! Store, model and agents, wired together.

use crate::config::{Flags, Origin, Setting};
use crate::{Config, Error, Reply};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use weftwork_agents::AgentError;
use weftwork_graph::{CompiledGraph, SystemClock};
use weftwork_models::{ChatModel, ModelInfo, Recorder};
use weftwork_runtime::{JournalMode, Runtime};
use weftwork_store::{RunRow, Store, StoreError, has_begun};
use weftwork_types::caller::Caller;
use weftwork_types::event::Position;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Clock, GraphExecutor, RunHandle};
use weftwork_types::run::{
    Durability, Multitask, RunFinal, RunInput, RunOptions, RunRef, RunRequest,
};
use weftwork_types::{InterruptId, MessageId, Principal, ThreadId};

type Make = dyn Fn(Arc<dyn ChatModel>) -> Result<CompiledGraph, AgentError> + Send + Sync;

/// An agent under a name: how to make its graph for a model.
#[derive(Clone)]
pub struct AgentDef {
    id: String,
    about: String,
    make: Arc<Make>,
}

impl fmt::Debug for AgentDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentDef").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AgentDef {
    /// An agent. A name without a colon stands for `app:NAME`.
    pub fn new(
        name: &str,
        make: impl Fn(Arc<dyn ChatModel>) -> Result<CompiledGraph, AgentError> + Send + Sync + 'static,
    ) -> Self {
        let id = if name.contains(':') { name.to_owned() } else { format!("app:{name}") };
        Self { id, about: String::new(), make: Arc::new(make) }
    }

    /// Says in one line what it is for.
    #[must_use]
    pub fn about(mut self, line: impl Into<String>) -> Self {
        self.about = line.into();
        self
    }

    /// Its graph's id, such as `app:counter`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name: the id without what stands before the colon.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.split_once(':').map_or(&self.id, |(_, name)| name)
    }

    /// What it is for.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.about
    }

    /// Makes its graph for a model.
    ///
    /// # Errors
    /// [`AgentError`] with everything that is wrong with it.
    pub fn compile(&self, model: Arc<dyn ChatModel>) -> Result<CompiledGraph, AgentError> {
        (self.make)(model)
    }
}

/// The agent that is meant by a name or an id.
///
/// # Errors
/// [`Error::UnknownAgent`] with the nearest name.
pub fn find_agent<'a>(agents: &'a [AgentDef], name: &str) -> Result<&'a AgentDef, Error> {
    let found = agents.iter().find(|agent| agent.id() == name || agent.name() == name);
    found.ok_or_else(|| Error::UnknownAgent {
        found: name.to_owned(),
        known: agents.iter().map(|agent| agent.name().to_owned()).collect(),
    })
}

/// Puts an [`App`] together.
#[derive(Debug, Default)]
#[must_use]
pub struct AppBuilder {
    config: Option<Config>,
    model: Option<String>,
    usual_model: Option<String>,
    agents: Vec<AgentDef>,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    journal: JournalMode,
    durability: Durability,
    multitask: Multitask,
    record: Option<PathBuf>,
}

impl AppBuilder {
    /// Takes these settings; without this, those of the process ([`Config::from_env`]).
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Takes this model, whatever the settings say.
    pub fn model(mut self, id: impl Into<String>) -> Self {
        self.model = Some(id.into());
        self
    }

    /// Takes this model when the settings name none; without this, `scripted`.
    pub fn usual_model(mut self, id: impl Into<String>) -> Self {
        self.usual_model = Some(id.into());
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

    /// Takes a store that is open, whatever the settings say.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Takes time from another clock than the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Stores the checkpoints of runs that are started here as this says; without it, each before
    /// the next superstep begins.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What happens with runs that are started here on a thread that has one which has not ended;
    /// without it, they are refused.
    pub fn multitask(mut self, multitask: Multitask) -> Self {
        self.multitask = multitask;
        self
    }

    /// Switches the journal; see [`JournalMode`].
    pub fn journal(mut self, mode: JournalMode) -> Self {
        self.journal = mode;
        self
    }

    /// Writes every whole answer of the model to a cassette, which the model `replay:PATH` plays
    /// back. The file is replaced.
    pub fn record(mut self, cassette: impl Into<PathBuf>) -> Self {
        self.record = Some(cassette.into());
        self
    }

    /// Opens model and store, compiles the agents, and registers this process as a worker.
    ///
    /// # Errors
    /// [`Error`] naming what is missing or not sound.
    pub async fn open(self) -> Result<App, Error> {
        let config = match self.config {
            Some(config) => config,
            None => Config::with_flags(&Flags::default())?,
        };
        let usual = || Setting {
            value: self.usual_model.unwrap_or_else(|| "scripted".to_owned()),
            origin: Origin::Default,
        };
        let program = self.model.map(|value| Setting { value, origin: Origin::Program });
        let chosen = program.or(config.model.clone()).unwrap_or_else(usual);
        let mut model = config.open_model(&chosen.value)?;
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
        let builder = Runtime::builder(store).clock(Arc::clone(&clock)).journal(self.journal);
        let builder =
            graphs.into_iter().fold(builder, |builder, (id, graph)| builder.graph(id, graph));
        let runtime = builder.open().await?;
        let who = Principal::local();
        let (agents, durability, multitask) = (self.agents, self.durability, self.multitask);
        Ok(App { runtime, model, chosen, agents, who, clock, durability, multitask })
    }
}

/// Agents over a model and a store, ready to be asked.
///
/// It must be opened and used within a tokio runtime of several threads.
#[derive(Debug)]
pub struct App {
    runtime: Runtime,
    model: Arc<dyn ChatModel>,
    chosen: Setting<String>,
    agents: Vec<AgentDef>,
    who: Principal,
    clock: Arc<dyn Clock>,
    durability: Durability,
    multitask: Multitask,
}

impl App {
    /// Starts to put an app together.
    pub fn builder() -> AppBuilder {
        AppBuilder::default()
    }

    /// The runtime that hosts the agents' graphs.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.runtime.store()
    }

    /// On whose behalf everything is done.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.who
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &ModelInfo {
        self.model.info()
    }

    /// The model as it was asked for, and who asked for it.
    #[must_use]
    pub fn model_setting(&self) -> &Setting<String> {
        &self.chosen
    }

    /// The agents, in the order in which they were added.
    #[must_use]
    pub fn agents(&self) -> &[AgentDef] {
        &self.agents
    }

    /// The agent of a name or an id.
    ///
    /// # Errors
    /// [`Error::UnknownAgent`] with the nearest name.
    pub fn agent(&self, name: &str) -> Result<&AgentDef, Error> {
        find_agent(&self.agents, name)
    }

    /// A new thread id.
    #[must_use]
    pub fn new_thread(&self) -> ThreadId {
        ThreadId::from_uuid(uuid::Uuid::from_u128(self.clock.unique()))
    }

    /// The input that says something to a chat agent: one message of the person.
    #[must_use]
    pub fn say(&self, text: &str) -> Value {
        let id = MessageId::from_uuid(uuid::Uuid::from_u128(self.clock.unique()));
        json!({"messages": [Message::text(id, Role::User, text)]})
    }

    /// Starts a run and returns at once: its events come as a stream.
    ///
    /// # Errors
    /// [`Error::UnknownAgent`], and [`Error::Run`] when the run was not accepted.
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
            options: RunOptions {
                model: Some(self.chosen.value.clone()),
                durability: self.durability,
                multitask: self.multitask,
                ..RunOptions::default()
            },
        };
        Ok(self.runtime.execute(request).await?)
    }

    /// Watches a run from a position on: one that goes here, in another process, or has ended. What
    /// comes after the position is told exactly once and in order, so whoever lost a stream goes on
    /// from the [`position`](weftwork_types::event::RunEvent::position) of what was seen last. To
    /// watch is no more than to look: the run goes on when nobody does. See [`Runtime::watch`].
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
    /// let first = started.events.next().await.expect("a run says that it started");
    /// drop(started.events); // the window is closed
    ///
    /// let after = first.position().unwrap_or(Position::START);
    /// let watched = app.watch(&started.run, after).await?;
    /// let rest: Vec<RunEvent> = watched.events.collect().await;
    /// assert_eq!(watched.outcome.await.status(), RunStatus::Completed);
    ///
    /// // Who comes when all is over gets the same durable events.
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
    /// [`Error::Runtime`] when there is no such run, or its graph is none of this app's agents.
    pub async fn watch(&self, run: &RunRef, after: Position) -> Result<RunHandle, Error> {
        Ok(self.runtime.watch(&self.who, run, after).await?)
    }

    /// Says something to an agent on a thread, and waits for what comes of it. A thread that does
    /// not exist is made, with the first agent; one that exists goes on with its own.
    ///
    /// # Errors
    /// [`Error::Run`] when the run was not accepted or failed.
    pub async fn ask(&self, thread: &str, text: &str) -> Result<Reply, Error> {
        let thread = ThreadId::new(thread)?;
        let agent = self.agent_of(&thread).await?;
        let input = RunInput::Start { input: self.say(text) };
        self.reply(self.start(&agent, thread, input).await?).await
    }

    /// Answers open questions of a thread, and waits for what comes of it.
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
        self.reply(self.start(&agent, thread, RunInput::Resume { answers }).await?).await
    }

    /// Goes on with a thread whose last run did not come to its end: takes the run over when the
    /// process that had it is gone, and starts a new one when it failed, was cancelled, reached its
    /// limit, or changed the thread from outside so that something is due. A run that failed before
    /// its input was on the thread is put back instead, as by [`requeue`](Self::requeue), unless the
    /// thread has something else to go on with.
    ///
    /// # Errors
    /// [`Error::NothingOpen`] when the last run completed or waits for an answer, what the store
    /// says when a living process has it.
    pub async fn go_on(&self, thread: &ThreadId) -> Result<RunHandle, Error> {
        let runs = self.store().runs(&self.who, thread).await?;
        let nothing = || Error::NothingOpen { thread: thread.to_string() };
        // Those that wait behind it go on by themselves.
        let unfinished = runs.iter().find(|run| !run.status.is_final());
        let last = unfinished.or(runs.last()).ok_or_else(nothing)?;
        match &last.outcome {
            None => Ok(self.runtime.take_over(&self.who, &last.new.at).await?),
            Some(RunFinal::Completed { .. } | RunFinal::Interrupted { .. })
                if !self.made_due(last).await? =>
            {
                Err(nothing())
            }
            Some(RunFinal::Failed { .. }) if self.begins_anew(last).await? => {
                self.requeue(&last.new.at).await
            }
            Some(_) => self.start(&last.new.graph, thread.clone(), RunInput::Continue).await,
        }
    }

    /// Whether a run was a change from outside, after which nothing runs, and left something to do.
    async fn made_due(&self, run: &RunRow) -> Result<bool, Error> {
        let changed = matches!(run.new.input, RunInput::Update { .. });
        Ok(changed && !self.runtime.state(&self.who, &run.new.at.thread).await?.next.is_empty())
    }

    /// Whether to go on after a failed run is to take its input once more.
    async fn begins_anew(&self, run: &RunRow) -> Result<bool, Error> {
        let (at, store) = (&run.new.at, self.store());
        if !run.brings() || has_begun(store.as_ref(), &self.who, at).await? {
            return Ok(false);
        }
        let head = store.thread(&self.who, &at.thread).await?.head;
        // What is due would be lost with that input.
        let state = self.runtime.state(&self.who, &at.thread).await?;
        Ok(run.begins_elsewhere(head) || state.next.is_empty())
    }

    /// Puts the last run of a thread back once it failed, and goes on with it; see
    /// [`Runtime::requeue`].
    ///
    /// # Errors
    /// What the store says when the run cannot be requeued: it goes, it did not fail, or the thread
    /// had other runs since.
    pub async fn requeue(&self, run: &RunRef) -> Result<RunHandle, Error> {
        Ok(self.runtime.requeue(&self.who, run).await?)
    }

    /// Asks a run to stop.
    ///
    /// # Errors
    /// [`Error::Run`] when there is no such run or it has ended.
    pub async fn cancel(&self, run: &RunRef) -> Result<(), Error> {
        Ok(self.runtime.cancel(&self.who, run).await?)
    }

    /// Waits for a run's end and collects what it told.
    ///
    /// # Errors
    /// [`Error::Run`] when it failed.
    pub async fn reply(&self, handle: RunHandle) -> Result<Reply, Error> {
        let RunHandle { run, events, outcome } = handle;
        let events = events.collect().await;
        match outcome.await {
            RunFinal::Failed { fault } => Err(Error::Run(fault)),
            outcome => Ok(Reply::new(run, self.model().clone(), events, outcome)),
        }
    }

    async fn agent_of(&self, thread: &ThreadId) -> Result<String, Error> {
        match self.store().thread(&self.who, thread).await {
            Ok(row) => Ok(row.graph),
            Err(StoreError::NotFound { .. }) => {
                let first = self.agents.first().map(|agent| agent.id().to_owned());
                first.ok_or_else(|| Error::UnknownAgent { found: String::new(), known: Vec::new() })
            }
            Err(error) => Err(error.into()),
        }
    }
}
