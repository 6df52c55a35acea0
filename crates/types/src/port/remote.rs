//! Threads on other servers that belong to local threads.

use crate::BoxFuture;
use crate::canonical::Hash;
use crate::code::Fault;
use serde::{Deserialize, Serialize};

/// A server with threads that belong to local threads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteAddress {
    /// Name under which the program knows the server.
    pub name: String,
    /// Address of the server.
    pub url: String,
}

/// A use of a thread on another server, unique within the local thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUse {
    /// The server.
    pub server: RemoteAddress,
    /// Name of the use: what shares a name shares the thread on the server.
    pub name: Hash,
}

/// A thread on another server, as recorded with the local thread that uses it, and as a record of its
/// deletion after that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteThreadRecord {
    /// The server.
    pub server: RemoteAddress,
    /// Id of the thread there, drawn at random.
    pub thread: String,
}

/// Deletes threads on another server.
pub trait RemoteThreads: Send + Sync + std::fmt::Debug {
    /// The server.
    fn server(&self) -> RemoteAddress;

    /// Deletes a thread with its runs. Succeeds if the thread does not exist. One attempt; the caller
    /// repeats it later.
    ///
    /// # Errors
    /// The server was not reached, or refused the request.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), Fault>>;
}
