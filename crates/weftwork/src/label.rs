//! The mark before the answers of a model that is not what people expect.

use weftwork_models::ModelInfo;

/// Id of the model that follows rules.
const RULES: &str = "scripted:rules";

/// The short form of a model's label, shown before each line of its answers; `None` for models
/// without a label, and for the scripted rules, whose answers begin with it themselves.
#[must_use]
pub fn tag(info: &ModelInfo) -> Option<&str> {
    if info.id() == RULES {
        return None;
    }
    let label = info.label.as_deref()?;
    Some(label.split([':', ',', ';']).next().unwrap_or(label).trim())
}
