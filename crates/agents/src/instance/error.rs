//! Conversion of errors of runtime and store.

use weftwork_graph::RuntimeError;
use weftwork_store::StoreError;
use weftwork_types::code::Fault;
use weftwork_types::instance::{AgentRuntimeError, AgentRuntimeErrorKind as Kind};

/// Returns the error of the runtime about an instance.
pub(super) fn of_runtime(instance: &str, error: RuntimeError) -> AgentRuntimeError {
    match error {
        RuntimeError::Store(error) => of_store(instance, error),
        RuntimeError::UnknownGraph { .. } => graph_unavailable(instance, &error.fault()),
        RuntimeError::Engine(_) => graph_unavailable(instance, &error.fault()),
        error => AgentRuntimeError::of_runtime(error.fault()),
    }
}

/// Returns the error of the store about an instance.
pub(super) fn of_store(instance: &str, error: StoreError) -> AgentRuntimeError {
    match error {
        StoreError::NotFound { kind: "instance" | "thread", .. } => {
            AgentRuntimeError::unknown_instance(instance)
        }
        error => AgentRuntimeError::of_runtime(error.fault()),
    }
}

/// Returns the error of an instance whose graph cannot be executed here.
pub(super) fn graph_unavailable(instance: &str, cause: &Fault) -> AgentRuntimeError {
    let what = format!("instance `{instance}` waits for its graph");
    AgentRuntimeError::wrap(Kind::GraphUnavailable, &what, cause.clone())
}

/// Returns the error of a state or an option that does not fit.
pub(super) fn invalid_request(text: impl Into<String>) -> AgentRuntimeError {
    AgentRuntimeError::new(Kind::InvalidState, text)
}
