//! Words of texts, and the classes of words that matter for the selection of tools.

use std::collections::BTreeSet;
use std::ops::Range;
use weftwork_types::tool::ToolSpec;

/// Function words, which never identify a tool.
const FRAME: &str = "\
    a about again all also am an and any are as at back be been by can check could did do \
    does don't dont for from get give go hello her here hey hi him his how i i'd i'm if in \
    into is isn't it it's its just know let like look make many may me mine more much \
    my need no not now of off ok okay on one or our out please run say see send set she \
    should show so some something tell thank thanks that the their them then there they \
    thing this those to today tomorrow tonight too up us use want was we well were what \
    what's whats when where where's which who why will with would write yes yesterday yet \
    you your";

/// Capitalised names that are never a value for a tool: days, months, holidays, scales, titles.
const CALENDAR: &str = "\
    monday tuesday wednesday thursday friday saturday sunday january february april june \
    july august september october november december christmas easter celsius fahrenheit mr \
    mrs ms";

/// Words that express a wish.
const WISHES: &str = "want need like please must let";

/// Words that start a request.
const OPENERS: &str = "\
    where where's what what's how is are can could tell show check look give when which do \
    does will";

/// Words that join the values of a list.
const JOINTS: &str = "and or also then plus";

const MARKS: &str = ".,;:!?\"'`()[]{}<>…#*";

/// A word without surrounding punctuation.
pub(super) fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| MARKS.contains(c))
}

/// A text without surrounding punctuation, and its position.
pub(super) fn trimmed(text: &str, at: Range<usize>) -> Range<usize> {
    let inner = bare(&text[at.clone()]);
    let start = inner.as_ptr() as usize - text.as_ptr() as usize;
    start..start + inner.len()
}

/// The positions of the words of a text, with surrounding punctuation.
pub(super) fn places(text: &str) -> Vec<Range<usize>> {
    text.split_whitespace()
        .map(|word| {
            let start = word.as_ptr() as usize - text.as_ptr() as usize;
            start..start + word.len()
        })
        .collect()
}

fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

fn lower(word: &str) -> String {
    bare(word).to_lowercase().replace('’', "'")
}

pub(super) fn is_frame(word: &str) -> bool {
    let word = lower(word);
    word.is_empty() || is_in(FRAME, &word)
}

/// Returns `true` if a capitalised word belongs to the calendar or a title.
pub(super) fn is_calendar(word: &str) -> bool {
    is_in(CALENDAR, &lower(word))
}

/// Returns `true` if a text asks for something, by its form or by its words.
pub(super) fn wishes(text: &str) -> bool {
    asks(text) || text.split_whitespace().any(|word| is_in(WISHES, &lower(word)))
}

pub(super) fn is_joint(word: &str) -> bool {
    word == "&" || is_in(JOINTS, &lower(word))
}

/// Returns `true` if a part of a request asks for something by its form.
pub(super) fn asks(segment: &str) -> bool {
    let first = segment.split_whitespace().find(|word| !is_joint(word));
    segment.trim_end().ends_with('?') || first.is_some_and(|word| is_in(OPENERS, &lower(word)))
}

/// The word before a position, in lower case.
pub(super) fn before(text: &str, at: usize) -> Option<String> {
    text[..at].split_whitespace().next_back().map(lower).filter(|word| !word.is_empty())
}

/// The positions of the parts of a text that may be separate requests.
pub(super) fn segments(text: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in places(text) {
        let word = &text[at.clone()];
        if matches!(lower(word).as_str(), "and" | "then") {
            parts.push(start..at.start);
            start = at.end;
        } else if word.ends_with(|c: char| ".,;!?".contains(c)) {
            parts.push(start..at.end);
            start = at.end;
        }
    }
    parts.push(start..text.len());
    parts.retain(|part| text[part.clone()].contains(char::is_alphanumeric));
    parts
}

/// The words of a tool: of its name, its description and its examples, without the values in the
/// examples.
#[derive(Debug)]
pub(super) struct Own(BTreeSet<String>);

impl Own {
    pub(super) fn of(tool: &ToolSpec) -> Self {
        let split = |text: &str| -> Vec<String> {
            text.split(|c: char| c.is_whitespace() || "_/-".contains(c)).map(lower).collect()
        };
        let mut words: BTreeSet<String> = split(&tool.name).into_iter().collect();
        words.extend(split(&tool.description));
        let properties = tool.parameters.get("properties").and_then(|p| p.as_object());
        words.extend(properties.into_iter().flat_map(|map| map.keys()).flat_map(|key| split(key)));
        for example in &tool.examples {
            let values = example.args.as_object().into_iter().flat_map(|map| map.values());
            let values: BTreeSet<String> =
                values.flat_map(|value| split(value.as_str().unwrap_or_default())).collect();
            words.extend(split(&example.request).into_iter().filter(|w| !values.contains(w)));
        }
        Self::without_frame(words)
    }

    /// The words of the tool's name.
    pub(super) fn name(tool: &ToolSpec) -> Self {
        Self::without_frame(tool.name.split(['_', '/', '-', '.']).map(lower).collect())
    }

    fn without_frame(mut words: BTreeSet<String>) -> Self {
        words.retain(|word| word.contains(char::is_alphabetic) && !is_frame(word));
        Self(words)
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.0.contains(&lower(word))
    }

    /// `true` if a text mentions the tool.
    pub(super) fn speaks_in(&self, text: &str) -> bool {
        text.split_whitespace().any(|word| self.has(word))
    }

    /// The words that no other tool has.
    pub(super) fn apart_from<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Self {
        let mut words = self.0.clone();
        others.for_each(|other| words.retain(|word| !other.0.contains(word)));
        Self(words)
    }
}
