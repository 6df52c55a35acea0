//! Tools as their users see them.

#![expect(clippy::expect_used, reason = "helpers of tests say what they rely on")]

mod approval;
mod calls;
mod journal;
mod macros;
mod rig;
mod toolbox;
mod ui;
