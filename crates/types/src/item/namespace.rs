use crate::StoreError;
use crate::store_error::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Maximum number of labels of a namespace.
pub const NAMESPACE_LABELS_MAX: usize = 16;

/// Maximum length of a namespace: the bytes of all labels, plus one for each dot between them.
pub const NAMESPACE_BYTES_MAX: usize = 1024;

/// Labels that are reserved as the first label of a namespace.
pub const RESERVED_ROOTS: [&str; 2] = ["weftwork", "langgraph"];

/// A rule that the labels of a namespace violate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceProblem {
    /// There are no labels.
    #[error("it has no label; expected one or more")]
    Empty,
    /// A label is empty.
    #[error("label {number} is empty; leave it out or name it")]
    EmptyLabel {
        /// Number of the label, from 1.
        number: usize,
    },
    /// A label has a reserved character.
    #[error("label {number} has the character {found:?}; labels may not have `.` or NUL")]
    Character {
        /// Number of the label, from 1.
        number: usize,
        /// Reserved character.
        found: char,
    },
    /// A label is `*`.
    #[error("label {number} is `*`, which stands for any label in patterns; choose another name")]
    Wildcard {
        /// Number of the label, from 1.
        number: usize,
    },
    /// The first label is one of [`RESERVED_ROOTS`].
    #[error("the first label `{label}` is reserved; choose another")]
    Reserved {
        /// Reserved label.
        label: String,
    },
    /// There are too many labels.
    #[error("it has {found} labels; expected at most {NAMESPACE_LABELS_MAX}")]
    TooDeep {
        /// Number of labels.
        found: usize,
    },
    /// The labels are too long.
    #[error("it is {found} bytes long; expected at most {NAMESPACE_BYTES_MAX}")]
    TooLong {
        /// Length with dots between the labels, in bytes.
        found: usize,
    },
}

/// The location of an item: one or more labels, the widest first, such as `users`, `ann`, `facts`.
/// Namespaces sort by their labels, so that namespaces with a common prefix are adjacent. The
/// display format has dots between the labels; the JSON format is a list of labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Namespace(Arc<[String]>);

impl Namespace {
    /// Validates labels and creates a namespace from them.
    ///
    /// # Errors
    /// Returns [`StoreError::BadNamespace`] if the labels violate a rule.
    pub fn new(labels: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let labels = collect(labels);
        let problem = match labels.first() {
            None => Some(NamespaceProblem::Empty),
            Some(root) if RESERVED_ROOTS.contains(&root.as_str()) => {
                Some(NamespaceProblem::Reserved { label: root.clone() })
            }
            Some(_) => problem(&labels),
        };
        refuse(&labels, problem)?;
        Ok(Self(labels.into()))
    }

    /// Returns the labels, the widest first. There is at least one.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.0
    }

    /// Returns the labels as one text for drivers, with a dot before, between and after them. Paths
    /// of namespaces with a common prefix are adjacent in byte order.
    #[must_use]
    pub fn path(&self) -> String {
        path(&self.0)
    }

    /// Parses the result of [`path`](Self::path).
    ///
    /// # Errors
    /// Returns [`StoreError::BadNamespace`] if the path is not valid.
    pub fn of_path(path: &str) -> Result<Self> {
        let inner = path.strip_prefix('.').and_then(|rest| rest.strip_suffix('.'));
        Self::new(inner.unwrap_or("").split('.'))
    }

    /// Returns the namespace of the first `depth` labels.
    pub(super) fn cut(&self, depth: usize) -> Self {
        match self.0.get(..depth) {
            Some(first) if first.len() < self.0.len() => Self(first.into()),
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl std::str::FromStr for Namespace {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self> {
        Self::new(text.split('.'))
    }
}

impl TryFrom<Vec<String>> for Namespace {
    type Error = StoreError;
    fn try_from(labels: Vec<String>) -> Result<Self> {
        Self::new(labels)
    }
}

impl From<Namespace> for Vec<String> {
    fn from(namespace: Namespace) -> Self {
        namespace.0.to_vec()
    }
}

impl Borrow<[String]> for Namespace {
    fn borrow(&self) -> &[String] {
        &self.0
    }
}

/// The labels with which the namespaces of a search start. There are no wildcards. A prefix without
/// labels matches all namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix(Vec<String>);

impl Prefix {
    /// Returns the prefix of all namespaces.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Validates labels and creates a prefix from them.
    ///
    /// # Errors
    /// Returns [`StoreError::BadNamespace`] if the labels violate a rule.
    pub fn new(labels: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let labels = collect(labels);
        refuse(&labels, problem(&labels))?;
        Ok(Self(labels))
    }

    /// Returns the labels.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.0
    }

    /// Returns the range of the [paths](Namespace::path) that start with these labels, in byte
    /// order: the first path, inclusive, and the end, exclusive.
    #[must_use]
    pub fn paths(&self) -> (String, String) {
        let first = path(&self.0);
        // Labels contain no dot, and `/` is the character after `.`.
        let end = format!("{}/", &first[..first.len() - 1]);
        (first, end)
    }
}

impl From<&Namespace> for Prefix {
    fn from(namespace: &Namespace) -> Self {
        Self(namespace.0.to_vec())
    }
}

/// Labels at the start or end of a namespace, where `*` matches any one label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern(Vec<Option<String>>);

impl Pattern {
    /// Validates labels and creates a pattern from them. A pattern without labels matches every
    /// namespace.
    ///
    /// # Errors
    /// Returns [`StoreError::BadNamespace`] if the labels violate a rule.
    pub fn new(labels: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let labels = collect(labels);
        // A `*` is validated as a letter, so that positions and lengths are counted correctly.
        let plain: Vec<_> =
            labels.iter().map(|l| if l == "*" { "x".to_owned() } else { l.clone() }).collect();
        refuse(&labels, problem(&plain))?;
        Ok(Self(labels.into_iter().map(|label| Some(label).filter(|l| l != "*")).collect()))
    }

    /// Returns the labels before the first wildcard.
    #[must_use]
    pub fn prefix(&self) -> Prefix {
        Prefix(self.0.iter().map_while(Clone::clone).collect())
    }

    /// Returns `true` if the namespace starts with a match of this pattern.
    #[must_use]
    pub fn begins(&self, namespace: &Namespace) -> bool {
        let mut from_start = self.0.iter().zip(namespace.0.iter());
        namespace.0.len() >= self.0.len() && from_start.all(|(pattern, label)| fits(pattern, label))
    }

    /// Returns `true` if the namespace ends with a match of this pattern.
    #[must_use]
    pub fn ends(&self, namespace: &Namespace) -> bool {
        let mut from_end = self.0.iter().rev().zip(namespace.0.iter().rev());
        namespace.0.len() >= self.0.len() && from_end.all(|(pattern, label)| fits(pattern, label))
    }
}

fn fits(pattern: &Option<String>, label: &str) -> bool {
    pattern.as_ref().is_none_or(|wanted| wanted == label)
}

fn collect(labels: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    labels.into_iter().map(Into::into).collect()
}

fn path(labels: &[String]) -> String {
    labels.iter().fold(String::from("."), |path, label| path + label + ".")
}

fn refuse(labels: &[String], problem: Option<NamespaceProblem>) -> Result<()> {
    let Some(problem) = problem else { return Ok(()) };
    let found = super::record::cut(&format!("{labels:?}"));
    Err(StoreError::BadNamespace { found, problem })
}

fn problem(labels: &[String]) -> Option<NamespaceProblem> {
    if labels.len() > NAMESPACE_LABELS_MAX {
        return Some(NamespaceProblem::TooDeep { found: labels.len() });
    }
    let bytes = labels.iter().map(|label| label.len() + 1).sum::<usize>().saturating_sub(1);
    if bytes > NAMESPACE_BYTES_MAX {
        return Some(NamespaceProblem::TooLong { found: bytes });
    }
    (1..).zip(labels).find_map(|(number, label)| {
        if label.is_empty() {
            return Some(NamespaceProblem::EmptyLabel { number });
        }
        if label == "*" {
            return Some(NamespaceProblem::Wildcard { number });
        }
        let bad = label.chars().find(|c| matches!(c, '.' | '\0'));
        bad.map(|found| NamespaceProblem::Character { number, found })
    })
}
