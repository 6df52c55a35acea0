//! Values that are not inline in their row: blobs, and slices of other rows.

use crate::error::EngineError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::canonical::Hash;

/// Maximum sum of the bytes of blobs that a row references again. Each reference is read
/// separately, so without a limit a small row could request any amount of memory.
pub const REPEATS_MAX: u64 = 1 << 30;

/// Minimum length in bytes of values that are searched for in another row.
pub(super) const TEXT_MIN: usize = 64;

/// Maximum length in bytes of rows in which values are searched.
const TEXT_MAX: usize = 16 * 1024;

/// The bytes of a row that may contain the values being written. Clones share them.
#[derive(Debug, Clone)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// Takes the bytes of a row; `None` if it is too short or too long to be searched.
    #[must_use]
    pub fn of(row: &[u8]) -> Option<Self> {
        (TEXT_MIN..=TEXT_MAX).contains(&row.len()).then(|| Self(row.into()))
    }
}

/// A row in which values are searched, and the distance of its id to that of the row being written.
#[derive(Debug, Clone)]
pub struct ReferenceRow {
    /// Distance between the two ids.
    pub off: u128,
    /// The row.
    pub text: Text,
}

impl ReferenceRow {
    pub(super) fn find(&self, value: &[u8]) -> Option<RowSlice> {
        let off = self.off;
        let len = value.len();
        if len < TEXT_MIN {
            return None;
        }
        memchr::memmem::find(&self.text.0, value).map(|at| RowSlice { off, at, len })
    }
}

/// A part of another row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowSlice {
    /// Distance to the id of that row.
    pub off: u128,
    pub(super) at: usize,
    pub(super) len: usize,
}

impl RowSlice {
    /// The bytes, if the row has them.
    #[must_use]
    pub fn of<'r>(&self, row: &'r [u8]) -> Option<&'r [u8]> {
        row.get(self.at..self.at.checked_add(self.len)?)
    }
}

/// The location of a value that is not inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueLocation {
    /// A blob, by the hash of its bytes.
    Blob(Hash),
    /// A slice of another row.
    RowSlice(RowSlice),
}

/// The references of a row: blobs with the number of references to each, and slices of other rows.
#[derive(Debug, Clone, Default)]
pub struct ExternalRefs {
    apart: BTreeMap<Hash, u64>,
    /// The distances of the referenced rows, and the bytes of all slices.
    rows: BTreeSet<u128>,
    there: u64,
}

impl ExternalRefs {
    /// Counts a reference to a blob.
    pub fn note(&mut self, hash: Hash) {
        *self.apart.entry(hash).or_default() += 1;
    }

    /// Counts a reference to a slice of another row.
    pub fn note_part(&mut self, there: RowSlice) {
        self.rows.insert(there.off);
        self.there = self.there.saturating_add(there.len as u64);
    }

    /// `true` if all values are in the row itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.apart.is_empty() && self.rows.is_empty()
    }

    /// The referenced blobs, each once.
    pub fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.apart.keys().copied()
    }

    /// The distances of the referenced rows, each once.
    pub fn rows(&self) -> impl Iterator<Item = u128> {
        self.rows.iter().copied()
    }

    /// Checks that the references do not repeat more bytes than is ever written.
    ///
    /// # Errors
    /// [`EngineError::Damaged`].
    pub fn check(&self, bytes: impl Fn(Hash) -> usize) -> Result<(), EngineError> {
        let repeats = self
            .apart
            .iter()
            .map(|(hash, times)| times.saturating_sub(1).saturating_mul(bytes(*hash) as u64));
        match repeats.fold(self.there, u64::saturating_add) <= REPEATS_MAX {
            true => Ok(()),
            false => Err(EngineError::Damaged {
                at: 0,
                expected: "large values that are repeated to at most 1 GiB",
            }),
        }
    }
}
