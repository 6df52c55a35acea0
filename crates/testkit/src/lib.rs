//! Support for tests of this workspace, and of programs that use it.

pub mod compile_errors;
pub mod fuzz;
pub mod loopback;
pub mod sim;

pub use loopback::{LoopbackServer, Received, Reply};
pub use sim::World;
pub use weftwork_types::port::ManualClock;
