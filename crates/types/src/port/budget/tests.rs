use super::*;
use crate::usage::Tokens;
use futures_util::FutureExt;
use std::time::Duration;

fn limits(tool_calls: u64, tokens: u64) -> LimitedBudget {
    let limits = Limits { tool_calls: Some(tool_calls), tokens: Some(tokens), ..Limits::default() };
    LimitedBudget::new(limits, Usage::default())
}

fn tool() -> Demand {
    Demand::ToolCall { tool: "t".to_owned() }
}

fn model(tokens: u64) -> Demand {
    let tokens = Tokens { input: tokens, ..Tokens::default() };
    let invocation = InvocationId::from_uuid(uuid::Uuid::nil());
    Demand::ModelCall { invocation, model: "p:m".to_owned(), tokens, cost_micro_usd: None }
}

fn reserve(budget: &LimitedBudget, demand: &Demand) -> Result<Reservation, BudgetError> {
    budget.reserve(demand).now_or_never().expect("a budget in memory does not wait")
}

#[test]
fn the_last_unit_is_reserved_once() {
    let budget = limits(1, 100);
    let held = reserve(&budget, &tool()).expect("one is left");
    let refused = reserve(&budget, &tool()).expect_err("it is reserved");
    assert_eq!(
        refused,
        BudgetError::Exceeded(BudgetExceeded {
            budget: "budget",
            unit: "tool calls",
            used: 1,
            needed: 1,
            limit: 1,
        })
    );
    assert_eq!((refused.code().0, refused.is_retriable()), ("W0601", false));
    held.settle(Usage::tool_call()).now_or_never().expect("it does not wait");
    assert!(reserve(&budget, &tool()).is_err());
}

#[test]
fn a_dropped_reservation_is_released_less_what_was_spent() {
    let budget = limits(1, 100);
    drop(reserve(&budget, &tool()).expect("one is left"));
    drop(reserve(&budget, &tool()).expect("it came back"));

    let mut held = reserve(&budget, &model(80)).expect("they fit");
    assert!(reserve(&budget, &model(30)).is_err(), "80 are reserved");
    let partial = Tokens { input: 40, output: 2, ..Tokens::default() };
    held.spend(Usage { tokens: partial, ..Usage::default() });
    drop(held);
    assert_eq!((budget.used().tokens.total(), budget.used().model_calls), (42, 0));
    drop(reserve(&budget, &model(30)).expect("58 are left"));
}

#[test]
fn usage_beyond_the_limit_is_charged() {
    let budget = limits(1, 100);
    let held = reserve(&budget, &model(10)).expect("they fit");
    let tokens = Tokens { input: 10, output: 200, ..Tokens::default() };
    held.settle(Usage::model_call(tokens)).now_or_never().expect("it does not wait");
    let refused = reserve(&budget, &model(1)).expect_err("used up");
    let exceeded =
        BudgetExceeded { budget: "budget", unit: "tokens", used: 210, needed: 1, limit: 100 };
    assert_eq!(refused, BudgetError::Exceeded(exceeded));
}

#[test]
fn usage_from_before_counts() {
    let limits = Limits { model_calls: Some(2), ..Limits::default() };
    let budget = LimitedBudget::new(limits, Usage::model_call(Tokens::default()));
    let _held = reserve(&budget, &model(0)).expect("one is left");
    assert!(reserve(&budget, &model(0)).is_err());
}

#[test]
fn a_cost_is_reserved_and_a_model_without_a_price_is_refused() {
    let limits = Limits { cost_micro_usd: Some(100), ..Limits::default() };
    let budget = LimitedBudget::new(limits, Usage::default());
    let call = |cost_micro_usd| Demand::ModelCall {
        invocation: InvocationId::from_uuid(uuid::Uuid::nil()),
        model: "p:m".to_owned(),
        tokens: Tokens::estimated(10, 0),
        cost_micro_usd,
    };
    let held = reserve(&budget, &call(Some(60))).expect("it fits");
    let refused = reserve(&budget, &call(Some(60))).expect_err("60 are reserved");
    assert_eq!(
        refused.to_string(),
        "budget has too little left: 0.00006 of 0.0001 USD are used, and the next call needs 0.00006; raise the limit to go on"
    );
    let used = Usage::model_call(Tokens::reported(10, 5)).costing(Some(110));
    held.settle(used).now_or_never().expect("it does not wait");
    assert!(reserve(&budget, &call(Some(1))).is_err(), "usage beyond the limit is charged");
    drop(reserve(&budget, &call(Some(0))).expect("a model that costs nothing"));
    let refused = reserve(&budget, &call(None)).expect_err("no price");
    assert_eq!((refused.code().0, refused.is_retriable()), ("W0609", false));
    assert_eq!(budget.used().cost_micro_usd, 110);
}

#[test]
fn a_run_on_another_server_is_refused_by_limits_only() {
    let demand = Demand::RemoteRun { remote: "helper".to_owned() };
    let refused = reserve(&limits(1, 100), &demand).expect_err("it cannot be counted");
    assert_eq!(refused, BudgetError::Uncounted { remote: "helper".to_owned() });
    assert_eq!((refused.code().0, refused.is_retriable()), ("W0659", false));
    let none = LimitedBudget::new(Limits::default(), Usage::default());
    drop(reserve(&none, &demand).expect("nothing is limited"));
    assert_eq!(none.used(), Usage::default());
}

#[test]
fn what_is_left_is_less_what_is_used_and_reserved_and_the_smaller_of_two() {
    let now = Timestamp(5_000);
    let used = Usage { wall_ms: 10_000, ..Usage::model_call(Tokens::reported(30, 10)) };
    let all = Limits { wall_ms: Some(60_000), tokens: Some(100), ..Limits::model_calls(3) };
    let budget = LimitedBudget::new(all, used);
    let left = |calls, tokens, wall_ms| Limits {
        wall_ms: Some(wall_ms),
        tokens: Some(tokens),
        ..Limits::model_calls(calls)
    };
    assert_eq!(budget.remaining(now), left(2, 60, 50_000), "its time has not begun");
    budget.wall_time(now);
    let held = reserve(&budget, &model(25)).expect("fits");
    let later = now.plus(Duration::from_secs(20));
    assert_eq!(budget.remaining(later), left(1, 35, 30_000));
    drop(held);
    assert_eq!(budget.remaining(later), left(2, 60, 30_000), "it was released");
    let never = later.plus(Duration::from_secs(3_600));
    assert_eq!(budget.remaining(never).wall_ms, Some(0));

    let inner = Limits { tool_calls: Some(1), ..Limits::tokens(1_000) };
    let both = BudgetWithin::new(Arc::new(budget), LimitedBudget::new(inner, Usage::default()));
    let expected = Limits { tool_calls: Some(1), ..left(2, 60, 30_000) };
    assert_eq!(both.remaining(later), expected);
    assert_eq!(Unlimited.remaining(later), Limits::default());
}

#[test]
fn a_reached_limit_is_a_detail_of_its_fault() {
    let refused = reserve(&limits(1, 0), &model(5)).expect_err("a limit of tokens");
    let time = WallTime { until: Timestamp(0), limit_ms: 500, budget: "budget" }.exceeded();
    for (error, unit, used, limit) in
        [(refused, "tokens", 0, 0), (time, "ms of wall time", 500, 500)]
    {
        let details = error.fault().details.expect("the limit");
        let reached = ReachedLimit { unit: unit.to_owned(), used, needed: None, limit };
        assert_eq!(details.limit, Some(reached), "{error}");
    }
    let none = reserve(&limits(1, 100), &Demand::RemoteRun { remote: "r".to_owned() });
    assert_eq!(none.expect_err("uncounted").fault().details, None);
}

#[test]
fn wall_time_begins_once_and_the_nearer_limit_holds() {
    let minute = |spent_ms| {
        let used = Usage { wall_ms: spent_ms, ..Usage::default() };
        LimitedBudget::new(Limits::wall_time(Duration::from_secs(60)), used)
    };
    let at = |time| Some(WallTime { until: Timestamp(time), limit_ms: 60_000, budget: "budget" });
    let budget = minute(40_000);
    assert_eq!(budget.wall_time(Timestamp(1_000)), at(21_000));
    assert_eq!(budget.clone().wall_time(Timestamp(9_000)), at(21_000), "of another run, too");
    let outer: Arc<dyn Budget> = Arc::new(budget);
    let both = BudgetWithin::new(Arc::clone(&outer), minute(70_000));
    assert_eq!(both.wall_time(Timestamp(2_000)), at(2_000), "nothing is left of the inner one");
    let both = BudgetWithin::new(outer, limits(1, 1));
    assert_eq!(both.wall_time(Timestamp(2_000)), at(21_000));
    assert_eq!(Unlimited.wall_time(Timestamp(2_000)), None);
    let exceeded = at(0).expect("a limit").exceeded();
    assert_eq!(
        (exceeded.code().0, exceeded.to_string().as_str()),
        ("W0601", "budget is used up: 60000 of 60000 ms of wall time; raise the limit to go on")
    );
}

#[test]
fn a_limit_that_the_next_call_does_not_fit_is_not_called_used_up() {
    let refused = reserve(&limits(1, 5).named("thread budget"), &model(21)).expect_err("too much");
    assert_eq!(
        refused.to_string(),
        "thread budget has too little left: 0 of 5 tokens are used, and the next call needs 21; raise the limit to go on"
    );
    let budget = LimitedBudget::new(Limits::wall_time(Duration::from_secs(2)), Usage::default());
    let time = budget.wall_time(Timestamp(1_000)).expect("a limit");
    let wait = Duration::from_secs(20);
    let refused = time.check_wait(Timestamp(1_200), wait).expect_err("too long");
    assert_eq!(
        refused.to_string(),
        "budget has too little left: 200 of 2000 ms of wall time are used, and the next attempt begins in 20000 ms; raise the limit to go on"
    );
    let limit = refused.fault().details.and_then(|details| details.limit).expect("a limit");
    assert_eq!((limit.used, limit.needed, limit.limit), (200, Some(20_000), 2_000));
}
