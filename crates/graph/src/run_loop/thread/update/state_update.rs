//! A change of a thread's state, as it is requested.

use crate::error::RuntimeError;
use serde_json::Value as Json;
use weftwork_engine::EngineError;
use weftwork_engine::plan::START_NAME;

/// A change of a thread's state in the name of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct StateUpdate {
    /// Writes, in order; none for a change that only clears or copies.
    pub values: Option<Vec<(String, Json)>>,
    /// The node in whose name the change is made.
    pub as_node: AsNode,
}

impl StateUpdate {
    /// Reads a change in the form of a request: an object of channel values, or null for none.
    ///
    /// # Errors
    /// [`RuntimeError::Engine`] if the writes are neither.
    pub fn read(writes: Json, as_node: AsNode) -> Result<Self, RuntimeError> {
        let values = match writes {
            Json::Object(members) => Some(members.into_iter().collect()),
            Json::Null => None,
            other => {
                return Err(RuntimeError::Engine(EngineError::NotAnObject {
                    by: "the update".to_owned(),
                    found: other.to_string().chars().take(120).collect(),
                }));
            }
        };
        Ok(Self { values, as_node })
    }
}

/// The node in whose name a change is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AsNode {
    /// The node that ran last, when there is only one.
    Infer,
    /// This node: what follows it is due.
    Node(String),
    /// The hidden first node.
    Start,
    /// The end: what is due is dropped, what finished is applied.
    End,
    /// New input.
    Input,
    /// No node: the checkpoint is copied, beside itself.
    Copy,
    /// No node: the writes are applied, and nothing is due afterwards.
    State,
    /// No node: the writes are applied beside what is due, which stays due with its results and
    /// questions. Only at the newest checkpoint of the outermost graph.
    Beside,
}

impl AsNode {
    /// Reserved names, which denote no node of a graph. Names of nodes do not begin with `__`.
    const RESERVED: [(&str, Self); 6] = [
        (START_NAME, Self::Start),
        ("__end__", Self::End),
        ("__input__", Self::Input),
        ("__copy__", Self::Copy),
        ("__state__", Self::State),
        ("__beside__", Self::Beside),
    ];

    /// Returns the name of the node, or a reserved one; `None` for the node that ran last.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let Self::Node(name) = self {
            return Some(name);
        }
        let reserved = Self::RESERVED.iter().find(|(_, as_node)| as_node == self);
        reserved.map(|(name, _)| *name)
    }
}

impl std::convert::From<Option<String>> for AsNode {
    /// The name of a node or a reserved one; none for the node that ran last.
    fn from(name: Option<String>) -> Self {
        let Some(name) = name else { return Self::Infer };
        let reserved = Self::RESERVED.into_iter().find(|(reserved, _)| *reserved == name);
        reserved.map_or(Self::Node(name), |(_, as_node)| as_node)
    }
}
