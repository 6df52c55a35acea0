//! Options of instances.

use serde::{Deserialize, Serialize};
use weftwork_store::Metadata;
use weftwork_types::InstanceId;
use weftwork_types::run::{Mailbox, OnQuestion, RunOptions, RunRetry};

/// Default maximum number of unfinished activities of an instance.
pub const MAILBOX_CAPACITY: u32 = 1_000;
/// Highest maximum number of unfinished activities of an instance.
pub const MAILBOX_CAPACITY_MAX: u32 = 100_000;

/// Member of the metadata of an instance that has its options.
pub(super) const OPTIONS: &str = "weft:instance_options";

/// Options of a new instance.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct InstanceOptions {
    pub(super) id: Option<InstanceId>,
    pub(super) metadata: Metadata,
    pub(super) stored: StoredOptions,
}

/// Options that are stored with an instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredOptions {
    /// Id of the graph.
    pub(super) graph: String,
    /// Place of its activities in the mailbox.
    pub(super) mailbox: Mailbox,
    /// Options of the runs of its activities.
    #[serde(default)]
    pub(super) run: RunOptions,
}

impl Default for StoredOptions {
    fn default() -> Self {
        let mailbox = Mailbox::of_capacity(MAILBOX_CAPACITY);
        Self { graph: String::new(), mailbox, run: RunOptions::default() }
    }
}

impl InstanceOptions {
    /// Creates options with default values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id; a new UUID by default. A repeated creation with the same id and options returns
    /// the first instance.
    pub fn id(mut self, id: InstanceId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the maximum number of unfinished activities, from 1 to [`MAILBOX_CAPACITY_MAX`];
    /// [`MAILBOX_CAPACITY`] by default. The creation refuses other numbers.
    pub fn mailbox_capacity(mut self, activities_max: u32) -> Self {
        self.stored.mailbox.capacity = activities_max;
        self
    }

    /// Sets the channel that receives the [`AgentRuntimeError`](super::super::AgentRuntimeError) of an
    /// activity that failed, as JSON, and null after the next one that succeeds. By default the field
    /// that the state declares by `#[channel(error)]`, if any; the channel `error` for instances of
    /// [`AgentRuntime::create`](super::AgentRuntime::create).
    pub fn error_channel(mut self, channel: impl Into<String>) -> Self {
        self.stored.mailbox.error_channel = Some(channel.into());
        self
    }

    /// Sets the treatment of activities that ask a question; [`OnQuestion::Hold`] by default. With
    /// [`OnQuestion::SetAside`], [`InstanceInfo::set_aside`](super::InstanceInfo::set_aside) has the
    /// threads that wait for answers.
    pub fn on_question(mut self, treatment: OnQuestion) -> Self {
        self.stored.mailbox.on_question = treatment;
        self
    }

    /// Repeats activities that fail with an error that a retry can resolve. Never by default.
    pub fn retry(mut self, retry: RunRetry) -> Self {
        self.stored.mailbox.retry = Some(retry);
        self
    }

    /// Sets options for the runs of all activities: limits, durability, configurable entries and
    /// others. Those that belong to one run alone, such as its idempotency key, have no effect.
    pub fn run_options(mut self, options: RunOptions) -> Self {
        self.stored.run = options.for_continuation();
        self
    }

    /// Adds metadata of the instance, by which it is found. Names that begin with `weft:` are
    /// reserved.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata.extend(metadata);
        self
    }
}
