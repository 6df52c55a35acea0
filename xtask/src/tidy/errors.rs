//! Error codes: each code in the sources has a page and a test, and each page has a code.

use std::collections::{BTreeMap, BTreeSet};

use super::{House, Offence};
use crate::source::{Role, role};

const PAGES: &str = "docs/errors/";
const SECTIONS: [&str; 3] = ["## What happened", "## Why", "## What to do"];

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let used = codes_in_sources(house);
    let tested = codes_in_tests(house);
    let mut offences = Vec::new();
    for (code, (path, line)) in &used {
        if house.tree.text(&page(code)).is_none() {
            offences.push(Offence::at(path, *line, format!("{code} has no {}", page(code))));
        }
        if !tested.contains(*code) {
            let message = format!("no test and no snapshot mentions {code}");
            offences.push(Offence::at(path, *line, message));
        }
    }
    for (path, text) in house.tree.files() {
        let Some(name) = path.strip_prefix(PAGES) else { continue };
        let code = name.strip_suffix(".md").filter(|code| codes(code).next() == Some(*code));
        let Some(code) = code else {
            offences.push(Offence::of(path, "is not named after an error code such as W0101"));
            continue;
        };
        if !used.contains_key(code) {
            offences.push(Offence::of(path, format!("no source mentions {code}")));
        }
        offences.extend(form(path, code, text));
    }
    offences
}

fn page(code: &str) -> String {
    format!("{PAGES}{code}.md")
}

/// The first location of each code outside tests, under `crates/*/src`.
fn codes_in_sources<'a>(house: &House<'a>) -> BTreeMap<&'a str, (&'a str, usize)> {
    let mut found = BTreeMap::new();
    for (path, source) in &house.sources {
        let is_source = path.starts_with("crates/") && path.contains("/src/");
        if !is_source || role(path) != Role::Code {
            continue;
        }
        let text = house.tree.text(path).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            if !source.is_test_line(index + 1) {
                for code in codes(line) {
                    found.entry(code).or_insert((*path, index + 1));
                }
            }
        }
    }
    found
}

/// All codes in test files, snapshots and inline tests.
fn codes_in_tests<'a>(house: &House<'a>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (path, text) in house.tree.files() {
        if path.starts_with("xtask/") {
            continue; // The workshop's own tests prove nothing about the product.
        }
        if path.contains("/tests/") || path.ends_with(".snap") || role(path) == Role::Test {
            found.extend(codes(text));
        } else if let Some(source) = house.sources.get(path) {
            let lines = text.lines().enumerate();
            let inline = lines.filter(|(index, _)| source.is_test_line(index + 1));
            found.extend(inline.flat_map(|(_, line)| codes(line)));
        }
    }
    found
}

fn form(path: &str, code: &str, text: &str) -> Vec<Offence> {
    let mut offences = Vec::new();
    let title = text.lines().next().unwrap_or_default();
    let named = title.strip_prefix(&format!("# {code}: ")).is_some_and(|rest| !rest.is_empty());
    if !named {
        offences.push(Offence::at(path, 1, format!("starts with `# {code}: title`")));
    }
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
    if headings != SECTIONS {
        let message = format!("has the sections {}, in this order", SECTIONS.join(", "));
        offences.push(Offence::of(path, message));
    }
    offences
}

/// The error codes in a text: separate words of `W0` or `W1` and three digits.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bytes = text.as_bytes();
    text.match_indices('W').filter_map(move |(start, _)| {
        let end = start + 5;
        let [first, digits @ ..] = bytes.get(start + 1..end)? else { return None };
        let digits = matches!(first, b'0' | b'1') && digits.iter().all(u8::is_ascii_digit);
        let alone = !is_word(start.checked_sub(1).and_then(|i| bytes.get(i)));
        (digits && alone && !is_word(bytes.get(end))).then(|| &text[start..end])
    })
}

#[cfg(test)]
mod tests {
    use super::codes;

    #[test]
    fn codes_are_words_of_their_own() {
        let found: Vec<&str> =
            codes("W0101, \"W0102\" XW0103 W01045 W010 (W0199) W1001 W2001").collect();
        assert_eq!(found, ["W0101", "W0102", "W0199", "W1001"]);
    }
}
