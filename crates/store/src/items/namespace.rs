use crate::error::StoreError;
use crate::table::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// How many labels a namespace may have.
pub const NAMESPACE_LABELS_MAX: usize = 16;

/// How long a namespace may be: the bytes of all labels and of one dot between each two.
pub const NAMESPACE_BYTES_MAX: usize = 1024;

/// First labels that no namespace of a user's may have.
pub const RESERVED_ROOTS: [&str; 2] = ["weftwork", "langgraph"];

/// What is wrong with the labels of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceProblem {
    /// There are none.
    #[error("it has no label; expected one or more")]
    Empty,
    /// One has no characters.
    #[error("label {number} is empty; leave it out or name it")]
    EmptyLabel {
        /// Which, counted from 1.
        number: usize,
    },
    /// One has a character that stands for something else.
    #[error("label {number} has the character {found:?}; labels may not have `.` or NUL")]
    Character {
        /// Which, counted from 1.
        number: usize,
        /// The character.
        found: char,
    },
    /// One is `*`.
    #[error("label {number} is `*`, which stands for any label in patterns; name it otherwise")]
    Wildcard {
        /// Which, counted from 1.
        number: usize,
    },
    /// The first is one of [`RESERVED_ROOTS`].
    #[error("the first label `{label}` is reserved; choose another")]
    Reserved {
        /// The label.
        label: String,
    },
    /// There are too many.
    #[error("it has {found} labels; expected at most {NAMESPACE_LABELS_MAX}")]
    TooDeep {
        /// How many.
        found: usize,
    },
    /// They are too long.
    #[error("it is {found} bytes long; expected at most {NAMESPACE_BYTES_MAX}")]
    TooLong {
        /// How long with dots between them, in bytes.
        found: usize,
    },
}

/// Where an item is: one label or more, the widest first, such as `users`, `ann`, `facts`. Sorts
/// by its labels; those that begin alike stand together. Shown with dots between the labels, as
/// JSON a list of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Namespace(Arc<[String]>);

impl Namespace {
    /// Checks labels and makes a namespace of them.
    ///
    /// # Errors
    /// [`StoreError::BadNamespace`].
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

    /// The labels, the widest first; one or more.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.0
    }

    /// The labels as one text, for drivers: a dot before, between and after them. The texts of the
    /// namespaces that begin alike stand together in the order of their bytes.
    #[must_use]
    pub fn path(&self) -> String {
        path(&self.0)
    }

    /// Reads what [`path`](Self::path) gave.
    ///
    /// # Errors
    /// [`StoreError::BadNamespace`].
    pub fn of_path(path: &str) -> Result<Self> {
        let inner = path.strip_prefix('.').and_then(|rest| rest.strip_suffix('.'));
        Self::new(inner.unwrap_or("").split('.'))
    }

    /// The first labels, at most `depth`.
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

/// What the namespaces of a search begin with, label by label; nothing is a wildcard. Without
/// labels it is what all of them begin with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefix(Vec<String>);

impl Prefix {
    /// What all namespaces begin with.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Checks labels and makes a prefix of them.
    ///
    /// # Errors
    /// [`StoreError::BadNamespace`].
    pub fn new(labels: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let labels = collect(labels);
        refuse(&labels, problem(&labels))?;
        Ok(Self(labels))
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.0
    }

    /// The paths of the namespaces that begin with these labels: from the first of these texts to
    /// the second, which is none of them, in the order of bytes.
    #[must_use]
    pub fn paths(&self) -> (String, String) {
        let first = path(&self.0);
        // No label has a dot, and a slash is the next character.
        let end = format!("{}/", &first[..first.len() - 1]);
        (first, end)
    }
}

impl From<&Namespace> for Prefix {
    fn from(namespace: &Namespace) -> Self {
        Self(namespace.0.to_vec())
    }
}

/// Labels as they may stand at the beginning or end of a namespace, where `*` is any one label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pattern(Vec<Option<String>>);

impl Pattern {
    /// Checks labels and makes a pattern of them. Without labels it fits every namespace.
    ///
    /// # Errors
    /// [`StoreError::BadNamespace`].
    pub fn new(labels: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let labels = collect(labels);
        // A `*` is checked as the letter, so that places and lengths are counted right.
        let plain: Vec<_> =
            labels.iter().map(|l| if l == "*" { "x".to_owned() } else { l.clone() }).collect();
        refuse(&labels, problem(&plain))?;
        Ok(Self(labels.into_iter().map(|label| Some(label).filter(|l| l != "*")).collect()))
    }

    /// The labels before the first that may be any.
    #[must_use]
    pub fn prefix(&self) -> Prefix {
        Prefix(self.0.iter().map_while(Clone::clone).collect())
    }

    /// Whether a namespace begins like this.
    #[must_use]
    pub fn begins(&self, namespace: &Namespace) -> bool {
        namespace.0.len() >= self.0.len() && self.0.iter().zip(namespace.0.iter()).all(fits)
    }

    /// Whether a namespace ends like this.
    #[must_use]
    pub fn ends(&self, namespace: &Namespace) -> bool {
        let from_end = self.0.iter().rev().zip(namespace.0.iter().rev());
        namespace.0.len() >= self.0.len() && from_end.into_iter().all(fits)
    }
}

fn fits((pattern, label): (&Option<String>, &String)) -> bool {
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
    let found = super::item::cut(&format!("{labels:?}"));
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
