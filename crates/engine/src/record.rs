//! What is stored of a superstep: closed records with a version, written and read only here.

use crate::channel::Persist;
use crate::error::EngineError;
use crate::machine::{Change, Closed};
use crate::plan::Plan;
use crate::task::{Arg, Goto, TaskOutput};
use crate::value::{Value, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the records written here.
pub const VERSION: u32 = 0;

/// A closed superstep, or an input: what changed, and what is due next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The version of the record.
    pub v: u32,
    /// What changed, by channel.
    pub changes: BTreeMap<String, StoredChange>,
    /// The nodes that edges, routes and joins lead to next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    /// The tasks that were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<StoredSend>,
    /// The joins that wait, and the sources they have seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub joins: BTreeMap<String, Vec<String>>,
}

/// A change of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoredChange {
    /// The whole new value.
    Set(serde_json::Value),
    /// The writes, in the order in which they were applied.
    Writes(Vec<StoredWrite>),
}

/// A write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoredWrite {
    /// For the reducer.
    Put(serde_json::Value),
    /// In place of the value.
    Overwrite(serde_json::Value),
}

/// A task that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSend {
    /// The node.
    pub node: String,
    /// What it gets.
    pub arg: serde_json::Value,
}

/// What a finished task of an open superstep left behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRecord {
    /// The version of the record.
    pub v: u32,
    /// Its writes.
    pub writes: Vec<(String, StoredWrite)>,
    /// Where it goes on.
    pub goto: Vec<StoredGoto>,
}

/// Where a task goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StoredGoto {
    /// To a node.
    Node(String),
    /// To a task of its own.
    Send(StoredSend),
    /// Nowhere.
    End,
}

fn bad(step: i64, reason: impl std::fmt::Display) -> EngineError {
    EngineError::BadRecord { step, reason: reason.to_string() }
}

/// Reads a stored record.
///
/// # Errors
/// [`EngineError::BadRecord`] when the bytes are not a record of a known version.
pub fn read<T: serde::de::DeserializeOwned>(step: i64, body: &[u8]) -> Result<T, EngineError> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let Version { v } = serde_json::from_slice(body).map_err(|e| bad(step, e))?;
    if v > VERSION {
        let reason = format!("it has version {v}, this program knows up to {VERSION}");
        return Err(bad(step, reason));
    }
    serde_json::from_slice(body).map_err(|e| bad(step, e))
}

/// Writes a record as it is stored.
///
/// # Errors
/// [`EngineError::BadRecord`] when a value cannot be written as JSON.
pub fn write<T: Serialize>(step: i64, record: &T) -> Result<Vec<u8>, EngineError> {
    serde_json::to_vec(record).map_err(|e| bad(step, e))
}

impl Plan {
    /// What is stored of a closed superstep.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] when a value cannot be written as JSON.
    pub fn record(&self, closed: &Closed) -> Result<StepRecord, EngineError> {
        let mut changes = BTreeMap::new();
        for (index, change) in &closed.changes {
            let Some(channel) = self.channels.get(index.0) else { continue };
            let refuse = |reason| EngineError::BadWrite {
                channel: channel.name.clone(),
                by: format!("step {}", closed.step),
                reason,
            };
            let stored = match change {
                Change::Value(value) => {
                    let json = value
                        .as_ref()
                        .map_or(Ok(serde_json::Value::Null), |v| channel.channel.encode(v));
                    StoredChange::Set(json.map_err(refuse)?)
                }
                Change::Writes(writes) => StoredChange::Writes(
                    writes
                        .iter()
                        .map(|w| self.stored_write(index.0, w))
                        .collect::<Result<_, _>>()
                        .map_err(refuse)?,
                ),
            };
            changes.insert(channel.name.clone(), stored);
        }
        let due = &closed.due;
        Ok(StepRecord {
            v: VERSION,
            changes,
            next: due.pull.iter().map(|n| self.node_name(*n).to_owned()).collect(),
            sends: due
                .sends
                .iter()
                .map(|(node, arg)| StoredSend {
                    node: self.node_name(*node).to_owned(),
                    arg: arg.json.clone(),
                })
                .collect(),
            joins: self
                .joins
                .iter()
                .zip(&due.joins)
                .filter(|(_, seen)| !seen.is_empty())
                .map(|(join, seen)| {
                    let seen = seen.iter().map(|n| self.node_name(*n).to_owned()).collect();
                    (join.name.clone(), seen)
                })
                .collect(),
        })
    }

    fn stored_write(&self, channel: usize, write: &Write) -> Result<StoredWrite, String> {
        let channel = self.channels.get(channel).ok_or("no such channel")?;
        Ok(match write {
            Write::Typed(value) => StoredWrite::Put(channel.channel.encode_write(value)?),
            Write::Json(json) => StoredWrite::Put(json.clone()),
            Write::Overwrite(json) => StoredWrite::Overwrite(json.clone()),
        })
    }

    /// What is stored of a finished task of an open superstep.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] when a value cannot be written as JSON.
    pub fn task_record(&self, by: &str, output: &TaskOutput) -> Result<TaskRecord, EngineError> {
        let mut writes = Vec::with_capacity(output.writes.len());
        for (index, write) in &output.writes {
            let name = self.channels.get(index.0).map_or("", |c| c.name.as_str());
            let stored = self.stored_write(index.0, write).map_err(|reason| {
                EngineError::BadWrite { channel: name.to_owned(), by: by.to_owned(), reason }
            })?;
            writes.push((name.to_owned(), stored));
        }
        let goto = output
            .goto
            .iter()
            .map(|goto| match goto {
                Goto::Node(name) => StoredGoto::Node(name.clone()),
                Goto::Send { node, arg } => {
                    StoredGoto::Send(StoredSend { node: node.clone(), arg: arg.json.clone() })
                }
                Goto::End => StoredGoto::End,
            })
            .collect();
        Ok(TaskRecord { v: VERSION, writes, goto })
    }

    /// A task's output from what was stored of it.
    ///
    /// # Errors
    /// [`EngineError::UnknownChannel`] when the graph no longer has a channel it wrote.
    pub fn task_output(&self, record: TaskRecord) -> Result<TaskOutput, EngineError> {
        let mut output = TaskOutput::default();
        for (name, write) in record.writes {
            output.writes.push((self.expect_channel(&name)?, write.into()));
        }
        output.goto = record
            .goto
            .into_iter()
            .map(|goto| match goto {
                StoredGoto::Node(name) => Goto::Node(name),
                StoredGoto::Send(send) => {
                    Goto::Send { node: send.node, arg: Arg { typed: None, json: send.arg } }
                }
                StoredGoto::End => Goto::End,
            })
            .collect();
        Ok(output)
    }

    /// Whether a channel's changes are stored as writes.
    pub(crate) fn keeps_writes(&self, channel: usize) -> bool {
        self.channels.get(channel).is_some_and(|c| c.channel.persist() == Persist::Writes)
    }

    /// A state as one JSON object; channels without a value are left out.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] when a value cannot be written as JSON.
    pub fn to_json(&self, slots: &crate::Slots) -> Result<serde_json::Value, EngineError> {
        let mut out = serde_json::Map::new();
        for (i, channel) in self.channels.iter().enumerate() {
            let Some(value) = slots.get(i) else { continue };
            let json = self.encode(channel, value)?;
            out.insert(channel.name.clone(), json);
        }
        Ok(serde_json::Value::Object(out))
    }

    fn encode(
        &self,
        channel: &crate::plan::ChannelPlan,
        value: &Value,
    ) -> Result<serde_json::Value, EngineError> {
        channel.channel.encode(value).map_err(|reason| EngineError::BadWrite {
            channel: channel.name.clone(),
            by: "the state".to_owned(),
            reason,
        })
    }
}

impl From<StoredWrite> for Write {
    fn from(write: StoredWrite) -> Self {
        match write {
            StoredWrite::Put(json) => Self::Json(json),
            StoredWrite::Overwrite(json) => Self::Overwrite(json),
        }
    }
}
