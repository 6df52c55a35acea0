//! Members of the bodies of requests.

use crate::error::{ApiError, Result};
use axum::body::Bytes;
use serde_json::{Map, Value};
use weftwork_server::read_json;

/// Limits of `metadata`, as OpenAI's API has them.
const METADATA_MEMBERS_MAX: usize = 16;
const METADATA_NAME_CHARS_MAX: usize = 64;
const METADATA_VALUE_CHARS_MAX: usize = 512;

/// A body whose members are taken one by one. `null` is the same as no member.
#[derive(Debug)]
pub(crate) struct Body(Map<String, Value>);

impl Body {
    /// Reads a body.
    ///
    /// # Errors
    /// Status 400 for one that is no JSON object.
    pub(crate) fn read(bytes: &Bytes) -> Result<Self> {
        match read_json(bytes)? {
            Value::Object(mut members) => {
                members.retain(|_, value| !value.is_null());
                Ok(Self(members))
            }
            other => Err(ApiError::wrong_type("body", &other, "a JSON object")),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name)
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(ApiError::wrong_type(name, &other, "a text")),
        }
    }

    /// Takes a text that a request must have.
    pub(crate) fn required_text(&mut self, name: &str) -> Result<String> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| ApiError::invalid(name, format!("`{name}` is missing; expected a text")))
    }

    /// Takes a flag, which is `false` by default.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// Takes a flag.
    pub(crate) fn optional_flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(ApiError::wrong_type(name, &other, "true or false")),
        }
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<Value>> {
        match self.take(name) {
            Some(Value::Array(list)) => Ok(list),
            None => Err(ApiError::invalid(name, format!("`{name}` is missing; expected a list"))),
            Some(other) => Err(ApiError::wrong_type(name, &other, "a list")),
        }
    }

    /// Takes `metadata`: texts by names.
    pub(crate) fn metadata(&mut self) -> Result<Map<String, Value>> {
        let metadata = match self.take("metadata") {
            None => return Ok(Map::new()),
            Some(Value::Object(metadata)) => metadata,
            Some(other) => return Err(ApiError::wrong_type("metadata", &other, "an object")),
        };
        if metadata.len() > METADATA_MEMBERS_MAX {
            let found = metadata.len();
            let message =
                format!("`metadata` has {found} members; expected at most {METADATA_MEMBERS_MAX}");
            return Err(ApiError::invalid("metadata", message));
        }
        for (name, value) in &metadata {
            let fits =
                value.as_str().is_some_and(|text| text.chars().count() <= METADATA_VALUE_CHARS_MAX);
            if !fits || name.chars().count() > METADATA_NAME_CHARS_MAX {
                let expected = format!(
                    "texts of at most {METADATA_VALUE_CHARS_MAX} characters, by names of at most \
                     {METADATA_NAME_CHARS_MAX}"
                );
                let name = crate::error::shorten(name);
                let message = format!("`metadata.{name}` does not fit; expected {expected}");
                return Err(ApiError::invalid("metadata", message));
            }
        }
        Ok(metadata)
    }

    /// Checks that one answer is asked for.
    pub(crate) fn check_one_answer(&mut self) -> Result<()> {
        match self.take("n") {
            None => Ok(()),
            Some(number) if number == 1 => Ok(()),
            Some(other) => Err(ApiError::wrong_type("n", &other, "1: an agent gives one answer")),
        }
    }

    /// Returns the names of the members that were not taken, which are ignored.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
