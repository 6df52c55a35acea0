//! Extracts arguments from a user's text, guided by the tool's schema.

use crate::words::{is_value, split, stem};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use weftwork_types::tool::ToolSpec;

/// The result of extracting a tool's arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) args: Map<String, Value>,
    /// Required arguments that were not found.
    pub(super) missing: Vec<String>,
}

/// Extracts a tool's arguments from a text. `known` has the values of earlier calls by argument
/// name; they resolve words such as "it".
pub(super) fn arguments(tool: &ToolSpec, text: &str, known: &BTreeMap<String, Value>) -> Found {
    let empty = Map::new();
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    let required = tool.parameters.get("required").and_then(Value::as_array);
    let mut search = Search { text, words: split(text), used: Vec::new() };
    let mut found = Found { args: Map::new(), missing: Vec::new() };
    let properties = properties.unwrap_or(&empty);
    let required = required.map(Vec::as_slice).unwrap_or_default();
    for (name, is_required) in in_order(properties, required) {
        let Some(schema) = properties.get(name) else { continue };
        let example = tool.examples.iter().find_map(|example| example.args.get(name));
        let value = search
            .value(name, schema, example)
            .or_else(|| known.get(name).filter(|value| is_required && value.is_string()).cloned());
        match value {
            Some(value) => {
                found.args.insert(name.to_owned(), value);
            }
            None if is_required => found.missing.push(name.to_owned()),
            None => {}
        }
    }
    found
}

/// The arguments: required ones first, in the order of the schema, then the others by name. The
/// member order of JSON objects depends on build features of `serde_json` and must not affect the
/// result.
fn in_order<'a>(properties: &'a Map<String, Value>, required: &'a [Value]) -> Vec<(&'a str, bool)> {
    let mut names: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
    let count = names.len();
    let mut rest: Vec<&str> = properties.keys().map(String::as_str).collect();
    rest.retain(|name| !names.contains(name));
    rest.sort_unstable();
    names.extend(rest);
    names.into_iter().enumerate().map(|(at, name)| (name, at < count)).collect()
}

/// The words of a request; each is used for at most one argument.
struct Search<'a> {
    text: &'a str,
    words: Vec<&'a str>,
    used: Vec<usize>,
}

/// The kind of text that an argument expects, derived from its example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A word with digits, such as an order number.
    Code,
    Email,
    /// A name, such as a city or a person.
    Name,
    /// Any longer text.
    Phrase,
}

impl Search<'_> {
    fn value(&mut self, name: &str, schema: &Value, example: Option<&Value>) -> Option<Value> {
        if let Some(options) = schema.get("enum").and_then(Value::as_array) {
            let lower = self.text.to_lowercase();
            let named = |option: &&Value| {
                option.as_str().is_some_and(|text| lower.contains(&text.to_lowercase()))
            };
            return options.iter().find(named).cloned();
        }
        match kind(schema) {
            "integer" => self.find_number(name, |text| text.parse::<i64>().ok().map(Value::from)),
            "number" => self.find_number(name, |text| {
                let whole = text.parse::<i64>().ok().map(Value::from);
                whole.or_else(|| text.parse::<f64>().ok().map(Value::from))
            }),
            "boolean" => {
                let wanted = stem(name);
                self.words.iter().any(|word| stem(word) == wanted).then_some(Value::Bool(true))
            }
            "string" => match shape(name, example) {
                Shape::Code => self.take_word(is_code),
                Shape::Email => self.take_word(|word| word.contains('@')),
                Shape::Name => self.find_name(),
                Shape::Phrase => self.find_phrase(),
            },
            _ => None,
        }
    }

    /// Finds a number: the one next to the argument's name, otherwise the first unused one.
    fn find_number(&mut self, name: &str, read: impl Fn(&str) -> Option<Value>) -> Option<Value> {
        let numbers: Vec<(usize, Value)> = self
            .words
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.used.contains(at))
            .filter_map(|(at, word)| Some((at, read(&plain_number(word))?)))
            .collect();
        let wanted = stem(name);
        let beside =
            |at: usize| (at.saturating_sub(2)..at).any(|before| stem(self.words[before]) == wanted);
        let best = numbers.iter().find(|(at, _)| beside(*at)).or(numbers.first());
        let (at, value) = best.cloned()?;
        self.used.push(at);
        Some(value)
    }

    fn take_word(&mut self, fits: impl Fn(&str) -> bool) -> Option<Value> {
        let free = |at: &usize| !self.used.contains(at) && fits(self.words[*at]);
        let at = (0..self.words.len()).find(free)?;
        self.used.push(at);
        Some(Value::from(self.words[at]))
    }

    /// Finds adjacent capitalised words that do not start a sentence; otherwise the word after
    /// "in", "for" or "near", for text in lower case.
    fn find_name(&mut self) -> Option<Value> {
        let is_name = |at: usize| {
            self.words[at].starts_with(char::is_uppercase)
                && !is_value(self.words[at])
                && !matches!(self.words[at], "I" | "I'm")
                && !self.begins_sentence(at)
        };
        if let Some(start) = (0..self.words.len()).find(|at| is_name(*at)) {
            let end =
                (start..self.words.len()).find(|at| !is_name(*at)).unwrap_or(self.words.len());
            return Some(Value::from(self.words[start..end].join(" ")));
        }
        let after = |word: &str| matches!(word, "in" | "for" | "near");
        let at = (1..self.words.len())
            .find(|at| after(self.words[at - 1]) && !is_value(self.words[*at]))?;
        let mut letters = self.words[at].chars();
        let first = letters.next()?.to_uppercase();
        Some(Value::from(first.chain(letters).collect::<String>()))
    }

    fn begins_sentence(&self, at: usize) -> bool {
        if at == 0 && self.words.len() > 1 {
            return true;
        }
        let place = self.words[at].as_ptr() as usize - self.text.as_ptr() as usize;
        let before = self.text.get(..place).unwrap_or_default().trim_end();
        before.ends_with(['.', '?', '!', ':'])
    }

    /// The quoted text, or the whole text if nothing is quoted.
    fn find_phrase(&self) -> Option<Value> {
        let quoted = self.text.split('"').nth(1).map(str::trim).filter(|text| !text.is_empty());
        let all = self.text.trim();
        quoted.or(Some(all).filter(|text| !text.is_empty())).map(Value::from)
    }
}

/// The type in a schema; of several, the first that is not null.
fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or_default()
        }
        _ => "",
    }
}

fn shape(name: &str, example: Option<&Value>) -> Shape {
    let lower = name.to_lowercase();
    match example.and_then(Value::as_str) {
        Some(text) if text.contains('@') => Shape::Email,
        Some(text) if is_code(text) => Shape::Code,
        Some(text) if text.split(' ').all(|word| word.starts_with(char::is_uppercase)) => {
            if text.split(' ').count() <= 3 { Shape::Name } else { Shape::Phrase }
        }
        Some(_) => Shape::Phrase,
        None if lower == "id" || lower.ends_with("_id") || lower.contains("number") => Shape::Code,
        None if lower.contains("mail") => Shape::Email,
        None if ["city", "place", "country", "name"].iter().any(|word| lower.contains(word)) => {
            Shape::Name
        }
        None => Shape::Phrase,
    }
}

/// Returns `true` for one word with letters and digits, such as an order number.
fn is_code(word: &str) -> bool {
    is_value(word)
        && !word.contains(char::is_whitespace)
        && word.contains(|c: char| c.is_ascii_alphabetic())
}

/// Removes thousands separators and currency signs from a number, as in `1,000` and `25€`.
fn plain_number(word: &str) -> String {
    let word = word.trim_end_matches(['€', '$', '%']);
    let groups: Vec<&str> = word.split(',').collect();
    let grouped = groups.len() > 1 && groups[1..].iter().all(|group| group.len() == 3);
    if grouped { groups.concat() } else { word.to_owned() }
}

#[cfg(test)]
mod tests;
