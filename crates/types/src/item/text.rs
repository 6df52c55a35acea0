use super::record::Indexing;
use serde_json::Value;

/// Maximum number of distinct terms of a search text; further terms are ignored.
pub const TERMS_MAX: usize = 32;

/// The terms of a search text: its sequences of letters and digits, ignoring case.
///
/// The search matches words, not meaning. It covers strings and numbers of a value, not field
/// names. A term scores 1 if it is a word of the value, and 0.5 if it occurs within a word, as in
/// scripts without spaces between words. The score of a value is the mean of the scores of all
/// terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms(Vec<String>);

impl Terms {
    /// Parses the terms of a text; `None` if it has no terms, so that the search is not restricted.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let mut terms: Vec<String> = Vec::new();
        let lower = text.to_lowercase();
        for term in words(&lower) {
            if terms.len() < TERMS_MAX && !terms.iter().any(|known| known == term) {
                terms.push(term.to_owned());
            }
        }
        (!terms.is_empty()).then_some(Self(terms))
    }

    /// Returns the score of a value, above 0 and at most 1; `None` if it does not match.
    #[must_use]
    pub fn score(&self, value: &Value, indexing: &Indexing) -> Option<f64> {
        let mut texts = Vec::new();
        match indexing {
            Indexing::All => collect(value, &mut texts),
            Indexing::Off => {}
            Indexing::Paths(paths) => {
                paths.iter().for_each(|path| collect_at(value, path, &mut texts));
            }
        }
        let halves: u32 = self.0.iter().map(|term| halves(term, &texts)).sum();
        let most = u32::try_from(self.0.len() * 2).unwrap_or(u32::MAX);
        (halves > 0).then(|| f64::from(halves) / f64::from(most))
    }
}

fn halves(term: &str, texts: &[String]) -> u32 {
    if texts.iter().any(|text| words(text).any(|word| word == term)) {
        return 2;
    }
    u32::from(texts.iter().any(|text| text.contains(term)))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Collects the texts of a value, in lower case.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.to_lowercase()),
        Value::Number(number) => texts.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(map) => map.values().for_each(|item| collect(item, texts)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn collect_at(value: &Value, path: &str, texts: &mut Vec<String>) {
    if path.is_empty() || path == "$" {
        return collect(value, texts);
    }
    if let Value::Array(items) = value {
        return items.iter().for_each(|item| collect_at(item, path, texts));
    }
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Some(value) = value.get(name.strip_suffix("[*]").unwrap_or(name)) {
        collect_at(value, rest, texts);
    }
}
