//! Errors of records.

use super::check::ContentProblem;
use super::merge::MergeConflict;
use super::record::RecordRef;
use super::version::{ContentFormat, Version, VersionContent};
use serde::Serialize;
use weftwork_types::code::Fault;
use weftwork_types::{ErrorCode, StoreError};

/// An error of an operation on records. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// An error of the store. Records and versions that do not exist, or belong to another subject,
    /// are [`StoreError::NotFound`].
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The current version is another one than the one that was edited.
    #[error(
        "{} was changed: the edit is based on version {}, and version {} is current; edit that one, or merge the two", _0.of, _0.base, _0.current.version.number
    )]
    Changed(Box<Changed>),
    /// Two versions change the same parts in different ways.
    #[error(
        "versions {} and {} of {} cannot be merged by themselves: both change {}{}; merge them again with the resolved content", _0.a, _0.b, _0.of, first(&_0.conflicts), more(_0.conflicts.len())
    )]
    Conflicts(Box<MergeConflicts>),
    /// The versions have no common form.
    #[error("versions {a} and {b} of {of} cannot be merged: {found}; expected {expected}")]
    NotMergeable {
        /// The record.
        of: RecordRef,
        /// First version.
        a: u64,
        /// Second version.
        b: u64,
        /// Obstacle.
        found: String,
        /// Requirement.
        expected: &'static str,
    },
    /// The version is the only one of its record.
    #[error("version {version} is the only one of {of}; delete the record instead")]
    LastVersion {
        /// The record.
        of: RecordRef,
        /// The version.
        version: u64,
    },
    /// The content is not of the declared form.
    #[error("the {format} is not of the declared form: {}", listed(problems))]
    Content {
        /// Declared format.
        format: ContentFormat,
        /// Problems of the content, in the order of their lines as far as these are known.
        problems: Vec<ContentProblem>,
    },
    /// A limit would be exceeded.
    #[error("{of} would have {found} {unit}; expected at most {max}")]
    Limit {
        /// Limited thing.
        of: String,
        /// Limited unit, such as `versions`.
        unit: &'static str,
        /// Amount that the operation would cause.
        found: usize,
        /// Limit.
        max: usize,
    },
    /// The schema of a definition does not compile.
    #[error("the schema of the {format} does not compile: {problem}")]
    Schema {
        /// Declared format.
        format: ContentFormat,
        /// Problem of the schema.
        problem: String,
    },
}

/// An edit that is not based on the current version.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Changed {
    /// The record.
    #[serde(skip)]
    pub of: RecordRef,
    /// Number of the version that was edited.
    pub base: u64,
    /// The version that was edited, if it still exists.
    pub base_version: Option<Version>,
    /// The current version.
    pub current: VersionContent,
}

/// The conflicts of a merge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergeConflicts {
    /// The record.
    #[serde(skip)]
    pub of: RecordRef,
    /// First version.
    pub a: u64,
    /// Second version.
    pub b: u64,
    /// Version from which both come; `None` if there is none.
    pub base: Option<u64>,
    /// Conflicts, in the order of their places.
    pub conflicts: Vec<MergeConflict>,
}

impl RecordError {
    /// Returns the stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Store(error) => return error.code(),
            Self::Schema { .. } => "W1011",
            Self::Changed(_) => "W1020",
            Self::Conflicts(_) => "W1021",
            Self::NotMergeable { .. } => "W1022",
            Self::LastVersion { .. } => "W1023",
            Self::Content { .. } => "W1024",
            Self::Limit { .. } => "W1025",
        })
    }

    /// Converts the error to the form in which it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            error => Fault::new(error.code(), error.to_string()),
        }
    }
}

fn first(conflicts: &[MergeConflict]) -> String {
    conflicts.first().map(|conflict| conflict.location.to_string()).unwrap_or_default()
}

fn more(conflicts: usize) -> String {
    match conflicts {
        0 | 1 => String::new(),
        many => format!(" and {} more", many - 1),
    }
}

fn listed(problems: &[ContentProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
