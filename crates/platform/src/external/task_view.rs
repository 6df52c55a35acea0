//! A task of another server, put together from what its server sends.

use super::error::PeerError;
use super::peer::Peer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weftwork_a2a_wire::{
    Artifact, ArtifactUpdate, Message, Part, PartContent, StatusUpdate, StreamResponse, Task,
    TaskState, TaskStatus,
};

/// Most artifacts of a task.
const ARTIFACTS_MAX: usize = 200;
/// Most parts of an artifact, or of a message.
const PARTS_MAX: usize = 10_000;
/// Most bytes of the contents of a task.
const CONTENT_BYTES_MAX: usize = 4 << 20;
/// Longest id of a task or context in bytes.
const ID_BYTES_MAX: usize = 512;

/// Place of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskAt {
    pub(super) id: String,
    pub(super) context: String,
}

/// A task as far as it is known.
#[derive(Debug, Clone)]
pub(super) struct TaskView {
    pub(super) at: TaskAt,
    pub(super) status: TaskStatus,
    artifacts: Vec<Artifact>,
    bytes: usize,
    /// `false` for a task of which only changes are known.
    pub(super) is_whole: bool,
}

/// The change that an event makes to what is shown of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Text that follows what was shown before.
    pub(super) delta: String,
    /// Text of the status, if the status changed.
    pub(super) status: Option<(TaskState, String)>,
    /// `true` if what was shown before is void.
    pub(super) is_replaced: bool,
}

/// The first answer to a message.
#[derive(Debug, Clone)]
pub(super) enum First {
    Task(TaskView),
    Message(Message),
}

impl First {
    /// Reads the first answer to a message. That to a message of a task may be a change of it.
    pub(super) fn read(peer: &Peer, value: &Value, of: &TaskAt) -> Result<Self, PeerError> {
        let read = StreamResponse::deserialize(value);
        match read.map_err(|error| bad(peer, &error.to_string()))? {
            StreamResponse::Task(task) if of.id.is_empty() || of.id == task.id => {
                Ok(Self::Task(TaskView::new(peer, task)?))
            }
            StreamResponse::Task(_) => Err(bad(peer, "it is another task")),
            StreamResponse::Message(message) => {
                check_parts(peer, &message.parts)?;
                Ok(Self::Message(message))
            }
            change => {
                let mut view = TaskView::of_unknown(of.clone());
                view.apply(peer, change)?;
                Ok(Self::Task(view))
            }
        }
    }
}

fn bad(peer: &Peer, reason: &str) -> PeerError {
    peer.invalid("an answer", super::error::shorten(reason))
}

fn check_parts(peer: &Peer, parts: &[Part]) -> Result<usize, PeerError> {
    if parts.len() > PARTS_MAX {
        let reason = format!("it has {} parts; expected at most {PARTS_MAX}", parts.len());
        return Err(bad(peer, &reason));
    }
    let bytes = parts.iter().map(bytes_of).sum();
    if bytes > CONTENT_BYTES_MAX {
        let reason = format!("it has more than {CONTENT_BYTES_MAX} bytes of content");
        return Err(bad(peer, &reason));
    }
    Ok(bytes)
}

fn bytes_of(part: &Part) -> usize {
    match &part.content {
        PartContent::Text(text) | PartContent::Raw(text) | PartContent::Url(text) => text.len(),
        PartContent::Data(value) => value.to_string().len(),
    }
}

impl TaskView {
    /// A task in progress of which nothing else is known.
    fn of_unknown(at: TaskAt) -> Self {
        let status =
            TaskStatus { state: TaskState::Working, message: None, timestamp: String::new() };
        Self { at, status, artifacts: Vec::new(), bytes: 0, is_whole: false }
    }

    /// A task as a server sends it whole.
    pub(super) fn new(peer: &Peer, task: Task) -> Result<Self, PeerError> {
        let is_sound = |id: &str| id.len() <= ID_BYTES_MAX && !id.chars().any(char::is_control);
        if task.id.is_empty() || !is_sound(&task.id) || !is_sound(&task.context_id) {
            return Err(bad(
                peer,
                "the id of the task or its context is empty, too long or no text",
            ));
        }
        let mut view = Self {
            at: TaskAt { id: task.id, context: task.context_id },
            status: task.status,
            artifacts: Vec::new(),
            bytes: 0,
            is_whole: true,
        };
        for artifact in task.artifacts.unwrap_or_default() {
            view.add(peer, artifact, false)?;
        }
        view.check_status(peer)?;
        Ok(view)
    }

    fn check_status(&self, peer: &Peer) -> Result<(), PeerError> {
        self.status.message.as_ref().map_or(Ok(()), |of| check_parts(peer, &of.parts).map(drop))
    }

    /// Returns what a task shows that was not seen before.
    pub(super) fn first_seen(&self) -> Seen {
        Seen { delta: self.text(), status: Some(self.status_text()), is_replaced: false }
    }

    /// Applies an event of a stream.
    pub(super) fn read_event(&mut self, peer: &Peer, event: &Value) -> Result<Seen, PeerError> {
        let event = StreamResponse::deserialize(event);
        self.apply(peer, event.map_err(|error| bad(peer, &error.to_string()))?)
    }

    fn apply(&mut self, peer: &Peer, event: StreamResponse) -> Result<Seen, PeerError> {
        match event {
            StreamResponse::Task(task) => {
                self.check_id(peer, &task.id)?;
                let next = Self::new(peer, task)?;
                Ok(self.replace(next))
            }
            StreamResponse::Message(_) => {
                Err(bad(peer, "a message that belongs to no task came within a task"))
            }
            StreamResponse::StatusUpdate(StatusUpdate { task_id, status, .. }) => {
                self.check_id(peer, &task_id)?;
                self.status = status;
                self.check_status(peer)?;
                Ok(Seen { status: Some(self.status_text()), ..Seen::default() })
            }
            StreamResponse::ArtifactUpdate(ArtifactUpdate {
                task_id, artifact, append, ..
            }) => {
                self.check_id(peer, &task_id)?;
                self.add(peer, artifact, append)
            }
        }
    }

    fn check_id(&self, peer: &Peer, id: &str) -> Result<(), PeerError> {
        match id == self.at.id {
            true => Ok(()),
            false => Err(bad(peer, "an event of another task came")),
        }
    }

    /// Replaces the task by a later state of it.
    pub(super) fn replace(&mut self, next: Self) -> Seen {
        let before = self.text();
        let after = next.text();
        let mut seen = match after.strip_prefix(&before) {
            Some(delta) => Seen { delta: delta.to_owned(), ..Seen::default() },
            None => Seen { is_replaced: true, ..Seen::default() },
        };
        if next.status != self.status {
            seen.status = Some(next.status_text());
        }
        *self = next;
        seen
    }

    fn status_text(&self) -> (TaskState, String) {
        (
            self.status.state,
            self.status.message.as_ref().map(|of| text_of(&of.parts)).unwrap_or_default(),
        )
    }

    /// Adds an artifact, or a part of one.
    fn add(&mut self, peer: &Peer, artifact: Artifact, append: bool) -> Result<Seen, PeerError> {
        self.bytes = self.bytes.saturating_add(check_parts(peer, &artifact.parts)?);
        if self.bytes > CONTENT_BYTES_MAX {
            let reason = format!("it has more than {CONTENT_BYTES_MAX} bytes of content");
            return Err(bad(peer, &reason));
        }
        let place =
            self.artifacts.iter().position(|known| known.artifact_id == artifact.artifact_id);
        let is_last = place.is_some_and(|place| place + 1 == self.artifacts.len());
        let Some(known) = place.and_then(|place| self.artifacts.get_mut(place)) else {
            if self.artifacts.len() == ARTIFACTS_MAX {
                let reason = format!("it has more than {ARTIFACTS_MAX} artifacts");
                return Err(bad(peer, &reason));
            }
            let text = text_of(&artifact.parts);
            let separator = if self.text().is_empty() || text.is_empty() { "" } else { "\n\n" };
            self.artifacts.push(artifact);
            return Ok(Seen { delta: format!("{separator}{text}"), ..Seen::default() });
        };
        if append {
            let delta = text_of(&artifact.parts);
            append_parts(&mut known.parts, artifact.parts);
            if known.parts.len() > PARTS_MAX {
                return Err(bad(peer, &format!("an artifact has more than {PARTS_MAX} parts")));
            }
            return Ok(match is_last {
                true => Seen { delta, ..Seen::default() },
                false => Seen { is_replaced: true, ..Seen::default() },
            });
        }
        // The whole artifact, which a server sends behind its pieces.
        let before = text_of(&known.parts);
        let after = text_of(&artifact.parts);
        *known = artifact;
        Ok(match after.strip_prefix(&before) {
            Some(delta) if is_last || delta.is_empty() => {
                Seen { delta: delta.to_owned(), ..Seen::default() }
            }
            _ => Seen { is_replaced: true, ..Seen::default() },
        })
    }

    /// Returns the texts of all artifacts.
    fn text(&self) -> String {
        let texts = self.artifacts.iter().map(|artifact| text_of(&artifact.parts));
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the content of the task: of its artifacts, or else of its status.
    pub(super) fn content(&self) -> Value {
        let values: Vec<_> =
            self.artifacts.iter().flat_map(|artifact| values_of(&artifact.parts)).collect();
        if !values.is_empty() {
            return content_of(values);
        }
        let parts = self.status.message.as_ref().map(|of| of.parts.as_slice());
        content_of(values_of(parts.unwrap_or_default()))
    }
}

/// Adds parts to those of an artifact: a text goes on with the one before it.
fn append_parts(known: &mut Vec<Part>, more: Vec<Part>) {
    for part in more {
        match (known.last_mut().map(|last| &mut last.content), part.content) {
            (Some(PartContent::Text(text)), PartContent::Text(rest)) => text.push_str(&rest),
            (_, content) => known.push(Part { content, ..part }),
        }
    }
}

/// Returns the content of the parts of a message.
pub(super) fn content_of_parts(parts: &[Part]) -> Value {
    content_of(values_of(parts))
}

/// Returns the text of parts, as it is streamed.
pub(super) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The values of parts: texts that follow one another are one.
fn values_of(parts: &[Part]) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for part in parts {
        let file = |url: String| {
            let Part { media_type, filename, .. } = part;
            json!({"type": "media", "media_type": media_type, "url": url, "name": filename})
        };
        let value = match &part.content {
            PartContent::Text(text) => match values.last_mut() {
                Some(Value::String(known)) => {
                    known.push_str(text);
                    continue;
                }
                _ => Value::String(text.clone()),
            },
            PartContent::Data(value) => value.clone(),
            PartContent::Url(url) => file(url.clone()),
            PartContent::Raw(raw) => file(format!("data:{};base64,{raw}", part.media_type)),
        };
        values.push(value);
    }
    values.retain(|value| value != "");
    values
}

/// The content of values: a single one alone, texts as one text, otherwise a list.
fn content_of(mut values: Vec<Value>) -> Value {
    if values.len() == 1 {
        return values.pop().unwrap_or_default();
    }
    let texts: Option<Vec<_>> = values.iter().map(Value::as_str).collect();
    match texts {
        Some(texts) => texts.join("\n\n").into(),
        None => Value::Array(values),
    }
}
