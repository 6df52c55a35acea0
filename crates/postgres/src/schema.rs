//! Formats of the tables, and migrations between them.

use crate::conn::{Ask, Conn, ask};
use crate::error::{Done, Place};
use crate::row::{At, int};
use weftwork_store::StoreError;
use weftwork_types::canonical;

/// Migrations, each to the format of its index, in one transaction. `meta` has the number of
/// applied migrations, so that migration continues there after the death of a process.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("wakes.sql"),
    include_str!("calls.sql"),
    include_str!("pieces.sql"),
    include_str!("seals.sql"),
    include_str!("items.sql"),
    include_str!("queued.sql"),
    include_str!("within.sql"),
    include_str!("metadata.sql"),
    include_str!("effects.sql"),
    include_str!("ends.sql"),
    include_str!("leases.sql"),
];

/// The newest format that this program supports.
pub(crate) const FORMAT: usize = MIGRATIONS.len() - 1;

/// Returns `true` for a schema name that needs no quotes and is not reserved by Postgres.
pub(crate) fn is_name(schema: &str) -> bool {
    let mut bytes = schema.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && schema.len() <= 63
        && !schema.starts_with("pg_")
}

/// Migrates the tables to the newest format. Concurrent migrations wait for each other.
pub(crate) async fn migrate(conn: &mut Conn, schema: &str, place: &Place) -> Done<()> {
    loop {
        if applied(conn, schema, place).await? == Some(MIGRATIONS.len()) {
            return Ok(());
        }
        conn.begin(vec![lock(schema)]).await?;
        // Another process may have migrated while this one waited for the lock.
        let found = applied(conn, schema, place).await?;
        let Some(sql) = MIGRATIONS.get(found.unwrap_or(0)) else {
            conn.commit(Vec::new()).await?;
            return Ok(());
        };
        if found.is_none() {
            conn.script(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
        }
        conn.script(sql).await?;
        let counted = "INSERT INTO meta (key, value) VALUES ('applied', $1)
                       ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        conn.commit(vec![ask!(counted, int(found.unwrap_or(0) + 1))]).await?;
    }
}

/// Locks the schema for migrations: an advisory lock, with a number derived from the schema's name.
fn lock(schema: &str) -> Ask {
    let hash = canonical::hash_bytes(format!("weftwork schema {schema}").as_bytes()).0;
    let number = i64::from_be_bytes(std::array::from_fn(|i| hash[i]));
    ask!("SELECT pg_advisory_xact_lock($1)", number)
}

/// Returns the number of applied migrations; `None` if there are no tables.
async fn applied(conn: &mut Conn, schema: &str, place: &Place) -> Done<Option<usize>> {
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
        return Err(place.unavailable(reason).into());
    }
    let rows = conn.rows(ask!("SELECT value FROM meta WHERE key = 'applied'")).await?;
    let found: i64 = match rows.first() {
        Some(row) => at.plain(row, "value")?,
        None => return Err(at.corrupt("the count of applied formats is missing").into()),
    };
    match usize::try_from(found) {
        Ok(applied) if (1..=MIGRATIONS.len()).contains(&applied) => Ok(Some(applied)),
        Ok(0) | Err(_) => Err(at.corrupt(format!("it is {found}, expected 1 or more")).into()),
        Ok(_) => Err(StoreError::Newer {
            place: format!("store `{}`", place.name),
            found: u32::try_from(found - 1).unwrap_or(u32::MAX),
            known: u32::try_from(FORMAT).unwrap_or(u32::MAX),
        }
        .into()),
    }
}
