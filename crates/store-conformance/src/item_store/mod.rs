//! Conformance cases for item stores, by name, over any [`ItemStore`].
//!
//! The cases are independent of the async runtime. A driver writes one test per case with
//! [`item_conformance_tests`](crate::item_conformance_tests), or runs them all:
//!
//! ```
//! use std::sync::Arc;
//! use weftwork_store_conformance::item_store::{CASES, run_case};
//! use weftwork_store::{ItemStore, MemoryItems};
//! use weftwork_types::port::Clock;
//!
//! async fn fresh(clock: Arc<dyn Clock>) -> Arc<dyn ItemStore> {
//!     Arc::new(MemoryItems::new(clock))
//! }
//!
//! async fn memory_conforms() {
//!     for case in CASES {
//!         run_case(case.name, fresh).await;
//!     }
//! }
//! ```
#![expect(clippy::expect_used, reason = "a failing case panics with the reason")]

mod clock;
mod expiry;
mod fixture;
mod listing;
mod model;
mod search;
mod values;

pub use clock::StillClock;

use std::sync::Arc;
use weftwork_store::ItemStore;
use weftwork_types::BoxFuture;
use weftwork_types::port::Clock;

/// An empty store and its clock.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Store under test.
    pub store: Arc<dyn ItemStore>,
    /// Clock of the store.
    pub clock: Arc<StillClock>,
}

/// A property that every item store must have.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// Checks the property; panics if it does not hold.
    pub run: fn(Bench) -> BoxFuture<'static, ()>,
}

/// Runs a case by name on a store created by `fresh`.
///
/// # Panics
/// Panics if the store fails the case, or if there is no case of this name.
pub async fn run_case<F>(name: &str, fresh: impl Fn(Arc<dyn Clock>) -> F)
where
    F: Future<Output = Arc<dyn ItemStore>>,
{
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.expect("the name is that of a case");
    let clock = Arc::new(StillClock::default());
    let store = fresh(Arc::<StillClock>::clone(&clock)).await;
    (case.run)(Bench { store, clock }).await;
}

macro_rules! cases {
    ($d:tt $($module:ident::$name:ident,)*) => {
        /// All cases.
        pub const CASES: &[Case] = &[$(
            Case { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },
        )*];

        /// Generates one test per case. Takes the path of a `fn(case: &str)` that runs the case.
        #[macro_export]
        macro_rules! item_conformance_tests {
            ($d run:path) => {$(
                #[test]
                fn $name() {
                    $d run(stringify!($name));
                }
            )*};
        }
    };
}

cases! { $
    values::what_was_put_is_read_back,
    values::a_put_replaces_the_value_and_keeps_the_first_time,
    values::a_deleted_item_is_gone,
    values::values_at_the_limits_are_kept_and_beyond_them_refused,
    values::clearing_takes_what_begins_alike_and_nothing_else,
    values::another_organisation_sees_nothing,
    values::organisations_may_use_the_same_names,
    search::items_come_by_namespace_and_by_first_put,
    search::a_prefix_is_made_of_whole_labels,
    search::a_page_is_cut_out_after_the_filter,
    search::a_filter_looks_into_values,
    search::a_text_finds_words_and_ranks_by_how_many,
    search::only_what_is_indexed_is_found_by_a_text,
    listing::namespaces_are_sorted_and_those_without_items_left_out,
    listing::namespaces_are_picked_by_how_they_begin_and_end,
    listing::namespaces_are_cut_off_and_listed_once,
    expiry::an_expired_item_is_nowhere,
    expiry::a_put_sets_the_time_to_live_anew,
    expiry::reading_makes_an_item_live_on_when_asked_to,
    expiry::a_search_makes_only_what_it_returns_live_on,
    expiry::a_sweep_frees_what_expired_and_nothing_else,
    expiry::an_item_put_after_it_expired_is_new,
    model::agrees_with_a_plain_list,
}
