//! Handlers as graphs of one node.

use super::hosting::{ActivityPayload, Hosting, read_payload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_graph::channel::LastValue;
use weftwork_graph::{
    BuildError, ChannelDef, CompiledGraph, DynUpdate, Dynamic, Graph, NodeError, NodeResult, START,
    State,
};
use weftwork_types::instance::{AgentRuntimeError, AgentRuntimeErrorKind};

/// Channel with the state of a handler.
pub(super) const STATE_CHANNEL: &str = "state";
/// Channel with the error of the last activity of a handler that failed.
pub(super) const ERROR_CHANNEL: &str = "error";

/// The activity that a handler executes, and the hosting runtime.
#[derive(Debug, Clone)]
pub struct ActivityContext {
    hosting: Hosting,
    payload: Json,
}

impl std::ops::Deref for ActivityContext {
    type Target = Hosting;

    fn deref(&self) -> &Hosting {
        &self.hosting
    }
}

impl ActivityContext {
    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Json {
        &self.payload
    }

    /// The payload as a type.
    ///
    /// # Errors
    /// Kind `InvalidState` if the payload is no `T`.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, AgentRuntimeError> {
        read_payload(self.payload.clone())
    }
}

/// Builds the graph of a handler: one node over the channels `state` and `error`. For programs that
/// host it by themselves; [`AgentRuntime::create`](super::AgentRuntime::create) does so.
///
/// # Errors
/// [`BuildError`] if the name is not valid.
pub fn handler_graph<S, F, R, E>(name: &str, handler: F) -> Result<CompiledGraph, BuildError>
where
    S: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(S, ActivityContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<S, E>> + Send + 'static,
    E: Into<NodeError> + 'static,
{
    let handler = Arc::new(handler);
    let handle = move |state: State<Dynamic>, hosting: Hosting, payload: ActivityPayload<Json>| {
        let handler = Arc::clone(&handler);
        async move {
            let found = state.get(STATE_CHANNEL).unwrap_or_default();
            drop(state);
            let before = from_json(found)?;
            let context = ActivityContext { hosting, payload: payload.0 };
            let after = handler(before, context).await.map_err(Into::into)?;
            let after = serde_json::to_value(after)?;
            NodeResult::Ok(DynUpdate::new().write(STATE_CHANNEL, after))
        }
    };
    let channels = [STATE_CHANNEL, ERROR_CHANNEL];
    let channels = channels.map(|name| ChannelDef::new(name, LastValue::<Json>::new()));
    Graph::dynamic(name, channels.into()).node("handle", handle).edge(START, "handle").build()
}

/// Reads the state of a handler.
fn from_json<S: DeserializeOwned>(state: Json) -> Result<S, AgentRuntimeError> {
    serde_json::from_value(state).map_err(|error| {
        let text = format!(
            "the state of the instance is no `{}`: {error}; host the handler of this state",
            std::any::type_name::<S>()
        );
        AgentRuntimeError::new(AgentRuntimeErrorKind::InvalidState, text)
    })
}
