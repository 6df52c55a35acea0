//! Stable error codes.

use crate::StoreError;
use crate::port::{BudgetError, EgressError};
use crate::task::AgentFailure;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A stable code of a user-visible error, such as `W0301`.
///
/// Each code has a page in `docs/errors/`, shown by `weft explain <code>`. The ranges:
/// 01 graphs and engine, 02 stores, 03 models, 04 tools, 05 embedded model and weights,
/// 06 agents, 07 command line and configuration, 08 egress, 09 MCP servers, 10 definitions of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(pub &'static str);

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Maximum number of causes that a fault stores.
const CAUSES_MAX: usize = 8;

/// Maximum length of the message of a cause, in characters.
const CAUSE_CHARS_MAX: usize = 1_000;

/// An error as stored and shown: a code, a message, and whether a retry can succeed.
///
/// The message is safe to show to the user who started the run; messages of this project never
/// contain secrets. Causes have the texts of errors of nodes, tools and libraries as they are, so
/// these errors must not contain any either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fault {
    /// Stable code, such as `W0301`.
    pub code: String,
    /// Description of the error, with the names of the things involved.
    pub message: String,
    /// `true` if the same call may succeed later without a change.
    #[serde(default)]
    pub retriable: bool,
    /// Kind of the failure in the terms of its origin, such as `ValueError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Error that led to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Cause>>,
    /// Circumstances of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<FaultDetails>>,
}

/// A cause of a [`Fault`], with its own cause. The chain has at most eight causes, whose messages
/// are cut to 1,000 characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// Stable code, if the error has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Kind of the failure in the terms of its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
    /// Description of the error.
    pub message: String,
    /// Error that led to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Cause>>,
}

/// Circumstances of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultDetails {
    /// Part of the execution that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Number of the attempt that failed last, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Usage of the failed call, all its attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Delay before the next attempt that the provider asked for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Limit of a budget, or deadline, that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ReachedLimit>,
    /// Failures of other agents that led to this one, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_failures: Vec<AgentFailure>,
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReachedLimit {
    /// Counted unit, such as `model calls` or `ms of wall time`.
    pub unit: String,
    /// Amount used and reserved, in this unit.
    pub used: u64,
    /// Amount that the next call needs, in this unit, if less than that was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// Amount allowed, in this unit.
    pub limit: u64,
}

/// A part of the execution of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// The dependencies of the run were made.
    Dependencies,
    /// A node was executed.
    Node,
    /// A model was called.
    Model,
    /// A tool was called.
    Tool,
    /// A phase of a newer version.
    #[serde(other)]
    Other,
}

impl Fault {
    /// Creates a fault that a retry cannot resolve.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: code.0.to_owned(),
            message: message.into(),
            retriable: false,
            kind: None,
            cause: None,
            details: None,
        }
    }

    /// Sets the kind of the failure.
    #[must_use]
    pub fn of_kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into().into_boxed_str());
        self
    }

    /// Sets if a retry may resolve the fault.
    #[must_use]
    pub fn retriable(mut self, retriable: bool) -> Self {
        self.retriable = retriable;
        self
    }

    /// Sets the causes to the sources of an error, of which this fault is the stored form. A source
    /// without a code whose message is part of the message before it is left out. The details are
    /// those of the first source that is a fault, unless they are known.
    #[must_use]
    pub fn with_sources_of(self, error: &(dyn Error + 'static)) -> Self {
        self.with_causes(error.source())
    }

    /// Sets the causes to a fault and its causes. The details are those of the cause, unless they are
    /// known.
    #[must_use]
    pub fn caused_by(self, cause: &Self) -> Self {
        self.with_causes(Some(cause))
    }

    fn with_causes(mut self, mut source: Option<&(dyn Error + 'static)>) -> Self {
        let mut causes: Vec<Cause> = Vec::new();
        while let Some(error) = source.filter(|_| causes.len() < CAUSES_MAX) {
            if let Some(fault) = as_fault(error).filter(|_| self.details.is_none()) {
                self.details.clone_from(&fault.details);
            }
            let cause = Cause::of(error);
            let before = causes.last().map_or(self.message.as_str(), |cause| &cause.message);
            if cause.code.is_some() || !before.contains(&cause.message) {
                causes.push(cause);
            }
            source = error.source();
        }
        self.cause = causes
            .into_iter()
            .rev()
            .fold(None, |inner, cause| Some(Box::new(Cause { cause: inner, ..cause })));
        self
    }

    /// Returns the causes, the direct one first.
    pub fn causes(&self) -> impl Iterator<Item = &Cause> {
        std::iter::successors(self.cause.as_deref(), |cause| cause.cause.as_deref())
    }

    /// Sets the phase that failed, unless it is known.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Self {
        self.details.get_or_insert_default().phase.get_or_insert(phase);
        self
    }

    /// Sets the number of the attempt that failed last, unless it is known.
    #[must_use]
    pub fn at_attempt(mut self, attempt: u32) -> Self {
        self.details.get_or_insert_default().attempt.get_or_insert(attempt);
        self
    }

    /// Sets the delay before the next attempt that the provider asked for.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.details.get_or_insert_default().retry_after_ms = Some(ms);
        self
    }

    /// Sets the limit that was reached.
    #[must_use]
    pub fn with_limit(mut self, limit: ReachedLimit) -> Self {
        self.details.get_or_insert_default().limit = Some(limit);
        self
    }

    /// Sets the usage of the failed call.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.details.get_or_insert_default().usage = Some(usage);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

impl Cause {
    /// Creates a cause without a cause of its own.
    fn of(error: &(dyn Error + 'static)) -> Self {
        let (code, kind) = if let Some(fault) = as_fault(error) {
            (Some(fault.code.clone()), fault.kind.clone())
        } else if let Some(cause) = error.downcast_ref::<Self>() {
            (cause.code.clone(), cause.kind.clone())
        } else {
            (code_of(error).map(|code| code.0.to_owned()), None)
        };
        let mut message = error.to_string();
        if let Some((end, _)) = message.char_indices().nth(CAUSE_CHARS_MAX) {
            message.truncate(end);
            message.push('…');
        }
        Self { code, kind, message, cause: None }
    }
}

/// Returns the fault that an error is.
fn as_fault<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Fault> {
    let boxed = || error.downcast_ref::<Box<Fault>>().map(Box::as_ref);
    error.downcast_ref::<Fault>().or_else(boxed)
}

/// Returns the code of an error of this crate.
fn code_of(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let store = error.downcast_ref::<StoreError>().map(StoreError::code);
    let egress = || error.downcast_ref::<EgressError>().map(EgressError::code);
    let budget = || error.downcast_ref::<BudgetError>().map(BudgetError::code);
    store.or_else(egress).or_else(budget)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests;
