//! Numbers, texts and values as bytes, written by [`Writer`] and read by [`Reader`].

mod reference;

pub use reference::{ExternalRefs, REPEATS_MAX, ReferenceRow, RowSlice, Text, ValueLocation};

use crate::error::EngineError;
use reference::TEXT_MIN;
use weftwork_types::canonical::{DEPTH_MAX, Hash, hash_bytes};

/// The format of the rows written here.
pub const VERSION: u8 = 1;

/// Maximum length in bytes of a value within a row; larger values are blobs, stored by their hash.
pub const INLINE_MAX: usize = 64 * 1024;

/// Maximum length in bytes of values that are not searched for in other rows, cannot be nested too
/// deeply, and whose length takes one byte.
const SMALL_MAX: usize = TEXT_MIN - 1;
const _: () = assert!(SMALL_MAX < DEPTH_MAX && SMALL_MAX + 1 < 0x80);

/// Writer of a row, with the values that are stored as blobs.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Blobs, by the hash of their bytes.
    pub blobs: Vec<(Hash, Vec<u8>)>,
    /// A row that may already have the values.
    known: Option<ReferenceRow>,
    /// Buffer for one value.
    scratch: Vec<u8>,
    /// The bytes of blobs that were referenced again.
    repeats: u64,
}

impl Writer {
    /// Creates a writer with an initial capacity in bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Sets the row in which the following values are searched.
    pub fn refer_to(&mut self, known: Option<ReferenceRow>) {
        self.known = known;
    }

    /// Returns the bytes written so far.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the bytes and the blobs.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, Vec<(Hash, Vec<u8>)>) {
        (self.bytes, self.blobs)
    }

    /// Writes a single byte.
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes bytes without their length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a number with seven bits per byte, the lowest first.
    pub fn number(&mut self, number: impl Into<u128>) {
        let mut left: u128 = number.into();
        // Most numbers are small.
        while left > u128::from(u64::MAX) {
            self.bytes.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        let mut left = left as u64;
        while left >= 0x80 {
            self.bytes.push((left & 0x7f) as u8 | 0x80);
            left >>= 7;
        }
        self.bytes.push(left as u8);
    }

    /// Writes a length or an index.
    pub fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// Writes a number that may be negative.
    pub fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    /// Writes bytes after their length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Writes a text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes the value that `write` produces; a large value becomes a blob.
    ///
    /// # Errors
    /// Errors of `write`, and values nested too deeply to be read.
    pub fn value(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        // Most values are small and are written in place.
        let start = self.bytes.len();
        self.bytes.push(0);
        write(&mut self.bytes)?;
        let len = self.bytes.len() - start - 1;
        if let (1..=SMALL_MAX, Some(place)) = (len, self.bytes.get_mut(start)) {
            *place = len as u8 + 1;
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(self.bytes.get(start + 1..).unwrap_or_default());
        self.bytes.truncate(start);
        let written = shallow(&scratch).and_then(|()| self.sized(&scratch, 0));
        self.scratch = scratch;
        written
    }

    /// Writes a value whose bytes from `split` on may be in another row.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub(crate) fn value_of_parts(&mut self, value: &[u8], split: usize) -> Result<(), String> {
        shallow(value)?;
        self.sized(value, split)
    }

    fn sized(&mut self, value: &[u8], split: usize) -> Result<(), String> {
        if value.len() <= INLINE_MAX {
            let (head, part) = value.split_at_checked(split).unwrap_or((&[], value));
            let there = self.known.as_ref().and_then(|known| known.find(part));
            if let Some(RowSlice { off, at, len }) = there {
                self.count(1);
                self.bytes(head);
                self.number(off);
                self.count(at);
                self.count(len);
                return Ok(());
            }
            // One more than the length, which is not zero: zero stands for a blob, and one for a
            // slice of another row.
            if value.is_empty() {
                return Err("it is no JSON: it has no bytes".to_owned());
            }
            self.count(value.len() + 1);
            self.raw(value);
            return Ok(());
        }
        let hash = hash_bytes(value);
        self.count(0);
        self.raw(&hash.0);
        if !self.blobs.iter().any(|(known, _)| *known == hash) {
            self.blobs.push((hash, value.to_vec()));
            return Ok(());
        }
        self.repeats += value.len() as u64;
        if self.repeats <= REPEATS_MAX {
            return Ok(());
        }
        Err(format!("large values are repeated to more than {REPEATS_MAX} bytes in one superstep"))
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn json<T: serde::Serialize + ?Sized>(&mut self, json: &T) -> Result<(), String> {
        self.value(|out| serde_json::to_writer(out, json).map_err(|error| error.to_string()))
    }
}

fn shallow(json: &[u8]) -> Result<(), String> {
    match is_too_deep(json) {
        true => Err(format!("it is nested more than {DEPTH_MAX} levels deep")),
        false => Ok(()),
    }
}

/// Returns `true` if JSON text is nested more deeply than readers accept.
fn is_too_deep(json: &[u8]) -> bool {
    // Most texts have too few brackets, which is cheap to check: in chunks whose count fits a byte,
    // many bytes are compared at once.
    let opens = |byte: &u8| u8::from(matches!(byte, b'[' | b'{'));
    let parts = json.chunks(usize::from(u8::MAX));
    let brackets = parts.map(|part| usize::from(part.iter().map(opens).sum::<u8>()));
    if json.len() <= DEPTH_MAX || brackets.sum::<usize>() <= DEPTH_MAX {
        return false;
    }
    let mut depth = 0usize;
    let mut in_text = false;
    let mut escaped = false;
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// A value as it was read: inline, a blob, or a slice of another row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored<'a> {
    /// The bytes of the value.
    Inline(&'a [u8]),
    /// A blob, by the hash of its bytes.
    Blob(Hash),
    /// These bytes, followed by a slice of another row.
    RowSlice(&'a [u8], RowSlice),
}

/// Reader of a row. The bytes are untrusted: all lengths and numbers are checked.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The error for unexpected data at this position.
    #[must_use]
    pub fn damaged(&self, expected: &'static str) -> EngineError {
        EngineError::Damaged { at: self.at, expected }
    }

    /// `true` if everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Reads a single byte.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] at the end.
    pub fn byte(&mut self) -> Result<u8, EngineError> {
        let byte = self.bytes.get(self.at).copied().ok_or_else(|| self.damaged("one more byte"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] when there are fewer.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], EngineError> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = bytes.ok_or_else(|| self.damaged("as many bytes as are announced"))?;
        self.at += len;
        Ok(bytes)
    }

    /// Reads a number.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] for one that does not fit.
    pub fn wide(&mut self) -> Result<u128, EngineError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // Most numbers are small.
        if let Some(byte) = rest.first().filter(|byte| **byte < 0x80) {
            self.at += 1;
            return Ok(u128::from(*byte));
        }
        let mut number = 0u128;
        // Nine bytes at a time, which fit in 64 bits.
        for (part, bytes) in rest.chunks(9).take(3).enumerate() {
            let mut word = 0u64;
            let mut shift = 0;
            for byte in bytes {
                self.at += 1;
                word |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if part == 2 && *byte > 3 {
                    return Err(self.damaged("a number of at most 128 bits"));
                }
                if *byte < 0x80 {
                    return Ok(number | u128::from(word) << (63 * part));
                }
            }
            number |= u128::from(word) << (63 * part);
        }
        Err(self.damaged("one more byte"))
    }

    /// Skips `count` numbers without checking their range.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] when there are fewer.
    pub(crate) fn skip_numbers(&mut self, mut count: usize) -> Result<(), EngineError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        for byte in rest {
            if count == 0 {
                return Ok(());
            }
            self.at += 1;
            count -= usize::from(*byte < 0x80);
        }
        match count {
            0 => Ok(()),
            _ => Err(self.damaged("one more number")),
        }
    }

    /// Reads a number of a smaller type.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] for one that does not fit.
    pub fn number<T: TryFrom<u128>>(&mut self) -> Result<T, EngineError> {
        T::try_from(self.wide()?).map_err(|_| self.damaged("a smaller number"))
    }

    /// Reads a number that may be negative.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] for one that does not fit.
    pub fn signed(&mut self) -> Result<i64, EngineError> {
        let number: u64 = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads the number of items that follow, each of at least one byte; checks that there is room
    /// for them.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] for more than the bytes that are left.
    pub fn count(&mut self) -> Result<usize, EngineError> {
        let count: usize = self.number()?;
        match count <= self.bytes.len() - self.at {
            true => Ok(count),
            false => Err(self.damaged("fewer things than there are bytes left")),
        }
    }

    /// Reads bytes after their length.
    ///
    /// # Errors
    /// [`EngineError::Damaged`].
    pub fn bytes(&mut self) -> Result<&'a [u8], EngineError> {
        let len = self.number()?;
        self.raw(len)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`EngineError::Damaged`].
    pub fn text(&mut self) -> Result<&'a str, EngineError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged("text in UTF-8"))
    }

    /// Reads a value.
    ///
    /// # Errors
    /// [`EngineError::Damaged`].
    pub fn value(&mut self) -> Result<Stored<'a>, EngineError> {
        match self.number::<usize>()? {
            0 => {
                let mut hash = [0u8; 32];
                hash.copy_from_slice(self.raw(32)?);
                Ok(Stored::Blob(Hash(hash)))
            }
            1 => {
                let head = self.bytes()?;
                let off = self.wide()?;
                let at = self.number()?;
                let len = self.number()?;
                Ok(Stored::RowSlice(head, RowSlice { off, at, len }))
            }
            len => self.raw(len - 1).map(Stored::Inline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let edges = (1..128).flat_map(|bits| [(1u128 << bits) - 1, 1 << bits]);
        for number in edges.chain([0, 300, u128::MAX]) {
            let mut out = Writer::default();
            out.number(number);
            let bytes = out.into_bytes();
            let mut read = Reader::new(&bytes);
            assert_eq!(read.wide(), Ok(number));
            assert!(read.is_empty());
            let mut passed = Reader::new(&bytes);
            assert_eq!(passed.skip_numbers(1), Ok(()));
            assert!(passed.is_empty() && passed.skip_numbers(0).is_ok());
            assert!(passed.skip_numbers(1).is_err());
        }
        let too_large = [[0xff; 18].as_slice(), &[4]].concat();
        assert!(Reader::new(&too_large).wide().is_err());
        for number in [0i64, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Writer::default();
            out.signed(number);
            assert_eq!(Reader::new(&out.into_bytes()).signed(), Ok(number));
        }
    }

    #[test]
    fn what_is_announced_must_be_there() {
        assert!(Reader::new(&[0xff; 40]).wide().is_err());
        assert!(Reader::new(&[5, 1, 2]).bytes().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f, 1]).count().is_err());
        assert!(Reader::new(&[2, 0xff]).text().is_err());
        assert!(Reader::new(&[0, 1, 2]).value().is_err());
    }

    #[test]
    fn large_values_are_kept_apart_once() {
        let large = "x".repeat(INLINE_MAX);
        let mut out = Writer::default();
        out.json(&large).expect("a text");
        out.json(&large).expect("a text");
        out.json("small").expect("a text");
        assert_eq!(out.blobs.len(), 1);
        let (bytes, blobs) = out.finish();
        let mut read = Reader::new(&bytes);
        let hash = blobs.first().map(|(hash, _)| *hash).expect("one");
        assert_eq!(read.value(), Ok(Stored::Blob(hash)));
        assert_eq!(read.value(), Ok(Stored::Blob(hash)));
        assert_eq!(read.value(), Ok(Stored::Inline(b"\"small\"")));
    }

    #[test]
    fn what_is_in_another_row_is_named() {
        let text = "a text of some length, so that it is worth the while to name its place";
        let row = format!("before{text:?}after").into_bytes();
        let mut out = Writer::default();
        out.refer_to(Text::of(&row).map(|text| ReferenceRow { off: 7, text }));
        out.json(text).expect("a text");
        out.json("short").expect("a text");
        let bytes = out.into_bytes();
        assert!(bytes.len() < 16);
        let mut read = Reader::new(&bytes);
        let Ok(Stored::RowSlice(&[], there)) = read.value() else { panic!("it is named") };
        assert_eq!((there.off, there.of(&row)), (7, Some(format!("{text:?}").as_bytes())));
        assert_eq!(there.of(&row[..20]), None);
        assert_eq!(read.value(), Ok(Stored::Inline(b"\"short\"")));
        assert!(Text::of(&[0; 16 * 1024]).is_some());
        assert!(Text::of(&[0; 16 * 1024 + 1]).is_none());
    }

    #[test]
    fn what_could_not_be_read_back_is_not_written() {
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        let write = |text: String| {
            Writer::default().value(|out| {
                out.extend_from_slice(text.as_bytes());
                Ok(())
            })
        };
        assert!(write(deep.clone()).is_err());
        assert!(write(format!("\"{deep}\\\"{deep}\"")).is_ok(), "brackets in a text");
    }
}
