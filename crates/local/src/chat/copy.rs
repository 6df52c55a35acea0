//! Arguments that are copied from the conversation.
//!
//! A small model tends to repeat the value of its example, or to invent numbers. If a tool's own
//! examples show that an argument is always copied from the request, the model can choose only
//! among the values in the person's words; without such a value the argument is missing and cannot
//! be generated.

use super::shape::ValueShape;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use weftwork_types::tool::ToolSpec;

/// Values offered for one argument.
const OFFERS_MAX: usize = 600;

/// The person's words that a call may copy.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    pub(super) request: String,
    /// Parts of the request that other calls have used.
    pub(super) used: Vec<Range<usize>>,
    /// The person's answers to questions for arguments.
    pub(super) answers: BTreeMap<String, String>,
    /// The person's words before the request, newest first.
    pub(super) earlier: Vec<String>,
    /// Texts that earlier calls copied from the person's words, by argument.
    pub(super) known: Map<String, Value>,
}

/// A value in the person's words, and its position in the request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Offer {
    pub(super) value: Value,
    pub(super) at: Option<Range<usize>>,
    anchored: bool,
}

/// The copied arguments of a call, with the values offered for each.
#[derive(Debug)]
pub(super) struct Form {
    schema: Value,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    name: String,
    required: bool,
    offers: Vec<Offer>,
}

/// Finds the values that can be copied.
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

    /// Collects the values in the person's words that fit each copied argument of a tool.
    pub(super) fn form(&self, tool: &ToolSpec, said: &Said) -> Form {
        let mut fields: Vec<Field> = self
            .copied_arguments(tool)
            .map(|(name, property)| Field {
                name: name.to_owned(),
                required: is_required(tool, name),
                offers: self.find_offers(tool, name, property, said),
            })
            .collect();
        settle(&mut fields);
        Form { schema: tool.parameters.clone(), fields }
    }

    /// `true` if the request has a value for a required argument of the tool, or none is needed.
    pub(super) fn offers_any(&self, tool: &ToolSpec, request: &str) -> bool {
        let mut required =
            self.copied_arguments(tool).filter(|(name, _)| is_required(tool, name)).peekable();
        required.peek().is_none()
            || required
                .any(|(name, property)| !self.find_values(tool, name, property, request).is_empty())
    }

    /// The positions of values for the required arguments of a tool in the request.
    pub(super) fn spots(&self, tool: &ToolSpec, request: &str) -> Vec<(String, Vec<Offer>)> {
        self.copied_arguments(tool)
            .filter(|(name, _)| is_required(tool, name))
            .map(|(name, map)| (name.to_owned(), self.find_values(tool, name, map, request)))
            .collect()
    }

    /// The positions of a call's arguments in the request, without the parts used before.
    pub(super) fn taken(&self, tool: &ToolSpec, args: &Value, said: &Said) -> Vec<Range<usize>> {
        let mut taken: Vec<Range<usize>> = Vec::new();
        for (name, property) in self.copied_arguments(tool) {
            let Some(value) = args.get(name) else { continue };
            let place = self
                .find_values(tool, name, property, &said.request)
                .into_iter()
                .filter(|offer| equal(&offer.value, value))
                .filter_map(|offer| offer.at)
                .find(|at| !said.used.iter().chain(&taken).any(|used| overlap(used, at)));
            taken.extend(place);
        }
        taken
    }

    /// The arguments that every example copies from its request.
    fn copied_arguments<'a>(
        &'a self,
        tool: &'a ToolSpec,
    ) -> impl Iterator<Item = (&'a str, &'a Map<String, Value>)> {
        let properties = tool.parameters.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .filter(|(name, _)| self.is_copied(tool, name))
            .filter_map(|(name, property)| Some((name.as_str(), property.as_object()?)))
    }

    pub(super) fn is_copied(&self, tool: &ToolSpec, name: &str) -> bool {
        let mut values = tool
            .examples
            .iter()
            .filter_map(|example| Some((example.request.as_str(), example.args.get(name)?)))
            .peekable();
        values.peek().is_some()
            && values.all(|(request, value)| match value {
                Value::String(text) => request.to_lowercase().contains(&text.to_lowercase()),
                Value::Number(_) => self.numbers(request).iter().any(|(n, _)| equal(n, value)),
                _ => false,
            })
    }

    fn find_offers(
        &self,
        tool: &ToolSpec,
        name: &str,
        property: &Map<String, Value>,
        said: &Said,
    ) -> Vec<Offer> {
        let elsewhere = |value: Value| Offer { value, at: None, anchored: false };
        if let Some(answer) = said.answers.get(name) {
            let shape = ValueShape::of(tool, name);
            let values =
                self.read_values(property, kind(tool, name), answer, || shape.answered(answer));
            return values.into_iter().map(|(value, _)| elsewhere(value)).collect();
        }
        let mut offers = self.find_values(tool, name, property, &said.request);
        offers.retain(|offer| !said.used.iter().any(|used| offer.meets(used)));
        if offers.is_empty() && kind(tool, name) == ArgumentKind::Text {
            // Values recognised by their form, otherwise the value that a call used for the same
            // argument.
            let telling = ValueShape::of(tool, name).is_telling();
            let mut texts = said.earlier.iter().filter(|_| telling);
            let known = || said.known.get(name).filter(|value| fits(property, value)).cloned();
            offers = texts
                .find_map(|text| {
                    let found = self.find_values(tool, name, property, text);
                    (!found.is_empty()).then_some(found)
                })
                .unwrap_or_else(|| known().into_iter().map(elsewhere).collect());
            offers.iter_mut().for_each(|offer| offer.at = None);
        }
        offers
    }

    /// The values in a text for an argument.
    fn find_values(
        &self,
        tool: &ToolSpec,
        name: &str,
        property: &Map<String, Value>,
        text: &str,
    ) -> Vec<Offer> {
        let shape = ValueShape::of(tool, name);
        self.read_values(property, kind(tool, name), text, || shape.places(text))
            .into_iter()
            .map(|(value, at)| {
                let anchored = shape.is_anchored(text, &at);
                Offer { value, at: Some(at), anchored }
            })
            .collect()
    }

    fn read_values(
        &self,
        property: &Map<String, Value>,
        kind: ArgumentKind,
        text: &str,
        places: impl Fn() -> Vec<Range<usize>>,
    ) -> Vec<(Value, Range<usize>)> {
        let mut values = match kind {
            ArgumentKind::Number => self.numbers(text),
            ArgumentKind::Integer => {
                self.numbers(text).into_iter().filter(|(n, _)| n.is_i64()).collect()
            }
            ArgumentKind::Text => match property.get("enum").and_then(Value::as_array) {
                Some(list) => listed(list, text),
                None => places().into_iter().map(|at| (json!(text[at.clone()]), at)).collect(),
            },
        };
        values.retain(|(value, _)| fits(property, value));
        values.truncate(OFFERS_MAX);
        values
    }

    /// The numbers of a text that stand alone: `25` and `$9.50`, not the digits of `A1001`.
    pub(super) fn numbers(&self, text: &str) -> Vec<(Value, Range<usize>)> {
        let mut out = Vec::new();
        for found in self.number.find_iter(text) {
            let before = &text[..found.start()];
            let after = &text[found.end()..];
            let glued_before =
                before.ends_with(|c: char| c.is_alphanumeric() || "-_./#".contains(c));
            let glued_after = after.starts_with(|c: char| c.is_alphanumeric() || "_/@".contains(c))
                || after.starts_with('-') && after[1..].starts_with(char::is_alphanumeric);
            let digits = found.as_str().trim_start_matches('+').replace(',', "");
            if let Ok(value) = digits.parse::<serde_json::Number>().map(|number| plain(&number))
                && !glued_before
                && !glued_after
            {
                out.push((value, found.range()));
            }
        }
        out
    }
}

impl Offer {
    fn meets(&self, place: &Range<usize>) -> bool {
        self.at.as_ref().is_some_and(|at| overlap(at, place))
    }
}

impl Form {
    /// The required arguments without a value in the person's words.
    pub(super) fn missing(&self) -> impl Iterator<Item = &str> {
        let empty = |field: &&Field| field.required && field.offers.is_empty();
        self.fields.iter().filter(empty).map(|field| field.name.as_str())
    }

    /// `true` if a value lies within a part of the request.
    pub(super) fn takes_from(&self, part: &Range<usize>) -> bool {
        self.fields.iter().flat_map(|field| &field.offers).any(|offer| offer.meets(part))
    }

    /// The schema of the tool's arguments, in which each copied argument is a choice among the
    /// offered values, and absent if there are none.
    pub(super) fn schema(&self) -> Value {
        let mut schema = self.schema.clone();
        if self.fields.is_empty() {
            return schema;
        }
        let nothing =
            |name: &str| self.fields.iter().any(|f| f.name == name && f.offers.is_empty());
        if let Value::Object(map) = &mut schema {
            map.retain(|key, _| key != "patternProperties");
            map.insert("additionalProperties".to_owned(), json!(false));
        }
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return schema };
        properties.retain(|name, _| !nothing(name));
        for field in self.fields.iter().filter(|field| !field.offers.is_empty()) {
            let mut values: Vec<&Value> = Vec::new();
            for offer in &field.offers {
                if !values.contains(&&offer.value) {
                    values.push(&offer.value);
                }
            }
            // The values were validated against the schema when they were offered.
            properties.insert(field.name.clone(), json!({ "enum": values }));
        }
        schema
    }

    /// Withdraws a value of the request from the second of two arguments that both have it; returns
    /// `true` if there was one. Then the arguments must be generated again. Each call reduces the
    /// choices, so this terminates.
    pub(super) fn part(&mut self, args: &Value) -> bool {
        let mut taken: Vec<Range<usize>> = Vec::new();
        for Field { name, offers, .. } in &mut self.fields {
            let Some(value) = args.get(&*name).filter(|_| !offers.is_empty()) else { continue };
            let is_free = |offer: &Offer| !taken.iter().any(|at| offer.meets(at));
            let chosen = offers.iter().find(|offer| equal(&offer.value, value) && is_free(offer));
            let Some(chosen) = chosen.cloned() else {
                let before = offers.len();
                offers.retain(|offer| !equal(&offer.value, value) && is_free(offer));
                // A value that was not offered: from now on no values are offered.
                offers.truncate(if offers.len() < before { before } else { 0 });
                return true;
            };
            taken.extend(chosen.at.clone());
            *offers = vec![chosen];
        }
        false
    }
}

/// Assigns each value to one argument if that is unambiguous: a value at the position that the
/// argument has in an example, and the only value of an argument.
fn settle(fields: &mut [Field]) {
    fields.sort_by_key(|field| {
        let number = field.offers.first().is_some_and(|offer| offer.value.is_number());
        (!field.required, !number)
    });
    for own in 0..fields.len() {
        let anchored: Vec<Range<usize>> =
            fields[own].offers.iter().filter(|o| o.anchored).filter_map(|o| o.at.clone()).collect();
        let several = anchored.len() > 1;
        for (_, field) in fields.iter_mut().enumerate().filter(|(other, _)| *other != own) {
            let loses = |o: &Offer| !o.anchored && anchored.iter().any(|at| o.meets(at));
            if !(several && field.offers.iter().all(loses)) {
                field.offers.retain(|offer| !loses(offer));
            }
        }
    }
    for _ in 0..fields.len() {
        for own in 0..fields.len() {
            let [Offer { at: Some(at), .. }] = &fields[own].offers[..] else { continue };
            let at = at.clone();
            for (_, field) in fields.iter_mut().enumerate().filter(|(other, _)| *other != own) {
                field.offers.retain(|offer| !offer.meets(&at));
            }
        }
    }
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentKind {
    Text,
    Number,
    Integer,
}

fn kind(tool: &ToolSpec, name: &str) -> ArgumentKind {
    let property = &tool.parameters["properties"][name]["type"];
    let is = |kind: &str| {
        property == kind || property.as_array().is_some_and(|list| list.iter().any(|k| k == kind))
    };
    let number = tool.examples.iter().any(|e| e.args.get(name).is_some_and(Value::is_number));
    match number {
        true if is("integer") && !is("number") => ArgumentKind::Integer,
        true => ArgumentKind::Number,
        false => ArgumentKind::Text,
    }
}

fn is_required(tool: &ToolSpec, name: &str) -> bool {
    let required = tool.parameters.get("required").and_then(Value::as_array);
    required.is_some_and(|list| list.iter().any(|required| required == name))
}

/// The values of a list that occur in a text.
fn listed(list: &[Value], text: &str) -> Vec<(Value, Range<usize>)> {
    let runs = super::shape::runs(text);
    let named = |value: &&Value, at: &Range<usize>| {
        value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(&text[at.clone()]))
    };
    runs.into_iter()
        .filter_map(|at| Some((list.iter().find(|value| named(value, &at))?.clone(), at)))
        .collect()
}

pub(super) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Formats a number: `25.0` and `25` are the same, and the shorter form is used.
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
    let pattern = property.get("pattern").and_then(Value::as_str).zip(choice.as_str());
    min.is_none_or(|min| size >= min)
        && max.is_none_or(|max| size <= max)
        && limit("exclusiveMinimum").is_none_or(|min| size > min)
        && limit("exclusiveMaximum").is_none_or(|max| size < max)
        && limit("multipleOf").is_none_or(|step| (size / step).fract() == 0.0)
        && pattern.is_none_or(|(p, text)| Regex::new(p).is_ok_and(|p| p.is_match(text)))
}

#[cfg(test)]
mod tests;
