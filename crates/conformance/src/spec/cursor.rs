//! A place in a spec: a value and the way that led to it, so that errors can name it.

use crate::SpecError;
use serde_json::{Map, Value as Json};

/// Characters of a found value that an error shows.
const SHOWN_MAX: usize = 60;

/// A value of the spec and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) json: &'a Json,
    up: Option<&'a Cursor<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Item(usize),
}

impl<'a> Cursor<'a> {
    pub(crate) fn root(json: &'a Json) -> Self {
        Self { json, up: None, step: Step::Root }
    }

    fn down(&'a self, json: &'a Json, step: Step<'a>) -> Self {
        Self { json, up: Some(self), step }
    }

    /// The JSON pointer to this place.
    pub(crate) fn pointer(&self) -> String {
        let mut pointer = self.up.map(Cursor::pointer).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Member(name) => {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Step::Item(index) => pointer.push_str(&format!("/{index}")),
        }
        pointer
    }

    /// The error that something else was expected here.
    pub(crate) fn expected(&self, expected: impl Into<String>) -> SpecError {
        let pointer = self.pointer();
        SpecError::Unexpected {
            pointer: if pointer.is_empty() { "/".to_owned() } else { pointer },
            found: cut(self.json),
            expected: expected.into(),
        }
    }

    pub(crate) fn object(&self) -> Result<&'a Map<String, Json>, SpecError> {
        self.json.as_object().ok_or_else(|| self.expected("an object"))
    }

    pub(crate) fn array(&self) -> Result<&'a Vec<Json>, SpecError> {
        self.json.as_array().ok_or_else(|| self.expected("a list"))
    }

    pub(crate) fn text(&self) -> Result<String, SpecError> {
        self.json.as_str().map(str::to_owned).ok_or_else(|| self.expected("a string"))
    }

    pub(crate) fn flag(&self) -> Result<bool, SpecError> {
        self.json.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    pub(crate) fn count(&self) -> Result<u64, SpecError> {
        self.json.as_u64().ok_or_else(|| self.expected("a whole number from 0"))
    }

    pub(crate) fn small(&self) -> Result<u32, SpecError> {
        let small = self.count().ok().and_then(|count| u32::try_from(count).ok());
        small.ok_or_else(|| self.expected("a whole number from 0 to 4294967295"))
    }

    /// Seconds that a clock can wait.
    pub(crate) fn seconds(&self) -> Result<std::time::Duration, SpecError> {
        let seconds = self.json.as_f64();
        let duration = seconds.and_then(|s| std::time::Duration::try_from_secs_f64(s).ok());
        duration.ok_or_else(|| self.expected("a number of seconds from 0"))
    }

    /// A member, when it is there.
    pub(crate) fn get(&'a self, name: &'a str) -> Option<Cursor<'a>> {
        let found = self.json.as_object()?.get(name)?;
        Some(self.down(found, Step::Member(name)))
    }

    /// A member that must be there.
    pub(crate) fn member(&'a self, name: &'a str) -> Result<Cursor<'a>, SpecError> {
        self.get(name).ok_or_else(|| self.expected(format!("an object with `{name}`")))
    }

    /// An item that must be there.
    pub(crate) fn item(&'a self, index: usize) -> Result<Cursor<'a>, SpecError> {
        let found = self.json.as_array().and_then(|items| items.get(index));
        let found = found.ok_or_else(|| {
            self.expected(format!("a list of at least {} items", index.saturating_add(1)))
        })?;
        Ok(self.down(found, Step::Item(index)))
    }

    /// Each item, read.
    pub(crate) fn each<T>(
        &self,
        mut read: impl FnMut(Cursor<'_>) -> Result<T, SpecError>,
    ) -> Result<Vec<T>, SpecError> {
        let items = self.array()?.iter().enumerate();
        items
            .map(|(index, item)| {
                read(Cursor { json: item, up: Some(self), step: Step::Item(index) })
            })
            .collect()
    }

    /// Each member, read, in order.
    pub(crate) fn members<T>(
        &self,
        mut read: impl FnMut(&str, Cursor<'_>) -> Result<T, SpecError>,
    ) -> Result<Vec<(String, T)>, SpecError> {
        let members = self.object()?.iter();
        members
            .map(|(name, value)| {
                let below = Cursor { json: value, up: Some(self), step: Step::Member(name) };
                Ok((name.clone(), read(name, below)?))
            })
            .collect()
    }

    pub(crate) fn texts(&self) -> Result<Vec<String>, SpecError> {
        self.each(|item| item.text())
    }

    /// A member that may be absent, read.
    pub(crate) fn maybe<T>(
        &self,
        name: &str,
        read: impl FnOnce(Cursor<'_>) -> Result<T, SpecError>,
    ) -> Result<Option<T>, SpecError> {
        let found = self.json.as_object().and_then(|members| members.get(name));
        found
            .map(|value| read(Cursor { json: value, up: Some(self), step: Step::Member(name) }))
            .transpose()
    }
}

fn cut(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;
    use serde_json::json;

    #[test]
    fn errors_name_the_place() {
        let json = json!({"nodes": {"a/b": {"do": [["set"]]}}});
        let root = Cursor::root(&json);
        let nodes = root.member("nodes").unwrap();
        let node = nodes.member("a/b").unwrap();
        let ops = node.member("do").unwrap();
        let op = ops.item(0).unwrap();
        let error = op.item(1).unwrap_err().to_string();
        let expected =
            "the spec has [\"set\"] at `/nodes/a~1b/do/0`; expected a list of at least 2 items";
        assert_eq!(error, expected);
    }
}
