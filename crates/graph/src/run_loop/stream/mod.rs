//! Streams of events.

mod emit;
pub(crate) mod frames;
mod messages;

pub(crate) use messages::By;
