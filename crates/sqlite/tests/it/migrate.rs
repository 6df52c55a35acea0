//! Tests that files of every older format are migrated, even if the migrating process is killed.

use crate::support::{begin, block_on, commit_of};
use rusqlite::Connection;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::{ItemQuery, ItemTable, Prefix, ReadRuns, Store, WriteRuns};
use weftwork_store_conformance::{dump, dump_checkpoints};
use weftwork_types::{OrgId, Principal, ThreadId, Timestamp};

/// Files as the program of each format left them, with rows in every table. The dump of a format is
/// never changed: a new format adds a file.
pub(crate) const FORMATS: [&str; 17] = [
    include_str!("formats/0.sql"),
    include_str!("formats/1.sql"),
    include_str!("formats/2.sql"),
    include_str!("formats/3.sql"),
    include_str!("formats/4.sql"),
    include_str!("formats/5.sql"),
    include_str!("formats/6.sql"),
    include_str!("formats/7.sql"),
    include_str!("formats/8.sql"),
    include_str!("formats/9.sql"),
    include_str!("formats/10.sql"),
    include_str!("formats/11.sql"),
    include_str!("formats/12.sql"),
    include_str!("formats/13.sql"),
    include_str!("formats/14.sql"),
    include_str!("formats/15.sql"),
    include_str!("formats/16.sql"),
];

/// Environment variable with the file that a process opens before it is killed.
const FILE: &str = "WEFT_TEST_MIGRATE_FILE";

/// The bytes of a file and of its log.
struct Bytes {
    file: Vec<u8>,
    log: Vec<u8>,
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

impl Bytes {
    fn read(path: &Path) -> Self {
        Self { file: fs::read(path).expect("a file"), log: fs::read(log_of(path)).expect("a log") }
    }

    fn write(&self, path: &Path) {
        fs::write(path, &self.file).expect("writes");
        fs::write(log_of(path), &self.log).expect("writes");
    }
}

/// Creates a closed file from the dump of a format; without a dump, no file.
pub(crate) fn made(folder: &TempDir, sql: Option<&str>) -> PathBuf {
    let path = folder.path().join("weft.db");
    if let Some(sql) = sql {
        let conn = Connection::open(&path).expect("opens");
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
            .expect("sets");
        conn.execute_batch(sql).expect("reads the dump");
        // Files of older formats keep the mode when they are closed.
        if Some(&sql) == FORMATS.last() {
            conn.execute_batch("PRAGMA journal_mode = DELETE").expect("sets");
        }
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
        let (within, query) = (Prefix::all(), ItemQuery::default());
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

fn newest() -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = made(&folder, None);
    drop(SqliteStore::open(&path, &Options::default()).expect("opens"));
    schema(&path)
}

/// Opens the file and checks that it has the expected content and accepts writes.
fn check(path: &Path, expected: &[String], newest: &[String], what: &str) {
    // This test does not cover power loss, so writes need not wait for the disk.
    let options = Options { durability: Durability::Normal, ..Options::default() };
    let store = SqliteStore::open(path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(contents(&store), expected, "{what}");
    let claim = begin(&store, "new", "new");
    block_on(store.commit(&Principal::local(), &claim, commit_of(1, vec![1]))).expect("commits");
    drop(store);
    assert_eq!(schema(path), newest, "{what}");
}

#[test]
fn what_older_programs_left_is_read() {
    for (format, sql) in FORMATS.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = made(&folder, Some(sql));
        let store = SqliteStore::open(&path, &Options::default()).expect("opens");
        assert!(store.place().ends_with("weft.db"));
        // One body is large enough for a page of its own.
        let text = contents(&store).join("\n").replace(&", 7".repeat(1_499), " and so on");
        insta::assert_snapshot!(format!("format_{format}"), text);
        drop(store);
        assert_eq!(schema(&path), newest(), "format {format}");
    }
}

#[test]
fn threads_that_were_parked_before_wake_at_their_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let sql = FORMATS[2].replace(r#""expires_at":9000,"#, r#""expires_at":9000,"default":null,"#);
    let store = SqliteStore::open(made(&folder, Some(&sql)), &Options::default()).expect("opens");
    let due = block_on(store.due(Timestamp(9_000), vec!["test:graph".to_owned()], 9));
    let due = due.expect("reads");
    assert_eq!(due.iter().map(|(_, row)| row.new.at.run.as_str()).collect::<Vec<_>>(), ["r1"]);
}

fn is_full() -> bool {
    std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full")
}

/// Returns the possible ends of the log after a kill: between and within its header and frames.
fn ends(log: &[u8]) -> Vec<usize> {
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().expect("four bytes"));
    let frame = 24 + usize::try_from(number(8)).expect("a page size");
    let frames = (32..=log.len()).step_by(frame);
    let points: &[usize] = if is_full() { &[0, 10, 24, 2_000, 4_000] } else { &[0, 2_000] };
    let within = |start: usize| points.iter().map(move |point| start + point);
    let ends = [0, 20].into_iter().chain(frames.flat_map(within));
    let ends: Vec<_> = ends.filter(|end| *end < log.len()).chain([log.len()]).collect();
    let share = if is_full() { 1 } else { ends.len().div_ceil(8) };
    let last = ends.len() - 1;
    (0..=last).filter(|at| at % share == 0 || *at == last).map(|at| ends[at]).collect()
}

/// A migration writes only to the log, which only grows: if the process is killed at any point,
/// between statements or within the commit, the disk has the old file and a part of the log.
#[test]
fn a_migration_that_is_cut_off_anywhere_is_done_by_the_next_process() {
    let newest = newest();
    let mut cuts = 0;
    for sql in FORMATS.iter().copied().map(Some).chain([None]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = made(&folder, sql);
        let before = fs::read(&path).unwrap_or_default();
        let store = SqliteStore::open(&path, &Options::default()).expect("opens");
        let expected = contents(&store);
        let after = match fs::exists(log_of(&path)) {
            Ok(true) => Bytes::read(&path),
            _ => Bytes { file: fs::read(&path).expect("a file"), log: Vec::new() },
        };
        drop(store);
        if sql.is_some() {
            // The header says that there is a log, which that of the newest format does not when closed.
            assert!(after.file[100..] == before[100..], "only the log was written");
        } else {
            assert_eq!(after.file.len(), 4_096, "no more than the header was written");
        }
        let ends = if after.log.is_empty() { vec![0] } else { ends(&after.log) };
        for end in ends {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("weft.db");
            Bytes { file: after.file.clone(), log: after.log[..end].to_vec() }.write(&path);
            check(&path, &expected, &newest, &format!("{end} of {} bytes", after.log.len()));
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
    assert!(cuts > 50);
}

/// Body of the killed process; passes immediately in any other process.
#[test]
fn migrating_process() {
    let Ok(file) = std::env::var(FILE) else { return };
    let tell = |what| writeln!(std::io::stdout(), "told: {what}").expect("the parent listens");
    tell("opening");
    let store = SqliteStore::open(file, &Options::default()).expect("opens");
    tell("opened");
    drop(store);
    std::io::stdin().lines().next();
}

/// Starts a process that opens the file and kills it after a number of loop iterations. Returns
/// `true` if it was still opening.
fn open_and_kill(path: &Path, turns: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "migrate::migrating_process", "--nocapture"]).env(FILE, path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut told = |what: &str| lines.any(|line| line.expect("a line").ends_with(what));
    assert!(told("told: opening"));
    for _ in 0..turns {
        std::hint::spin_loop();
    }
    child.kill().expect("kills");
    child.wait().expect("ends");
    !told("told: opened")
}

#[test]
fn a_process_that_is_killed_while_it_opens_harms_nothing() {
    let kills = if is_full() { 300 } else { 24 };
    let newest = newest();
    let sources = [None, Some(FORMATS[0])];
    let expected = sources.map(|sql| {
        let folder = tempfile::tempdir().expect("a folder");
        contents(&SqliteStore::open(made(&folder, sql), &Options::default()).expect("opens"))
    });
    let mut amid = 0;
    for kill in 0..kills {
        let which = kill % sources.len();
        let folder = tempfile::tempdir().expect("a folder");
        let path = made(&folder, sources[which]);
        amid += usize::from(open_and_kill(&path, kill * 1_500_000 / kills));
        check(&path, &expected[which], &newest, &format!("kill {kill}"));
    }
    println!("{kills} kills, {amid} of them before the file was open");
    assert!(amid > 0);
}
