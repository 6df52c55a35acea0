//! Ids as newtypes, so that one kind of id cannot be passed as another.
//!
//! Each id is `Display` and `FromStr`. Ids that are texts have `as_str` and `AsRef<str>` besides; those
//! of checkpoints, tasks and questions are 128 bits, and their text is written when it is needed.
//!
//! ```
//! use weftwork_types::{InstanceId, InterruptId, ThreadId};
//!
//! fn length(id: impl AsRef<str>) -> usize {
//!     id.as_ref().len()
//! }
//!
//! let thread = ThreadId::new("order-7").expect("valid");
//! assert_eq!(thread.as_str(), "order-7");
//! assert_eq!(length(&thread), length(InstanceId::from(&thread)));
//! let question = InterruptId(7);
//! assert_eq!(question.to_string().parse(), Ok(question));
//! ```

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use uuid::Uuid;

/// Returns a text that nobody can guess: 244 random bits, in 64 hexadecimal digits.
#[must_use]
pub fn random_token() -> String {
    let half = || Uuid::new_v4().simple().to_string();
    half() + &half()
}

/// An error for text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{found}` is not valid: expected {expected}")]
pub struct InvalidId {
    /// Kind of the id, such as `thread id`.
    pub kind: &'static str,
    /// Rejected text, truncated to 80 characters.
    pub found: String,
    /// Description of valid ids of this kind.
    pub expected: &'static str,
}

/// Maximum length of an id that this system chooses, in characters.
pub const ID_CHARS_MAX: usize = 128;
/// Maximum length of an id that another system may have chosen, such as that of a mail, in
/// characters.
pub const FOREIGN_ID_CHARS_MAX: usize = 256;
/// A character that no id has and that sorts after all others.
pub const AFTER_ALL_IDS: char = char::MAX;

/// Namespace of the UUIDs that stand for ids of threads; see [`ThreadId::uuid`].
const THREADS: Uuid = Uuid::from_u128(0x2f7a_6c1e_94b3_4d0a_8e55_b1c9_73d2_0f46);

/// Lookup table: `true` for each byte that a text id may contain. Ids are parsed with every
/// message, and a lookup is faster than a chain of comparisons.
const ALLOWED: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0u8;
    while byte < 0x80 {
        let punctuation = matches!(byte, b'_' | b'-' | b'.' | b':');
        allowed[byte as usize] = punctuation || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    allowed
};

fn is_allowed(byte: u8) -> bool {
    ALLOWED.get(usize::from(byte)) == Some(&true)
}

fn invalid(kind: &'static str, text: &str, expected: &'static str) -> InvalidId {
    InvalidId { kind, found: text.chars().take(80).collect(), expected }
}

/// Checks an id that this system chooses.
fn check_own(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    if !text.is_empty() && text.len() <= ID_CHARS_MAX && text.bytes().all(is_allowed) {
        return Ok(());
    }
    let expected = "1 to 128 characters from letters, digits, `_`, `-`, `.`, `:`";
    Err(invalid(kind, text, expected))
}

/// Checks an id that another system may have chosen.
fn check_foreign(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    // Nearly all ids are of these characters, each of which is one byte.
    if !text.is_empty() && text.len() <= FOREIGN_ID_CHARS_MAX && text.bytes().all(is_allowed) {
        return Ok(());
    }
    let is_printed = |c: char| !c.is_control() && !changes_layout(c) && c != AFTER_ALL_IDS;
    let ok = !text.is_empty()
        && text.trim() == text
        && text.chars().count() <= FOREIGN_ID_CHARS_MAX
        && text.chars().all(is_printed);
    if ok {
        return Ok(());
    }
    let expected = "1 to 256 characters, none that controls a terminal, breaks a line or changes the direction of text, and no white space at the ends";
    Err(invalid(kind, text, expected))
}

/// Returns `true` for characters that break a line or change the direction of text: ids are in commands
/// that people read and copy.
fn changes_layout(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns an id as a segment of a path or key: each byte other than ASCII letters, digits and
/// `_-.:` is a mark and two hexadecimal digits.
fn escape(text: &str, mark: char) -> Cow<'_, str> {
    if text.bytes().all(is_allowed) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match is_allowed(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("{mark}{byte:02X}")),
        }
    }
    Cow::Owned(escaped)
}

/// Returns a text as a part of a key, as the ids of this module have it: see [`ThreadId::to_key`].
///
/// ```
/// use weftwork_types::ThreadId;
///
/// let thread = ThreadId::new("orders/7 a").expect("valid");
/// assert_eq!(thread.to_key(), "orders=2F7=20a");
/// assert_eq!(thread.to_path(), "orders%2F7%20a");
/// assert_eq!(ThreadId::from_key("orders=2F7=20a"), Ok(thread));
/// ```
#[must_use]
pub fn to_key(text: &str) -> Cow<'_, str> {
    escape(text, '=')
}

/// Returns the text of an id that [`escape`] wrote; `None` for other texts.
pub(crate) fn unescape(text: &str, mark: u8) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == mark {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// A visitor that parses an id from a borrowed string, without an intermediate copy.
struct Text<F>(F);

impl<T, F: FnOnce(&str) -> Result<T, InvalidId>> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

macro_rules! text_id {
    ($check:ident: $($(#[$doc:meta])* $name:ident, $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(std::sync::Arc<str>);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(Text(|text: &str| Self::new(text)))
            }
        }

        impl $name {
            /// Validates a text and creates an id from it.
            ///
            /// # Errors
            /// Returns [`InvalidId`] with a description of valid ids.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                $check($kind, text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// Returns the id as a part of a key of records: without slashes, the text itself if it
            /// has only ASCII letters, digits and `_-.:`, and in no other case equal to that of
            /// another id.
            #[must_use]
            pub fn to_key(&self) -> Cow<'_, str> {
                to_key(&self.0)
            }

            /// Parses the result of [`to_key`](Self::to_key).
            ///
            /// # Errors
            /// [`InvalidId`] for other texts.
            pub fn from_key(key: &str) -> Result<Self, InvalidId> {
                let escaped = || invalid($kind, key, "an id, with `=` and two digits for a byte");
                Self::new(unescape(key, b'=').ok_or_else(escaped)?)
            }

            /// Creates an id from a UUID. The caller chooses the source of its bits.
            #[must_use]
            pub fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid.to_string().into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }
    )*};
}

// Ids that other systems choose: chats, mail and models.
text_id! {
    check_foreign:
    /// A conversation: the unit of state that runs share. Its id is the text that it was created
    /// with, for example the number of an order or the id of a conversation of a chat.
    ThreadId, "thread id";
    /// An instance of an agent. It is the id of the thread of the instance, too.
    InstanceId, "instance id";
    /// A message in a thread.
    MessageId, "message id";
    /// A tool call. The id assigned by the model, if it assigned one.
    ToolCallId, "tool call id";
}

text_id! {
    check_own:
    /// An organisation: the first column of every key in every store.
    OrgId, "organisation id";
    /// An execution of a graph on a thread.
    RunId, "run id";
    /// An attempt of a model call, the unit of telemetry.
    InvocationId, "invocation id";
    /// An inbound request.
    RequestId, "request id";
    /// A distributed trace.
    TraceId, "trace id";
    /// The account that is billed.
    BillingAccountId, "billing account id";
    /// The key under which a call was made.
    VirtualKeyId, "virtual key id";
    /// A process that executes runs.
    WorkerId, "worker id";
}

/// Number of hexadecimal digits of 128 bits.
const HEX_DIGITS: usize = 32;

/// Returns 128 bits as hexadecimal digits. Formatting them takes many times as long, and the log
/// names an id for each task.
fn hex(bits: u128, digits: &mut [u8; HEX_DIGITS]) -> &str {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bits.to_be_bytes()) {
        for (digit, value) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
        }
    }
    // The digits are ASCII.
    std::str::from_utf8(digits).unwrap_or_default()
}

macro_rules! bits_id {
    ($($(#[$doc:meta])* $name:ident, $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(pub u128);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(hex(self.0, &mut [0; HEX_DIGITS]))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(hex(self.0, &mut [0; HEX_DIGITS]))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:032x})"), self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let bad = || invalid($kind, text, "32 hexadecimal digits");
                if text.len() != 32 {
                    return Err(bad());
                }
                u128::from_str_radix(text, 16).map(Self).map_err(|_| bad())
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    )*};
}

bits_id! {
    /// A checkpoint. Ids of one thread sort by creation order.
    CheckpointId, "checkpoint id";
    /// A task of one superstep, derived from checkpoint, node and path.
    TaskId, "task id";
    /// An open question, derived from the task and the number of its previous answers.
    InterruptId, "interrupt id";
}

/// Initial capacity of the text from which an id of a task follows, in bytes; sufficient for most.
const TASK_TEXT: usize = 128;

impl TaskId {
    /// Returns the id of a task: it follows from the checkpoint that its superstep starts from, the
    /// superstep, its node with the namespace of its graph, and the path by which it was scheduled.
    #[must_use]
    pub fn derived(
        checkpoint: CheckpointId,
        step: i64,
        node: impl std::fmt::Display,
        path: impl std::fmt::Display,
    ) -> Self {
        let mut text = String::with_capacity(TASK_TEXT);
        let task = format_args!("task\u{0}{checkpoint}\u{0}{step}\u{0}{node}\u{0}{path}");
        // Writing to a string cannot fail.
        std::fmt::Write::write_fmt(&mut text, task).unwrap_or_default();
        Self(crate::canonical::first_128(&text))
    }
}

impl ThreadId {
    /// Returns the id as a segment of the path of a URL, percent-encoded.
    #[must_use]
    pub fn to_path(&self) -> Cow<'_, str> {
        escape(&self.0, '%')
    }

    /// Returns the UUID under which clients that insist on UUIDs may name the thread: version 5 of
    /// the organisation, a slash and the id, in a namespace of its own.
    ///
    /// ```
    /// use weftwork_types::{OrgId, ThreadId};
    ///
    /// let org = OrgId::new("local").expect("valid");
    /// let thread = ThreadId::new("lamp").expect("valid");
    /// assert_eq!(thread.uuid(&org).to_string(), "1a38a6f3-b0b3-53aa-94f7-a096d1213d0f");
    /// ```
    #[must_use]
    pub fn uuid(&self, org: &OrgId) -> Uuid {
        Uuid::new_v5(&THREADS, format!("{org}/{}", self.0).as_bytes())
    }
}

impl AsRef<InstanceId> for InstanceId {
    fn as_ref(&self) -> &InstanceId {
        self
    }
}

impl From<&InstanceId> for ThreadId {
    fn from(id: &InstanceId) -> Self {
        Self(std::sync::Arc::clone(&id.0))
    }
}

impl From<&ThreadId> for InstanceId {
    fn from(id: &ThreadId) -> Self {
        Self(std::sync::Arc::clone(&id.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ids_refuse_what_could_escape_a_key_or_a_path() {
        for bad in ["", "a/b", "a b", "a%2Fb", "ü", "..\u{0}", &"x".repeat(129)] {
            assert!(RunId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(RunId::new("t-1.a:b_c").expect("valid").as_str(), "t-1.a:b_c");
    }

    #[test]
    fn ids_of_other_systems_are_accepted_and_escaped() {
        for good in [
            "lamp",
            "wamid.HBgLNDkxNzAxMjM0NTYVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA==",
            "<CAJ+7f=mail+tag@mail.example.com>",
            "call_abc|fc_0123",
            "orders/2026/7 a",
            "19:meeting_x@thread.v2",
            "Größe 7",
            &"ü".repeat(256),
            "=2F",
            "%2F",
            "~",
        ] {
            let thread = ThreadId::new(good).expect(good);
            assert_eq!(thread.as_str(), good);
            let key = thread.to_key();
            assert!(key.bytes().all(|byte| byte == b'=' || is_allowed(byte)), "{key}");
            assert_eq!(ThreadId::from_key(&key).as_ref(), Ok(&thread), "{good}");
            assert!(MessageId::new(good).is_ok() && ToolCallId::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(257);
        for bad in [
            "",
            " a",
            "a ",
            "a\nb",
            "a\u{0}",
            "\u{85}",
            "a\u{202e}b",
            "a\u{2028}b",
            "a\u{10ffff}",
            &long,
        ] {
            assert!(ThreadId::new(bad).is_err(), "{bad:?}");
        }
        for bad in ["=", "=2", "=zz", "=FF", "=00"] {
            assert!(ThreadId::from_key(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bit_ids_round_trip_as_32_hex_digits() {
        let id = InterruptId(0xabc);
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse::<InterruptId>(), Ok(id));
        assert!("abc".parse::<InterruptId>().is_err());
    }
}
