//! A simulated world with virtual time, in which a seed determines the order of events.
//!
//! A [`World`] is a clock, and it polls one future. The future waits for sleeps on the clock and
//! for [`World::pause`]. The seed decides which wait ends next: a pause may end at any time, sleeps
//! end in the order of their deadlines, and those with the same deadline in any order. The same
//! seed repeats the same order; another seed usually gives another one. Dropping the future after
//! any poll simulates a crash.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use weftwork_types::port::Clock;
use weftwork_types::{BoxFuture, Timestamp};

/// Percentage of polls after which the future is polled again without being woken.
const NEEDLESS_POLLS: u32 = 10;
/// Chance in percent that another wait ends before the next poll.
const AT_ONCE: u32 = 35;

/// A pseudorandom generator for choices (SplitMix64).
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Creates a generator with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or zero if `end` is zero.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.bits() % end).unwrap_or_default()
    }

    /// Returns `true` with the given probability in percent.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.bits() % 100 < u64::from(percent)
    }

    /// Returns one of the elements, or `None` if there are none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let index = self.below(all.len());
        all.get(index)
    }

    /// Returns a random subset of the elements, in order.
    pub fn some<T: Clone>(&mut self, all: &[T], percent: u32) -> Vec<T> {
        all.iter().filter(|_| self.chance(percent)).cloned().collect()
    }

    /// Returns an independent generator; later draws from this one do not affect it.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.bits())
    }
}

/// The result of [`World::drive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driven<T> {
    /// The future completed.
    Ended(T),
    /// The future was dropped after its maximum number of polls.
    Cut,
    /// The future waits for something outside this world.
    Stuck,
}

/// A virtual clock and the futures that wait for it. Clones share one world.
#[derive(Debug, Clone)]
pub struct World(Arc<Mutex<WorldState>>);

#[derive(Debug)]
struct WorldState {
    draw: Draw,
    elapsed: Duration,
    /// Waits in the order in which they were created.
    waits: BTreeMap<u64, Wait>,
    next: u64,
    unique: u128,
    polls: u64,
}

#[derive(Debug)]
struct Wait {
    /// The deadline; `None` for a pause, which may end at any time.
    until: Option<Duration>,
    over: bool,
    waker: Option<Waker>,
}

impl World {
    /// Creates a world at the start time of every [`ManualClock`](crate::ManualClock).
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(WorldState {
            draw: Draw::new(seed),
            elapsed: Duration::ZERO,
            waits: BTreeMap::new(),
            next: 0,
            unique: 0,
            polls: 0,
        })))
    }

    /// Waits until the world ends the pause.
    #[must_use]
    pub fn pause(&self) -> BoxFuture<'static, ()> {
        self.wait(None)
    }

    /// Replaces the generator with one of another seed.
    pub fn reseed(&self, seed: u64) {
        self.lock().draw = Draw::new(seed);
    }

    /// The number of polls so far.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.lock().polls
    }

    /// Polls a future until it completes, or drops it after `polls` polls. `idle` is called
    /// whenever the future is pending.
    pub fn drive<T>(
        &self,
        future: impl Future<Output = T>,
        polls: Option<u64>,
        mut idle: impl FnMut(),
    ) -> Driven<T> {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut left = polls;
        loop {
            if left == Some(0) {
                return Driven::Cut;
            }
            left = left.map(|left| left - 1);
            self.lock().polls += 1;
            if let Poll::Ready(ended) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Driven::Ended(ended);
            }
            idle();
            let needless = self.lock().draw.chance(NEEDLESS_POLLS);
            if woken.0.swap(false, Ordering::SeqCst) || needless {
                continue;
            }
            if !self.end_waits() {
                return Driven::Stuck;
            }
        }
    }

    /// Ends a wait, and possibly further ones at the same time. Returns `false` if none can end.
    fn end_waits(&self) -> bool {
        let mut state = self.lock();
        let mut woken: Vec<_> = state.end_one(Duration::MAX).into_iter().collect();
        while !woken.is_empty() && state.draw.chance(AT_ONCE) {
            let now = state.elapsed;
            woken.extend(state.end_one(now));
        }
        drop(state);
        let any = !woken.is_empty();
        woken.into_iter().for_each(Waker::wake);
        any
    }

    fn wait(&self, until: Option<Duration>) -> BoxFuture<'static, ()> {
        let key = {
            let mut state = self.lock();
            state.next += 1;
            let key = state.next;
            state.waits.insert(key, Wait { until, over: false, waker: None });
            key
        };
        let place = Waiting { world: self.clone(), key };
        Box::pin(poll_fn(move |cx| place.poll(cx)))
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        // The state is consistent between any two statements, so it is usable after a panic
        // elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorldState {
    /// Ends one of the waits that may end next, unless that is after `latest`.
    fn end_one(&mut self, latest: Duration) -> Option<Waker> {
        // A future that was not polled yet does not wait.
        let open = self.waits.iter().filter(|(_, wait)| !wait.over && wait.waker.is_some());
        let open: Vec<_> = open.map(|(key, wait)| (*key, wait.until)).collect();
        let first = open.iter().filter_map(|(_, until)| *until).min();
        let first = first.filter(|first| *first <= latest);
        let may =
            open.iter().filter(|(_, until)| until.is_none() || first.is_some() && *until == first);
        let may: Vec<_> = may.map(|(key, _)| *key).collect();
        let key = *self.draw.pick(&may)?;
        let wait = self.waits.get_mut(&key)?;
        wait.over = true;
        self.elapsed = self.elapsed.max(wait.until.unwrap_or_default());
        wait.waker.take()
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A registered wait, which is removed when dropped.
struct Waiting {
    world: World,
    key: u64,
}

impl Waiting {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.world.lock();
        match state.waits.get_mut(&self.key) {
            Some(wait) if !wait.over => {
                wait.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.world.lock().waits.remove(&self.key);
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        crate::ManualClock::START.plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.lock().elapsed
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let until = self.elapsed().saturating_add(duration);
        self.wait(Some(until))
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
    use std::collections::BTreeSet;

    /// Returns the order in which three sleeps and a pause end.
    async fn order(world: World) -> Vec<&'static str> {
        let order = Mutex::new(Vec::new());
        let record = |name, wait: BoxFuture<'static, ()>| {
            let order = &order;
            async move {
                wait.await;
                order.lock().expect("is whole").push(name);
            }
        };
        let sleep = |ms| world.sleep(Duration::from_millis(ms));
        let all: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 4] = [
            Box::pin(record("late", sleep(9))),
            Box::pin(record("a", sleep(5))),
            Box::pin(record("b", sleep(5))),
            Box::pin(record("pause", world.pause())),
        ];
        let mut all = all.map(Some);
        poll_fn(|cx| {
            for one in &mut all {
                if one.as_mut().is_some_and(|one| one.as_mut().poll(cx).is_ready()) {
                    *one = None;
                }
            }
            if all.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(all);
        order.into_inner().expect("is whole")
    }

    fn driven(seed: u64) -> Vec<&'static str> {
        let world = World::new(seed);
        match world.drive(order(world.clone()), None, || {}) {
            Driven::Ended(order) => order,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_seed_is_an_order_and_sleeps_end_in_time() {
        let mut orders = BTreeSet::new();
        for seed in 0..200 {
            let order = driven(seed);
            assert_eq!(order, driven(seed), "seed {seed}");
            let place = |name| order.iter().position(|one| *one == name);
            assert!(place("late") > place("a") && place("late") > place("b"), "{order:?}");
            orders.insert(order);
        }
        assert_eq!(orders.len(), 8, "every order that time allows: {orders:?}");
    }

    #[test]
    fn a_future_is_cut_or_stuck_or_ends() {
        let world = World::new(1);
        assert_eq!(world.drive(world.pause(), Some(1), || {}), Driven::Cut);
        assert_eq!(world.drive(std::future::pending::<()>(), None, || {}), Driven::Stuck);
        assert!(world.lock().waits.is_empty(), "what is dropped waits no more");
        let mut waited = 0;
        let slept = world.sleep(Duration::from_secs(3));
        assert_eq!(world.drive(slept, None, || waited += 1), Driven::Ended(()));
        assert!(waited > 0 && world.polls() > 2);
        assert_eq!(world.now(), crate::ManualClock::START.plus(Duration::from_secs(3)));
    }
}
