//! YAML as a tree of values that know their places.

use super::problem::{Location, Problem, ProblemKind};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value as Json};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Options, Spanned};
use std::fmt;

/// Maximum size of a file in bytes.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of values in a file, those that aliases repeat included.
const NODES_MAX: usize = 20_000;
/// Maximum depth of nested values. A level needs about 45 kB of the stack in a build for tests.
const DEPTH_MAX: usize = 32;
/// Largest number up to which all whole ones have a form as a floating point number.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// Maximum number of aliases.
const ALIASES_MAX: usize = 500;

/// A value with its location.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) location: Location,
    pub(super) content: Content,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Null, a truth value, a number or a text.
    Scalar(Json),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) location: Location,
    pub(super) node: Node,
}

impl Node {
    /// Reads a document.
    ///
    /// # Errors
    /// The problem of its syntax, a key that stands twice, or a limit that it exceeds.
    pub(super) fn read(text: &str) -> Result<Self, Box<Problem>> {
        Self::read_within(text, NODES_MAX)
    }

    /// Reads a document with at most this number of values.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(super) fn read_within(text: &str, nodes_max: usize) -> Result<Self, Box<Problem>> {
        if text.len() > FILE_BYTES_MAX {
            let found = format!("{} bytes", text.len());
            let expected = format!("at most {FILE_BYTES_MAX} bytes");
            let problem = Problem::new(ProblemKind::TooLarge, Location::START);
            return Err(Box::new(problem.found(found).expected(expected)));
        }
        let read = serde_saphyr::from_str_with_options::<Located>(text, options(nodes_max));
        read.map(|located| located.0).map_err(|error| Box::new(problem_of(&error)))
    }

    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a list; none of other values.
    pub(super) fn items(&self) -> &[Self] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the text of a scalar that is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(Json::String(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Adds a text to a mapping, with the location of the mapping.
    pub(super) fn insert(&mut self, key: &str, text: String) {
        let location = self.location;
        let node = Self { location, content: Content::Scalar(Json::String(text)) };
        if let Content::Mapping(entries) = &mut self.content {
            entries.push(Entry { key: key.to_owned(), location, node });
        }
    }

    /// Returns the value at a JSON pointer.
    pub(super) fn at(&self, pointer: &str) -> Option<&Self> {
        let names = pointer.split('/').skip(1);
        names.map(|name| name.replace("~1", "/").replace("~0", "~")).try_fold(self, |node, name| {
            match &node.content {
                Content::Mapping(_) => node.entry(&name).map(|entry| &entry.node),
                Content::List(nodes) => nodes.get(name.parse::<usize>().ok()?),
                Content::Scalar(_) => None,
            }
        })
    }

    /// Reads the value as a type whose whole numbers may be written as floating point numbers.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        let parsed = serde_json::from_value(self.to_json());
        parsed.or_else(|_| serde_json::from_value(self.to_whole_json()))
    }

    /// Returns the value with whole numbers as integers: `2.0` is one to a JSON Schema.
    fn to_whole_json(&self) -> Json {
        let mut json = self.to_json();
        make_whole(&mut json);
        json
    }

    pub(super) fn to_json(&self) -> Json {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(nodes) => nodes.iter().map(Self::to_json).collect(),
            Content::Mapping(entries) => {
                let member = |entry: &Entry| (entry.key.clone(), entry.node.to_json());
                Json::Object(entries.iter().map(member).collect::<Map<_, _>>())
            }
        }
    }
}

fn make_whole(json: &mut Json) {
    match json {
        Json::Number(number) => {
            let whole = number.as_f64().filter(|of| of.fract() == 0.0 && of.abs() <= WHOLE_MAX);
            #[expect(clippy::cast_possible_truncation, reason = "the value is whole and small")]
            if let Some(whole) = whole {
                *number = Number::from(whole as i64);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(make_whole),
        Json::Object(members) => members.values_mut().for_each(make_whole),
        _ => {}
    }
}

fn options(nodes_max: usize) -> Options {
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    options.merge_keys = MergeKeyPolicy::Merge;
    // `no` is a word, as in YAML 1.2, and may be a country.
    options.strict_booleans = true;
    options.leading_zero_numbers_as_strings = true;
    options.underscored_numbers_as_strings = true;
    // Nothing is included, and no variable is read: a tag that promises it would be lost.
    options.reject_unsupported_tags = true;
    if let Some(budget) = &mut options.budget {
        budget.max_nodes = nodes_max;
        budget.max_events = 4 * nodes_max;
        budget.max_depth = DEPTH_MAX;
        budget.max_aliases = ALIASES_MAX;
    }
    options.alias_limits.max_total_replayed_events = NODES_MAX;
    options
}

fn problem_of(error: &serde_saphyr::Error) -> Problem {
    let location =
        error.location().map_or(Location::START, |at| Location::new(at.line(), at.column()));
    let error = error.without_snippet();
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().unwrap_or_default();
        return Problem::new(ProblemKind::Twice, location).path(key).expected("each key once");
    }
    let text = match error {
        serde_saphyr::Error::MultipleDocuments { .. } => "a second document".to_owned(),
        serde_saphyr::Error::NonFiniteFloat { .. } => {
            "a number that JSON has not; put it in quotes".to_owned()
        }
        error => error.to_string(),
    };
    // The first line has the reason; the others repeat the text of the document.
    let reason = text.lines().next().unwrap_or_default();
    let reason = reason.split(" at line ").next().unwrap_or(reason);
    Problem::new(ProblemKind::Syntax, location).found(reason).expected("YAML 1.2")
}

/// A node as the library reads it.
struct Located(Node);

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        let location = Location::of(&spanned.referenced);
        Ok(Self(Node { location, content: spanned.value }))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has")
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Json::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Json::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(Json::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Content, E> {
        let number = Number::from_f64(value);
        let refusal = || E::custom(format!("{value} is no number that JSON has; put it in quotes"));
        number.map(|number| Content::Scalar(Json::Number(number))).ok_or_else(refusal)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(Json::String(value.to_owned())))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Content, E> {
        Ok(Content::Scalar(Json::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut nodes = Vec::new();
        while let Some(Located(node)) = items.next_element()? {
            nodes.push(node);
        }
        Ok(Content::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = members.next_key::<Spanned<String>>()? {
            let Located(node) = members.next_value()?;
            let location = Location::of(&key.referenced);
            entries.push(Entry { key: key.value, location, node });
        }
        Ok(Content::Mapping(entries))
    }
}
