//! Hosted runs: the run loop of [`run_loop`](weftwork_graph::run_loop) under a worker's claim.
//!
//! Checkpoints are committed together with the events of the same moment, fenced by the claim. Calls
//! of nodes are recorded in the journal, and the outcome is committed with the last superstep.
//! Streaming, resuming and continuing after a crash use the same loop from different starting points.

mod accepted;
mod activity;
mod attempts;
mod begin;
mod claimed;
mod decisions;
mod driver;
mod end;
mod environment;
mod finish;
mod held;
mod journal;
mod left_behind;
mod lineage;
mod local;
mod log;
mod made_elsewhere;
mod open_steps;
mod options;
mod past;
mod remote_threads;
mod run_resources;
mod spans;
mod writer;

pub(crate) use accepted::{AcceptedRun, ModeReceiver, Requester};
pub(crate) use claimed::ClaimedRun;
pub(crate) use end::{ClaimEnd, LazyOutcome, ready_outcome};
