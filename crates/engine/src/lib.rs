//! The superstep machine, without any I/O.
//!
//! A graph's topology is a [`Plan`]; a thread's state is a [`Machine`](pregel::Machine) over it.
//! The caller requests the tasks of the next superstep, executes them, passes their outputs back,
//! and closes the superstep: the machine applies the writes in task order, computes the nodes that
//! are due next, and returns the changes. It reads no clock, generates no random numbers and does
//! no I/O, so the same inputs always produce the same ids, order and state.
//!
//! Source: the superstep model is Pregel's (Malewicz et al., 2010) as LangGraph uses it: channels
//! with reducers, nodes triggered by edges, barriers for joins, sends for fan-out.

mod binary;
pub mod channel;
pub mod codec;
pub mod error;
mod fold;
pub mod ids;
mod index;
pub mod list;
pub mod plan;
pub mod pregel;
pub mod task;
pub mod value;

pub use channel::Channel;
pub use error::{EngineError, PlanProblem};
pub use list::{Keyed, List};
pub use plan::{ChannelIdx, NodeIdx, NodePlan, Plan, PlanBuilder, TriggerIdx, Unknown};
pub use task::{Goto, TaskOutput};
pub use value::{Slots, Value, Write};
