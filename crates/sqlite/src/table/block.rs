//! Locations of checkpoint rows: numbers composed of a block number and the end of the id.
//!
//! Every query names organisation, thread and graph and finds rows only through their blocks.

use crate::error::Done;
use crate::row::{self, At};
use crate::table::checkpoints::Key;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};
use weftwork_store::CheckpointNamespace;
use weftwork_types::canonical;
use weftwork_types::{CheckpointId, OrgId, ThreadId};

/// Number of id bits that number the rows within a block.
const BITS: u32 = 24;

/// Highest row number within a block.
const LAST: i64 = (1 << BITS) - 1;

/// The start of an id, which identifies a block of its graph.
pub(crate) type Prefix = [u8; 13];

/// An id as stored: the prefix of its block, and its number in the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) prefix: Prefix,
    pub(crate) low: i64,
}

impl Spot {
    pub(crate) fn of(id: CheckpointId) -> Self {
        let [prefix @ .., a, b, c] = id.0.to_be_bytes();
        Self { prefix, low: i64::from(u32::from_be_bytes([0, a, b, c])) }
    }

    /// Returns the id of the row at a place of the block with this prefix.
    pub(crate) fn id(prefix: Prefix, place: i64) -> CheckpointId {
        let mut bytes = [0; 16];
        let low = (place & LAST).to_be_bytes();
        let parts = prefix.iter().chain(low.iter().skip(5));
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
        CheckpointId(u128::from_be_bytes(bytes))
    }
}

/// A reference to another id: by distance if that fits into an `i64`, otherwise by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Other {
    None,
    Before(i64),
    Far(u128),
}

impl Other {
    pub(crate) fn new(id: CheckpointId, other: Option<CheckpointId>) -> Self {
        let Some(other) = other else { return Self::None };
        i64::try_from(id.0.wrapping_sub(other.0)).map_or(Self::Far(other.0), Self::Before)
    }

    pub(crate) fn to(self, id: CheckpointId) -> Option<CheckpointId> {
        match self {
            Self::None => None,
            Self::Before(distance) => Some(CheckpointId(id.0.wrapping_sub(distance as u128))),
            Self::Far(other) => Some(CheckpointId(other)),
        }
    }
}

impl ToSql for Other {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::None => ToSqlOutput::from(rusqlite::types::Null),
            Self::Before(distance) => ToSqlOutput::from(*distance),
            Self::Far(other) => ToSqlOutput::from(other.to_be_bytes().to_vec()),
        })
    }
}

impl FromSql for Other {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Null => Ok(Self::None),
            ValueRef::Integer(distance) => Ok(Self::Before(distance)),
            ValueRef::Blob(_) => {
                <[u8; 16]>::column_result(value).map(|bytes| Self::Far(u128::from_be_bytes(bytes)))
            }
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// Computes the seal of a block, a checksum over all its columns. It detects a changed column,
/// which would connect the block to rows of another thread, or another thread to its rows.
fn seal(org: &str, thread: &str, ns: &str, prefix: &Prefix, number: i64) -> i64 {
    let mut bytes = Vec::with_capacity(64 + org.len() + thread.len() + ns.len());
    for text in [org, thread, ns] {
        bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(prefix);
    bytes.extend_from_slice(&number.to_be_bytes());
    let hash = canonical::hash_bytes(&bytes).0;
    i64::from_be_bytes(std::array::from_fn(|at| hash[at]))
}

/// A check of the seals of blocks that lead to rows of a graph. Consecutive rows of the same block
/// are checked once.
pub(crate) struct Guard<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) at: &'a CheckpointNamespace,
    passed: Option<(Prefix, i64)>,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(org: &'a OrgId, at: &'a CheckpointNamespace) -> Self {
        Self { org, at, passed: None }
    }

    /// Checks the seal of the block through which a row was found.
    pub(crate) fn check(&mut self, row: &Row<'_>) -> Done<()> {
        let key = Key { at: self.at, id: None };
        let at = At::new("blocks", &key);
        let prefix = at.plain(row, "prefix")?;
        let number = at.plain(row, "number")?;
        if self.passed == Some((prefix, number)) {
            return Ok(());
        }
        let CheckpointNamespace { thread, ns } = self.at;
        let found: i64 = at.plain(row, "seal")?;
        if found != seal(self.org.as_str(), thread.as_str(), ns, &prefix, number) {
            let what = "what leads to its checkpoints does not fit its seal: it was changed, or is \
                        that of another thread, graph or organisation";
            return Err(at.corrupt(what).into());
        }
        self.passed = Some((prefix, number));
        Ok(())
    }
}

/// Validates a row of a block of any graph.
pub(crate) fn check(row: &Row<'_>) -> Done<()> {
    let at = At::new("blocks", &"the thread of a row");
    let org = at.id(row, "org")?;
    let thread = at.id(row, "thread")?;
    Guard::new(&org, &CheckpointNamespace { thread, ns: at.plain(row, "ns")? }).check(row)
}

/// The graph of a thread whose checkpoints a block has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GraphKey<'a> {
    pub(crate) thread: &'a ThreadId,
    pub(crate) ns: &'a str,
}

fn insert(
    conn: &Connection,
    org: &OrgId,
    graph: GraphKey<'_>,
    prefix: Prefix,
    number: i64,
) -> Done<()> {
    let org = org.as_str();
    let thread = graph.thread.as_str();
    let ns = graph.ns;
    let sql = "INSERT INTO blocks (org, thread, ns, prefix, number, seal)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (org, thread, ns, prefix) DO NOTHING";
    let seal = seal(org, thread, ns, &prefix, number);
    row::execute(conn, sql, params![org, thread, ns, prefix, number, seal])?;
    Ok(())
}

/// Creates the block of an id of a graph, if it does not exist. The caller has to insert a row into
/// it before another block is created, because block numbers are derived from the existing rows.
pub(crate) fn make(
    conn: &Connection,
    org: &OrgId,
    graph: GraphKey<'_>,
    prefix: Prefix,
) -> Done<()> {
    let sql = "SELECT coalesce((SELECT max(place) FROM checkpoint_rows) >> 24, 0) + 1";
    let number = row::one(conn, sql, [], |row| Ok(row.get(0)?))?;
    insert(conn, org, graph, prefix, number.unwrap_or(1))
}

/// A block of a thread.
struct Block {
    ns: String,
    prefix: Prefix,
    /// First place of the block.
    first: i64,
}

/// Returns the blocks of a graph, or of all graphs of a thread, without checking their seals.
fn all(conn: &Connection, org: &OrgId, thread: &ThreadId, ns: Option<&str>) -> Done<Vec<Block>> {
    let sql = "SELECT ns, prefix, number FROM blocks
               WHERE org = ?1 AND thread = ?2 AND (?3 IS NULL OR ns = ?3)";
    let name = format!("thread `{thread}`");
    let at = At::new("blocks", &name);
    row::all(conn, sql, params![org.as_str(), thread.as_str(), ns], |row| {
        let number: i64 = at.plain(row, "number")?;
        let ns = at.plain(row, "ns")?;
        let prefix = at.plain(row, "prefix")?;
        Ok(Block { ns, prefix, first: number << BITS })
    })
}

/// Deletes the checkpoints of a graph, or of all graphs of a thread.
pub(crate) fn clear(
    conn: &Connection,
    org: &OrgId,
    thread: &ThreadId,
    ns: Option<&str>,
) -> Done<()> {
    for Block { first, .. } in all(conn, org, thread, ns)? {
        let sql = "DELETE FROM checkpoint_rows WHERE place BETWEEN ?1 AND ?2";
        row::execute(conn, sql, [first, first + LAST])?;
    }
    let sql = "DELETE FROM blocks WHERE org = ?1 AND thread = ?2 AND (?3 IS NULL OR ns = ?3)";
    row::execute(conn, sql, params![org.as_str(), thread.as_str(), ns])?;
    Ok(())
}

/// Copies the checkpoints of a thread to a thread without checkpoints.
pub(crate) fn copy(conn: &Connection, org: &OrgId, from: &ThreadId, to: &ThreadId) -> Done<()> {
    for Block { ns, prefix, first } in all(conn, org, from, None)? {
        let of = CheckpointNamespace { thread: from.clone(), ns: ns.clone() };
        let sql = "SELECT prefix, number, seal FROM blocks
                   WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix = ?4";
        let key = params![org.as_str(), from.as_str(), ns, prefix];
        row::one(conn, sql, key, |row| Guard::new(org, &of).check(row))?;
        make(conn, org, GraphKey { thread: to, ns: &ns }, prefix)?;
        let sql = "INSERT INTO checkpoint_rows (place, of, tasks, body)
                   SELECT (blocks.number << 24) + place - ?5, of, tasks, body
                   FROM blocks CROSS JOIN checkpoint_rows ON place BETWEEN ?5 AND ?5 + 0xffffff
                   WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix = ?4";
        let copied =
            row::execute(conn, sql, params![org.as_str(), to.as_str(), ns, prefix, first])?;
        // A block without rows would have its number assigned again.
        if copied == 0 {
            let name = format!("thread `{from}`");
            return Err(At::new("blocks", &name).corrupt("a block has no checkpoints").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back() {
        for id in [0, 1, 0x0102_0304, u128::from(u64::MAX), u128::MAX - 1, u128::MAX] {
            let Spot { prefix, low } = Spot::of(CheckpointId(id));
            assert_eq!(Spot::id(prefix, (7 << BITS) | low), CheckpointId(id));
        }
    }

    #[test]
    fn other_ids_come_back_near_and_far() {
        let id = CheckpointId(1 << 100);
        for other in [0, 1, (1 << 100) - 1, 1 << 100, (1 << 100) + 1, (1 << 100) - (1 << 63)] {
            let other = Some(CheckpointId(other));
            assert_eq!(Other::new(id, other).to(id), other);
        }
        assert_eq!(Other::new(id, None).to(id), None);
    }
}
