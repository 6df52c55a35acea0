//! Tests of calls that are repeated because their tool was not available.

use crate::rig::{Count, Rig, call, done, failure, runner, value};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use weftwork_tools::{
    DEFAULT_TIMEOUT, Executed, FnTool, Policy, PolicyBuilder, Prepared, ReadyCall, RetryPolicy,
    ToolBox, ToolContext, ToolError, ToolRunner,
};
use weftwork_types::approval::{ApprovalDecision, Verdict};
use weftwork_types::message::ToolCall;
use weftwork_types::tool::{Effect, ToolErrorKind, UnknownOutcome};

/// The end of one attempt of the tool.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Works,
    Unavailable,
    Busy(u64),
    Lost,
    Fails,
    Hangs,
    Panics,
}

/// A service behind a tool, with the ends of the attempts in order. The last one repeats.
#[derive(Clone)]
struct Service {
    ends: Arc<[End]>,
    count: Count,
    keys: Arc<Mutex<BTreeSet<String>>>,
}

impl Service {
    fn new(ends: &[End]) -> Self {
        Self { ends: ends.into(), count: Count::default(), keys: Arc::default() }
    }

    fn tool(&self, name: &str, effect: Effect, unknown: UnknownOutcome) -> FnTool {
        let service = self.clone();
        let ask = move |_: BTreeMap<String, String>, context: ToolContext| {
            let service = service.clone();
            async move {
                let at = service.count.get().min(service.ends.len() - 1);
                service.count.up();
                service.keys.lock().expect("not poisoned").insert(context.idempotency_key);
                match service.ends[at] {
                    End::Works => Ok("works"),
                    End::Unavailable => Err(ToolError::unavailable("the service does not answer")),
                    End::Busy(seconds) => {
                        let error = ToolError::unavailable("the service is busy");
                        Err(error.retry_after(Duration::from_secs(seconds)))
                    }
                    End::Lost => Err(ToolError::outcome_unknown("the connection broke")),
                    End::Fails => Err(ToolError::failed("there is no such order")),
                    End::Hangs => pending().await,
                    End::Panics => panic!("a mistake"),
                }
            }
        };
        FnTool::new(name, "Asks a service.", ask).effect(effect).on_unknown(unknown)
    }

    fn look(&self) -> FnTool {
        self.tool("look", Effect::ReadOnly, UnknownOutcome::Ask)
    }

    fn pay(&self) -> FnTool {
        self.tool("pay", Effect::ExternalSideEffect, UnknownOutcome::Idempotent)
    }
}

fn thrice() -> RetryPolicy {
    RetryPolicy { attempts_max: 3, backoff_first: Duration::from_secs(2), ..RetryPolicy::default() }
}

fn built(policy: PolicyBuilder) -> Policy {
    policy.build().expect("a policy")
}

fn repeating(tool: FnTool, name: &str) -> ToolRunner {
    runner(ToolBox::new().with(tool), built(Policy::builder().allow(name).retry(thrice())))
}

/// The waits between the attempts. The limits of the attempts are longer.
fn waits(rig: &Rig) -> Vec<Duration> {
    let sleeps = rig.clock.sleeps().into_iter();
    sleeps.filter(|sleep| *sleep < DEFAULT_TIMEOUT).collect()
}

#[test]
fn a_read_is_repeated_until_it_works() {
    for (ends, attempts) in [
        (&[End::Works][..], 1),
        (&[End::Unavailable, End::Works], 2),
        (&[End::Unavailable, End::Lost, End::Works], 3),
        (&[End::Hangs, End::Works], 2),
    ] {
        let rig = Rig::new();
        let service = Service::new(ends);
        let runner = repeating(service.look(), "look");
        assert_eq!(value(rig.run(&runner, &call("c-1", "look", json!({})))), json!("works"));
        assert_eq!(service.count.get(), attempts, "{ends:?}");
        assert_eq!(service.keys.lock().expect("not poisoned").len(), 1, "one key for all attempts");
        assert_eq!(rig.events.all().len(), 2, "{ends:?}: one start and one result");
        assert_eq!((rig.pairs().len(), rig.journal.counts()), (1, (1, 1)), "{ends:?}");
        assert_eq!(rig.budget.lock().expect("not poisoned").used().tool_calls, 1, "one call");
        let waits = waits(&rig);
        assert_eq!(waits.len(), attempts - 1, "{ends:?}: {waits:?}");
        for (number, wait) in waits.iter().enumerate() {
            let full = Duration::from_secs(2) * 2u32.pow(number as u32);
            assert!(*wait >= full / 2 && *wait <= full, "{waits:?}");
        }
    }
}

#[test]
fn the_last_failure_counts_with_the_number_of_attempts() {
    let not_again = "the service does not answer; 3 attempts were made";
    for (ends, attempts, code, says) in [
        (&[End::Unavailable][..], 3, "W0414", not_again),
        (&[End::Hangs], 3, "W0408", "did not end within 60000 ms; 3 attempts were made"),
        (&[End::Lost], 3, "W0413", "the connection broke; 3 attempts were made"),
        (&[End::Unavailable, End::Fails], 2, "W0406", "no such order; 2 attempts were made"),
        (&[End::Fails], 1, "W0406", "there is no such order"),
        (&[End::Panics, End::Works], 1, "W0407", "stopped by an error in its own code"),
    ] {
        let rig = Rig::new();
        let service = Service::new(ends);
        let runner = repeating(service.look(), "look");
        let failed = failure(rig.run(&runner, &call("c-1", "look", json!({}))));
        assert_eq!(failed.1, code, "{ends:?}");
        assert!(failed.2.ends_with(says), "{ends:?}: {failed:?}");
        assert_eq!((service.count.get(), rig.events.all().len()), (attempts, 2), "{ends:?}");
    }
}

#[test]
fn the_delay_that_the_tool_asks_for_counts() {
    let rig = Rig::new();
    let service = Service::new(&[End::Busy(7), End::Busy(61), End::Works]);
    let runner = repeating(service.look(), "look");
    let failed = failure(rig.run(&runner, &call("c-1", "look", json!({}))));
    assert_eq!(failed.2, "the service is busy; 2 attempts were made", "61 s are too long");
    assert_eq!(waits(&rig), [Duration::from_secs(7)]);
}

#[test]
fn without_a_retry_of_its_rule_a_call_is_made_once() {
    let rig = Rig::new();
    let service = Service::new(&[End::Unavailable, End::Works]);
    let runner = runner(ToolBox::new().with(service.look()), Policy::new());
    let failed = failure(rig.run(&runner, &call("c-1", "look", json!({}))));
    assert_eq!(
        (failed.0, failed.2.as_str()),
        (ToolErrorKind::Unavailable, "the service does not answer")
    );
    assert_eq!(service.count.get(), 1);
}

#[test]
fn effects_that_could_happen_twice_are_refused() {
    use Effect::{ExternalSideEffect, ReadOnly, StateChange};
    use UnknownOutcome::{Ask, Idempotent, Reconcile};
    let service = Service::new(&[End::Unavailable]);
    let tool = |effect, unknown| match unknown {
        Reconcile => service.tool("pay", effect, unknown).reconcile(
            |_: BTreeMap<String, String>, _: ToolContext| async { Ok::<_, String>(None::<&str>) },
        ),
        unknown => service.tool("pay", effect, unknown),
    };
    let all = || Policy::builder().allow("*").retry(thrice());
    let narrow = || all().effect(ReadOnly);
    let shielded =
        || Policy::builder().ask_human("pay", "it moves money").allow("*").retry(thrice());
    let open = || {
        let first = Policy::builder().ask_human("pay", "it is much").when("has(args.much)");
        first.allow("*").retry(thrice())
    };
    for (effect, unknown, policy, refused) in [
        (ReadOnly, Ask, all(), None),
        (StateChange, Idempotent, all(), None),
        (ExternalSideEffect, Idempotent, all(), None),
        (StateChange, Ask, all(), Some(0)),
        (ExternalSideEffect, Ask, all(), Some(0)),
        (ExternalSideEffect, Reconcile, all(), Some(0)),
        (ExternalSideEffect, Ask, narrow(), None),
        (ExternalSideEffect, Ask, shielded(), None),
        (ExternalSideEffect, Ask, open(), Some(1)),
    ] {
        let tools =
            ToolBox::new().with(tool(effect, unknown)).with(service.look()).with_ask_human();
        let made = ToolRunner::new(tools, built(policy));
        let at = format!("{effect:?} {unknown:?}");
        match (made, refused) {
            (Ok(_), None) => {}
            (Err(errors), Some(rule)) => {
                let place = format!(
                    "policy rule for `*` cannot be used: `rules[{rule}].retry`: expected tools that only read or are idempotent, found `pay`"
                );
                assert!(errors.to_string().starts_with(&place), "{at}: {errors}");
                assert_eq!((errors.problems().len(), errors.code().0), (1, "W0427"), "{at}");
            }
            (made, refused) => panic!("{at}: expected {refused:?}, found {made:?}"),
        }
    }
}

#[test]
fn an_approved_call_is_repeated_as_its_rule_says() {
    for args in [None, Some(json!({"order": "A2"}))] {
        let rig = Rig::new();
        let service = Service::new(&[End::Unavailable, End::Works]);
        let policy = Policy::builder().ask_human("pay", "it moves money").retry(thrice());
        let runner = runner(ToolBox::new().with(service.pay()), built(policy));
        let made = call("c-1", "pay", json!({"order": "A1"}));
        let Prepared::NeedsApproval(pending) = runner.prepare(&made, &rig.context()) else {
            panic!("asks")
        };
        let verdict = args.map_or(Verdict::Approve, |args| Verdict::Edit { args });
        let decision = ApprovalDecision::new(pending.request().binding, verdict);
        let executed = rig.drive(runner.execute(pending.decide(&decision))).expect("no error");
        assert_eq!((value(executed), service.count.get()), (json!("works"), 2));
    }
}

#[test]
fn no_attempt_is_made_after_the_deadline_of_the_run() {
    let rig = Rig { deadline: Some(Duration::from_secs(2)), ..Rig::new() };
    let service = Service::new(&[End::Unavailable, End::Busy(2), End::Works]);
    let runner = repeating(service.look(), "look");
    let ready = ready_call(&rig, &runner, &call("c-1", "look", json!({})));
    let mut execution = pin!(runner.execute(ready));
    let mut context = Context::from_waker(Waker::noop());
    assert!(execution.as_mut().poll(&mut context).is_pending());
    rig.clock.advance(waits(&rig)[0]);
    let Poll::Ready(executed) = execution.poll(&mut context) else { panic!("it does not wait") };
    let failed = failure(executed.expect("no error"));
    assert_eq!(failed.2, "the service is busy; 2 attempts were made");
    assert_eq!((service.count.get(), rig.pairs().len()), (2, 1));
}

/// A call that the policy allows.
fn ready_call(rig: &Rig, runner: &ToolRunner, made: &ToolCall) -> ReadyCall {
    match runner.prepare(made, &rig.context()) {
        Prepared::Ready(ready) => ready,
        other => panic!("{other:?}"),
    }
}

/// Executes a call until the process dies in the wait after this attempt.
fn die_after(rig: &Rig, runner: &ToolRunner, ready: ReadyCall, service: &Service, attempts: usize) {
    let mut execution = pin!(runner.execute(ready));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        assert!(execution.as_mut().poll(&mut context).is_pending());
        if service.count.get() >= attempts {
            return;
        }
        rig.clock.advance(Duration::from_secs(30));
    }
}

#[test]
fn a_wait_ends_when_the_run_is_cancelled() {
    let rig = Rig::new();
    let service = Service::new(&[End::Unavailable]);
    let runner = repeating(service.pay(), "pay");
    let ready = ready_call(&rig, &runner, &call("c-1", "pay", json!({})));
    die_after(&rig, &runner, ready, &service, 1);
    rig.clock.advance(Duration::from_secs(3600));
    assert_eq!(service.count.get(), 1, "no attempt after the end");
    let [pair] = &rig.pairs()[..] else { panic!("one start and one result") };
    assert_eq!((pair.is_error, &pair.result["code"]), (true, &json!("W0412")));
    assert_eq!(rig.journal.counts(), (1, 0), "the intent is on record");
}

#[test]
fn after_a_crash_the_remaining_attempts_are_made() {
    // In the wait after an attempt, or in the attempt; attempts before the crash, and in all.
    for (ends, before, in_all) in [
        (&[End::Unavailable][..], 1, 3),
        (&[End::Unavailable], 2, 3),
        (&[End::Hangs, End::Unavailable], 1, 3),
        (&[End::Unavailable, End::Hangs, End::Unavailable], 2, 3),
        (&[End::Unavailable, End::Unavailable, End::Hangs, End::Unavailable], 3, 4),
    ] {
        let rig = Rig::new();
        let service = Service::new(ends);
        let made = call("c-1", "pay", json!({}));
        let first = repeating(service.pay(), "pay");
        let ready = ready_call(&rig, &first, &made);
        die_after(&rig, &first, ready, &service, before);
        assert_eq!((service.count.get(), rig.journal.counts()), (before, (1, 0)), "{ends:?}");

        let second = repeating(service.pay(), "pay");
        let failed = failure(rig.run(&second, &made));
        assert_eq!(service.count.get(), in_all, "{ends:?}: at most one more than 3");
        let note = format!("{in_all} attempts were made");
        assert!(failed.2.ends_with(&note), "{ends:?}: {failed:?}");
        assert_eq!(rig.journal.counts(), (1, 1), "{ends:?}");
        assert_eq!(service.keys.lock().expect("not poisoned").len(), 1, "{ends:?}");
        done(rig.run(&second, &made));
        assert_eq!((service.count.get(), rig.reused()), (in_all, 1), "{ends:?}: it has ended");
    }
}

#[test]
fn a_journal_that_refuses_the_next_attempt_ends_the_call() {
    let rig = Rig::new();
    let service = Service::new(&[End::Unavailable]);
    let runner = repeating(service.pay(), "pay");
    *rig.journal.refuse_again.lock().expect("not poisoned") = true;
    let ready = ready_call(&rig, &runner, &call("c-1", "pay", json!({})));
    let error = rig.drive(runner.execute(ready)).expect_err("not recorded");
    assert_eq!((error.code().0, service.count.get()), ("W0416", 1));
    assert_eq!((rig.pairs().len(), rig.journal.counts()), (1, (1, 0)));
    *rig.journal.refuse_again.lock().expect("not poisoned") = false;
    let executed = rig.run(&runner, &call("c-1", "pay", json!({})));
    assert!(matches!(executed, Executed::Done(_)));
    assert_eq!(service.count.get(), 3);
}
