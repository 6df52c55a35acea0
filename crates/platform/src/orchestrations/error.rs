//! Actions on orchestrations that are refused.

use serde_json::{Map, Value};
use weftwork_types::code::Fault;
use weftwork_types::task::{Mode, TaskResponse};
use weftwork_types::{ErrorCode, Timestamp};

/// An action on an orchestration that is refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrchestrationError {
    /// The token of a pause is not taken, whatever the reason: the text is the same.
    #[error(
        "the orchestration is not resumed: `payload.token` is not the unused token of its pause; `orchestrationAction: pause` returns a new one"
    )]
    Token,
    /// The orchestration is paused.
    #[error(
        "the orchestration is paused by {by}; `orchestrationAction: resume` with the token of the pause, which is taken until {}, resumes it", expires_at.0
    )]
    Paused { by: String, expires_at: Timestamp },
    /// The conversation has no orchestration for the action.
    #[error("the conversation has no orchestration to {action}: {reason}")]
    Nothing { action: &'static str, reason: String },
    /// The list of effects is not the one that was confirmed.
    #[error(
        "the rollback is not confirmed: `payload.confirm` is not the value of the present list of effects; read the list, and confirm it with its value"
    )]
    Unconfirmed { list: Box<Map<String, Value>> },
    /// Something else failed.
    #[error("{}", .0.message)]
    Failed(Fault),
}

impl OrchestrationError {
    pub(crate) fn fault(&self) -> Fault {
        let code = match self {
            Self::Token => "W1072",
            Self::Paused { .. } => "W1073",
            Self::Nothing { .. } => "W1074",
            Self::Unconfirmed { .. } => "W1075",
            Self::Failed(fault) => return fault.clone(),
        };
        Fault::new(ErrorCode(code), self.to_string())
    }

    /// The answer to a request that is refused.
    pub(crate) fn response(&self, mode: Mode) -> TaskResponse {
        let fault = self.fault();
        let mut metadata = match self {
            Self::Unconfirmed { list } => Map::clone(list),
            _ => Map::new(),
        };
        metadata.insert("code".to_owned(), fault.code.into());
        metadata.insert("retriable".to_owned(), fault.retriable.into());
        TaskResponse { metadata, ..TaskResponse::failure(mode.name(), fault.message) }
    }
}

impl From<Fault> for OrchestrationError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl From<weftwork_store::StoreError> for OrchestrationError {
    fn from(error: weftwork_store::StoreError) -> Self {
        Self::Failed(error.fault())
    }
}

impl From<weftwork_graph::RuntimeError> for OrchestrationError {
    fn from(error: weftwork_graph::RuntimeError) -> Self {
        Self::Failed(error.fault())
    }
}
