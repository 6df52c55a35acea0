//! Teams of agents as graphs, and agents as tools.
//!
//! Members are compiled graphs with a channel `messages`. The node of a member calls its graph, so
//! that a question, the budget, the deadline and the principal are those of the run, as everywhere
//! in a subgraph.

mod agent_tool;
mod hand_off;
mod map;
mod member;
mod plan;
mod supervisor;
mod swarm;

pub use agent_tool::as_tool;
pub(crate) use hand_off::HandOffs;
pub(crate) mod kinds {
    pub use super::map::kind::ParallelMap;
    pub use super::plan::kind::PlanAndExecute;
    pub use super::supervisor::kind::Supervisor;
    pub use super::swarm::kind::Swarm;
}

pub use map::{ITEMS_MAX, MapState, Mapped, ParallelMap};
pub use plan::{PlanAndExecute, PlanState, Replan, StepResult};
pub use supervisor::{Handed, OutputMode, Report, Supervisor, TeamState};
pub use swarm::{Swarm, SwarmState};
