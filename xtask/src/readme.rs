//! Runs the commands of a document: its blocks marked `sh run`, in order, in the repository, with
//! an empty home folder.

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

/// Runs the document's blocks; returns `false` at the first that fails.
pub(crate) fn run(root: &Path, document: &str) -> Result<bool> {
    let text = std::fs::read_to_string(root.join(document))
        .with_context(|| format!("{document} could not be read"))?;
    let blocks = blocks(&text);
    ensure!(!blocks.is_empty(), "{document} has no block marked `sh run`");
    let home = target_dir(root).join("readme-home");
    if home.exists() {
        std::fs::remove_dir_all(&home).context("the home of the last run could not be removed")?;
    }
    std::fs::create_dir_all(&home)?;
    for block in &blocks {
        println!("{document}:{}", block.line);
        for line in block.script.lines() {
            println!("$ {line}");
        }
        let status = command(root, &home, &block.script).status().context("bash did not start")?;
        if !status.success() {
            println!("{document}:{}: {status}", block.line);
            return Ok(false);
        }
    }
    println!("{document}: {} blocks ran", blocks.len());
    Ok(true)
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
    use super::{Block, blocks, command, is_kept, run};

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
        assert!(!run(dir.path(), "README.md").unwrap());
        assert!(dir.path().join("one").exists());
        assert!(!dir.path().join("two").exists());
    }

    #[test]
    fn a_document_without_blocks_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("README.md"), "```sh\nx\n```\n").unwrap();
        assert!(run(dir.path(), "README.md").is_err());
    }
}
