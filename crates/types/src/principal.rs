//! On whose behalf something is done.

use crate::OrgId;
use serde::{Deserialize, Serialize};

/// Who asks. Every storage call takes one, and the organisation is the first column of every key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The organisation whose data may be seen.
    pub org: OrgId,
    /// The person or service within it, as shown in audit records.
    pub subject: String,
}

impl Principal {
    /// The principal of a program or command line that serves only the person who started it.
    #[must_use]
    pub fn local() -> Self {
        Self { org: local_org(), subject: "local".to_owned() }
    }
}

fn local_org() -> OrgId {
    #[expect(clippy::expect_used, reason = "the literal is a valid id")]
    OrgId::new("local").expect("`local` is a valid organisation id")
}
