//! The form of events in the rows of a log.
//!
//! A checkpoint is a list without the names of its members and without ids that follow from
//! others, because each superstep stores one. Other events have their usual form, in which
//! checkpoints are read too.

use super::{AiEvent, CheckpointSource, CheckpointStored, TaskDue, TaskEnd};
use crate::{CheckpointId, TaskId};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

/// Trigger of a task that a node sent to.
const PUSH: &str = "__pregel_push";
/// Prefix of the trigger of a node that an edge leads to.
const EDGE: &str = "branch:to:";

/// An event to be written to a row.
#[derive(Debug, Clone, Copy)]
pub struct StoredForm<'a>(pub &'a AiEvent);

/// An event that was read from a row.
#[derive(Debug, Clone, PartialEq)]
pub struct FromStored(pub AiEvent);

/// A reference to another checkpoint: its distance, or its id if it is far away.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Parent {
    Near(u64),
    Far(ShortId),
}

/// An id in 22 letters.
struct ShortId(u128);

/// A task: its node if its id follows from it, its node in a list if its id follows from its
/// position among the tasks that were sent, otherwise all members.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Task<S, T> {
    Pulled(S),
    Pushed([S; 1]),
    Whole(T),
}

impl Serialize for StoredForm<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let AiEvent::Checkpoint(stored) = self.0 else { return self.0.serialize(to) };
        let CheckpointStored { ns, id, parent, source, step, ended, due } = &**stored;
        let lists = [ended.is_empty(), due.is_empty(), ns.is_empty()];
        let used = lists.iter().rposition(|empty| !empty).map_or(0, |last| last + 1);
        let mut row = to.serialize_seq(Some(4 + used))?;
        row.serialize_element(&source)?;
        row.serialize_element(&ShortId(id.0))?;
        row.serialize_element(&parent.map(|parent| Parent::of(*id, parent)))?;
        row.serialize_element(step)?;
        if used > 0 {
            let of = Derived { ns, checkpoint: *parent, step: *step };
            let mut pushed = false;
            let ended = ended.iter().enumerate().map(|(index, end)| {
                let task = of.end(index, end, pushed);
                pushed = matches!(task, Task::Pushed(_));
                task
            });
            row.serialize_element(&ended.collect::<Vec<_>>())?;
        }
        if used > 1 {
            let of = Derived { ns, checkpoint: Some(*id), step: step + 1 };
            let due = due.iter().enumerate();
            row.serialize_element(&due.map(|(index, due)| of.due(index, due)).collect::<Vec<_>>())?;
        }
        if used > 2 {
            row.serialize_element(ns)?;
        }
        row.end()
    }
}

impl<'de> Deserialize<'de> for FromStored {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FormVisitor).map(Self)
    }
}

/// Reads both forms.
struct FormVisitor;

impl<'de> Visitor<'de> for FormVisitor {
    type Value = AiEvent;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AiEvent, A::Error> {
        AiEvent::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut row: A) -> Result<AiEvent, A::Error> {
        let short = || A::Error::custom("the list of a checkpoint is too short");
        let source: CheckpointSource = row.next_element()?.ok_or_else(short)?;
        let ShortId(id) = row.next_element()?.ok_or_else(short)?;
        let id = CheckpointId(id);
        let parent: Option<Parent> = row.next_element()?.ok_or_else(short)?;
        let parent = parent.map(|parent| parent.id(id));
        let step: i64 = row.next_element()?.ok_or_else(short)?;
        let ended: Vec<Task<String, TaskEnd>> = row.next_element()?.unwrap_or_default();
        let due: Vec<Task<String, TaskDue>> = row.next_element()?.unwrap_or_default();
        let ns: String = row.next_element()?.unwrap_or_default();
        let of = Derived { ns: &ns, checkpoint: parent, step };
        let ended = ended.into_iter().enumerate().map(|(index, end)| of.read_end(index, end));
        let ended = ended.collect();
        let of = Derived { ns: &ns, checkpoint: Some(id), step: step + 1 };
        let due = due.into_iter().enumerate().map(|(index, due)| of.read_due(index, due)).collect();
        let stored = CheckpointStored { ns, id, parent, source, step, ended, due };
        Ok(AiEvent::Checkpoint(Box::new(stored)))
    }
}

/// The superstep from which the ids of its tasks follow.
#[derive(Clone, Copy)]
struct Derived<'a> {
    ns: &'a str,
    checkpoint: Option<CheckpointId>,
    step: i64,
}

impl Derived<'_> {
    fn id(self, node: &str, path: impl std::fmt::Display) -> TaskId {
        let Self { ns, checkpoint, step } = self;
        TaskId::derived(
            checkpoint.unwrap_or(CheckpointId(0)),
            step,
            format_args!("{ns}|{node}"),
            path,
        )
    }

    fn pulled(self, node: &str) -> TaskId {
        self.id(node, "pull")
    }

    fn pushed(self, node: &str, index: usize) -> TaskId {
        self.id(node, format_args!("push:{index}"))
    }

    /// Returns the form of a task that ended. Tasks that were sent follow each other: after one of
    /// them, its form is tried first.
    fn end(self, index: usize, end: &TaskEnd, pushed_first: bool) -> Task<&str, &TaskEnd> {
        let node = end.node.as_str();
        if end.caller.is_some() || !end.status.is_ok() {
            return Task::Whole(end);
        }
        let pulled = || end.id == self.pulled(node);
        let pushed = || end.id == self.pushed(node, index);
        match pushed_first {
            true if pushed() => Task::Pushed([node]),
            _ if pulled() => Task::Pulled(node),
            false if pushed() => Task::Pushed([node]),
            _ => Task::Whole(end),
        }
    }

    fn due(self, index: usize, due: &TaskDue) -> Task<&str, &TaskDue> {
        let node = due.node.as_str();
        let triggers = due.triggers.as_slice();
        match triggers {
            _ if due.finished => Task::Whole(due),
            [edge] if edge.strip_prefix(EDGE) == Some(node) && due.id == self.pulled(node) => {
                Task::Pulled(node)
            }
            [push] if push == PUSH && due.id == self.pushed(node, index) => Task::Pushed([node]),
            _ => Task::Whole(due),
        }
    }

    fn read_end(self, index: usize, end: Task<String, TaskEnd>) -> TaskEnd {
        let (id, node) = match end {
            Task::Pulled(node) => (self.pulled(&node), node),
            Task::Pushed([node]) => (self.pushed(&node, index), node),
            Task::Whole(end) => return end,
        };
        TaskEnd::new(id, node, super::TaskStatus::Ok)
    }

    fn read_due(self, index: usize, due: Task<String, TaskDue>) -> TaskDue {
        match due {
            Task::Pulled(node) => {
                let triggers = vec![format!("{EDGE}{node}")];
                TaskDue { id: self.pulled(&node), node, triggers, finished: false }
            }
            Task::Pushed([node]) => {
                let triggers = vec![PUSH.to_owned()];
                TaskDue { id: self.pushed(&node, index), node, triggers, finished: false }
            }
            Task::Whole(due) => due,
        }
    }
}

impl Parent {
    fn of(id: CheckpointId, parent: CheckpointId) -> Self {
        let distance = id.0.checked_sub(parent.0).and_then(|far| u32::try_from(far).ok());
        distance.map_or(Self::Far(ShortId(parent.0)), |near| Self::Near(near.into()))
    }

    fn id(self, id: CheckpointId) -> CheckpointId {
        match self {
            Self::Near(distance) => CheckpointId(id.0.wrapping_sub(distance.into())),
            Self::Far(ShortId(parent)) => CheckpointId(parent),
        }
    }
}

/// Letters of short ids, of six bits each.
const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";
const LETTERS_OF_ID: usize = 22;

impl Serialize for ShortId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut letters = [0u8; LETTERS_OF_ID];
        let mut rest = self.0;
        for letter in letters.iter_mut().rev() {
            *letter = LETTERS.get((rest & 63) as usize).copied().unwrap_or_default();
            rest >>= 6;
        }
        to.serialize_str(&letters.iter().map(|letter| char::from(*letter)).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for ShortId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |letter: u8| LETTERS.iter().position(|known| *known == letter);
        let digits = text.bytes().map(digit).collect::<Option<Vec<_>>>();
        let digits = digits.filter(|digits| digits.len() == LETTERS_OF_ID);
        let digits = digits.ok_or_else(|| D::Error::custom(format!("`{text}` is not an id")))?;
        Ok(Self(digits.iter().fold(0, |id, digit| (id << 6) | *digit as u128)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaskStatus;

    fn round(event: &AiEvent) -> String {
        let row = serde_json::to_string(&StoredForm(event)).expect("writes");
        let read: FromStored = serde_json::from_str(&row).expect("reads");
        assert_eq!(&read.0, event, "{row}");
        let whole = serde_json::to_string(event).expect("writes");
        let read: FromStored = serde_json::from_str(&whole).expect("reads the usual form");
        assert_eq!(&read.0, event, "{whole}");
        row
    }

    fn checkpoint() -> CheckpointStored {
        let id = CheckpointId(u128::MAX - 1);
        let parent = Some(CheckpointId(u128::MAX - 3));
        let due = Vec::new();
        let ended = Vec::new();
        let source = CheckpointSource::Loop;
        CheckpointStored { ns: String::new(), id, parent, source, step: 4, ended, due }
    }

    fn due(id: TaskId, node: &str, trigger: &str) -> TaskDue {
        TaskDue { id, node: node.to_owned(), triggers: vec![trigger.to_owned()], finished: false }
    }

    fn end(id: TaskId, node: &str, status: TaskStatus) -> TaskEnd {
        TaskEnd::new(id, node, status)
    }

    #[test]
    fn checkpoints_are_short_and_read_back() {
        let mut stored = checkpoint();
        let row = |stored: &CheckpointStored| round(&AiEvent::Checkpoint(Box::new(stored.clone())));
        assert_eq!(row(&stored), format!(r#"["loop","3{}z",2,4]"#, "-".repeat(20)));
        let of = stored.parent.expect("one");
        stored.ended = vec![
            end(TaskId::derived(of, 4, "|a", "pull"), "a", TaskStatus::Ok),
            end(TaskId::derived(of, 4, "|b", "push:1"), "b", TaskStatus::Ok),
            end(TaskId::derived(of, 4, "|c", "pull"), "c", TaskStatus::Failed),
            end(TaskId(3), "d", TaskStatus::Ok),
        ];
        let next =
            |node: &str, path: &str| TaskId::derived(stored.id, 5, format_args!("|{node}"), path);
        stored.due = vec![
            due(next("s", "push:0"), "s", PUSH),
            due(next("a", "pull"), "a", "branch:to:a"),
            due(next("j", "pull"), "j", "join:a+b:j"),
        ];
        let text = row(&stored);
        assert!(text.contains(r#"["a",["b"],{"#) && text.contains(r#"[["s"],"a",{"#), "{text}");
        stored.ns = "outer:1|inner".to_owned();
        // The ids follow from another namespace.
        assert!(!row(&stored).contains(r#""a",["b"]"#));
        stored.parent = Some(CheckpointId(7));
        stored.source = CheckpointSource::Fork;
        row(&stored);
        stored.parent = None;
        stored.due = Vec::new();
        row(&stored);
    }

    #[test]
    fn other_events_have_their_usual_form() {
        let event = AiEvent::custom(serde_json::json!({"n": 1}));
        assert_eq!(round(&event), serde_json::to_string(&event).expect("writes"));
        for damaged in ["[]", r#"["loop","short",1,2]"#, r#"["loop"]"#, r#"["x"]"#, "3"] {
            assert!(serde_json::from_str::<FromStored>(damaged).is_err(), "{damaged}");
        }
    }
}
