//! The superstep machine, without any I/O.
//!
//! A graph's topology is a [`Plan`]; a thread's state is a [`Machine`](pregel::Machine) over it. The host asks for
//! the tasks of the next superstep, runs them however it likes, hands their outputs back, and
//! closes the step: the machine applies the writes in task order, decides what is due next, and
//! says what changed. It reads no clock, draws no random number and touches no network, so the
//! same inputs give the same ids, the same order and the same state every time.
//!
//! Source: the superstep model is Pregel's (Malewicz et al., 2010) in the form LangGraph gave it:
//! channels with reducers, nodes triggered by edges, barriers for joins, sends for fan-out.

mod binary;
pub mod channel;
pub mod codec;
pub mod error;
#[doc(hidden)]
pub mod fault_injection;
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
