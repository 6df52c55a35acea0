//! Access keys of a file that changes while the server runs.

use super::keys::{AccessKey, KeyFile, KeyFileError};
use super::{Client, Entry, new_token};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weftwork_types::Timestamp;

/// Time for which the file is not read again.
const PAUSE: Duration = Duration::from_secs(1);

/// The keys of a file, as they were when it was last valid.
pub(super) struct WatchedKeys {
    file: KeyFile,
    /// Part of the secret of sessions: the file alone must not be enough to make one.
    secret: String,
    state: Mutex<KeyFileState>,
}

struct KeyFileState {
    read_at: Timestamp,
    /// Text of the file when it was last read.
    text: String,
    entries: Arc<[Entry]>,
    /// Problem of the file, if it has one.
    problem: Option<KeyFileError>,
}

impl WatchedKeys {
    /// Reads the file for the first time.
    pub(super) fn open(file: KeyFile) -> Result<Self, KeyFileError> {
        let text = file.text()?;
        let secret = new_token();
        let entries = entries_of(file.keys_of(&text)?, &secret);
        let state = KeyFileState { read_at: Timestamp(0), text, entries, problem: None };
        Ok(Self { file, secret, state: Mutex::new(state) })
    }

    /// Returns the keys. The file is read again at most once a second; reading it takes no longer
    /// than a look at its state, because it is small. A file that is broken changes nothing, and is
    /// reported once.
    pub(super) fn entries(&self, now: Timestamp) -> Arc<[Entry]> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if u128::from(now.0.abs_diff(state.read_at.0)) >= PAUSE.as_millis() {
            state.read_at = now;
            if let Some(problem) = self.refresh(&mut state) {
                tracing::error!(%problem, "the keys stay as they are");
            }
        }
        Arc::clone(&state.entries)
    }

    /// Reads the file again, and returns its problem if it is a new one.
    fn refresh(&self, state: &mut KeyFileState) -> Option<KeyFileError> {
        let found = match self.file.text() {
            Ok(text) if text == state.text => {
                // The text may be broken still, but its problem with the system is over.
                state.problem.take_if(|problem| !matches!(problem, KeyFileError::Invalid { .. }));
                return None;
            }
            Ok(text) => {
                let keys = self.file.keys_of(&text);
                state.text = text;
                keys
            }
            Err(problem) => Err(problem),
        };
        match found {
            Ok(keys) => {
                tracing::info!(file = %self.file.path().display(), keys = keys.len(), "keys were read");
                state.entries = entries_of(keys, &self.secret);
                state.problem = None;
                None
            }
            Err(problem) if state.problem.as_ref() == Some(&problem) => None,
            Err(problem) => {
                state.problem = Some(problem.clone());
                Some(problem)
            }
        }
    }
}

fn entries_of(keys: Vec<AccessKey>, secret: &str) -> Arc<[Entry]> {
    let entry = |key: AccessKey| {
        let AccessKey { hash, principal, billing_account, virtual_key } = key;
        let client = Client { billing_account, virtual_key, ..Client::local(principal) };
        let session_secret = [secret.as_bytes(), hash.as_bytes()].concat();
        Entry { hash, session_secret, client }
    };
    keys.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(path: &Path, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(path, text).expect("written");
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
    }

    fn subjects(keys: &WatchedKeys, now: i64) -> Vec<String> {
        let entries = keys.entries(Timestamp(now));
        entries.iter().map(|entry| entry.client.principal.subject.clone()).collect()
    }

    #[test]
    fn a_change_counts_within_a_second_and_a_broken_file_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let line = |hash: char, subject: &str| {
            format!("{} acme {subject} local local read\n", hash.to_string().repeat(64))
        };
        write(&path, &line('a', "ada"), 0o600);
        let keys = WatchedKeys::open(KeyFile::new(&path)).expect("keys");
        assert_eq!(subjects(&keys, 10_000), ["ada"]);
        write(&path, &line('b', "bob"), 0o600);
        assert_eq!(subjects(&keys, 10_999), ["ada"], "the file is not read yet");
        assert_eq!(subjects(&keys, 11_000), ["bob"]);
        // A clock that is set back does not stop it.
        write(&path, &line('c', "cy"), 0o600);
        assert_eq!(subjects(&keys, 5_000), ["cy"]);
        let refresh = || keys.refresh(&mut keys.state.lock().expect("no panic"));
        for (text, mode) in [("broken", 0o600), ("# nothing", 0o644)] {
            write(&path, text, mode);
            assert!(refresh().is_some(), "{text} is reported");
            assert_eq!(refresh(), None, "and once");
            assert_eq!(subjects(&keys, 20_000), ["cy"]);
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(refresh().is_some());
        write(&path, "# nobody\n", 0o600);
        assert_eq!(refresh(), None);
        assert_eq!(subjects(&keys, 30_000), Vec::<String>::new());
        assert!(matches!(
            WatchedKeys::open(KeyFile::new(folder.path().join("none"))).err(),
            Some(KeyFileError::Unreadable { .. })
        ));
    }
}
