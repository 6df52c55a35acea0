//! Tasks: their identity, their state in the open superstep, and their attempts.

mod attempt;
mod key;
mod slot;

pub(crate) use attempt::*;
pub(crate) use key::*;
pub(crate) use slot::*;
