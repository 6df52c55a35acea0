//! Errors of the agent runtime.

use crate::ErrorCode;
use crate::code::{Cause, Fault};
use crate::run::RunOutcome;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;

/// Configurable entry in which nodes receive the payload of an activity.
pub const ACTIVITY_PAYLOAD: &str = "ea_activity_payload";

/// Maximum size of the payload of an activity as JSON. Payloads are stored with the activity, and are
/// read with each look at the mailbox.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// An error of the agent runtime: of a request, of an activity, or of logic that a node runs.
///
/// Its fault has the code of the kind, and as its first cause the error that led to it. An error that
/// is one of these already is never wrapped in another one; see [`wrap`](Self::wrap).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRuntimeError {
    /// Kind of the error.
    pub kind: AgentRuntimeErrorKind,
    /// Code, message and causes.
    pub fault: Fault,
}

/// A kind of [`AgentRuntimeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentRuntimeErrorKind {
    /// A node of the activity failed.
    Failed,
    /// A node of the activity panicked.
    Panicked,
    /// The activity was cancelled.
    Cancelled,
    /// The activity reached its deadline.
    TimedOut,
    /// The logic of [`run`](AgentRuntimeError::wrap) failed.
    Logic,
    /// The mailbox of the instance is full.
    MailboxFull,
    /// The instance is terminated.
    Terminated,
    /// The instance does not exist.
    UnknownInstance,
    /// A configurable entry has the name of the payload.
    PayloadCollision,
    /// An instance of this id exists, or the thread of this id belongs to no instance.
    InstanceExists,
    /// The graph of the instance is not hosted, or cannot read the state of the instance.
    GraphUnavailable,
    /// The activity reached its step limit.
    StepLimit,
    /// A node takes the hosting runtime, and its run is not an activity of an instance.
    NotHosted,
    /// A state or an option does not fit the graph.
    InvalidState,
    /// Another error of the runtime or the store, with its own code.
    Runtime,
}

impl AgentRuntimeErrorKind {
    /// All kinds with a code of their own.
    const ALL: [(Self, ErrorCode); 14] = [
        (Self::Failed, ErrorCode("W0635")),
        (Self::Panicked, ErrorCode("W0636")),
        (Self::Cancelled, ErrorCode("W0637")),
        (Self::TimedOut, ErrorCode("W0638")),
        (Self::Logic, ErrorCode("W0639")),
        (Self::MailboxFull, ErrorCode("W0640")),
        (Self::Terminated, ErrorCode("W0641")),
        (Self::UnknownInstance, ErrorCode("W0642")),
        (Self::PayloadCollision, ErrorCode("W0643")),
        (Self::InstanceExists, ErrorCode("W0644")),
        (Self::GraphUnavailable, ErrorCode("W0645")),
        (Self::StepLimit, ErrorCode("W0646")),
        (Self::NotHosted, ErrorCode("W0647")),
        (Self::InvalidState, ErrorCode("W0648")),
    ];

    /// Returns the code; `None` for [`Runtime`](Self::Runtime), whose errors have codes of their own.
    #[must_use]
    pub fn code(self) -> Option<ErrorCode> {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map(|(_, code)| *code)
    }

    /// Returns the kind with this code.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| known.0 == code).map(|(kind, _)| *kind)
    }
}

impl AgentRuntimeError {
    /// Creates an error without a cause.
    #[must_use]
    pub fn new(kind: AgentRuntimeErrorKind, message: impl Into<String>) -> Self {
        let code = kind.code().unwrap_or(ErrorCode("W0635"));
        Self { kind, fault: Fault::new(code, message) }
    }

    /// Creates the error of an instance that does not exist.
    #[must_use]
    pub fn unknown_instance(instance: &str) -> Self {
        let text = format!(
            "instance `{instance}` does not exist; create it, or take an id that `weft instances list` prints"
        );
        Self::new(AgentRuntimeErrorKind::UnknownInstance, text)
    }

    /// Wraps a fault, which becomes the first cause. A fault that is an error of the agent runtime
    /// already is returned as such.
    #[must_use]
    pub fn wrap(kind: AgentRuntimeErrorKind, what: &str, cause: Fault) -> Self {
        if let Some(kind) = AgentRuntimeErrorKind::of_code(&cause.code) {
            return Self { kind, fault: cause };
        }
        let mut error = Self::new(kind, format!("{what}: {}", cause.message));
        let details = cause.details.clone();
        let retriable = cause.retriable;
        let inner = cause.cause;
        let cause = Cause {
            code: Some(cause.code),
            kind: cause.kind,
            message: cause.message,
            cause: inner,
        };
        error.fault = Fault { cause: Some(Box::new(cause)), details, retriable, ..error.fault };
        error
    }

    /// Returns an error of the runtime or the store with its own code.
    #[must_use]
    pub fn of_runtime(fault: Fault) -> Self {
        let kind = AgentRuntimeErrorKind::of_code(&fault.code);
        Self { kind: kind.unwrap_or(AgentRuntimeErrorKind::Runtime), fault }
    }

    /// Returns the error of an activity with this outcome; `None` if it completed, or ended at an
    /// open question.
    #[must_use]
    pub fn of_outcome(activity: &str, outcome: &RunOutcome) -> Option<Self> {
        use AgentRuntimeErrorKind as Kind;
        let what = format!("activity `{activity}`");
        Some(match outcome {
            RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. } => return None,
            RunOutcome::Cancelled { .. } => {
                let text = "was cancelled; send it again, unless its instance is terminated";
                Self::new(Kind::Cancelled, format!("{what} {text}"))
            }
            RunOutcome::LimitReached { step_limit } => Self::new(
                Kind::StepLimit,
                format!("{what} reached its limit of {step_limit} supersteps; raise `step_limit`"),
            ),
            RunOutcome::Failed { fault } if fault.code == "W0124" => {
                let mut error = Self::wrap(Kind::TimedOut, &what, fault.clone());
                let advice = "send it again with a longer timeout or a higher priority";
                error.fault.message = format!("{what} reached the end of its timeout; {advice}");
                error
            }
            RunOutcome::Failed { fault } => {
                let (kind, verb) = match fault.code.as_str() {
                    "W0110" => (Kind::Panicked, "panicked"),
                    "W0125" => (Kind::Cancelled, "was cancelled"),
                    _ => (Kind::Failed, "failed"),
                };
                Self::wrap(kind, &format!("{what} {verb}"), fault.clone())
            }
        })
    }

    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.fault.code
    }
}

impl fmt::Display for AgentRuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl Error for AgentRuntimeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.fault.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_wrapped_once() {
        let cause = Fault::new(ErrorCode("W0109"), "no connection").retriable(true);
        let once = AgentRuntimeError::wrap(AgentRuntimeErrorKind::Logic, "the logic failed", cause);
        assert_eq!(once.to_string(), "the logic failed: no connection");
        assert!(once.fault.retriable);
        let kind = AgentRuntimeErrorKind::Failed;
        let twice = AgentRuntimeError::wrap(kind, "the activity failed", once.fault.clone());
        assert_eq!(twice, once);
        assert_eq!(once.fault.causes().count(), 1);
    }

    #[test]
    fn ends_say_how_an_activity_is_repeated() {
        let cause = Fault::new(ErrorCode("W0124"), "the deadline had passed");
        let late = AgentRuntimeError::of_outcome("a", &RunOutcome::Failed { fault: cause });
        let late = late.expect("failed");
        assert_eq!((late.kind, late.fault.causes().count()), (AgentRuntimeErrorKind::TimedOut, 1));
        let text = "activity `a` reached the end of its timeout; send it again with a longer timeout or a higher priority";
        assert_eq!(late.to_string(), text);
        let cut = RunOutcome::Cancelled { reason: None };
        let cut = AgentRuntimeError::of_outcome("a", &cut).expect("was cancelled");
        let text = "activity `a` was cancelled; send it again, unless its instance is terminated";
        assert_eq!(cut.to_string(), text);
    }

    #[test]
    fn kinds_and_codes_correspond() {
        for (kind, code) in AgentRuntimeErrorKind::ALL {
            assert_eq!(kind.code(), Some(code));
            assert_eq!(AgentRuntimeErrorKind::of_code(code.0), Some(kind));
        }
        assert_eq!(AgentRuntimeErrorKind::of_code("W0109"), None);
    }
}
