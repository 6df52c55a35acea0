//! Figures that exceed the project's limits and are tolerated, as listed in `xtask/ratchet.toml`.
//! Entries may only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{House, Offence, language, module_arrows, openers, sizes};
use crate::tree::RATCHET;

/// Figures by file, function or crate.
pub(super) type Figures = BTreeMap<String, usize>;

/// The tables of the ratchet.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ratchet {
    #[serde(default)]
    pub(super) file_lines: Figures,
    #[serde(default)]
    pub(super) function_lines: Figures,
    /// `None` in versions older than the rule on doc comments.
    pub(super) doc_openers: Option<Figures>,
    /// `None` in versions older than the rule on arrows between modules.
    pub(super) circular_arrows: Option<Figures>,
    /// `None`, as the next two, in versions older than the rule on language.
    pub(super) tuple_parameters: Option<Figures>,
    pub(super) tuple_lets: Option<Figures>,
    pub(super) private_names: Option<Figures>,
}

impl Ratchet {
    /// Parses the current or a past version of the file.
    pub(super) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("the ratchet could not be read")
    }
}

/// Returns the entries of `listed` that are above the measured figure and must be lowered.
pub(super) fn slack(measured: &Figures, listed: &Figures, unit: &str) -> Vec<Offence> {
    let figures = listed.iter().map(|(name, allowed)| {
        let found = measured.get(name).copied().unwrap_or_default();
        (name, found, *allowed)
    });
    let lower = figures.filter(|(_, found, allowed)| found < allowed);
    let offences = lower.map(|(name, found, _)| {
        let message =
            format!("`{name}` is down to {found} {unit}; run `cargo xtask tidy --tighten`");
        Offence::of(RATCHET, message)
    });
    offences.collect()
}

/// Returns the entries that a past version of the ratchet did not have or had lower.
pub(super) fn grown(now: &Figures, past: &Figures) -> Vec<Offence> {
    let more = now.iter().filter(|(name, figure)| past.get(*name).is_none_or(|old| old < figure));
    let offences = more.map(|(name, _)| {
        Offence::of(RATCHET, format!("`{name}` was added or raised; the ratchet only shrinks"))
    });
    offences.collect()
}

/// Returns the text of the ratchet with every entry lowered to the measured figure, and without the
/// entries within the limits.
pub(super) fn tightened(house: &House<'_>) -> Result<String> {
    let old = house.tree.text(RATCHET).unwrap_or_default();
    let list = Ratchet::parse(old)?;
    let files = sizes::files(house);
    let functions = sizes::functions(house);
    let doc_openers = openers::per_crate(house);
    let circular_arrows = module_arrows::circular(house);
    let none = Figures::new();
    let listed_openers = list.doc_openers.as_ref().unwrap_or(&none);
    let listed_arrows = list.circular_arrows.as_ref().unwrap_or(&none);
    let language = language::figures(house, &list);
    let remark: Vec<&str> = old.lines().take_while(|line| line.starts_with('#')).collect();
    let mut text = remark.join("\n");
    let parts = vec![
        ("file_lines", &list.file_lines, &files, sizes::FILE_LINES_MAX),
        ("function_lines", &list.function_lines, &functions, sizes::FUNCTION_LINES_MAX),
        ("doc_openers", listed_openers, &doc_openers, 0),
        ("circular_arrows", listed_arrows, &circular_arrows, 0),
    ];
    let language = language
        .iter()
        .map(|(title, listed, measured)| (*title, listed.unwrap_or(&none), measured, 0));
    for (title, listed, measured, most) in parts.into_iter().chain(language) {
        write!(text, "\n\n[{title}]")?;
        for (name, allowed) in listed {
            let figure = measured.get(name).copied().unwrap_or_default();
            if figure > most {
                write!(text, "\n\"{name}\" = {}", figure.min(*allowed))?;
            }
        }
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::tightened;
    use crate::tidy::House;
    use crate::tree::fixture::Fixture;

    #[test]
    fn tightening_lowers_and_drops_entries_and_keeps_the_remark() {
        let long = format!("/// That.\nfn long() {{\n{}}}\n", "    f();\n".repeat(118));
        let text = format!(
            "-- crates/a/src/lib.rs --\n{long}-- xtask/ratchet.toml --\n# Why.\n[function_lines]\n\
             \"crates/a/src/lib.rs::gone\" = 200\n\"crates/a/src/lib.rs::long\" = 150\n\
             [doc_openers]\na = 2\nb = 1\n"
        );
        let tree = Fixture::default().overlay(&text).tree;
        let found = tightened(&House::of(&tree)).unwrap();
        let expected = "# Why.\n\n[file_lines]\n\n[function_lines]\n\
                        \"crates/a/src/lib.rs::long\" = 120\n\n[doc_openers]\n\"a\" = 1\n\n\
                        [circular_arrows]\n\n[tuple_parameters]\n\n[tuple_lets]\n\n\
                        [private_names]\n";
        assert_eq!(found, expected);
    }
}
