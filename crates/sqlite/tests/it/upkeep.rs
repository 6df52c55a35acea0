//! Tests of maintenance: backups equal their stores, damage is found before a run encounters it,
//! and space is released.

use crate::format::{OLDEST, contents, made};
use crate::support::{begin, block_on, commit_of, numbers, open};
use rusqlite::Connection;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{
    CheckpointBatch, NewCheckpoint, ReadCheckpoints, ReadRuns, StoreError, WriteCheckpoints,
    WriteRuns,
};
use weftwork_types::canonical::{self, Hash};
use weftwork_types::{CheckpointId, Principal, ThreadId, Timestamp};

/// Environment variable with the file that a process backs up, and the target.
const FILE: &str = "WEFT_TEST_BACKUP_FILE";
const TO: &str = "WEFT_TEST_BACKUP_TO";

fn quick() -> Options {
    Options { durability: Durability::Normal, busy_timeout_ms: 50, ..Options::default() }
}

/// A store with rows in every table.
fn filled(folder: &TempDir) -> SqliteStore {
    SqliteStore::open(made(folder, Some(OLDEST)), &quick()).expect("opens")
}

fn thread(id: &str) -> ThreadId {
    ThreadId::new(id).expect("an id")
}

fn blob(n: u8) -> (Hash, Vec<u8>) {
    let bytes = vec![n; 50_000];
    (canonical::hash_bytes(&bytes), bytes)
}

/// Stores checkpoints of 10 kB, each with a blob.
fn keep_large(store: &SqliteStore, id: &str, count: u8) {
    let checkpoints = (1..=count).map(|n| NewCheckpoint {
        ns: String::new(),
        id: CheckpointId(n.into()),
        of: None,
        tasks: Vec::new(),
        body: vec![n; 10_000],
        blobs: vec![blob(n).0],
    });
    let blobs = (1..=count).map(blob).collect();
    let batch =
        CheckpointBatch { checkpoints: checkpoints.collect(), blobs, ..CheckpointBatch::default() };
    block_on(store.put_checkpoints(&Principal::local(), &thread(id), batch)).expect("keeps");
}

fn no_damage(store: &SqliteStore) {
    assert_eq!(store.verify().expect("reads"), []);
}

#[test]
fn a_backup_is_a_store_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&folder);
    let to = folder.path().join("backups/first.db");
    store.backup(&to).expect("copies");
    let before = contents(&store);
    keep_large(&store, "later", 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&to).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "it holds whole conversations as well");
    }
    assert_eq!(fs::read_dir(to.parent().expect("a folder")).expect("reads").count(), 1);

    let path = store.path().to_owned();
    drop(store);
    SqliteStore::restore(&to, &path).expect("restores");
    let store = SqliteStore::open(&path, &quick()).expect("opens");
    no_damage(&store);
    assert_eq!(contents(&store), before);
    let hash = canonical::hash_bytes(b"a");
    let bytes = b"a".to_vec();
    assert_eq!(block_on(store.blob(&Principal::local(), hash)), Ok(Some(bytes)));
    // Parked runs continue, and space is released as before.
    let orphans = block_on(store.orphans(Timestamp(i64::MAX), 99)).expect("reads");
    assert_eq!(orphans.len(), 3);
    let claim = begin(&store, "new", "new");
    block_on(store.commit(&Principal::local(), &claim, commit_of(1, vec![1]))).expect("commits");
    let conn = Connection::open(&path).expect("opens");
    let mode: i64 = conn.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).expect("reads");
    assert_eq!(mode, 2);
}

#[test]
fn a_backup_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&folder);
    let to = folder.path().join("copy.db");
    let part = folder.path().join("copy.db.part");
    let refused = |reason: &str| {
        let error = store.backup(&to).expect_err("must not copy");
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    };
    fs::write(&to, "mine").expect("writes");
    refused("a backup does not replace");
    assert_eq!(fs::read(&to).expect("reads"), b"mine");
    fs::remove_file(&to).expect("removes");
    fs::write(&part, "somebody's").expect("writes");
    refused("another backup is in progress, or was interrupted");
    assert_eq!(fs::read(&part).expect("reads"), b"somebody's");
    fs::remove_file(&part).expect("removes");
    store.backup(&to).expect("copies");
    refused("a backup does not replace");
}

#[test]
fn a_backup_of_a_damaged_store_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&folder);
    keep_large(&store, "large", 40);
    store.compact().expect("moves the log into the file");
    let path = store.path().to_owned();
    drop(store);
    flip(&path, 100);
    let store = SqliteStore::open(&path, &quick()).expect("opens");
    let to = folder.path().join("copy.db");
    let error = store.backup(&to).expect_err("must not copy");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let left = fs::read_dir(folder.path()).expect("reads").filter_map(Result::ok);
    let named = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("copy"));
    assert_eq!(named.count(), 0);
}

/// Overwrites the start of some pages in the middle of a file.
fn flip(path: &Path, page: usize) {
    let mut bytes = fs::read(path).expect("reads");
    for page in page..page + 20 {
        bytes[page * 4_096..page * 4_096 + 16].fill(0xa5);
    }
    fs::write(path, bytes).expect("writes");
}

#[test]
fn a_backup_beside_a_writer_is_one_state_of_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, &quick());
    let claim = begin(&store, "t", "r");
    let done = AtomicBool::new(false);
    let enough = Options { busy_timeout_ms: 5_000, ..quick() };
    let copies: Vec<PathBuf> = (0..3).map(|n| folder.path().join(format!("copy-{n}.db"))).collect();
    let mut written = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for copy in &copies {
                store.backup(copy).expect("copies");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            written += 1;
            let commit = commit_of(written, vec![7; 2_000]);
            block_on(store.commit(&Principal::local(), &claim, commit)).expect("commits");
        }
    });
    let mut lengths = Vec::new();
    for copy in &copies {
        let store = SqliteStore::open(copy, &enough).expect("opens");
        no_damage(&store);
        let steps = numbers(&store, "t");
        assert_eq!(steps, Vec::from_iter(1..=steps.len() as u128));
        lengths.push(steps.len());
    }
    assert!(lengths.is_sorted(), "{lengths:?}");
    assert_eq!(numbers(&store, "t").len() as u128, written);
}

/// Body of the killed process; passes immediately in any other process.
#[test]
fn backing_up_process() {
    let (Ok(file), Ok(to)) = (std::env::var(FILE), std::env::var(TO)) else { return };
    let store = SqliteStore::open(file, &quick()).expect("opens");
    writeln!(std::io::stdout(), "told: copying").expect("the parent listens");
    store.backup(to).expect("copies");
    std::io::stdin().lines().next();
}

#[test]
fn a_backup_that_is_killed_has_no_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&folder);
    keep_large(&store, "large", 100);
    let expected = contents(&store);
    let mut whole = 0;
    let mut none = 0;
    for kill in 0..8 {
        let to = folder.path().join(format!("copy-{kill}.db"));
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "upkeep::backing_up_process", "--nocapture"]);
        command.env(FILE, store.path()).env(TO, &to);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.expect("a line").ends_with("told: copying")));
        for _ in 0..kill * 200_000 {
            std::hint::spin_loop();
        }
        child.kill().expect("kills");
        child.wait().expect("ends");
        if to.exists() {
            whole += 1;
            let copy = SqliteStore::open(&to, &quick()).expect("opens");
            no_damage(&copy);
            assert_eq!(contents(&copy), expected);
        } else {
            none += 1;
        }
    }
    println!("{whole} copies were whole, {none} had no name");
    no_damage(&store);
    assert_eq!(contents(&store), expected);
}

#[test]
fn damage_is_named_by_table_and_key() {
    let mut table = String::new();
    for (what, sql) in [
        ("nothing", "SELECT 1"),
        ("the head of a thread", "UPDATE threads SET head = zeroblob(16) WHERE org = 'other'"),
        (
            "the head of a thread whose run goes",
            "UPDATE log SET head = zeroblob(16) WHERE head > ''",
        ),
        ("events that do not parse", "UPDATE log SET events = '[' WHERE place >> 32 = 3"),
        ("an event in between", "DELETE FROM log WHERE place = (1 << 32) + 1"),
        ("a call of no kind", "UPDATE log SET calls = replace(calls, '\"tool\"', '\"dream\"')"),
        ("usage in a log", "UPDATE log SET usage = '[{}]' WHERE usage IS NOT NULL"),
        ("a log without a run", "UPDATE log SET place = (99 << 32) + 1 WHERE place >> 32 = 3"),
        ("a question", "UPDATE interrupts SET interrupt = '{}'"),
        ("usage", "UPDATE usage SET fact = 'x'"),
        ("the status of a run", "UPDATE runs SET status = 'lost' WHERE id = 'r9'"),
        ("a run without a thread", "DELETE FROM threads WHERE id = 'keyed'"),
        ("the ids of checkpoints", "UPDATE blocks SET prefix = x'01' WHERE ns = 'inner:1'"),
        ("two blocks in one", "UPDATE blocks SET number = 2 WHERE number = 1"),
        ("a block of checkpoints", "DELETE FROM blocks WHERE number = 1"),
        ("a letter of an item", "UPDATE items SET value = replace(value, 'tea', 'gin')"),
        ("an item of another", "UPDATE items SET org = 'local', key = 'x' WHERE number = 3"),
        ("when an item expires", "UPDATE items SET expires_at = NULL WHERE number = 2"),
        ("the namespace of an item", "UPDATE items SET path = 'users' WHERE number = 3"),
        ("the key of an item", "UPDATE items SET key = '' WHERE number = 5"),
        ("a byte of a blob", "UPDATE blobs SET body = x'00' WHERE body = CAST('a' AS BLOB)"),
        ("a blob", "DELETE FROM blobs WHERE body = CAST('b' AS BLOB)"),
        (
            "an index",
            "PRAGMA writable_schema = 1;
             UPDATE sqlite_schema SET rootpage =
                 (SELECT rootpage FROM sqlite_schema WHERE name = 'usage_by_run')
             WHERE name = 'runs_by_thread'",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = filled(&folder);
        let conn = Connection::open(store.path()).expect("opens");
        conn.pragma_update(None, "foreign_keys", false).expect("sets");
        conn.execute_batch(sql).expect("edits");
        drop(conn);
        let found = store.verify().expect("reads");
        writeln!(table, "{what}").expect("a string takes all");
        for damage in found {
            let line = damage.to_string().replace(&folder.path().display().to_string(), "FOLDER");
            writeln!(table, "    {line}").expect("a string takes all");
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn damaged_pages_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&folder);
    keep_large(&store, "large", 40);
    store.compact().expect("moves the log into the file");
    let path = store.path().to_owned();
    drop(store);
    flip(&path, 100);
    let store = SqliteStore::open(&path, &quick()).expect("opens");
    let found = store.verify().expect("reads");
    assert!(!found.is_empty());
    assert!(found.iter().all(|damage| !damage.location.is_empty() && !damage.what.is_empty()));
}

#[test]
fn compacting_gives_back_what_is_not_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = filled(&folder);
    let before = contents(&store);
    store.compact().expect("compacts");
    keep_large(&store, "large", 60);
    let who = Principal::local();
    block_on(store.delete_checkpoints(&who, &thread("large"))).expect("deletes");
    let done = store.compact().expect("compacts");
    assert_eq!(done.blobs, 60);
    assert!(done.bytes_before > 3_600_000 && done.bytes_after < 300_000, "{done:?}");
    let log = fs::metadata(folder.path().join("weft.db-wal")).expect("a log").len();
    let file = fs::metadata(store.path()).expect("a file").len();
    assert_eq!((log, file), (0, done.bytes_after));
    no_damage(&store);
    assert_eq!(contents(&store), before);
    // Another connection holds a lock, which is reported.
    let other = Connection::open(store.path()).expect("opens");
    other.execute_batch("BEGIN; SELECT count(*) FROM threads").expect("reads");
    keep_large(&store, "large", 1);
    let error = store.compact().expect_err("somebody reads");
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    other.execute_batch("COMMIT").expect("ends");
    assert_eq!(store.compact().map(|done| done.blobs), Ok(0));
}
