//! The root of a folder, beneath which files are opened.

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use weftwork_tools::ToolError;

/// Maximum number of parts of a path.
pub const PARTS_MAX: usize = 64;

/// An open folder. It stays the same if the name of the folder becomes that of another one.
#[derive(Debug)]
pub(crate) struct Root(OwnedFd);

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a file or folder by its path relative to the root.
    pub(crate) fn beneath(&self, path: &str) -> Result<OwnedFd, ToolError> {
        let parts = parts(path)?;
        let mut found = child(&self.0, ".", OFlags::DIRECTORY).map_err(|e| failure(path, e))?;
        for (index, part) in parts.iter().enumerate() {
            let folder = index + 1 < parts.len();
            let flags = if folder { OFlags::DIRECTORY } else { OFlags::empty() };
            found = child(&found, part, flags).map_err(|error| failure(path, error))?;
        }
        Ok(found)
    }
}

/// Opens an entry of a folder. A link is not followed, and a pipe does not block.
pub(crate) fn child(folder: &OwnedFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// The parts of a path, without `.`.
fn parts(path: &str) -> Result<Vec<&str>, ToolError> {
    let refuse = |problem: &str| {
        Err(ToolError::invalid_args(format_args!(
            "path `{}` {problem}; expected a path within the folder, such as `src/main.rs`",
            path.escape_debug()
        )))
    };
    if path.starts_with('/') {
        return refuse("is absolute");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refuse("leads upwards (`..`)");
    }
    if path.contains('\0') {
        return refuse("contains a NUL");
    }
    if parts.len() > PARTS_MAX {
        return refuse("has more than 64 parts");
    }
    Ok(parts)
}

fn failure(path: &str, error: Errno) -> ToolError {
    let path = path.escape_debug();
    match error {
        Errno::NOENT => ToolError::failed(format_args!("there is no file `{path}`")),
        Errno::LOOP | Errno::NOTDIR => ToolError::failed(format_args!(
            "`{path}` cannot be opened: a part of it is a link, which is not followed, or no folder"
        )),
        other => {
            let error = io::Error::from(other);
            ToolError::failed(format_args!("`{path}` cannot be opened: {error}"))
        }
    }
}

/// The length of an open file; `None` if it is no regular file.
pub(crate) fn regular(file: &File) -> Option<u64> {
    let about = file.metadata().ok()?;
    about.is_file().then_some(about.len())
}
