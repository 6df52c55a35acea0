//! Tests of stores that are replaced by backups, and of stores whose file changes while they are open.

use crate::format::{OLDEST, contents, made};
use crate::support::{begin, block_on, commit_of, register, worker};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weftwork_sqlite::{Durability, Options, SqliteStore};
use weftwork_store::Workers;
use weftwork_store::{ReadRuns, StoreError, WorkerRow, WriteRuns};
use weftwork_types::store_error::FileChange;
use weftwork_types::{Principal, Timestamp};

fn quick() -> Options {
    Options { durability: Durability::Normal, busy_timeout_ms: 50, ..Options::default() }
}

/// A store with rows in every table, and a backup of it.
fn filled(folder: &TempDir) -> (SqliteStore, PathBuf) {
    let path = made(folder, Some(OLDEST));
    let store = SqliteStore::open(path, &quick()).expect("opens");
    let backup = folder.path().join("backup.db");
    store.backup(&backup).expect("copies");
    (store, backup)
}

/// Copies the files of an open store, as a process leaves them that is killed.
fn killed(store: &SqliteStore, to: &Path) {
    for suffix in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        fs::copy(name(store.path()), name(to)).expect("copies");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a text"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_backup_takes_the_place_of_a_store_with_a_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, backup) = filled(&folder);
    let before = contents(&store);
    let claim = begin(&store, "later", "later");
    block_on(store.commit(&Principal::local(), &claim, commit_of(1, vec![1]))).expect("commits");
    let after = contents(&store);
    assert_ne!(before, after);

    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().join("weft.db");
    killed(&store, &path);
    let restored = SqliteStore::restore(&backup, &path).expect("restores");
    let replaced = restored.replaced.expect("there was a store");
    assert_eq!(names(place.path()), ["weft.db", "weft.db.replaced"]);
    let opened = SqliteStore::open(&path, &quick()).expect("opens");
    assert_eq!(contents(&opened), before);
    drop(opened);
    // What was replaced is whole, with what was in its log.
    let opened = SqliteStore::open(&replaced, &quick()).expect("opens");
    assert_eq!(contents(&opened), after);
    drop(opened);
    let again = SqliteStore::restore(&backup, &path).expect("restores again");
    assert_eq!(again.replaced, Some(place.path().join("weft.db.replaced-2")));
    // A store that is lost needs no file.
    fs::remove_file(&path).expect("removes");
    assert_eq!(SqliteStore::restore(&backup, &path).expect("restores").replaced, None);
    let opened = SqliteStore::open(&path, &quick()).expect("opens");
    assert_eq!(contents(&opened), before);
}

#[test]
fn a_file_without_the_log_that_it_had_is_refused_and_one_that_died_closing_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, _) = filled(&folder);
    let place = tempfile::tempdir().expect("a folder");
    let copy = place.path().join("weft.db");
    fs::copy(store.path(), &copy).expect("copies");
    let before = contents(&store);
    drop(store);
    assert_eq!(names(folder.path()), ["backup.db", "weft.db"]);
    for attempt in 0..2 {
        let error = SqliteStore::open(&copy, &quick()).expect_err("its log is missing");
        assert!(matches!(error, StoreError::Corrupt { .. }), "{attempt}: {error}");
        assert!(error.to_string().contains("weft.db-wal"), "{error}");
        assert_eq!(names(place.path()), ["weft.db"], "nothing was written");
    }
    // A process that dies between the removal of its log and that of its mark.
    fs::write(place.path().join("weft.db-open"), "").expect("writes");
    drop(SqliteStore::open(&copy, &quick()).expect("opens"));
    assert_eq!(names(place.path()), ["weft.db"]);
    SqliteStore::open(&copy, &quick()).expect("it was closed");
    // A closed file is whole by itself.
    fs::copy(folder.path().join("weft.db"), &copy).expect("copies");
    assert_eq!(contents(&SqliteStore::open(&copy, &quick()).expect("opens")), before);
}

#[test]
fn a_store_that_is_open_and_bad_backups_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, backup) = filled(&folder);
    let path = store.path().to_owned();
    let refused = |from: &Path, says: &str| {
        let error = SqliteStore::restore(from, &path).expect_err("refused").to_string();
        assert!(error.contains(says), "{from:?}: {error}");
        assert!(!names(folder.path()).iter().any(|name| name.contains(".restore")), "{from:?}");
    };
    refused(&backup, "another process has it open");
    let before = contents(&store);
    drop(store);
    refused(&path, "it is the file of the store");
    refused(&folder.path().join("none.db"), "No such file");
    let text = folder.path().join("text.db");
    fs::write(&text, "no database at all, but longer than a header of SQLite is".repeat(9))
        .expect("writes");
    refused(&text, "store is damaged");
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").expect("writes");
    refused(&empty, "it is not a store of this program");
    let torn = folder.path().join("torn.db");
    let mut bytes = fs::read(&backup).expect("reads");
    bytes.truncate(bytes.len() / 2);
    fs::write(&torn, bytes).expect("writes");
    refused(&torn, "store is damaged");
    let store = SqliteStore::open(&path, &quick()).expect("opens");
    assert_eq!(contents(&store), before);
    drop(store);

    // A damaged store is replaced, and kept with its log.
    fs::write(&path, "no database at all, but longer than a header of SQLite is".repeat(9))
        .expect("writes");
    let log = PathBuf::from(format!("{}-wal", path.display()));
    fs::write(&log, "a log").expect("writes");
    let replaced = SqliteStore::restore(&backup, &path).expect("restores").replaced;
    let kept = PathBuf::from(format!("{}-wal", replaced.expect("a file").display()));
    assert_eq!(fs::read_to_string(kept).expect("reads"), "a log");
    let store = SqliteStore::open(&path, &quick()).expect("opens");
    assert_eq!(contents(&store), before);
}

#[cfg(unix)]
#[test]
fn nothing_is_accepted_after_the_file_is_another_one() {
    use std::os::unix::fs::PermissionsExt;
    type Change = fn(&Path, &Path);
    let changes: [(FileChange, Change); 3] = [
        (FileChange::Replaced, |path, other| fs::rename(other, path).expect("renames")),
        (FileChange::Deleted, |path, _| fs::remove_file(path).expect("removes")),
        (FileChange::Unreadable, |path, _| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("changes");
        }),
    ];
    for (expected, change) in changes {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, backup) = filled(&folder);
        let claim = begin(&store, "t", "r");
        let beats = || {
            let renewed_at = Timestamp(0);
            let expires_at = Timestamp(i64::MAX);
            block_on(store.keep_alive(WorkerRow { id: worker("w"), renewed_at, expires_at }))
        };
        register(&store, "w");
        beats().expect("the file is as it was");
        change(store.path(), &backup);
        let error = beats().expect_err("another file");
        let StoreError::FileChanged { change, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*change, error.code().0), (expected, "W0219"));
        let who = Principal::local();
        let commit = block_on(store.commit(&who, &claim, commit_of(1, vec![1])));
        assert!(matches!(commit, Err(StoreError::FileChanged { .. })), "{commit:?}");
        let read = block_on(store.orphans(Timestamp(0), 9));
        assert!(matches!(read, Err(StoreError::FileChanged { .. })), "{read:?}");
    }
}

/// A store that was never closed, and whose log nobody has moved into it.
#[test]
fn a_copy_of_a_new_store_without_its_log_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("weft.db"), &quick()).expect("opens");
    register(&store, "w");
    let copy = folder.path().join("copy.db");
    fs::copy(store.path(), &copy).expect("copies");
    drop(store);
    let error = SqliteStore::open(&copy, &quick()).expect_err("its log is missing").to_string();
    assert!(error.contains("without its log"), "{error}");
}

#[test]
fn an_interrupted_restoration_is_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, backup) = filled(&folder);
    let before = contents(&store);
    let path = store.path().to_owned();
    drop(store);
    let part = folder.path().join("weft.db.restore");
    // A process that is restoring has the lock of its part; one that died has left its files.
    let held = fs::File::create(&part).expect("creates");
    held.lock().expect("locks");
    let refused = SqliteStore::restore(&backup, &path).expect_err("refused").to_string();
    assert!(refused.contains("another process restores it"), "{refused}");
    fs::write(&part, "the first pages of a copy").expect("writes");
    fs::write(folder.path().join("weft.db.restore-journal"), "of it").expect("writes");
    drop(held);
    let restored = SqliteStore::restore(&backup, &path).expect("restores");
    let kept = restored.replaced.expect("there was a store");
    assert_eq!(SqliteStore::replaced(&path), [kept]);
    assert_eq!(names(folder.path()), ["backup.db", "weft.db", "weft.db.replaced"]);
    assert_eq!(contents(&SqliteStore::open(&path, &quick()).expect("opens")), before);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_store_stays_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, backup) = filled(&folder);
    let path = store.path().to_owned();
    let before = contents(&store);
    let place = tempfile::tempdir().expect("a folder");
    let link = place.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).expect("links");
    assert_eq!(contents(&SqliteStore::open(&link, &quick()).expect("opens")), before);
    drop(store);
    assert_eq!(contents(&SqliteStore::open(&link, &quick()).expect("opens")), before);
    SqliteStore::restore(&backup, &link).expect("restores");
    assert!(fs::symlink_metadata(&link).expect("is there").is_symlink());
    assert_eq!(names(place.path()), ["link.db"]);
    assert_eq!(names(folder.path()), ["backup.db", "weft.db", "weft.db.replaced"]);
}
