//! Errors of evaluations, by what their caller can do.

use crate::output::OutputError;
use crate::prompt::{PromptError, PromptId};
use crate::session::SessionError;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_types::code::{Fault, Phase};
use weftwork_types::usage::Usage;
use weftwork_types::{ErrorCode, ThreadId};

/// Code of an evaluation that reached its recursion limit.
const RECURSION_LIMIT: ErrorCode = ErrorCode("W0621");

/// Code of an evaluation whose run was cancelled.
const CANCELLED: ErrorCode = ErrorCode("W0624");

/// Code of an evaluation for which no thread could be started.
const NO_THREAD: ErrorCode = ErrorCode("W0625");

/// An evaluation failed. An interrupt is an outcome and not an error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("evaluation of prompt `{prompt}` failed: {fault}")]
pub struct EvaluationError {
    /// Kind, by what the caller can do.
    pub kind: EvaluationErrorKind,
    /// Part of the evaluation that failed.
    pub phase: EvaluationPhase,
    /// Identity of the prompt.
    pub prompt: Box<PromptId>,
    /// Thread of the evaluation, if it was begun.
    pub thread: Option<ThreadId>,
    /// Number of the attempt that failed last, from 1: of a call, of a node, or of the answer of a
    /// model that does not fit the output type. 1 where nothing is repeated.
    pub attempt: u32,
    /// Usage of the evaluation up to the failure.
    pub usage: Box<Usage>,
    /// Cause, with its code and its own causes.
    #[source]
    pub fault: Box<Fault>,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluationErrorKind {
    /// The prompt cannot be rendered, is not registered, or has changed. Nothing was called.
    Prompt,
    /// The graph took as many supersteps as allowed; raise [`ClientConfig::recursion_limit`].
    ///
    /// [`ClientConfig::recursion_limit`]: crate::ClientConfig::recursion_limit
    RecursionLimit,
    /// A node wrote what the state of its graph does not accept.
    InvalidUpdate,
    /// The deadline has passed.
    Deadline,
    /// The budget is used up, or cannot be read.
    Budget,
    /// A provider limits requests or did not answer in time.
    Throttle {
        /// Kind of the limit.
        kind: ThrottleKind,
        /// Delay that the provider asked for.
        retry_after: Option<Duration>,
    },
    /// A provider refused or failed a call.
    Provider,
    /// The answer does not fit the output type.
    Output,
    /// The state of the session cannot be read or stored.
    Session,
    /// The evaluation was cancelled.
    Cancelled,
    /// A node failed, or the runtime refused the run; the cause has the reason.
    Failed,
}

impl EvaluationErrorKind {
    /// Returns the word for the kind in events.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::RecursionLimit => "recursion_limit",
            Self::InvalidUpdate => "invalid_update",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Throttle { kind: ThrottleKind::RateLimit, .. } => "rate_limit",
            Self::Throttle { kind: ThrottleKind::QuotaExhausted, .. } => "quota_exhausted",
            Self::Throttle { kind: ThrottleKind::Timeout, .. } => "timeout",
            Self::Provider => "provider",
            Self::Output => "output",
            Self::Session => "session",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// The kind of a limit of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThrottleKind {
    /// Too many requests; wait.
    RateLimit,
    /// A quota is used up; waiting does not help.
    QuotaExhausted,
    /// No answer in time.
    Timeout,
}

/// A part of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluationPhase {
    /// Rendering the prompt.
    Render,
    /// Calling models, and running the graph.
    Request,
    /// Calling tools, and writing to the state.
    Tool,
    /// Reading the answer.
    Response,
}

impl EvaluationPhase {
    /// Returns the word for the phase in events.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Render => "render",
            Self::Request => "request",
            Self::Tool => "tool",
            Self::Response => "response",
        }
    }
}

impl EvaluationError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.fault.code
    }
}

/// The evaluation that an error belongs to.
#[derive(Debug, Clone)]
pub(crate) struct ErrorContext {
    pub(crate) prompt: PromptId,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) usage: Usage,
}

impl ErrorContext {
    pub(crate) fn prompt(&self, error: &PromptError) -> EvaluationError {
        self.wrap_fault(EvaluationErrorKind::Prompt, EvaluationPhase::Render, error.fault())
    }

    pub(crate) fn output(&self, error: &OutputError) -> EvaluationError {
        self.wrap_fault(EvaluationErrorKind::Output, EvaluationPhase::Response, error.fault())
    }

    pub(crate) fn session(&self, error: &SessionError) -> EvaluationError {
        self.wrap_fault(EvaluationErrorKind::Session, EvaluationPhase::Request, error.fault())
    }

    pub(crate) fn runtime(&self, error: &RuntimeError) -> EvaluationError {
        self.fault(error.fault())
    }

    pub(crate) fn recursion_limit(&self, limit: u32) -> EvaluationError {
        let text = format!(
            "the graph took {limit} supersteps, its recursion limit, and has not ended; raise `recursion_limit`, or look for a loop"
        );
        let kind = EvaluationErrorKind::RecursionLimit;
        let phase = EvaluationPhase::Request;
        self.wrap_fault(kind, phase, Fault::new(RECURSION_LIMIT, text))
    }

    pub(crate) fn cancelled(&self) -> EvaluationError {
        let fault = Fault::new(CANCELLED, "the run of the evaluation was cancelled");
        self.wrap_fault(EvaluationErrorKind::Cancelled, EvaluationPhase::Request, fault)
    }

    pub(crate) fn no_thread(&self, error: &std::io::Error) -> EvaluationError {
        let text = format!("no thread of the system could be started: {error}");
        self.fault(Fault::new(NO_THREAD, text))
    }

    /// Returns the error for the failure of a run.
    pub(crate) fn fault(&self, fault: Fault) -> EvaluationError {
        let kind = kind_of(&fault);
        let phase = match (kind, fault.details.as_ref().and_then(|details| details.phase)) {
            (EvaluationErrorKind::InvalidUpdate, _) | (_, Some(Phase::Tool)) => {
                EvaluationPhase::Tool
            }
            (EvaluationErrorKind::Output, _) => EvaluationPhase::Response,
            (EvaluationErrorKind::Prompt, _) => EvaluationPhase::Render,
            _ => EvaluationPhase::Request,
        };
        self.wrap_fault(kind, phase, fault)
    }

    fn wrap_fault(
        &self,
        kind: EvaluationErrorKind,
        phase: EvaluationPhase,
        fault: Fault,
    ) -> EvaluationError {
        EvaluationError {
            kind,
            phase,
            prompt: Box::new(self.prompt.clone()),
            thread: self.thread.clone(),
            attempt: fault.details.as_ref().and_then(|details| details.attempt).unwrap_or(1),
            usage: Box::new(self.usage),
            fault: Box::new(fault),
        }
    }
}

/// Returns the kind of a failure from its code. Errors of functions that make the dependencies of a
/// run are causes of W0136, and failures of calls that the code of a node wraps are causes of W0109.
pub(super) fn kind_of(fault: &Fault) -> EvaluationErrorKind {
    let throttled = |kind| {
        let details = fault.details.as_ref();
        let retry_after = details.and_then(|details| details.retry_after_ms);
        let retry_after = retry_after.map(Duration::from_millis);
        EvaluationErrorKind::Throttle { kind, retry_after }
    };
    match fault.code.as_str() {
        "W0102" | "W0103" | "W0105" | "W0108" => EvaluationErrorKind::InvalidUpdate,
        "W0124" => EvaluationErrorKind::Deadline,
        "W0624" => EvaluationErrorKind::Cancelled,
        "W0601" | "W0603" | "W0609" | "W0659" | "W0661" => EvaluationErrorKind::Budget,
        "W0304" => throttled(match fault.kind.as_deref() {
            Some("timeout") => ThrottleKind::Timeout,
            Some("rate_limit") => ThrottleKind::RateLimit,
            _ if fault.retriable => ThrottleKind::RateLimit,
            _ => ThrottleKind::QuotaExhausted,
        }),
        "W0309" if has_cause(fault, "W0804") => throttled(ThrottleKind::Timeout),
        "W0619" | "W0620" => EvaluationErrorKind::Session,
        "W0136" => caused_by_prompt(fault),
        "W0109" => kind_of_cause(fault),
        code if ("W0610".."W0615").contains(&code) => EvaluationErrorKind::Prompt,
        code if ("W0615".."W0619").contains(&code) => EvaluationErrorKind::Output,
        code if code.starts_with("W03") || code == "W0602" => EvaluationErrorKind::Provider,
        _ => EvaluationErrorKind::Failed,
    }
}

/// Returns the kind of the first cause that has a code.
fn kind_of_cause(fault: &Fault) -> EvaluationErrorKind {
    let Some(cause) = fault.causes().find(|cause| cause.code.is_some()) else {
        return EvaluationErrorKind::Failed;
    };
    kind_of(&Fault {
        code: cause.code.clone().unwrap_or_default(),
        message: cause.message.clone(),
        retriable: false,
        kind: cause.kind.clone(),
        cause: cause.cause.clone(),
        details: fault.details.clone(),
    })
}

fn has_cause(fault: &Fault, code: &str) -> bool {
    fault.causes().any(|cause| cause.code.as_deref() == Some(code))
}

fn caused_by_prompt(fault: &Fault) -> EvaluationErrorKind {
    let of_prompt = |code: &str| ("W0610".."W0615").contains(&code);
    match fault.causes().any(|cause| cause.code.as_deref().is_some_and(of_prompt)) {
        true => EvaluationErrorKind::Prompt,
        false => EvaluationErrorKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_the_kind_by_which_their_caller_acts() {
        use EvaluationErrorKind as Kind;
        let throttled = |kind| Kind::Throttle { kind, retry_after: None };
        let fault = |code| Fault::new(ErrorCode(code), "x");
        for (fault, expected) in [
            (fault("W0102"), Kind::InvalidUpdate),
            (fault("W0124"), Kind::Deadline),
            (fault("W0601"), Kind::Budget),
            (fault("W0304").retriable(true), throttled(ThrottleKind::RateLimit)),
            (fault("W0304"), throttled(ThrottleKind::QuotaExhausted)),
            (fault("W0304").of_kind("timeout"), throttled(ThrottleKind::Timeout)),
            (fault("W0305"), Kind::Provider),
            (fault("W0614"), Kind::Prompt),
            (fault("W0616"), Kind::Output),
            (fault("W0619"), Kind::Session),
            (fault("W0620"), Kind::Session),
            (fault("W0624"), Kind::Cancelled),
            (fault("W0109"), Kind::Failed),
            (fault("W0125"), Kind::Failed),
            (fault("W0625"), Kind::Failed),
        ] {
            assert_eq!(kind_of(&fault), expected, "{}", fault.code);
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no plan")]
    struct PlanError(#[source] Fault);

    #[test]
    fn a_failure_that_a_node_wraps_has_its_kind_and_its_delay() {
        use EvaluationErrorKind as Kind;
        let wrap = |error: Fault| {
            Fault::new(ErrorCode("W0109"), "no plan").with_sources_of(&PlanError(error))
        };
        let slow = Fault::new(ErrorCode("W0304"), "x").of_kind("rate_limit").retriable(true);
        let slow = slow.with_retry_after(Duration::from_secs(7));
        let retry_after = Some(Duration::from_secs(7));
        let throttled = |kind, retry_after| Kind::Throttle { kind, retry_after };
        let quota = Fault::new(ErrorCode("W0304"), "x").of_kind("quota_exhausted");
        for (error, expected) in [
            (slow.clone(), throttled(ThrottleKind::RateLimit, retry_after)),
            (wrap(slow), throttled(ThrottleKind::RateLimit, retry_after)),
            (quota, throttled(ThrottleKind::QuotaExhausted, None)),
            (Fault::new(ErrorCode("W0601"), "x"), Kind::Budget),
            (Fault::new(ErrorCode("W0306"), "x"), Kind::Provider),
            (Fault::new(ErrorCode("W0204"), "x"), Kind::Failed),
        ] {
            assert_eq!(kind_of(&wrap(error.clone())), expected, "{}", error.code);
        }
        let own = Fault::new(ErrorCode("W0109"), "no plan");
        assert_eq!(kind_of(&own), Kind::Failed, "without a cause");
    }
}
