//! What can go wrong in a plan and in a superstep.

use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

/// A superstep could not be closed, or a record could not be read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Two tasks of one superstep wrote a channel that takes one write per step.
    #[error(
        "channel `{channel}` was written {writes} times in one superstep (by {by}), but it keeps only the last value; give it a reducer, such as `#[channel(append)]`"
    )]
    Conflict {
        /// The channel.
        channel: String,
        /// How many writes there were.
        writes: usize,
        /// The nodes that wrote it.
        by: String,
    },
    /// A write has the wrong type, or JSON that the channel cannot read.
    #[error("channel `{channel}` cannot take the write of {by}: {reason}")]
    BadWrite {
        /// The channel.
        channel: String,
        /// Who wrote it.
        by: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What a task sent to another cannot be stored.
    #[error("what {by} sent to node `{node}` cannot be stored: {reason}")]
    BadSend {
        /// The node it was sent to.
        node: String,
        /// Who sent it.
        by: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A task routed to a node that is not in the graph.
    #[error("node `{from}` routed to `{to}`, which the graph does not have{}", hint(did_you_mean))]
    UnknownTarget {
        /// The node that routed.
        from: String,
        /// The name it gave.
        to: String,
        /// A name that is close.
        did_you_mean: Option<String>,
    },
    /// Input or an update names a channel that is not in the graph.
    #[error("`{name}` is not a channel of this graph{}; channels are: {known}", hint(did_you_mean))]
    UnknownChannel {
        /// The name.
        name: String,
        /// A name that is close.
        did_you_mean: Option<String>,
        /// The channels there are.
        known: String,
    },
    /// Input, or what stands for a node's result, is no object of channel values.
    #[error("{by} must be an object of channel values, found {found}")]
    NotAnObject {
        /// Whose it is.
        by: String,
        /// What it is.
        found: String,
    },
    /// A stored record cannot be read.
    #[error("stored step {step} cannot be read: {reason}")]
    BadRecord {
        /// The step.
        step: i64,
        /// What is wrong.
        reason: String,
    },
    /// A stored thread waits at a node that this graph does not have.
    #[error(
        "the thread waits at node `{node}`, which this build of the graph does not have; bring the node back, or update the thread"
    )]
    LostNode {
        /// The node.
        node: String,
    },
    /// A checkpoint was made by another build of the graph.
    #[error(
        "the checkpoint was made by another build of this graph: {what} differs; bring it back, or start a new thread"
    )]
    OtherBuild {
        /// What differs.
        what: String,
    },
    /// A reducer panicked.
    #[error("the reducer of channel `{channel}` panicked: {message}")]
    ReducerPanicked {
        /// The channel.
        channel: String,
        /// The panic's message.
        message: String,
    },
}

impl EngineError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Conflict { .. } => "W0102",
            Self::BadWrite { .. } | Self::BadSend { .. } | Self::NotAnObject { .. } => "W0103",
            Self::UnknownTarget { .. } => "W0104",
            Self::UnknownChannel { .. } => "W0105",
            Self::BadRecord { .. } => "W0106",
            Self::LostNode { .. } | Self::OtherBuild { .. } => "W0107",
            Self::ReducerPanicked { .. } => "W0108",
        })
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string())
    }
}

fn hint(name: &Option<String>) -> String {
    name.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
}

/// One thing that is wrong with a graph. Building reports all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanProblem {
    /// An edge names a node that is not there.
    #[error("{what} names node `{name}`, which the graph does not have{}", hint(did_you_mean))]
    UnknownNode {
        /// The edge, in words.
        what: String,
        /// The name.
        name: String,
        /// A name that is close.
        did_you_mean: Option<String>,
    },
    /// Two nodes have one name.
    #[error("node `{name}` is added twice; names of nodes are unique")]
    DuplicateNode {
        /// The name.
        name: String,
    },
    /// A name may not be used.
    #[error("`{name}` cannot be the name of a {kind}: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// `node` or `channel`.
        kind: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// Two channels have one name.
    #[error("channel `{name}` is declared twice; names of channels are unique")]
    DuplicateChannel {
        /// The name.
        name: String,
    },
    /// Nothing leads from the start to any node.
    #[error("nothing leads from START to a node; add an edge from START")]
    NoEntry,
    /// A node can never run.
    #[error("node `{name}` can never run: no edge, route or goto leads to it")]
    Unreachable {
        /// The node.
        name: String,
    },
    /// A list of channels names one that is not there.
    #[error(
        "{what} names channel `{name}`, which the graph does not have{}",
        did_you_mean.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
    )]
    UnknownChannel {
        /// The list.
        what: String,
        /// The name.
        name: String,
        /// A name that is close.
        did_you_mean: Option<String>,
    },
    /// A node takes something the graph does not give.
    #[error("node `{node}` takes {what}; {fix}")]
    BadExtractor {
        /// The node.
        node: String,
        /// What it takes.
        what: String,
        /// What to do.
        fix: String,
    },
}
