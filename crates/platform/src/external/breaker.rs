//! Circuit breakers: a server that fails is left alone for a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use url::Url;
use weftwork_types::peer::{PeerCounts, PeerState};

/// The numbers and times of a breaker, as a definition has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BreakerRules {
    /// Number of failures, one after the other, that open it.
    pub(crate) failures: u32,
    /// Number of trials, one after the other, that have to succeed before it closes.
    pub(crate) successes: u32,
    /// Time for which it is open, and for which an answer of the server counts.
    pub(crate) interval: Duration,
    /// `true` if the health of the server can be checked.
    pub(crate) has_check: bool,
}

/// The breaker of a server. Its times are those of [`Clock::elapsed`](weftwork_types::port::Clock::elapsed).
#[derive(Debug, Default)]
pub(crate) struct Breaker(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    circuit: Circuit,
    /// Time until which an answer of the server counts, so that its health is not checked.
    fresh_until: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
enum Circuit {
    /// Requests are sent.
    Closed {
        /// Number of failures since the last success.
        failures: u32,
    },
    /// None is sent until a time.
    Open { until: Duration },
    /// Trials are sent, one at a time.
    HalfOpen {
        /// Number of trials that succeeded.
        successes: u32,
        /// `true` while a trial is in progress.
        on_trial: bool,
    },
}

impl Default for Circuit {
    fn default() -> Self {
        Self::Closed { failures: 0 }
    }
}

/// The answer of a breaker to a request.
#[derive(Debug)]
pub(crate) enum Admission {
    /// The request may be sent.
    Granted(Permit),
    /// The health of the server is checked first. The breaker is asked again after it.
    Check(Permit),
    /// The server is left alone for this time.
    Refused {
        /// Time that is left; zero while a trial is in progress.
        wait: Duration,
    },
}

/// The permission for one request. Dropping it without a result ends a trial without one.
#[derive(Debug)]
pub(crate) struct Permit {
    breaker: Arc<Breaker>,
    rules: BreakerRules,
    is_trial: bool,
}

impl Breaker {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a request.
    pub(crate) fn admit(self: &Arc<Self>, rules: BreakerRules, now: Duration) -> Admission {
        let mut inner = self.lock();
        let is_fresh = inner.fresh_until.is_some_and(|until| now < until);
        let is_trial = match &mut inner.circuit {
            Circuit::Closed { .. } => false,
            Circuit::Open { until } if now < *until => {
                return Admission::Refused { wait: *until - now };
            }
            open @ Circuit::Open { .. } => {
                *open = Circuit::HalfOpen { successes: 0, on_trial: true };
                true
            }
            Circuit::HalfOpen { on_trial: true, .. } => {
                return Admission::Refused { wait: Duration::ZERO };
            }
            Circuit::HalfOpen { on_trial, .. } => {
                *on_trial = true;
                true
            }
        };
        let permit = Permit { breaker: Arc::clone(self), rules, is_trial };
        match rules.has_check && (is_trial || !is_fresh) {
            true => Admission::Check(permit),
            false => Admission::Granted(permit),
        }
    }

    /// Returns the state at a time.
    pub(crate) fn state(&self, now: Duration) -> PeerState {
        match self.lock().circuit {
            Circuit::Closed { .. } => PeerState::Closed,
            Circuit::Open { until } if now < until => PeerState::Open,
            Circuit::Open { .. } | Circuit::HalfOpen { .. } => PeerState::HalfOpen,
        }
    }
}

impl Permit {
    /// The server answered.
    pub(crate) fn succeed(mut self, now: Duration) {
        let was_trial = std::mem::take(&mut self.is_trial);
        let rules = self.rules;
        let mut inner = self.breaker.lock();
        inner.fresh_until = Some(now.saturating_add(rules.interval));
        match &mut inner.circuit {
            Circuit::Closed { failures } => *failures = 0,
            Circuit::HalfOpen { successes, on_trial } if was_trial => {
                *successes += 1;
                *on_trial = false;
                if *successes >= rules.successes {
                    // The first failure opens it again: a check may succeed where requests fail.
                    let failures = rules.failures.saturating_sub(1);
                    inner.circuit = Circuit::Closed { failures };
                }
            }
            // A request that was sent before the server failed.
            Circuit::Open { .. } | Circuit::HalfOpen { .. } => {}
        }
    }

    /// The server failed.
    pub(crate) fn fail(mut self, now: Duration) {
        let was_trial = std::mem::take(&mut self.is_trial);
        let rules = self.rules;
        let mut inner = self.breaker.lock();
        inner.fresh_until = None;
        let opens = match &mut inner.circuit {
            Circuit::Closed { failures } => {
                *failures = failures.saturating_add(1);
                *failures >= rules.failures
            }
            Circuit::HalfOpen { .. } => was_trial,
            Circuit::Open { .. } => false,
        };
        if opens {
            inner.circuit = Circuit::Open { until: now.saturating_add(rules.interval) };
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_trial {
            return;
        }
        if let Circuit::HalfOpen { on_trial, .. } = &mut self.breaker.lock().circuit {
            *on_trial = false;
        }
    }
}

/// The breakers of a process: one for each server, by the organisation of the definitions that name it.
#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<BTreeMap<ServerName, Arc<Breaker>>>);

/// An organisation, `None` for all, and the origin of an address.
type ServerName = (Option<String>, String);

impl Breakers {
    /// Returns the breaker of the server of an address.
    pub(crate) fn of(&self, organization: Option<&str>, url: &Url) -> Arc<Breaker> {
        let name = (organization.map(str::to_owned), url.origin().ascii_serialization());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(name).or_default())
    }

    /// Counts the servers by their states.
    pub(crate) fn counts(&self, now: Duration) -> PeerCounts {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = PeerCounts::default();
        all.values().for_each(|breaker| counts.add(breaker.state(now)));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: BreakerRules = BreakerRules {
        failures: 2,
        successes: 1,
        interval: Duration::from_secs(30),
        has_check: false,
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn granted(breaker: &Arc<Breaker>, rules: BreakerRules, now: Duration) -> Permit {
        match breaker.admit(rules, now) {
            Admission::Granted(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_closes_opens_tries_and_closes() {
        let breaker = Arc::new(Breaker::default());
        granted(&breaker, RULES, at(0)).fail(at(0));
        granted(&breaker, RULES, at(0)).succeed(at(0));
        granted(&breaker, RULES, at(1)).fail(at(1));
        assert_eq!(breaker.state(at(1)), PeerState::Closed, "a success between them");
        granted(&breaker, RULES, at(1)).fail(at(2));
        assert_eq!(breaker.state(at(31)), PeerState::Open);
        let refused = breaker.admit(RULES, at(12));
        assert!(matches!(refused, Admission::Refused { wait } if wait == at(20)), "{refused:?}");
        assert_eq!(breaker.state(at(32)), PeerState::HalfOpen);
        let trial = granted(&breaker, RULES, at(32));
        let other = breaker.admit(RULES, at(32));
        assert!(
            matches!(other, Admission::Refused { wait: Duration::ZERO }),
            "one trial: {other:?}"
        );
        trial.fail(at(33));
        assert_eq!(breaker.state(at(62)), PeerState::Open, "the trial failed");
        granted(&breaker, RULES, at(63)).succeed(at(63));
        assert_eq!(breaker.state(at(63)), PeerState::Closed);
        granted(&breaker, RULES, at(64)).fail(at(64));
        assert_eq!(breaker.state(at(64)), PeerState::Open, "the first failure after it");
    }

    #[test]
    fn a_trial_without_a_result_is_followed_by_another() {
        let breaker = Arc::new(Breaker::default());
        let rules = BreakerRules { failures: 1, successes: 2, ..RULES };
        granted(&breaker, rules, at(0)).fail(at(0));
        drop(granted(&breaker, rules, at(30)));
        granted(&breaker, rules, at(30)).succeed(at(30));
        assert_eq!(breaker.state(at(30)), PeerState::HalfOpen, "one of two");
        granted(&breaker, rules, at(30)).succeed(at(30));
        assert_eq!(breaker.state(at(30)), PeerState::Closed);
    }

    #[test]
    fn late_results_change_nothing_of_an_open_one() {
        let breaker = Arc::new(Breaker::default());
        let rules = BreakerRules { failures: 1, ..RULES };
        let [first, second, third] = [(); 3].map(|()| granted(&breaker, rules, at(0)));
        first.fail(at(1));
        second.succeed(at(2));
        third.fail(at(20));
        assert_eq!(breaker.state(at(30)), PeerState::Open);
        assert_eq!(breaker.state(at(31)), PeerState::HalfOpen);
    }

    #[test]
    fn the_health_is_checked_unless_an_answer_is_fresh() {
        let breaker = Arc::new(Breaker::default());
        let rules = BreakerRules { has_check: true, ..RULES };
        let Admission::Check(check) = breaker.admit(rules, at(0)) else { panic!("no check") };
        check.succeed(at(0));
        granted(&breaker, rules, at(29)).succeed(at(29));
        granted(&breaker, rules, at(58)).fail(at(58));
        let Admission::Check(check) = breaker.admit(rules, at(58)) else { panic!("no check") };
        check.fail(at(58));
        assert_eq!(breaker.state(at(58)), PeerState::Open, "two failures");
        let Admission::Check(check) = breaker.admit(rules, at(88)) else { panic!("no check") };
        check.succeed(at(88));
        granted(&breaker, rules, at(88)).fail(at(88));
        assert_eq!(breaker.state(at(88)), PeerState::Open, "a check and a request");
    }

    #[test]
    fn servers_are_those_of_an_organisation() {
        let breakers = Breakers::default();
        let url = |text: &str| Url::parse(text).expect("an address");
        let one = breakers.of(None, &url("https://a.example/x"));
        assert!(Arc::ptr_eq(&one, &breakers.of(None, &url("https://a.example:443/y?z"))));
        for (organization, other) in [
            (Some("acme"), "https://a.example/x"),
            (None, "http://a.example/x"),
            (None, "https://b.example"),
        ] {
            assert!(!Arc::ptr_eq(&one, &breakers.of(organization, &url(other))), "{other}");
        }
        let rules = BreakerRules { failures: 1, ..RULES };
        granted(&one, rules, at(0)).fail(at(0));
        assert_eq!(breakers.counts(at(1)), PeerCounts { closed: 3, open: 1, half_open: 0 });
        assert_eq!(breakers.counts(at(30)), PeerCounts { closed: 3, open: 0, half_open: 1 });
    }
}
