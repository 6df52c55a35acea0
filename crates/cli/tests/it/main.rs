//! Tests of the binary `weft` as a process.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]

mod account_limits;
mod agent_to_agent;
mod api_faults;
mod apis;
mod approvals;
#[cfg(feature = "mcp")]
mod asked_and_killed;
mod bad_input;
#[cfg(unix)]
mod chat;
mod commands;
mod database;
mod definitions;
mod dev;
mod documents;
mod functions;
mod home;
mod instances;
mod keys;
mod killed_agui;
mod killed_builds;
mod killed_mcp_calls;
mod killed_orchestrations;
mod killed_requests;
mod killed_responses;
mod left_behind;
#[cfg(unix)]
mod left_open;
mod limits;
mod log;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(not(all(feature = "mcp", feature = "remote")))]
mod missing_features;
mod models;
mod one_program;
mod operations;
mod options;
#[cfg(feature = "mcp")]
mod orchestrations;
mod planning;
mod policies;
mod prune;
#[cfg(unix)]
mod remote;
#[cfg(feature = "remote")]
mod remotes;
mod runs;
mod serve;
mod signals;
mod stored_definitions;
mod stores;
#[cfg(unix)]
mod teams;
mod terminal;
mod trial;
mod usage;
mod watch;
mod weights;
mod worker;
