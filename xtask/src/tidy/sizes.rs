//! File and function sizes. Today's offenders are listed in the ratchet; the list only shrinks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{House, Offence};
use crate::source::{Role, role};
use crate::tree::RATCHET;

/// Code lines that a file may have at most, inline tests not counted.
const FILE_LINES_MAX: usize = 800;
/// Lines that a function may have at most, blank and comment lines not counted.
const FUNCTION_LINES_MAX: usize = 100;

type Sizes = BTreeMap<String, usize>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratchet {
    #[serde(default)]
    file_lines: Sizes,
    #[serde(default)]
    function_lines: Sizes,
}

pub(super) fn check(house: &House<'_>) -> Vec<Offence> {
    let list = match parse(house.tree.text(RATCHET).unwrap_or_default()) {
        Ok(list) => list,
        Err(error) => return vec![Offence::of(RATCHET, format!("{error:#}"))],
    };
    let measured = measure(house);
    let mut offences = compare(&measured.file_lines, &list.file_lines, FILE_LINES_MAX);
    let functions = compare(&measured.function_lines, &list.function_lines, FUNCTION_LINES_MAX);
    offences.extend(functions);
    // A past version that no longer parses cannot be compared with; today's can.
    for past in house.tree.ratchet_history().iter().filter_map(|text| parse(text).ok()) {
        offences.extend(grown(&list.file_lines, &past.file_lines));
        offences.extend(grown(&list.function_lines, &past.function_lines));
    }
    offences.sort();
    offences.dedup();
    offences
}

/// The text of the ratchet with every entry lowered to today's size.
pub(super) fn tightened(house: &House<'_>) -> Result<String> {
    let old = house.tree.text(RATCHET).unwrap_or_default();
    let list = parse(old)?;
    let measured = measure(house);
    let remark: Vec<&str> = old.lines().take_while(|line| line.starts_with('#')).collect();
    let mut text = remark.join("\n");
    let parts = [
        ("file_lines", &list.file_lines, &measured.file_lines, FILE_LINES_MAX),
        ("function_lines", &list.function_lines, &measured.function_lines, FUNCTION_LINES_MAX),
    ];
    for (title, listed, sizes, most) in parts {
        write!(text, "\n\n[{title}]")?;
        for (name, allowed) in listed {
            let size = sizes.get(name).copied().unwrap_or_default();
            if size > most {
                write!(text, "\n\"{name}\" = {}", size.min(*allowed))?;
            }
        }
    }
    text.push('\n');
    Ok(text)
}

fn parse(text: &str) -> Result<Ratchet> {
    toml::from_str(text).context("the ratchet could not be read")
}

fn measure(house: &House<'_>) -> Ratchet {
    let mut sizes = Ratchet::default();
    for (path, source) in &house.sources {
        let tests = if role(path) == Role::Code { 0 } else { source.inline_test_lines() };
        sizes.file_lines.insert((*path).to_owned(), source.code_lines() + tests);
        for function in &source.functions {
            let size =
                sizes.function_lines.entry(format!("{path}::{}", function.name)).or_default();
            *size = function.lines.max(*size);
        }
    }
    sizes
}

fn compare(measured: &Sizes, listed: &Sizes, most: usize) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (name, size) in measured.iter().filter(|(_, size)| **size > most) {
        match listed.get(name) {
            None => offences.push(Offence::of(name, format!("has {size} lines, at most {most}"))),
            Some(allowed) if size > allowed => {
                let message =
                    format!("grew from {allowed} to {size} lines; the ratchet only shrinks");
                offences.push(Offence::of(name, message));
            }
            Some(_) => {}
        }
    }
    for (name, allowed) in listed {
        let size = measured.get(name).copied().unwrap_or_default();
        if size < *allowed {
            let message =
                format!("`{name}` is down to {size} lines; run `cargo xtask tidy --tighten`");
            offences.push(Offence::of(RATCHET, message));
        }
    }
    offences
}

fn grown(now: &Sizes, past: &Sizes) -> Vec<Offence> {
    let more = now.iter().filter(|(name, size)| past.get(*name).is_none_or(|old| old < size));
    let offences = more.map(|(name, _)| {
        Offence::of(RATCHET, format!("`{name}` was added or raised; the ratchet only shrinks"))
    });
    offences.collect()
}

#[cfg(test)]
mod tests {
    use super::tightened;
    use crate::tidy::House;
    use crate::tree::fixture::Fixture;

    #[test]
    fn tightening_lowers_and_drops_entries_and_keeps_the_remark() {
        let long = format!("fn long() {{\n{}}}\n", "    f();\n".repeat(118));
        let text = format!(
            "-- a.rs --\n{long}-- xtask/ratchet.toml --\n# Why.\n[function_lines]\n\
             \"a.rs::gone\" = 200\n\"a.rs::long\" = 150\n"
        );
        let tree = Fixture::default().overlay(&text).tree;
        let found = tightened(&House::of(&tree)).unwrap();
        assert_eq!(found, "# Why.\n\n[file_lines]\n\n[function_lines]\n\"a.rs::long\" = 120\n");
    }
}
