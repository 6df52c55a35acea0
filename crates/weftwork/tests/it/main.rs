//! Integration tests of the facade.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]

mod app;
mod approvals;
mod asking;
mod bill_kills;
mod bills;
mod derives;
mod evaluate;
mod evaluation_errors;
mod evaluation_kills;
mod generated;
mod instances;
mod limits;
mod model_options;
mod node_errors;
mod policies;
mod providers;
mod redaction;
mod retry_kills;
mod secrets;
mod session_checkpoints;
mod session_kills;
mod session_saves;
mod started_runs;
mod stores;
mod team_kills;
mod telemetry;
mod tool_context;
mod ui;
mod upkeep;
