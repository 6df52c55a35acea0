//! Limits, and what is used of them.

use super::UsageLimits;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weftwork_store::{BilledTo, LimitWindow, Period, Store, move_all_usage};
use weftwork_types::usage::dollars;
use weftwork_types::{Principal, Timestamp};

/// A limit and what is used of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitLine {
    /// The account or key.
    pub subject: BilledTo,
    /// Name of the limit, such as `tokens_per_day`.
    pub name: String,
    /// Amount used; costs in dollars.
    pub used: String,
    /// Amount allowed; costs in dollars.
    pub limit: String,
    /// End of the day or month; of a minute, the time at which all of it has left.
    pub until: String,
}

impl LimitLine {
    /// Returns the line as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { subject, name, used, limit, until } = self;
        json!({subject.kind(): subject.id(), "limit": name, "used": used, "max": limit, "until": until})
    }
}

/// Returns the limits of accounts and keys with what is used of them, without calls that are being
/// made. Moves usage to the bill first.
///
/// # Errors
/// Only system errors of the store.
pub async fn report_limits(
    store: &dyn Store,
    limits: &UsageLimits,
    subjects: &[BilledTo],
    now: Timestamp,
) -> weftwork_store::Result<Vec<LimitLine>> {
    move_all_usage(store).await?;
    let mut lines = Vec::new();
    for limit in subjects.iter().flat_map(|subject| limits.of_subject(subject)) {
        let window = limit.name.window;
        let from = limits.start(window, now);
        let used = match limit.name.unit.of_starts() {
            Some(unit) => unit.of(store.starts(&limit.subject, window, from).await?),
            None => limit.name.unit.of_usage(store.subject_usage(&limit.subject, from, &[]).await?),
        };
        let show = |amount: u64| match limit.name.unit {
            super::LimitUnit::Cost => dollars(amount),
            _ => amount.to_string(),
        };
        lines.push(LimitLine {
            name: limit.name.to_string(),
            used: show(used),
            limit: show(limit.max),
            until: limits.show(limits.end(window, now)),
            subject: limit.subject,
        });
    }
    Ok(lines)
}

/// Returns the limits of the accounts and keys that the configuration names, and of those of an
/// organisation with usage in this month, as [`report_limits`] does.
///
/// # Errors
/// Only system errors of the store.
pub async fn report_all_limits(
    store: &dyn Store,
    who: &Principal,
    limits: &UsageLimits,
    now: Timestamp,
) -> weftwork_store::Result<Vec<LimitLine>> {
    move_all_usage(store).await?;
    let month = LimitWindow::Month;
    let period = Period { from: limits.start(month, now), until: limits.end(month, now) };
    let mut subjects: BTreeSet<_> = limits.named().collect();
    for total in store.usage_totals(who, period).await? {
        subjects.insert(BilledTo::Account(total.group.account));
        subjects.insert(BilledTo::Key(total.group.key));
    }
    let subjects: Vec<_> = subjects.into_iter().collect();
    report_limits(store, limits, &subjects, now).await
}
