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

/// Where a task wants to go on.
#[derive(Debug, Clone)]
pub enum Goto {
    /// To a node, by name.
    Node(SmolStr),
    /// To a task of its own for a node, with an argument.
    Send {
        /// The node.
        node: SmolStr,
        /// The argument it receives.
        arg: Arc<Arg>,
    },
    /// Nowhere.
    End,
}

/// The writes of a task: mostly a single one.
pub type Writes = SmallVec<[(ChannelIdx, Write); 1]>;

/// The output of a finished task.
#[derive(Debug, Clone, Default)]
pub struct TaskOutput {
    /// Its writes, in order.
    pub writes: Writes,
    /// Writes to channels by name, for states that are only known when they run. They follow the
    /// others once [`Plan::find_named`](crate::Plan::find_named) has found their channels.
    pub named: Vec<(String, Write)>,
    /// Where it goes on besides its edges: routes and commands.
    pub goto: Vec<Goto>,
}

impl TaskOutput {
    /// Adds a write.
    pub fn write(&mut self, index: ChannelIdx, write: Write) {
        self.writes.push((index, write));
    }
}
