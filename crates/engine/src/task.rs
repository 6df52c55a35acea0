//! Tasks of a superstep, and what comes of them.

use crate::plan::{ChannelIdx, NodeIdx, TriggerIdx};
use crate::value::{Value, Write};
use weftwork_types::TaskId;

/// One execution of one node in one superstep.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id: the same when the superstep is rebuilt after a crash.
    pub id: TaskId,
    /// The node.
    pub node: NodeIdx,
    /// How it came to run.
    pub path: TaskPath,
    /// The triggers that made its node due; none for a task that was sent.
    pub triggers: Vec<TriggerIdx>,
    /// What it was sent, for tasks that come from a send.
    pub arg: Option<Arg>,
}

/// How a task came to run. Writes apply in this order: those of edges first, by name of the node,
/// then those of sends, in the order in which they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskPath {
    /// An edge, a route or a join led to the node.
    Pull,
    /// It was sent; the number is its place among the sends of the step.
    Push(u32),
    /// Its node failed and an error handler finished it; nothing that follows the node is due.
    Handled,
    /// Somebody changed the state in the node's name; it did not run.
    Update,
}

impl std::fmt::Display for TaskPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pull => f.write_str("pull"),
            Self::Push(index) => write!(f, "push:{index}"),
            Self::Handled => f.write_str("handled"),
            Self::Update => f.write_str("update"),
        }
    }
}

/// What a send carries: the value as it was given, and its JSON, which is what a store keeps and
/// what a rebuilt task gets.
#[derive(Debug, Clone)]
pub struct Arg {
    /// The typed value; absent after a rebuild.
    pub typed: Option<Value>,
    /// The same as JSON.
    pub json: serde_json::Value,
}

/// Where a task wants to go on.
#[derive(Debug, Clone)]
pub enum Goto {
    /// To a node, by name.
    Node(String),
    /// To a task of its own for a node, with an argument.
    Send {
        /// The node.
        node: String,
        /// What it gets.
        arg: Arg,
    },
    /// Nowhere.
    End,
}

/// What a finished task leaves behind.
#[derive(Debug, Clone, Default)]
pub struct TaskOutput {
    /// Its writes, in order.
    pub writes: Vec<(ChannelIdx, Write)>,
    /// Writes to channels by name, for states that are only known when they run. They follow the
    /// others once [`Plan::resolve`](crate::Plan::resolve) has found their channels.
    pub named: Vec<(String, Write)>,
    /// Where it goes on besides its edges: routes and commands.
    pub goto: Vec<Goto>,
}
