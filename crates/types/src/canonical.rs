//! Canonical JSON, so that equal values have equal hashes in every process.
//!
//! Objects are written without white space and with keys sorted by code point; numbers and strings
//! as `serde_json` writes them. This follows RFC 8785, except for the formatting of floating point
//! numbers, which is that of `serde_json`.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Maximum nesting depth of a stored value. JSON parsers accept at most 128 levels, and records add
/// some levels around the value.
pub const DEPTH_MAX: usize = 100;

/// The SHA-256 of a canonical JSON text, as 64 hex digits when printed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    fn hex(self) -> [u8; 64] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0u8; 64];
        for (two, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            two.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        hex
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.hex()).map_err(|_| std::fmt::Error)?)
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hash({self})")
    }
}

impl serde::Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let hex = self.hex();
        s.serialize_str(std::str::from_utf8(&hex).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> serde::Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        let bad = || serde::de::Error::custom("a hash is 64 hex digits");
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        let mut out = [0u8; 32];
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(out))
    }
}

/// Writes a value in its canonical form.
#[must_use]
pub fn to_string(value: &Value) -> String {
    #[expect(clippy::expect_used, reason = "JSON is text")]
    String::from_utf8(to_bytes(value)).expect("JSON is in UTF-8")
}

fn to_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

/// Hashes the canonical form of a value.
#[must_use]
pub fn hash(value: &Value) -> Hash {
    hash_bytes(&to_bytes(value))
}

/// Hashes bytes.
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> Hash {
    Hash(Sha256::digest(bytes).into())
}

/// Returns the first 128 bits of the SHA-256 hash of a text.
#[must_use]
pub fn first_128(text: &str) -> u128 {
    let hash = hash_bytes(text.as_bytes());
    hash.0.iter().take(16).fold(0, |bits, byte| (bits << 8) | u128::from(*byte))
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by(|a, b| a.0.cmp(b.0));
            out.push(b'{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                plain(key, out);
                out.push(b':');
                write(item, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        scalar => plain(scalar, out),
    }
}

#[expect(clippy::expect_used, reason = "writing to memory does not fail")]
fn plain<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a text or a number has a JSON form");
}

/// Returns `true` if a value is nested no deeper than [`DEPTH_MAX`]. The check is iterative.
#[must_use]
pub fn can_be_read_back(value: &Value) -> bool {
    can_be_nested(value, 0)
}

/// Returns `true` if a value is nested no deeper than [`DEPTH_MAX`] as a part of one that has this many
/// levels around it.
#[must_use]
pub fn can_be_nested(value: &Value, levels_around: usize) -> bool {
    let mut open = vec![(value, levels_around)];
    while let Some((value, levels_above)) = open.pop() {
        let levels = levels_above + 1;
        match value {
            Value::Array(_) | Value::Object(_) if levels > DEPTH_MAX => return false,
            Value::Array(items) => open.extend(items.iter().map(|item| (item, levels))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, levels))),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_and_white_space_do_not_matter() {
        let a: Value = serde_json::from_str(r#"{"b": [1, {"y": 1, "x": "\u0041"}], "a": null}"#)
            .expect("json");
        assert_eq!(to_string(&a), r#"{"a":null,"b":[1,{"x":"A","y":1}]}"#);
        assert_eq!(hash(&a), hash(&json!({"a": null, "b": [1, {"x": "A", "y": 1}]})));
    }

    #[test]
    fn values_can_be_read_back_up_to_a_depth() {
        let nested =
            |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": 0, "b": inner}));
        assert!(can_be_read_back(&nested(DEPTH_MAX)));
        assert!(!can_be_read_back(&nested(DEPTH_MAX + 1)));
        assert!(can_be_nested(&nested(DEPTH_MAX - 1), 1));
        assert!(!can_be_nested(&nested(DEPTH_MAX), 1));
        let text = nested(DEPTH_MAX).to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok());
    }

    #[test]
    fn a_hash_reads_back_what_it_writes_and_refuses_the_rest() {
        let h = hash(&json!({"a": 1}));
        let text = serde_json::to_string(&h).expect("serialises");
        assert_eq!(serde_json::from_str::<Hash>(&text).expect("reads back"), h);
        assert!(serde_json::from_str::<Hash>("\"zz\"").is_err());
        assert!(serde_json::from_str::<Hash>(&format!("\"{}\"", "ü".repeat(32))).is_err());
    }
}
