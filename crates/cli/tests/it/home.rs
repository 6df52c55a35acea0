//! A home of its own for each test, and the real binary in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_weft");

/// A person's home and working directory, empty at first. Nothing of the machine's reaches it.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// What came of a command.
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

    /// Names the model, and the server behind the provider `fake`.
    pub(crate) fn provider(self, url: &str) -> Self {
        self.config(&format!("model = \"fake:desk\"\n[providers.fake]\nurl = \"{url}\"\n"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The usual store's file.
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

    /// What was said, with everything that differs from run to run taken out.
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
