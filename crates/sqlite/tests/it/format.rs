//! Tests that a file of the oldest format is read, and has the tables that a new file has.

use crate::support::block_on;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{ItemQuery, ItemTable, Prefix, Store};
use weftwork_store_conformance::{dump, dump_checkpoints};
use weftwork_types::{OrgId, Principal, ThreadId, Timestamp};

/// A file of the oldest format that is read, with rows in every table. It is never changed: a new
/// format adds a file.
pub(crate) const OLDEST: &str = include_str!("formats/16.sql");

/// Creates a closed file from the dump of a format; without a dump, no file.
pub(crate) fn made(folder: &TempDir, sql: Option<&str>) -> PathBuf {
    let path = folder.path().join("weft.db");
    if let Some(sql) = sql {
        let conn = Connection::open(&path).expect("opens");
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").expect("sets");
        conn.execute_batch(sql).expect("reads the dump");
    }
    path
}

/// Reads the whole content of the store.
pub(crate) fn contents(store: &SqliteStore) -> Vec<String> {
    let other = Principal::new(OrgId::new("other").expect("an id"), "x");
    let mut lines = block_on(dump(store, &[Principal::local(), other.clone()])).expect("reads");
    let loose = ThreadId::new("loose").expect("an id");
    lines.extend(block_on(dump_checkpoints(store, &other, &loose)).expect("reads"));
    for who in [Principal::local(), other] {
        let within = Prefix::all();
        let query = ItemQuery::default();
        let items = store.search_items(&who, &within, &query, Timestamp(0));
        lines.extend(block_on(items).expect("searches").iter().map(|item| format!("{item:?}")));
    }
    lines
}

/// Reads all tables and indices, and the format numbers.
fn schema(path: &Path) -> Vec<String> {
    let conn = Connection::open(path).expect("opens");
    let sql = "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema
               UNION ALL SELECT 'format ' || value FROM meta
               UNION ALL SELECT 'version ' || user_version FROM pragma_user_version
               UNION ALL SELECT 'id ' || application_id FROM pragma_application_id
               UNION ALL SELECT 'whole ' || integrity_check FROM pragma_integrity_check
               UNION ALL SELECT 'vacuum ' || auto_vacuum FROM pragma_auto_vacuum
               ORDER BY 1";
    let mut statement = conn.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get(0)).expect("reads");
    rows.collect::<Result<_, _>>().expect("reads")
}

#[test]
fn a_file_of_the_oldest_format_is_read_and_has_the_tables_of_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = made(&folder, Some(OLDEST));
    let store = SqliteStore::open(&path, &Options::default()).expect("opens");
    assert!(store.location().ends_with("weft.db"));
    // One body is large enough for a page of its own.
    let text = contents(&store).join("\n").replace(&", 7".repeat(1_499), " and so on");
    insta::assert_snapshot!("format_16", text);
    drop(store);

    let other = tempfile::tempdir().expect("a folder");
    let new = made(&other, None);
    drop(SqliteStore::open(&new, &Options::default()).expect("opens"));
    assert_eq!(schema(&path), schema(&new));
}
