//! A separate home directory for each test, in which the real binary runs.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_weft");

/// The home and working directory of a user, initially empty. Processes see no environment
/// variables of the machine.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), variables: Vec::new() }
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes `weft.toml` into the working directory.
    pub(crate) fn config(self, text: &str) -> Self {
        std::fs::write(self.path("weft.toml"), text).expect("written");
        self
    }

    /// Configures the provider `fake` with this URL, and its model.
    pub(crate) fn provider(self, url: &str) -> Self {
        self.config(&format!("model = \"fake:desk\"\n[providers.fake]\nurl = \"{url}\"\n"))
    }

    /// The variables that processes see.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let home = self.folder.path().to_str().expect("a path of text");
        let own = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        std::iter::once(("HOME", home)).chain(own)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file of the default store.
    pub(crate) fn store_file(&self) -> PathBuf {
        self.path(".local/share/weftwork/weft.db")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(Path::new(PROGRAM), args)
    }

    pub(crate) fn program(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn weft(&self, args: &[&str]) -> Came {
        self.command(args).output().expect("weft starts").into()
    }

    /// Replaces the path of the home, which differs between runs.
    pub(crate) fn plain(&self, text: &str) -> String {
        let folder = self.folder.path().display().to_string();
        text.replace(&folder, "HOME")
    }
}

impl From<Output> for Came {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Reads lines up to one that contains a text.
pub(crate) fn read_until(out: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(out.read_line(&mut line).expect("read") > 0, "the output has no `{text}`");
    }
}
