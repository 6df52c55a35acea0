//! Conformance cases for stores, by name, over any [`Store`]. The cases of item stores are in
//! [`item_store`], those of databases for a store of one's own in [`rows`].
//!
//! The cases are independent of the async runtime. A driver writes one test per case with
//! [`conformance_tests`], or runs them all:
//!
//! ```
//! use std::sync::Arc;
//! use weftwork_store_conformance::{CASES, run_case};
//! use weftwork_store::{MemoryStore, Store};
//!
//! async fn fresh() -> Arc<dyn Store> {
//!     Arc::new(MemoryStore::new())
//! }
//!
//! async fn memory_conforms() {
//!     for case in CASES {
//!         run_case(case.name, fresh).await;
//!     }
//! }
//! ```
#![expect(clippy::expect_used, reason = "a failing case panics with the reason")]

mod bill;
mod blobs;
mod checkpoints;
mod claims;
mod commits;
mod dump;
mod ends;
mod fixture;
mod interrupts;
pub mod item_store;
mod items;
mod journal;
mod limits;
mod mailboxes;
mod multitask;
mod orphans;
mod pieces;
mod requeue;
mod retention;
mod rewrites;
pub mod rows;
mod runs;
mod sequences;
mod tenancy;
mod threads;
mod transfer;
mod usage;
mod wakes;

pub use bill::{bill_of_a_run, facts_of_a_run};
pub use dump::{dump, dump_checkpoints};

use std::sync::Arc;
use weftwork_store::Store;
use weftwork_types::BoxFuture;

/// A property that every store must have.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Group of the case, such as `claims`.
    pub group: &'static str,
    /// Name of the case.
    pub name: &'static str,
    /// Checks the property on an empty store; panics if it does not hold.
    pub run: fn(Arc<dyn Store>) -> BoxFuture<'static, ()>,
}

/// Runs a case by name on a store created by `fresh`.
///
/// # Panics
/// Panics if the store fails the case, or if there is no case of this name.
pub async fn run_case<F: Future<Output = Arc<dyn Store>>>(name: &str, fresh: impl Fn() -> F) {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.expect("the name is that of a case");
    (case.run)(fresh().await).await;
}

macro_rules! cases {
    ($d:tt $($module:ident::$name:ident,)*) => {
        /// All cases.
        pub const CASES: &[Case] = &[$(
            Case {
                group: stringify!($module),
                name: stringify!($name),
                run: |store| Box::pin($module::$name(store)),
            },
        )*];

        /// Generates one test per case. Takes the path of a `fn(case: &str)` that runs the case.
        #[macro_export]
        macro_rules! conformance_tests {
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
    runs::a_run_makes_its_thread,
    runs::threads_are_listed_by_last_change,
    runs::runs_are_listed_oldest_first,
    runs::the_same_key_and_request_give_the_first_run,
    runs::the_same_key_with_another_request_is_refused,
    runs::the_same_run_id_gives_the_first_run_or_is_refused,
    runs::a_thread_has_one_unfinished_run,
    runs::cancel_is_a_flag_that_the_next_commit_returns,
    runs::what_does_not_exist_is_reported_missing,
    runs::delete_thread_leaves_nothing,
    threads::a_thread_exists_without_a_run,
    threads::a_thread_is_created_once,
    threads::metadata_is_merged_by_member,
    threads::metadata_has_limits,
    threads::threads_are_found_by_their_metadata,
    threads::threads_are_found_by_their_status,
    threads::conditions_of_a_search_are_combined,
    threads::a_search_is_ordered_and_limited,
    threads::a_cursor_is_stable_while_threads_come_and_go,
    threads::threads_of_others_are_not_found,
    threads::metadata_goes_with_its_thread,
    claims::a_living_worker_keeps_its_run,
    claims::an_expired_worker_loses_its_run,
    claims::a_lease_of_a_clock_that_was_ahead_is_over,
    claims::a_retired_worker_loses_its_run_at_once,
    claims::every_write_of_a_zombie_is_refused,
    claims::an_ended_run_takes_no_more_writes,
    claims::orphans_are_those_without_a_living_worker,
    claims::orphans_are_read_in_pages_by_graph,
    orphans::a_run_that_nobody_has_is_cancelled_without_its_graph,
    orphans::a_run_that_somebody_has_is_not,
    orphans::a_thread_wakes_as_before_a_run_that_got_nowhere,
    orphans::a_run_that_never_began_is_cancelled_and_takes_nothing_back,
    requeue::a_released_run_is_pending_again,
    requeue::only_the_newest_claim_releases,
    requeue::a_failed_run_is_requeued_and_goes_on_to_another_end,
    requeue::a_requeued_run_finds_the_head_that_its_thread_has,
    requeue::only_the_last_run_is_requeued_once_it_failed,
    requeue::a_run_is_found_by_its_id_alone,
    mailboxes::activities_take_turns_by_priority_then_arrival,
    mailboxes::an_activity_waits_for_its_time_alone,
    mailboxes::a_mailbox_is_bounded_and_closed_by_termination,
    mailboxes::what_waits_and_what_ended_last_are_found,
    mailboxes::a_continuation_begins_at_once_or_is_refused,
    mailboxes::a_terminated_instance_does_not_try_again,
    mailboxes::a_terminated_instance_does_not_resume_by_itself,
    mailboxes::an_open_question_holds_the_mailbox,
    mailboxes::a_question_stays_that_of_the_run_that_asked_it,
    mailboxes::a_deadline_passes_an_open_question,
    mailboxes::an_activity_counts_once_with_its_continuations,
    mailboxes::an_activity_that_asks_ends_with_its_instance,
    mailboxes::a_timer_resumes_the_activity_that_waits_for_it,
    mailboxes::the_last_of_two_runs_of_one_time_is_due,
    mailboxes::the_mailbox_is_the_only_door,
    mailboxes::the_thread_of_a_living_instance_is_not_deleted,
    multitask::a_queued_run_waits_for_those_before_it,
    multitask::who_does_not_wait_is_refused,
    multitask::a_queued_run_is_the_one_of_its_key,
    multitask::those_before_it_are_asked_to_stop,
    multitask::a_worker_finds_what_it_is_asked_to_stop,
    multitask::a_run_that_takes_back_begins_where_the_first_did,
    multitask::a_run_that_takes_all_back_begins_anew,
    multitask::a_run_that_was_cancelled_takes_nothing_back,
    multitask::a_run_that_nobody_began_is_taken_back_as_well,
    multitask::a_queued_run_follows_one_that_asks,
    multitask::queued_runs_change_nothing_before_they_begin,
    multitask::a_queue_moves_with_its_thread,
    ends::a_run_that_ended_has_its_last_checkpoint,
    ends::a_run_names_the_run_that_asked,
    ends::a_run_is_created_with_its_claim,
    ends::runs_that_are_rolled_back_are_marked,
    ends::a_run_that_ended_is_rolled_back,
    ends::a_run_behind_others_has_nothing_to_roll_back,
    commits::events_are_gapless_and_in_order,
    commits::each_run_numbers_its_own_events,
    commits::the_head_is_what_was_kept_last,
    commits::a_refused_commit_changes_nothing,
    commits::the_thread_follows_the_outcome_of_the_run,
    commits::values_read_back_as_they_were_written,
    pieces::pieces_are_read_in_order_from_any_position,
    pieces::void_pieces_go_with_the_commit_that_says_so,
    pieces::pieces_go_with_their_thread_and_to_no_other_store,
    checkpoints::a_checkpoint_is_read_by_id_or_as_the_newest,
    checkpoints::a_page_has_the_newest_first,
    checkpoints::tasks_are_added_in_order_and_those_of_the_next_come_last,
    checkpoints::what_came_from_outside_is_replaced,
    checkpoints::a_checkpoint_of_the_same_id_takes_its_place,
    checkpoints::graphs_of_a_thread_are_apart,
    checkpoints::the_newest_id_is_that_of_any_graph_of_the_thread,
    checkpoints::bodies_are_read_by_their_ids,
    rewrites::a_copy_takes_the_place_of_what_is_there,
    rewrites::only_the_thread_that_is_deleted_goes,
    rewrites::a_rewrite_leaves_only_what_is_open_at_the_newest,
    rewrites::a_rewrite_is_refused_when_the_newest_moved,
    blobs::blobs_are_collected_when_nobody_speaks_of_them,
    blobs::names_left_out_are_kept_by_their_hash,
    checkpoints::organisations_keep_their_checkpoints_apart,
    commits::a_commit_keeps_checkpoints_and_moves_the_head,
    commits::a_kept_checkpoint_closes_questions,
    commits::an_old_claim_keeps_nothing,
    interrupts::a_question_opens_is_answered_and_goes_on,
    interrupts::the_first_answer_counts,
    interrupts::questions_left_behind_are_closed,
    interrupts::a_question_may_be_asked_again,
    interrupts::a_refused_answer_makes_no_run,
    journal::calls_are_found_as_they_were_recorded,
    journal::a_result_comes_to_a_call_that_was_begun,
    journal::the_first_result_stays_and_counts_go_up_only,
    journal::calls_and_usage_commit_with_their_step,
    journal::calls_outlive_their_run,
    journal::calls_are_found_from_a_checkpoint_on,
    tenancy::another_organisation_sees_nothing,
    tenancy::organisations_may_use_the_same_ids,
    retention::threads_that_nothing_changed_for_long_are_forgotten,
    retention::threads_that_go_or_wait_are_kept,
    retention::events_of_runs_that_ended_are_dropped_but_for_the_last,
    retention::a_failed_run_that_can_be_requeued_keeps_its_events,
    retention::a_thread_without_its_events_goes_to_another_store,
    wakes::a_thread_is_due_at_its_time_and_no_more_once_it_goes_on,
    wakes::due_are_the_last_runs_of_these_graphs_by_their_time,
    sequences::writes_take_effect_with_their_commit,
    sequences::a_refused_commit_writes_no_sequence,
    sequences::a_queue_is_read_in_order_and_acknowledged,
    sequences::a_value_is_replaced_at_its_version,
    sequences::writes_are_read_by_ranges_of_keys,
    sequences::names_of_sequences_have_limits,
    sequences::organisations_have_their_own_sequences,
    sequences::remote_threads_become_deletions_with_their_thread,
    sequences::of_two_writers_of_a_record_one_wins,
    sequences::records_of_a_thread_are_deleted_with_it,
    usage::a_fact_is_recorded_once,
    usage::facts_outlive_their_thread,
    bill::facts_are_moved_once,
    bill::a_paid_attempt_has_one_receipt,
    bill::a_call_outside_of_runs_has_no_run,
    bill::facts_are_moved_after_their_thread,
    bill::usage_is_summed_by_group_and_period,
    bill::another_organisation_has_another_bill,
    bill::names_are_erased_and_amounts_stay,
    limits::usage_of_accounts_and_keys_is_summed,
    limits::usage_beyond_all_numbers_stays_above_every_limit,
    limits::attempts_in_the_bill_are_found,
    limits::starts_are_counted_up_to_their_limits,
    transfer::a_whole_thread_has_everything_in_order,
    transfer::a_thread_goes_whole_to_another_store_and_back,
    transfer::a_thread_that_was_put_goes_on,
    transfer::a_thread_is_put_only_where_none_is,
    transfer::parts_that_do_not_belong_together_are_refused,
    transfer::records_go_with_their_thread_and_can_be_changed_there,
    items::items_go_elsewhere_just_as_they_are,
    items::items_that_are_there_with_another_content_stay,
}
