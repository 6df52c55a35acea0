//! Who pays for a call, as types: a graph's call cannot be made without naming run and graph.

use crate::{BillingAccountId, RequestId, RunId, TraceId, VirtualKeyId};
use serde::{Deserialize, Serialize};

/// The caller of a model or tool outside any graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The account that pays.
    pub billing_account: BillingAccountId,
    /// The key the call is made under.
    pub virtual_key: VirtualKeyId,
    /// The inbound request this belongs to.
    pub request: RequestId,
    /// The distributed trace this belongs to.
    pub trace: TraceId,
}

/// The caller of a model or tool inside a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphCaller {
    /// Who pays.
    pub caller: Caller,
    /// The run.
    pub run: RunId,
    /// The graph that runs.
    pub graph: String,
    /// Its version: a git SHA at build, or the content hash of a definition.
    pub graph_version: String,
}

impl Caller {
    /// The caller of a run within the program that started it, where nobody is billed.
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

    /// The caller of a program on a person's own machine, where nobody is billed.
    ///
    /// # Errors
    /// [`crate::id::InvalidId`] when `request` is not usable as an id.
    pub fn local(request: impl AsRef<str>) -> Result<Self, crate::id::InvalidId> {
        Ok(Self {
            billing_account: BillingAccountId::new("local")?,
            virtual_key: VirtualKeyId::new("local")?,
            request: RequestId::new(request.as_ref())?,
            trace: TraceId::new(request.as_ref())?,
        })
    }
}
