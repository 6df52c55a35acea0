//! `extract` of a search: values at paths in each result.
//!
//! Source: LangGraph's server, `POST /threads/search`: names of members and brackets with indexes,
//! which count from the end if they are negative, as in `values.messages[-1].content`.

use crate::error::{ApiError, Result};
use serde_json::{Map, Value, json};

/// Maximum number of paths of a request.
const PATHS_MAX: usize = 10;

/// The paths of a request by the names under which their values are returned.
#[derive(Debug)]
pub(super) struct Extract(Vec<(String, Vec<PathStep>)>);

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
enum PathStep {
    Member(String),
    /// Index in a list, from the end if it is negative.
    Index(i64),
}

impl Extract {
    /// Reads paths.
    ///
    /// # Errors
    /// Status 422 for more than ten paths, or for a text that is no path.
    pub(super) fn read(paths: Map<String, Value>) -> Result<Self> {
        if paths.len() > PATHS_MAX {
            return Err(ApiError::invalid(format!(
                "`extract` has {} paths; expected at most {PATHS_MAX}",
                paths.len()
            )));
        }
        let paths = paths.into_iter().map(|(name, path)| {
            let steps = path.as_str().and_then(steps_of).ok_or_else(|| {
                ApiError::invalid(format!(
                    "`extract.{name}` is {path}; expected a path such as `values.messages[-1]`"
                ))
            })?;
            Ok((name, steps))
        });
        paths.collect::<Result<_>>().map(Self)
    }

    /// Returns `true` if a path leads into one of these members.
    pub(super) fn needs(&self, members: &[&str]) -> bool {
        let of = |step: &PathStep| matches!(step, PathStep::Member(name) if members.contains(&name.as_str()));
        self.0.iter().any(|(_, steps)| steps.first().is_some_and(of))
    }

    /// Returns the values of a result at the paths; `null` where there is none.
    pub(super) fn of(&self, result: &Value) -> Value {
        let value = |steps: &[PathStep]| {
            steps.iter().try_fold(result, step_into).cloned().unwrap_or_default()
        };
        let found = self.0.iter().map(|(name, steps)| (name.clone(), value(steps)));
        json!(found.collect::<Map<_, _>>())
    }
}

fn step_into<'a>(value: &'a Value, step: &PathStep) -> Option<&'a Value> {
    match step {
        PathStep::Member(name) => value.get(name),
        PathStep::Index(index) => {
            let list = value.as_array()?;
            let from_end = || list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
            let index = usize::try_from(*index).ok().or_else(from_end)?;
            list.get(index)
        }
    }
}

/// Returns the steps of a path; `None` for a text that is none.
fn steps_of(path: &str) -> Option<Vec<PathStep>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (name, mut indexes) = part.split_at(part.find('[').unwrap_or(part.len()));
        if name.is_empty() {
            return None;
        }
        steps.push(PathStep::Member(name.to_owned()));
        while let Some((index, rest)) = indexes.strip_prefix('[').and_then(|of| of.split_once(']'))
        {
            steps.push(PathStep::Index(index.parse().ok()?));
            indexes = rest;
        }
        if !indexes.is_empty() {
            return None;
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_members_and_elements() {
        let result = json!({"values": {"messages": [{"content": "a"}, {"content": "b"}]}});
        for (path, expected) in [
            ("values.messages[-1].content", json!("b")),
            ("values.messages[0]", json!({"content": "a"})),
            ("values.messages[2].content", Value::Null),
            ("values.messages[-3].content", Value::Null),
            ("values.other", Value::Null),
        ] {
            let paths = Map::from_iter([("x".to_owned(), json!(path))]);
            let extract = Extract::read(paths).expect("paths");
            assert_eq!(extract.of(&result), json!({"x": expected}), "{path}");
            assert!(extract.needs(&["values"]) && !extract.needs(&["metadata"]));
        }
        for path in [json!(""), json!("a..b"), json!("a[b]"), json!("a[1"), json!("[0]"), json!(1)]
        {
            let paths = Map::from_iter([("x".to_owned(), path.clone())]);
            assert!(Extract::read(paths).is_err(), "{path}");
        }
        let many = (0..11).map(|number| (number.to_string(), json!("values")));
        assert!(Extract::read(many.collect()).is_err());
    }
}
