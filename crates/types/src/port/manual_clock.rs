//! A clock that is advanced by tests.

use super::Clock;
use crate::{BoxFuture, Timestamp};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// A clock for tests, which stands still until it is advanced. It begins at 2026-01-01T00:00:00Z.
/// Clones share the same time.
///
/// ```
/// use std::time::Duration;
/// use weftwork_types::port::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now(), before.plus(Duration::from_secs(3600)));
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    state: Arc<Mutex<ClockState>>,
}

#[derive(Debug)]
struct ClockState {
    elapsed: Duration,
    sleeps: Vec<Duration>,
    waiting: Vec<Waker>,
    unique: u128,
    sleep: Sleep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    UntilMoved,
    MovesTheClock,
}

impl ManualClock {
    /// The time at which every manual clock starts: 2026-01-01T00:00:00Z.
    pub const START: Timestamp = Timestamp(1_767_225_600_000);

    /// Creates a clock that only [`ManualClock::advance`] moves; a sleep waits for it.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Sleep::UntilMoved)
    }

    /// Creates a clock that every sleep advances by itself, so that no sleep waits.
    ///
    /// A sleep that races against another future (for example a deadline) wins as soon as the other
    /// future waits; use [`ManualClock::new`] for such tests.
    #[must_use]
    pub fn moved_by_sleeps() -> Self {
        Self::with(Sleep::MovesTheClock)
    }

    fn with(sleep: Sleep) -> Self {
        Self {
            state: Arc::new(Mutex::new(ClockState {
                elapsed: Duration::ZERO,
                sleeps: Vec::new(),
                waiting: Vec::new(),
                unique: 0,
                sleep,
            })),
        }
    }

    /// Advances the time and wakes the sleeps that are over.
    pub fn advance(&self, duration: Duration) {
        let waiting = {
            let mut state = self.lock();
            state.elapsed = state.elapsed.saturating_add(duration);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// All sleeps requested so far, in order.
    #[must_use]
    pub fn sleeps(&self) -> Vec<Duration> {
        self.lock().sleeps.clone()
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        // The state is consistent between any two statements, so it is usable after a panic
        // elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Self::START.plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.lock().elapsed
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let (due, sleep) = {
            let mut state = self.lock();
            state.sleeps.push(duration);
            (state.elapsed.saturating_add(duration), state.sleep)
        };
        Box::pin(poll_fn(move |context| {
            if sleep == Sleep::MovesTheClock {
                let short = due.saturating_sub(clock.elapsed());
                clock.advance(short);
                return Poll::Ready(());
            }
            let mut state = clock.lock();
            if state.elapsed >= due {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        }))
    }

    fn unique(&self) -> u128 {
        let mut state = self.lock();
        state.unique += 1;
        state.unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    fn poll(future: std::pin::Pin<&mut BoxFuture<'static, ()>>) -> Poll<()> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_sleep_ends_when_the_clock_has_moved_far_enough() {
        let clock = ManualClock::new();
        let mut sleep = pin!(clock.sleep(Duration::from_secs(2)));
        assert_eq!(poll(sleep.as_mut()), Poll::Pending);
        clock.advance(Duration::from_secs(1));
        assert_eq!(poll(sleep.as_mut()), Poll::Pending);
        clock.advance(Duration::from_secs(1));
        assert_eq!(poll(sleep.as_mut()), Poll::Ready(()));
        assert_eq!(clock.now(), ManualClock::START.plus(Duration::from_secs(2)));
    }

    #[test]
    fn a_clock_moved_by_sleeps_never_waits_and_remembers_them() {
        let clock = ManualClock::moved_by_sleeps();
        let mut sleep = pin!(clock.sleep(Duration::from_secs(60)));
        assert_eq!(poll(sleep.as_mut()), Poll::Ready(()));
        assert_eq!(clock.elapsed(), Duration::from_secs(60));
        assert_eq!(clock.sleeps(), [Duration::from_secs(60)]);
        assert_ne!(clock.unique(), clock.unique());
    }
}
