//! The context of commands: configuration, agents and terminal output.

use crate::CliError;
use crate::terminal::Terminal;
#[cfg(feature = "otel")]
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use weftwork::config::{Flags, Origin, Setting, StorePlace};
use weftwork::graph::{CompiledGraph, SystemClock};
use weftwork::platform::{AGENTS, Definitions, Sandbox};
use weftwork::runtime::{Recovery, Runtime, delete_remote_threads, unversioned};
use weftwork::store::{RunRow, Store, StoreError, ThreadRow, invariants};
use weftwork::testing::ScriptedModel;
use weftwork::types::port::Clock as _;
#[cfg(feature = "otel")]
use weftwork::types::port::RunObserver as _;
use weftwork::types::run::{Durability, Multitask, RunOutcome, RunStatus};
use weftwork::types::{Principal, ThreadId};
use weftwork::{AgentDef, App, AppBuilder, Config};

/// The default agent.
pub const USUAL_AGENT: &str = "desk";
/// Path of a cassette in which the model's answers are recorded, for tests that replay them.
const RECORD_VARIABLE: &str = "WEFT_TEST_RECORD";

/// Time limit for sending traces at the end of a command.
#[cfg(feature = "otel")]
const EXPORT: std::time::Duration = std::time::Duration::from_secs(2);

/// The argument with which the program is the process of a sandbox.
pub const SANDBOX_PROCESS: &str = "sandbox-process";

/// Loads the configuration of flags, with the sandbox that this program is.
pub fn load_config(flags: &Flags) -> Result<Config, CliError> {
    let mut config = Config::with_flags(flags)?;
    if cfg!(feature = "sandbox") {
        let program = std::env::current_exe();
        config.sandbox = program.ok().map(|program| Sandbox::new(program, [SANDBOX_PROCESS]));
    }
    Ok(config)
}

/// A function that creates an agent from the configuration.
pub type Make = dyn Fn(&Config) -> AgentDef;

pub struct CommandContext {
    pub config: Config,
    /// Flags from which the configuration was loaded.
    pub flags: Flags,
    makers: Rc<[Box<Make>]>,
    pub agents: Vec<AgentDef>,
    pub terminal: Terminal,
    /// `true` if the store outlives the command.
    pub lasting: bool,
    /// Files of definitions with problems.
    broken_definitions: BTreeSet<String>,
    /// Exports of the opened apps.
    #[cfg(feature = "otel")]
    exports: Exports,
}

/// The exports of traces of a command, to complete them at its end.
#[cfg(feature = "otel")]
type Exports = Rc<RefCell<Vec<Arc<weftwork::telemetry::Telemetry>>>>;

/// A thread with its runs, as stored.
#[derive(Debug)]
pub struct Found {
    pub row: ThreadRow,
    pub runs: Vec<RunRow>,
}

impl Found {
    /// The first run that has not ended.
    pub fn unfinished(&self) -> Option<&RunRow> {
        // Activities that wait in the mailbox of an instance are behind what it does now.
        let waits =
            |run: &RunRow| run.status == RunStatus::Queued && run.new.options.mailbox.is_some();
        self.runs.iter().find(|run| !run.status.is_final() && !waits(run))
    }

    /// Returns `true` if the last run stopped before or after a node, without a question.
    pub fn stopped_at_node(&self) -> bool {
        let outcome = self.runs.last().and_then(|run| run.outcome.as_ref());
        matches!(outcome, Some(RunOutcome::Interrupted { interrupts, .. }) if interrupts.is_empty())
    }

    /// The agent that last ran on the thread, or the default one.
    pub fn graph(&self) -> &str {
        self.row.graph.as_deref().unwrap_or(USUAL_AGENT)
    }

    /// The model of the last run that names one, or that has one of its own.
    pub fn model(&self) -> Option<&str> {
        self.runs.iter().rev().find_map(|run| {
            let options = &run.new.options;
            options.run_model.as_deref().or(options.model.as_deref())
        })
    }
}

/// The settings of the runs that a command starts.
#[derive(Debug, Clone, Copy)]
pub struct RunSettings {
    pub durability: Durability,
    pub multitask: Multitask,
}

impl CommandContext {
    /// Creates the agents from the configuration.
    pub fn new(
        config: Config,
        flags: Flags,
        makers: Rc<[Box<Make>]>,
        mut terminal: Terminal,
    ) -> Self {
        let own = makers.iter().map(|make| make(&config));
        // A folder that cannot be read is an error of the commands that open an app.
        let definitions = config.read_definitions().unwrap_or_default();
        let defined = AgentDef::of_definitions(&config, &definitions);
        let broken = definitions.problems.into_iter().map(|problem| problem.file).collect();
        let agents = own.chain(config.remotes.agents()).chain(defined).collect();
        let lasting = config.store.value != StorePlace::Memory;
        terminal.lasting = lasting;
        let broken_definitions = broken;
        Self {
            config,
            flags,
            makers,
            agents,
            terminal,
            lasting,
            broken_definitions,
            #[cfg(feature = "otel")]
            exports: Exports::default(),
        }
    }

    /// Sends the traces of the runs of the command, for a limited time.
    pub async fn close_exports(&self) {
        #[cfg(feature = "otel")]
        {
            let exports = std::mem::take(&mut *self.exports.borrow_mut());
            let closed = exports.iter().map(|telemetry| telemetry.close(EXPORT));
            futures_util::future::join_all(closed).await;
        }
    }

    fn opened(&self, app: App) -> App {
        #[cfg(feature = "otel")]
        self.exports.borrow_mut().extend(app.telemetry().cloned());
        app
    }

    /// Returns a copy with another store, which outlives the command if it is `lasting`.
    pub fn moved(&self, store: StorePlace, lasting: bool) -> Self {
        let store = Setting { value: store, origin: Origin::Program };
        let config = Config { store, ..self.config.clone() };
        let makers = Rc::clone(&self.makers);
        let mut moved = Self::new(config, self.flags.clone(), makers, self.terminal.clone());
        moved.lasting = lasting;
        moved.terminal.lasting = lasting;
        #[cfg(feature = "otel")]
        moved.exports.clone_from(&self.exports);
        moved
    }

    /// Says that an agent of the program has the slug of a definition.
    pub fn note_name(&self, slug: &str) {
        let of_program = self.agents.iter().find(|of| !of.is_defined() && of.name() == slug);
        if let Some(agent) = of_program {
            self.terminal.note(format_args!(
                "warning: the slug {slug} is also the name of the agent {}, which commands and clients get by it; ask the definition by `weft agents run {slug}` or as `agents:{slug}`, or choose another slug",
                agent.id()
            ));
        }
    }

    /// Says which definitions of agents have problems, or the name of another agent.
    pub fn note_problems(&self) {
        for agent in self.agents.iter().filter(|agent| agent.is_defined()) {
            self.note_name(agent.name());
        }
        for file in &self.broken_definitions {
            self.terminal.note(format_args!(
                "the definition {file} has problems; its last version in the store is used, if there is one; `weft agents check` shows the problems"
            ));
        }
    }

    /// Finds an agent by name or id. The id of a defined agent that has no file here is one of the
    /// store: that of a row, or of a thread that goes on with a version there.
    pub fn agent(&self, name: &str) -> Result<AgentDef, CliError> {
        match weftwork::find_agent(&self.agents, name) {
            Ok(agent) => Ok(agent.clone()),
            Err(unknown) => match unversioned(name).strip_prefix(AGENTS) {
                Some(slug) => Ok(AgentDef::of_row(slug)),
                None => Err(unknown.into()),
            },
        }
    }

    /// Finds an agent by name or id, also by the slug of a row of the store.
    pub async fn find_agent(&self, name: &str) -> Result<AgentDef, CliError> {
        let unknown = match self.agent(name) {
            Ok(agent) => return Ok(agent),
            Err(unknown) => unknown,
        };
        if self.is_new() {
            return Err(unknown);
        }
        let store = self.store()?;
        let model = Arc::new(ScriptedModel::rules());
        let agents = self.config.define_agents(Definitions::default(), model, Arc::clone(&store));
        let now = SystemClock::new().now();
        agents.keep_versions(&*store, now).await.map_err(weftwork::Error::from)?;
        match agents.definition(&Principal::local(), name) {
            Some(_) => Ok(AgentDef::of_row(name)),
            None => Err(unknown),
        }
    }

    /// Opens the store.
    pub fn store(&self) -> Result<Arc<dyn Store>, CliError> {
        Ok(self.config.store.value.open()?)
    }

    /// Opens a store that must exist: commands that only read create no files.
    pub fn store_there(&self) -> Result<Arc<dyn Store>, CliError> {
        self.is_there()?;
        self.store()
    }

    /// Opens the store for a command about one thread, without creating files.
    pub fn store_of(&self, thread: &ThreadId) -> Result<Arc<dyn Store>, CliError> {
        if self.is_new() {
            return Err(invariants::missing("thread", thread).into());
        }
        self.store_there()
    }

    /// Deletes the threads on other servers whose thread in the store was deleted, once each. What is
    /// left is deleted later, by a process that stays.
    pub async fn delete_remote_threads(&self, store: &dyn Store) -> Result<(), CliError> {
        let clock = SystemClock::new();
        let result = delete_remote_threads(store, &clock, &self.config.remotes.servers()).await;
        let left = result.map_err(weftwork::Error::from)?.left;
        if left > 0 {
            self.terminal.note(format_args!(
                "{left} threads on other servers are not deleted yet; `weft serve` and `weft worker` repeat it"
            ));
        }
        Ok(())
    }

    /// Returns `true` if no store is configured and the default one does not exist yet.
    pub fn is_new(&self) -> bool {
        self.config.store.origin == Origin::Default && self.is_there().is_err()
    }

    /// Fails if the store's file does not exist.
    pub fn is_there(&self) -> Result<(), CliError> {
        match &self.config.store.value {
            StorePlace::Sqlite(file) if !file.exists() => {
                Err(CliError::from(StoreError::Unavailable {
                    location: file.display().to_string(),
                    reason: "the file does not exist; set the store with --store".to_owned(),
                    retriable: false,
                }))
            }
            _ => Ok(()),
        }
    }

    /// Reads a thread with its runs.
    pub async fn thread(&self, store: &dyn Store, id: &ThreadId) -> Result<Found, CliError> {
        let who = Principal::local();
        Ok(Found { row: store.thread(&who, id).await?, runs: store.runs(&who, id).await? })
    }

    /// Opens an app with one agent. The model is that of the flag, else the `recorded` one of the
    /// thread, else that of the configuration.
    pub async fn open(
        &self,
        agent: &AgentDef,
        store: Option<Arc<dyn Store>>,
        recorded: Option<&str>,
        settings: RunSettings,
    ) -> Result<App, CliError> {
        let mut builder = App::builder()
            .durability(settings.durability)
            .multitask(settings.multitask)
            // A command continues the runs that it is told to.
            .recovery(Recovery::Manual)
            .config(self.config.clone())
            .default_model(default_model())
            .agent_def(agent.clone());
        // Without a store here, the app opens its own, after it has opened the model.
        if let Some(store) = store {
            builder = builder.store(store);
        }
        let flag = self.config.model.as_ref().filter(|s| matches!(s.origin, Origin::Flag(_)));
        if let Some(model) = recorded
            && flag.is_none()
        {
            builder = builder.model(model);
        }
        if let Some(cassette) = std::env::var_os(RECORD_VARIABLE) {
            builder = builder.record(cassette);
        }
        if self.config.rules.is_some() {
            self.compile_agents()?;
        }
        Ok(self.opened(Box::pin(builder.open()).await?))
    }

    /// Opens an app with all agents and the configured model, else the `usual` one, which executes at
    /// most `runs_max` runs at a time.
    pub async fn open_all(
        &self,
        usual: &str,
        runs_max: Option<NonZeroUsize>,
    ) -> Result<App, CliError> {
        self.note_problems();
        // Processes that stay look for such runs themselves, and say what they continue.
        let builder = App::builder().recovery(Recovery::Manual).config(self.config.clone());
        let builder = builder.default_model(usual);
        let builder = self.agents.iter().cloned().fold(builder, AppBuilder::agent_def);
        let builder = match runs_max {
            Some(runs_max) => builder.runs_max(runs_max.get()),
            None => builder,
        };
        Ok(self.opened(Box::pin(builder.open()).await?))
    }

    /// Opens a runtime that hosts the graph of one agent, to follow its runs and to change the state
    /// of its threads. The model of the agent is scripted and not called.
    pub async fn reader(&self, agent: &str, store: Arc<dyn Store>) -> Result<Runtime, CliError> {
        let agent = self.agent(agent)?;
        let graph = agent.compile(Arc::new(ScriptedModel::rules()))?;
        Ok(Runtime::builder(store).graph(agent.id(), graph).open().await?)
    }

    /// Compiles all agents, so that the operator's rules are compared with the tools of all agents, and
    /// not only with the tools of the agent of a command.
    pub fn compile_agents(&self) -> Result<(), CliError> {
        // A defined agent that cannot be compiled here costs itself alone.
        let of_program = self.agents.iter().filter(|agent| !agent.is_defined());
        of_program.into_iter().try_for_each(|agent| self.graph_of(agent.id()).map(drop))?;
        let defined = self.agents.iter().filter(|agent| agent.is_defined());
        defined.for_each(|agent| drop(self.graph_of(agent.id())));
        Ok(())
    }

    /// Compiles an agent's graph with a scripted model, for inspection only.
    pub fn graph_of(&self, agent: &str) -> Result<CompiledGraph, CliError> {
        Ok(self.agent(agent)?.compile(Arc::new(ScriptedModel::rules()))?)
    }
}

/// The default model.
pub fn default_model() -> &'static str {
    "local"
}
