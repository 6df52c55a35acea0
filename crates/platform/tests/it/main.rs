//! Definitions as others write them, and records as people and runs change them.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod agents;
mod amounts;
mod bench;
mod external_a2a;
mod external_breaker;
mod external_chain;
mod external_tasks;
mod folders;
mod freshness;
mod operations;
mod orchestration;
mod orchestration_effects;
mod orchestration_pause;
mod orchestration_rollback;
mod peer;
mod planning;
mod records;
mod records_check;
mod records_conversation;
mod records_history;
mod records_merge;
mod records_races;
mod requests;
mod rows;
mod skills;
mod sound;
mod wrong;
