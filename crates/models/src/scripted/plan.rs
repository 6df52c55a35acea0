//! Which tools a person's words ask for.

use super::extract::{Found, arguments};
use crate::words::{is_value, split, stem, stems};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::tool::ToolSpec;

/// How much a tool's words must weigh in a request before it is meant.
const MEANT: f64 = 1.5;

/// A wish for one tool.
#[derive(Debug, Clone)]
pub(super) struct Wish<'a> {
    pub(super) tool: &'a ToolSpec,
    pub(super) found: Found,
    text: String,
}

/// The wishes in a text, in order. `answers` are things a person said later, when asked: they
/// complete whatever is incomplete.
pub(super) fn wishes<'a>(
    tools: &'a [ToolSpec],
    text: &str,
    answers: &[String],
    mut known: BTreeMap<String, Value>,
) -> Vec<Wish<'a>> {
    let weights = Weights::of(tools);
    let mut wishes: Vec<Wish<'a>> = Vec::new();
    for fragment in fragments(text) {
        let best = weights.best(fragment);
        let current = wishes.last_mut();
        let open = current.as_ref().is_some_and(|wish| !wish.found.missing.is_empty());
        match (best, current) {
            (Some((tool, score)), current) => {
                // A fragment that may as well belong to an unfinished wish completes it.
                let fits = current.as_ref().is_some_and(|wish| {
                    weights.score(wish.tool, fragment) >= score || same(wish.tool, tool)
                });
                match current {
                    Some(wish) if open && fits => wish.add(fragment, &known),
                    _ => wishes.push(Wish::new(tool, fragment, &known)),
                }
            }
            (None, Some(wish)) => wish.add(fragment, &known),
            (None, None) => {}
        }
        if let Some(wish) = wishes.last() {
            known.extend(wish.found.args.clone());
        }
    }
    for wish in wishes.iter_mut().filter(|wish| !wish.found.missing.is_empty()) {
        answers.iter().for_each(|answer| wish.add(answer, &known));
    }
    wishes
}

/// The tool that fits best, even when nothing says so.
pub(super) fn forced<'a>(
    tools: &'a [ToolSpec],
    text: &str,
    known: &BTreeMap<String, Value>,
) -> Option<Wish<'a>> {
    let weights = Weights::of(tools);
    let best = tools
        .iter()
        .rev()
        .max_by(|a, b| weights.score(a, text).total_cmp(&weights.score(b, text)))?;
    Some(Wish::new(best, text, known))
}

impl<'a> Wish<'a> {
    fn new(tool: &'a ToolSpec, text: &str, known: &BTreeMap<String, Value>) -> Self {
        Self { tool, found: arguments(tool, text, known), text: text.to_owned() }
    }

    fn add(&mut self, text: &str, known: &BTreeMap<String, Value>) {
        self.text = format!("{}, {text}", self.text);
        self.found = arguments(self.tool, &self.text, known);
    }
}

fn same(a: &ToolSpec, b: &ToolSpec) -> bool {
    a.name == b.name
}

/// Pieces of a text that may be wishes of their own.
fn fragments(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, mark) in text.char_indices().filter(|(_, c)| ".?!;,\n".contains(*c)) {
        let end = at + mark.len_utf8();
        // Not inside `25.50` or `1,000`.
        if text[end..].starts_with(char::is_whitespace) || end == text.len() || mark == '\n' {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    pieces.push(&text[start..]);
    let words = pieces.into_iter().flat_map(|piece| piece.split(" and "));
    let words = words.flat_map(|piece| piece.split(" then "));
    words.map(str::trim).filter(|piece| !split(piece).is_empty()).collect()
}

/// What each word says about each tool.
struct Weights<'a> {
    tools: Vec<(&'a ToolSpec, BTreeMap<String, f64>)>,
}

impl<'a> Weights<'a> {
    fn of(tools: &'a [ToolSpec]) -> Self {
        let mut tools: Vec<_> = tools.iter().map(|tool| (tool, own_words(tool))).collect();
        let mut owners: BTreeMap<String, f64> = BTreeMap::new();
        for stem in tools.iter().flat_map(|(_, words)| words.keys()) {
            *owners.entry(stem.clone()).or_default() += 1.0;
        }
        // A word that several tools share says less about each.
        for (stem, weight) in tools.iter_mut().flat_map(|(_, words)| words.iter_mut()) {
            *weight /= owners.get(stem).copied().unwrap_or(1.0);
        }
        Self { tools }
    }

    fn score(&self, tool: &ToolSpec, text: &str) -> f64 {
        let words = self.tools.iter().find(|(own, _)| same(own, tool)).map(|(_, words)| words);
        let Some(words) = words else { return 0.0 };
        stems(text).iter().filter_map(|stem| words.get(stem)).sum()
    }

    /// The tool that is meant, if any; of equals the first.
    fn best(&self, text: &str) -> Option<(&'a ToolSpec, f64)> {
        let scored = self.tools.iter().map(|(tool, _)| (*tool, self.score(tool, text)));
        let meant = scored.filter(|(_, score)| *score >= MEANT);
        meant.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// The words of a tool: of its name, its examples, its description.
fn own_words(tool: &ToolSpec) -> BTreeMap<String, f64> {
    let mut words = BTreeMap::new();
    let name = tool.name.replace(['_', '/', '-', '.'], " ");
    let mut add = |text: &str, weight: f64, without: &BTreeSet<String>| {
        for stem in stems(text).into_iter().filter(|stem| !without.contains(stem)) {
            let own = words.entry(stem).or_insert(weight);
            *own = own.max(weight);
        }
    };
    add(&name, 3.0, &BTreeSet::new());
    for example in &tool.examples {
        add(&example.request, 2.0, &values(&example.args));
    }
    add(&tool.description, 1.0, &BTreeSet::new());
    words
}

/// The stems of the values in an example's arguments: "Berlin" is not what makes a request one
/// for the weather.
fn values(args: &Value) -> BTreeSet<String> {
    let texts = args.as_object().into_iter().flat_map(|map| map.values()).filter_map(Value::as_str);
    // A whole sentence as a value is the request itself; its words stay.
    let short = texts.filter(|text| split(text).len() <= 3);
    short.flat_map(split).filter(|word| !is_value(word)).map(stem).collect()
}
