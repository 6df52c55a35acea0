//! The agent runtime: instances of agents with a mailbox and a durable state (ADR 0050).
//!
//! An instance is a thread, an activity is a run of it, and the mailbox is the queue of the runs that
//! have not ended. [`AgentRuntime`] creates instances, sends them activities, and observes them.

mod activity;
mod create;
mod error;
mod handler;
mod hosting;
mod inspect;
mod logic;
mod options;
mod services;
mod subscribe;
mod terminate;

pub use activity::{Activity, ActivityEnd, Sent};
pub use create::Instance;
pub use handler::{ActivityContext, handler_graph};
pub use hosting::{ActivityPayload, HostedInstance, Hosting};
pub use inspect::{InstanceInfo, InstanceStatus, SetAside, Statistics};
pub use logic::Logic;
pub use options::{InstanceOptions, MAILBOX_CAPACITY, MAILBOX_CAPACITY_MAX};
pub use services::{AgentRuntimeBuilder, Models};
pub use subscribe::{InstanceEvent, InstanceEventKind};
pub use terminate::{DeadLetter, QueuedActivities, Terminated};
pub use weftwork_types::run::OnQuestion;

use services::Services;
use std::sync::Arc;
use weftwork_models::ModelRegistry;
use weftwork_runtime::Runtime;
use weftwork_store::Store;
use weftwork_tools::{Policy, ToolRunner};
use weftwork_types::Principal;

/// Hosts instances of agents over a [`Runtime`], on behalf of a principal.
///
/// An instance has a typed state, a bounded mailbox, and a graph or a handler that is executed for
/// each activity, one at a time. Instances and their mailboxes are in the store: any process that
/// hosts the graph executes them, and an idle instance needs no task and no memory.
///
/// ```
/// use serde_json::json;
/// use weftwork_agents::{Activity, ActivityContext, AgentRuntime, InstanceOptions};
/// use weftwork_graph::NodeError;
/// use weftwork_runtime::Runtime;
///
/// async fn count(total: u64, activity: ActivityContext) -> Result<u64, NodeError> {
///     Ok(total + activity.payload_as::<u64>()?)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agents = AgentRuntime::over(Runtime::in_memory().open().await?).build()?;
/// let counter = agents.create("counter", 40, count, InstanceOptions::new()).await?;
/// let sent = agents.send(&counter, Activity::new(json!(2))).await?;
/// sent.ended().await?;
/// assert_eq!(agents.get_state(&counter).await?, json!(42));
/// # Ok(())
/// # }
/// ```
///
/// Clones share the runtime. There is one per [`Runtime`]: nodes take the one that was built last. It
/// need not be kept: the runtime has its services.
#[derive(Debug, Clone)]
pub struct AgentRuntime {
    runtime: Runtime,
    services: Arc<Services>,
    who: Principal,
}

impl AgentRuntime {
    /// Creates a builder over a runtime, which may host graphs of its own.
    pub fn over(runtime: Runtime) -> AgentRuntimeBuilder {
        AgentRuntimeBuilder::new(runtime)
    }

    fn new(runtime: Runtime, services: Services) -> Self {
        let services = Arc::new(services);
        // The runtime has the services, and no reference to itself: activities have them as long as
        // the runtime exists.
        let weak = runtime.downgrade();
        let own = Arc::clone(&services);
        runtime.provide(move |who, run, made| match (weak.upgrade(), hosting::activity_of(run)) {
            (Some(runtime), Some(activity)) => {
                let services = Arc::clone(&own);
                let agents = Self { runtime, services, who: who.clone() };
                made.with(HostedInstance::new(agents, activity))
            }
            _ => made,
        });
        Self { runtime, services, who: Principal::local() }
    }

    /// Returns the agent runtime for another principal. Instances of other organisations do not exist
    /// for it.
    #[must_use]
    pub fn on_behalf_of(&self, principal: Principal) -> Self {
        Self { who: principal, ..self.clone() }
    }

    /// Returns `true` if both are the same agent runtime, for any principals.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.services, &other.services)
    }

    /// The principal on whose behalf instances are created and observed.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.who
    }

    /// The runtime that executes the activities.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The models, by name.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.services.models
    }

    /// The providers of models.
    #[must_use]
    pub fn providers(&self) -> &ModelRegistry {
        &self.services.providers
    }

    /// The policy of tool calls.
    #[must_use]
    pub fn policies(&self) -> &Policy {
        &self.services.policy
    }

    /// The tools, with the policy.
    #[must_use]
    pub fn tools(&self) -> &ToolRunner {
        &self.services.tools
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.runtime.store()
    }
}
