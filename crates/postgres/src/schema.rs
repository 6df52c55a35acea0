//! Formats of the tables, and migrations between them.

use crate::conn::{Ask, Conn, ask};
use crate::error::{Done, StoreLocation};
use crate::row::{At, int};
use weftwork_store::StoreError;
use weftwork_types::canonical;

/// Formats that a program reads. The table `meta` has the number of a format, plus one, as `applied`.
#[derive(Debug)]
pub(crate) struct Formats {
    /// The oldest format that is read. Schemas of older formats were written by development builds
    /// only, and are refused.
    oldest: usize,
    /// Statements that create the tables of the oldest format.
    created: &'static str,
    /// Statements that lead from each format to the next, from the oldest one.
    migrations: &'static [&'static str],
}

/// The formats of this program.
pub(crate) const FORMATS: Formats = Formats {
    oldest: 11,
    created: include_str!("schema.sql"),
    migrations: &[include_str!("schema/12.sql")],
};

/// Returns `true` for a schema name that needs no quotes and is not reserved by Postgres.
pub(crate) fn is_name(schema: &str) -> bool {
    let mut bytes = schema.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && schema.len() <= 63
        && !schema.starts_with("pg_")
}

impl Formats {
    /// The newest format.
    const fn newest(&self) -> usize {
        self.oldest + self.migrations.len()
    }

    /// Brings the tables to the newest format. Concurrent migrations wait for each other. Each step
    /// is one transaction, which also writes the number of its format: if the process dies, the next
    /// one continues with the step that is missing.
    pub(crate) async fn migrate(
        &self,
        conn: &mut Conn,
        schema: &str,
        location: &StoreLocation,
    ) -> Done<()> {
        loop {
            if self.find(conn, schema, location).await? == Some(self.newest()) {
                return Ok(());
            }
            conn.begin(vec![lock(schema)]).await?;
            // Another process may have migrated while this one waited for the lock.
            let found = self.find(conn, schema, location).await?;
            let Some(step) = self.step_after(found) else {
                conn.commit(Vec::new()).await?;
                return Ok(());
            };
            if found.is_none() {
                conn.script(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
            }
            conn.script(step).await?;
            let reached = found.map_or(self.oldest, |format| format + 1);
            let counted = "INSERT INTO meta (key, value) VALUES ('applied', $1)
                           ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            conn.commit(vec![ask!(counted, int(reached + 1))]).await?;
        }
    }

    fn step_after(&self, found: Option<usize>) -> Option<&'static str> {
        match found {
            None => Some(self.created),
            Some(format) => self.migrations.get(format - self.oldest).copied(),
        }
    }

    /// Returns the format of the tables; `None` if there are none. Refuses a format that this program
    /// does not read, and tables of another program.
    async fn find(
        &self,
        conn: &mut Conn,
        schema: &str,
        location: &StoreLocation,
    ) -> Done<Option<usize>> {
        let Some(applied) = read_applied(conn, schema, location).await? else { return Ok(None) };
        let store = format!("store `{}`", location.name);
        let number = |format: usize| u32::try_from(format).unwrap_or(u32::MAX);
        match applied.checked_sub(1) {
            Some(format) if format < self.oldest => Err(StoreError::Older {
                location: store,
                found: number(format),
                oldest: number(self.oldest),
            }
            .into()),
            Some(format) if format <= self.newest() => Ok(Some(format)),
            Some(format) => Err(StoreError::Newer {
                location: store,
                found: number(format),
                known: number(self.newest()),
            }
            .into()),
            None => Err(damaged(schema, "it is 0, expected 1 or more").into()),
        }
    }
}

fn damaged(schema: &str, what: impl Into<String>) -> StoreError {
    At::new("meta", &format!("schema `{schema}`")).corrupt(what)
}

/// Locks the schema for migrations: an advisory lock, with a number derived from the schema's name.
fn lock(schema: &str) -> Ask {
    let hash = canonical::hash_bytes(format!("weftwork schema {schema}").as_bytes()).0;
    let number = i64::from_be_bytes(std::array::from_fn(|i| hash[i]));
    ask!("SELECT pg_advisory_xact_lock($1)", number)
}

/// Returns the count of formats that were applied to the schema; `None` if it has no tables.
async fn read_applied(
    conn: &mut Conn,
    schema: &str,
    location: &StoreLocation,
) -> Done<Option<usize>> {
    let sql = "SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = $1 AND c.relkind = 'r'";
    let tables = conn.rows(ask!(sql, schema.to_owned())).await?;
    if tables.is_empty() {
        return Ok(None);
    }
    let name = format!("schema `{schema}`");
    let at = At::new("meta", &name);
    let mut names = Vec::new();
    for row in &tables {
        names.push(at.plain::<&str>(row, "relname")?);
    }
    if !names.contains(&"meta") || !names.contains(&"threads") {
        let reason =
            format!("schema `{schema}` has tables of another program; choose another schema");
        return Err(location.unavailable(reason).into());
    }
    let rows = conn.rows(ask!("SELECT value FROM meta WHERE key = 'applied'")).await?;
    let found: i64 = match rows.first() {
        Some(row) => at.plain(row, "value")?,
        None => return Err(damaged(schema, "the count of applied formats is missing").into()),
    };
    let applied = usize::try_from(found);
    applied
        .map(Some)
        .map_err(|_| damaged(schema, format!("it is {found}, expected 1 or more")).into())
}

#[cfg(test)]
mod tests;
