//! Selection of the events of a thread by channel, namespace and depth.

use super::event::{Channel, Event};
use serde::Deserialize;
use serde_json::Value;
use weftwork_graph::run_loop::Modes;

/// Maximum number of channels, and of namespaces, of a selection.
const ENTRIES_MAX: usize = 100;

/// A request for events.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct FilterBody {
    #[serde(default)]
    channels: Vec<String>,
    #[serde(default)]
    namespaces: Option<Vec<Vec<String>>>,
    #[serde(default)]
    depth: Option<usize>,
    /// Number or id of the last event that the client received.
    #[serde(default)]
    pub(crate) since: Option<Value>,
}

/// A selection of events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    channels: Vec<Channel>,
    /// Names of the selected custom events; all if `custom` is among the channels.
    custom: Vec<String>,
    namespaces: Vec<Vec<String>>,
    depth: Option<usize>,
}

impl Filter {
    /// Reads a selection.
    ///
    /// # Errors
    /// A text that names the member that does not fit.
    pub(crate) fn read(body: FilterBody) -> Result<Self, String> {
        let FilterBody { channels: names, namespaces, depth, .. } = body;
        let namespaces = namespaces.unwrap_or_default();
        if names.is_empty() {
            return Err(format!("`channels` is empty; expected some of {}", known_channels()));
        }
        if names.len() > ENTRIES_MAX || namespaces.len() > ENTRIES_MAX {
            return Err(format!("`channels` and `namespaces` have at most {ENTRIES_MAX} entries"));
        }
        let mut channels = Vec::new();
        let mut custom = Vec::new();
        for name in names {
            match Channel::ALL.into_iter().find(|channel| channel.name() == name) {
                Some(channel) => channels.push(channel),
                None => match name.strip_prefix("custom:").filter(|name| !name.is_empty()) {
                    Some(name) => custom.push(name.to_owned()),
                    None => {
                        return Err(format!(
                            "channel `{name}` is not known; expected one of {}",
                            known_channels()
                        ));
                    }
                },
            }
        }
        Ok(Self { channels, custom, namespaces, depth })
    }

    /// Returns `true` if an event is selected.
    pub(crate) fn selects(&self, event: &Event) -> bool {
        let named =
            || event.custom_name().is_some_and(|name| self.custom.iter().any(|n| n == name));
        (self.channels.contains(&event.channel) || named()) && self.is_within(&event.namespace)
    }

    fn is_within(&self, namespace: &[String]) -> bool {
        let within = |prefix: &Vec<String>| {
            prefix.len() <= namespace.len()
                && namespace.iter().zip(prefix).all(|(part, wanted)| {
                    // A part without the id of a task stands for all tasks of its node.
                    let node = part.split(':').next().unwrap_or_default();
                    part == wanted || !wanted.contains(':') && node == wanted
                })
                && self.depth.is_none_or(|depth| namespace.len() - prefix.len() <= depth)
        };
        self.namespaces.is_empty() || self.namespaces.iter().any(within)
    }

    /// Returns the stream modes that the selected events are derived from, besides the log.
    pub(crate) fn modes(&self) -> Modes {
        let mut modes = if self.custom.is_empty() { Modes::NONE } else { Modes::CUSTOM };
        for channel in &self.channels {
            modes = modes
                | match channel {
                    Channel::Values => Modes::VALUES,
                    Channel::Updates => Modes::UPDATES,
                    Channel::Messages => Modes::MESSAGES,
                    Channel::Tasks => Modes::TASKS,
                    Channel::Custom => Modes::CUSTOM,
                    Channel::Tools | Channel::Lifecycle | Channel::Input | Channel::Checkpoints => {
                        Modes::NONE
                    }
                };
        }
        modes
    }
}

fn known_channels() -> String {
    Channel::ALL.map(Channel::name).join(", ") + ", custom:NAME"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weftwork_types::Timestamp;

    fn filter(body: Value) -> Result<Filter, String> {
        Filter::read(serde_json::from_value(body).expect("a body"))
    }

    fn event(channel: Channel, namespace: &[&str], data: Value) -> Event {
        let namespace = namespace.iter().map(|part| (*part).to_owned()).collect();
        let id = String::new();
        let received = String::new();
        Event { seq: 1, id, channel, namespace, at: Timestamp(0), node: None, data, received }
    }

    #[test]
    fn events_are_selected_by_channel_namespace_and_depth() {
        let values = |namespace: &[&str]| event(Channel::Values, namespace, json!({}));
        let deep = ["sub:1-2", "in:3"];
        for (body, namespace, selected) in [
            (json!({"channels": ["values"]}), &deep[..], true),
            (json!({"channels": ["updates"]}), &[], false),
            (json!({"channels": ["values"], "namespaces": []}), &deep, true),
            (json!({"channels": ["values"], "namespaces": [[]], "depth": 1}), &deep, false),
            (json!({"channels": ["values"], "namespaces": [[]], "depth": 1}), &deep[..1], true),
            (json!({"channels": ["values"], "namespaces": [[]], "depth": 0}), &[], true),
            (json!({"channels": ["values"], "namespaces": [["sub"]]}), &deep, true),
            (json!({"channels": ["values"], "namespaces": [["sub:1-2"]]}), &deep, true),
            (json!({"channels": ["values"], "namespaces": [["sub:9"]]}), &deep, false),
            (json!({"channels": ["values"], "namespaces": [["sub"]]}), &[], false),
            (json!({"channels": ["values"], "depth": 0}), &deep, true),
        ] {
            let found = filter(body.clone()).expect("valid").selects(&values(namespace));
            assert_eq!(found, selected, "{body} {namespace:?}");
        }
    }

    #[test]
    fn custom_events_are_selected_by_name() {
        let named = event(Channel::Custom, &[], json!({"name": "a", "payload": 1}));
        let other = event(Channel::Custom, &[], json!({"payload": 1}));
        let one = filter(json!({"channels": ["custom:a"]})).expect("valid");
        assert!(one.selects(&named) && !one.selects(&other));
        assert_eq!(one.modes(), Modes::CUSTOM);
        let all = filter(json!({"channels": ["custom"]})).expect("valid");
        assert!(all.selects(&named) && all.selects(&other));
        let none = filter(json!({"channels": ["custom:b", "lifecycle"]})).expect("valid");
        assert!(!none.selects(&named));
    }

    #[test]
    fn selections_that_do_not_fit_are_named() {
        let many: Vec<_> = (0..=ENTRIES_MAX).map(|n| format!("custom:{n}")).collect();
        for (body, says) in [
            (json!({}), "`channels` is empty"),
            (json!({"channels": ["values", "smell"]}), "channel `smell` is not known"),
            (json!({"channels": ["custom:"]}), "channel `custom:` is not known"),
            (json!({"channels": many}), "at most 100 entries"),
        ] {
            assert!(filter(body).expect_err(says).contains(says), "{says}");
        }
    }
}
