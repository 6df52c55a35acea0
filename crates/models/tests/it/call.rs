//! Tests of `ModelCaller`: records, their order, and calls that must not be repeated.

use crate::desk::{Desk, request};
use futures_util::{FutureExt as _, StreamExt as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use weftwork_models::scripted::ScriptedModel;
use weftwork_models::scripted::Step;
use weftwork_models::{
    Capability, ChatEvent, ChatModel, ChatRequest, ChatResponse, ChatStream, ModelCallError,
    ModelCaller, ModelError, ModelInfo, RefusalKind, RetryPolicy, TokenLimits,
};
use weftwork_testkit::ManualClock;
use weftwork_types::event::AiEvent;
use weftwork_types::port::{Budget as _, CallContext, Clock as _, LimitedBudget, Limits};
use weftwork_types::usage::{Tokens, Usage, UsageStatus};

const USED: Tokens = Tokens::reported(5, 3);

fn busy() -> ModelError {
    ModelError::Provider {
        provider: "scripted".to_owned(),
        status: 500,
        message: "busy".to_owned(),
        retry_after: None,
        kind: RefusalKind::Unavailable,
    }
}

async fn call(model: &ScriptedModel, ctx: &CallContext) -> Result<ChatResponse, ModelCallError> {
    ModelCaller::default().call(model, request("hi"), ctx).await
}

#[tokio::test]
async fn a_call_is_recorded_before_it_returns() {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
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
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let model = ScriptedModel::from_steps(vec![Step::text("one two").using(USED)]);
    let first = call(&model, &desk.context(&clock)).await.expect("an answer");
    desk.log.lock().expect("a lock").clear();
    desk.events.lock().expect("a lock").clear();

    let again = call(&model, &desk.context(&clock)).await.expect("the same answer");
    assert_eq!((again, model.calls()), (first, 1));
    assert_eq!(desk.log(), ["open", "emit call_reused", "emit text_delta", "book 1", "book 0"]);
    assert_eq!(desk.shown(), "one two");
    let booked = desk.booked();
    assert_eq!(booked[0].invocation_id, booked[1].invocation_id, "the ledger knows it by its id");

    // A different request is a different call.
    let other = ModelCaller::default().call(&model, request("other"), &desk.context(&clock)).await;
    assert_eq!(other.expect_err("no second step").code().0, "W0311");
    assert_eq!(model.calls(), 2);
}

/// A model without an option.
#[derive(Debug)]
struct Lacking(ScriptedModel, [Capability; 1]);

impl ChatModel for Lacking {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn lacks(&self) -> &[Capability] {
        &self.1
    }

    fn token_limits(&self) -> TokenLimits {
        TokenLimits { context: None, output: Some(100) }
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.0.stream(request)
    }
}

#[tokio::test]
async fn an_option_that_the_model_lacks_is_refused_and_a_recorded_answer_is_reused() {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let request = || ChatRequest { temperature: Some(0.5), ..request("hi") };
    let script = || ScriptedModel::from_steps(vec![Step::text("one").using(USED)]);
    let lacking = Lacking(script(), [Capability::Temperature]);
    let caller = ModelCaller::default();
    let refused = caller.call(&lacking, request(), &desk.context(&clock)).await;
    let refused = refused.expect_err("no temperature");
    assert_eq!((refused.code().0, refused.attempts, lacking.0.calls()), ("W0310", 0, 0));
    let long = ChatRequest { max_tokens: Some(101), ..self::request("hi") };
    let refused = caller.call(&lacking, long, &desk.context(&clock)).await.expect_err("too long");
    assert_eq!((refused.code().0, refused.attempts), ("W0310", 0));
    assert!(refused.to_string().contains("`max_tokens` is 101, and its limit is 100"), "{refused}");
    // The answer was recorded before the model lost the option.
    let first = caller.call(&script(), request(), &desk.context(&clock)).await.expect("an answer");
    let again = caller.call(&lacking, request(), &desk.context(&clock)).await.expect("recorded");
    assert_eq!((again, lacking.0.calls()), (first, 0));
}

#[tokio::test]
async fn an_option_of_the_sampling_makes_another_call_whose_answer_is_reused() {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let stop = |text: &str| vec![text.to_owned()];
    let requests = [
        request("hi"),
        ChatRequest { seed: Some(1), ..request("hi") },
        ChatRequest { seed: Some(2), ..request("hi") },
        ChatRequest { top_p: Some(0.5), ..request("hi") },
        ChatRequest { top_p: Some(0.6), ..request("hi") },
        ChatRequest { stop: stop("a"), ..request("hi") },
        ChatRequest { stop: stop("b"), ..request("hi") },
    ];
    let steps = (0..requests.len()).map(|number| Step::text(number.to_string()).using(USED));
    let model = ScriptedModel::from_steps(steps);
    for round in ["made", "reused"] {
        for (number, request) in requests.iter().enumerate() {
            let context = desk.context(&clock);
            let answer = ModelCaller::default().call(&model, request.clone(), &context).await;
            let text = answer.expect("an answer").message.joined_text();
            assert_eq!(text, number.to_string(), "{round}");
        }
        assert_eq!(model.calls(), requests.len(), "{round}");
    }
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
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
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
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    desk.settle_refuses.store(1, Ordering::SeqCst);
    let model = ScriptedModel::from_steps(vec![Step::text("one").using(USED)]);
    let error = call(&model, &desk.context(&clock)).await.expect_err("not recorded");
    assert_eq!(error.code().0, "W0314");
    assert_eq!(desk.booked().len(), 1);
}

#[tokio::test]
async fn the_budget_is_asked_before_each_attempt() {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    *desk.calls_left.lock().expect("a lock") = 1;
    let model = ScriptedModel::from_steps(vec![Step::fails(busy()), Step::text("late")]);
    let error = call(&model, &desk.context(&clock)).await.expect_err("used up");
    assert_eq!((error.code().0, model.calls()), ("W0601", 1));
    assert_eq!(causes(&error), ["W0305"], "the provider's error is not lost");
    let error = call(&model, &desk.context(&clock)).await.expect_err("used up");
    assert_eq!((error.code().0, model.calls()), ("W0601", 1));
    assert!(causes(&error).is_empty(), "this call had no attempt");
}

#[tokio::test]
async fn a_call_that_ends_before_its_first_attempt_is_withdrawn_from_the_journal() {
    let withdrawn = |desk: &Desk| desk.log().iter().filter(|what| *what == "withdraw").count();
    let clock = ManualClock::moved_by_sleeps();
    let model = || ScriptedModel::from_steps(vec![Step::fails(busy()), Step::fails(busy())]);
    let refused = Desk::new();
    *refused.calls_left.lock().expect("a lock") = 0;
    call(&model(), &refused.context(&clock)).await.expect_err("used up");
    let late = Desk::new();
    let mut ctx = late.context(&clock);
    ctx.deadline = Some(ctx.clock.now());
    call(&model(), &ctx).await.expect_err("late");
    let made = Desk::new();
    *made.calls_left.lock().expect("a lock") = 1;
    call(&model(), &made.context(&clock)).await.expect_err("used up after an attempt");
    assert_eq!([&refused, &late, &made].map(|desk| withdrawn(desk)), [1, 1, 0]);
}

/// The codes of the causes of an error, as they are stored.
fn causes(error: &ModelCallError) -> Vec<String> {
    error.fault().causes().filter_map(|cause| cause.code.clone()).collect()
}

#[tokio::test]
async fn a_retry_that_comes_after_the_wall_time_is_not_waited_for() {
    let wait = RetryPolicy::default().backoff_first;
    for (limit, calls) in [(wait / 4, 1), (wait * 2, 2)] {
        let desk = Desk::new();
        let clock = ManualClock::moved_by_sleeps();
        let mut ctx = desk.context(&clock);
        let budget = LimitedBudget::new(Limits::wall_time(limit), Usage::default());
        let begun = budget.wall_time(ctx.clock.now()).expect("a limit");
        assert_eq!(begun.until, ctx.clock.now().plus(limit));
        ctx.budget = Arc::new(budget);
        let model = ScriptedModel::from_steps(vec![Step::fails(busy()), Step::text("two")]);
        let answer = call(&model, &ctx).await;
        assert_eq!(model.calls(), calls);
        match answer {
            Ok(answer) => assert_eq!((calls, answer.message.joined_text()), (2, "two".to_owned())),
            Err(error) => {
                assert_eq!((error.code().0, clock.elapsed()), ("W0601", Duration::ZERO));
                assert_eq!(causes(&error), ["W0305"]);
            }
        }
    }
}

#[tokio::test]
async fn the_deadline_ends_an_attempt_that_hangs() {
    let desk = Desk::new();
    let clock = ManualClock::new();
    let mut ctx = desk.context(&clock);
    ctx.deadline = Some(ctx.clock.now().plus(Duration::from_secs(30)));
    let model = ScriptedModel::from_steps(vec![Step::text("one ").hanging()]);
    let (answer, ()) = tokio::join!(call(&model, &ctx), async {
        clock.advance(Duration::from_secs(30));
    });
    assert_eq!(answer.expect_err("late").code().0, "W0124");
    let facts = desk.facts();
    assert_eq!((facts[0].status, facts[0].latency_ms), (UsageStatus::Cancelled, 30_000));
    assert!(facts[0].tokens.estimated && facts[0].tokens.output == 1);
    let events = desk.events.lock().expect("a lock");
    assert!(events.iter().any(|event| matches!(event, AiEvent::AttemptReset(_))));
}

#[tokio::test]
async fn no_attempt_begins_at_or_after_the_deadline() {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let mut ctx = desk.context(&clock);
    ctx.deadline = Some(ctx.clock.now());
    let model = ScriptedModel::from_steps(vec![Step::text("one")]);
    assert_eq!(call(&model, &ctx).await.expect_err("late").code().0, "W0124");
    assert_eq!(model.calls(), 0);

    // The delay before the second attempt would exceed the deadline, so the call fails at once.
    ctx.deadline = Some(ctx.clock.now().plus(Duration::from_millis(200)));
    let model = ScriptedModel::from_steps(vec![Step::fails(busy()), Step::text("late")]);
    let error = call(&model, &ctx).await.expect_err("late");
    assert_eq!((error.code().0, causes(&error)), ("W0124", vec!["W0305".to_owned()]));
    assert_eq!((model.calls(), clock.elapsed()), (1, Duration::ZERO));
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_its_usage_behind() {
    let desk = Desk::new();
    let clock = ManualClock::new();
    let ctx = desk.context(&clock);
    let model = Arc::new(ScriptedModel::from_steps(vec![Step::text("one two ").hanging()]));
    let waiting = futures_util::FutureExt::now_or_never(call(&model, &ctx));
    assert!(waiting.is_none(), "it hangs, and is dropped here");
    let facts = desk.facts();
    assert_eq!((facts.len(), facts[0].status), (1, UsageStatus::Cancelled));
    assert_eq!(facts[0].tokens.output, 2);
    assert_eq!(desk.booked(), facts, "a cancelled attempt is billed");
    assert_eq!(desk.log()[desk.log().len() - 3..], ["release 2", "emit usage_report", "book 1"]);
}

#[tokio::test]
async fn the_usage_of_a_call_that_is_cut_at_a_limit_of_time_has_the_code_of_the_limit() {
    let second = Duration::from_secs(1);
    for (has_budget, has_deadline, code) in
        [(true, false, Some("W0601")), (false, true, Some("W0124")), (false, false, None)]
    {
        let desk = Desk::new();
        let clock = ManualClock::new();
        let mut ctx = desk.context(&clock);
        ctx.deadline = has_deadline.then(|| ctx.clock.now().plus(second));
        if has_budget {
            let budget = LimitedBudget::new(Limits::wall_time(second), Usage::default());
            budget.wall_time(ctx.clock.now()).expect("a limit");
            ctx.budget = Arc::new(budget);
        }
        let model = ScriptedModel::from_steps(vec![Step::text("one two ").hanging()]);
        let mut waiting = Box::pin(call(&model, &ctx));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        clock.advance(second);
        drop(waiting);
        let facts = desk.facts();
        assert_eq!((facts.len(), facts[0].status), (1, UsageStatus::Cancelled));
        assert_eq!(facts[0].error_code.as_deref(), code);
    }
}

#[tokio::test]
async fn a_stream_without_an_end_is_tried_again_and_what_it_showed_is_void() {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let model = ScriptedModel::from_steps(vec![Step::cut("one tw"), Step::text("one two")]);
    let answer = call(&model, &desk.context(&clock)).await.expect("an answer");
    assert_eq!(answer.message.joined_text(), "one two");
    let log = desk.log();
    let reset = log.iter().position(|entry| entry == "emit attempt_reset").expect("a reset");
    let shown = log.iter().rposition(|entry| entry == "emit text_delta").expect("words");
    assert!(reset < shown, "{log:?}");
}

/// A model that sends a letter a second, for ever, and records when it was polled.
#[derive(Debug)]
struct Trickle {
    info: ModelInfo,
    clock: ManualClock,
    polls: Arc<Mutex<Vec<Duration>>>,
    dropped: Arc<AtomicBool>,
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl ChatModel for Trickle {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: Arc<ChatRequest>) -> ChatStream {
        let clock = self.clock.clone();
        let polls = Arc::clone(&self.polls);
        let alive = SetOnDrop(Arc::clone(&self.dropped));
        let mut second = clock.sleep(Duration::from_secs(1));
        futures_util::stream::poll_fn(move |cx| {
            let _ = &alive;
            polls.lock().expect("a lock").push(clock.elapsed());
            if second.poll_unpin(cx).is_pending() {
                return Poll::Pending;
            }
            second = clock.sleep(Duration::from_secs(1));
            Poll::Ready(Some(Ok(ChatEvent::TextDelta("abcd".to_owned()))))
        })
        .boxed()
    }
}

#[tokio::test]
async fn a_model_is_not_polled_after_the_deadline() {
    for jump_ms in [1_000, 1_400] {
        let desk = Desk::new();
        let clock = ManualClock::new();
        let mut ctx = desk.context(&clock);
        let limit = Duration::from_secs(2);
        ctx.deadline = Some(ctx.clock.now().plus(limit));
        let model = Trickle {
            info: ModelInfo { provider: "trickle".to_owned(), model: "m".to_owned(), label: None },
            clock: clock.clone(),
            polls: Arc::default(),
            dropped: Arc::default(),
        };
        let caller = ModelCaller::default();
        let mut call = Box::pin(caller.call(&model, request("hi"), &ctx));
        let mut ended = None;
        for _ in 0..10 {
            if ended.is_none() {
                ended = (&mut call).now_or_never();
            }
            clock.advance(Duration::from_millis(jump_ms));
        }
        let error = ended.expect("it ended").expect_err("late");
        assert_eq!(error.code().0, "W0124");
        let polls = model.polls.lock().expect("a lock").clone();
        assert!(!polls.is_empty() && polls.iter().all(|at| *at < limit), "{polls:?}");
        assert!(model.dropped.load(Ordering::SeqCst), "the request is dropped");
        let facts = desk.facts();
        assert_eq!((facts.len(), facts[0].status), (1, UsageStatus::Cancelled));
        assert!(facts[0].tokens.estimated && facts[0].tokens.input > 0, "{facts:?}");
        assert_eq!((facts[0].tokens.output, error.used.model_calls), (1, 1));
    }
}

/// A scripted model under another name.
#[derive(Debug)]
struct Named(ModelInfo, ScriptedModel);

impl ChatModel for Named {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        self.1.stream(request)
    }
}

#[tokio::test]
async fn a_priced_call_has_a_cost_and_an_unpriced_one_is_refused_under_a_limit() {
    let named = |id: &str| {
        let (provider, model) = id.split_once(':').expect("an id");
        let provider = provider.to_owned();
        let model = model.to_owned();
        let script = ScriptedModel::from_steps(vec![Step::text("one").using(USED)]);
        Named(ModelInfo { provider, model, label: None }, script)
    };
    let limits = Limits { cost_micro_usd: Some(1_000), ..Limits::default() };
    for (id, cost) in [("openai:gpt-4.1", 34), ("local:smollm2-135m", 0)] {
        let desk = Desk::new();
        let clock = ManualClock::new();
        let budget = LimitedBudget::new(limits, Usage::default());
        let ctx = CallContext { budget: Arc::new(budget.clone()), ..desk.context(&clock) };
        ModelCaller::default().call(&named(id), request("hi"), &ctx).await.expect("an answer");
        assert_eq!(desk.facts()[0].cost_micro_usd, Some(cost), "{id}");
        assert_eq!(budget.used().cost_micro_usd, cost, "{id}");
    }
    let desk = Desk::new();
    let clock = ManualClock::new();
    let budget = LimitedBudget::new(limits, Usage::default());
    let ctx = CallContext { budget: Arc::new(budget), ..desk.context(&clock) };
    let model = named("lab:tiny");
    let error =
        ModelCaller::default().call(&model, request("hi"), &ctx).await.expect_err("no price");
    assert_eq!((error.code().0, model.1.calls()), ("W0609", 0));
    assert!(error.to_string().contains("price of model `lab:tiny` is unknown"), "{error}");
}
