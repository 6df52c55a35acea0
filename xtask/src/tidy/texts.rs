//! Rules on documents and on all tracked texts.

use super::{House, Offence};
use crate::markdown::{self, Fence};

/// Maximum number of lines of `ARCHITECTURE.md`.
const ARCHITECTURE_LINES_MAX: usize = 150;
/// Folders of a particular machine; split so that this file passes its own rule.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// Settings that name a package registry, which belong to the machine's configuration.
const REGISTRY: [&str; 3] =
    [concat!("index", "-url"), concat!("replace", "-with"), concat!("PIP_INDEX", "_URL")];
const NPM: &str = "https://registry.npmjs.org/";

pub(super) fn architecture(house: &House<'_>) -> Vec<Offence> {
    let lines = house.tree.text("ARCHITECTURE.md").map_or(0, |text| text.lines().count());
    let message = format!("has {lines} lines, at most {ARCHITECTURE_LINES_MAX}");
    let over = lines > ARCHITECTURE_LINES_MAX;
    over.then(|| Offence::of("ARCHITECTURE.md", message)).into_iter().collect()
}

pub(super) fn fences(house: &House<'_>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, text) in house.tree.files() {
        let fences = match path.rsplit_once('.') {
            Some((_, "md")) => markdown::fences(text),
            Some((_, "rs")) => doc_fences(text),
            _ => continue,
        };
        for fence in fences.iter().filter(|fence| is_ignored(fence)) {
            let message = "an example that is ignored may be wrong; write `no_run` or `text`";
            offences.push(Offence::at(path, fence.line, message));
        }
    }
    offences
}

fn is_ignored(fence: &Fence<'_>) -> bool {
    let words = fence.info.split([',', ' ']);
    words.map(str::trim).any(|word| word == "ignore" || word.starts_with("ignore-"))
}

/// The fenced blocks in the doc comments of a Rust file.
fn doc_fences(text: &str) -> Vec<Fence<'_>> {
    let numbered = text.lines().enumerate();
    let docs = numbered.filter_map(|(index, line)| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some((index + 1, doc))
    });
    markdown::fences_in(docs)
}

pub(super) fn machine(house: &House<'_>) -> Vec<Offence> {
    let files = house.tree.files().filter(|(path, _)| !path.starts_with("xtask/fixtures/"));
    let mut offences = Vec::new();
    for (path, text) in files {
        for (index, line) in text.lines().enumerate() {
            let message = MACHINE
                .iter()
                .find(|folder| names_folder(line, folder))
                .map(|folder| format!("names a folder of one machine: {folder}"))
                .or_else(|| names_registry(path, line));
            offences.extend(message.map(|message| Offence::at(path, index + 1, message)));
        }
    }
    offences
}

/// Returns `true` if the line contains the folder at the start of a path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*'))
    })
}

fn names_registry(path: &str, line: &str) -> Option<String> {
    if path.ends_with("package-lock.json") {
        let address = line.trim().strip_prefix("\"resolved\": \"")?;
        let elsewhere = !address.starts_with(NPM);
        return elsewhere.then(|| format!("a package is not from {NPM}"));
    }
    let setting = REGISTRY.iter().find(|setting| line.contains(**setting))?;
    Some(format!("`{setting}` names a registry, which belongs to the machine's configuration"))
}

#[cfg(test)]
mod tests {
    use super::{MACHINE, names_folder, names_registry};

    #[test]
    fn a_folder_inside_another_is_not_the_machines() {
        let folder = MACHINE[0];
        assert!(names_folder(&format!("cd {folder}x"), folder));
        assert!(names_folder(&format!("\"{folder}\""), folder));
        assert!(!names_folder(&format!("crates{folder}x"), folder));
    }

    #[test]
    fn packages_come_from_the_public_registry() {
        let line = |host: &str| format!("  \"resolved\": \"https://{host}/a.tgz\",");
        let lock = "web/package-lock.json";
        assert!(names_registry(lock, &line("registry.npmjs.org")).is_none());
        assert!(names_registry(lock, &line("mirror.example")).is_some());
    }
}
