//! Tests that errors of opening a store state their cause, and contain no secrets.

use crate::support::{Schema, address, begin, block_on, new_run, script, thread};
use serde_json::json;
use std::collections::BTreeMap;
use weftwork_postgres::PostgresStore;
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, Commit, NewCheckpoint, ReadCheckpoints, RunRow, Store,
    StoreError, ThreadQuery, WriteCheckpoints,
};
use weftwork_store::{ReadRuns, ReadThreads, WriteRuns, WriteThreads};
use weftwork_types::{CheckpointId, OrgId, Principal, Timestamp};

fn refused(address: &str, schema: &Schema) -> StoreError {
    PostgresStore::open(address, &schema.options()).expect_err("does not open")
}

#[test]
fn many_may_open_at_once() {
    let schema = Schema::new("many_open");
    let stores = std::thread::scope(|scope| {
        let open = |_| scope.spawn(|| schema.open());
        let opening: Vec<_> = (0..12).map(open).collect();
        opening.into_iter().map(|open| open.join().expect("opens")).collect::<Vec<_>>()
    });
    begin(&stores[0], "t", "r");
    for store in stores {
        let rows = block_on(store.threads(&Principal::local(), 0, 9)).expect("reads");
        assert_eq!(rows.len(), 1);
    }
}

#[test]
fn a_newer_or_older_format_is_refused() {
    let schema = Schema::new("newer");
    drop(schema.open());
    schema.script("UPDATE meta SET value = 14");
    let error = refused(&address(), &schema);
    assert!(matches!(error, StoreError::Newer { found: 13, known: 12, .. }), "{error}");
    schema.script("UPDATE meta SET value = 11");
    let error = refused(&address(), &schema);
    assert!(matches!(error, StoreError::Older { found: 10, oldest: 11, .. }), "{error}");
    schema.script("UPDATE meta SET value = 0");
    let error = refused(&address(), &schema);
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn a_schema_of_another_program_is_left_alone() {
    let schema = Schema::new("foreign");
    script(
        &address(),
        &format!("CREATE SCHEMA {0}; CREATE TABLE {0}.threads (id int)", schema.name),
    );
    let error = refused(&address(), &schema);
    let StoreError::Unavailable { reason, retriable: false, .. } = error else {
        panic!("expected it to be unusable, found {error}");
    };
    assert!(reason.contains("another program"), "{reason}");
    schema.script("INSERT INTO threads VALUES (1)");
    let mut options = schema.options();
    for name in ["Weft", "a-b", "x; DROP SCHEMA public", "", "pg_weft", "1a", &"x".repeat(64)] {
        options.schema = name.to_owned();
        let error = PostgresStore::open(&address(), &options).expect_err("is no name");
        assert!(matches!(error, StoreError::Unavailable { retriable: false, .. }), "{error}");
    }
}

#[test]
fn no_password_is_told() {
    let schema = Schema::new("secrets");
    let all = [
        "postgres://weft:s3cret@127.0.0.1:1/db?sslmode=require",
        "postgres://weft:s3cret@127.0.0.1:1/db?sslmode=nonsense",
        "postgres://weft:s3cret@127.0.0.1:port/db",
        "host=127.0.0.1 port=1 user=weft password=s3cret dbname=db",
        "user=weft password=s3cret",
        "s3cret",
    ];
    for address in all {
        let error = refused(address, &schema);
        let told = format!("{error} {error:?}");
        assert!(!told.contains("s3cret"), "{told}");
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    }
    assert!(refused(all[3], &schema).is_retriable(), "nobody listens there yet");

    let password = address().split(['@', ':']).nth(2).expect("a password").to_owned();
    let wrong = address().replace(&password, "s3cret");
    let error = refused(&wrong, &schema);
    assert!(!error.is_retriable() && !error.to_string().contains("s3cret"), "{error}");
    let store = schema.open();
    assert!(store.location().starts_with("postgres://weft@127.0.0.1:"), "{}", store.location());
    assert!(!format!("{store:?}").contains(&password));
}

#[test]
fn what_postgres_cannot_hold_is_refused_and_the_store_goes_on() {
    let schema = Schema::new("nul");
    let who = Principal::local();
    let store = schema.open();
    let mut run = new_run("t", "r");
    run.graph = "a\0b".to_owned();
    let made = block_on(store.create_run(&who, run, BTreeMap::new()));
    assert!(matches!(made, Err(StoreError::Conflict { .. })), "{made:?}");
    begin(&store, "t", "r");
    assert_eq!(block_on(store.runs(&who, &thread("t"))).map(|runs| runs.len()), Ok(1));
}

#[test]
fn a_changed_row_is_found_out() {
    let schema = Schema::new("changed");
    let who = Principal::local();
    let store = schema.open();
    let claim = begin(&store, "t", "r");
    let new = NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(1),
        of: None,
        tasks: Vec::new(),
        body: b"body".to_vec(),
        blobs: Vec::new(),
    };
    let batch = CheckpointBatch { checkpoints: vec![new], ..CheckpointBatch::default() };
    block_on(store.commit(&who, &claim, Commit { batch: batch.into(), ..Commit::default() }))
        .expect("commits");
    let root = CheckpointNamespace { thread: thread("t"), ns: String::new() };
    let page = || block_on(store.page(&who, &root, None, 9));
    assert_eq!(page().map(|page| page.len()), Ok(1));
    schema.script("UPDATE checkpoints SET id = 'x'");
    let error = page().expect_err("is damaged");
    let StoreError::Corrupt { location, .. } = &error else { panic!("{error}") };
    assert!(location.starts_with("table `checkpoints`, thread `t`"), "{location}");
    schema.script("UPDATE threads SET head = 'x'");
    let error = block_on(store.thread(&who, &thread("t"))).expect_err("no id");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    schema.script("UPDATE runs SET status = 'lost'");
    let error = block_on(store.runs(&who, &thread("t"))).expect_err("no such status");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

/// Two threads with a checkpoint each, in a graph and in a subgraph.
fn sealed(schema: &Schema) -> PostgresStore {
    let store = schema.open();
    let who = Principal::local();
    for (id, name) in (1..).zip(["t", "later"]) {
        let claim = begin(&store, name, name);
        let new = |ns: &str, id| NewCheckpoint {
            ns: ns.to_owned(),
            id: CheckpointId(id),
            of: None,
            tasks: Vec::new(),
            body: name.as_bytes().to_vec(),
            blobs: Vec::new(),
        };
        // A single checkpoint is stored by its own function.
        for checkpoints in [vec![new("", id)], vec![new("inner", id), new("inner", id + 9)]] {
            let batch = CheckpointBatch { checkpoints, ..CheckpointBatch::default() };
            let commit = Commit { batch: batch.into(), ..Commit::default() };
            block_on(store.commit(&who, &claim, commit)).expect("commits");
        }
    }
    store
}

fn newest(store: &PostgresStore, name: &str, ns: &str) -> Result<Option<u128>, StoreError> {
    newest_of(store, &Principal::local(), name, ns)
}

fn newest_of(
    store: &PostgresStore,
    who: &Principal,
    name: &str,
    ns: &str,
) -> Result<Option<u128>, StoreError> {
    let at = CheckpointNamespace { thread: thread(name), ns: ns.to_owned() };
    let found = block_on(store.checkpoint(who, &at, None));
    found.map(|found| found.map(|found| found.id.0))
}

#[test]
fn rows_under_another_name_are_found_out() {
    let org = OrgId::new("other").expect("an id");
    let ours = Principal::local();
    let other = Principal::new(org, "x");
    for (who, sql) in [
        (&ours, "UPDATE checkpoints SET thread = 't' WHERE thread = 'later'"),
        (
            &ours,
            "DELETE FROM checkpoints WHERE thread = 't';
             UPDATE checkpoints SET thread = 't' WHERE thread = 'later'",
        ),
        (&ours, "UPDATE checkpoints SET ns = '' WHERE thread = 't' AND get_byte(id, 15) = 10"),
        (&other, "UPDATE checkpoints SET org = 'other' WHERE thread = 't'"),
    ] {
        let schema = Schema::new("moved");
        let store = sealed(&schema);
        assert_eq!(newest(&store, "t", ""), Ok(Some(1)));
        assert_eq!(newest(&store, "t", "inner"), Ok(Some(10)));
        schema.script(sql);
        let error = newest_of(&store, who, "t", "").expect_err(sql);
        let StoreError::Corrupt { location, what } = &error else { panic!("{sql}: {error}") };
        assert!(location.starts_with("table `checkpoints`, thread `t`"), "{location}");
        assert!(what.contains("does not fit its seal"), "{what}");
        // A copy does not make the seals valid.
        block_on(store.copy_checkpoints(who, &thread("t"), &thread("c"))).expect("copies");
        let copied = newest_of(&store, who, "c", "").expect_err(sql);
        assert!(matches!(copied, StoreError::Corrupt { .. }), "{copied}");
    }
}

#[test]
fn a_missing_checkpoint_is_told_before_an_older_one_is_taken_for_it() {
    for sql in
        ["DELETE FROM checkpoints WHERE id = (SELECT head FROM threads)", "DELETE FROM checkpoints"]
    {
        let schema = Schema::new("missing");
        let store = schema.open();
        let who = Principal::local();
        let claim = begin(&store, "t", "r");
        for number in 1..=2 {
            let new = NewCheckpoint {
                ns: String::new(),
                id: CheckpointId(number),
                of: None,
                tasks: Vec::new(),
                body: vec![1],
                blobs: Vec::new(),
            };
            let batch = CheckpointBatch { checkpoints: vec![new], ..CheckpointBatch::default() };
            let commit = Commit { batch: batch.into(), ..Commit::default() };
            block_on(store.commit(&who, &claim, commit)).expect("commits");
        }
        let at = CheckpointNamespace { thread: thread("t"), ns: String::new() };
        let newest = || block_on(store.checkpoint(&who, &at, None));
        assert_eq!(newest().expect("reads").map(|found| found.id), Some(CheckpointId(2)));
        schema.script(sql);
        let error = newest().expect_err("must not be read");
        assert_eq!(
            error.to_string(),
            "store is damaged at table `checkpoints`, thread `t`: its newest checkpoint \
             `00000000000000000000000000000002` is missing; restore a backup, of a SQLite store with `weft store restore FILE`"
        );
    }
}

#[test]
fn a_damaged_thread_is_listed_with_its_error_among_the_others_and_can_be_deleted() {
    let who = Principal::local();
    for (what, damage) in [("status", "status = 'dozing'"), ("metadata", "metadata = '[1]'")] {
        let schema = Schema::new("damaged_thread");
        let store = schema.open();
        begin(&store, "t", "r");
        begin(&store, "other", "s");
        let name = &schema.name;
        schema.script(&format!(
            "UPDATE {name}.threads SET {damage} WHERE id = 't';
             UPDATE {name}.runs SET status = 'failed' WHERE thread = 't'"
        ));
        for metadata in [json!({}), json!({"a": 1})] {
            let metadata = metadata.as_object().cloned().unwrap_or_default();
            let is_any = metadata.is_empty();
            let query = ThreadQuery { limit: 9, metadata, ..ThreadQuery::default() };
            let page = block_on(store.search_threads(&who, query)).expect(damage);
            assert_eq!(page.threads.len(), if is_any { 2 } else { 0 }, "{damage}");
            for found in page.threads {
                let fault = found.damage.map(|fault| fault.message).unwrap_or_default();
                let is_named = fault.contains("thread `t`") && fault.contains(what);
                assert_eq!(is_named, found.row.id.as_str() == "t", "{damage}: {fault}");
            }
        }
        let read = block_on(store.thread(&who, &thread("t")));
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        block_on(store.delete_thread(&who, &thread("t"))).expect(damage);
    }
}

#[test]
fn a_damaged_run_keeps_no_other_from_being_taken_over_or_woken() {
    let damage = r#"options = '{"durability": "someday"}'"#;
    let schema = Schema::new("damaged_run");
    let store = schema.open();
    for thread in ["t", "u", "v"] {
        begin(&store, thread, &format!("r-{thread}"));
    }
    let name = &schema.name;
    schema.script(&format!("DELETE FROM {name}.workers; UPDATE {name}.threads SET wakes_at = 5"));
    let names = |runs: Result<Vec<(Principal, RunRow)>, _>| {
        let threads =
            runs.expect("reads").into_iter().map(|(_, run)| run.new.at.thread.to_string());
        threads.collect::<Vec<_>>()
    };
    let taken = |limit| names(block_on(store.orphans(Timestamp(9), limit)));
    let due =
        |limit| names(block_on(store.due(Timestamp(9), vec!["test:graph".to_owned()], limit)));
    assert_eq!((taken(2), due(9)), (vec!["t".into(), "u".into()], taken(3)));
    schema.script(&format!("UPDATE {name}.runs SET {damage} WHERE thread = 't'"));
    assert_eq!((due(1), due(2)), (vec!["u".to_owned()], vec!["u".into(), "v".into()]));
    assert_eq!((taken(1), taken(9)), (due(1), due(2)));
}
