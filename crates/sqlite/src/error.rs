//! Conversion of SQLite and system errors to store errors.

use rusqlite::ErrorCode;
use std::io;
use std::path::Path;
use std::sync::Arc;
use weftwork_store::StoreError;

/// A failure inside a transaction: a store error, or an SQLite error to which the name of the
/// database is not yet added.
#[derive(Debug)]
pub(crate) enum Fail {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

/// The result of work on a connection.
pub(crate) type Done<T> = Result<T, Fail>;

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// The name of the database in errors.
#[derive(Debug, Clone)]
pub(crate) struct StoreLocation {
    pub(crate) name: Arc<str>,
    pub(crate) busy_timeout_ms: u64,
}

impl StoreLocation {
    pub(crate) fn name(&self) -> String {
        self.name.as_ref().to_owned()
    }

    pub(crate) fn fail(&self, fail: Fail) -> StoreError {
        match fail {
            Fail::Store(error) => error,
            Fail::Sqlite(error) => self.sqlite(&error),
        }
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Unavailable { location: self.name(), reason: reason.into(), retriable: false }
    }

    pub(crate) fn locked(&self) -> StoreError {
        StoreError::Locked { location: self.name(), waited_ms: self.busy_timeout_ms }
    }

    fn sqlite(&self, error: &rusqlite::Error) -> StoreError {
        let location = self.name();
        let reason = reason(error);
        let Some(code) = error.sqlite_error_code().filter(|_| !is_misfit(error)) else {
            return StoreError::Corrupt { location: format!("store `{location}`"), what: reason };
        };
        match code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => self.locked(),
            ErrorCode::DiskFull => StoreError::Full { location, reason },
            ErrorCode::SystemIoFailure if is_without_room(error) => {
                StoreError::Full { location, reason }
            }
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
                StoreError::ReadOnly { location, reason }
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                StoreError::Corrupt { location: format!("store `{location}`"), what: reason }
            }
            ErrorCode::SystemIoFailure => {
                StoreError::Unavailable { location, reason, retriable: true }
            }
            _ => self.unavailable(reason),
        }
    }

    pub(crate) fn io(&self, what: &Path, error: &io::Error) -> StoreError {
        let location = self.name();
        let reason = format!("`{}`: {error}", what.display());
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { location, reason }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full { location, reason }
            }
            _ => self.unavailable(reason),
        }
    }
}

/// Returns `true` if the shared-memory index beside the file could not grow, which has its own
/// error code.
fn is_without_room(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|failure| failure.extended_code);
    code == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
}

/// Returns `true` if a statement does not match the tables. The statements of this crate are
/// tested, so another program must have changed the file.
fn is_misfit(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqlInputError { .. } => true,
        rusqlite::Error::SqliteFailure(failure, _) => {
            failure.extended_code == rusqlite::ffi::SQLITE_ERROR
        }
        _ => false,
    }
}

/// Returns the SQLite message without the text of the statement.
fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}
