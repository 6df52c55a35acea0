//! The configuration file.

use super::nearest;
use super::remotes::RemoteEntry;
use super::usage_limits::LimitSection;
use crate::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use weftwork_models::{ModelSettings, ProviderOverride};

/// The origin of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
    /// The program itself, through the API.
    Program,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("by default"),
            Self::File(path) => write!(f, "from {}", path.display()),
            Self::Environment(name) => write!(f, "from {name}"),
            Self::Flag(name) => write!(f, "from {name}"),
            Self::Program => f.write_str("from the program"),
        }
    }
}

/// The contents of a configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) model: Option<String>,
    pub(super) store: Option<String>,
    pub(super) model_file: Option<String>,
    pub(super) policy: Option<String>,
    pub(super) agents: Option<String>,
    pub(super) thread_budget: Option<String>,
    pub(super) egress: Egress,
    pub(super) providers: BTreeMap<String, ProviderOverride>,
    pub(super) models: BTreeMap<String, ModelSettings>,
    pub(super) remotes: BTreeMap<String, RemoteEntry>,
    pub(super) limits: LimitSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Egress {
    pub(super) allow: Vec<String>,
    pub(super) proxy: Option<String>,
}

impl File {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            Error::ConfigInvalid {
                path: path.to_owned(),
                line: before.matches('\n').count() + 1,
                reason: with_hint(error.message()),
            }
        })
    }
}

/// Extends an error message about an unknown field with the most similar known name.
fn with_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown").then(|| quoted.next()).flatten();
    match unknown.and_then(|found| nearest(found, quoted)) {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message.trim_end().replace('\n', "; "),
    }
}
