//! The lines of an export.
//!
//! The first line is the [`Header`]. Each thread begins with a line `thread` and ends with a line
//! `end`, which holds the checksum of its preceding lines. The events of a run follow the line of
//! the run. Items follow the threads, in batches that each close with a line `end`. The last line
//! holds the numbers of threads and items, so that a truncated file is detected.
//!
//! Format 1 has no items, and formats 1 and 2 have no records of threads.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::time::Duration;
use weftwork_store::items::{Indexing, Item, StoredItem};
use weftwork_store::{
    Content, InterruptRow, NewCheckpoint, NewPending, Pending, RunRow, Sequence, SequenceRow,
    StoredEvent, ThreadRow, UsageRow,
};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::port::CallRecord;
use weftwork_types::{CheckpointId, Timestamp};

/// The format name in the header.
pub(super) const FORMAT: &str = "weftwork-export";
/// The format version that this program writes, and the newest that it reads.
pub(super) const VERSION: u32 = 3;

/// Maximum number of items in a batch, which is imported in one transaction.
pub(super) const ITEMS_AT_ONCE: usize = 1_000;
/// Size in bytes at which a batch is full; its last item may exceed it.
pub(super) const ITEM_BYTES_AT_ONCE: usize = 8 << 20;

/// The format version of an export without items.
pub(super) const WITHOUT_ITEMS: u32 = 1;

/// The format version of an export without records of threads.
pub(super) const WITHOUT_RECORDS: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) version: u32,
}

/// A line after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'a> {
    Thread(ThreadRow),
    Run(Box<Run>),
    Event(Box<StoredEvent>),
    Interrupt(Box<InterruptRow>),
    Call(Box<CallRecord>),
    Checkpoint(Checkpoint<'a>),
    Pending(Part<'a>),
    Blob(Hashed<'a>),
    Names(Hashed<'a>),
    Usage(Box<UsageRow>),
    Record(Record<'a>),
    Item(Box<Kept>),
    End(End),
    Done {
        threads: u64,
        #[serde(default)]
        items: u64,
    },
}

/// An item with its indexing options and time to live.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    #[serde(flatten)]
    item: Item,
    indexing: Indexing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

impl Kept {
    pub(super) fn of(stored: StoredItem) -> Self {
        let ttl_ms = stored.ttl_ms();
        let StoredItem { item, indexing, .. } = stored;
        Self { item, indexing, ttl_ms }
    }

    pub(super) fn row(self) -> StoredItem {
        let ttl = self.ttl_ms.map(Duration::from_millis);
        let item = Item { score: None, ..self.item };
        StoredItem { item, indexing: self.indexing, ttl }.as_written()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) subject: String,
    pub(super) run: RunRow,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint<'a> {
    ns: Cow<'a, str>,
    id: CheckpointId,
    of: Option<CheckpointId>,
    tasks: Bytes<'a>,
    body: Bytes<'a>,
    blobs: Cow<'a, [Hash]>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Outside,
    Tasks,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part<'a> {
    ns: Cow<'a, str>,
    of: CheckpointId,
    what: What,
    body: Bytes<'a>,
    blobs: Cow<'a, [Hash]>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hashed<'a> {
    hash: Hash,
    body: Bytes<'a>,
}

/// A record of a sequence that belongs to the thread.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record<'a> {
    kind: Cow<'a, str>,
    key: Cow<'a, str>,
    version: u64,
    at: Timestamp,
    format: u32,
    bytes: Bytes<'a>,
}

impl<'a> Record<'a> {
    pub(super) fn of(row: &'a SequenceRow) -> Self {
        let SequenceRow { sequence: Sequence { kind, key }, version, at, content } = row;
        Self {
            kind: kind.as_str().into(),
            key: key.as_str().into(),
            version: *version,
            at: *at,
            format: content.format,
            bytes: Bytes(content.bytes.as_slice().into()),
        }
    }

    pub(super) fn row(self) -> SequenceRow {
        SequenceRow {
            sequence: Sequence::new(self.kind, self.key),
            version: self.version,
            at: self.at,
            content: Content { format: self.format, bytes: self.bytes.0.into_owned() },
        }
    }
}

/// The end of a thread or of a batch of items.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    /// Number of lines of the thread or batch before this one.
    pub(super) lines: u64,
    /// The checksum of these lines.
    pub(super) sum: Hash,
}

impl End {
    pub(super) fn of(sum: &Sum) -> Self {
        Self { lines: sum.lines, sum: sum.hash }
    }

    /// Returns `true` if the lines read have the recorded number and checksum.
    pub(super) fn fits(&self, sum: &Sum) -> bool {
        (self.lines, self.sum) == (sum.lines, sum.hash)
    }
}

/// Bytes, as base64.
#[derive(Debug)]
struct Bytes<'a>(Cow<'a, [u8]>);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes<'_> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(d)?;
        let bytes = BASE64_STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self(Cow::Owned(bytes)))
    }
}

impl<'a> Checkpoint<'a> {
    pub(super) fn of(new: &'a NewCheckpoint) -> Self {
        Self {
            ns: new.ns.as_str().into(),
            id: new.id,
            of: new.of,
            tasks: Bytes(new.tasks.as_slice().into()),
            body: Bytes(new.body.as_slice().into()),
            blobs: new.blobs.as_slice().into(),
        }
    }

    pub(super) fn row(self) -> NewCheckpoint {
        let Self { ns, id, of, tasks, body, blobs } = self;
        NewCheckpoint {
            ns: ns.into_owned(),
            id,
            of,
            tasks: tasks.0.into_owned(),
            body: body.0.into_owned(),
            blobs: blobs.into_owned(),
        }
    }
}

impl<'a> Part<'a> {
    pub(super) fn of(part: &'a NewPending) -> Self {
        Self {
            ns: part.ns.as_str().into(),
            of: part.of,
            what: match part.what {
                Pending::Outside => What::Outside,
                Pending::Tasks => What::Tasks,
            },
            body: Bytes(part.body.as_slice().into()),
            blobs: part.blobs.as_slice().into(),
        }
    }

    pub(super) fn row(self) -> NewPending {
        let what = match self.what {
            What::Outside => Pending::Outside,
            What::Tasks => Pending::Tasks,
        };
        NewPending {
            ns: self.ns.into_owned(),
            of: self.of,
            what,
            body: self.body.0.into_owned(),
            blobs: self.blobs.into_owned(),
        }
    }
}

impl<'a> Hashed<'a> {
    pub(super) fn of(hash: Hash, body: &'a [u8]) -> Self {
        Self { hash, body: Bytes(body.into()) }
    }

    pub(super) fn row(self) -> (Hash, Vec<u8>) {
        (self.hash, self.body.0.into_owned())
    }
}

/// The running checksum of lines.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) lines: u64,
    pub(super) bytes: usize,
    pub(super) hash: Hash,
}

impl Sum {
    pub(super) fn new() -> Self {
        Self { lines: 0, bytes: 0, hash: hash_bytes(&[]) }
    }

    /// Returns `true` if the batch has no room for another item.
    pub(super) fn is_full(&self) -> bool {
        self.lines >= ITEMS_AT_ONCE as u64 || self.bytes >= ITEM_BYTES_AT_ONCE
    }

    /// Adds a line, given without its line break.
    pub(super) fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        self.bytes += line.len();
        self.hash = hash_bytes(&[&self.hash.0[..], line].concat());
    }
}
