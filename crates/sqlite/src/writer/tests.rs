use super::*;

/// Creates a file with one table, with `quick` as the limit for fast commits.
fn desk(folder: &tempfile::TempDir, quick: Duration) -> Desk {
    let path = folder.path().join("desk.db");
    let conn = Connection::open(path).expect("opens");
    conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER)")
        .expect("makes a table");
    let location = StoreLocation { name: "desk.db".into(), busy_timeout_ms: 60_000 };
    Desk::new(Mutex::new(Session { conn, location, patient: true }), quick)
}

fn add(conn: &Connection) -> Done<usize> {
    Ok(conn.execute("INSERT INTO numbers VALUES (1)", [])?)
}

fn no_single(_: &Connection) -> Done<Option<usize>> {
    Ok(None)
}

fn count(desk: &Desk) -> i64 {
    let session = desk.session.lock().expect("nobody panicked");
    session.conn.query_row("SELECT count(*) FROM numbers", [], |row| row.get(0)).expect("reads")
}

#[test]
fn who_is_alone_before_a_quick_disk_commits_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = desk(&folder, Duration::MAX);
    for _ in 0..3 {
        assert_eq!(desk.at_once(no_single, add), Some(Ok(1)));
    }
    assert_eq!(count(&desk), 3);
}

#[test]
fn what_one_statement_can_do_is_not_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = desk(&folder, Duration::MAX);
    let single = |conn: &Connection| add(conn).map(Some);
    assert_eq!(desk.at_once(single, |_| panic!("it is done")), Some(Ok(1)));
    assert_eq!(count(&desk), 1);
}

#[test]
fn who_finds_others_writing_leaves_it_to_the_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = desk(&folder, Duration::MAX);
    let held = desk.session.lock().expect("nobody panicked");
    assert_eq!(desk.at_once(no_single, add), None, "somebody has the connection");
    drop(held);
    desk.queued.store(1, Ordering::Release);
    assert_eq!(desk.at_once(no_single, add), None, "somebody waits");
    assert_eq!(count(&desk), 0);
}

#[test]
fn a_slow_commit_among_quick_ones_sends_nobody_to_the_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut desk = desk(&folder, Duration::MAX);
    for _ in 0..5 {
        desk.quick = Duration::ZERO;
        assert_eq!(desk.at_once(no_single, add), Some(Ok(1)));
        desk.quick = Duration::MAX;
        for _ in 0..SLOW_WEIGHS {
            assert_eq!(desk.at_once(no_single, add), Some(Ok(1)));
        }
    }
}

#[test]
fn a_slow_disk_leaves_commits_to_the_thread_until_it_was_quick_for_a_while() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut desk = desk(&folder, Duration::ZERO);
    for _ in 0..2 {
        assert_eq!(desk.at_once(no_single, add), Some(Ok(1)), "one of them says nothing");
    }
    assert_eq!(desk.at_once(no_single, add), None);
    // Slow and fast commits of the thread update the counter.
    for _ in 0..100 {
        desk.note(now());
    }
    desk.quick = Duration::MAX;
    for _ in 0..64 {
        assert_eq!(desk.at_once(no_single, add), None);
        desk.note(now());
    }
    assert_eq!(desk.at_once(no_single, add), Some(Ok(1)));
    assert_eq!(count(&desk), 3);
}

#[test]
fn nobody_waits_for_another_process_at_the_desk() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = desk(&folder, Duration::MAX);
    let other = Connection::open(folder.path().join("desk.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locks");
    // Waiting for the lock would take a minute.
    assert_eq!(desk.at_once(no_single, add), None);
    other.execute_batch("ROLLBACK").expect("unlocks");
    assert_eq!(desk.at_once(no_single, add), Some(Ok(1)));
    assert_eq!(count(&desk), 1);
}
