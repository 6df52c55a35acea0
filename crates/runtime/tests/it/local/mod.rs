//! Runs in this process whose checkpoints are in stores.

mod again;
mod behind;
mod calls;
mod ids;

#[path = "../../../../graph/tests/it/gated.rs"]
mod gated;
#[path = "../../../../graph/tests/it/gated_runs.rs"]
mod gated_runs;
#[path = "../../../../graph/tests/it/support.rs"]
mod support;
