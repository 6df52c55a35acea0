//! Patches that turn an older list into a newer one: the new length, and the items that the older
//! list does not share, in ranges.

use super::{read_json_into, typed, write_json};
use crate::binary::{Reader, Writer};
use crate::list::List;
use crate::value::Value;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Number of items up to which it does not matter how many are written again.
const AGAIN_MIN: usize = 64;

/// Appends the patch; returns `false` if it would contain the whole list, or most of the older list
/// again.
pub(super) fn write<T: Serialize>(
    older: &List<T>,
    list: &List<T>,
    out: &mut Vec<u8>,
) -> Result<bool, String> {
    let ranges = list.ranges_since(older);
    let is_all = list.is_empty() || ranges.first() == Some(&(0..list.len()));
    let again: usize = ranges.iter().map(|r| r.end.min(older.len()).saturating_sub(r.start)).sum();
    if older.is_empty() || is_all || again > AGAIN_MIN.max(list.len() / 2) {
        return Ok(false);
    }
    let mut head = Writer::default();
    head.count(list.len());
    head.count(ranges.len());
    let mut items = Vec::new();
    for range in ranges {
        head.count(range.start);
        items.clear();
        let slice: Vec<&T> = range.filter_map(|at| list.get(at)).collect();
        write_json(&slice, &mut items)?;
        head.bytes(&items);
    }
    out.extend_from_slice(&head.into_bytes());
    Ok(true)
}

/// The position of the items in a patch with a single range; the bytes before them are few.
pub(crate) fn items_at(patch: &[u8]) -> usize {
    let mut read = Reader::new(patch);
    let mut head = || {
        read.wide().ok()?;
        let ranges = read.count().ok()?;
        read.wide().ok()?;
        let len: usize = read.number().ok()?;
        patch.len().checked_sub(len).filter(|_| ranges == 1)
    };
    head().unwrap_or_default()
}

/// Items that are put into a list as they are read, beginning at an index.
pub(super) struct Items<'l, T> {
    list: &'l mut List<T>,
    start: usize,
}

impl<'l, T: Clone> Items<'l, T> {
    /// Creates the reader of items from index `start`.
    pub(super) fn at(list: &'l mut List<T>, start: usize) -> Self {
        Self { list, start }
    }

    /// Puts an item at the next index.
    pub(super) fn take(&mut self, item: T) {
        if self.start < self.list.len() {
            self.list.set(self.start, item);
        } else {
            self.list.push(item);
        }
        self.start += 1;
    }
}

impl<'de, T: Deserialize<'de> + Clone> DeserializeSeed<'de> for Items<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de> + Clone> Visitor<'de> for Items<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut seq: S) -> Result<(), S::Error> {
        while let Some(item) = seq.next_element()? {
            self.take(item);
        }
        Ok(())
    }
}

/// Reads items as JSON.
pub(super) fn read_items<T>(list: &mut List<T>, start: usize, json: &[u8]) -> Result<(), String>
where
    T: DeserializeOwned + Clone,
{
    read_json_into(Items::at(list, start), json)
}

/// Applies a patch to a list; `read_items` reads items into it from an index.
pub(super) fn apply<T>(
    older: Value,
    patch: &[u8],
    read_items: impl Fn(&mut List<T>, usize, &[u8]) -> Result<(), String>,
) -> Result<Value, String>
where
    T: Clone + Send + Sync + 'static,
{
    typed::<List<T>>(&older)?;
    let mut list = older.take::<List<T>>().unwrap_or_default();
    let mut read = Reader::new(patch);
    let bad = |error: crate::EngineError| error.to_string();
    let len: usize = read.number().map_err(bad)?;
    if len < list.len() {
        list.truncate(len);
    }
    for _ in 0..read.count().map_err(bad)? {
        let start: usize = read.number().map_err(bad)?;
        let items = read.bytes().map_err(bad)?;
        if start > list.len() {
            return Err(format!("a patch begins at item {start} of {}", list.len()));
        }
        read_items(&mut list, start, items)?;
    }
    if list.len() != len {
        return Err(format!("a patched list has {} items, expected {len}", list.len()));
    }
    Ok(Value::new(list))
}
