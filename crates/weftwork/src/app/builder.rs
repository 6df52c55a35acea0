//! The builder of an app.

use super::App;
use crate::agent_def::AgentDef;
use crate::config::{Flags, McpTools, Origin, Setting, StorePlace, ToolRules};
use crate::run_dependencies::{MakeDependencies, RunDependencies};
use crate::{Config, Error};
use std::path::PathBuf;
use std::sync::Arc;
use weftwork_agents::{AgentError, AgentRuntime, AgentRuntimeBuilder};
use weftwork_graph::{IntoGraph, SystemClock};
use weftwork_models::{ChatModel, ModelChoice, Recorder};
use weftwork_runtime::{DependencyError, Recovery, Runtime, RuntimeBuilder};
use weftwork_store::{NewRun, Store};
use weftwork_tools::ToolBox;
use weftwork_types::Principal;
use weftwork_types::port::{Budgets, Clock, Dependencies, GraphExecutor, Limits};
use weftwork_types::run::{Durability, Multitask};

/// Builder of an [`App`].
#[derive(Debug, Default)]
#[must_use]
pub struct AppBuilder {
    config: Option<Config>,
    model: Option<ModelChoice>,
    default_model: Option<String>,
    agents: Vec<AgentDef>,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    durability: Durability,
    multitask: Multitask,
    record: Option<PathBuf>,
    budgets: Option<Arc<dyn Budgets>>,
    thread_budget: Option<Limits>,
    build_version: Option<&'static str>,
    recovery: Option<Recovery>,
    runs_max: Option<usize>,
    map_executor: Option<Opaque<Box<WrapExecutor>>>,
    make_dependencies: Option<Opaque<Box<MakeDependencies>>>,
    services: Option<Opaque<Box<AddServices>>>,
}

type WrapExecutor = dyn Fn(Arc<dyn GraphExecutor>) -> Arc<dyn GraphExecutor> + Send + Sync;
type AddServices = dyn FnOnce(AgentRuntimeBuilder) -> AgentRuntimeBuilder + Send + Sync;

/// A function of the program, of which `Debug` shows nothing.
struct Opaque<T>(T);

impl<T> std::fmt::Debug for Opaque<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("function")
    }
}

impl AppBuilder {
    /// Sets the configuration; the default is that of the process ([`Config::from_env`]).
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the model, overriding the configuration: an id, `provider:model`, or a model that the
    /// program has made.
    ///
    /// ```
    /// use weftwork::prelude::*;
    /// use weftwork::testing::{ScriptedModel, Step};
    ///
    /// # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
    /// # async fn main() -> Result<(), weftwork::Error> {
    /// let app = App::builder()
    ///     .config(Config::in_memory())
    ///     .model(ScriptedModel::from_fn(|request| Step::text(request.last_user_text())))
    ///     .agent("chat", |model| ReactAgent::new("chat", model).build())
    ///     .open()
    ///     .await?;
    /// assert_eq!(app.ask("t", "Hello").await?.text(), "Hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn model(mut self, model: impl Into<ModelChoice>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the model that is used if the configuration names none, such as `scripted` for a trial.
    /// Without a model an app does not open.
    pub fn default_model(mut self, id: impl Into<String>) -> Self {
        self.default_model = Some(id.into());
        self
    }

    /// Adds an agent, under the id `app:NAME`: an agent, a prompt with the model, or any graph.
    pub fn agent<G: IntoGraph>(
        self,
        name: &str,
        make: impl Fn(Arc<dyn ChatModel>) -> G + Send + Sync + 'static,
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

    /// Limits the runs of each thread together, in addition to the budgets of runs, overriding the
    /// configuration; see
    /// [`RuntimeBuilder::thread_budget`](weftwork_runtime::RuntimeBuilder::thread_budget).
    pub fn thread_budget(mut self, limits: Limits) -> Self {
        self.thread_budget = Some(limits);
        self
    }

    /// Sets the commit that the program was built from, from [`build_version!`](crate::build_version):
    /// the version that usage facts show of graphs without one of their own. `WEFT_GRAPH_VERSION`
    /// overrides it; without either it is the build id of the executable.
    pub fn build_version(mut self, version: Option<&'static str>) -> Self {
        self.build_version = version;
        self
    }

    /// Sets the handling of runs that no living worker has; see [`Recovery`]. The default is
    /// [`Recovery::Automatic`] over a file or a database of the configuration, and
    /// [`Recovery::Manual`] in memory and over a store that the program opened.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.recovery = Some(recovery);
        self
    }

    /// Sets a function that makes the values of each run, for its principal: a connection to the
    /// database of an organisation, for example. Nodes and tools take them as `Deps`, after
    /// [`Graph::with_run_scoped`](weftwork_graph::Graph::with_run_scoped) or
    /// [`ToolBox::provide_run_scoped`](weftwork_tools::ToolBox::provide_run_scoped). See
    /// [`RuntimeBuilder::graph_with`](weftwork_runtime::RuntimeBuilder::graph_with). A later function
    /// replaces an earlier one.
    pub fn dependencies<F>(mut self, make: F) -> Self
    where
        F: Fn(&Principal, &NewRun) -> Result<Dependencies, DependencyError> + Send + Sync + 'static,
    {
        self.make_dependencies = Some(Opaque(Box::new(make)));
        self
    }

    /// Changes the services of [`App::instances`]. Before, they are the model of the app, named
    /// `default`; the providers of the configuration; the tools of its MCP servers, and its rules for
    /// tools, then those of the servers. A later function replaces an earlier one.
    pub fn services<F>(mut self, add: F) -> Self
    where
        F: FnOnce(AgentRuntimeBuilder) -> AgentRuntimeBuilder + Send + Sync + 'static,
    {
        self.services = Some(Opaque(Box::new(add)));
        self
    }

    /// Limits the number of runs that this app executes at once; see
    /// [`RuntimeBuilder::runs_max`](weftwork_runtime::RuntimeBuilder::runs_max). There is no limit by
    /// default.
    pub fn runs_max(mut self, runs_max: usize) -> Self {
        self.runs_max = Some(runs_max);
        self
    }

    /// Wraps the executor through which the runs of this app start and are cancelled; see
    /// [`RuntimeBuilder::map_executor`](weftwork_runtime::RuntimeBuilder::map_executor). A later
    /// function replaces an earlier one.
    pub fn map_executor<F>(mut self, map: F) -> Self
    where
        F: Fn(Arc<dyn GraphExecutor>) -> Arc<dyn GraphExecutor> + Send + Sync + 'static,
    {
        self.map_executor = Some(Opaque(Box::new(map)));
        self
    }

    /// Opens the model and the store, compiles the agents, and registers this process as a worker.
    ///
    /// # Errors
    /// [`Error::NoModel`] if neither the program nor its configuration names a model, and [`Error`]
    /// for an invalid configuration or agent, or a model or store that cannot be opened.
    pub async fn open(self) -> Result<App, Error> {
        let config = match self.config {
            Some(config) => config,
            None => Config::with_flags(&Flags::default())?,
        };
        let OpenedModel { mut model, chosen } =
            open_model(&config, self.model, self.default_model)?;
        let make = self.make_dependencies.map(|Opaque(make)| make);
        let models = Arc::new(RunDependencies::new(config.clone(), model.as_ref(), make));
        if let Some(cassette) = self.record {
            model = Arc::new(Recorder::new(model, cassette));
        }
        let graphs = self
            .agents
            .iter()
            .filter(|agent| !agent.is_defined())
            .map(|agent| Ok((agent.id().to_owned(), agent.compile(Arc::clone(&model))?)))
            .collect::<Result<Vec<_>, AgentError>>()?;
        if let Some(rules) = &config.rules {
            rules.check()?;
        }
        let usual = match (&self.store, &config.store.value) {
            (None, StorePlace::Sqlite(_) | StorePlace::Postgres(_)) => Recovery::Automatic,
            _ => Recovery::Manual,
        };
        let store = match self.store {
            Some(store) => store,
            None => config.store.value.open()?,
        };
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let mut builder = Runtime::builder(Arc::clone(&store))
            .clock(Arc::clone(&clock))
            .recovery(self.recovery.unwrap_or(usual));
        if let Some(budgets) = self.budgets {
            builder = builder.budgets(budgets);
        }
        builder = with_limits(builder, &config, self.thread_budget);
        if let Some(version) = config.graph_version.as_deref().or(self.build_version) {
            builder = builder.program_version(version);
        }
        if let Some(runs_max) = self.runs_max {
            builder = builder.runs_max(runs_max);
        }
        if let Some(Opaque(map)) = self.map_executor {
            builder = builder.map_executor(map);
        }
        #[cfg(feature = "otel")]
        let telemetry = config.start_telemetry(&store, &clock)?;
        #[cfg(feature = "otel")]
        if let Some(telemetry) = &telemetry {
            builder = builder.observer(Arc::clone(telemetry) as _);
        }
        for server in config.remotes.servers() {
            builder = builder.remote_server(server);
        }
        #[cfg(feature = "platform")]
        let defined = {
            let definitions = config.read_definitions()?;
            let defined = config.define_agents(definitions, Arc::clone(&model), Arc::clone(&store));
            defined.keep_versions(&*store, clock.now()).await?;
            defined
        };
        #[cfg(feature = "platform")]
        {
            let models = Arc::clone(&models);
            let source = Arc::new(defined.clone());
            builder = builder
                .map_budgets(|others| defined.budgets(others))
                .graph_source_with(source, move |who, run| models.dependencies(who, run));
        }
        for (id, graph) in graphs {
            let models = Arc::clone(&models);
            builder = builder.graph_with(id, graph, move |who, run| models.dependencies(who, run));
        }
        let runtime = builder.open().await?;
        let add = self.services.map(|Opaque(add)| add);
        let instances = open_instances(&runtime, &config, &model, add)?;
        let who = Principal::local();
        Ok(App {
            runtime,
            instances,
            model,
            chosen,
            models,
            run_model: None,
            budget: None,
            limit: None,
            step_limit: None,
            agents: self.agents,
            #[cfg(feature = "platform")]
            defined,
            #[cfg(feature = "otel")]
            telemetry,
            who,
            clock,
            durability: self.durability,
            multitask: self.multitask,
        })
    }
}

/// Sets the limits of runs: those of the program, or else those of the configuration.
fn with_limits(
    builder: RuntimeBuilder,
    config: &Config,
    thread_budget: Option<Limits>,
) -> RuntimeBuilder {
    let builder = builder.limits(config.limits.clone());
    let in_config = config.thread_budget.as_ref().map(|setting| setting.value);
    match thread_budget.or(in_config) {
        Some(limits) => builder.thread_budget(limits),
        None => builder,
    }
}

/// The model of an app, and the id under which its runs record it.
struct OpenedModel {
    model: Arc<dyn ChatModel>,
    chosen: Setting<String>,
}

fn open_model(
    config: &Config,
    of_program: Option<ModelChoice>,
    usual: Option<String>,
) -> Result<OpenedModel, Error> {
    let id = match of_program {
        Some(ModelChoice::Model(model)) => {
            let chosen = Setting { value: model.info().id(), origin: Origin::Program };
            return Ok(OpenedModel { model, chosen });
        }
        Some(ModelChoice::Id(value)) => Some(Setting { value, origin: Origin::Program }),
        None => None,
    };
    let usual = usual.map(|value| Setting { value, origin: Origin::Default });
    let chosen = id.or(config.model.clone()).or(usual).ok_or(Error::NoModel)?;
    Ok(OpenedModel { model: config.open_model(&chosen.value)?, chosen })
}

/// Builds the agent runtime of an app, with all services that its configuration has.
fn open_instances(
    runtime: &Runtime,
    config: &Config,
    model: &Arc<dyn ChatModel>,
    add: Option<Box<AddServices>>,
) -> Result<AgentRuntime, AgentError> {
    let mcp = config.mcp.as_ref().map(McpTools::parts);
    let rules = config.rules.as_ref().map(ToolRules::policy);
    let mut policy = rules.unwrap_or_default();
    let mut tools = ToolBox::new();
    if let Some((of_servers, of_their_tools)) = mcp {
        tools = tools.with_all(of_servers);
        policy = policy.then(of_their_tools);
    }
    let services = AgentRuntime::over(runtime.clone())
        .model("default", Arc::clone(model))
        .providers(Arc::new(config.models_on_demand()))
        .policy(policy)
        .tools(tools);
    let services = match add {
        Some(add) => add(services),
        None => services,
    };
    services
        .build()
        .map_err(|source| AgentError::Tools { agent: "agent runtime".to_owned(), source })
}
