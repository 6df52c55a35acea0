//! Parsers of argument values.

pub use weftwork::config::read_duration as duration;
pub use weftwork::config::read_time_limit as time_limit;

use serde_json::{Map, Value};
use weftwork::graph::{Modes, Source};
use weftwork::store::ThreadStatus;
use weftwork::types::json;
use weftwork::types::run::{RunStatus, Stops};

/// Parses metadata: a JSON object, or one member as `KEY=VALUE`.
pub fn metadata(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim_start().starts_with('{') {
        return object(text);
    }
    let expected = "expected KEY=VALUE or a JSON object";
    let (key, value) = text.split_once('=').ok_or(expected)?;
    let value = json::read(value.as_bytes()).unwrap_or_else(|_| Value::from(value));
    Ok(Map::from_iter([(key.to_owned(), value)]))
}

/// Parses a JSON value.
pub fn json(text: &str) -> Result<Value, String> {
    json::read(text.as_bytes()).map_err(|error| error.to_string())
}

/// Parses a JSON object.
pub fn object(text: &str) -> Result<Map<String, Value>, String> {
    match json(text)? {
        Value::Object(members) => Ok(members),
        _ => Err("expected a JSON object, such as {\"user\": \"ada\"}".to_owned()),
    }
}

/// Parses names of nodes, separated by commas; `*` stands for all nodes.
pub fn stops(text: &str) -> Result<Stops, String> {
    if text == "*" {
        return Ok(Stops::All);
    }
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    match names.iter().any(|name| name.is_empty()) {
        true => Err("expected names of nodes, separated by commas, or `*` for all".to_owned()),
        false => Ok(Stops::at(names)),
    }
}

/// Parses the status of a thread.
pub fn thread_status(text: &str) -> Result<ThreadStatus, String> {
    use ThreadStatus::{Busy, Error, Idle, Interrupted};
    let found = [Idle, Busy, Interrupted, Error].into_iter().find(|one| one.word() == text);
    found.ok_or_else(|| "expected one of idle, busy, interrupted and error".to_owned())
}

/// Parses the status of a run.
pub fn run_status(text: &str) -> Result<RunStatus, String> {
    let expected = "expected one of queued, pending, running, completed, interrupted, \
                    limit_reached, cancelled and failed";
    serde_json::from_value(Value::from(text)).map_err(|_| expected.to_owned())
}

/// Parses the origin of a checkpoint.
pub fn source(text: &str) -> Result<Source, String> {
    match text {
        "input" => Ok(Source::Input),
        "loop" => Ok(Source::Loop),
        "update" => Ok(Source::Update),
        "fork" => Ok(Source::Fork),
        _ => Err("expected one of input, loop, update and fork".to_owned()),
    }
}

/// Parses names of stream modes.
pub fn modes(text: &str) -> Result<Modes, String> {
    text.split(',').try_fold(Modes::NONE, |modes, name| {
        let mode = Modes::parse(name.trim()).ok_or_else(|| {
            format!(
                "`{name}` is no stream mode; expected values, updates, messages, custom, tasks, checkpoints or debug"
            )
        })?;
        Ok(modes | mode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_is_a_member_or_an_object() {
        let one = |key: &str, value| Ok(Map::from_iter([(key.to_owned(), value)]));
        assert_eq!(metadata("user=ada"), one("user", json!("ada")));
        assert_eq!(metadata("n=3"), one("n", json!(3)));
        assert_eq!(metadata(" {\"n\": [1]}"), one("n", json!([1])));
        assert!(metadata("user").is_err() && metadata("{").is_err());
        assert!(object("[1]").is_err() && object("null").is_err());
    }

    #[test]
    fn stops_are_names_or_all() {
        assert_eq!(stops("*"), Ok(Stops::All));
        assert_eq!(stops("a, b"), Ok(Stops::at(["a", "b"])));
        assert!(stops("").is_err() && stops("a,,b").is_err());
    }

    #[test]
    fn statuses_have_their_names_in_json() {
        assert_eq!(run_status("limit_reached"), Ok(RunStatus::LimitReached));
        assert!(run_status("done").is_err_and(|why| why.contains("completed")));
        assert_eq!(thread_status("idle"), Ok(ThreadStatus::Idle));
    }
}
