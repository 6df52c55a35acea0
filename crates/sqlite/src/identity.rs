//! The file that a store was opened in, and its replacement while the store is open.

use crate::error::StoreLocation;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weftwork_store::StoreError;
use weftwork_types::store_error::FileChange;

/// The identity of the open file.
#[derive(Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    location: StoreLocation,
    #[cfg(unix)]
    opened: Found,
    /// The change after which nothing is read or written any more.
    lost: OnceLock<FileChange>,
}

impl Identity {
    /// Notes the identity of the file at this path, which the caller has just opened.
    pub(crate) fn of(path: &Path, location: StoreLocation) -> Result<Self, StoreError> {
        #[cfg(unix)]
        let opened = Found::at(path).map_err(|error| location.io(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            location,
            #[cfg(unix)]
            opened,
            lost: OnceLock::new(),
        })
    }

    /// Fails once the file is another one, or the owner may not use it.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.lost.get() {
            None => Ok(()),
            Some(change) => {
                Err(StoreError::FileChanged { location: self.location.name(), change: *change })
            }
        }
    }

    /// Compares the file at the path with the one that was opened. The file is not opened for that:
    /// closing it would release the locks of this process.
    #[cfg(unix)]
    pub(crate) fn compare(&self) -> Result<(), StoreError> {
        let change = match Found::at(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(FileChange::Deleted),
            // The file may be readable again at the next look.
            Err(_) => None,
            Ok(found) if !found.is_same_file(&self.opened) => Some(FileChange::Replaced),
            Ok(found) if !found.is_usable && self.opened.is_usable => Some(FileChange::Unreadable),
            Ok(_) => None,
        };
        if let Some(change) = change {
            self.lost.get_or_init(|| change);
        }
        self.check()
    }

    /// An open file cannot be replaced on this platform.
    #[cfg(not(unix))]
    pub(crate) fn compare(&self) -> Result<(), StoreError> {
        self.check()
    }
}

/// A file as the system has it under a path.
#[cfg(unix)]
#[derive(Debug)]
struct Found {
    device: u64,
    inode: u64,
    /// `true` if its owner may read and write it.
    is_usable: bool,
}

#[cfg(unix)]
impl Found {
    fn at(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(path)?;
        let is_usable = found.mode() & 0o600 == 0o600;
        Ok(Self { device: found.dev(), inode: found.ino(), is_usable })
    }

    fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}
