//! Stream modes of runs as projections of their log and their checkpoints.
//!
//! Each event of a log is a sequence of incidents, and each mode maps an incident to the events of
//! its stream. Both use the log and stored checkpoints only, so that everyone who follows a run
//! receives the same frames: while it is executed, after a reconnect, in another process, and after
//! its end. The followers of a run in one process share its projection.

mod checkpoints;
mod custom;
mod debug;
mod frame;
mod frames;
mod incident;
mod messages;
mod progress;
mod projection;
mod reader;
mod stream;
mod tasks;
mod updates;
mod values;

pub use frame::{Frame, FrameContent};
pub(crate) use projection::Projections;
pub(crate) use reader::Source;
pub use stream::{Events, RunOutput, Selection, Subgraphs, Texts, Until};
pub(crate) use stream::{Followed, follow_output};
