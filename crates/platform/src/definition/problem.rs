//! Problems of definitions.

use serde::{Serialize, Serializer};
use std::fmt;
use weftwork_types::ErrorCode;

/// Maximum length in characters of a quoted value.
const QUOTE_CHARS_MAX: usize = 80;

/// A location in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
}

impl Location {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    pub(super) fn new(line: u64, column: u64) -> Self {
        Self { line: line.max(1), column: column.max(1) }
    }

    pub(super) fn of(location: &serde_saphyr::Location) -> Self {
        Self::new(location.line(), location.column())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// A file cannot be read.
    Unreadable,
    /// A file, or the number of definitions, exceeds a limit.
    TooLarge,
    /// The text is not YAML, or exceeds a limit of depth, aliases or values.
    Syntax,
    /// A mapping has a key that is not known there.
    UnknownKey,
    /// A value has another type.
    WrongType,
    /// A text is none of those that are possible.
    UnknownWord,
    /// A required key is missing.
    MissingKey,
    /// A value has the right type and is out of range, or has another form.
    BadValue,
    /// Two places say the same, or have the same name.
    Twice,
    /// The definition has what its type does not take, or lacks what its type needs.
    TypeMismatch,
    /// A schema of the definition does not compile.
    BadSchema,
    /// The definition names an agent that does not exist.
    UnknownAgent,
    /// An agent reaches itself through its sub-agents.
    Cycle,
    /// A step of an orchestration is not there, or has not ended when it is named.
    UnknownStep,
    /// A step of an orchestration waits for itself.
    StepCycle,
    /// A step of an orchestration never begins.
    Unreachable,
}

impl ProblemKind {
    /// Returns the stable code.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        ErrorCode(match self {
            Self::Unreadable => "W1001",
            Self::TooLarge => "W1002",
            Self::Syntax => "W1003",
            Self::UnknownKey => "W1004",
            Self::WrongType => "W1005",
            Self::UnknownWord => "W1006",
            Self::MissingKey => "W1007",
            Self::BadValue => "W1008",
            Self::Twice => "W1009",
            Self::TypeMismatch => "W1010",
            Self::BadSchema => "W1011",
            Self::UnknownAgent => "W1012",
            Self::Cycle => "W1013",
            Self::UnknownStep => "W1014",
            Self::StepCycle => "W1015",
            Self::Unreachable => "W1016",
        })
    }

    /// Returns the title, as in the page of the code.
    fn title(self) -> &'static str {
        match self {
            Self::Unreadable => "the file cannot be read",
            Self::TooLarge => "a limit is exceeded",
            Self::Syntax => "the text cannot be read as YAML",
            Self::UnknownKey => "the key is not known here",
            Self::WrongType => "the value has another type",
            Self::UnknownWord => "the word is not known here",
            Self::MissingKey => "a key is missing",
            Self::BadValue => "the value does not fit",
            Self::Twice => "the same is given twice",
            Self::TypeMismatch => "the definition does not fit its type",
            Self::BadSchema => "the schema does not compile",
            Self::UnknownAgent => "the agent does not exist",
            Self::Cycle => "the agent reaches itself",
            Self::UnknownStep => "the step does not exist here",
            Self::StepCycle => "the step waits for itself",
            Self::Unreachable => "the step never begins",
        }
    }
}

/// A problem of a definition.
///
/// Its text has one line: file, line, column, code, title, and what was found and expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Problem {
    /// Kind. JSON has its code beside it, as `code`.
    #[serde(flatten, serialize_with = "write_kind")]
    pub kind: ProblemKind,
    /// File, relative to the folder that was read. Empty for a text without a file.
    pub file: String,
    /// Location in the file.
    #[serde(flatten)]
    pub location: Location,
    /// Path of the value, such as `transport.api.method`. Empty for the whole file.
    pub path: String,
    /// Value that was found.
    pub found: String,
    /// Expected value or form.
    pub expected: String,
    /// Nearest known name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// Second location that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl Problem {
    pub(super) fn new(kind: ProblemKind, location: Location) -> Self {
        Self {
            kind,
            file: String::new(),
            location,
            path: String::new(),
            found: String::new(),
            expected: String::new(),
            nearest: None,
            other: None,
        }
    }

    pub(super) fn path(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Sets what was found. Control characters of the file are no part of it.
    pub(super) fn found(self, found: impl AsRef<str>) -> Self {
        Self { found: quote(found.as_ref()), ..self }
    }

    pub(super) fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: expected.into(), ..self }
    }

    /// Sets the nearest of the known names, if one is near.
    pub(super) fn nearest_of<'a>(self, found: &str, names: impl Iterator<Item = &'a str>) -> Self {
        Self { nearest: nearest(found, names).map(str::to_owned), ..self }
    }

    pub(super) fn other(self, file: &str, location: Location) -> Self {
        let other =
            if file.is_empty() { location.to_string() } else { format!("{file}:{location}") };
        Self { other: Some(other), ..self }
    }

    pub(super) fn in_file(self, file: &str) -> Self {
        Self { file: file.to_owned(), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        write!(f, "{}: {}: {}", self.location, self.kind.code(), self.kind.title())?;
        if !self.path.is_empty() {
            write!(f, ": `{}`", self.path)?;
        }
        if !self.found.is_empty() {
            write!(f, ": found {}", self.found)?;
        }
        if !self.expected.is_empty() {
            write!(f, "; expected {}", self.expected)?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        if let Some(other) = &self.other {
            write!(f, " (see {other})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Writes a kind with its code.
fn write_kind<S: Serializer>(kind: &ProblemKind, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Coded {
        kind: ProblemKind,
        code: ErrorCode,
    }
    Coded { kind: *kind, code: kind.code() }.serialize(serializer)
}

fn quote(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let line: String = text.chars().take(QUOTE_CHARS_MAX + 1).map(visible).collect();
    match line.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns the nearest name, if it differs in at most a third of its letters.
pub(crate) fn nearest<'a>(found: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let found = fold(found);
    names
        .map(|name| (strsim::damerau_levenshtein(&found, &fold(name)), name))
        .min()
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .map(|(_, name)| name)
}
