//! The form of an argument's values, taken from a tool's examples.

use super::words::{self, Own};
use std::ops::Range;
use weftwork_types::tool::ToolSpec;

/// Longest name, in words.
const NAME_WORDS_MAX: usize = 5;

/// A way to recognise a value by its position.
type PlaceRule<'a> = &'a dyn Fn(&Range<usize>) -> bool;

/// The form of values: order numbers have digits, addresses an `@`, names a capital letter,
/// sentences several words.
#[derive(Debug)]
pub(super) struct ValueShape {
    digit: bool,
    /// `true` if the values start with a letter.
    letter: bool,
    at: bool,
    name: bool,
    sentence: bool,
    /// The pattern of digits and letters of each value, if the schema has a format.
    patterns: Vec<String>,
    /// The words before the values in the examples' requests.
    anchors: Vec<String>,
    own: Own,
}

impl ValueShape {
    pub(super) fn of(tool: &ToolSpec, name: &str) -> Self {
        let examples = || tool.examples.iter().filter_map(|e| Some((e, e.args.get(name)?)));
        let all = |test: fn(&str) -> bool| examples().all(|(_, v)| v.as_str().is_some_and(test));
        let digit = all(|text| text.contains(char::is_numeric));
        let at = all(|text| text.contains('@'));
        let property = &tool.parameters["properties"][name];
        let exact = property.get("format").is_some() && digit && !at;
        let anchors = examples().filter_map(|(example, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_lowercase);
            let request = example.request.to_lowercase();
            words::before(&request, request.find(&value)?)
        });
        Self {
            digit,
            letter: digit && all(|text| text.starts_with(char::is_alphabetic)),
            at,
            name: !digit && !at && all(|text| text.starts_with(char::is_uppercase)),
            sentence: !digit && !at && all(|text| text.split_whitespace().nth(1).is_some()),
            patterns: examples()
                .filter(|_| exact)
                .filter_map(|(_, value)| value.as_str().map(pattern))
                .collect(),
            anchors: anchors.collect(),
            own: Own::of(tool),
        }
    }

    /// `true` if the form alone identifies a value.
    pub(super) fn is_telling(&self) -> bool {
        self.digit || self.at
    }

    /// `true` if the text at this position follows the same word as in an example.
    pub(super) fn is_anchored(&self, text: &str, at: &Range<usize>) -> bool {
        words::before(text, at.start).is_some_and(|word| self.anchors.contains(&word))
    }

    /// The positions of such values in a text.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let mut runs = runs(text);
        if self.is_telling() || self.name {
            runs.iter_mut().for_each(|at| at.end -= owner(&text[at.clone()]));
        }
        let pick = |fits: PlaceRule<'_>| -> Vec<Range<usize>> {
            runs.iter().filter(|at| fits(at)).cloned().collect()
        };
        let rules: &[PlaceRule<'_>] = match self {
            Self { at: true, .. } | Self { digit: true, .. } => {
                &[&|at| self.is_strict(&text[at.clone()]), &|at| self.is_near(text, at)]
            }
            Self { name: true, .. } => {
                &[&|at| self.is_name(text, at), &|at| self.is_anchored_name(text, at)]
            }
            _ => &[&|at| self.is_words(&text[at.clone()])],
        };
        let found = rules.iter().map(|rule| pick(*rule)).find(|places| !places.is_empty());
        found.unwrap_or_default()
    }

    /// The positions in an answer to a question that may have the value.
    pub(super) fn answered(&self, answer: &str) -> Vec<Range<usize>> {
        let found = self.places(answer);
        if !found.is_empty() {
            return found;
        }
        let whole = if self.name { framed(answer) } else { 0..answer.len() };
        let whole = words::trimmed(answer, whole);
        let text = &answer[whole.clone()];
        let fits = match self {
            Self { at: true, .. } => text.contains('@'),
            Self { digit: true, patterns, .. } => {
                patterns.is_empty() && text.contains(char::is_numeric)
            }
            Self { name: true, .. } => text.split_whitespace().count() <= NAME_WORDS_MAX,
            _ => true,
        };
        let says = text.split_whitespace().any(|word| !words::is_frame(word));
        let one_word = !self.is_telling() || !text.contains(char::is_whitespace);
        if fits && says && one_word { vec![whole] } else { Vec::new() }
    }

    fn is_strict(&self, text: &str) -> bool {
        !text.contains(char::is_whitespace)
            && (!self.digit || text.contains(char::is_numeric))
            && (!self.letter || text.starts_with(char::is_alphabetic))
            && self.at == text.contains('@')
            && (self.patterns.is_empty() || self.patterns.contains(&pattern(text)))
    }

    /// `true` if a word may be the value although it does not have the form of the examples: at the
    /// position of an example's value, or if it is neither a word nor a number.
    fn is_near(&self, text: &str, at: &Range<usize>) -> bool {
        let word = &text[at.clone()];
        let odd = !word.contains(char::is_alphabetic) && word.parse::<f64>().is_err();
        self.patterns.is_empty()
            && !self.at
            && !word.contains(char::is_whitespace)
            && word.contains(char::is_numeric)
            && !word.contains('@')
            && (odd || self.is_anchored(text, at))
    }

    fn is_value_word(&self, word: &str) -> bool {
        !words::is_frame(word) && !self.own.has(word) && word.contains(char::is_alphanumeric)
    }

    /// `true` if all words are capitalised like a name. A single word at the start of a sentence
    /// does not count.
    fn is_name(&self, text: &str, at: &Range<usize>) -> bool {
        let words: Vec<&str> = text[at.clone()].split_whitespace().collect();
        let capital = |word: &&str| {
            word.starts_with(char::is_uppercase)
                && !word.contains(char::is_numeric)
                && !words::is_calendar(word)
                && self.is_value_word(word)
        };
        let between = |word: &&str| capital(word) || word.len() <= 3 && !words::is_joint(word);
        let sentence = text[..at.start].trim_end();
        let begins = sentence.is_empty() || sentence.ends_with(|c: char| ".!?:".contains(c));
        words.len() <= NAME_WORDS_MAX
            && words.first().is_some_and(capital)
            && words.last().is_some_and(capital)
            && words.iter().all(between)
            && !text[at.clone()].contains([',', ';', '?', '!'])
            && (!begins || words.len() > 1)
    }

    fn is_anchored_name(&self, text: &str, at: &Range<usize>) -> bool {
        let words: Vec<&str> = text[at.clone()].split_whitespace().collect();
        words.len() <= NAME_WORDS_MAX
            && words.iter().all(|word| self.is_value_word(word) && !word.contains(char::is_numeric))
            && !words.iter().any(|word| words::is_calendar(word))
            && self.is_anchored(text, at)
    }

    fn is_words(&self, text: &str) -> bool {
        let several = !self.sentence || text.contains(char::is_whitespace);
        several && text.split_whitespace().any(|word| self.is_value_word(word))
    }
}

/// The part of a text between framing words.
fn framed(text: &str) -> Range<usize> {
    let says = |at: &Range<usize>| !words::is_frame(&text[at.clone()]);
    let places = words::places(text);
    let first = places.iter().find(|at| says(at)).map_or(0, |at| at.start);
    first..places.iter().rfind(|at| says(at)).map_or(first, |at| at.end)
}

/// The pattern of a text, with equal digits and letters: `2026-01-31` and `1999-12-24` have the
/// same pattern.
fn pattern(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            _ if c.is_numeric() => '9',
            _ if c.is_alphabetic() => 'a',
            _ => c,
        })
        .collect()
}

/// Maximum number of examined words, from the end of the text.
const WORDS_MAX: usize = 64;
/// Maximum length of a run of words.
const RUN_WORDS_MAX: usize = 24;

/// The positions of all runs of words, without surrounding punctuation.
pub(super) fn runs(text: &str) -> Vec<Range<usize>> {
    let words = words::places(text);
    let words = &words[words.len().saturating_sub(WORDS_MAX)..];
    let mut out: Vec<Range<usize>> = Vec::new();
    for length in 1..=RUN_WORDS_MAX.min(words.len()) {
        for run in words.windows(length) {
            let at = words::trimmed(text, run[0].start..run[length - 1].end);
            if !at.is_empty() && !out.contains(&at) {
                out.push(at);
            }
        }
    }
    out
}

/// The length of a possessive ending.
fn owner(text: &str) -> usize {
    ["'s", "’s"].iter().find(|ending| text.ends_with(**ending)).map_or(0, |ending| ending.len())
}
