//! Errors of plans and supersteps.

use crate::index::START_NAME;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

/// A superstep could not be closed, or a checkpoint could not be written or read back.
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
        /// Number of writes.
        writes: usize,
        /// The nodes that wrote it.
        by: String,
    },
    /// A write has the wrong type, or JSON that the channel cannot read.
    #[error("channel `{channel}` cannot take the write of {by}: {reason}")]
    BadWrite {
        /// The channel.
        channel: String,
        /// The writer: a node or the input.
        by: String,
        /// The reason it is refused.
        reason: String,
    },
    /// The argument that a task sent to a node cannot be stored.
    #[error("what {by} sent to node `{node}` cannot be stored: {reason}")]
    BadSend {
        /// The node it was sent to.
        node: String,
        /// The sender.
        by: String,
        /// The reason it cannot be stored.
        reason: String,
    },
    /// A task routed to a node that is not in the graph.
    #[error(
        "{} routed to `{to}`, which the graph does not have; its nodes are: {known}{}",
        name_origin(from),
        format_hint(did_you_mean)
    )]
    UnknownTarget {
        /// The node that routed.
        from: String,
        /// The name it gave.
        to: String,
        /// The nodes of the graph.
        known: String,
        /// A name that is close.
        did_you_mean: Option<String>,
    },
    /// A node, input or an update names a channel that is not in the graph.
    #[error(
        "{} names channel `{name}`, which the graph does not have; its channels are: {known}{}",
        name_origin(by),
        format_hint(did_you_mean)
    )]
    UnknownChannel {
        /// The origin of the name: a node or the input.
        by: String,
        /// The name.
        name: String,
        /// A name that is close.
        did_you_mean: Option<String>,
        /// The channels of the graph.
        known: String,
    },
    /// Input names a channel that does not accept input.
    #[error("channel `{name}` takes no input; the graph takes input for: {known}")]
    NotInput {
        /// The channel.
        name: String,
        /// The channels that take input.
        known: String,
    },
    /// Input, or a value used as a node's result, is not an object of channel values.
    #[error("{by} must be an object of channel values, `{{\"channel\": value}}`, found {found}")]
    NotAnObject {
        /// The source of the value: a node or the input.
        by: String,
        /// The value found, described in words.
        found: String,
    },
    /// Stored bytes are damaged: this program does not write such bytes.
    #[error("the stored checkpoint is damaged: expected {expected} at byte {at}")]
    Damaged {
        /// The position in bytes.
        at: usize,
        /// The data expected there.
        expected: &'static str,
    },
    /// Stored bytes were written by a newer version of this program.
    #[error(
        "the stored checkpoint has format {found}, this program knows up to {known}; use a newer program"
    )]
    NewerRecord {
        /// The format found.
        found: u8,
        /// The newest format that this program supports.
        known: u8,
    },
    /// A value cannot be stored.
    #[error("the value of channel `{channel}` cannot be stored: {reason}")]
    BadValue {
        /// The channel.
        channel: String,
        /// The reason it cannot be stored.
        reason: String,
    },
    /// A stored value cannot be read.
    #[error("the stored value of channel `{channel}` cannot be read: {reason}")]
    BadStored {
        /// The channel.
        channel: String,
        /// The reason it cannot be read.
        reason: String,
    },
    /// A stored thread has a due node that this graph does not have.
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
        /// The part that differs.
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
    /// Parts of a run do not fit each other, which no input and no stored data can cause.
    #[error("an invariant of the runtime is broken: {what}; please report this message")]
    BrokenInvariant {
        /// The part that is missing, and where it was expected.
        what: &'static str,
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
            Self::UnknownChannel { .. } | Self::NotInput { .. } => "W0105",
            Self::BadValue { .. } => "W0103",
            Self::Damaged { .. } | Self::NewerRecord { .. } | Self::BadStored { .. } => "W0106",
            Self::LostNode { .. } | Self::OtherBuild { .. } => "W0107",
            Self::ReducerPanicked { .. } => "W0108",
            Self::BrokenInvariant { .. } => "W0140",
        })
    }

    /// Returns `true` if the text may quote a value of the state, or a name that a node computed.
    #[must_use]
    pub fn quotes_values(&self) -> bool {
        match self {
            Self::BadWrite { .. }
            | Self::BadSend { .. }
            | Self::NotAnObject { .. }
            | Self::UnknownTarget { .. }
            | Self::UnknownChannel { .. }
            | Self::NotInput { .. }
            | Self::BadValue { .. }
            | Self::BadStored { .. }
            | Self::ReducerPanicked { .. } => true,
            Self::Conflict { .. }
            | Self::Damaged { .. }
            | Self::NewerRecord { .. }
            | Self::LostNode { .. }
            | Self::OtherBuild { .. }
            | Self::BrokenInvariant { .. } => false,
        }
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string()).with_sources_of(self)
    }
}

/// Names the origin of a write or a target in messages: a node, or the input.
pub(crate) fn name_origin(name: &str) -> String {
    match name {
        START_NAME | THE_INPUT => THE_INPUT.to_owned(),
        node => format!("node `{node}`"),
    }
}

/// The name that messages use for input from outside the graph.
pub(crate) const THE_INPUT: &str = "the input";

fn format_hint(name: &Option<String>) -> String {
    name.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
}

/// A problem found while building a graph. Building reports all of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanProblem {
    /// An edge names a node that does not exist.
    #[error(
        "{what} names node `{name}`, which the graph does not have{}",
        format_hint(did_you_mean)
    )]
    UnknownNode {
        /// The edge, in words.
        what: String,
        /// The name.
        name: String,
        /// A name that is close.
        did_you_mean: Option<String>,
    },
    /// Two nodes have one name.
    #[error("node `{name}` is added twice; give one of the two another name")]
    DuplicateNode {
        /// The name.
        name: String,
    },
    /// A name is not allowed.
    #[error("`{}` cannot be the name of a {kind}: {reason}", name.escape_debug())]
    BadName {
        /// The name.
        name: String,
        /// `node` or `channel`.
        kind: &'static str,
        /// The reason.
        reason: &'static str,
    },
    /// Two channels have one name.
    #[error("channel `{name}` is declared twice; give one of the two another name")]
    DuplicateChannel {
        /// The name.
        name: String,
    },
    /// Nothing leads from the start to any node.
    #[error("nothing leads on from START; add an edge or a route from START to the first node")]
    NoEntry,
    /// A node can never run.
    #[error(
        "node `{name}` can never run: nothing leads to it from START; add an edge or a route to it, name it in the `ends` of a node whose commands lead to it, or take it out"
    )]
    Unreachable {
        /// The node.
        name: String,
    },
    /// An edge, join or route leads to or from a place where it is not allowed.
    #[error("{what} {why}")]
    Misplaced {
        /// The edge, join or route, in words.
        what: String,
        /// The problem, and the fix.
        why: &'static str,
    },
    /// A subgraph has no channel in common with its graph.
    #[error(
        "node `{node}` runs graph `{graph}`, which has no channel in common with this one (its channels are: {channels}); they exchange values by the names of their channels, so give one of them the same name in both"
    )]
    NothingShared {
        /// The node.
        node: String,
        /// The graph that it runs.
        graph: String,
        /// The channels of the subgraph.
        channels: String,
    },
    /// A list of channels names a channel that does not exist.
    #[error(
        "{what} names channel `{name}`, which the graph does not have{}",
        format_hint(did_you_mean)
    )]
    UnknownChannel {
        /// The list.
        what: String,
        /// The name.
        name: String,
        /// A name that is close.
        did_you_mean: Option<String>,
    },
    /// A node has an argument that the graph does not provide, or a result that does not fit the
    /// graph.
    #[error("node `{node}` {what}; {fix}")]
    BadExtractor {
        /// The node.
        node: String,
        /// The argument or result that does not fit, in words.
        what: String,
        /// The fix.
        fix: String,
    },
}
