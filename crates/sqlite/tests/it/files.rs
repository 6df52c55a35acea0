//! Tests of unusable files: errors state the reason, and no data is lost.

use crate::support::{begin, block_on, commit_of, numbers, open, root};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use tempfile::TempDir;
use weftwork_sqlite::{Options, SqliteStore};
use weftwork_store::{ReadCheckpoints, StoreError, ThreadQuery, WriteCheckpoints};
use weftwork_store::{ReadEvents, ReadRuns, ReadThreads, WriteRuns, WriteThreads};
use weftwork_types::run::RunOutcome;
use weftwork_types::{Principal, ThreadId, Timestamp};

const QUICK: Options = Options {
    durability: weftwork_sqlite::Durability::Full,
    busy_timeout_ms: 50,
    size_bytes_max: None,
};

/// Creates a closed store whose thread `t` has four checkpoints of 20 kB.
fn filled() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, &Options::default());
    let claim = begin(&store, "t", "r");
    for number in 1..=4 {
        let commit = commit_of(number, vec![1; 20_000]);
        block_on(store.commit(&Principal::local(), &claim, commit)).expect("commits");
    }
    drop(store);
    folder
}

fn edit(folder: &TempDir, sql: &str) {
    let conn = Connection::open(folder.path().join("weft.db")).expect("opens");
    conn.execute_batch(sql).expect("edits");
}

fn refused(folder: &TempDir) -> StoreError {
    SqliteStore::open(folder.path().join("weft.db"), &QUICK).expect_err("must not open")
}

fn thread() -> ThreadId {
    ThreadId::new("t").expect("an id")
}

fn unreadable(folder: &TempDir) -> StoreError {
    unread(&open(folder, &QUICK))
}

/// Returns the error of reading the thread, or a checkpoint of it.
fn unread(store: &SqliteStore) -> StoreError {
    let who = Principal::local();
    let row = block_on(store.thread(&who, &thread())).map(drop);
    let page = block_on(store.page(&who, &root("t"), None, 9)).map(drop);
    row.and(page).expect_err("must not be read")
}

/// Appends a line to the table: code and message, without the folder.
fn line(table: &mut String, what: &str, folder: &TempDir, error: &StoreError) {
    let text = error.to_string().replace(&folder.path().display().to_string(), "FOLDER");
    writeln!(table, "{what}\n    {}: {text}", error.code()).expect("a string takes all");
}

fn write_file(folder: &TempDir, bytes: &[u8]) {
    fs::write(folder.path().join("weft.db"), bytes).expect("writes");
}

type Spoil = fn(&TempDir);

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let mut table = String::new();
    let cases: [(&str, Spoil); 9] = [
        ("cut in the middle", |folder| {
            let bytes = fs::read(folder.path().join("weft.db")).expect("reads");
            write_file(folder, &bytes[..bytes.len() / 2]);
        }),
        ("cut in its header", |folder| {
            let bytes = fs::read(folder.path().join("weft.db")).expect("reads");
            write_file(folder, &bytes[..60]);
        }),
        ("no database at all", |folder| write_file(folder, &[b'x'; 9_000])),
        ("an older format", |folder| edit(folder, "PRAGMA user_version = 16")),
        ("a newer format", |folder| edit(folder, "PRAGMA user_version = 100")),
        ("an impossible format", |folder| edit(folder, "PRAGMA user_version = -1")),
        ("another program's", |folder| edit(folder, "PRAGMA application_id = 1234")),
        ("a folder in its place", |folder| {
            fs::remove_file(folder.path().join("weft.db")).expect("removes");
            fs::create_dir(folder.path().join("weft.db")).expect("makes");
        }),
        ("a table is missing", |folder| edit(folder, "DROP TABLE pending")),
    ];
    for (what, spoil) in cases {
        let folder = filled();
        spoil(&folder);
        let before = fs::read(folder.path().join("weft.db")).unwrap_or_default();
        let error =
            if what == "a table is missing" { unreadable(&folder) } else { refused(&folder) };
        line(&mut table, what, &folder, &error);
        if what != "a table is missing" {
            let after = fs::read(folder.path().join("weft.db")).unwrap_or_default();
            assert!(before == after, "{what}: a file that is refused is not touched");
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_database_of_another_program_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    edit(&folder, "CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    let before = fs::read(folder.path().join("weft.db")).expect("reads");
    assert!(matches!(refused(&folder), StoreError::Unavailable { retriable: false, .. }));
    assert!(before == fs::read(folder.path().join("weft.db")).expect("reads"));
    assert_eq!(fs::read_dir(folder.path()).expect("reads").count(), 1, "no files beside it");
}

#[test]
fn what_is_damaged_inside_is_named_by_table_and_key() {
    let mut table = String::new();
    let cases = [
        ("the ids of checkpoints", "UPDATE blocks SET prefix = x'01'"),
        (
            "what became of tasks",
            "UPDATE checkpoint_rows SET of = x'01'
             WHERE place = (SELECT min(place) + 2 FROM checkpoint_rows)",
        ),
        ("a thread's head", "UPDATE log SET head = x'01'"),
    ];
    for (what, sql) in cases {
        let folder = filled();
        edit(&folder, sql);
        line(&mut table, what, &folder, &unreadable(&folder));
    }
    for (what, sql) in [
        (
            "an event that does not parse",
            "UPDATE log SET events = '[{\"type\": \"dr' WHERE last_seq = 2",
        ),
        ("an event is missing", "UPDATE log SET events = '[]' WHERE last_seq = 2"),
        (
            "an event of 100,000 levels",
            "UPDATE log SET events = replace(hex(zeroblob(50000)), '0', '[') WHERE last_seq = 2",
        ),
    ] {
        let folder = filled();
        edit(&folder, sql);
        let store = open(&folder, &QUICK);
        let read = block_on(store.events(&Principal::local(), &crate::support::at("t", "r"), 0, 9));
        line(&mut table, what, &folder, &read.expect_err("must not be read"));
    }
    for (what, sql) in [
        ("a run's number of takeovers", "UPDATE runs SET fence = -1"),
        (
            "an input of 100,000 levels",
            "UPDATE runs SET
                 input = '{\"kind\":\"start\",\"input\":' || replace(hex(zeroblob(50000)), '0', '[')",
        ),
    ] {
        let folder = filled();
        edit(&folder, sql);
        let store = open(&folder, &QUICK);
        let read = block_on(store.run(&Principal::local(), &crate::support::at("t", "r")));
        line(&mut table, what, &folder, &read.expect_err("must not be read"));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_missing_checkpoint_is_told_before_an_older_one_is_taken_for_it() {
    let mut table = String::new();
    for (what, sql) in [
        (
            "the newest",
            "DELETE FROM checkpoint_rows
             WHERE place = (SELECT max(place) FROM checkpoint_rows)",
        ),
        ("all of them", "DELETE FROM checkpoint_rows"),
        ("what leads to them", "DELETE FROM blocks"),
    ] {
        let folder = filled();
        edit(&folder, sql);
        let store = open(&folder, &QUICK);
        let read = block_on(store.checkpoint(&Principal::local(), &root("t"), None));
        line(&mut table, what, &folder, &read.expect_err("must not be read"));
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_thread_without_its_checkpoints_is_not_copied() {
    let folder = filled();
    edit(&folder, "DELETE FROM checkpoint_rows");
    let store = open(&folder, &QUICK);
    let from = crate::support::at("t", "r").thread;
    let to = crate::support::at("t2", "r").thread;
    let copied = block_on(store.copy_checkpoints(&Principal::local(), &from, &to));
    let error = copied.expect_err("there is nothing to copy");
    assert!(error.to_string().contains("table `blocks`, thread `t`: a block has no"), "{error}");
    let left = block_on(store.checkpoint_namespaces(&Principal::local(), &to)).expect("reads");
    assert_eq!(left, [], "nothing of it was kept");
}

#[test]
fn a_thread_under_another_name_is_neither_read_nor_copied() {
    let folder = filled();
    let store = open(&folder, &QUICK);
    edit(&folder, "UPDATE blocks SET thread = 't2' WHERE thread = 't'");
    let who = Principal::local();
    let from = crate::support::at("t2", "r").thread;
    let to = crate::support::at("t3", "r").thread;
    let read = block_on(store.checkpoint(&who, &root("t2"), None)).expect_err("must not be read");
    let page = block_on(store.page(&who, &root("t2"), None, 9)).expect_err("must not be read");
    let copied = block_on(store.copy_checkpoints(&who, &from, &to)).expect_err("nor copied");
    for error in [read, page, copied] {
        let StoreError::Corrupt { location, what } = &error else { panic!("{error}") };
        assert_eq!(location, "table `blocks`, thread `t2`");
        assert!(what.contains("does not fit its seal"), "{what}");
    }
}

#[test]
fn a_damaged_thread_harms_no_other() {
    let folder = filled();
    let store = open(&folder, &QUICK);
    let claim = begin(&store, "t2", "r2");
    block_on(store.commit(&Principal::local(), &claim, commit_of(1, vec![1]))).expect("commits");
    edit(&folder, "UPDATE blocks SET prefix = x'00' WHERE number = 1");
    let error = unread(&store);
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert_eq!(numbers(&store, "t2"), [1]);
}

#[test]
fn a_locked_file_is_named_with_the_time_waited() {
    let folder = filled();
    let mut table = String::new();
    let store = open(&folder, &QUICK);
    let other = Connection::open(folder.path().join("weft.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    let new = crate::support::new_run("t2", "r2");
    let who = Principal::local();
    let create = || store.create_run(&who, new.clone(), Default::default());
    let error = block_on(create()).expect_err("locked");
    line(&mut table, "a write", &folder, &error);
    assert_eq!(numbers(&store, "t"), [1, 2, 3, 4], "reading needs no lock");
    other.execute_batch("ROLLBACK").expect("unlocks");
    block_on(create()).expect("the same call succeeds later");
    drop(store);

    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT").expect("locks");
    line(&mut table, "an open", &folder, &refused(&folder));
    insta::assert_snapshot!(table);
}

#[test]
fn a_full_file_loses_nothing() {
    let folder = filled();
    let limit = Options { size_bytes_max: Some(340_000), ..Options::default() };
    let store = open(&folder, &limit);
    let claim = begin_next(&store);
    let who = Principal::local();
    let mut number = 4;
    let error = loop {
        match block_on(store.commit(&who, &claim, commit_of(number + 1, vec![1; 20_000]))) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    let mut table = String::new();
    line(&mut table, "a commit", &folder, &error);
    insta::assert_snapshot!(table);
    assert!(number > 4 && error.is_retriable());
    assert_eq!(numbers(&store, "t"), Vec::from_iter(1..=number));
    drop(store);
    let store = open(&folder, &Options::default());
    assert_eq!(numbers(&store, "t"), Vec::from_iter(1..=number));
    let next = commit_of(number + 1, vec![1; 20_000]);
    let claim = weftwork_store::Claim { fence: claim.fence, ..claim };
    block_on(store.commit(&who, &claim, next)).expect("the same commit goes through");
}

/// Claims the run in the filled store.
fn begin_next(store: &SqliteStore) -> weftwork_store::Claim {
    let worker = crate::support::register(store, "w2");
    let at = crate::support::at("t", "r");
    let now = weftwork_types::Timestamp(3);
    block_on(store.claim(&Principal::local(), &at, &worker, now)).expect("claims").0
}

#[test]
fn a_deleted_thread_gives_its_room_back() {
    let folder = filled();
    let path = folder.path().join("weft.db");
    let before = fs::metadata(&path).expect("a file").len();
    let store = open(&folder, &Options::default());
    let who = Principal::local();
    let claim = begin_next(&store);
    let end = weftwork_store::Commit {
        finish: Some(RunOutcome::cancelled()),
        ..weftwork_store::Commit::default()
    };
    block_on(store.commit(&who, &claim, end)).expect("ends");
    block_on(store.delete_thread(&who, &thread())).expect("deletes");
    drop(store);
    let after = fs::metadata(&path).expect("a file").len();
    assert!(after + 80_000 <= before, "{before} bytes before, {after} after");
}

#[cfg(unix)]
#[test]
fn the_file_belongs_to_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep/er/weft.db");
    let store = SqliteStore::open(&path, &Options::default()).expect("makes folder and file");
    begin(&store, "t", "r");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let parent = path.parent().expect("a parent");
    assert_eq!((mode(parent), mode(parent.parent().expect("one more"))), (0o700, 0o700));
    for entry in fs::read_dir(parent).expect("reads") {
        let file = entry.expect("an entry").path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert_eq!(fs::read_dir(parent).expect("reads").count(), 5, "file, mark, log, index, lock");
}

/// Environment variable with the file that an unprivileged process has to open.
const FILE: &str = "WEFT_TEST_OPEN_FILE";

/// Body of the unprivileged process; passes immediately in any other process.
#[test]
fn opening_process() {
    let Ok(file) = std::env::var(FILE) else { return };
    let told = match SqliteStore::open(file, &QUICK) {
        Ok(_) => "told: it opened".to_owned(),
        Err(error) => format!("told: {}: {error}", error.code()),
    };
    writeln!(std::io::stdout(), "{told}").expect("the parent listens");
}

/// Opens a file in a process without root privileges, because root can write everywhere.
#[cfg(unix)]
fn open_without_rights(folder: &TempDir, file: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    // Another user may not have access to the build folder.
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("copies");
    let mut command = std::process::Command::new(program);
    command.args(["--exact", "files::opening_process", "--nocapture"]).env(FILE, file);
    command.current_dir("/");
    if fs::metadata(folder.path()).expect("there").uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let told = text.lines().find_map(|line| line.split_once("told: ")).expect("it told").1;
    told.replace(&folder.path().display().to_string(), "FOLDER")
}

#[cfg(unix)]
#[test]
fn a_file_that_may_only_be_read_is_named_with_the_reason() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("sets the mode");
    };
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("makes");
    let file = inner.join("weft.db");
    let absent = inner.join("not/there/weft.db");
    drop(SqliteStore::open(&file, &QUICK).expect("opens"));
    set(folder.path(), 0o755);
    let mut table = String::new();
    for (what, path, file_mode, folder_mode) in [
        ("the file may only be read", &file, 0o444, 0o777),
        ("the file may not even be read", &file, 0o000, 0o777),
        ("the folder may only be read", &file, 0o666, 0o555),
        ("a folder cannot be made", &absent, 0o666, 0o555),
    ] {
        set(&file, file_mode);
        set(&inner, folder_mode);
        let told = open_without_rights(&folder, path);
        writeln!(table, "{what}\n    {told}").expect("a string takes all");
    }
    set(&inner, 0o755);
    insta::assert_snapshot!(table);
}

#[test]
fn a_damaged_thread_is_listed_with_its_error_among_the_others_and_can_be_deleted() {
    let who = Principal::local();
    for (what, damage) in [
        ("status", "status = 'dozing'"),
        ("metadata", "metadata = '{\"name\": '"),
        ("metadata", "metadata = '[1]'"),
    ] {
        let folder = filled();
        let store = open(&folder, &QUICK);
        begin(&store, "other", "s");
        drop(store);
        edit(&folder, &format!("UPDATE threads SET {damage} WHERE id = 't'"));
        let store = open(&folder, &QUICK);
        let query = ThreadQuery { limit: 9, ..ThreadQuery::default() };
        let page = block_on(store.search_threads(&who, query.clone())).expect(damage);
        let listed = page.threads.iter().map(|found| (found.row.id.as_str(), &found.damage));
        let listed: BTreeMap<_, _> = listed.collect();
        assert_eq!(listed.len(), 2, "{damage}");
        assert_eq!(listed["other"], &None);
        let fault = listed["t"].as_ref().unwrap_or_else(|| panic!("{damage}: {listed:?}"));
        let names = fault.message.contains("thread `t`") && fault.message.contains(what);
        assert!(names && fault.code == "W0210", "{damage}: {fault:?}");
        // Nothing works with a row of which a part is not known.
        let read = block_on(store.thread(&who, &thread()));
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        edit(&folder, "UPDATE runs SET status = 'failed', outcome = NULL WHERE thread = 't'");
        block_on(store.delete_thread(&who, &thread())).expect(damage);
        let page = block_on(store.search_threads(&who, query)).expect(damage);
        assert_eq!(page.threads.len(), 1);
    }
}

#[test]
fn a_damaged_run_keeps_no_other_from_being_taken_over_or_woken() {
    for damage in ["status = 'dozing', worker = NULL", "options = '{\"durability\": \"someday\"}'"]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder, &QUICK);
        for thread in ["t", "u", "v"] {
            begin(&store, thread, &format!("r-{thread}"));
        }
        edit(&folder, "DELETE FROM workers; UPDATE threads SET wakes_at = 5");
        let taken = |limit| {
            let runs = block_on(store.orphans(Timestamp(9), limit)).expect(damage);
            runs.into_iter().map(|(_, run)| run.new.at.thread.to_string()).collect::<Vec<_>>()
        };
        let due = |limit| {
            let due = store.due(Timestamp(9), vec!["test:graph".to_owned()], limit);
            let runs = block_on(due).expect(damage);
            runs.into_iter().map(|(_, run)| run.new.at.thread.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((taken(2), due(9)), (vec!["t".into(), "u".into()], taken(3)));
        edit(&folder, &format!("UPDATE runs SET {damage} WHERE thread = 't'"));
        assert_eq!((due(1), due(2)), (vec!["u".into()], vec!["u".into(), "v".into()]), "{damage}");
        if damage.starts_with("options") {
            assert_eq!((taken(1), taken(9)), (due(1), due(2)), "{damage}");
        }
    }
}
