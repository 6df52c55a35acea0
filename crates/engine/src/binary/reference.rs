//! Values that are not in their row: kept apart by their hash, or a part of another row.

use crate::error::EngineError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::canonical::Hash;

/// The most bytes of values kept apart that a row names again, all namings taken together. Each is
/// read for itself, so that a small row could ask for any amount of memory.
pub const REPEATS_MAX: u64 = 1 << 30;

/// The fewest bytes of a value that are looked for in another row.
pub(super) const TEXT_MIN: usize = 64;

/// The most bytes of a row in which values are looked for.
const TEXT_MAX: usize = 16 * 1024;

/// A row that may have values which are being written. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Text(Arc<[u8]>);

impl Text {
    /// The bytes of a row; none when it is too short or too long to look for values in it.
    #[must_use]
    pub fn of(row: &[u8]) -> Option<Self> {
        (TEXT_MIN..=TEXT_MAX).contains(&row.len()).then(|| Self(row.into()))
    }
}

/// The same, and how far its id is from that of the row that is being written.
#[derive(Debug, Clone)]
pub struct ReferenceRow {
    /// Distance between the two ids.
    pub off: u128,
    /// The row.
    pub text: Text,
}

impl ReferenceRow {
    pub(super) fn find(&self, value: &[u8]) -> Option<RowSlice> {
        let (off, len) = (self.off, value.len());
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
    /// The bytes, when the row has them.
    #[must_use]
    pub fn of<'r>(&self, row: &'r [u8]) -> Option<&'r [u8]> {
        row.get(self.at..self.at.checked_add(self.len)?)
    }
}

/// Where a value is that is not in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueLocation {
    /// Apart, by the hash of its bytes.
    Blob(Hash),
    /// In another row.
    RowSlice(RowSlice),
}

/// The values that a row has elsewhere: those kept apart, how often each, and parts of other rows.
#[derive(Debug, Clone, Default)]
pub struct ExternalRefs {
    apart: BTreeMap<Hash, u64>,
    /// The rows that have values, by how far they are, and the bytes of all these.
    rows: BTreeSet<u128>,
    there: u64,
}

impl ExternalRefs {
    /// Counts one more reference to a value kept apart.
    pub fn note(&mut self, hash: Hash) {
        *self.apart.entry(hash).or_default() += 1;
    }

    /// Records one more reference to a part of another row.
    pub fn note_part(&mut self, there: RowSlice) {
        self.rows.insert(there.off);
        self.there = self.there.saturating_add(there.len as u64);
    }

    /// `true` if all values are in the row itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.apart.is_empty() && self.rows.is_empty()
    }

    /// The values kept apart, each once.
    pub fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.apart.keys().copied()
    }

    /// The distances of the rows whose parts are referenced, each once.
    pub fn rows(&self) -> impl Iterator<Item = u128> {
        self.rows.iter().copied()
    }

    /// Lets a row pass that does not repeat more than is ever written.
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
