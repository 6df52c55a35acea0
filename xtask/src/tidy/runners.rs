//! Keeps the types of defined agents small: one file and one line of the list for each.

use super::{House, Offence};

/// Folder of the runners.
const RUNNERS: &str = "crates/platform/src/runner/";
/// Maximum number of lines of the file of a type.
const LINES_MAX: usize = 300;

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list = format!("{RUNNERS}mod.rs");
    let files = || house.tree.rust_files().filter(|(path, _)| path.starts_with(RUNNERS));
    let listed = files().find(|(path, _)| **path == *list);
    let listed =
        listed.and_then(|(_, text)| text.split("const RUNNERS").nth(1)?.split("];").next());
    let mut offences = Vec::new();
    for (path, text) in files().filter(|(path, _)| **path != *list) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let message = format!("the runner has {lines} lines, at most {LINES_MAX}");
            offences.push(Offence::of(path, message));
        }
        let name = path.trim_start_matches(RUNNERS).trim_end_matches(".rs");
        let entry = format!("&{name}::");
        if !listed.is_some_and(|entries| entries.contains(&entry)) {
            let message = format!("the runner is not in the list `RUNNERS` of {list}");
            offences.push(Offence::of(path, message));
        }
    }
    offences
}
