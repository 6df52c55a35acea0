use crate::{BoxFuture, Timestamp};
use std::time::Duration;

/// Source of time, as a port, so that tests can control it.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the wall-clock time.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed point. It is monotonic and suited for measuring durations.
    fn elapsed(&self) -> Duration;

    /// Waits for a duration. Cancel safe.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Returns 128 bits for use as an id, different on every call. A clock with a seed repeats its
    /// sequence.
    fn unique(&self) -> u128;
}
