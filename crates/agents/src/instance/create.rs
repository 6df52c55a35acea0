//! Creation of instances.

use super::AgentRuntime;
use super::error::{invalid_request, of_runtime, of_store};
use super::handler::{ActivityContext, ERROR_CHANNEL, STATE_CHANNEL, handler_graph};
use super::options::{InstanceOptions, MAILBOX_CAPACITY_MAX, OPTIONS, StoredOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};
use weftwork_graph::{CompiledGraph, NodeError, RuntimeError};
use weftwork_store::mailbox::INSTANCE;
use weftwork_store::{Metadata, RunRow, StoreError, ThreadRow, mailbox};
use weftwork_types::caller::Caller;
use weftwork_types::code::Fault;
use weftwork_types::instance::{ACTIVITY_PAYLOAD, AgentRuntimeError, AgentRuntimeErrorKind};
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome, RunRequest, RunStatus};
use weftwork_types::{InstanceId, ThreadId};

/// Begin of the idempotency keys of runs that write initial states. Clients cannot use such keys.
const CREATION: &str = "weft:create:";
/// The same in stores of earlier versions.
const CREATION_BEFORE: &str = "create:";

/// A handle of an instance. It need not be kept: the instance is in the store.
#[derive(Debug, Clone)]
pub struct Instance {
    agents: AgentRuntime,
    id: InstanceId,
}

impl Instance {
    /// Id of the instance.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// The agent runtime that created the handle.
    #[must_use]
    pub fn agents(&self) -> &AgentRuntime {
        &self.agents
    }
}

impl AsRef<InstanceId> for Instance {
    fn as_ref(&self) -> &InstanceId {
        &self.id
    }
}

impl AgentRuntime {
    /// Creates an instance with a state and an asynchronous handler, which returns the next state for
    /// each activity. The handler is hosted under `kind`; see
    /// [`host_handler`](Self::host_handler).
    ///
    /// A repeated creation with the same id and options returns the instance, and `state` has no
    /// effect then.
    ///
    /// # Errors
    /// As [`create_graph_agent`](Self::create_graph_agent).
    pub async fn create<S, F, R, E>(
        &self,
        kind: &str,
        state: S,
        handler: F,
        options: InstanceOptions,
    ) -> Result<Instance, AgentRuntimeError>
    where
        S: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(S, ActivityContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<S, E>> + Send + 'static,
        E: Into<NodeError> + 'static,
    {
        let id = format!("instance:{kind}");
        let graph = match self.runtime().hosted(&id).is_some() {
            // No instance waits for it.
            true => self.replace_graph(&id, handler_of(kind, handler)?)?,
            false => self.host_handler(kind, handler).await?,
        };
        let state = serde_json::to_value(state).map_err(|error| {
            invalid_request(format!("the state of the instance is not JSON: {error}"))
        })?;
        let options = match options.stored.mailbox.error_channel.as_deref() {
            None => options.error_channel(ERROR_CHANNEL),
            Some(channel) if channel == STATE_CHANNEL => {
                let text =
                    "the errors of a handler cannot replace its state; leave `error_channel` out";
                return Err(invalid_request(text));
            }
            Some(_) => options,
        };
        self.create_of(&graph, json!({STATE_CHANNEL: state}), options).await
    }

    /// Hosts a handler under a kind: a process that did not create the instances of this kind calls
    /// this to execute their activities. Instances that wait for the handler continue.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn host_handler<S, F, R, E>(
        &self,
        kind: &str,
        handler: F,
    ) -> Result<String, AgentRuntimeError>
    where
        S: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(S, ActivityContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<S, E>> + Send + 'static,
        E: Into<NodeError> + 'static,
    {
        self.host(&format!("instance:{kind}"), handler_of(kind, handler)?).await
    }

    fn replace_graph(&self, id: &str, graph: CompiledGraph) -> Result<String, AgentRuntimeError> {
        self.runtime().host(id, graph).map_err(|error| of_runtime(id, error))
    }

    /// Hosts a graph under an id, in place of one that was hosted so before. Instances that wait for
    /// the graph continue.
    ///
    /// # Errors
    /// [`RuntimeError::DuplicateGraph`] as W0112 if the runtime was opened with a graph of this id,
    /// and errors of the store.
    pub async fn host(&self, id: &str, graph: CompiledGraph) -> Result<String, AgentRuntimeError> {
        let hosted = self.replace_graph(id, graph)?;
        // Dropping the handles does not end the activities.
        self.runtime().recover().await.map_err(|error| of_runtime(id, error))?;
        Ok(hosted)
    }

    /// Creates an instance of a compiled graph with an initial state: an object of channel values, or
    /// null for none. The graph is hosted under its name, unless the runtime was opened with it; after
    /// a restart the program hosts it again, with [`host`](Self::host).
    ///
    /// Each activity executes the graph from its start, on the state that the one before it left. The
    /// payload is the configurable entry `ea_activity_payload`, which nodes take as
    /// [`ActivityPayload`](super::ActivityPayload). Nodes take the agent runtime as
    /// [`Hosting`](super::Hosting).
    ///
    /// A repeated creation with the same id and options returns the instance, and `state` has no
    /// effect then.
    ///
    /// # Errors
    /// Kinds `PayloadCollision` if the run options have an entry of that name, `InvalidState` if the
    /// state or the error channel does not fit the graph, the graph stops before or after nodes, or the
    /// capacity of the mailbox is out of range, `InstanceExists`, `Terminated` for the id of a
    /// terminated instance; errors of the store.
    /// A refused creation stores nothing.
    ///
    /// # Cancel safety
    /// Repeat the call with the same id.
    pub async fn create_graph_agent(
        &self,
        graph: &CompiledGraph,
        state: impl Serialize,
        options: InstanceOptions,
    ) -> Result<Instance, AgentRuntimeError> {
        let state = serde_json::to_value(state).map_err(|error| {
            invalid_request(format!("the state of the instance is not JSON: {error}"))
        })?;
        let own = self.runtime().graphs().find(|(_, hosted)| is_same_graph(hosted, graph));
        let id = match own {
            Some((id, _)) => id.to_owned(),
            None => {
                let id = format!("app:{}", graph.name());
                match self.runtime().hosted(&id) {
                    Some(hosted) if is_same_graph(&hosted, graph) => id,
                    _ => self.host(&id, graph.clone()).await?,
                }
            }
        };
        self.create_of(&id, state, options).await
    }

    /// Creates an instance of a graph that is hosted, by its id. A repeated creation is as that of
    /// [`create_graph_agent`](Self::create_graph_agent).
    ///
    /// # Errors
    /// As [`create_graph_agent`](Self::create_graph_agent), and `GraphUnavailable`.
    pub async fn create_of(
        &self,
        graph: &str,
        state: Json,
        options: InstanceOptions,
    ) -> Result<Instance, AgentRuntimeError> {
        let InstanceOptions { id, mut metadata, mut stored } = options;
        check_collision(&stored.run.configurable)?;
        check_capacity(stored.mailbox.capacity)?;
        let clock = self.runtime().clock();
        let new = || InstanceId::new(uuid::Uuid::from_u128(clock.unique()).to_string());
        let id = match id {
            Some(id) => id,
            None => new().map_err(|error| invalid_request(error.to_string()))?,
        };
        let thread = ThreadId::from(&id);
        let name = id.as_str();
        let compiled = self.runtime().thread(graph, name).map_err(|e| of_runtime(name, e))?;
        if compiled.graph().stops(&stored.run) {
            return Err(invalid_request(format!(
                "graph `{graph}` stops before or after nodes, and the next activity would begin there; ask a question in a node instead, or set `interrupt_before` and `interrupt_after` of the run options to none"
            )));
        }
        let declared = compiled.graph().error_channel();
        let chosen = &mut stored.mailbox.error_channel;
        *chosen = chosen.take().or_else(|| declared.map(str::to_owned));
        let channel = chosen.as_deref();
        if let Some(missing) =
            channel.filter(|channel| compiled.graph().plan().channel_idx(channel).is_none())
        {
            return Err(invalid_request(format!(
                "graph `{graph}` has no channel `{missing}` for errors; declare it, or choose another one by `error_channel`"
            )));
        }
        stored.graph = compiled.graph_id().to_owned();
        metadata = mailbox::without_reserved(metadata);
        metadata.insert(INSTANCE.to_owned(), Json::Bool(true));
        metadata.insert(OPTIONS.to_owned(), json!(stored));
        let Some(key) = self.creation_key(&thread, &stored.graph, &metadata).await? else {
            return Ok(self.handle(&id));
        };
        let checked = compiled.graph().check_state(state.clone());
        checked.map_err(|error| refuse_creation(name, error.fault()))?;
        self.write_state(&thread, &stored.graph, state, key).await?;
        let marked = self.store().update_metadata(&self.who, &thread, metadata, clock.now());
        marked.await.map_err(|error| of_store(name, error))?;
        Ok(self.handle(&id))
    }

    /// Returns the idempotency key of the run that writes the initial state; `None` if the instance
    /// exists with the same options.
    async fn creation_key(
        &self,
        thread: &ThreadId,
        graph: &str,
        metadata: &Metadata,
    ) -> Result<Option<String>, AgentRuntimeError> {
        let name = thread.as_str();
        let runs = match self.store().thread(&self.who, thread).await {
            Ok(found) if mailbox::is_terminated(&found.metadata) => {
                return Err(of_store(name, mailbox::closed(thread)));
            }
            Ok(found) if mailbox::is_instance(&found.metadata) => {
                if found.metadata.get(OPTIONS) == metadata.get(OPTIONS) {
                    return Ok(None);
                }
                return Err(already_exists(name, &of_other_options(&found.metadata, metadata)));
            }
            // The creation was interrupted, or the thread is not an instance.
            Ok(found) => {
                let runs = self.store().runs(&self.who, thread).await;
                let runs = runs.map_err(|error| of_store(name, error))?;
                let is_other = found.graph.as_deref() != Some(graph)
                    || (runs.is_empty() && found.head.is_some())
                    || !runs.iter().all(|run| is_creation(run, name));
                if is_other {
                    return Err(already_exists(name, "a thread that is no instance"));
                }
                runs
            }
            Err(StoreError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(of_store(name, error)),
        };
        // A run that was not refused is repeated under its own key.
        let accepted = runs.iter().find(|run| run.status != RunStatus::Failed);
        let accepted = accepted.and_then(|run| run.new.options.idempotency_key.clone());
        // After a refused state, the next one is a request of its own. No id has a `#`.
        Ok(Some(accepted.unwrap_or_else(|| match runs.len() {
            0 => format!("{CREATION}{name}"),
            refused => format!("{CREATION}{name}#{refused}"),
        })))
    }

    /// Creates the thread of an instance with its initial state.
    async fn write_state(
        &self,
        thread: &ThreadId,
        graph: &str,
        state: Json,
        key: String,
    ) -> Result<(), AgentRuntimeError> {
        let name = thread.as_str();
        let as_node = Some("__state__".to_owned());
        let request = RunRequest {
            principal: self.who.clone(),
            caller: self.caller()?,
            graph: graph.to_owned(),
            thread: thread.clone(),
            input: RunInput::Update { writes: state, as_node },
            options: RunOptions { idempotency_key: Some(key), ..RunOptions::default() },
        };
        let created = self.runtime().execute(request).await;
        let created = created.map_err(|error| AgentRuntimeError::of_runtime(error.fault))?;
        match created.outcome.await {
            RunOutcome::Failed { fault } => Err(refuse_creation(name, fault)),
            _ => Ok(()),
        }
    }

    /// Returns a handle of an instance, which need not exist.
    #[must_use]
    pub fn handle(&self, id: &InstanceId) -> Instance {
        Instance { agents: self.clone(), id: id.clone() }
    }

    pub(super) fn caller(&self) -> Result<Caller, AgentRuntimeError> {
        let request = uuid::Uuid::from_u128(self.runtime().clock().unique()).to_string();
        Caller::local(request).map_err(|error| invalid_request(error.to_string()))
    }

    /// Reads the thread of an instance, and its options.
    pub(super) async fn instance(
        &self,
        id: &InstanceId,
    ) -> Result<(ThreadRow, StoredOptions), AgentRuntimeError> {
        let thread = ThreadId::from(id);
        let found = self.store().thread(&self.who, &thread).await;
        let row = found.map_err(|error| of_store(id.as_str(), error))?;
        let options = row.metadata.get(OPTIONS).filter(|_| mailbox::is_instance(&row.metadata));
        let options = options.ok_or_else(|| AgentRuntimeError::unknown_instance(id.as_str()))?;
        let options = StoredOptions::deserialize_from(options)
            .map_err(|error| invalid_request(format!("the options of instance `{id}`: {error}")))?;
        Ok((row, options))
    }
}

/// Returns `true` for a run that writes the initial state of an instance.
fn is_creation(run: &RunRow, instance: &str) -> bool {
    let key = run.new.options.idempotency_key.as_deref();
    let of = |key: &str| {
        let of = key.strip_prefix(CREATION).or_else(|| key.strip_prefix(CREATION_BEFORE));
        of.is_some_and(|of| of.split('#').next() == Some(instance))
    };
    matches!(run.new.input, RunInput::Update { .. }) && key.is_some_and(of)
}

fn handler_of<S, F, R, E>(kind: &str, handler: F) -> Result<CompiledGraph, AgentRuntimeError>
where
    S: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(S, ActivityContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<S, E>> + Send + 'static,
    E: Into<NodeError> + 'static,
{
    handler_graph(kind, handler)
        .map_err(|error| AgentRuntimeError::of_runtime(RuntimeError::from(error).fault()))
}

impl StoredOptions {
    fn deserialize_from(json: &Json) -> Result<Self, serde_json::Error> {
        serde::Deserialize::deserialize(json)
    }
}

/// Refuses configurable entries with the name of the payload.
pub(super) fn check_collision(configurable: &Map<String, Json>) -> Result<(), AgentRuntimeError> {
    if !configurable.contains_key(ACTIVITY_PAYLOAD) {
        return Ok(());
    }
    let text = format!(
        "configurable entry `{ACTIVITY_PAYLOAD}` is that of the payload; give the entry another name"
    );
    Err(AgentRuntimeError::new(AgentRuntimeErrorKind::PayloadCollision, text))
}

fn check_capacity(capacity: u32) -> Result<(), AgentRuntimeError> {
    if (1..=MAILBOX_CAPACITY_MAX).contains(&capacity) {
        return Ok(());
    }
    Err(invalid_request(format!(
        "the mailbox has a capacity of {capacity} activities; expected 1 to {MAILBOX_CAPACITY_MAX}"
    )))
}

/// Returns the error of an initial state that does not fit the graph.
fn refuse_creation(id: &str, cause: Fault) -> AgentRuntimeError {
    let what = format!("the initial state of instance `{id}` is not valid");
    AgentRuntimeError::wrap(AgentRuntimeErrorKind::InvalidState, &what, cause)
}

fn already_exists(id: &str, found: &str) -> AgentRuntimeError {
    let text = format!("`{id}` is the id of {found}; choose another id");
    AgentRuntimeError::new(AgentRuntimeErrorKind::InstanceExists, text)
}

/// Describes an instance with other options, by the names of the options that differ.
fn of_other_options(found: &Metadata, requested: &Metadata) -> String {
    let mut names = Vec::new();
    name_differences("", found.get(OPTIONS), requested.get(OPTIONS), &mut names);
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("an instance that has another {}", names.join(", "))
}

/// Adds the paths of the members in which two values differ.
fn name_differences(path: &str, a: Option<&Json>, b: Option<&Json>, names: &mut Vec<String>) {
    let (Some(Json::Object(a)), Some(Json::Object(b))) = (a, b) else {
        if a != b {
            names.push(path.to_owned());
        }
        return;
    };
    let only_in_b = b.keys().filter(|name| !a.contains_key(*name));
    for name in a.keys().chain(only_in_b) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        name_differences(&path, a.get(name), b.get(name), names);
    }
}

/// Returns `true` if a graph that the runtime was opened with is this one.
fn is_same_graph(hosted: &CompiledGraph, graph: &CompiledGraph) -> bool {
    std::sync::Arc::ptr_eq(hosted.plan(), graph.plan())
}
