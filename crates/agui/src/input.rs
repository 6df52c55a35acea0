//! The input of a run: `RunAgentInput`.

use crate::content;
use crate::error::{AguiError, Result, shorten};
use axum::body::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weftwork_server::read_json;
use weftwork_types::canonical::{self, Hash};
use weftwork_types::message::Part;
use weftwork_types::task::Mode;

/// Members of a request that are read, or named below if they are ignored.
const MEMBERS: [&str; 9] = [
    "threadId",
    "runId",
    "protocolVersion",
    "messages",
    "resume",
    "tools",
    "context",
    "state",
    "forwardedProps",
];
/// Maximum number of messages of a request.
const MESSAGES_MAX: usize = 2_000;
/// Maximum number of answers of a request.
const ANSWERS_MAX: usize = 100;
/// Maximum number of ignored members that are named.
const IGNORED_MAX: usize = 100;
/// Maximum length of the ids of runs and messages in bytes.
const ID_BYTES_MAX: usize = 256;

/// A request.
#[derive(Debug)]
pub(crate) struct RunInput {
    /// Id of the conversation.
    pub(crate) thread: String,
    /// Id that the client gave to the run.
    pub(crate) run: String,
    /// Messages of the user.
    pub(crate) users: Vec<UserMessage>,
    /// Ids of all messages.
    pub(crate) ids: BTreeSet<String>,
    pub(crate) resume: Vec<ResumeEntry>,
    pub(crate) wish: Wish,
    pub(crate) version: Version,
    /// Names of members that are ignored.
    pub(crate) ignored: Vec<String>,
}

/// A message of the user.
#[derive(Debug, Clone)]
pub(crate) struct UserMessage {
    pub(crate) id: String,
    pub(crate) parts: Vec<Part>,
}

/// An answer to an interrupt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResumeEntry {
    pub(crate) interrupt: String,
    pub(crate) status: ResumeStatus,
    pub(crate) payload: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumeStatus {
    Resolved,
    Cancelled,
}

/// Members of `forwardedProps` that this server reads.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    pub(crate) mode: Option<Mode>,
    /// Input of an agent that declares one.
    pub(crate) input: Option<Value>,
}

/// The protocol that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// The protocol of clients that name no version. It has no outcome `cancelled`.
    Before1,
    From1,
}

/// The ids by which a client names a run.
#[derive(Debug)]
pub(crate) struct RunIds {
    pub(crate) thread: String,
    pub(crate) run: String,
}

impl RunIds {
    /// Reads the body of a request that names a run.
    ///
    /// # Errors
    /// Status 400.
    pub(crate) fn read(bytes: &Bytes) -> Result<Self> {
        let body = read_object(bytes)?;
        Ok(Self { thread: read_thread(&body)?, run: read_id(&body, "runId", "runId")? })
    }
}

impl RunInput {
    /// Reads a body.
    ///
    /// # Errors
    /// Status 400 for one that does not fit.
    pub(crate) fn read(bytes: &Bytes) -> Result<Self> {
        let body = read_object(bytes)?;
        let member = |name: &str| body.get(name).filter(|value| !value.is_null());
        let mut input = Self {
            thread: read_thread(&body)?,
            run: read_id(&body, "runId", "runId")?,
            users: Vec::new(),
            ids: BTreeSet::new(),
            resume: Vec::new(),
            wish: Wish::default(),
            version: read_version(member("protocolVersion"))?,
            ignored: Vec::new(),
        };
        input.read_messages(&body)?;
        if let Some(resume) = member("resume") {
            input.read_resume(resume)?;
        }
        for name in ["tools", "context"] {
            let list = read_list(&body, name)?;
            if list.is_some_and(|list| !list.is_empty()) {
                input.ignore(name);
            }
        }
        if member("state").is_some_and(|state| !is_empty(state)) {
            input.ignore("state");
        }
        input.read_wish(member("forwardedProps"))?;
        let others = body.keys().filter(|name| !MEMBERS.contains(&name.as_str()));
        others.for_each(|name| input.ignore(name));
        Ok(input)
    }

    fn read_messages(&mut self, body: &Map<String, Value>) -> Result<()> {
        let Some(list) = read_list(body, "messages")? else {
            return Err(AguiError::invalid("`messages` is missing; expected a list"));
        };
        if list.len() > MESSAGES_MAX {
            let found = list.len();
            return Err(AguiError::invalid(format!(
                "`messages` has {found} messages; expected at most {MESSAGES_MAX}: leave out old ones, \
                 which the conversation has"
            )));
        }
        for (index, message) in list.iter().enumerate() {
            let field = format!("messages[{index}]");
            let Some(message) = message.as_object() else {
                return Err(AguiError::wrong_type(&field, message, "a message"));
            };
            let id = read_id(message, "id", &format!("{field}.id"))?;
            match message.get("role").and_then(Value::as_str) {
                Some("user") => {
                    let content = message.get("content").cloned().unwrap_or_default();
                    let parts = content::read(&content, &format!("{field}.content"))?;
                    let is_again = self.users.iter().any(|user| user.id == id);
                    if !parts.is_empty() && !is_again {
                        self.users.push(UserMessage { id: id.clone(), parts });
                    }
                }
                // The conversation has the messages of the agent, and its definition the instructions.
                Some("assistant" | "tool" | "activity" | "reasoning") => {}
                Some("system" | "developer") => self.ignore("system messages"),
                _ => {
                    let role = message.get("role").cloned().unwrap_or_default();
                    let expected =
                        "user, assistant, system, developer, tool, activity or reasoning";
                    return Err(AguiError::wrong_type(&format!("{field}.role"), &role, expected));
                }
            }
            self.ids.insert(id);
        }
        Ok(())
    }

    fn ignore(&mut self, name: &str) {
        let is_known = self.ignored.iter().any(|ignored| ignored == name);
        if !is_known && self.ignored.len() < IGNORED_MAX {
            self.ignored.push(name.to_owned());
        }
    }

    fn read_resume(&mut self, resume: &Value) -> Result<()> {
        let Some(entries) = resume.as_array() else {
            return Err(AguiError::wrong_type("resume", resume, "a list"));
        };
        if entries.len() > ANSWERS_MAX {
            let found = entries.len();
            let message = format!("`resume` has {found} entries; expected at most {ANSWERS_MAX}");
            return Err(AguiError::invalid(message));
        }
        for (index, entry) in entries.iter().enumerate() {
            let field = format!("resume[{index}]");
            let Some(members) = entry.as_object() else {
                return Err(AguiError::wrong_type(&field, entry, "an entry with `interruptId`"));
            };
            let interrupt = read_id(members, "interruptId", &format!("{field}.interruptId"))?;
            if self.resume.iter().any(|entry| entry.interrupt == interrupt) {
                let interrupt = shorten(&interrupt);
                let message = format!("`resume` answers the interrupt {interrupt} twice");
                return Err(AguiError::invalid(message));
            }
            let status = match entry["status"].as_str() {
                Some("resolved") => ResumeStatus::Resolved,
                Some("cancelled") => ResumeStatus::Cancelled,
                _ => {
                    let field = format!("{field}.status");
                    let expected = "resolved or cancelled";
                    return Err(AguiError::wrong_type(&field, &entry["status"], expected));
                }
            };
            let payload = entry["payload"].clone();
            self.resume.push(ResumeEntry { interrupt, status, payload });
        }
        Ok(())
    }

    fn read_wish(&mut self, props: Option<&Value>) -> Result<()> {
        let Some(Value::Object(props)) = props else {
            if props.is_some() {
                self.ignore("forwardedProps");
            }
            return Ok(());
        };
        for (name, value) in props {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("mode", value) => {
                    let mode = value.as_str().and_then(Mode::of_name);
                    let expected = "converse, plan or build";
                    self.wish.mode = Some(mode.ok_or_else(|| {
                        AguiError::wrong_type("forwardedProps.mode", value, expected)
                    })?);
                }
                ("input", Value::Object(_)) => self.wish.input = Some(value.clone()),
                ("input", other) => {
                    return Err(AguiError::wrong_type("forwardedProps.input", other, "an object"));
                }
                (name, _) => self.ignore(&format!("forwardedProps.{name}")),
            }
        }
        Ok(())
    }

    /// Returns a value that differs for other answers; `None` without answers.
    pub(crate) fn answers_hash(&self) -> Option<Hash> {
        let entry = |entry: &ResumeEntry| {
            let is_cancelled = entry.status == ResumeStatus::Cancelled;
            json!([entry.interrupt, is_cancelled, entry.payload])
        };
        let entries: Vec<_> = self.resume.iter().map(entry).collect();
        (!entries.is_empty()).then(|| canonical::hash(&json!(entries)))
    }
}

fn read_object(bytes: &Bytes) -> Result<Map<String, Value>> {
    match read_json(bytes)? {
        Value::Object(members) => Ok(members),
        other => Err(AguiError::wrong_type("body", &other, "a JSON object")),
    }
}

fn read_thread(body: &Map<String, Value>) -> Result<String> {
    match body.get("threadId") {
        Some(Value::String(id)) if !id.is_empty() => Ok(id.clone()),
        other => {
            let found = other.cloned().unwrap_or_default();
            Err(AguiError::wrong_type("threadId", &found, "the id of a conversation, a text"))
        }
    }
}

fn read_id(members: &Map<String, Value>, name: &str, field: &str) -> Result<String> {
    match members.get(name) {
        Some(Value::String(id)) if !id.is_empty() && id.len() <= ID_BYTES_MAX => Ok(id.clone()),
        other => {
            let found = other.cloned().unwrap_or_default();
            let expected = format!("a text of 1 to {ID_BYTES_MAX} bytes");
            Err(AguiError::wrong_type(field, &found, &expected))
        }
    }
}

fn read_list<'v>(body: &'v Map<String, Value>, name: &str) -> Result<Option<&'v [Value]>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(AguiError::wrong_type(name, other, "a list")),
    }
}

fn read_version(version: Option<&Value>) -> Result<Version> {
    match version {
        None => Ok(Version::Before1),
        Some(Value::String(version)) if version.starts_with("0.") => Ok(Version::Before1),
        Some(Value::String(_)) => Ok(Version::From1),
        Some(other) => Err(AguiError::wrong_type("protocolVersion", other, "a text")),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}
