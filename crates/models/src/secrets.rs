//! Secret arguments in the answers of models.

use crate::ChatRequest;
use serde_json::Value;
use std::collections::BTreeMap;
use weftwork_types::message::{Message, Part};
use weftwork_types::secret::{SECRET, has_secrets, shown_args, strip};

/// Schemas of the arguments of a request's tools, if one of them has secret arguments.
#[derive(Debug)]
pub(crate) struct Secrets(BTreeMap<String, Value>);

impl Secrets {
    /// Returns the request without the marks of secrets, which are not for the model.
    pub(crate) fn take(mut request: ChatRequest) -> (ChatRequest, Self) {
        let mut schemas = BTreeMap::new();
        if request.tools.iter().any(|tool| has_secrets(&tool.parameters)) {
            for tool in &mut request.tools {
                schemas.insert(tool.wire_name(), tool.parameters.clone());
                strip(&mut tool.parameters);
            }
        }
        (request, Self(schemas))
    }

    /// Returns `true` if no tool has secret arguments.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if calls with this name may have secret arguments: the name of a tool with
    /// secrets, or a part or a variant of such a name.
    pub(crate) fn are_in(&self, tool: &str) -> bool {
        !self.0.is_empty() && self.0.get(tool).is_none_or(has_secrets)
    }

    /// Adds the shown form of arguments to the calls of an answer.
    pub(crate) fn hide(&self, message: &mut Message) {
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part
                && self.are_in(&call.name)
            {
                let schema = self.0.get(&call.name);
                let shown = schema.and_then(|schema| shown_args(schema, &call.args));
                call.shown = Some(shown.unwrap_or_else(|| SECRET.into()));
            }
        }
    }
}
