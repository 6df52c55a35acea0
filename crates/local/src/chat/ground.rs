//! Answers that follow from the result of a call.
//!
//! The model writes a sentence about the result of a tool that reads from a limited vocabulary.
//! About the result of a tool with an effect it uses any words, because verbs such as `sent` are in
//! no result; only the numbers are limited. A sentence is used only if it names a value that the
//! call did not give, denies nothing that the result states, and gives each member that it names
//! its value. Otherwise the values themselves are the answer, in a fixed form. The check does not
//! read other words: "I sent it, it is queued." passes for a message that is queued.

use super::facts::{self, Fact};
use serde_json::Value;
use std::collections::BTreeSet;
use weftwork_types::tool::ToolSpec;

/// Words that an answer may have in addition to those of the call and of the result. They state
/// nothing by themselves.
const GLUE: &str = "The the A a An an It it Its its They they There there This this That that is \
    are was were has have had be been and or with in on at of for to from by as degrees degree \
    called";

/// Words that deny, in lower case.
const DENIALS: &str = "no not never none nothing neither nor without cannot";

/// Number of words after a denial that it may deny.
const DENIED_WORDS_MAX: usize = 3;

/// Last words of names whose values are not what a request is about.
const ASIDES: &str = "id source receipt reference";

/// Maximum number of words of a value that an answer must hold as a whole.
const WHOLE_WORDS_MAX: usize = 8;

/// A result of a call, for an answer about it.
#[derive(Debug)]
pub(super) struct Ground {
    facts: Vec<Fact>,
    /// For each fact, `true` if the call gave its value.
    given: Vec<bool>,
    /// The words of the tool's name and of its arguments with their values.
    call: String,
    request: BTreeSet<String>,
    /// The arguments of the call, if an answer must say which of several calls it is about.
    subject: Vec<(String, String)>,
}

impl Ground {
    /// The ground for an answer: the result, the call that led to it, the request, and `true` if
    /// the answer is one of several.
    pub(super) fn new(
        facts: Vec<Fact>,
        tool: Option<&ToolSpec>,
        args: Option<&Value>,
        request: &str,
        several: bool,
    ) -> Self {
        let args: Vec<(&String, String)> = args
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, value)| (name, facts::plain(value)))
            .collect();
        let facts = in_order(facts, tool);
        let is_given = |fact: &Fact| args.iter().any(|(_, value)| same(value, &fact.text));
        let given = facts.iter().map(is_given).collect();
        let mut call = tool.map(|tool| tool.wire_name().replace('_', " ")).unwrap_or_default();
        for (name, value) in &args {
            call.push_str(&format!(" {} {value}", name.replace('_', " ")));
        }
        let request = words(request).collect();
        let named = args.iter().map(|(name, value)| (name.replace('_', " "), value.clone()));
        let subject = if several { named.collect() } else { Vec::new() };
        Self { facts, given, call, request, subject }
    }

    /// The words from which an answer is written.
    pub(super) fn vocabulary(&self) -> String {
        let not = if self.facts.iter().any(|fact| fact.flag == Some(false)) { "not" } else { "" };
        format!("{} {} {GLUE} {not}", self.call, facts::line(&self.facts))
    }

    /// Returns `true` if a sentence follows from the result.
    pub(super) fn supports(&self, sentence: &str) -> bool {
        let said: Vec<String> = words(sentence).collect();
        let text = format!(" {} ", said.join(" "));
        let denies = said.iter().any(|word| is_denial(word));
        let is_named = |fact: &Fact| match fact.flag {
            Some(flag) => flag != denies && words(&fact.name).all(|word| said.contains(&word)),
            None => names(&text, &said, &fact.text),
        };
        !sentence.trim_end().ends_with('?')
            && self.target_facts().iter().any(|fact| is_named(fact))
            && (self.subject.is_empty()
                || self.subject.iter().any(|(_, value)| names(&text, &said, value)))
            && (!denies || self.facts.iter().any(Fact::denies) && !self.is_denied(&said))
            && (self.has_affirmed() || !said.iter().any(|word| word == "yes"))
            && self.facts.iter().all(|fact| is_named(fact) || !self.mentions(fact, &said))
    }

    /// The values in a fixed form, without the model.
    pub(super) fn statement(&self) -> String {
        let part = |fact: &Fact| match fact.flag {
            Some(_) => format!("{}: {}", fact.name, fact.text),
            None => format!("the {} is {}", fact.name, fact.text),
        };
        let select = |given: bool| {
            self.facts.iter().zip(&self.given).filter(move |(_, of)| **of == given).map(|(f, _)| f)
        };
        let news: Vec<String> = select(false).map(part).collect();
        let mut subject: Vec<String> =
            select(true).map(|fact| format!("{} {}", fact.name, fact.text)).collect();
        if subject.is_empty() {
            subject.extend(self.subject.iter().map(|(name, value)| format!("{name} {value}")));
        }
        let mut text = match (subject.is_empty(), news.is_empty()) {
            _ if self.facts.is_empty() => return "The result has no values.".to_owned(),
            (true, _) => news.join(", "),
            (false, true) => self.facts.iter().map(part).collect::<Vec<_>>().join(", "),
            (false, false) => format!("for {}: {}", subject.join(", "), news.join(", ")),
        };
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
        format!("{text}{end}")
    }

    /// The facts of which an answer must name one: those that the call did not give and that are no
    /// asides. A status is the only one, if there is one.
    fn target_facts(&self) -> Vec<&Fact> {
        let news: Vec<&Fact> = self
            .facts
            .iter()
            .zip(&self.given)
            .filter(|(_, given)| !**given)
            .map(|(f, _)| f)
            .collect();
        let is_aside = |fact: &&Fact| {
            let last = fact.name.split(' ').next_back();
            ASIDES.split(' ').any(|aside| last == Some(aside))
        };
        let telling: Vec<&Fact> = news.iter().copied().filter(|fact| !is_aside(fact)).collect();
        let status: Vec<&Fact> =
            telling.iter().copied().filter(|fact| fact.name == "status").collect();
        [status, telling, news]
            .into_iter()
            .find(|facts| !facts.is_empty())
            .unwrap_or_else(|| self.facts.iter().collect())
    }

    /// Returns `true` if a sentence denies a value: a denial shortly before it.
    fn is_denied(&self, said: &[String]) -> bool {
        let stated = self.facts.iter().filter(|fact| fact.flag.is_none() && !fact.denies());
        let begins: BTreeSet<String> = stated.filter_map(|fact| words(&fact.text).next()).collect();
        let places = said.iter().enumerate().filter(|(_, word)| is_denial(word));
        places.map(|(at, _)| at).any(|at| {
            said.iter().skip(at + 1).take(DENIED_WORDS_MAX).any(|word| begins.contains(word))
        })
    }

    fn has_affirmed(&self) -> bool {
        self.facts.iter().any(|fact| words(&fact.text).any(|word| word == "yes"))
    }

    /// Returns `true` if a sentence has the name of a fact, or a part of a value that denies.
    fn mentions(&self, fact: &Fact, said: &[String]) -> bool {
        let has = |word: &String| said.contains(word);
        let name: Vec<String> = words(&fact.name).collect();
        let by_name = name.iter().all(has) && !name.iter().all(|word| self.request.contains(word));
        let content = |word: &String| word.chars().count() > 3 && !is_denial(word);
        let by_part = fact.flag.is_none()
            && fact.denies()
            && words(&fact.text).filter(content).any(|word| has(&word));
        by_name || by_part
    }
}

impl Fact {
    fn denies(&self) -> bool {
        words(&self.text).any(|word| is_denial(&word))
    }
}

/// Facts in the order of the declared members of the result; others follow.
fn in_order(mut facts: Vec<Fact>, tool: Option<&ToolSpec>) -> Vec<Fact> {
    let declared = tool.and_then(|tool| tool.output.as_ref()?.get("properties")?.as_object());
    if let Some(declared) = declared {
        let place =
            |fact: &Fact| declared.keys().position(|key| key.replace('_', " ") == fact.name);
        facts.sort_by_key(|fact| place(fact).unwrap_or(usize::MAX));
    }
    facts
}

/// The words of a text in lower case, without surrounding punctuation.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace()
        .map(|word| super::words::bare(word).to_lowercase())
        .filter(|word| !word.is_empty())
}

fn is_denial(word: &str) -> bool {
    word.ends_with("n't") || DENIALS.split_whitespace().any(|denial| denial == word)
}

fn same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// Returns `true` if a text holds a value: a number as a word, a short text as a whole, of a long
/// one the first words.
fn names(text: &str, said: &[String], value: &str) -> bool {
    if let Ok(number) = value.parse::<f64>() {
        return said.iter().any(|word| word.parse::<f64>() == Ok(number));
    }
    let value: Vec<String> = words(value).take(WHOLE_WORDS_MAX).collect();
    !value.is_empty() && text.contains(&format!(" {} ", value.join(" ")))
}

#[cfg(test)]
mod tests;
