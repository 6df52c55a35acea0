//! Arguments that are words of the conversation.
//!
//! A small model likes to repeat the value of its example, or to make a number up. Where a tool's
//! own examples show that an argument is always taken from the request, the model may only choose
//! among the words and numbers that are there.

use regex::Regex;
use serde_json::{Map, Value, json};
use weftwork_types::tool::ToolSpec;

/// Words looked at, from the end of the text.
const WORDS_MAX: usize = 64;
/// Longest passage, in words.
const PASSAGE_WORDS_MAX: usize = 24;
/// Passages offered.
const PASSAGES_MAX: usize = 600;

/// Finds what can be copied.
#[derive(Debug)]
pub(super) struct Copier {
    number: Regex,
}

impl Copier {
    #[expect(clippy::expect_used, reason = "the pattern is a constant and a test compiles it")]
    pub(super) fn new() -> Self {
        let number = Regex::new(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?").expect("the pattern is valid");
        Self { number }
    }

    /// The schema of a tool's arguments, narrowed to what the texts offer. The first text is the
    /// request, the others are what was said before it. An argument is taken from the first text
    /// that offers something like the example's value, or else from the request.
    pub(super) fn narrowed(&self, tool: &ToolSpec, texts: &[String]) -> Value {
        let mut schema = tool.parameters.clone();
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return schema };
        for (name, property) in properties.iter_mut() {
            let Value::Object(map) = property else { continue };
            if !self.is_copied(tool, name) {
                continue;
            }
            let shape = Shape::of(tool, name);
            let alike = texts.iter().find_map(|text| self.choices(map, &shape, text));
            let any = || texts.first().and_then(|text| self.choices(map, &Shape::default(), text));
            if let Some(choices) = alike.or_else(any) {
                map.insert("enum".to_owned(), Value::Array(choices));
            }
        }
        schema
    }

    /// Whether a request can be for a tool: not when the tool takes numbers, order numbers or
    /// addresses from the request and it has none of them.
    pub(super) fn is_possible(&self, tool: &ToolSpec, request: &str) -> bool {
        let Some(Value::Object(properties)) = tool.parameters.get("properties") else {
            return true;
        };
        let required = tool.parameters.get("required").and_then(Value::as_array);
        let mut telling = properties
            .iter()
            .filter(|(name, _)| required.is_some_and(|list| list.iter().any(|r| r == *name)))
            .filter(|(name, _)| self.is_copied(tool, name))
            .filter_map(|(name, property)| {
                let map = property.as_object()?;
                let shape = Shape::of(tool, name);
                let tells = shape.is_telling() || map.get("type") != Some(&json!("string"));
                tells.then(|| self.choices(map, &shape, request).is_some())
            })
            .peekable();
        telling.peek().is_none() || telling.any(|found| found)
    }

    /// Whether every example takes this argument from its request.
    fn is_copied(&self, tool: &ToolSpec, name: &str) -> bool {
        let mut values = tool
            .examples
            .iter()
            .filter_map(|example| Some((example.request.as_str(), example.args.get(name)?)))
            .peekable();
        values.peek().is_some()
            && values.all(|(request, value)| match value {
                Value::String(text) => request.to_lowercase().contains(&text.to_lowercase()),
                Value::Number(_) => self.numbers(request).iter().any(|n| equal(n, value)),
                _ => false,
            })
    }

    /// What a text offers for a property; nothing when the property is not a plain text or number.
    fn choices(
        &self,
        property: &Map<String, Value>,
        shape: &Shape,
        text: &str,
    ) -> Option<Vec<Value>> {
        let plain = !["enum", "const", "pattern", "anyOf", "oneOf", "allOf", "$ref"]
            .iter()
            .any(|key| property.contains_key(*key));
        let kind = property.get("type").and_then(Value::as_str).filter(|_| plain)?;
        // The format of a text narrows it; that of a number (`double`) only says how it is kept.
        if kind == "string" && property.contains_key("format") {
            return None;
        }
        let mut choices = match kind {
            "string" => passages(text).into_iter().map(Value::String).collect(),
            "number" => self.numbers(text),
            "integer" => self.numbers(text).into_iter().filter(Value::is_i64).collect(),
            _ => return None,
        };
        choices.retain(|choice| fits(property, choice) && shape.fits(choice));
        (!choices.is_empty()).then_some(choices)
    }

    /// The numbers of a text that stand alone: `25` and `$9.50`, not the digits of `A1001`.
    fn numbers(&self, text: &str) -> Vec<Value> {
        let mut out: Vec<Value> = Vec::new();
        for found in self.number.find_iter(text) {
            let (before, after) = (&text[..found.start()], &text[found.end()..]);
            let glued_before =
                before.ends_with(|c: char| c.is_alphanumeric() || "-_./".contains(c));
            let glued_after = after.starts_with(|c: char| c.is_alphanumeric() || "_/@".contains(c))
                || after.starts_with('-') && after[1..].starts_with(char::is_alphanumeric);
            let digits = found.as_str().trim_start_matches('+').replace(',', "");
            if let Ok(value) = digits.parse::<serde_json::Number>().map(|number| plain(&number))
                && !glued_before
                && !glued_after
                && !out.contains(&value)
            {
                out.push(value);
            }
        }
        out
    }
}

/// What the values of an argument look like in the examples: an order number has digits, an
/// address an `@`. Words have no shape.
#[derive(Debug, Default)]
struct Shape {
    digit: bool,
    letter: bool,
    at: bool,
}

impl Shape {
    fn of(tool: &ToolSpec, name: &str) -> Self {
        let all = |test: fn(char) -> bool| {
            let mut values = tool.examples.iter().filter_map(|example| example.args.get(name));
            values.all(|value| value.as_str().is_some_and(|text| text.contains(test)))
        };
        let digit = all(|c| c.is_numeric());
        let at = all(|c| c == '@');
        Self { digit, letter: digit && all(char::is_alphabetic), at }
    }

    fn is_telling(&self) -> bool {
        self.digit || self.at
    }

    fn fits(&self, choice: &Value) -> bool {
        let Some(text) = choice.as_str() else { return true };
        let one_word = !text.contains(char::is_whitespace);
        (one_word || !self.is_telling())
            && (!self.digit || text.contains(char::is_numeric))
            && (!self.letter || text.contains(char::is_alphabetic))
            && (!self.at || text.contains('@'))
    }
}

/// `25.0` and `25` are one number; the shorter is written.
pub(super) fn plain(number: &serde_json::Number) -> Value {
    match number.as_f64() {
        Some(x) if x.fract() == 0.0 && x.abs() < 9e15 => json!(x as i64),
        _ => Value::Number(number.clone()),
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some_and(|x| b.as_f64() == Some(x))
}

fn fits(property: &Map<String, Value>, choice: &Value) -> bool {
    let limit = |key: &str| property.get(key).and_then(Value::as_f64);
    let size = match choice {
        Value::String(text) => text.chars().count() as f64,
        other => other.as_f64().unwrap_or_default(),
    };
    let (min, max) = match choice {
        Value::String(_) => (limit("minLength"), limit("maxLength")),
        _ => (limit("minimum"), limit("maximum")),
    };
    min.is_none_or(|min| size >= min)
        && max.is_none_or(|max| size <= max)
        && limit("exclusiveMinimum").is_none_or(|min| size > min)
        && limit("exclusiveMaximum").is_none_or(|max| size < max)
        && limit("multipleOf").is_none_or(|step| (size / step).fract() == 0.0)
}

/// Runs of words, without the punctuation around them.
fn passages(text: &str) -> Vec<String> {
    let words: Vec<(usize, usize)> = text
        .split_whitespace()
        .map(|word| {
            let start = word.as_ptr() as usize - text.as_ptr() as usize;
            (start, start + word.len())
        })
        .collect();
    let words = &words[words.len().saturating_sub(WORDS_MAX)..];
    let mut out: Vec<String> = Vec::new();
    for length in 1..=PASSAGE_WORDS_MAX.min(words.len()) {
        for run in words.windows(length) {
            let (start, end) = (run[0].0, run[length - 1].1);
            let passage =
                text[start..end].trim_matches(|c: char| ".,;:!?\"'`()[]{}<>…".contains(c));
            if out.len() == PASSAGES_MAX {
                return out;
            }
            if !passage.is_empty() && !out.iter().any(|known| known == passage) {
                out.push(passage.to_owned());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
