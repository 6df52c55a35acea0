//! What is stored of a superstep: closed records with a version, written and read only here.
//!
//! A step's record holds what its tasks wrote and where they went, in the order in which it was
//! applied, and what is due after it. The state of a thread is the fold of these writes; only
//! values that their channel stores whole are kept beside them.

use crate::board::{Board, Trigger};
use crate::channel::{MessageWrite, Messages, Persist};
use crate::error::{A_RECORD, EngineError};
use crate::fold::Batch;
use crate::machine::{Closed, Machine};
use crate::plan::{ChannelIdx, ChannelPlan, NodeIdx, Plan, TriggerIdx};
use crate::task::{Arg, Goto, TaskOutput};
use crate::value::{Slots, Value, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weftwork_types::CheckpointId;
use weftwork_types::canonical::{DEPTH_MAX, can_be_read_back};

/// The version of the records written here.
pub const VERSION: u32 = 0;

/// A closed superstep, or an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepRecord {
    /// The version of the record.
    pub v: u32,
    /// What the tasks left behind, in the order in which it was applied.
    pub tasks: Vec<StepTask>,
    /// New values of channels that are stored whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, serde_json::Value>,
    /// What is due next.
    pub due: DueRecord,
    /// Whether a branch of the thread begins here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub branch: bool,
}

/// A task of a closed superstep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepTask {
    /// The node; absent for the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How it came to run; absent for the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it left behind.
    pub left: Left,
}

/// What a finished task left behind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// Its writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<(String, StoredWrite)>,
    /// Where it goes on besides its edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goto: Vec<StoredGoto>,
}

/// A finished task of a superstep that is still open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRecord {
    /// The version of the record.
    pub v: u32,
    /// Whether its node failed and an error handler finished it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
    /// What it left behind.
    pub left: Left,
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

/// A task that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSend {
    /// The node.
    pub node: String,
    /// What it gets.
    pub arg: serde_json::Value,
}

/// What is due after a step. Triggers that say nothing are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DueRecord {
    /// The triggers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub triggers: BTreeMap<String, TriggerRecord>,
    /// The tasks that were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<StoredSend>,
    /// The nodes that ran because something led to them, once per trigger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<String>,
}

/// A trigger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriggerRecord {
    /// The sources of a join that arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Whether a deferral was released.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
    /// Whether the last step made it available.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub updated: bool,
}

fn bad(step: i64, reason: impl std::fmt::Display) -> EngineError {
    EngineError::BadRecord { step, reason: reason.to_string() }
}

/// A channel whose kind changed since: its stored writes mean something else to it.
fn other_kind(step: i64, channel: &ChannelPlan) -> EngineError {
    let (name, kind) = (&channel.name, channel.channel.kind());
    bad(
        step,
        format!(
            "channel `{name}` was not of the kind `{kind}` when it was written; change it back, or start a new thread"
        ),
    )
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
        let mut tasks = Vec::with_capacity(closed.outputs.len());
        for (task, output) in &closed.outputs {
            let node = task.as_ref().map(|task| self.node_name(task.node).to_owned());
            let left = self.left(node.as_deref().unwrap_or("the input"), output)?;
            let path = task.as_ref().map(|task| task.path.to_string());
            tasks.push(StepTask { node, path, left });
        }
        let mut set = BTreeMap::new();
        for (index, value) in &closed.changed {
            let Some(channel) = self.channels.get(index.0) else { continue };
            if channel.channel.persist() == Persist::Value {
                let json = value.as_ref().map(|value| whole(channel, value)).transpose()?;
                set.insert(channel.name.clone(), json.unwrap_or_default());
            }
        }
        let due = self.due_record(&closed.board);
        Ok(StepRecord { v: VERSION, tasks, set, due, branch: false })
    }

    fn due_record(&self, board: &Board) -> DueRecord {
        let name = |node: &NodeIdx| self.node_name(*node).to_owned();
        let triggers = self.triggers.iter().zip(board.triggers()).enumerate();
        let triggers = triggers.filter(|(_, (_, trigger))| **trigger != Trigger::default());
        DueRecord {
            triggers: triggers
                .map(|(index, (planned, trigger))| {
                    let record = TriggerRecord {
                        sources: trigger.sources.iter().map(name).collect(),
                        finished: trigger.finished,
                        updated: board.updated().contains(&TriggerIdx(index)),
                    };
                    (planned.name.clone(), record)
                })
                .collect(),
            sends: board
                .sends()
                .iter()
                .map(|(node, arg)| StoredSend { node: name(node), arg: arg.json.clone() })
                .collect(),
            last: board.last().iter().map(name).collect(),
        }
    }

    /// What is stored of a finished task of an open superstep.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] when a value cannot be written as JSON.
    pub fn task_record(&self, by: &str, output: &TaskOutput) -> Result<TaskRecord, EngineError> {
        Ok(TaskRecord { v: VERSION, handled: false, left: self.left(by, output)? })
    }

    fn left(&self, by: &str, output: &TaskOutput) -> Result<Left, EngineError> {
        let mut writes = Vec::with_capacity(output.writes.len());
        for (index, write) in &output.writes {
            let Some(channel) = self.channels.get(index.0) else { continue };
            if channel.channel.persist() == Persist::Never {
                continue;
            }
            let stored = match write {
                Write::Typed(value) => channel.channel.encode_write(value).map(StoredWrite::Put),
                Write::Json(json) => Ok(StoredWrite::Put(json.clone())),
                Write::Overwrite(json) => Ok(StoredWrite::Overwrite(json.clone())),
            };
            let stored = stored.and_then(|stored| match &stored {
                StoredWrite::Put(json) | StoredWrite::Overwrite(json) => {
                    shallow(json).map(|()| stored)
                }
            });
            let stored = stored.map_err(|reason| EngineError::BadWrite {
                channel: channel.name.clone(),
                by: by.to_owned(),
                reason,
            })?;
            writes.push((channel.name.clone(), stored));
        }
        for goto in &output.goto {
            let Goto::Send { node, arg } = goto else { continue };
            shallow(&arg.json).map_err(|reason| EngineError::BadSend {
                node: node.clone(),
                by: by.to_owned(),
                reason,
            })?;
        }
        let goto = output.goto.iter().map(StoredGoto::from).collect();
        Ok(Left { writes, goto })
    }

    /// The changes to a conversation that a JSON write stands for; none when the channel is not
    /// one of messages.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] when the write is none.
    pub fn message_writes(
        &self,
        channel: ChannelIdx,
        json: &serde_json::Value,
    ) -> Result<Vec<MessageWrite>, EngineError> {
        let found = self.channels.get(channel.0).filter(|c| c.channel.kind() == Messages::KIND);
        let Some(channel) = found else { return Ok(Vec::new()) };
        MessageWrite::read(json).map_err(|reason| EngineError::BadWrite {
            channel: channel.name.clone(),
            by: "a stored task".to_owned(),
            reason,
        })
    }

    /// A task's output from what was stored of it.
    ///
    /// # Errors
    /// [`EngineError::UnknownChannel`] when the graph no longer has a channel it wrote.
    pub fn task_output(&self, left: Left) -> Result<TaskOutput, EngineError> {
        let writes = left
            .writes
            .into_iter()
            .map(|(name, write)| Ok((self.expect_channel(&name, A_RECORD)?, write.into())))
            .collect::<Result<_, EngineError>>()?;
        let goto = left.goto.into_iter().map(Goto::from).collect();
        Ok(TaskOutput { writes, goto, named: Vec::new() })
    }

    /// The value of one channel as JSON; `None` when it has none.
    #[must_use]
    pub fn channel_json(&self, slots: &Slots, name: &str) -> Option<serde_json::Value> {
        let index = self.channel_idx(name)?.0;
        let (channel, value) = self.channels.get(index).zip(slots.get(index))?;
        channel.channel.encode(value).ok()
    }

    /// A state as one JSON object; channels without a value are left out.
    ///
    /// # Errors
    /// [`EngineError::BadWrite`] when a value cannot be written as JSON.
    pub fn to_json(&self, slots: &Slots) -> Result<serde_json::Value, EngineError> {
        let mut out = serde_json::Map::new();
        for (i, channel) in self.channels.iter().enumerate() {
            if let Some(value) = slots.get(i) {
                out.insert(channel.name.clone(), encode(channel, value)?);
            }
        }
        Ok(serde_json::Value::Object(out))
    }
}

/// A value as it is stored whole.
fn whole(channel: &ChannelPlan, value: &Value) -> Result<serde_json::Value, EngineError> {
    let json = encode(channel, value)?;
    shallow(&json).map(|()| json).map_err(|reason| EngineError::BadWrite {
        channel: channel.name.clone(),
        by: "the reducer".to_owned(),
        reason,
    })
}

/// Refuses what could be stored but not read back.
fn shallow(json: &serde_json::Value) -> Result<(), String> {
    if can_be_read_back(json) {
        return Ok(());
    }
    Err(format!("it is nested deeper than {DEPTH_MAX} levels and could not be read back"))
}

fn encode(channel: &ChannelPlan, value: &Value) -> Result<serde_json::Value, EngineError> {
    channel.channel.encode(value).map_err(|reason| EngineError::BadWrite {
        channel: channel.name.clone(),
        by: "the state".to_owned(),
        reason,
    })
}

impl Machine {
    /// Applies a stored step when a thread is loaded.
    ///
    /// # Errors
    /// [`EngineError`] when the record does not fit the graph.
    pub fn restore(
        &mut self,
        id: CheckpointId,
        step: i64,
        record: StepRecord,
    ) -> Result<(), EngineError> {
        let expected = self.step + 1;
        if step != expected {
            return Err(bad(
                step,
                format!("it does not follow its parent, whose next is {expected}"),
            ));
        }
        let empty = record.tasks.is_empty();
        let mut batches: BTreeMap<usize, Batch> = BTreeMap::new();
        for (name, write) in record.tasks.into_iter().flat_map(|task| task.left.writes) {
            let batch = batches.entry(self.plan.expect_channel(&name, A_RECORD)?.0).or_default();
            batch.writes.push(write.into());
            batch.by.push(0);
        }
        // A fork has no tasks and changes nothing.
        if !empty {
            for index in &self.plan.lapsing {
                self.slots.set(*index, None);
            }
        }
        let named = |_| format!("stored step {step}");
        for (index, batch) in &batches {
            let Some(channel) = self.plan.channels.get(*index) else { continue };
            if channel.channel.persist() != Persist::Value {
                self.plan.fold(&mut self.slots, *index, batch, &named)?;
            } else if !record.set.contains_key(&channel.name) {
                return Err(other_kind(step, channel));
            }
        }
        for (name, json) in record.set {
            let index = self.plan.expect_channel(&name, A_RECORD)?.0;
            let Some(channel) = self.plan.channels.get(index) else { continue };
            if channel.channel.persist() != Persist::Value {
                return Err(other_kind(step, channel));
            }
            let value = channel.channel.decode(&json);
            let value = value.map_err(|e| bad(step, format!("channel `{name}`: {e}")))?;
            self.slots.set(index, Some(value));
        }
        self.board = self.restored_board(record.due)?;
        self.step = step;
        self.head = Some(id);
        if record.branch {
            self.branch = Some(id);
        }
        Ok(())
    }

    fn restored_board(&self, record: DueRecord) -> Result<Board, EngineError> {
        let plan = &self.plan;
        let lost = |node: &str| EngineError::LostNode { node: node.to_owned() };
        let find = |node: &String| plan.node_idx(node).ok_or_else(|| lost(node));
        let mut triggers = vec![Trigger::default(); plan.triggers.len()];
        let mut updated = std::collections::BTreeSet::new();
        for (name, stored) in record.triggers {
            let index = plan
                .trigger_idx(&name)
                .ok_or_else(|| lost(name.rsplit(':').next().unwrap_or(&name)))?;
            let sources = stored.sources.iter().map(find).collect::<Result<_, _>>()?;
            if let Some(slot) = triggers.get_mut(index.0) {
                let written = index.0 < plan.nodes.len();
                *slot = Trigger { written, sources, finished: stored.finished };
            }
            if stored.updated {
                updated.insert(index);
            }
        }
        let sends = record
            .sends
            .into_iter()
            .map(|send| Ok((find(&send.node)?, Arg { typed: None, json: send.arg })))
            .collect::<Result<_, EngineError>>()?;
        // A node that ran last and is gone now hinders nobody.
        let last = record.last.iter().filter_map(|node| plan.node_idx(node)).collect();
        Ok(Board::restored(triggers, sends, updated, last))
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

impl From<&Goto> for StoredGoto {
    fn from(goto: &Goto) -> Self {
        match goto {
            Goto::Node(name) => Self::Node(name.clone()),
            Goto::Send { node, arg } => {
                Self::Send(StoredSend { node: node.clone(), arg: arg.json.clone() })
            }
            Goto::End => Self::End,
        }
    }
}

impl From<StoredGoto> for Goto {
    fn from(goto: StoredGoto) -> Self {
        match goto {
            StoredGoto::Node(name) => Self::Node(name),
            StoredGoto::Send(send) => {
                Self::Send { node: send.node, arg: Arg { typed: None, json: send.arg } }
            }
            StoredGoto::End => Self::End,
        }
    }
}
