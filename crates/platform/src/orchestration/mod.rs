//! Orchestration: the steps of a definition as a part of the graph of its agent.
//!
//! The node `orchestrate` decides what begins next, from the records of the steps alone. Each step is a
//! node, each attempt of it is a superstep, and its record is committed with that superstep.

mod checkpoint;
mod drawing;
mod event;
mod node;
mod pause;
mod planning;
mod progress;
mod rollback;
mod roster;
mod schedule;
mod step;
mod undo;

pub(crate) use node::{OWN_WORK, UNDO, add_steps, id_of_node};
pub(crate) use pause::{PAUSE_KEY, Pause, ReadPause, find_pause, hash_token, root_of};
pub(crate) use planning::PLANNED_STEP;
pub(crate) use progress::{Change, Progress, StepRecord, merge};
pub(crate) use rollback::{
    CallEffect, CallOutcome, ChangedRecord, EffectStatus, Rollback, StepEffects,
};

use weftwork_types::ErrorCode;

/// The orchestration was rejected at a checkpoint.
const REJECTED: ErrorCode = ErrorCode("W1070");
/// The plan of an orchestration is refused.
const PLAN_REFUSED: ErrorCode = ErrorCode("W1076");
/// A step cannot be carried out.
const STEP_FAILED: ErrorCode = ErrorCode("W1071");
