//! Runs the commands of a document: its blocks marked `sh run`, in order, in the repository, with
//! an empty home folder. Either cargo builds what they start, or they start the programs that a
//! build of the workspace left in the target folder.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::markdown;
use crate::suite::{scrub_cargo, target_dir};

/// The environment variables that the commands may see; all others are removed. Entries that end in
/// `_` are prefixes.
const KEPT: &[&str] = &[
    "CARGO_",
    "CI",
    "LANG",
    "LC_ALL",
    "PATH",
    "PIP_",
    "RUSTFLAGS",
    "RUSTUP_",
    "TERM",
    "TMPDIR",
    "WEFT_MODEL_",
    "WEFT_TIER",
];

#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    script: String,
}

/// Source of the programs that the commands start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    /// Cargo builds them, as for a reader of the document.
    Cargo,
    /// A build of the workspace left them. Its features differ from those of the commands.
    Built,
}

/// In place of cargo: starts a program if it is built, and leaves everything else to cargo.
const BUILT_CARGO: &str = r#"#!/bin/sh
job=$1 program=
for word in "$@"; do
  case "$last" in --bin) program=$word ;; --example) program=examples/$word ;; esac
  case "$word" in --) break ;; --release) program= job=other ;; esac
  last=$word
done
case "$job" in run | build) ;; *) program= ;; esac
if [ -z "$program" ] || [ ! -x "$BUILT/$program" ]; then exec "$REAL_CARGO" "$@"; fi
[ "$job" = run ] || exit 0
while [ "$#" -gt 0 ]; do
  word=$1
  shift
  [ "$word" != -- ] || break
done
exec "$BUILT/$program" "$@"
"#;

/// Runs the document's blocks; returns `false` at the first that fails.
pub(crate) fn run(root: &Path, document: &str, programs: Programs) -> Result<bool> {
    let text = std::fs::read_to_string(root.join(document))
        .with_context(|| format!("{document} could not be read"))?;
    let blocks = blocks(&text);
    ensure!(!blocks.is_empty(), "{document} has no block marked `sh run`");
    let home = target_dir(root).join("readme-home");
    if home.exists() {
        std::fs::remove_dir_all(&home).context("the home of the last run could not be removed")?;
    }
    std::fs::create_dir_all(&home)?;
    let path = match programs {
        Programs::Cargo => None,
        Programs::Built => Some(path_with_built_cargo(&home)?),
    };
    for block in &blocks {
        println!("{document}:{}", block.line);
        for line in block.script.lines() {
            println!("$ {line}");
        }
        let mut command = command(root, &home, &block.script);
        if let Some(path) = &path {
            let cargo = std::env::var_os("CARGO").context("CARGO is not set")?;
            command.env("PATH", path).env("REAL_CARGO", cargo);
            command.env("BUILT", target_dir(root).join("debug"));
        }
        let status = command.status().context("bash did not start")?;
        if !status.success() {
            println!("{document}:{}: {status}", block.line);
            return Ok(false);
        }
    }
    println!("{document}: {} blocks ran", blocks.len());
    Ok(true)
}

/// The search path with [`BUILT_CARGO`] before cargo.
fn path_with_built_cargo(home: &Path) -> Result<OsString> {
    let folder = home.join("built");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("cargo");
    std::fs::write(&file, BUILT_CARGO)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&rest));
    std::env::join_paths(folders).context("the search path could not be made")
}

fn blocks(text: &str) -> Vec<Block> {
    let marked = markdown::fences(text).into_iter().filter(|fence| {
        let words: Vec<&str> = fence.info.split([' ', ',']).collect();
        words.first() == Some(&"sh") && words.contains(&"run")
    });
    marked.map(|fence| Block { line: fence.line, script: fence.body.join("\n") }).collect()
}

fn command(root: &Path, home: &Path, script: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(root).stdin(Stdio::null());
    bash.env_clear().envs(std::env::vars().filter(|(key, _)| is_kept(key)));
    scrub_cargo(&mut bash);
    bash.env("HOME", home);
    // The toolchain belongs to the machine and not to the reader's home folder.
    for (key, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if let (None, Some(own)) = (std::env::var_os(key), std::env::var_os("HOME")) {
            bash.env(key, PathBuf::from(own).join(folder));
        }
    }
    bash
}

fn is_kept(key: &str) -> bool {
    let proxy = key.to_ascii_lowercase().ends_with("_proxy");
    proxy
        || KEPT
            .iter()
            .any(|kept| if kept.ends_with('_') { key.starts_with(kept) } else { key == *kept })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{BUILT_CARGO, Block, Programs, blocks, command, is_kept, run};

    #[test]
    fn only_marked_blocks_run() {
        let text =
            "```sh run\nmake demo\n```\n```sh\nrm x\n```\n```text run\n```\n```sh,run\na\nb\n```\n";
        let expected = [
            Block { line: 1, script: "make demo".to_owned() },
            Block { line: 9, script: "a\nb".to_owned() },
        ];
        assert_eq!(blocks(text), expected);
    }

    #[test]
    fn a_block_sees_an_empty_home_and_no_secrets() {
        assert!(is_kept("PATH") && is_kept("CARGO_TARGET_DIR") && is_kept("https_proxy"));
        assert!(!is_kept("AWS_SECRET") && !is_kept("WEFT_API_KEY") && !is_kept("PATHS"));
        let dir = tempfile::tempdir().unwrap();
        let output = command(dir.path(), dir.path(), "echo $HOME; pwd -P").output().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let expected = format!("{}\n{}\n", dir.path().display(), path.display());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }

    #[test]
    fn a_failing_command_fails_its_block_and_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let text = "```sh run\ntouch one\n```\n```sh run\nfalse\ntouch two\n```\n";
        std::fs::write(dir.path().join("README.md"), text).unwrap();
        assert!(!run(dir.path(), "README.md", Programs::Cargo).unwrap());
        assert!(dir.path().join("one").exists());
        assert!(!dir.path().join("two").exists());
    }

    #[test]
    fn programs_that_are_built_are_started_in_place_of_cargo() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("examples")).unwrap();
        let script = "#!/bin/sh\necho built \"$@\"\n";
        for (name, text) in [("cargo", BUILT_CARGO), ("weft", script), ("examples/one", script)] {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let answer = |line: &str| {
            let line = format!("./cargo {line}");
            let mut bash = command(dir.path(), dir.path(), &line);
            bash.env("BUILT", dir.path()).env("REAL_CARGO", "echo");
            String::from_utf8(bash.output().unwrap().stdout).unwrap()
        };
        assert_eq!(answer("run --quiet -p cli --bin weft -- a 'b c'"), "built a b c\n");
        assert_eq!(answer("run -p x --example one"), "built\n");
        assert_eq!(answer("build -p x --example one"), "");
        for line in ["build --release -p cli --bin weft", "run --bin other", "test --bin weft"] {
            assert_eq!(answer(line), format!("{line}\n"));
        }
    }

    #[test]
    fn a_document_without_blocks_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("README.md"), "```sh\nx\n```\n").unwrap();
        assert!(run(dir.path(), "README.md", Programs::Cargo).is_err());
    }
}
