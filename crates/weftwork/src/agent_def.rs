//! Named agents.

use crate::Error;
use std::fmt;
use std::sync::Arc;
use weftwork_agents::AgentError;
use weftwork_graph::{CompiledGraph, IntoGraph, InvalidGraph};
use weftwork_models::{ChatModel, IntoModel};
use weftwork_runtime::unversioned;

type Make = dyn Fn(Arc<dyn ChatModel>) -> Result<CompiledGraph, InvalidGraph> + Send + Sync;

/// A named agent: an id, a description, and a function that builds its graph for a model.
#[derive(Clone)]
pub struct AgentDef {
    id: String,
    about: String,
    make: Arc<Make>,
    /// `true` if the graph source of an app has its graph.
    is_defined: bool,
}

impl fmt::Debug for AgentDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentDef").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AgentDef {
    /// Creates an agent. A name without a colon is short for `app:NAME`.
    pub fn new<G: IntoGraph>(
        name: &str,
        make: impl Fn(Arc<dyn ChatModel>) -> G + Send + Sync + 'static,
    ) -> Self {
        let id = if name.contains(':') { name.to_owned() } else { format!("app:{name}") };
        let make = Arc::new(move |model| make(model).into_graph());
        Self { id, about: String::new(), make, is_defined: false }
    }

    /// Creates an agent whose graph an app finds in its graph source.
    #[cfg(feature = "platform")]
    pub(crate) fn defined<G: IntoGraph>(
        id: &str,
        make: impl Fn(Arc<dyn ChatModel>) -> G + Send + Sync + 'static,
    ) -> Self {
        Self { is_defined: true, ..Self::new(id, make) }
    }

    /// Returns `true` if the agent is defined in a file or a row: its graph has versions, and
    /// organisations may have their own.
    #[must_use]
    pub fn is_defined(&self) -> bool {
        self.is_defined
    }

    /// Sets the description, one line.
    #[must_use]
    pub fn about(mut self, line: impl Into<String>) -> Self {
        self.about = line.into();
        self
    }

    /// The id of the agent's graph, such as `app:counter`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The agent's name: the part of the id after the first colon.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.split_once(':').map_or(&self.id, |(_, name)| name)
    }

    /// The description set by [`about`](Self::about); empty by default.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.about
    }

    /// Builds the agent's graph for a model.
    ///
    /// # Errors
    /// [`AgentError`] with all problems of the graph.
    pub fn compile(&self, model: impl IntoModel) -> Result<CompiledGraph, AgentError> {
        Ok((self.make)(model.into_model())?)
    }
}

/// Finds an agent by name or id.
///
/// # Errors
/// [`Error::UnknownAgent`], whose message suggests the most similar name.
pub fn find_agent<'a>(agents: &'a [AgentDef], name: &str) -> Result<&'a AgentDef, Error> {
    // A thread has the version with which it began.
    let plain = unversioned(name);
    let is_it = |agent: &&AgentDef| agent.id() == plain || agent.name() == plain;
    let found = agents.iter().find(is_it);
    found.ok_or_else(|| Error::UnknownAgent {
        found: name.to_owned(),
        known: agents.iter().map(|agent| agent.name().to_owned()).collect(),
    })
}
