//! Ids as newtypes, so that one kind of id cannot be passed as another.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An error for text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} `{found}` is not valid: expected 1 to {max_chars} characters from letters, digits, `_`, `-`, `.`, `:`"
)]
pub struct InvalidId {
    /// Kind of the id, such as `thread id`.
    pub kind: &'static str,
    /// Rejected text, truncated to 80 characters.
    pub found: String,
    /// Maximum length of this kind of id, in characters.
    pub max_chars: usize,
}

/// Maximum length of a text id, in characters.
pub const ID_CHARS_MAX: usize = 128;

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

fn check(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    let is_allowed = |byte| ALLOWED.get(usize::from(byte)) == Some(&true);
    let ok = !text.is_empty() && text.len() <= ID_CHARS_MAX && text.bytes().all(is_allowed);
    if ok {
        return Ok(());
    }
    Err(InvalidId { kind, found: text.chars().take(80).collect(), max_chars: ID_CHARS_MAX })
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
    ($($(#[$doc:meta])* $name:ident, $kind:literal;)*) => {$(
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
            /// Returns [`InvalidId`] if the text is empty, longer than [`ID_CHARS_MAX`], or
            /// contains a character other than ASCII letters, digits, `_`, `-`, `.`, `:`.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                check($kind, text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// Creates an id from a UUID. The caller chooses the source of its bits.
            #[must_use]
            pub fn from_uuid(uuid: uuid::Uuid) -> Self {
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

text_id! {
    /// An organisation: the first column of every key in every store.
    OrgId, "organisation id";
    /// A conversation: the unit of state that runs share.
    ThreadId, "thread id";
    /// An execution of a graph on a thread.
    RunId, "run id";
    /// An instance of an agent. It is the id of the thread of the instance, too.
    InstanceId, "instance id";
    /// A message in a thread.
    MessageId, "message id";
    /// A tool call. The id assigned by the model, if it assigned one.
    ToolCallId, "tool call id";
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
                let bad = || InvalidId { kind: $kind, found: text.chars().take(80).collect(), max_chars: 32 };
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
    fn text_ids_refuse_what_could_escape_a_key_or_a_path() {
        for bad in ["", "a/b", "a b", "a%2Fb", "ü", "..\u{0}", &"x".repeat(129)] {
            assert!(ThreadId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(ThreadId::new("t-1.a:b_c").expect("valid").as_str(), "t-1.a:b_c");
    }

    #[test]
    fn bit_ids_round_trip_as_32_hex_digits() {
        let id = InterruptId(0xabc);
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse::<InterruptId>(), Ok(id));
        assert!("abc".parse::<InterruptId>().is_err());
    }
}
