//! Where the rows of checkpoints are: a number made of a block of ids and of the end of an id.
//!
//! Everything asked for names organisation, thread and graph, which lead to the blocks; no row is
//! reached in another way.

use crate::error::Done;
use crate::row::{self, At};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};
use weftwork_types::{CheckpointId, OrgId, ThreadId};

/// How many bits of an id number the rows of a block.
const BITS: u32 = 24;

/// The rows of a block: those from the first to the last of these, after its number.
const LAST: i64 = (1 << BITS) - 1;

/// The beginning of an id, which names a block of its graph.
pub(crate) type Prefix = [u8; 13];

/// An id as the table has it.
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

    /// The id of the row at a place of the block with this prefix.
    pub(crate) fn id(prefix: Prefix, place: i64) -> CheckpointId {
        let mut bytes = [0; 16];
        let low = (place & LAST).to_be_bytes();
        let parts = prefix.iter().chain(low.iter().skip(5));
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
        CheckpointId(u128::from_be_bytes(bytes))
    }
}

/// How far an id is from another, when that is known; else the other.
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

/// Makes the block of an id of a graph, unless there is one. A row is to be put into it before
/// another block is made: the number of that follows those of all rows.
pub(crate) fn make(
    conn: &Connection,
    org: &OrgId,
    (thread, ns): (&ThreadId, &str),
    prefix: Prefix,
) -> Done<()> {
    let sql = "INSERT INTO blocks (org, thread, ns, prefix, number)
               VALUES (?1, ?2, ?3, ?4,
                   coalesce((SELECT max(place) FROM checkpoint_rows) >> 24, 0) + 1)
               ON CONFLICT (org, thread, ns, prefix) DO NOTHING";
    row::execute(conn, sql, params![org.as_str(), thread.as_str(), ns, prefix])?;
    Ok(())
}

/// A block of a thread.
struct Block {
    ns: String,
    prefix: Prefix,
    /// Its first place.
    first: i64,
}

/// The blocks of a graph, or of all graphs of a thread.
fn all(conn: &Connection, org: &OrgId, thread: &ThreadId, ns: Option<&str>) -> Done<Vec<Block>> {
    let sql = "SELECT ns, prefix, number FROM blocks
               WHERE org = ?1 AND thread = ?2 AND (?3 IS NULL OR ns = ?3)";
    let name = format!("thread `{thread}`");
    let at = At::new("blocks", &name);
    row::all(conn, sql, params![org.as_str(), thread.as_str(), ns], |row| {
        let number: i64 = at.plain(row, "number")?;
        let (ns, prefix) = (at.plain(row, "ns")?, at.plain(row, "prefix")?);
        Ok(Block { ns, prefix, first: number << BITS })
    })
}

/// Forgets the checkpoints of a graph, or of all graphs of a thread.
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

/// Copies the checkpoints of a thread to one that has none.
pub(crate) fn copy(conn: &Connection, org: &OrgId, from: &ThreadId, to: &ThreadId) -> Done<()> {
    for Block { ns, prefix, first } in all(conn, org, from, None)? {
        make(conn, org, (to, &ns), prefix)?;
        let sql = "INSERT INTO checkpoint_rows (place, of, tasks, body)
                   SELECT (blocks.number << 24) + place - ?5, of, tasks, body
                   FROM blocks CROSS JOIN checkpoint_rows ON place BETWEEN ?5 AND ?5 + 0xffffff
                   WHERE org = ?1 AND thread = ?2 AND ns = ?3 AND prefix = ?4";
        let copied =
            row::execute(conn, sql, params![org.as_str(), to.as_str(), ns, prefix, first])?;
        // The next block would get the number of one without rows.
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
