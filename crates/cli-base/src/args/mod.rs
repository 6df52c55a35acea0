//! Arguments of several commands, and parsers of values.

mod frames;
pub mod parse;
mod run;

pub use frames::FrameFlags;
pub use run::{Busy, Keeping, LimitFlags};
