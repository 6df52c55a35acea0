//! Tests of `weftwork-remote` against a server of this workspace, and against hostile ones.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod agents;
mod deletions;
mod hostile;
mod joins;
mod nodes;
mod rig;
