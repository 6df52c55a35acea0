//! Overrides of a prompt for one evaluation.

use super::section::Visibility;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weftwork_types::canonical::Hash;

/// Changes of the sections of a prompt for one evaluation, by their paths. They are stored with the
/// run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Overrides {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) visibility: BTreeMap<String, Visibility>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) text: BTreeMap<String, TextOverride>,
}

/// A template in place of that of a section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextOverride {
    /// Hash of the template that is replaced.
    pub(super) of: Hash,
    pub(super) template: String,
}

impl Overrides {
    /// Creates overrides that change nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Renders a section in this form.
    pub fn visibility(mut self, path: impl Into<String>, visibility: Visibility) -> Self {
        self.visibility.insert(path.into(), visibility);
        self
    }

    /// Replaces the template of a section whose content has this hash
    /// ([`Section::content_hash`](crate::Section::content_hash),
    /// [`Prompt::content_hash`](crate::Prompt::content_hash)). If the section has changed since, the
    /// evaluation is refused (W0612).
    pub fn text(mut self, path: impl Into<String>, of: Hash, template: impl Into<String>) -> Self {
        self.text.insert(path.into(), TextOverride { of, template: template.into() });
        self
    }
}
