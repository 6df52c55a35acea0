//! The error of a limit of an account or key.

use super::MICRO_USD;
use crate::code::ReachedLimit;
use crate::usage::dollars;
use crate::{ErrorCode, Timestamp};

/// An error for a limit of an account or key that was reached, or that the next call would pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct LimitReached {
    /// The account or key, such as "key `team-a`".
    pub subject: String,
    /// Counted unit, such as `tokens`.
    pub unit: &'static str,
    /// Time over which the limit counts, such as `a day`.
    pub window: &'static str,
    /// Amount used, and reserved by calls that are being made.
    pub used: u64,
    /// Amount that the next call, or the request, needs.
    pub needed: u64,
    /// Amount allowed.
    pub limit: u64,
    /// Earliest time at which the window may have enough left.
    pub until: Timestamp,
    /// The same time for people, in the time zone of the limits.
    pub until_text: String,
}

impl LimitReached {
    /// The stable error code.
    pub const CODE: ErrorCode = ErrorCode("W0661");
    /// Unit of a limit of the cost.
    pub const COST: &str = MICRO_USD;

    fn text(&self) -> String {
        let Self { subject, unit, window, used, needed, limit, until_text, .. } = self;
        let [used_text, needed_text, limit_text] = [*used, *needed, *limit]
            .map(|amount| if *unit == MICRO_USD { dollars(amount) } else { amount.to_string() });
        let unit = if *unit == MICRO_USD { "USD" } else { unit };
        let next = match used < limit {
            true => format!(", and {needed_text} more are needed"),
            false => String::new(),
        };
        format!(
            "{subject} has the limit of {limit_text} {unit} {window}, of which {used_text} are \
             used{next}; wait until {until_text}, or raise the limit"
        )
    }

    pub(super) fn reached_limit(&self) -> ReachedLimit {
        let Self { unit, window, used, needed, limit, .. } = self;
        let needed = (used < limit).then_some(*needed);
        ReachedLimit { unit: format!("{unit} {window}"), used: *used, needed, limit: *limit }
    }
}
