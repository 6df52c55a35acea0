//! The lists of behaviours in `docs/requirements.md` and `tests/rows.md`: each names the tests that
//! show it, and they exist.

use super::{House, Offence};
use crate::markdown;

const LISTS: [&str; 2] = ["docs/requirements.md", "tests/rows.md"];
/// Header of the column with the tests.
const TESTS: &str = "Shown by";

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    LISTS.iter().flat_map(|list| check_list(house, list)).collect()
}

fn check_list(house: &House<'_>, list: &str) -> Vec<Offence> {
    let text = house.tree.text(list).unwrap_or_default();
    let mut offences = Vec::new();
    for table in markdown::tables(text) {
        let Some(((header, names), rows)) = table.split_first() else { continue };
        let Some(column) = names.iter().position(|name| *name == TESTS) else {
            offences.push(Offence::at(list, *header, format!("has no column `{TESTS}`")));
            continue;
        };
        for (line, cells) in rows {
            let cell = cells.get(column).copied().unwrap_or_default();
            let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            if tests.is_empty() {
                offences.push(Offence::at(list, *line, "names no test as `file: function`"));
            }
            let wrong = tests.iter().filter_map(|test| problem(house, test));
            offences.extend(wrong.map(|message| Offence::at(list, *line, message)));
        }
    }
    offences
}

/// The reason why a test is not there. A test in Rust is a function of a test; any other file has
/// to contain the name.
fn problem(house: &House<'_>, test: &str) -> Option<String> {
    let Some((path, name)) = test.split_once(": ") else {
        return Some(format!("`{test}` is not of the form `file: function`"));
    };
    let Some(text) = house.tree.text(path) else {
        return Some(format!("`{path}` does not exist"));
    };
    let exists = match house.sources.get(path) {
        Some(source) => {
            let in_tests = path.contains("/tests/");
            let function = format!("fn {name}(");
            let mut lines = text.lines().enumerate();
            lines.any(|(index, line)| {
                line.contains(&function) && (in_tests || source.is_test_line(index + 1))
            })
        }
        None => text.contains(name),
    };
    (!exists).then(|| format!("`{path}` has no test `{name}`"))
}
