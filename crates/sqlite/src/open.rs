//! Opening of the database file.

use crate::error::{Done, Fail, StoreLocation};
use crate::schema::{self, Formats, HEADER_BYTES, Owner};
use crate::store::{Durability, Options};
use crate::upkeep::beside;
use rusqlite::{Connection, OpenFlags};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;
use weftwork_store::StoreError;

/// Pause between two attempts to switch a new file to write-ahead logging, in milliseconds.
const SWITCH_PAUSE_MS: u64 = 10;
/// Capacity of the prepared statement cache per connection, larger than the number of statements.
const STATEMENTS_MAX: usize = 96;
/// Length of the log at which its pages are moved into the file, in pages. Each move waits for the
/// disk twice, and moves each page once, however often it was written.
const LOG_PAGES: i64 = 4_000;
/// Size to which the log is truncated after a burst, in bytes.
const LOG_BYTES_MAX: i64 = 64 << 20;

/// End of the name of the empty file beside a store that is open, or that was when its process died.
pub(crate) const OPEN: &str = "-open";

/// Opens the connection that writes. Creates the file and its folder if they do not exist. `first` if
/// this process has no other store open.
pub(crate) fn writer(
    path: &Path,
    location: &StoreLocation,
    options: &Options,
    first: bool,
    formats: &Formats,
) -> Result<Connection, StoreError> {
    make_file(path, location, first)?;
    if first {
        check_log(path, location)?;
    }
    let set_up = || -> Done<Connection> {
        let mut conn = connect(path, location)?;
        match schema::owner(&conn)? {
            // Before anything is written.
            Owner::Us => drop(formats.check(&conn, location)?),
            Owner::Nobody => new_file(&conn)?,
            Owner::Other(id) => return Err(foreign(location, id).into()),
        }
        // Before the log, and removed after it, so that a process that dies between is recognised.
        mark_open(path, location)?;
        log_ahead(&conn, location)?;
        configure(&conn, options)?;
        formats.migrate(&mut conn, location)?;
        Ok(conn)
    };
    set_up().map_err(|fail| match &fail {
        Fail::Sqlite(error) if is_about_folder(error) && has_no_descriptors(path) => {
            StoreError::Unavailable {
                location: location.name(),
                reason: "too many open files in this process; raise their limit (`ulimit -n`)"
                    .to_owned(),
                retriable: true,
            }
        }
        Fail::Sqlite(error) if is_about_folder(error) => needs_folder(location),
        _ => location.fail(fail),
    })
}

fn needs_folder(location: &StoreLocation) -> StoreError {
    StoreError::ReadOnly {
        location: location.name(),
        reason: "the log and lock files beside it need a writable folder".to_owned(),
    }
}

/// Returns `true` if an error concerns the folder of the file. The file itself was opened for
/// writing before.
fn is_about_folder(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Returns `true` if the process, or the system, cannot open any more files. SQLite reports that as a
/// file that cannot be opened. Opens the folder: closing the file of a store would release the locks of
/// this process.
fn has_no_descriptors(path: &Path) -> bool {
    /// `ENFILE` and `EMFILE`, on all systems.
    const NO_DESCRIPTORS: [i32; 2] = [23, 24];
    /// Files of a connection: the database, its log, the index of the log, and their folder.
    const OF_CONNECTION: usize = 4;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let opened: Vec<_> = (0..OF_CONNECTION).map(|_| File::open(folder)).collect();
    let codes = opened.iter().filter_map(|opened| opened.as_ref().err()?.raw_os_error());
    codes.into_iter().any(|code| NO_DESCRIPTORS.contains(&code))
}

/// Opens a read-only connection to a file that [`writer`] has opened before.
pub(crate) fn reader(path: &Path, location: &StoreLocation) -> Result<Connection, StoreError> {
    let set_up = || -> Done<Connection> {
        let conn = connect(path, location)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    set_up().map_err(|fail| location.fail(fail))
}

/// Opens a connection for maintenance of the whole file. Its writes wait for the disk.
pub(crate) fn upkeep(path: &Path, location: &StoreLocation) -> Result<Connection, StoreError> {
    connect(path, location).map_err(|fail| location.fail(fail))
}

fn connect(path: &Path, location: &StoreLocation) -> Done<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(Duration::from_millis(location.busy_timeout_ms))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Deleted content is overwritten with zeros in pages that are written anyway; pages that become
    // empty are released.
    conn.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))?;
    Ok(conn)
}

/// Returns `true` if a file needs a log that is not there, and is not one whose process died while it
/// closed the file.
fn lacks_log(path: &Path) -> bool {
    let header = || -> std::io::Result<[u8; HEADER_BYTES]> {
        let mut header = [0; HEADER_BYTES];
        File::open(path)?.read_exact(&mut header)?;
        Ok(header)
    };
    // A file without a whole header has no content that a log could belong to.
    header().is_ok_and(|header| schema::has_log(&header))
        && !beside(path, "-wal").exists()
        && !beside(path, OPEN).exists()
}

/// Refuses a file that was copied while it was open, without its log. No other connection of this
/// process may be open.
pub(crate) fn check_log(path: &Path, location: &StoreLocation) -> Result<(), StoreError> {
    // A file that another process closes or opens meanwhile is looked at again.
    if !(lacks_log(path) && lacks_log(path)) {
        return Ok(());
    }
    let log = beside(path, "-wal");
    Err(StoreError::Corrupt {
        location: format!("store `{}`", location.name),
        what: format!(
            "it was copied while it was in use, without its log `{}`: what was written last is \
             missing; copy a store with `weft store backup`",
            log.display()
        ),
    })
}

fn mark_open(path: &Path, location: &StoreLocation) -> Result<(), StoreError> {
    let mark = beside(path, OPEN);
    let made =
        private_file(OpenOptions::new().write(true).create(true).truncate(false)).open(&mark);
    made.map(drop).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => needs_folder(location),
        _ => location.io(&mark, &error),
    })
}

/// Moves the log into the file and removes it, before the last connection to the file is closed. Does
/// nothing if other connections are open.
pub(crate) fn end_log(conn: &Connection) {
    let ended = conn.busy_timeout(Duration::ZERO).and_then(|()| {
        conn.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))
    });
    let path = conn.path().filter(|path| !path.is_empty());
    if let (Ok("delete"), Some(path)) = (ended.as_deref(), path) {
        // A mark that stays makes no difference to the content of the store.
        drop(std::fs::remove_file(beside(Path::new(path), OPEN)));
    }
}

fn make_file(path: &Path, location: &StoreLocation, first: bool) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        make_folder(folder, location)?;
    }
    if path.is_dir() {
        return Err(location.unavailable("it is a folder; name a file in it"));
    }
    match private_file(OpenOptions::new().write(true).create_new(true)).open(path) {
        // To close a file releases the locks that this process has on it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !first => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => writable(path, location),
        Err(error) => Err(location.io(path, &error)),
        Ok(_) => Ok(()),
    }
}

/// Creates a folder, readable by its owner only, if it does not exist.
pub(crate) fn make_folder(folder: &Path, location: &StoreLocation) -> Result<(), StoreError> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    private_folder().create(folder).map_err(|error| location.io(folder, &error))
}

fn writable(path: &Path, location: &StoreLocation) -> Result<(), StoreError> {
    let opened: std::io::Result<File> = OpenOptions::new().read(true).write(true).open(path);
    opened.map(drop).map_err(|error| location.io(path, &error))
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Restricts a file to its owner, because it contains whole conversations. SQLite creates the files
/// beside it with the same mode.
pub(crate) fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Configures a new file. This has to precede the first write: later it would require a rewrite of
/// the whole file.
fn new_file(conn: &Connection) -> Done<()> {
    Ok(conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?)
}

/// Switches to write-ahead logging. If two processes open a new file at the same time, SQLite may
/// return a lock error here without waiting, so this retries.
fn log_ahead(conn: &Connection, location: &StoreLocation) -> Done<()> {
    let mut tries = location.busy_timeout_ms / SWITCH_PAUSE_MS;
    conn.busy_timeout(Duration::ZERO)?;
    loop {
        let mode = conn
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => break,
            Ok(mode) => {
                let reason = format!("it cannot use a write-ahead log, only `{mode}`");
                return Err(location.unavailable(reason).into());
            }
            Err(error) if is_busy(&error) && tries > 0 => {
                tries -= 1;
                std::thread::sleep(Duration::from_millis(SWITCH_PAUSE_MS));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(conn.busy_timeout(Duration::from_millis(location.busy_timeout_ms))?)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

fn configure(conn: &Connection, options: &Options) -> Done<()> {
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    let limit = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    conn.pragma_update_and_check(None, "wal_autocheckpoint", LOG_PAGES, limit)?;
    conn.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX, limit)?;
    if let Some(bytes) = options.size_bytes_max {
        let page: u64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = i64::try_from(bytes / page.max(1)).unwrap_or(i64::MAX);
        conn.pragma_update_and_check(None, "max_page_count", pages.max(1), limit)?;
    }
    Ok(())
}

fn foreign(location: &StoreLocation, id: i64) -> StoreError {
    location.unavailable(format!(
        "it is a database of another program (application id {id}, expected {}); name another file",
        schema::APPLICATION_ID
    ))
}
