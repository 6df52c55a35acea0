//! Calls of this process whose usage is not yet in the bill.

use super::OpenCalls;
use weftwork_store::SubjectUsage;
use weftwork_types::caller::Caller;
use weftwork_types::usage::Usage;
use weftwork_types::{Principal, Timestamp};

/// Time after which a call that has ended is no longer waited for, in milliseconds. No window is
/// longer: its usage was lost.
const LOST_AFTER_MS: i64 = 32 * 24 * 60 * 60 * 1_000;

/// A call that was reserved.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) who: Principal,
    pub(super) caller: Caller,
    /// The estimate; of a call that has ended, what it used.
    pub(super) usage: SubjectUsage,
    pub(super) ended_at: Option<Timestamp>,
}

impl Tracked {
    /// Returns `true` if the call belongs to a window with this first time. A call that is being
    /// made belongs to every window.
    pub(super) fn counts_from(&self, from: Timestamp, open: OpenCalls) -> bool {
        match self.ended_at {
            Some(ended) => ended >= from,
            None => open == OpenCalls::Counted,
        }
    }

    pub(super) fn is_lost(&self, now: Timestamp) -> bool {
        self.ended_at.is_some_and(|ended| ended.0.saturating_add(LOST_AFTER_MS) < now.0)
    }
}

/// Returns usage in the form in which limits count it.
pub(super) fn counted(usage: Usage) -> SubjectUsage {
    SubjectUsage { tokens: usage.tokens.total(), cost_micro_usd: usage.cost_micro_usd }
}
