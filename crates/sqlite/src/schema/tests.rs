//! Tests that a file reaches the next format, also if the process that migrates it is killed.

use super::{FORMATS, Formats};
use crate::error::StoreLocation;
use crate::open;
use crate::store::Options;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use weftwork_store::StoreError;

/// A file of the oldest format that is read, with rows in every table.
const OLDEST: &str = include_str!("../../tests/it/formats/16.sql");

/// The formats of an invented next program: it rewrites rows, and adds a column, a table and an index.
const NEXT: Formats = Formats {
    oldest: FORMATS.oldest,
    created: FORMATS.created,
    migrations: &[
        FORMATS.migrations[0],
        "
        ALTER TABLE threads ADD COLUMN label TEXT;
        UPDATE threads SET label = upper(id);
        CREATE TABLE marks (org TEXT NOT NULL, thread TEXT NOT NULL, mark BLOB NOT NULL) STRICT;
        INSERT INTO marks SELECT org, id, zeroblob(9000) FROM threads;
        CREATE INDEX marks_by_thread ON marks (org, thread);
        UPDATE checkpoint_rows SET body = CAST(body || x'01' AS BLOB);",
    ],
};

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

/// Creates a closed file of the oldest format; without rows, no file.
fn make_file(folder: &TempDir, rows: Option<&str>) -> PathBuf {
    let path = folder.path().join("weft.db");
    if let Some(sql) = rows {
        let conn = Connection::open(&path).expect("opens");
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").expect("sets");
        conn.execute_batch(sql).expect("reads the dump");
    }
    path
}

fn open_with(path: &Path, formats: &Formats) -> Result<Connection, StoreError> {
    let location =
        StoreLocation { name: path.display().to_string().into(), busy_timeout_ms: 5_000 };
    open::writer(path, &location, &Options::default(), true, formats)
}

/// Closes a connection as a store does.
fn close(conn: Connection) {
    open::end_log(&conn);
    drop(conn);
}

/// Reads all tables with their rows, all indices, and the format numbers.
fn read_all(conn: &Connection) -> Vec<String> {
    let read = |sql: &str| -> Vec<String> {
        let mut query = conn.prepare(sql).expect("a query");
        let columns = query.column_count();
        let mut rows = query.query([]).expect("reads");
        let mut lines = Vec::new();
        while let Some(row) = rows.next().expect("reads") {
            let value = |n| row.get::<_, Value>(n).expect("a value");
            lines.push(format!("{:?}", (0..columns).map(value).collect::<Vec<_>>()));
        }
        lines
    };
    let mut all = read(
        "SELECT type, name, sql FROM sqlite_schema
         UNION ALL SELECT 'version', user_version, '' FROM pragma_user_version
         UNION ALL SELECT 'id', application_id, '' FROM pragma_application_id
         UNION ALL SELECT 'whole', integrity_check, '' FROM pragma_integrity_check
         ORDER BY 1, 2",
    );
    let mut tables =
        conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("a query");
    let names = tables.query_map([], |row| row.get::<_, String>(0)).expect("reads");
    for name in names {
        let name = name.expect("a name");
        all.extend(read(&format!("SELECT '{name}', * FROM {name}")));
    }
    // Rows have no order of their own.
    all.sort();
    all
}

/// Opens the file as the next program does, and checks what is in it.
fn check(path: &Path, expected: &[String], what: &str) {
    let conn = open_with(path, &NEXT).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(read_all(&conn), expected, "{what}");
    let sql = "INSERT INTO marks VALUES ('local', 'new', x'02')";
    conn.execute_batch(sql).expect("accepts writes");
    close(conn);
}

#[test]
fn the_next_format_is_reached_with_all_rows_and_refused_by_the_program_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = make_file(&folder, Some(OLDEST));
    let before = open_with(&path, &FORMATS).expect("opens");
    let rows = |conn: &Connection, sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let runs = rows(&before, "SELECT count(*) FROM runs").expect("reads");
    close(before);
    let after = open_with(&path, &NEXT).expect("migrates");
    assert_eq!(rows(&after, "SELECT count(*) FROM runs"), Ok(runs));
    assert_eq!(rows(&after, "SELECT count(*) FROM threads WHERE label = upper(id)"), Ok(5));
    assert_eq!(rows(&after, "SELECT value FROM meta WHERE key = 'format'"), Ok(18));
    close(after);
    let error = open_with(&path, &FORMATS).expect_err("is newer");
    assert!(matches!(error, StoreError::Newer { found: 18, known: 17, .. }), "{error}");
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
    let mut cuts = 0;
    for rows in [Some(OLDEST), None] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = make_file(&folder, rows);
        let before = fs::read(&path).unwrap_or_default();
        let conn = open_with(&path, &NEXT).expect("opens");
        let expected = read_all(&conn);
        let after = Bytes::read(&path);
        close(conn);
        if rows.is_some() {
            // The header says that there is a log, which it does not in a closed file.
            assert!(after.file[100..] == before[100..], "only the log was written");
        } else {
            assert_eq!(after.file.len(), 4_096, "no more than the header was written");
        }
        for end in ends(&after.log) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("weft.db");
            Bytes { file: after.file.clone(), log: after.log[..end].to_vec() }.write(&path);
            check(&path, &expected, &format!("{end} of {} bytes", after.log.len()));
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
    assert!(cuts > 15);
}

/// Body of the killed process; passes immediately in any other process.
#[test]
fn migrating_process() {
    let Ok(file) = std::env::var(FILE) else { return };
    let report = |what| writeln!(std::io::stdout(), "state: {what}").expect("the parent listens");
    report("opening");
    let conn = open_with(Path::new(&file), &NEXT).expect("opens");
    report("opened");
    close(conn);
    std::io::stdin().lines().next();
}

/// Starts a process that opens the file and kills it after a number of loop iterations. Returns
/// `true` if it was still opening.
fn open_and_kill(path: &Path, turns: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "schema::tests::migrating_process", "--nocapture"]).env(FILE, path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut reaches = |state: &str| lines.any(|line| line.expect("a line").ends_with(state));
    assert!(reaches("state: opening"));
    for _ in 0..turns {
        std::hint::spin_loop();
    }
    child.kill().expect("kills");
    child.wait().expect("ends");
    !reaches("state: opened")
}

#[test]
fn a_process_that_is_killed_while_it_opens_harms_nothing() {
    let kills = if is_full() { 300 } else { 24 };
    let sources = [None, Some(OLDEST)];
    let expected = sources.map(|rows| {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = open_with(&make_file(&folder, rows), &NEXT).expect("opens");
        let all = read_all(&conn);
        close(conn);
        all
    });
    let mut amid = 0;
    for kill in 0..kills {
        let source = kill % sources.len();
        let folder = tempfile::tempdir().expect("a folder");
        let path = make_file(&folder, sources[source]);
        amid += usize::from(open_and_kill(&path, kill * 1_500_000 / kills));
        check(&path, &expected[source], &format!("kill {kill}"));
    }
    println!("{kills} kills, {amid} of them before the file was open");
    assert!(amid > 0);
}
