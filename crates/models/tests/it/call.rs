//! Tests of `ModelCaller`: records, their order, and calls that must not be repeated.

use crate::desk::{Desk, request};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weftwork_models::scripted::Step;
use weftwork_models::{ChatResponse, ModelCaller, ModelError, ScriptedModel};
use weftwork_testkit::ManualClock;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{CallContext, Clock as _};
use weftwork_types::usage::{Tokens, UsageStatus};

const USED: Tokens = Tokens::reported(5, 3);

fn busy() -> ModelError {
    ModelError::Provider {
        provider: "scripted".to_owned(),
        status: 500,
        message: "busy".to_owned(),
        retry_after: None,
    }
}

async fn call(model: &ScriptedModel, ctx: &CallContext) -> Result<ChatResponse, ModelError> {
    ModelCaller::default().call(model, request("hi"), ctx).await
}

#[tokio::test]
async fn a_call_is_recorded_before_it_returns() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    let model = ScriptedModel::from_steps(vec![Step::text("one two").using(USED)]);
    let answer = call(&model, &desk.context(&clock)).await.expect("an answer");
    assert_eq!(answer.tokens, USED);
    assert_eq!(
        desk.log(),
        [
            "open",
            "reserve 1",
            "emit text_delta",
            "emit text_delta",
            "charge 8",
            "emit usage_report",
            "settle",
            "book 1",
        ]
    );
}

#[tokio::test]
async fn a_recorded_call_is_never_made_again() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    let model = ScriptedModel::from_steps(vec![Step::text("one two").using(USED)]);
    let first = call(&model, &desk.context(&clock)).await.expect("an answer");
    desk.log.lock().expect("a lock").clear();
    desk.events.lock().expect("a lock").clear();

    let again = call(&model, &desk.context(&clock)).await.expect("the same answer");
    assert_eq!((again, model.calls()), (first, 1));
    assert_eq!(desk.log(), ["open", "emit call_reused", "emit text_delta", "book 1"]);
    assert_eq!(desk.shown(), "one two");
    let booked = desk.booked();
    assert_eq!(booked[0].invocation_id, booked[1].invocation_id, "the ledger knows it by its id");

    // A different request is a different call.
    let other = ModelCaller::default().call(&model, request("other"), &desk.context(&clock)).await;
    assert_eq!(other.expect_err("no second step").code().0, "W0311");
    assert_eq!(model.calls(), 2);
}

#[tokio::test]
async fn ids_of_answers_and_calls_are_functions_of_the_call() {
    let clock = ManualClock::moved_by_sleeps();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let model = ScriptedModel::from_steps(vec![Step::call("f", serde_json::json!({}))]);
        let answer = call(&model, &Desk::new().context(&clock)).await.expect("an answer");
        let ids: Vec<_> = answer.message.tool_calls().map(|call| call.id.clone()).collect();
        seen.push((answer.message.id, ids));
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stops_the_call() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    let model = ScriptedModel::from_steps(vec![Step::text("one"), Step::text("two")]);
    call(&model, &desk.context(&clock)).await.expect("an answer");
    for bad in [serde_json::json!({"v": 2}), serde_json::json!(null)] {
        desk.settled.lock().expect("a lock").values_mut().for_each(|value| value.clone_from(&bad));
        let error = call(&model, &desk.context(&clock)).await.expect_err("unreadable");
        assert_eq!(error.code().0, "W0314");
    }
    assert_eq!(model.calls(), 1, "it must not be paid again behind anybody's back");
}

#[tokio::test]
async fn an_answer_that_cannot_be_recorded_is_an_error_and_still_billed() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    desk.settle_refuses.store(1, Ordering::SeqCst);
    let model = ScriptedModel::from_steps(vec![Step::text("one").using(USED)]);
    let error = call(&model, &desk.context(&clock)).await.expect_err("not recorded");
    assert_eq!(error.code().0, "W0314");
    assert_eq!(desk.booked().len(), 1);
}

#[tokio::test]
async fn a_ledger_that_refuses_twice_does_not_void_the_answer() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    let model = ScriptedModel::from_steps(vec![Step::text("one").using(USED)]);
    desk.ledger_refuses.store(2, Ordering::SeqCst);
    call(&model, &desk.context(&clock)).await.expect("an answer");
    assert_eq!((desk.booked().len(), desk.facts().len()), (0, 1));
    call(&model, &desk.context(&clock)).await.expect("the recorded answer");
    assert_eq!(desk.booked(), desk.facts(), "the fact is offered again");

    let desk = Desk::new();
    let model = ScriptedModel::from_steps(vec![Step::text("one")]);
    desk.ledger_refuses.store(1, Ordering::SeqCst);
    call(&model, &desk.context(&clock)).await.expect("an answer");
    assert_eq!(desk.booked().len(), 1, "the second try holds");
}

#[tokio::test]
async fn the_budget_is_asked_before_each_attempt() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    *desk.calls_left.lock().expect("a lock") = 1;
    let model = ScriptedModel::from_steps(vec![Step::fails(busy()), Step::text("late")]);
    let error = call(&model, &desk.context(&clock)).await.expect_err("used up");
    assert_eq!((error.code().0, model.calls()), ("W0601", 1));
    let error = call(&model, &desk.context(&clock)).await.expect_err("used up");
    assert_eq!((error.code().0, model.calls()), ("W0601", 1));
}

#[tokio::test]
async fn the_deadline_ends_an_attempt_that_hangs() {
    let (desk, clock) = (Desk::new(), ManualClock::new());
    let mut ctx = desk.context(&clock);
    ctx.deadline = Some(ctx.clock.now().plus(Duration::from_secs(30)));
    let model = ScriptedModel::from_steps(vec![Step::text("one ").hanging()]);
    let (answer, ()) = tokio::join!(call(&model, &ctx), async {
        clock.advance(Duration::from_secs(30));
    });
    assert_eq!(answer.expect_err("late").code().0, "W0313");
    let facts = desk.facts();
    assert_eq!((facts[0].status, facts[0].latency_ms), (UsageStatus::Cancelled, 30_000));
    assert!(facts[0].tokens.estimated && facts[0].tokens.output == 1);
    let events = desk.events.lock().expect("a lock");
    assert!(events.iter().any(|event| matches!(event, AiEvent::AttemptReset { .. })));
}

#[tokio::test]
async fn no_attempt_begins_at_or_after_the_deadline() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    let mut ctx = desk.context(&clock);
    ctx.deadline = Some(ctx.clock.now());
    let model = ScriptedModel::from_steps(vec![Step::text("one")]);
    assert_eq!(call(&model, &ctx).await.expect_err("late").code().0, "W0313");
    assert_eq!(model.calls(), 0);

    // The delay before the second attempt would exceed the deadline, so the call fails at once.
    ctx.deadline = Some(ctx.clock.now().plus(Duration::from_millis(200)));
    let model = ScriptedModel::from_steps(vec![Step::fails(busy()), Step::text("late")]);
    assert_eq!(call(&model, &ctx).await.expect_err("late").code().0, "W0313");
    assert_eq!((model.calls(), clock.elapsed()), (1, Duration::ZERO));
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_its_usage_behind() {
    let (desk, clock) = (Desk::new(), ManualClock::new());
    let ctx = desk.context(&clock);
    let model = Arc::new(ScriptedModel::from_steps(vec![Step::text("one two ").hanging()]));
    let waiting = futures_util::FutureExt::now_or_never(call(&model, &ctx));
    assert!(waiting.is_none(), "it hangs, and is dropped here");
    let facts = desk.facts();
    assert_eq!((facts.len(), facts[0].status), (1, UsageStatus::Cancelled));
    assert_eq!(facts[0].tokens.output, 2);
    assert_eq!(desk.log().last().map(String::as_str), Some("emit usage_report"));
    assert!(desk.log().contains(&"release 2".to_owned()));
}

#[tokio::test]
async fn a_stream_without_an_end_is_tried_again_and_what_it_showed_is_void() {
    let (desk, clock) = (Desk::new(), ManualClock::moved_by_sleeps());
    let model = ScriptedModel::from_steps(vec![Step::cut("one tw"), Step::text("one two")]);
    let answer = call(&model, &desk.context(&clock)).await.expect("an answer");
    assert_eq!(answer.message.joined_text(), "one two");
    let log = desk.log();
    let reset = log.iter().position(|entry| entry == "emit attempt_reset").expect("a reset");
    let shown = log.iter().rposition(|entry| entry == "emit text_delta").expect("words");
    assert!(reset < shown, "{log:?}");
}
