//! Keys of rows.

use std::fmt;

/// The end of a text within a key. It sorts before all bytes of a longer text.
const END: [u8; 2] = [0, 1];
/// A zero byte within a text.
const ZERO: [u8; 2] = [0, 255];

/// The key of a row: bytes, which are ordered as unsigned numbers. A key contains ids of organisations,
/// threads and runs, and names that users choose; most keys have fewer than 200 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the range of this key alone and the keys that begin with it.
    pub(super) fn range(self) -> KeyRange {
        let mut end = self.0.clone();
        while end.last() == Some(&255) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        KeyRange { first: self, end: Key(end) }
    }

    pub(super) fn kind(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(super) fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    pub(super) fn text(mut self, text: impl ToString) -> Self {
        for byte in text.to_string().bytes() {
            match byte {
                0 => self.0.extend(ZERO),
                _ => self.0.push(byte),
            }
        }
        self.0.extend(END);
        self
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(super) fn wide(self, number: u128) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Returns the same key of another kind.
    pub(super) fn with_kind(mut self, kind: u8) -> Self {
        if let Some(first) = self.0.first_mut() {
            *first = kind;
        }
        self
    }

    /// Returns a reader of the parts after the kind, and the kind.
    pub(super) fn parts(&self) -> (u8, Parts<'_>) {
        let kind = self.0.first().copied().unwrap_or_default();
        (kind, Parts(self.0.get(1..).unwrap_or_default()))
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// A range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// First key of the range.
    pub first: Key,
    /// First key after the range.
    pub end: Key,
}

impl KeyRange {
    /// Returns `true` if no key is in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first >= self.end
    }

    /// Returns `true` if a key is in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.first && *key < self.end
    }
}

/// A reader of the parts of a key. Each method returns `None` if the key has another form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'k>(&'k [u8]);

impl Parts<'_> {
    pub(super) fn text(&mut self) -> Option<String> {
        let mut text = Vec::new();
        loop {
            match *self.0 {
                [0, 1, ref rest @ ..] => {
                    self.0 = rest;
                    return String::from_utf8(text).ok();
                }
                [0, 255, ref rest @ ..] => {
                    text.push(0);
                    self.0 = rest;
                }
                [0, ..] | [] => return None,
                [byte, ref rest @ ..] => {
                    text.push(byte);
                    self.0 = rest;
                }
            }
        }
    }

    pub(super) fn id<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.text()?.parse().ok()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_be_bytes)
    }

    pub(super) fn wide(&mut self) -> Option<u128> {
        self.fixed().map(u128::from_be_bytes)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_their_parts_and_can_be_read() {
        let key = |text: &str, n| Key::kind(b'x').text(text).number(n);
        let sorted = [key("", 9), key("a", 0), key("a", u64::MAX), key("a\0", 0), key("a!", 0)];
        assert!(sorted.is_sorted(), "{sorted:?}");
        for (key, text) in sorted.iter().zip(["", "a", "a", "a\0", "a!"]) {
            let (kind, mut parts) = key.parts();
            assert_eq!((kind, parts.text().as_deref()), (b'x', Some(text)));
            assert!(parts.number().is_some() && parts.byte().is_none());
        }
        let range = Key::kind(b'x').text("a").range();
        assert_eq!(sorted.map(|key| range.contains(&key)), [false, true, true, false, false]);
    }
}
