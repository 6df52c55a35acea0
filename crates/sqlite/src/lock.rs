//! Detection of dead workers by file locks.
//!
//! A worker holds an exclusive lock on its own file beside the database while its process lives. A
//! process that can lock the file can conclude that the worker is dead, and need not wait for the
//! end of its lease. One that cannot can conclude that the worker lives, also if its lease has
//! expired: a process that was suspended continues with the call that it was in, and a takeover
//! would make this call twice. If the file does not exist, the lease decides.

use crate::error::StoreLocation;
use crate::open::private_file;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_store::StoreError;
use weftwork_types::WorkerId;

/// Maximum number of attempts, if a cleanup removes the file between its creation and its locking.
const TRIES: usize = 8;

/// The state of a worker's process, as its lock shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    /// Another process holds the lock.
    Lives,
    /// Nobody holds the lock.
    Gone,
    /// There is no file, or the worker is one of this process.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Locks {
    path: PathBuf,
    location: StoreLocation,
    held: Mutex<BTreeMap<WorkerId, File>>,
}

impl Locks {
    pub(crate) fn new(path: &Path, location: StoreLocation) -> Self {
        Self { path: path.to_owned(), location, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<WorkerId, File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the lock of a worker of this process, if it is not held yet.
    pub(crate) fn hold(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let mut held = self.held();
        if held.contains_key(worker) {
            return Ok(());
        }
        let path = self.file_of(worker);
        for _ in 0..TRIES {
            let opened = private_file(OpenOptions::new().write(true).create(true).truncate(false))
                .open(&path);
            let file = opened.map_err(|error| self.location.io(&path, &error))?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    held.insert(worker.clone(), file);
                    return Ok(());
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(self.taken(worker)),
                Err(TryLockError::Error(error)) => return Err(self.location.io(&path, &error)),
            }
        }
        Err(self.taken(worker))
    }

    fn taken(&self, worker: &WorkerId) -> StoreError {
        StoreError::Unavailable {
            location: self.location.name(),
            reason: format!("worker `{worker}` is alive in another process"),
            retriable: true,
        }
    }

    /// Returns what is known of the process of a worker.
    pub(crate) fn process(&self, worker: &WorkerId) -> Process {
        if self.held().contains_key(worker) {
            return Process::Unknown;
        }
        let path = self.file_of(worker);
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
            return Process::Unknown;
        };
        // A shared lock, so that two concurrent checks do not mistake each other for the owner.
        match file.try_lock_shared() {
            Ok(()) => Process::Gone,
            Err(TryLockError::WouldBlock) => Process::Lives,
            Err(TryLockError::Error(_)) => Process::Unknown,
        }
    }

    /// Returns `true` if the worker's process is known to be dead.
    pub(crate) fn is_gone(&self, worker: &WorkerId) -> bool {
        self.process(worker) == Process::Gone
    }

    /// Releases a worker's lock and removes its file. Only for workers that are retired or dead.
    pub(crate) fn forget(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let path = self.file_of(worker);
        // The file is removed before the lock is released, so that no process locks a removed file.
        let removed = remove(&path);
        drop(self.held().remove(worker));
        removed.map_err(|error| self.location.io(&path, &error))
    }

    /// Returns the dead workers that have a lock file in this folder.
    pub(crate) fn gone(&self) -> Result<Vec<WorkerId>, StoreError> {
        Ok(self.workers()?.into_iter().filter(|worker| self.is_gone(worker)).collect())
    }

    /// Returns `true` if the process of a worker with a lock file lives.
    pub(crate) fn is_any_held(&self) -> Result<bool, StoreError> {
        Ok(!self.workers()?.iter().all(|worker| self.is_gone(worker)))
    }

    /// The workers that have a lock file in this folder.
    fn workers(&self) -> Result<Vec<WorkerId>, StoreError> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let io = |error| self.location.io(folder, &error);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            found.extend(name.to_str().and_then(|name| self.worker_of(name)));
        }
        Ok(found)
    }

    fn prefix(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        format!("{}.worker-", name.to_string_lossy())
    }

    fn file_of(&self, worker: &WorkerId) -> PathBuf {
        // Not all file systems allow colons in file names; ids never contain percent signs.
        let id = worker.as_str().replace(':', "%3A");
        self.path.with_file_name(format!("{}{id}.lock", self.prefix()))
    }

    fn worker_of(&self, file: &str) -> Option<WorkerId> {
        let id = file.strip_prefix(&self.prefix())?.strip_suffix(".lock")?;
        WorkerId::new(id.replace("%3A", ":")).ok()
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// An open file cannot be removed on this platform.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}
