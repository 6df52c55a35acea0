//! Services of an agent runtime, and its builder.

use super::AgentRuntime;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_models::{ChatModel, IntoModel, ModelRegistry};
use weftwork_runtime::Runtime;
use weftwork_tools::{Policy, ToolBox, ToolBoxErrors, ToolRunner};

/// Models of an agent runtime, by name.
#[derive(Debug, Clone, Default)]
pub struct Models(BTreeMap<String, Arc<dyn ChatModel>>);

impl Models {
    /// Returns the model of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn ChatModel>> {
        self.0.get(name)
    }

    /// The names of the models, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Services that nodes reach through their agent runtime.
#[derive(Debug)]
pub(super) struct Services {
    pub(super) models: Models,
    pub(super) providers: Arc<ModelRegistry>,
    pub(super) policy: Policy,
    pub(super) tools: Arc<ToolRunner>,
}

/// Builder of an [`AgentRuntime`].
#[derive(Debug)]
#[must_use]
pub struct AgentRuntimeBuilder {
    runtime: Runtime,
    models: Models,
    providers: Arc<ModelRegistry>,
    policy: Policy,
    tools: ToolBox,
}

impl AgentRuntimeBuilder {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            models: Models::default(),
            providers: Arc::default(),
            policy: Policy::new(),
            tools: ToolBox::new(),
        }
    }

    /// Adds a model under a name, in place of an earlier one.
    pub fn model(mut self, name: impl Into<String>, model: impl IntoModel) -> Self {
        self.models.0.insert(name.into(), model.into_model());
        self
    }

    /// Sets the providers of models; none by default.
    pub fn providers(mut self, providers: Arc<ModelRegistry>) -> Self {
        self.providers = providers;
        self
    }

    /// Sets the policy of tool calls; the default is that of [`Policy::new`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the tools; none by default. Tools may take the
    /// [`HostedInstance`](super::HostedInstance) as `Deps`.
    pub fn tools(mut self, tools: ToolBox) -> Self {
        self.tools = tools;
        self
    }

    /// Builds the agent runtime.
    ///
    /// # Errors
    /// [`ToolBoxErrors`] if the tools and the policy do not fit together.
    pub fn build(self) -> Result<AgentRuntime, ToolBoxErrors> {
        let Self { runtime, models, providers, policy, tools } = self;
        let tools = tools.provide_run_scoped::<super::HostedInstance>();
        let tools = Arc::new(ToolRunner::new(tools, policy.clone())?);
        Ok(AgentRuntime::new(runtime, Services { models, providers, policy, tools }))
    }
}
