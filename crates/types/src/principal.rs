//! The identity on whose behalf an operation is performed, and its rights.

mod rights;

pub use rights::{InvalidRights, Right, Rights};

use crate::OrgId;
use serde::{Deserialize, Serialize};

/// An authenticated client. Every storage call takes one; its organisation is the first column of
/// every key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Organisation whose data is accessible.
    pub org: OrgId,
    /// Person or service within the organisation, as shown in audit records.
    pub subject: String,
    /// Kinds of operations that a server performs for it. Stores do not have them: who reads a run
    /// from a store acts for its principal with all rights.
    #[serde(default, skip_serializing_if = "Rights::is_all")]
    pub rights: Rights,
}

impl Principal {
    /// Creates a principal with all rights, as programs and the rows of stores have.
    pub fn new(org: OrgId, subject: impl Into<String>) -> Self {
        Self { org, subject: subject.into(), rights: Rights::ALL }
    }

    /// Returns the principal with other rights.
    #[must_use]
    pub fn with_rights(self, rights: Rights) -> Self {
        Self { rights, ..self }
    }

    /// Creates the principal of a local program or command line that serves only its own user.
    #[must_use]
    pub fn local() -> Self {
        Self::new(local_org(), "local")
    }

    /// Returns `true` if the principal may change the agents of an organisation, or those for all if
    /// `None`, as far as its organisation decides it. Agents for all belong to the organisation of
    /// [`local`](Self::local).
    #[must_use]
    pub fn may_define_for(&self, organization: Option<&str>) -> bool {
        match organization {
            Some(organization) => self.org.as_str() == organization,
            None => self.org == local_org(),
        }
    }

    /// Creates the principal of the work of servers that belongs to no organisation.
    #[must_use]
    pub fn of_workers() -> Self {
        #[expect(clippy::expect_used, reason = "the literal is a valid id")]
        let org = OrgId::new("weft:workers").expect("`weft:workers` is a valid organisation id");
        Self::new(org, "worker")
    }
}

fn local_org() -> OrgId {
    #[expect(clippy::expect_used, reason = "the literal is a valid id")]
    OrgId::new("local").expect("`local` is a valid organisation id")
}
