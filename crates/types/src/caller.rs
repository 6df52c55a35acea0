//! Billing identity of calls. A call inside a graph always names its run and graph; a call outside of
//! graphs has neither.

use crate::{BillingAccountId, RequestId, RunId, TraceId, VirtualKeyId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The billing identity of a model or tool call outside of graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Account that is billed.
    pub billing_account: BillingAccountId,
    /// Virtual key of the call.
    pub virtual_key: VirtualKeyId,
    /// Inbound request that the call belongs to.
    pub request: RequestId,
    /// Distributed trace that the call belongs to.
    pub trace: TraceId,
}

/// The billing identity of a model or tool call inside a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphCaller {
    /// Billing identity of the run.
    pub caller: Caller,
    /// The run.
    pub run: RunId,
    /// Id of the graph.
    pub graph: String,
    /// Version of the graph: a git SHA at build time, or the content hash of a definition.
    pub graph_version: String,
}

/// Origin of a model or tool call. Stored as the billing identity itself, which has a run or none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredOrigin")]
pub enum CallOrigin {
    /// A program, outside of graphs.
    Program(Arc<Caller>),
    /// A run of a graph.
    Run(Arc<GraphCaller>),
}

/// The stored form of a [`CallOrigin`].
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredOrigin {
    Run(GraphCaller),
    Program(Caller),
}

impl From<StoredOrigin> for CallOrigin {
    fn from(stored: StoredOrigin) -> Self {
        match stored {
            StoredOrigin::Run(caller) => caller.into(),
            StoredOrigin::Program(caller) => Self::Program(Arc::new(caller)),
        }
    }
}

impl From<GraphCaller> for CallOrigin {
    fn from(caller: GraphCaller) -> Self {
        Self::Run(Arc::new(caller))
    }
}

impl Serialize for CallOrigin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Program(caller) => caller.serialize(serializer),
            Self::Run(caller) => caller.serialize(serializer),
        }
    }
}

impl CallOrigin {
    /// Returns the run and graph of the call; `None` outside of graphs.
    #[must_use]
    pub fn run(&self) -> Option<&GraphCaller> {
        match self {
            Self::Program(_) => None,
            Self::Run(caller) => Some(caller),
        }
    }

    /// Returns the origin with [`Caller::erased`]; run and graph stay.
    #[must_use]
    pub fn erased(&self) -> Self {
        match self {
            Self::Program(_) => Self::Program(Arc::new(Caller::erased())),
            Self::Run(graph) => {
                GraphCaller { caller: Caller::erased(), ..GraphCaller::clone(graph) }.into()
            }
        }
    }

    /// Returns the billing identity of the call.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        match self {
            Self::Program(caller) => caller,
            Self::Run(graph) => &graph.caller,
        }
    }
}

impl Caller {
    /// The caller of usage whose names were erased: each id is the UUID of zeroes.
    #[must_use]
    pub fn erased() -> Self {
        let nobody = uuid::Uuid::nil();
        Self {
            billing_account: BillingAccountId::from_uuid(nobody),
            virtual_key: VirtualKeyId::from_uuid(nobody),
            request: RequestId::from_uuid(nobody),
            trace: TraceId::from_uuid(nobody),
        }
    }

    /// Creates the caller of a run in its own process, which is not billed.
    #[must_use]
    pub fn in_process(run: &RunId) -> Self {
        let uuid = uuid::Uuid::try_parse(run.as_str()).unwrap_or_default();
        Self {
            billing_account: BillingAccountId::from_uuid(uuid),
            virtual_key: VirtualKeyId::from_uuid(uuid),
            request: RequestId::from_uuid(uuid),
            trace: TraceId::from_uuid(uuid),
        }
    }

    /// Creates the caller of a program on a user's own machine, which is not billed.
    ///
    /// # Errors
    /// Returns [`crate::id::InvalidId`] if `request` is not a valid id.
    pub fn local(request: impl AsRef<str>) -> Result<Self, crate::id::InvalidId> {
        Ok(Self {
            billing_account: BillingAccountId::new("local")?,
            virtual_key: VirtualKeyId::new("local")?,
            request: RequestId::new(request.as_ref())?,
            trace: TraceId::new(request.as_ref())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_stored_as_its_billing_identity() {
        let caller = Caller::local("request").expect("an id");
        let graph = GraphCaller {
            caller: caller.clone(),
            run: RunId::new("run").expect("an id"),
            graph: "test:graph".to_owned(),
            graph_version: "1".to_owned(),
        };
        let stored = serde_json::json!(graph);
        for origin in [CallOrigin::Program(Arc::new(caller)), graph.into()] {
            let read: CallOrigin =
                serde_json::from_value(serde_json::json!(origin)).expect("reads");
            assert_eq!(read, origin);
        }
        let read: CallOrigin = serde_json::from_value(stored).expect("an earlier record");
        assert_eq!(read.run().map(|caller| caller.run.as_str()), Some("run"));
    }
}
