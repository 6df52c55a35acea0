//! Tests that the file itself refuses rows of the bill that must not be, and that facts are moved by a
//! later process.

use crate::support::{block_on, open};
use rusqlite::Connection;
use std::sync::Arc;
use weftwork_sqlite::Options;
use weftwork_store::{Store, WriteBill as _};
use weftwork_store_conformance::{bill_of_a_run, facts_of_a_run};

#[test]
fn the_file_refuses_rows_that_the_bill_must_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, &Options::default());
    block_on(facts_of_a_run(&store));
    assert_eq!(block_on(store.move_usage(9)), Ok(2));
    let raw = Connection::open(folder.path().join("weft.db")).expect("opens");
    let refused = |sql: &str| raw.execute(sql, []).expect_err(sql).to_string();
    let again = refused("INSERT INTO model_calls SELECT * FROM model_calls LIMIT 1");
    assert!(again.contains("UNIQUE constraint failed: model_calls.org"), "{again}");
    for column in ["run", "graph", "graph_version"] {
        let error = refused(&format!("UPDATE model_calls SET {column} = NULL"));
        assert!(error.contains("CHECK constraint failed"), "{column}: {error}");
    }
    let again = refused("INSERT INTO receipts SELECT * FROM receipts LIMIT 1");
    assert!(again.contains("UNIQUE constraint failed: receipts.org"), "{again}");
    for column in ["source", "subject", "attempt", "unit", "account", "key", "request"] {
        let error = refused(&format!("UPDATE receipts SET {column} = NULL"));
        assert!(error.contains("NOT NULL constraint failed"), "{column}: {error}");
    }
    // What is refused is not what every statement gets.
    let other = "UPDATE model_calls SET run = NULL, graph = NULL, graph_version = NULL";
    assert_eq!(raw.execute(other, []), Ok(2));
}

#[test]
fn a_later_process_moves_what_a_process_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, &Options::default());
    block_on(facts_of_a_run(&store));
    drop(store);
    let store: Arc<dyn Store> = Arc::new(open(&folder, &Options::default()));
    block_on(bill_of_a_run(&*store, 0));
    assert_eq!(block_on(store.move_usage(9)), Ok(2));
    block_on(bill_of_a_run(&*store, 2));
}
