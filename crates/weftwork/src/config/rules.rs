//! The operator's rules for tools, from a file of its own.

use super::{Setting, Surroundings};
use crate::Error;
use std::path::PathBuf;
use weftwork_tools::Policy;

/// The rules of an operator.
#[derive(Debug, Clone)]
pub struct ToolRules {
    /// The file: TOML, or JSON if its name ends with `.json`.
    pub file: Setting<PathBuf>,
    /// The rules.
    pub policy: Policy,
}

impl ToolRules {
    /// Reads the rules.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`] and [`Error::ConfigInvalid`].
    pub(super) fn read(setting: Setting<String>, around: &Surroundings<'_>) -> Result<Self, Error> {
        let path = around.folder.join(&setting.value);
        let text = std::fs::read_to_string(&path).map_err(|error| Error::ConfigUnreadable {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let invalid = |line, reason| Error::ConfigInvalid { path: path.clone(), line, reason };
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let policy = if is_json {
            serde_json::from_str(&text)
                .map_err(|error| invalid(error.line().max(1), error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error: toml::de::Error| {
                let start = error.span().map_or(0, |span| span.start);
                let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
                invalid(line, error.message().to_owned())
            })?
        };
        Ok(Self { file: Setting { value: path, origin: setting.origin }, policy })
    }
}
