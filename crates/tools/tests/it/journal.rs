//! Tests of calls that ended before, or were begun and never ended.

use crate::rig::{Count, MemoryJournal, Rig, call, done, failure, runner, value};
use serde_json::{Value, json};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_schema::{Checker, Quotes};
use weftwork_tools::{
    Executed, FnTool, Policy, Prepared, RunToolError, ToolBox, ToolContext, ToolError, ToolRunner,
    UnknownAnswer, UnknownCall,
};
use weftwork_types::ThreadId;
use weftwork_types::interrupt::Ask;
use weftwork_types::message::ToolCall;
use weftwork_types::port::{Attempts, CallKind, IdempotencyKey};
use weftwork_types::tool::{Effect, ToolOutcome, UnknownOutcome};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Amount {
    amount: i64,
}

/// The behaviour of the tool and of its lookup.
#[derive(Clone)]
struct World {
    count: Count,
    keys: Arc<Mutex<Vec<String>>>,
    hangs: bool,
    lookup: Result<Option<i64>, &'static str>,
}

impl World {
    fn new(hangs: bool, lookup: Result<Option<i64>, &'static str>) -> Self {
        Self { count: Count::default(), keys: Arc::default(), hangs, lookup }
    }

    fn pay(&self, effect: Effect, policy: UnknownOutcome) -> ToolRunner {
        let made = self.clone();
        let asked = self.clone();
        let pay = move |args: Amount, context: ToolContext| {
            let world = made.clone();
            async move {
                world.count.up();
                world.keys.lock().expect("not poisoned").push(context.idempotency_key);
                if world.hangs {
                    pending::<()>().await;
                }
                if args.amount < 0 { Err("negative") } else { Ok(args.amount) }
            }
        };
        let lookup = move |_: Amount, context: ToolContext| {
            let world = asked.clone();
            async move {
                world.keys.lock().expect("not poisoned").push(context.idempotency_key);
                world.lookup
            }
        };
        let tool = FnTool::new("pay", "Pays.", pay).effect(effect).timeout(Duration::from_secs(1));
        let tool = match policy {
            UnknownOutcome::Reconcile => tool.reconcile(lookup),
            other => tool.on_unknown(other),
        };
        runner(ToolBox::new().with(tool), Policy::new().allow("pay").expect("a name"))
    }
}

fn pay(amount: i64) -> ToolCall {
    call("c-1", "pay", json!({"amount": amount}))
}

/// Opens a call and dies inside it: the journal has an intent without a result.
fn die_inside(rig: &Rig, runner: &ToolRunner) {
    let Prepared::Ready(ready) = runner.prepare(&pay(5), &rig.context()) else { panic!("ready") };
    *rig.journal.refuse_settle.lock().expect("not poisoned") = true;
    rig.drive(runner.execute(ready)).expect_err("not recorded");
    *rig.journal.refuse_settle.lock().expect("not poisoned") = false;
}

fn unknown(executed: Executed) -> UnknownCall {
    match executed {
        Executed::OutcomeUnknown(unknown) => unknown,
        other => panic!("known: {other:?}"),
    }
}

#[test]
fn a_person_is_asked_about_each_time_that_a_call_was_begun() {
    let rig = Rig::new();
    let world = World::new(false, Ok(None));
    let runner = world.pay(Effect::ExternalSideEffect, UnknownOutcome::Ask);
    die_inside(&rig, &runner);
    let first = unknown(rig.run(&runner, &pay(5)));
    assert_eq!(first.made(), 1);
    *rig.journal.refuse_settle.lock().expect("not poisoned") = true;
    rig.drive(runner.resolve(first, UnknownAnswer::CallAgain)).expect_err("not recorded");
    *rig.journal.refuse_settle.lock().expect("not poisoned") = false;
    let second = unknown(rig.run(&runner, &pay(5)));
    assert_eq!((second.made(), world.count.get()), (2, 2), "begun again, and asked about anew");
    let third = rig.drive(runner.resolve(second, UnknownAnswer::CallAgain)).expect("recorded");
    assert_eq!((value(third), world.count.get()), (json!(5), 3));
}

#[test]
fn an_intent_says_what_the_journal_must_know() {
    for (effect, attempts) in [
        (Effect::ReadOnly, Attempts::Each),
        (Effect::StateChange, Attempts::Shared),
        (Effect::ExternalSideEffect, Attempts::Shared),
    ] {
        let rig = Rig::new();
        let world = World::new(false, Ok(None));
        assert_eq!(value(rig.run(&world.pay(effect, UnknownOutcome::Ask), &pay(5))), json!(5));
        let intents = rig.journal.intents.lock().expect("not poisoned").clone();
        let intent = &intents[0];
        assert_eq!((intent.kind, intent.name.as_str()), (CallKind::Tool, "pay"));
        assert_eq!((intent.effect, intent.attempts), (effect, attempts));
        assert_eq!(intent.call_id.as_deref(), Some("c-1"));
        let keys = world.keys.lock().expect("not poisoned").clone();
        let thread = ThreadId::new(rig.thread).expect("a valid id");
        let sent = IdempotencyKey::of(&thread, MemoryJournal::key(intent));
        assert_eq!(keys, [sent.to_string()], "the key is sent along");
    }
}

#[test]
fn a_call_that_ended_is_reused_whether_it_worked_or_not() {
    for (amount, works) in [(5, true), (-5, false)] {
        let rig = Rig::new();
        let world = World::new(false, Ok(None));
        let runner = world.pay(Effect::ExternalSideEffect, UnknownOutcome::Ask);
        let first = done(rig.run(&runner, &pay(amount)));
        let again = done(rig.run(&runner, &pay(amount)));
        assert_eq!(first, again);
        assert_eq!(matches!(first, ToolOutcome::Ok { .. }), works);
        let pairs = rig.pairs();
        assert_eq!((world.count.get(), rig.reused(), pairs.len()), (1, 1, 2));
        assert_eq!(pairs[0], pairs[1], "the stream of the second run is whole");
        // A different call id or different arguments make a different call.
        done(rig.run(&runner, &call("c-2", "pay", json!({"amount": amount}))));
        done(rig.run(&runner, &pay(amount * 2)));
        assert_eq!(world.count.get(), 3);
    }
}

#[test]
fn a_record_that_cannot_be_read_ends_the_node_and_calls_nothing() {
    let rig = Rig::new();
    let world = World::new(false, Ok(None));
    let runner = world.pay(Effect::ExternalSideEffect, UnknownOutcome::Idempotent);
    done(rig.run(&runner, &pay(5)));
    rig.journal.overwrite_all(&json!({"status": "perhaps"}));
    let Prepared::Ready(ready) = runner.prepare(&pay(5), &rig.context()) else { panic!("ready") };
    let error = rig.drive(runner.execute(ready)).expect_err("unreadable");
    assert!(matches!(error, RunToolError::RecordUnreadable { .. }), "{error:?}");
    assert_eq!((error.code().0, world.count.get(), rig.pairs().len()), ("W0415", 1, 1));
}

#[test]
fn a_call_that_a_process_died_in_goes_by_what_the_tool_declares() {
    use UnknownOutcome::{Ask, Idempotent, Reconcile};
    // Policy, result of the lookup; total executions, settled calls, and `true` if a person is
    // asked.
    for (policy, lookup, executions, settled, asked) in [
        (Idempotent, Ok(None), 2, 1, false),
        (Reconcile, Ok(Some(5)), 1, 1, false),
        (Reconcile, Ok(None), 2, 1, false),
        (Reconcile, Err("the bank does not answer"), 1, 0, true),
        (Ask, Ok(Some(5)), 1, 0, true),
    ] {
        let at = format!("{policy:?} {lookup:?}");
        let rig = Rig::new();
        let world = World::new(false, lookup);
        let runner = world.pay(Effect::ExternalSideEffect, policy);
        die_inside(&rig, &runner);
        let before = rig.pairs().len();
        let executed = rig.run(&runner, &pay(5));
        assert_eq!(matches!(executed, Executed::OutcomeUnknown(_)), asked, "{at}");
        if !asked {
            assert_eq!(value(executed), json!(5), "{at}");
        }
        assert_eq!(world.count.get(), executions, "{at}");
        assert_eq!(rig.journal.counts(), (1, settled), "{at}");
        assert_eq!(rig.pairs().len() - before, usize::from(!asked), "{at}");
        let mut keys = world.keys.lock().expect("not poisoned").clone();
        keys.dedup();
        assert_eq!(keys.len(), 1, "{at}: one key for all attempts and look-ups");
    }
}

#[test]
fn a_person_decides_about_a_call_of_unknown_outcome() {
    let happened = |value: Value| UnknownAnswer::Happened { value };
    for (answer, outcome, executions) in [
        (happened(json!(5)), Ok(json!(5)), 1),
        (happened(json!("five")), Err("W0409"), 1),
        (UnknownAnswer::CallAgain, Ok(json!(5)), 2),
        (UnknownAnswer::GiveUp, Err("W0413"), 1),
    ] {
        let rig = Rig::new();
        let world = World::new(false, Ok(None));
        let runner = world.pay(Effect::ExternalSideEffect, UnknownOutcome::Ask);
        die_inside(&rig, &runner);
        let before = rig.pairs().len();
        let call = unknown(rig.run(&runner, &pay(5)));
        let question = call.question();
        assert_eq!((question.tool.as_str(), &question.args), ("pay", &json!({"amount": 5})));
        let known =
            "tool `pay` was called and left no result: it was cut off, or its process ended";
        assert_eq!(question.reason, known);
        assert_eq!(question.idempotency_key, world.keys.lock().expect("not poisoned")[0]);
        let Ask::Value { value: asked } = call.ask() else { panic!("a value") };
        assert_eq!(asked["kind"], "tool_outcome_unknown");
        let schema = Checker::compile(&call.answer_schema()).expect("a schema");
        let text = serde_json::to_value(&answer).expect("json");
        assert_eq!(schema.check(&text, Quotes::Nothing).is_ok(), text["value"] != "five", "{text}");

        let resolved = rig.drive(runner.resolve(call, answer)).expect("no error");
        match outcome {
            Ok(expected) => assert_eq!(value(resolved), expected),
            Err(code) => assert_eq!(failure(resolved).1, code),
        }
        assert_eq!((world.count.get(), rig.journal.counts()), (executions, (1, 1)));
        assert_eq!(rig.pairs().len() - before, 1);
        // From here on the call has ended.
        done(rig.run(&runner, &pay(5)));
        assert_eq!((world.count.get(), rig.reused()), (executions, 1));
    }
}

#[test]
fn an_effect_that_was_cut_off_may_have_happened() {
    use UnknownOutcome::{Ask, Idempotent, Reconcile};
    for (effect, policy, lookup, expected) in [
        (Effect::ReadOnly, Ask, Ok(None), "failed"),
        (Effect::StateChange, Idempotent, Ok(None), "failed, may have acted"),
        (Effect::StateChange, Reconcile, Ok(None), "failed, may have acted"),
        (Effect::StateChange, Reconcile, Ok(Some(5)), "found"),
        (Effect::StateChange, Reconcile, Err("down"), "asked"),
        (Effect::ExternalSideEffect, Ask, Ok(None), "asked"),
    ] {
        let at = format!("{effect:?} {policy:?} {lookup:?}");
        let rig = Rig::new();
        let world = World::new(true, lookup);
        let runner = world.pay(effect, policy);
        let executed = rig.run(&runner, &pay(5));
        let found = match &executed {
            Executed::Done(ToolOutcome::Ok { .. }) => "found",
            Executed::Done(ToolOutcome::Failed(failure)) => {
                assert_eq!(failure.code.as_deref(), Some("W0408"), "{at}");
                let acted = failure.safe_message.contains("may have taken effect");
                if acted { "failed, may have acted" } else { "failed" }
            }
            Executed::OutcomeUnknown(_) => "asked",
            Executed::Asks(asking) => panic!("{asking:?}"),
        };
        assert_eq!(found, expected, "{at}");
        assert_eq!((world.count.get(), rig.pairs().len()), (1, 1), "{at}");
        assert_eq!(rig.journal.counts(), (1, usize::from(found == "found")), "{at}");
    }
}

#[test]
fn a_look_up_that_hangs_or_panics_cannot_tell() {
    for panics in [true, false] {
        let rig = Rig::new();
        let tool = FnTool::new("pay", "Pays.", |args: Amount, _: ToolContext| async move {
            Ok::<_, ToolError>(args.amount)
        })
        .effect(Effect::ExternalSideEffect)
        .reconcile(move |_: Amount, _: ToolContext| async move {
            assert!(!panics, "the look-up is broken");
            pending::<Result<Option<i64>, ToolError>>().await
        });
        let runner = runner(ToolBox::new().with(tool), Policy::new().allow("pay").expect("a name"));
        die_inside(&rig, &runner);
        let asked = unknown(rig.run(&runner, &pay(5)));
        assert_eq!(asked.question().args, json!({"amount": 5}));
    }
}
