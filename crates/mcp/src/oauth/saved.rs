//! Logins as stored: a file for each address of a server, for the owner alone.

use super::client::Client;
use super::error::OauthError;
use super::token::Tokens;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use url::Url;

const VERSION: u32 = 1;
/// Length of the part of a hash that is in the name of a file, in bytes.
const NAME_BYTES: usize = 12;

/// A login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) version: u32,
    /// The server, without user name and query.
    pub(crate) server: String,
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) token_endpoint: Url,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) client: Client,
    /// Absent once the authorization server has ended the login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Tokens>,
    /// Scopes that a request needed and the token has not: the next login asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missing_scope: Option<String>,
}

impl Saved {
    pub(crate) fn version() -> u32 {
        VERSION
    }
}

/// The file of a login.
#[derive(Debug, Clone)]
pub(crate) struct LoginFile(PathBuf);

impl LoginFile {
    /// The file for an address. Two addresses have different files.
    pub(crate) fn of(folder: &Path, server: &Url) -> Self {
        let hash = Sha256::digest(server.as_str());
        let hash: String = hash.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
        let host = server.host_str().unwrap_or_default();
        let is_plain =
            |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-');
        let host: String = host.chars().filter(is_plain).take(80).collect();
        Self(folder.join(format!("{host}-{hash}.json")))
    }

    pub(crate) fn read(&self) -> Result<Option<Saved>, OauthError> {
        let text = match std::fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable_file(&error.to_string())),
        };
        // The text of a file with tokens is not repeated in an error.
        let saved: Saved = serde_json::from_slice(&text).map_err(|error| {
            self.unusable_file(&format!(
                "invalid at line {}, column {}",
                error.line(),
                error.column()
            ))
        })?;
        match saved.version == VERSION {
            true => Ok(Some(saved)),
            false => {
                Err(self.unusable_file(&format!("version {}, expected {VERSION}", saved.version)))
            }
        }
    }

    /// Writes the file, replacing an earlier one at once. The caller holds the lock.
    pub(crate) fn write(&self, saved: &Saved) -> Result<(), OauthError> {
        let new = self.0.with_extension("json.new");
        let written = || -> std::io::Result<()> {
            let text = serde_json::to_vec_pretty(saved)?;
            if let Err(error) = std::fs::remove_file(&new)
                && error.kind() != ErrorKind::NotFound
            {
                return Err(error);
            }
            let mut file =
                make_private(OpenOptions::new().write(true).create_new(true)).open(&new)?;
            file.write_all(&text)?;
            // A refresh token exists once: after a crash either the old or the new file is whole.
            file.sync_all()?;
            std::fs::rename(&new, &self.0)
        };
        written().map_err(|error| self.unusable_file(&error.to_string()))
    }

    /// Removes the file; `false` if there was none.
    pub(crate) fn remove(&self) -> Result<bool, OauthError> {
        match std::fs::remove_file(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.unusable_file(&error.to_string())),
        }
    }

    /// Waits for the lock of the file, which all processes take to change it. It ends with the
    /// returned handle. The lock has a file of its own, because that of the login is replaced.
    pub(crate) async fn lock(&self) -> Result<File, OauthError> {
        let path = self.0.with_extension("lock");
        let locked = tokio::task::spawn_blocking(move || -> std::io::Result<File> {
            create_folder(path.parent().unwrap_or(Path::new(".")))?;
            let mut options = OpenOptions::new();
            let file =
                make_private(options.write(true).create(true).truncate(false)).open(&path)?;
            file.lock()?;
            Ok(file)
        });
        match locked.await {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(error)) => Err(self.unusable_file(&format!("no lock: {error}"))),
            Err(error) => Err(self.unusable_file(&format!("no lock: {error}"))),
        }
    }

    fn unusable_file(&self, problem: &str) -> OauthError {
        OauthError::needed(format!("file of its login `{}`: {problem}", self.0.display()))
    }
}

/// Restricts a file to its owner.
fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
