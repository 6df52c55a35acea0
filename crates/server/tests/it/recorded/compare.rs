//! Comparison of an answer with the recorded one.

use super::ids::{Ids, is_id, masked};
use serde_json::{Map, Value};

/// The differences of an answer: their places, each with what was recorded and what was found.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Other members, types, lengths or events.
    pub(super) shape: Vec<String>,
    /// Other values in the same shape, with their places.
    pub(super) values: Vec<(String, String)>,
}

/// Milliseconds since 1970 are above this number.
const FIRST_TIME: f64 = 1.6e12;

impl Differences {
    pub(super) fn shape(&mut self, place: &str, what: impl std::fmt::Display) {
        self.shape.push(format!("{place}: {what}"));
    }

    fn value(&mut self, place: &str, recorded: &Value, found: &Value) {
        self.values.push((place.to_owned(), format!("recorded {recorded}, found {found}")));
    }

    /// Compares two values. Ids and times are masked; an id stands for the same id throughout.
    pub(super) fn compare(&mut self, place: &str, recorded: &Value, found: &Value, ids: &mut Ids) {
        match (recorded, found) {
            (Value::Object(recorded), Value::Object(found)) => {
                self.members(place, recorded, found, ids);
            }
            (Value::Array(recorded), Value::Array(found)) => {
                if recorded.len() != found.len() {
                    let recorded = recorded.len();
                    let found = found.len();
                    self.shape(place, format!("{recorded} elements recorded, {found} found"));
                }
                for (at, (recorded, found)) in recorded.iter().zip(found).enumerate() {
                    self.compare(&format!("{place}.{at}"), recorded, found, ids);
                }
            }
            (Value::String(recorded_text), Value::String(found_text)) => {
                let a = masked(recorded_text);
                let b = masked(found_text);
                if a.text != b.text || !ids.same(&a.ids, &b.ids) {
                    self.value(place, recorded, found);
                }
            }
            (Value::Number(a), Value::Number(b)) => {
                let is_time = |n: &serde_json::Number| n.as_f64().is_some_and(|n| n > FIRST_TIME);
                if a.as_f64() != b.as_f64() && !(is_time(a) && is_time(b)) {
                    self.value(place, recorded, found);
                }
            }
            (Value::Bool(_), Value::Bool(_)) if recorded != found => {
                self.value(place, recorded, found);
            }
            (Value::Bool(_), Value::Bool(_)) | (Value::Null, Value::Null) => {}
            _ => self.shape(place, format!("recorded {recorded}, found {found}")),
        }
    }

    /// Compares texts that are not JSON: metrics, whose shape is that of their lines.
    pub(super) fn compare_text(&mut self, recorded: &str, found: &str) {
        let is_metric = |line: &str| {
            let sample = line.rsplit_once(' ').map(|(_, value)| value.parse::<f64>().is_ok());
            line.is_empty() || line.starts_with("# ") || sample == Some(true)
        };
        let is_metrics = |text: &str| !text.is_empty() && text.lines().all(is_metric);
        if recorded != found && !(is_metrics(recorded) && is_metrics(found)) {
            self.shape("body", format!("recorded {recorded:?}, found {found:?}"));
        } else if recorded != found {
            self.value("body", &"metrics".into(), &"other metrics".into());
        }
    }

    fn members(
        &mut self,
        place: &str,
        recorded: &Map<String, Value>,
        found: &Map<String, Value>,
        ids: &mut Ids,
    ) {
        let mut unknown: Vec<&String> =
            found.keys().filter(|k| !recorded.contains_key(*k)).collect();
        for (name, value) in recorded {
            let (shown, other) = match is_id(&masked_key(name)) {
                // A member that is named by an id.
                true => {
                    let known = ids.get(&masked_key(name)).map(str::to_owned);
                    let same = |k: &&String| {
                        is_id(&masked_key(k)) && known.as_deref().is_none_or(|id| id == **k)
                    };
                    let at = unknown.iter().position(same);
                    ("ID", at.and_then(|at| found.get(unknown.swap_remove(at))))
                }
                false => (name.as_str(), found.get(name)),
            };
            match other {
                Some(other) => self.compare(&format!("{place}.{shown}"), value, other, ids),
                None => self.shape(place, format!("member `{shown}` is missing")),
            }
        }
        for name in unknown {
            self.shape(place, format!("member `{name}` is not recorded"));
        }
    }
}

fn masked_key(name: &str) -> String {
    let mask = masked(name);
    if mask.text == "ID" { mask.ids.concat() } else { String::new() }
}
