//! Visits the text files of a folder, within limits.

use crate::root::{child, regular};
use rustix::fs::{Dir, FileType, OFlags, fstat};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weftwork_tools::ToolError;
use weftwork_types::port::Clock;

/// Maximum length of a searched file, in bytes. Longer ones are passed over.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of entries that a search looks at.
pub const ENTRIES_MAX: u32 = 50_000;
/// Maximum number of bytes that a search reads.
pub const BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Maximum time of a search.
pub const TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum depth of searched folders.
pub const DEPTH_MAX: u32 = 32;

/// A visit of a text file: its path and its text. `false` ends the walk.
pub(crate) type Visit<'a> = dyn FnMut(&str, &str) -> bool + 'a;

/// A walk through a folder.
#[derive(Debug)]
pub(crate) struct Walk {
    clock: Arc<dyn Clock>,
    until: Duration,
    cancelled: Arc<AtomicBool>,
    entries: u32,
    bytes: u64,
    /// Number of visited files.
    pub(crate) files: u32,
    /// The limit at which the walk ended early.
    pub(crate) stopped: Option<String>,
}

impl Walk {
    fn new(clock: Arc<dyn Clock>, cancelled: Arc<AtomicBool>) -> Self {
        let until = clock.elapsed() + TIME_MAX;
        Self { clock, until, cancelled, entries: 0, bytes: 0, files: 0, stopped: None }
    }

    fn stop(&mut self, why: String) -> bool {
        self.stopped.get_or_insert(why);
        false
    }

    /// Counts an entry; `false` at a limit.
    fn entry(&mut self) -> bool {
        self.entries += 1;
        if self.cancelled.load(Ordering::Relaxed) {
            return self.stop("the call was cancelled".to_owned());
        }
        if self.entries > ENTRIES_MAX {
            return self.stop(format!("{ENTRIES_MAX} entries"));
        }
        if self.clock.elapsed() > self.until {
            return self.stop(format!("{} s", TIME_MAX.as_secs()));
        }
        true
    }

    /// Visits an opened file, or all files of an opened folder in the order of their names.
    pub(crate) fn visit(&mut self, opened: OwnedFd, path: &str, visit: &mut Visit<'_>) {
        if self.entry() {
            self.any(opened, path.trim_end_matches('/'), 0, visit);
        }
    }

    fn any(&mut self, opened: OwnedFd, path: &str, depth: u32, visit: &mut Visit<'_>) -> bool {
        match fstat(&opened).map(|about| FileType::from_raw_mode(about.st_mode)) {
            Ok(FileType::Directory) => self.folder(&opened, path, depth, visit),
            Ok(FileType::RegularFile) => self.file(opened, path, visit),
            _ => true,
        }
    }

    fn folder(&mut self, folder: &OwnedFd, path: &str, depth: u32, visit: &mut Visit<'_>) -> bool {
        if depth > DEPTH_MAX {
            // Other folders may still be searched.
            self.stop(format!("{DEPTH_MAX} levels of folders"));
            return true;
        }
        let Ok(entries) = Dir::read_from(folder) else { return true };
        let mut names: Vec<String> = Vec::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with('.') {
                continue;
            }
            if !self.entry() {
                return false;
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        for name in names {
            let at = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            // Links, vanished entries and those without permission are passed over.
            let Ok(opened) = child(folder, &name, OFlags::empty()) else { continue };
            if !self.any(opened, &at, depth + 1, visit) {
                return false;
            }
        }
        true
    }

    fn file(&mut self, opened: OwnedFd, path: &str, visit: &mut Visit<'_>) -> bool {
        let file = File::from(opened);
        let Some(length) = regular(&file).filter(|length| *length <= FILE_BYTES_MAX) else {
            return true;
        };
        if self.bytes + length > BYTES_MAX {
            return self.stop(format!("{BYTES_MAX} bytes"));
        }
        if self.clock.elapsed() > self.until {
            return self.stop(format!("{} s", TIME_MAX.as_secs()));
        }
        let mut bytes = Vec::new();
        // The file may have grown since.
        let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        self.bytes += bytes.len() as u64;
        match String::from_utf8(bytes) {
            Ok(text) if read.is_ok() && !text.contains('\0') => {
                self.files += 1;
                visit(path, &text)
            }
            _ => true,
        }
    }
}

/// Runs a walk on a thread for blocking work. It ends early if the future is dropped.
pub(crate) async fn run<T: Send + 'static>(
    clock: Arc<dyn Clock>,
    work: impl FnOnce(&mut Walk) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let guard = CancelOnDrop(Arc::clone(&cancelled));
    let walk = move || work(&mut Walk::new(clock, cancelled));
    let found = tokio::task::spawn_blocking(walk).await;
    drop(guard);
    found.map_err(|_| ToolError::failed("the folder cannot be searched: its search broke off"))?
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
