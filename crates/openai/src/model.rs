//! Models: the agents that are exposed by this protocol.

use crate::error::{ApiError, Result};
use serde_json::{Value, json};
use weftwork_server::MountedClient;
use weftwork_types::exposure::AgentProtocol;
use weftwork_types::port::AgentSummary;
use weftwork_types::task::Mode;
use weftwork_types::{Right, Timestamp};

/// An agent in one of its modes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    /// Id, as clients name it: the slug, and the mode if it is not the first one of the agent.
    pub(crate) id: String,
    pub(crate) slug: String,
    /// Mode; `None` for the first one of the agent.
    pub(crate) mode: Option<Mode>,
    /// `true` if the agent declares its input.
    pub(crate) has_input: bool,
    /// JSON Schema that its answers satisfy: that of the builds of the agent.
    pub(crate) output: Option<Value>,
}

/// Returns the agents that a client may ask by this protocol.
fn exposed(client: &MountedClient) -> Result<Vec<AgentSummary>> {
    let who = client.principal();
    if !who.rights.has(Right::Run) {
        return Ok(Vec::new());
    }
    let mut agents = client.platform()?.agents(who);
    agents.retain(|agent| agent.exposed.contains(&AgentProtocol::OpenAi));
    Ok(agents)
}

/// Returns the models of a client, ordered by slug.
pub(crate) fn all(client: &MountedClient) -> Result<Vec<Model>> {
    Ok(exposed(client)?.iter().flat_map(models_of).collect())
}

/// Returns a model of a client.
///
/// # Errors
/// Status 404.
pub(crate) fn find(client: &MountedClient, id: &str) -> Result<Model> {
    let found = all(client)?.into_iter().find(|model| model.id == id);
    found.ok_or_else(|| ApiError::model_missing(id))
}

/// Returns `true` if an agent is still exposed to a client.
pub(crate) fn is_exposed(client: &MountedClient, slug: &str) -> Result<bool> {
    Ok(exposed(client)?.iter().any(|agent| agent.slug == slug))
}

/// The models of an agent: one for each of its modes.
fn models_of(agent: &AgentSummary) -> Vec<Model> {
    let first = Mode::ALL.into_iter().find(|mode| agent.modes.contains(mode));
    let model = |mode: &Mode| Model {
        id: match Some(*mode) == first {
            true => agent.slug.clone(),
            false => format!("{}:{mode}", agent.slug),
        },
        slug: agent.slug.clone(),
        mode: Some(*mode).filter(|mode| Some(*mode) != first),
        has_input: agent.input_schema.is_some(),
        output: agent.output_schema.clone().filter(|_| *mode == Mode::Build).map(Value::Object),
    };
    agent.modes.iter().map(model).collect()
}

impl Model {
    /// The model as clients see it. Agents have no time of their creation.
    pub(crate) fn to_json(&self) -> Value {
        json!({"id": self.id, "object": "model", "created": 0, "owned_by": "weftwork"})
    }

    /// Returns the input in a text: that of an agent with a declared input is a JSON object.
    pub(crate) fn input_in(&self, text: &str) -> Option<Value> {
        let read = self.has_input.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
        read.filter(Value::is_object)
    }
}

/// Returns a time in seconds, as this protocol has it.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    time.0 / 1_000
}
