//! Frames of a stream, and their positions.

use weftwork_graph::run_loop::StreamItem;
use weftwork_types::Timestamp;
use weftwork_types::event::Position;

/// An event of a stream with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Position of the frame. A client that received it continues after it.
    pub position: Position,
    /// Time of the commit of its event, or time at which partial text was emitted.
    pub at: Timestamp,
    /// Content of the frame.
    pub content: FrameContent,
}

/// Content of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameContent {
    /// An event of the stream.
    Item(StreamItem),
    /// Events of the stream that cannot be computed any more, or not for this graph.
    Dropped {
        /// Namespace of their graph; empty for the outermost graph.
        ns: String,
        /// Reason, for example that retention deleted the checkpoint.
        reason: String,
    },
}

impl Frame {
    /// Returns the event of the stream; `None` for events that were dropped.
    #[must_use]
    pub fn item(&self) -> Option<&StreamItem> {
        match &self.content {
            FrameContent::Item(item) => Some(item),
            FrameContent::Dropped { .. } => None,
        }
    }
}
