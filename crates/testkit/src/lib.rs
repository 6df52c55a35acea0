//! What tests of the house, and of programs built on it, share.

pub mod clock;
pub mod fuzz;
pub mod loopback;
pub mod sim;

pub use clock::ManualClock;
pub use loopback::{LoopbackServer, Received, Reply};
pub use sim::World;
