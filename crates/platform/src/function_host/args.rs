//! The arguments of calls of code.

use serde::Deserialize;
use serde_json::{Map, Value};
use weftwork_sandbox::HostError;

/// The arguments of a call.
pub(super) struct Args(Vec<Value>);

impl Args {
    pub(super) fn of(args: Value) -> Self {
        Self(match args {
            Value::Array(args) => args,
            _ => Vec::new(),
        })
    }

    pub(super) fn take(&mut self) -> Value {
        if self.0.is_empty() { Value::Null } else { self.0.remove(0) }
    }

    pub(super) fn text(
        &mut self,
        member: &'static str,
        expected: &str,
    ) -> Result<String, HostError> {
        match self.take() {
            Value::String(text) => Ok(text),
            other => Err(wrong(member, &other, expected)),
        }
    }

    pub(super) fn object(
        &mut self,
        member: &'static str,
        expected: &str,
    ) -> Result<Map<String, Value>, HostError> {
        match self.take() {
            Value::Object(members) => Ok(members),
            Value::Null => Ok(Map::new()),
            other => Err(wrong(member, &other, expected)),
        }
    }

    pub(super) fn read<T: for<'de> Deserialize<'de>>(
        mut self,
        member: &'static str,
        expected: &str,
    ) -> Result<T, HostError> {
        let value = self.take();
        T::deserialize(&value).map_err(|_| wrong(member, &value, expected))
    }
}

pub(super) fn wrong(member: &'static str, found: &Value, expected: &str) -> HostError {
    let found: String = found.to_string().chars().take(200).collect();
    let message = format!("`{member}` was called with {found}; expected {expected}");
    HostError { code: "W1033".to_owned(), message }
}
