//! Streams of events.

mod call_events;
mod emit;
pub(crate) mod frames;
mod messages;

pub(crate) use call_events::CallEvents;
pub(crate) use messages::By;
