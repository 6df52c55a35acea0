use crate::{BoxFuture, Timestamp};
use std::time::Duration;

/// Time, as a port, so that tests can hold it still.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point, never going back; for measuring.
    fn elapsed(&self) -> Duration;

    /// Waits. Cancel safe.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// 128 bits that no other call returns, for ids. A seeded clock repeats them.
    fn unique(&self) -> u128;
}
