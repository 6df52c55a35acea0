//! Orchestration: the steps of a definition as a part of the graph of its agent.
//!
//! The node `orchestrate` decides what begins next, from the records of the steps alone. Each step is a
//! node, each attempt of it is a superstep, and its record is committed with that superstep.

mod checkpoint;
mod drawing;
mod event;
mod node;
mod planning;
mod progress;
mod roster;
mod schedule;
mod step;

pub(crate) use node::add_steps;
pub(crate) use progress::{Progress, merge};

use weftwork_types::ErrorCode;

/// The orchestration was rejected at a checkpoint.
const REJECTED: ErrorCode = ErrorCode("W1070");
/// The plan of an orchestration is refused.
const PLAN_REFUSED: ErrorCode = ErrorCode("W1072");
/// A step cannot be carried out.
const STEP_FAILED: ErrorCode = ErrorCode("W1071");
