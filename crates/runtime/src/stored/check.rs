//! Checks that stored rows are intact, without their graph.

use super::row::{self, Kind};
use std::collections::BTreeSet;
use weftwork_engine::EngineError;
use weftwork_engine::codec::{Layout, LayoutId};
use weftwork_store::{CheckpointBatch, Pending, StoreError};
use weftwork_types::canonical::Hash;
use weftwork_types::{CheckpointId, ThreadId};

/// Result of checking the rows of a thread's checkpoints; see [`check_rows`].
#[derive(Debug, Default)]
pub struct CheckedRows {
    /// The hashes of the names that the rows leave out; see [`check_names`].
    pub names: BTreeSet<Hash>,
    /// Damaged rows, each with its place.
    pub problems: Vec<StoreError>,
}

/// Checks every row of a thread's checkpoints, for which no graph is needed: each must match the
/// checksum it was written with, as that row of that checkpoint of that graph, and be of a format
/// that this program reads.
///
/// Does not check that a build of the graph accepts the state; [`thread_state`] does.
///
/// [`thread_state`]: crate::thread_state
#[must_use]
pub fn check_rows(thread: &ThreadId, kept: &CheckpointBatch) -> CheckedRows {
    let mut checked = CheckedRows::default();
    for new in &kept.checkpoints {
        checked.look(thread, &new.ns, (Kind::Checkpoint, new.id), &new.body);
        if let Some(of) = new.of {
            checked.look(thread, &new.ns, (Kind::Tasks, of), &new.tasks);
        }
    }
    for part in &kept.pending {
        let kind = match part.what {
            Pending::Outside => Kind::Outside,
            Pending::Tasks => Kind::Tasks,
        };
        checked.look(thread, &part.ns, (kind, part.of), &part.body);
    }
    checked
}

/// Checks names that rows leave out: their bytes must match their hash, and be of a format that
/// this program reads.
///
/// # Errors
/// [`StoreError::Corrupt`] and [`StoreError::Newer`].
pub fn check_names(hash: Hash, bytes: &[u8]) -> Result<(), StoreError> {
    let mut id = LayoutId([0; 16]);
    for (to, from) in id.0.iter_mut().zip(hash.0) {
        *to = from;
    }
    let place = || format!("names `{hash}` that rows leave out");
    Layout::read(id, bytes).map(drop).map_err(|error| to_store_error(place(), error))
}

impl CheckedRows {
    fn look(&mut self, thread: &ThreadId, ns: &str, what: (Kind, CheckpointId), bytes: &[u8]) {
        match names_of(ns, what.0, what.1, bytes) {
            Ok(names) => drop(self.names.insert(names)),
            Err(error) => {
                let graph = if ns.is_empty() { String::new() } else { format!(", graph `{ns}`") };
                let part = match what.0 {
                    Kind::Checkpoint => "",
                    Kind::Tasks => "what became of tasks at ",
                    Kind::Outside => "what came from outside to ",
                };
                let place = format!("{part}checkpoint `{}` of thread `{thread}`{graph}", what.1);
                self.problems.push(to_store_error(place, error));
            }
        }
    }
}

/// Returns the hash of the names that a row leaves out.
fn names_of(ns: &str, kind: Kind, id: CheckpointId, bytes: &[u8]) -> Result<Hash, EngineError> {
    let expected = "the bytes that fit its checksum";
    let bytes = row::open(kind, ns, id, bytes).ok_or(EngineError::Damaged { at: 0, expected })?;
    let (names, mut read) = row::open_as(kind, bytes)?;
    if kind == Kind::Checkpoint {
        row::read_metadata(read.bytes()?)?;
    }
    Ok(names.key())
}

fn to_store_error(location: String, error: EngineError) -> StoreError {
    match error {
        EngineError::NewerRecord { found, known } => {
            StoreError::Newer { location, found: found.into(), known: known.into() }
        }
        other => StoreError::Corrupt { location, what: other.to_string() },
    }
}
