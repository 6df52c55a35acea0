//! The two formats behind one interface: parts in, frames out.

use super::message::ChatMessage;
use super::{data_stream, ui_stream};

/// A format of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// The UI message stream of the AI SDK, version 1: server-sent events.
    #[default]
    UiMessageStream,
    /// The data stream, version 1: lines.
    DataStream,
}

impl Protocol {
    /// All formats, with their names in requests.
    pub const ALL: [(Self, &str); 2] =
        [(Self::UiMessageStream, "ui-message-stream"), (Self::DataStream, "data-stream")];

    /// Returns the headers by which clients recognise the format.
    pub(crate) fn headers(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::UiMessageStream => ui_stream::HEADERS,
            Self::DataStream => data_stream::HEADERS,
        }
    }

    /// Returns the bytes that keep an idle connection open.
    fn keep_alive(self) -> &'static str {
        match self {
            Self::UiMessageStream => ui_stream::KEEP_ALIVE,
            Self::DataStream => data_stream::KEEP_ALIVE,
        }
    }
}

/// A message in a format.
#[derive(Debug)]
pub(crate) struct ChatEncoder {
    protocol: Protocol,
    pub(crate) message: ChatMessage,
}

impl ChatEncoder {
    pub(crate) fn new(protocol: Protocol, message: ChatMessage) -> Self {
        Self { protocol, message }
    }

    /// Returns what keeps an idle connection open.
    pub(crate) fn keep_alive(&self) -> &'static str {
        self.protocol.keep_alive()
    }

    /// Returns the frames of the parts that were added since the last call.
    pub(crate) fn frames(&mut self) -> String {
        let mut frames = String::new();
        for part in self.message.take() {
            match self.protocol {
                Protocol::UiMessageStream => ui_stream::write_part(part, &mut frames),
                Protocol::DataStream => data_stream::write_part(part, &mut frames),
            }
        }
        frames
    }
}
