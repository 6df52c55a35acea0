//! Streams of events.

mod emit;
mod messages;

pub(crate) use messages::By;
