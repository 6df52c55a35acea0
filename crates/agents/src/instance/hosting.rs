//! Arguments of nodes and tools: the hosting runtime, and the payload.

use super::AgentRuntime;
use super::activity::{Activity, Sent};
use super::logic::{Logic, LogicCaller};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_graph::{Ctx, FromTask, NodeError, Reads, TaskInput};
use weftwork_store::NewRun;
use weftwork_types::instance::{
    ACTIVITY_PAYLOAD, AgentRuntimeError, AgentRuntimeErrorKind as Kind,
};
use weftwork_types::run::RunRef;
use weftwork_types::{InstanceId, RunId};

/// Member of the metadata of a run that marks it as an activity, or as a continuation of one.
pub(super) const OF_INSTANCE: &str = "weft:instance";

/// Returns the activity that a run is or continues; `None` if it belongs to no instance.
pub(super) fn activity_of(run: &NewRun) -> Option<&RunRef> {
    let is_activity = || run.options.metadata.get(OF_INSTANCE) == Some(&Json::Bool(true));
    run.options.activity.as_ref().or_else(|| is_activity().then_some(&run.at))
}

/// The instance that executes a run, as a dependency: tools take it as
/// [`Deps`](weftwork_tools::Deps), after
/// [`ToolBox::provide_run_scoped`](weftwork_tools::ToolBox::provide_run_scoped), and nodes as
/// [`Hosting`].
#[derive(Debug, Clone)]
pub struct HostedInstance {
    agents: AgentRuntime,
    instance: InstanceId,
    activity: RunId,
}

impl HostedInstance {
    pub(super) fn new(agents: AgentRuntime, activity: &RunRef) -> Self {
        let RunRef { thread, run } = activity;
        Self { agents, instance: InstanceId::from(thread), activity: run.clone() }
    }

    /// The agent runtime that hosts the instance, on behalf of the principal of the activity.
    #[must_use]
    pub fn agents(&self) -> &AgentRuntime {
        &self.agents
    }

    /// Id of the instance.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Id of the activity.
    #[must_use]
    pub fn activity(&self) -> &RunId {
        &self.activity
    }
}

/// The agent runtime that hosts the instance of a node, as an argument of the node; in subgraphs, and
/// after a restart in another process, too. The graph needs no declaration.
#[derive(Debug, Clone)]
pub struct Hosting {
    hosted: Arc<HostedInstance>,
    ctx: Ctx,
}

impl FromTask for Hosting {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let ctx = Ctx::from_task(input)?;
        let Some(hosted) = ctx.calls().dependencies.get::<HostedInstance>() else {
            let text = format!(
                "node `{}` takes `Hosting`, and its run is no activity of an instance, or no agent runtime was built over this runtime; build one, and send the activity by `AgentRuntime::send`",
                ctx.node()
            );
            return Err(AgentRuntimeError::new(Kind::NotHosted, text).into());
        };
        Ok(Self { hosted, ctx })
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

impl std::ops::Deref for Hosting {
    type Target = HostedInstance;

    fn deref(&self) -> &HostedInstance {
        &self.hosted
    }
}

impl Hosting {
    /// Sends an activity from a node. Without an idempotency key it has one that follows from the
    /// task: a node that is executed again, after a crash for example, sends it once.
    ///
    /// # Errors
    /// As [`AgentRuntime::send`].
    ///
    /// # Cancel safety
    /// As [`AgentRuntime::send`].
    pub async fn send(
        &self,
        to: impl AsRef<InstanceId>,
        mut activity: Activity,
    ) -> Result<Sent, AgentRuntimeError> {
        if activity.idempotency_key.is_none() {
            // Without the prefix of other keys of the runtime: a node that an earlier version
            // executed sends it once, too. No other key has this hash.
            let key = self.ctx.tool_call_id(&format!("send {}", to.as_ref()));
            activity = activity.idempotency_key(format!("activity:{key}"));
        }
        self.agents().send(to, activity).await
    }

    /// Runs logic over the services of the agent runtime. Calls of models and tools have the journal,
    /// the budget and the deadline of the node.
    ///
    /// ```
    /// use weftwork_agents::{AgentRuntimeError, Hosting};
    /// use weftwork_types::run::RunStatus;
    ///
    /// async fn names(hosting: Hosting) -> Result<Vec<String>, AgentRuntimeError> {
    ///     hosting.run(async |logic| {
    ///         Ok::<_, std::io::Error>(logic.models().names().map(str::to_owned).collect())
    ///     }).await
    /// }
    /// # let _ = names;
    /// ```
    ///
    /// # Errors
    /// The error of the logic as one [`AgentRuntimeError`] of kind `Logic` with the error as its
    /// cause; an error that is an `AgentRuntimeError` is returned as it is, however deep `run` is
    /// nested. Kind `Panicked` if the logic panicked. A question to a person within the logic is an
    /// error: ask before, in the node.
    ///
    /// # Cancel safety
    /// As that of the logic.
    pub async fn run<T, E, F>(&self, logic: F) -> Result<T, AgentRuntimeError>
    where
        F: AsyncFnOnce(Logic) -> Result<T, E>,
        E: Into<NodeError>,
    {
        let agents = self.agents().clone();
        Logic { agents, caller: LogicCaller::Node(self.ctx.clone()) }.run(logic).await
    }
}

/// The payload of the activity, as an argument of a node.
#[derive(Debug, Clone)]
pub struct ActivityPayload<T>(pub T);

impl<T: DeserializeOwned> FromTask for ActivityPayload<T> {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let ctx = Ctx::from_task(input)?;
        let payload = ctx.calls().configurable.get(ACTIVITY_PAYLOAD).cloned().unwrap_or_default();
        read_payload(payload).map(Self).map_err(NodeError::from)
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

/// Reads a payload.
pub(super) fn read_payload<T: DeserializeOwned>(payload: Json) -> Result<T, AgentRuntimeError> {
    serde_json::from_value(payload).map_err(|error| {
        let text = format!(
            "the payload is no `{}`: {error}; send one that is",
            std::any::type_name::<T>()
        );
        AgentRuntimeError::new(Kind::InvalidState, text)
    })
}
