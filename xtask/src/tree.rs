//! The files of the repository: paths and texts, read once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The file with the tolerated figures.
pub(crate) const RATCHET: &str = "xtask/ratchet.toml";

/// All text files that git tracks or would track, by path from the root, with `/` as separator.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    ratchet_history: Vec<String>,
}

impl Tree {
    /// Reads the work tree at `root`, without files that are not UTF-8.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut files = BTreeMap::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // A listed file may be missing from the work tree, or may not be text.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.insert(path.to_owned(), text);
            }
        }
        Ok(Self { files, ratchet_history: ratchet_history(root)? })
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// All files, ordered by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files, ordered by path.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Committed versions of the ratchet file, newest first.
    pub(crate) fn ratchet_history(&self) -> &[String] {
        &self.ratchet_history
    }
}

pub(crate) fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output();
    let output = output.context("git could not be started")?;
    ensure!(
        output.status.success(),
        "git {} failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("git printed a path that is not UTF-8")
}

fn ratchet_history(root: &Path) -> Result<Vec<String>> {
    if git(root, &["rev-parse", "--quiet", "--verify", "HEAD"]).is_err() {
        return Ok(Vec::new()); // No commit yet: nothing to compare with.
    }
    let commits = git(root, &["log", "--diff-filter=AM", "--format=%H", "--", RATCHET])?;
    commits.lines().map(|commit| git(root, &["show", &format!("{commit}:{RATCHET}")])).collect()
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::Tree;

    /// A tree written as a single text, with the expected offences.
    #[derive(Debug, Default)]
    pub(crate) struct Fixture {
        pub(crate) tree: Tree,
        pub(crate) expected: Vec<String>,
    }

    impl Fixture {
        /// Adds the sections of `text` to `self`. A section starts at a line `-- path --`; `--
        /// delete path --` removes a file, `-- history --` adds a committed ratchet file, and `--
        /// expect --` lists the offences. Text before the first section is a comment.
        pub(crate) fn overlay(mut self, text: &str) -> Self {
            for section in sections(text) {
                match section.0.split_once(' ') {
                    Some(("delete", path)) => {
                        self.tree.files.remove(path);
                    }
                    None if section.0 == "history" => self.tree.ratchet_history.push(section.1),
                    None if section.0 == "expect" => {
                        self.expected = section.1.lines().map(str::to_owned).collect();
                    }
                    _ => {
                        self.tree.files.insert(section.0, section.1);
                    }
                }
            }
            self
        }
    }

    fn sections(text: &str) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            let title = line.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
            if let Some(title) = title {
                found.push((title.to_owned(), String::new()));
            } else if let Some((_, body)) = found.last_mut() {
                body.push_str(line);
                body.push('\n');
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, git};

    #[test]
    fn reads_tracked_and_new_files_but_not_ignored_ones() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet"]).unwrap();
        for (path, text) in [(".gitignore", "out\n"), ("a.rs", "fn a() {}\n"), ("out", "x")] {
            std::fs::write(dir.path().join(path), text).unwrap();
        }
        std::fs::write(dir.path().join("weights"), [0xff, 0xfe]).unwrap();
        git(dir.path(), &["add", ".gitignore"]).unwrap();

        let tree = Tree::read(dir.path()).unwrap();

        let paths: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        assert_eq!(paths, [".gitignore", "a.rs"]);
        assert_eq!(tree.text("a.rs"), Some("fn a() {}\n"));
        assert!(tree.ratchet_history().is_empty());
    }

    #[test]
    fn reads_committed_versions_of_the_ratchet_newest_first() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet"]).unwrap();
        std::fs::create_dir(dir.path().join("xtask")).unwrap();
        for version in ["# one\n", "# two\n"] {
            std::fs::write(dir.path().join(super::RATCHET), version).unwrap();
            git(dir.path(), &["add", "."]).unwrap();
            let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
            git(dir.path(), &[&who[..], &["commit", "--quiet", "-m", "x"]].concat()).unwrap();
        }

        let tree = Tree::read(dir.path()).unwrap();

        assert_eq!(tree.ratchet_history(), ["# two\n", "# one\n"]);
    }
}
