//! The identity on whose behalf an operation is performed.

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
}

impl Principal {
    /// Creates the principal of a local program or command line that serves only its own user.
    #[must_use]
    pub fn local() -> Self {
        Self { org: local_org(), subject: "local".to_owned() }
    }

    /// Creates the principal of the work of servers that belongs to no organisation.
    #[must_use]
    pub fn of_workers() -> Self {
        #[expect(clippy::expect_used, reason = "the literal is a valid id")]
        let org = OrgId::new("weft:workers").expect("`weft:workers` is a valid organisation id");
        Self { org, subject: "worker".to_owned() }
    }
}

fn local_org() -> OrgId {
    #[expect(clippy::expect_used, reason = "the literal is a valid id")]
    OrgId::new("local").expect("`local` is a valid organisation id")
}
