//! Text of unfinished messages, and the part of it that a client has.
//!
//! The log retains partial text until its message is final. A client that reconnects later would
//! get a text that it appends to the words it has, so the ids of its events carry the length and
//! the hash of the text that it has of each unfinished message. Nothing is stored for a client.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of messages in an id. Messages beyond it are sent whole after a reconnect.
const MESSAGES_MAX: usize = 16;

/// The first bytes of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sum([u8; 4]);

impl Sum {
    fn of(bytes: &[u8]) -> Self {
        Self::first_of(&Sha256::digest(bytes))
    }

    fn first_of(digest: &[u8]) -> Self {
        Self(std::array::from_fn(|index| digest.get(index).copied().unwrap_or_default()))
    }

    fn read(text: &str) -> Option<Self> {
        let is_hex = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// The text that a client has of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReceivedText {
    bytes: usize,
    sum: Sum,
}

impl ReceivedText {
    /// Returns the rest of a text that begins with the received one.
    fn rest<'a>(&self, text: &'a str) -> Option<&'a str> {
        let rest = text.get(self.bytes..)?;
        let received = text.as_bytes().get(..self.bytes)?;
        (Sum::of(received) == self.sum).then_some(rest)
    }
}

/// An unfinished message.
#[derive(Debug, Clone, Default)]
struct PartialMessage {
    /// Text of the attempt that produces the message.
    text: String,
    /// State of the hash of `text`, so that each word is hashed once.
    hash: Sha256,
    /// Text that the client has, perhaps of an attempt that failed.
    received: Option<ReceivedText>,
}

impl PartialMessage {
    /// Adds text of the current attempt, and returns the part of the whole that the client lacks.
    /// `None` if the client has other text, which cannot be taken back.
    fn add(&mut self, text: &str) -> Option<&str> {
        let missing_from = match self.received {
            None => Some(0),
            Some(received) if received == self.whole_received() => Some(received.bytes),
            Some(_) => None,
        };
        self.text.push_str(text);
        self.hash.update(text.as_bytes());
        let missing_from = missing_from.or_else(|| {
            let received = self.received?;
            received.rest(&self.text).map(|_| received.bytes)
        })?;
        self.received = Some(self.whole_received());
        self.text.get(missing_from..)
    }

    fn whole_received(&self) -> ReceivedText {
        let sum = Sum::first_of(&self.hash.clone().finalize());
        ReceivedText { bytes: self.text.len(), sum }
    }
}

/// The unfinished messages of a stream.
///
/// No [`Transcript`](weftwork_types::event::Transcript), on which the frames that this reads are
/// made: they name each message whose text is void or final. A message is known by the hash of its
/// id here, as the client sends it back, and what the client has of void text stays.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartialMessages(BTreeMap<Sum, PartialMessage>);

/// The end of a message for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing<'a> {
    /// The client has nothing of the message.
    Whole,
    /// The client has text that is not part of the message.
    Other,
    /// The client has the beginning of the text.
    Rest {
        /// Text that it has.
        received: &'a str,
    },
}

impl PartialMessages {
    /// Reads the part of an event's id that [`Display`](fmt::Display) writes. `None` for other texts.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut messages = BTreeMap::new();
        for message in text.split('-').filter(|message| !message.is_empty()) {
            let (id, received) = message.split_once('.')?;
            let (bytes, sum) = received.split_once('.')?;
            let received = ReceivedText { bytes: bytes.parse().ok()?, sum: Sum::read(sum)? };
            let message = PartialMessage { received: Some(received), ..PartialMessage::default() };
            messages.insert(Sum::read(id)?, message);
        }
        (messages.len() <= MESSAGES_MAX).then_some(Self(messages))
    }

    /// Returns the text of the current attempt at a message.
    pub(crate) fn text(&self, id: &str) -> &str {
        self.0.get(&Sum::of(id.as_bytes())).map_or("", |message| &message.text)
    }

    /// Adds text that the client has received.
    pub(crate) fn add_received(&mut self, id: &str, text: &str) {
        let message = self.0.entry(Sum::of(id.as_bytes())).or_default();
        message.text.push_str(text);
        message.hash.update(text.as_bytes());
    }

    /// Adds text, and returns the part that the client lacks; `None` if the rest of the message is
    /// sent with the whole of it.
    pub(crate) fn add(&mut self, id: &str, text: &str) -> Option<&str> {
        self.0.entry(Sum::of(id.as_bytes())).or_default().add(text)
    }

    /// Records that the text of an attempt is void. The client keeps what it has of it.
    pub(crate) fn reset(&mut self, id: &str) {
        if let Some(message) = self.0.get_mut(&Sum::of(id.as_bytes())) {
            message.text.clear();
            message.hash = Sha256::new();
        }
    }

    /// Removes a message that is final, and returns what the client lacks of its text.
    pub(crate) fn end<'a>(&mut self, id: &str, text: &'a str) -> Missing<'a> {
        let received = self.0.remove(&Sum::of(id.as_bytes())).and_then(|message| message.received);
        let Some(has) = received else { return Missing::Whole };
        let begun = has.rest(text).and_then(|_| text.get(..has.bytes));
        begun.map_or(Missing::Other, |received| Missing::Rest { received })
    }
}

/// `-MESSAGE.BYTES.HASH` for each message of which the client has text.
impl fmt::Display for PartialMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = self.0.iter().filter_map(|entry| Some((entry.0, entry.1.received?)));
        for (id, ReceivedText { bytes, sum }) in received.take(MESSAGES_MAX) {
            write!(f, "-{id}.{bytes}.{sum}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Missing, PartialMessages};

    /// The messages that a client has after it reconnects.
    fn reconnected(messages: &PartialMessages) -> PartialMessages {
        PartialMessages::read(&messages.to_string()).expect("its own form")
    }

    #[test]
    fn a_client_that_reconnects_gets_the_rest_of_each_message() {
        let mut messages = PartialMessages::default();
        assert_eq!(messages.add("a", "one "), Some("one "));
        assert_eq!(messages.add("b", "uno "), Some("uno "));
        assert_eq!(messages.add("a", "two "), Some("two "));
        // Text is stored in larger units than it is sent in.
        let mut read = reconnected(&messages);
        assert_eq!(read.add("a", "one two three "), Some("three "));
        assert_eq!(read.add("b", "uno dos "), Some("dos "));
        assert_eq!(read.add("c", "un "), Some("un "));
        // The messages are final, and the log has no partial text.
        let mut read = reconnected(&messages);
        assert_eq!(read.end("a", "one two three"), Missing::Rest { received: "one two " });
        assert_eq!(read.end("b", "uno dos"), Missing::Rest { received: "uno " });
        assert_eq!(read.end("c", "un"), Missing::Whole);
        assert_eq!(read.to_string(), "");
    }

    #[test]
    fn text_of_another_attempt_is_replaced_by_the_whole_message() {
        let mut messages = PartialMessages::default();
        assert_eq!(messages.add("a", "Good"), Some("Good"));
        messages.reset("a");
        assert_eq!(messages.add("a", "Hel"), None);
        assert_eq!(messages.add("a", "lo, you"), None);
        let mut read = reconnected(&messages);
        assert_eq!(read.add("a", "Hello, you"), None);
        assert_eq!(read.end("a", "Hello, you"), Missing::Other);
        // An attempt that says the same again continues.
        messages.reset("a");
        assert_eq!(messages.add("a", "Go"), None);
        assert_eq!(messages.add("a", "od day"), Some(" day"));
        assert_eq!(messages.end("a", "Good day"), Missing::Rest { received: "Good day" });
    }

    #[test]
    fn letters_are_not_cut() {
        let mut messages = PartialMessages::default();
        assert_eq!(messages.add("a", "é"), Some("é"));
        let read = messages.to_string().replace(".2.", ".1.");
        let mut read = PartialMessages::read(&read).expect("a form");
        assert_eq!(read.add("a", "éa"), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["a", "-1.2", "-0123456.1.01234567", "-01234567.x.01234567", "-.1."] {
            assert!(PartialMessages::read(text).is_none(), "{text}");
        }
        let read = |count: u32| {
            let text: String = (0..count).map(|id| format!("-{id:08x}.1.01234567")).collect();
            PartialMessages::read(&text)
        };
        assert!(read(16).is_some() && read(17).is_none());
    }
}
