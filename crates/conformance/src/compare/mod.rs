//! Comparing a trace with the recorded one.
//!
//! Ids are renamed on both sides by first appearance in one walking order, so any unique strings
//! will do. What the format leaves open is evened out first: the order between namespaces, the
//! order of open questions in one list, the place of custom and message events among the ends of
//! tasks that run side by side.

mod canon;
mod diff;
#[cfg(test)]
mod tests;

pub use diff::Difference;

use canon::Canon;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Error messages that are compared; classes always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Messages {
    /// Messages that the nodes of the spec raise: an engine words its own errors.
    #[default]
    Own,
    /// None.
    None,
    /// All.
    All,
}

/// Comparison of the order in which tasks of one superstep finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinishOrder {
    /// The order is compared.
    #[default]
    Compared,
    /// Finished tasks are put into the order in which they started.
    Any,
}

/// Rules that set how strictly traces are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Messages of errors.
    pub messages: Messages,
    /// Order of tasks that run side by side.
    pub finish_order: FinishOrder,
}

/// The first difference between the expected trace of a spec and another one; `None` when they
/// are equal under the rules.
#[must_use]
pub fn difference(spec: &Json, expected: &Json, got: &Json, rules: Rules) -> Option<Difference> {
    let mut own = BTreeSet::new();
    strings(spec, &mut own);
    let canonical = |trace| Canon::new(rules, &own).trace(trace);
    diff::first(&canonical(expected), &canonical(got))
}

/// Every string in a spec but names of members.
fn strings<'a>(json: &'a Json, found: &mut BTreeSet<&'a str>) {
    match json {
        Json::String(text) => {
            found.insert(text);
        }
        Json::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Json::Object(members) => members.values().for_each(|item| strings(item, found)),
        _ => {}
    }
}
