//! Tests of the ReAct agent with scripted answers.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod answers_in_batches;
mod approvals;
mod asking;
mod budgets;
mod calls;
mod desk;
mod golden;
mod hosted;
mod left_behind;
mod left_open;
mod model;
mod modes;
mod outputs;
mod own_calls;
mod own_state;
mod prompts;
mod react;
mod scoped;
mod teams;
