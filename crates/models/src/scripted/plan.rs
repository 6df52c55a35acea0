//! Selects the tools that a user's text asks for.

use super::extract::{Found, arguments};
use crate::words::{is_value, split, stem, stems};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::tool::ToolSpec;

/// The minimum score of a tool whose call a text requests.
const MEANT: f64 = 1.5;

/// A requested call of one tool.
#[derive(Debug, Clone)]
pub(super) struct Wish<'a> {
    pub(super) tool: &'a ToolSpec,
    pub(super) found: Found,
    text: String,
}

/// Returns the calls that a text requests, in order. `answers` are later replies to questions; they
/// complete calls with missing arguments.
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
                // A fragment that fits a call with missing arguments at least as well completes it.
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

/// The tool with the highest score, however low.
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

/// Splits a text into fragments that may each request a call.
fn fragments(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, mark) in text.char_indices().filter(|(_, c)| ".?!;,\n".contains(*c)) {
        let end = at + mark.len_utf8();
        // Does not split inside `25.50` or `1,000`.
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

/// The weight of each word for each tool.
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
        // A word's weight is divided by the number of tools that share it.
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

    /// The tool with the highest sufficient score; the first of equals.
    fn best(&self, text: &str) -> Option<(&'a ToolSpec, f64)> {
        let scored = self.tools.iter().map(|(tool, _)| (*tool, self.score(tool, text)));
        let meant = scored.filter(|(_, score)| *score >= MEANT);
        meant.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// The words of a tool's name, examples and description, with their weights.
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

/// The stems of the values in an example's arguments, which say nothing about the tool: "Berlin"
/// does not make a request a weather request.
fn values(args: &Value) -> BTreeSet<String> {
    let texts = args.as_object().into_iter().flat_map(|map| map.values()).filter_map(Value::as_str);
    // A value that is a whole sentence is the request itself; its words count.
    let short = texts.filter(|text| split(text).len() <= 3);
    short.flat_map(split).filter(|word| !is_value(word)).map(stem).collect()
}
