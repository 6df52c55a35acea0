//! Access keys: a file with the hashes of tokens, and what each token stands for.
//!
//! A line is a key: the SHA-256 hash of a token in hexadecimal digits, organisation, subject, billing
//! account, virtual key and rights, with white space between them. Empty lines and lines that begin
//! with `#` are none. The tokens themselves are stored nowhere.

use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use weftwork_runtime::deleted_runs::SERVER_ORG;
use weftwork_types::{BillingAccountId, OrgId, Principal, VirtualKeyId};

/// Maximum size of a file of keys in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a subject in characters.
const SUBJECT_CHARS_MAX: usize = 256;
/// Number of digits of a hash by which a key is named.
const ID_DIGITS: usize = 12;
const FIELDS: &str = "hash, organisation, subject, account, virtual key and rights";

/// The SHA-256 hash of a token.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

/// A token by its hash, with its principal and the billing identity of the runs that it requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Hash of the token.
    pub hash: TokenHash,
    /// Principal of the requests with the token.
    pub principal: Principal,
    /// Account that is billed.
    pub billing_account: BillingAccountId,
    /// Virtual key of the calls.
    pub virtual_key: VirtualKeyId,
}

/// A file of access keys.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

/// A line that is no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProblem {
    /// Number of the line, from 1.
    pub line: usize,
    /// The problem and the expected text.
    pub reason: String,
}

/// Error of a file of access keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("the file of keys {} cannot be read: {reason}", file.display())]
    Unreadable {
        /// Path.
        file: PathBuf,
        /// Reason of the system.
        reason: String,
    },
    /// Users other than the owner can read or change the file.
    #[error(
        "the file of keys {} has the mode {mode:03o}; expected 600, so that nobody else reads it: run \
         `chmod 600 {}`", file.display(), file.display()
    )]
    Exposed {
        /// Path.
        file: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// Lines are no keys.
    #[error("the file of keys {} has lines that are no keys: {}", file.display(), join_problems(problems))]
    Invalid {
        /// Path.
        file: PathBuf,
        /// All of them.
        problems: Vec<KeyProblem>,
    },
}

fn join_problems(problems: &[KeyProblem]) -> String {
    let lines = problems.iter().map(|problem| format!("line {}: {}", problem.line, problem.reason));
    lines.collect::<Vec<_>>().join("; ")
}

impl TokenHash {
    /// Returns the hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Returns the first digits, by which the key is named.
    #[must_use]
    pub fn id(&self) -> String {
        self.to_string().chars().take(ID_DIGITS).collect()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Compares in a time that does not depend on the place of the first difference.
impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        super::equals_in_constant_time(&self.0, &other.0)
    }
}

impl Eq for TokenHash {}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({})", self.id())
    }
}

impl FromStr for TokenHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            let digits = text.len();
            format!("the hash has {digits} characters; expected 64 hexadecimal digits")
        };
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(problem());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).ok_or_else(problem)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| problem())?;
        }
        Ok(Self(bytes))
    }
}

/// The line of the key in a file.
impl fmt::Display for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hash, principal: Principal { org, subject, rights }, .. } = self;
        let Self { billing_account: account, virtual_key: key, .. } = self;
        write!(f, "{hash} {org} {subject} {account} {key} {rights}")
    }
}

impl FromStr for AccessKey {
    type Err = String;

    /// Reads a line.
    fn from_str(line: &str) -> Result<Self, String> {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [hash, org, subject, account, virtual_key, rights] = fields.as_slice() else {
            return Err(format!("{} fields; expected 6: {FIELDS}", fields.len()));
        };
        let id = |error: weftwork_types::id::InvalidId| error.to_string();
        let rights = rights.parse().map_err(|error| format!("{error}"))?;
        let principal = Principal::new(OrgId::new(org).map_err(id)?, *subject).with_rights(rights);
        let key = Self {
            hash: hash.parse()?,
            principal,
            billing_account: BillingAccountId::new(account).map_err(id)?,
            virtual_key: VirtualKeyId::new(virtual_key).map_err(id)?,
        };
        key.check()?;
        Ok(key)
    }
}

impl AccessKey {
    /// Checks that the key can be a line of a file, and its principal a client of a server.
    ///
    /// # Errors
    /// The problem and the expected text.
    pub fn check(&self) -> Result<(), String> {
        let Principal { org, subject, .. } = &self.principal;
        if is_reserved(org) {
            return Err(format!("the organisation `{org}` is reserved; choose another"));
        }
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
        let chars = subject.chars().count();
        if chars == 0 || chars > SUBJECT_CHARS_MAX || !subject.chars().all(is_plain) {
            let subject: String = subject.chars().take(80).collect();
            return Err(format!(
                "the subject is `{}`; expected 1 to {SUBJECT_CHARS_MAX} characters without white \
                 space",
                subject.escape_debug()
            ));
        }
        if self.principal.rights.iter().next().is_none() {
            return Err("the key has no right; expected one at least".to_owned());
        }
        Ok(())
    }
}

/// Returns `true` for organisations of servers.
pub(super) fn is_reserved(org: &OrgId) -> bool {
    org.as_str().starts_with(SERVER_ORG) || *org == Principal::of_workers().org
}

impl KeyFile {
    /// Names a file; it is not read yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys.
    ///
    /// # Errors
    /// The file cannot be read, other users can read it, or lines are no keys.
    pub fn read(&self) -> Result<Vec<AccessKey>, KeyFileError> {
        self.keys_of(&self.text()?)
    }

    /// Reads the text.
    ///
    /// # Errors
    /// The file cannot be read, or other users can read it.
    pub fn text(&self) -> Result<String, KeyFileError> {
        let file = std::fs::File::open(&self.path).map_err(|error| self.unreadable_file(&error))?;
        let metadata = file.metadata().map_err(|error| self.unreadable_file(&error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(KeyFileError::Exposed { file: self.path.clone(), mode });
            }
        }
        if metadata.len() > FILE_BYTES_MAX {
            let reason =
                format!("it has {} bytes; expected at most {FILE_BYTES_MAX}", metadata.len());
            return Err(KeyFileError::Unreadable { file: self.path.clone(), reason });
        }
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| self.unreadable_file(&error))?;
        Ok(text)
    }

    fn unreadable_file(&self, error: &std::io::Error) -> KeyFileError {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "; `weft keys add` makes it",
            _ => "",
        };
        KeyFileError::Unreadable { file: self.path.clone(), reason: format!("{error}{hint}") }
    }

    /// Reads the keys of a text of the file.
    ///
    /// # Errors
    /// All lines that are no keys.
    pub fn keys_of(&self, text: &str) -> Result<Vec<AccessKey>, KeyFileError> {
        let mut keys: Vec<(usize, AccessKey)> = Vec::new();
        let mut problems = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if !is_key(text) {
                continue;
            }
            let read = text.parse().and_then(|key: AccessKey| {
                let first = keys.iter().find(|(_, other)| other.hash == key.hash);
                let same = first.map(|(line, _)| format!("the hash is that of line {line}"));
                same.map_or(Ok(key), Err)
            });
            match read {
                Ok(key) => keys.push((line, key)),
                Err(reason) => problems.push(KeyProblem { line, reason }),
            }
        }
        match problems.is_empty() {
            true => Ok(keys.into_iter().map(|(_, key)| key).collect()),
            false => Err(KeyFileError::Invalid { file: self.path.clone(), problems }),
        }
    }
}

/// Returns `true` for a line that is a key, not a comment.
fn is_key(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::{Right, Rights};

    fn line(hash: char, rest: &str) -> String {
        format!("{} {rest}", hash.to_string().repeat(64))
    }

    #[test]
    fn a_line_is_a_key_and_reads_as_it_is_written() {
        let key: AccessKey =
            line('a', "acme ada@example.org acct-1 vk-1 run,read").parse().expect("a key");
        assert_eq!(key.principal.org.as_str(), "acme");
        assert_eq!(key.principal.subject, "ada@example.org");
        assert_eq!(key.principal.rights, Rights::of(&[Right::Read, Right::Run]));
        assert_eq!(key.billing_account.as_str(), "acct-1");
        assert_eq!(key.virtual_key.as_str(), "vk-1");
        assert_eq!(key.to_string(), line('a', "acme ada@example.org acct-1 vk-1 read,run"));
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(
            TokenHash::of("abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn all_lines_that_are_no_keys_are_reported_with_their_numbers() {
        let file = KeyFile::new("keys");
        let good = line('a', "acme ada local local read");
        let lines = [
            "# Keys of the desk.",
            "",
            &good,
            "  # indented",
            &line('b', "acme ada local local"),
            "abc acme ada local local read",
            &line('g', "acme ada local local read"),
            &line('b', "acme ada local local write"),
            &line('b', "a/b ada local local read"),
            &line('b', "server:acme ada local local read"),
            &line('b', "weft:workers ada local local read"),
            &good.to_uppercase().replace("ACME", "acme").replace("READ", "read"),
        ];
        let expected = [
            (5, "5 fields; expected 6"),
            (6, "3 characters; expected 64"),
            (7, "expected 64 hexadecimal"),
            (8, "`write` is no right"),
            (9, "`a/b` is not valid"),
            (10, "reserved"),
            (11, "reserved"),
        ];
        let error = file.keys_of(&lines.join("\n")).expect_err("problems");
        let KeyFileError::Invalid { problems, .. } = &error else { panic!("{error}") };
        for (problem, (line, says)) in problems.iter().zip(expected) {
            assert_eq!(problem.line, line, "{problem:?}");
            assert!(problem.reason.contains(says), "{problem:?}");
        }
        assert_eq!(problems.last().map(|last| last.line), Some(12), "{problems:?}");
        assert_eq!(problems.len(), 8);
        assert!(
            error.to_string().contains("line 5: ") && error.to_string().contains("; line 12: ")
        );
        assert!(!error.to_string().contains("aaaa"), "a hash is not shown: {error}");
        assert_eq!(file.keys_of(&format!("{good}\r\n# end")).expect("a key").len(), 1);
    }
}
