//! Conversion of Postgres and network errors to store errors.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::error::{Error, SqlState};
use weftwork_store::StoreError;

/// A failure of work on a connection: a store error, or a Postgres error to which the name of the
/// database is not yet added.
#[derive(Debug)]
pub(crate) enum Fail {
    Store(StoreError),
    Postgres(Error),
    /// Another client uses the session of the connection.
    SharedSession,
    /// No response arrived in time.
    Silence {
        waited: Duration,
    },
}

/// The result of work on a connection.
pub(crate) type Done<T> = Result<T, Fail>;

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl Fail {
    /// Returns the Postgres error code, if the server responded.
    pub(crate) fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Postgres(error) => error.code(),
            Self::Store(_) | Self::SharedSession | Self::Silence { .. } => None,
        }
    }

    /// Returns `true` for what happens when a pooler executes statements in another session: a
    /// statement is or is not prepared there, and tables are not found without the search path.
    pub(crate) fn may_be_of_shared_session(&self) -> bool {
        let codes = [
            &SqlState::DUPLICATE_PSTATEMENT,
            &SqlState::INVALID_SQL_STATEMENT_NAME,
            &SqlState::UNDEFINED_PSTATEMENT,
            &SqlState::UNDEFINED_TABLE,
            &SqlState::UNDEFINED_FUNCTION,
        ];
        self.state().is_some_and(|code| codes.contains(&code))
    }

    /// Returns `true` if the server aborted the transaction for a reason that a retry can resolve:
    /// a deadlock, a serialization failure, a conflict in a unique index, or a table that changed
    /// under a prepared statement.
    pub(crate) fn is_collision(&self) -> bool {
        let codes = [
            &SqlState::T_R_SERIALIZATION_FAILURE,
            &SqlState::T_R_DEADLOCK_DETECTED,
            &SqlState::UNIQUE_VIOLATION,
        ];
        self.state().is_some_and(|code| codes.contains(&code)) || self.is_stale()
    }

    /// Returns `true` if a table changed under a prepared statement.
    pub(crate) fn is_stale(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
            && error.as_db_error().is_some_and(|db| db.message().contains("cached plan"))
    }

    /// Returns the message of a refusal with this code by a function of the store.
    pub(crate) fn refused(&self, code: &str) -> Option<&str> {
        let Self::Postgres(error) = self else { return None };
        let refusal = error.as_db_error().filter(|refusal| refusal.code().code() == code);
        refusal.map(|refusal| refusal.message())
    }

    /// Returns `true` if the connection is lost or unusable, or could not be established.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Store(_) | Self::SharedSession => false,
            Self::Silence { .. } => true,
            Self::Postgres(error) => match error.code() {
                Some(code) => is_away(code),
                None => error.is_closed() || is_io(error),
            },
        }
    }
}

/// Returns `true` if the server is shutting down, is starting up, or has no free connections.
fn is_away(code: &SqlState) -> bool {
    let codes = [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        &SqlState::TOO_MANY_CONNECTIONS,
    ];
    codes.contains(&code) || code.code().starts_with("08")
}

fn is_io(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<std::io::Error>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The name of the database in errors, without password and settings.
#[derive(Debug, Clone)]
pub(crate) struct StoreLocation {
    pub(crate) name: Arc<str>,
    pub(crate) wait_ms: u64,
}

impl StoreLocation {
    fn name(&self) -> String {
        self.name.as_ref().to_owned()
    }

    pub(crate) fn fail(&self, fail: Fail) -> StoreError {
        match fail {
            Fail::Store(error) => error,
            Fail::Postgres(error) => self.postgres(&error),
            Fail::SharedSession => self.unavailable(
                "a connection pooler between gives one session to several clients, as PgBouncer does in transaction mode; give the address of the database itself, or of a pool in session mode",
            ),
            Fail::Silence { waited } => {
                self.away(format!("it did not answer within {} ms", waited.as_millis()))
            }
        }
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Unavailable { location: self.name(), reason: reason.into(), retriable: false }
    }

    /// Creates an error for a condition that may be temporary.
    pub(crate) fn away(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Unavailable { location: self.name(), reason: reason.into(), retriable: true }
    }

    fn postgres(&self, error: &Error) -> StoreError {
        let reason = reason(error);
        let Some(code) = error.code() else {
            let lost = error.is_closed() || is_io(error);
            return if lost { self.away(reason) } else { self.unavailable(reason) };
        };
        if is_away(code) {
            return self.away(reason);
        }
        let location = self.name();
        match *code {
            SqlState::DISK_FULL => StoreError::Full { location, reason },
            SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => {
                StoreError::ReadOnly { location, reason }
            }
            SqlState::LOCK_NOT_AVAILABLE => {
                StoreError::Locked { location, waited_ms: self.wait_ms }
            }
            // The statements of this crate are tested, so another program must have changed the
            // tables.
            SqlState::DATA_CORRUPTED
            | SqlState::INDEX_CORRUPTED
            | SqlState::UNDEFINED_TABLE
            | SqlState::UNDEFINED_COLUMN
            | SqlState::UNDEFINED_FUNCTION => {
                StoreError::Corrupt { location: format!("store `{location}`"), what: reason }
            }
            SqlState::CHARACTER_NOT_IN_REPERTOIRE | SqlState::UNTRANSLATABLE_CHARACTER => {
                StoreError::Conflict {
                    location: "a record".to_owned(),
                    expected: "names that Postgres can hold, without NUL characters".to_owned(),
                    found: reason,
                }
            }
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::UNIQUE_VIOLATION
            | SqlState::QUERY_CANCELED
            | SqlState::OUT_OF_MEMORY
            | SqlState::IO_ERROR => self.away(reason),
            _ => self.unavailable(reason),
        }
    }
}

/// Returns the message of an error without the values of statements and without settings.
fn reason(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        let text = format!("{} ({})", db.message(), db.code().code());
        let is_plain = *db.code() == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            && db.message().ends_with("no encryption");
        return match is_plain {
            true => format!("{text}; it may take encrypted connections: add sslmode=require"),
            false => text,
        };
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    // The driver has no error code for this.
    if text.ends_with("server does not support TLS") {
        text.push_str(
            ", which its address demands; switch it on there (ssl = on), or use a local socket or a private network with sslmode=disable",
        );
    }
    text
}
