//! Text of unfinished messages, and the part of it that a client has.
//!
//! The log retains partial text until its message is final. A client that reconnects later would
//! get a text that it appends to the words it has, so the ids of its events carry the length and
//! a checksum of the text that it has of each unfinished message. Nothing is stored for a client.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
pub(crate) use weftwork_types::event::MissingText as Missing;
use weftwork_types::event::ReceivedText;

/// Maximum number of messages in an id. Messages beyond it are sent whole after a reconnect.
const MESSAGES_MAX: usize = 16;

/// A message in an id: the first bytes of the SHA-256 of its own id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MessageKey(u32);

impl MessageKey {
    fn of(id: &str) -> Self {
        let digest = Sha256::digest(id.as_bytes());
        Self(digest.iter().take(4).fold(0, |key, byte| key << 8 | u32::from(*byte)))
    }
}

/// Reads eight hexadecimal digits.
fn read_hex(text: &str) -> Option<u32> {
    let is_hex = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(text, 16).ok().filter(|_| is_hex)
}

/// An unfinished message.
#[derive(Debug, Clone, Default)]
struct PartialMessage {
    /// Text of the attempt that produces the message.
    text: String,
    /// Record of a client that received all of it.
    whole: ReceivedText,
    /// Text that the client has, perhaps of an attempt that failed.
    received: Option<ReceivedText>,
}

impl PartialMessage {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.whole.extend(text);
    }

    /// Adds text of the current attempt, and returns the part of the whole that the client lacks.
    /// `None` if the client has other text, which cannot be taken back.
    fn add(&mut self, text: &str) -> Option<&str> {
        let before = self.whole;
        self.push(text);
        let missing_from = match self.received {
            None => 0,
            Some(received) if received == before => received.bytes(),
            Some(received) => received.rest(&self.text).map(|_| received.bytes())?,
        };
        self.received = Some(self.whole);
        self.text.get(missing_from..)
    }
}

/// The unfinished messages of a stream.
///
/// No [`TextReader`](weftwork_types::event::TextReader), whose reader can take text back: clients of
/// these protocols append text, so that what one has of void text stays until the message is final.
/// Which part of a text is missing is decided by [`ReceivedText`] for both.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartialMessages(BTreeMap<MessageKey, PartialMessage>);

impl PartialMessages {
    /// Reads the part of an event's id that [`Display`](fmt::Display) writes. `None` for other texts.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut messages = BTreeMap::new();
        for message in text.split('-').filter(|message| !message.is_empty()) {
            let (id, received) = message.split_once('.')?;
            let (bytes, sum) = received.split_once('.')?;
            let received = ReceivedText::read(bytes.parse().ok()?, read_hex(sum)?);
            let message = PartialMessage { received: Some(received), ..PartialMessage::default() };
            messages.insert(MessageKey(read_hex(id)?), message);
        }
        (messages.len() <= MESSAGES_MAX).then_some(Self(messages))
    }

    /// Returns the text of the current attempt at a message.
    pub(crate) fn text(&self, id: &str) -> &str {
        self.0.get(&MessageKey::of(id)).map_or("", |message| &message.text)
    }

    /// Adds text that the client has received.
    pub(crate) fn add_received(&mut self, id: &str, text: &str) {
        self.0.entry(MessageKey::of(id)).or_default().push(text);
    }

    /// Adds text, and returns the part that the client lacks; `None` if the rest of the message is
    /// sent with the whole of it.
    pub(crate) fn add(&mut self, id: &str, text: &str) -> Option<&str> {
        self.0.entry(MessageKey::of(id)).or_default().add(text)
    }

    /// Records that the text of an attempt is void. The client keeps what it has of it.
    pub(crate) fn reset(&mut self, id: &str) {
        if let Some(message) = self.0.get_mut(&MessageKey::of(id)) {
            message.text.clear();
            message.whole = ReceivedText::default();
        }
    }

    /// Removes a message that is final, and returns what the client lacks of its text.
    pub(crate) fn end<'a>(&mut self, id: &str, text: &'a str) -> Missing<'a> {
        let message = self.0.remove(&MessageKey::of(id));
        Missing::of(message.and_then(|message| message.received), text)
    }
}

/// `-MESSAGE.BYTES.SUM` for each message of which the client has text.
impl fmt::Display for PartialMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = self.0.iter().filter_map(|entry| Some((entry.0, entry.1.received?)));
        for (MessageKey(id), received) in received.take(MESSAGES_MAX) {
            write!(f, "-{id:08x}.{}.{:08x}", received.bytes(), received.sum())?;
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
