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

/// Origin of a model or tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOrigin {
    /// A program, outside of graphs.
    Program(Arc<Caller>),
    /// A run of a graph.
    Run(Arc<GraphCaller>),
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
