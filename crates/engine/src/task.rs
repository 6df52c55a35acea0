//! Outputs of the tasks of a superstep.

use crate::index::ChannelIdx;
use crate::value::{Value, Write};
use smallvec::SmallVec;
use smol_str::SmolStr;
use std::sync::Arc;

/// The argument of a send: the value as given, and its JSON, which stores persist and rebuilt tasks
/// receive.
#[derive(Debug, Clone)]
pub struct Arg {
    /// The typed value; absent after a rebuild.
    pub typed: Option<Value>,
    /// The same as JSON.
    pub json: serde_json::Value,
}

/// A node or send that a task leads to.
#[derive(Debug, Clone)]
pub enum Goto {
    /// A node, by name.
    Node(SmolStr),
    /// A separate task of a node, with an argument.
    Send {
        /// The node.
        node: SmolStr,
        /// The argument it receives.
        arg: Arc<Arg>,
    },
    /// The end of the graph.
    End,
}

/// The writes of a task: mostly a single one.
pub type Writes = SmallVec<[(ChannelIdx, Write); 1]>;

/// The output of a finished task.
#[derive(Debug, Clone, Default)]
pub struct TaskOutput {
    /// Its writes, in order.
    pub writes: Writes,
    /// Writes to channels by name, for states that are declared at run time. They follow the others
    /// after [`Plan::find_named`](crate::Plan::find_named) has resolved their channels.
    pub named: Vec<(String, Write)>,
    /// The targets of its routes and commands, in addition to its edges.
    pub goto: Vec<Goto>,
}

impl TaskOutput {
    /// Adds a write.
    pub fn write(&mut self, index: ChannelIdx, write: Write) {
        self.writes.push((index, write));
    }
}
