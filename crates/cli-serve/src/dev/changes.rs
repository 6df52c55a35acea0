//! Changes of files, found by reading their metadata at intervals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Interval of the readings. A change is reported after two equal readings, because a file may be
/// read while it is written.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Metadata of a file that differs after a change; `None` if the file does not exist.
type Stamp = Option<(u64, Option<SystemTime>)>;

/// The files that are watched.
#[derive(Debug)]
pub(super) struct Changes {
    files: Vec<Watched>,
    every: Interval,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    reported: Stamp,
    last: Stamp,
    /// `true` if the file is of no use while it does not exist: a program that is being linked.
    needed: bool,
}

impl Changes {
    /// Watches the program and its files from now on.
    pub(super) fn of(program: &Path, files: impl IntoIterator<Item = PathBuf>) -> Self {
        let watched = |path: PathBuf, needed: bool| {
            let stamp = read_stamp(&path);
            Watched { path, reported: stamp, last: stamp, needed }
        };
        let mut all = vec![watched(program.to_owned(), true)];
        all.extend(files.into_iter().map(|path| watched(path, false)));
        let mut every = interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { files: all, every }
    }

    /// Waits until a file has changed, and returns its path. Cancel safe.
    pub(super) async fn next(&mut self) -> PathBuf {
        loop {
            self.every.tick().await;
            if let Some(path) = self.files.iter_mut().filter_map(Watched::look).next_back() {
                return path;
            }
        }
    }
}

impl Watched {
    /// Reads the metadata; returns the path if it has changed since the last report and no longer
    /// changes.
    fn look(&mut self) -> Option<PathBuf> {
        let now = read_stamp(&self.path);
        let rests = now == std::mem::replace(&mut self.last, now);
        if !rests || now == self.reported || self.needed && now.is_none() {
            return None;
        }
        self.reported = now;
        Some(self.path.clone())
    }
}

fn read_stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_and_only_when_it_rests() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "1").expect("written");
        let mut changes = Changes::of_files(&path);
        assert_eq!(changes.look(), None);
        fs::write(&path, "22").expect("written");
        assert_eq!(changes.look(), None, "it may be written just now");
        fs::write(&path, "333").expect("written");
        assert_eq!(changes.look(), None);
        assert_eq!(changes.look(), Some(path.clone()));
        assert_eq!(changes.look(), None);
        fs::remove_file(&path).expect("removed");
        changes.needed = true;
        assert_eq!((changes.look(), changes.look()), (None, None), "a program is linked");
        changes.needed = false;
        assert_eq!(changes.look(), Some(path));
    }

    impl Changes {
        fn of_files(path: &Path) -> Watched {
            let stamp = read_stamp(path);
            Watched { path: path.to_owned(), reported: stamp, last: stamp, needed: false }
        }
    }
}
