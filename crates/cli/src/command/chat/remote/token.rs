//! Tokens of servers: of the command line, of the environment, and saved ones.

use std::collections::BTreeMap;
use std::env::VarError;
use std::io::Write;
use std::path::PathBuf;
use weftwork_cli_base::CliError;

/// Environment variable for the token of a server.
const VARIABLE: &str = "WEFT_TOKEN";
/// File of the saved tokens, in the user's data folder.
const FILE: &str = "tokens.json";
/// Maximum size of that file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Saved tokens by the addresses of their servers, readable by their owner only.
pub(super) struct Tokens {
    file: Option<PathBuf>,
}

impl Tokens {
    pub(super) fn new(data: Option<&PathBuf>) -> Self {
        Self { file: data.map(|folder| folder.join(FILE)) }
    }

    /// Returns the token for a server: that of the flag, of the environment, or the saved one.
    pub(super) fn choose(&self, flag: Option<&str>, url: &str) -> Result<Option<String>, CliError> {
        if let Some(token) = flag {
            return Ok(Some(token.to_owned()));
        }
        match std::env::var(VARIABLE) {
            Ok(token) if !token.is_empty() => Ok(Some(token)),
            Ok(_) | Err(VarError::NotPresent) => Ok(self.read_tokens()?.remove(url)),
            Err(VarError::NotUnicode(_)) => {
                let reason = format!("the environment variable {VARIABLE} is not UTF-8");
                Err(CliError::BadInput { reason })
            }
        }
    }

    fn read_tokens(&self) -> Result<BTreeMap<String, String>, CliError> {
        let Some(file) = self.file.as_ref().filter(|file| file.exists()) else {
            return Ok(BTreeMap::new());
        };
        let bad = |reason: String| CliError::BadInput {
            reason: format!("saved tokens in {}: {reason}; delete the file", file.display()),
        };
        let size = std::fs::metadata(file).map_err(|error| bad(error.to_string()))?.len();
        if size > FILE_BYTES_MAX {
            return Err(bad(format!("{size} bytes, expected at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
        // The error would quote a token.
        serde_json::from_str(&text).map_err(|_| bad("not an object of texts".to_owned()))
    }

    /// Saves a token for a server.
    pub(super) fn save(&self, url: &str, token: &str) -> Result<(), CliError> {
        let Some((file, folder)) = self.file.as_ref().and_then(|file| Some((file, file.parent()?)))
        else {
            let reason = "the token cannot be saved: no data folder is known; set HOME".to_owned();
            return Err(CliError::BadInput { reason });
        };
        let mut tokens = self.read_tokens()?;
        tokens.insert(url.to_owned(), token.to_owned());
        let text = serde_json::json!(tokens).to_string();
        let write = || {
            std::fs::create_dir_all(folder)?;
            // Temporary files are accessible by their owner only.
            let mut new = tempfile::NamedTempFile::new_in(folder)?;
            new.write_all(text.as_bytes())?;
            new.persist(file)?;
            Ok(())
        };
        write().map_err(|error: std::io::Error| CliError::BadInput {
            reason: format!("the token cannot be saved in {}: {error}", file.display()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE, Tokens};

    #[test]
    fn tokens_are_saved_for_their_server_and_for_their_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let tokens = Tokens::new(Some(&data));
        assert_eq!(tokens.choose(None, "http://a").expect("none"), None);
        tokens.save("http://a", "one").expect("saved");
        tokens.save("http://b", "two").expect("saved");
        assert_eq!(tokens.choose(None, "http://a").expect("read"), Some("one".to_owned()));
        assert_eq!(tokens.choose(Some("x"), "http://b").expect("given"), Some("x".to_owned()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(data.join(FILE)).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        std::fs::write(data.join(FILE), "{\"http://a\": \"secret").expect("written");
        let error = tokens.choose(None, "http://a").expect_err("damaged").to_string();
        assert!(error.contains(FILE) && !error.contains("secret"), "{error}");
    }
}
