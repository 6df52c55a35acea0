use super::fixture::{fact, principal, program_fact, us};
use std::sync::Arc;
use weftwork_store::{
    BilledTo, LimitWindow, MINUTE_MS, NewStart, StartCheck, StartCounts, StartUnit, Store,
    SubjectUsage, UsageRow, move_all_usage,
};
use weftwork_types::caller::{CallOrigin, Caller};
use weftwork_types::usage::Tokens;
use weftwork_types::{BillingAccountId, InvocationId, Timestamp, VirtualKeyId};

fn account(id: &str) -> BilledTo {
    BilledTo::Account(BillingAccountId::new(id).expect("an id"))
}

fn key(id: &str) -> BilledTo {
    BilledTo::Key(VirtualKeyId::new(id).expect("an id"))
}

fn invocation(id: &str) -> InvocationId {
    InvocationId::new(id).expect("an id")
}

/// A call outside of runs, of an account and a key, with 10 tokens and the cost 11.
fn paid_by(invocation: &str, account: &str, key: &str, started_at: i64) -> UsageRow {
    let row = program_fact(invocation, started_at);
    let caller = Caller {
        billing_account: BillingAccountId::new(account).expect("an id"),
        virtual_key: VirtualKeyId::new(key).expect("an id"),
        ..row.caller.caller().clone()
    };
    UsageRow { caller: CallOrigin::Program(Arc::new(caller)), ..row }
}

fn usage(calls: u64) -> SubjectUsage {
    SubjectUsage { tokens: 10 * calls, cost_micro_usd: 11 * calls }
}

pub(super) async fn usage_of_accounts_and_keys_is_summed(store: Arc<dyn Store>) {
    let mut unpriced = paid_by("c", "acme", "k2", 300);
    unpriced.fact.cost_micro_usd = None;
    let mut stated = paid_by("d", "other", "k1", 300);
    stated.fact.cost_micro_usd = Some(5);
    stated.fact.provider_cost_micro_usd = Some(5);
    stated.fact.compared_micro_usd = Some(11);
    let rows = [paid_by("a", "acme", "k1", 100), paid_by("b", "acme", "k1", 200), unpriced, stated];
    for row in rows {
        store.record_usage(&us(), row).await.expect("records");
    }
    let them = principal("them");
    store.record_usage(&them, paid_by("e", "acme", "k3", 200)).await.expect("records");
    let sum = async |subject: BilledTo, from, except: &[InvocationId]| {
        store.subject_usage(&subject, Timestamp(from), except).await.expect("reads")
    };
    assert_eq!(sum(account("acme"), 0, &[]).await, usage(0), "nothing is moved");
    move_all_usage(&*store).await.expect("moves");
    let unpriced = SubjectUsage { tokens: 10, cost_micro_usd: 0 };
    let with = |calls: u64, other: SubjectUsage| {
        let mut sum = usage(calls);
        sum += other;
        sum
    };
    assert_eq!(sum(account("acme"), 0, &[]).await, with(3, unpriced), "of all organisations");
    assert_eq!(sum(account("acme"), 200, &[]).await, with(2, unpriced), "from its first time");
    assert_eq!(sum(account("acme"), 201, &[]).await, unpriced);
    let stated = SubjectUsage { tokens: 10, cost_micro_usd: 5 };
    assert_eq!(sum(key("k1"), 0, &[]).await, with(2, stated));
    let except = [invocation("a"), invocation("e"), invocation("unknown")];
    assert_eq!(sum(account("acme"), 0, &except).await, with(1, unpriced));
    assert_eq!(sum(account("nobody"), 0, &[]).await, usage(0));
    assert_eq!(sum(key("acme"), 0, &[]).await, usage(0), "a key is no account");
}

pub(super) async fn usage_beyond_all_numbers_stays_above_every_limit(store: Arc<dyn Store>) {
    for id in ["a", "b"] {
        let mut row = paid_by(id, "acme", "k", 100);
        row.fact.tokens = Tokens::reported(i64::MAX as u64, i64::MAX as u64);
        row.fact.cost_micro_usd = Some(i64::MAX as u64);
        store.record_usage(&us(), row).await.expect("records");
    }
    move_all_usage(&*store).await.expect("moves");
    let found = store.subject_usage(&account("acme"), Timestamp(0), &[]).await.expect("reads");
    let most = i64::MAX as u64;
    assert!(found.tokens >= most && found.cost_micro_usd >= most, "{found:?}");
}

pub(super) async fn attempts_in_the_bill_are_found(store: Arc<dyn Store>) {
    store.record_usage(&us(), fact("a", "r", 100)).await.expect("records");
    store.record_usage(&us(), program_fact("b", 100)).await.expect("records");
    let asked = ["a", "b", "c"].map(invocation);
    assert_eq!(store.billed(&us(), &asked).await, Ok(Vec::new()), "nothing is moved");
    move_all_usage(&*store).await.expect("moves");
    let mut found = store.billed(&us(), &asked).await.expect("reads");
    found.sort();
    assert_eq!(found, ["a", "b"].map(invocation));
    assert_eq!(store.billed(&principal("them"), &asked).await, Ok(Vec::new()));
    assert_eq!(store.billed(&us(), &[]).await, Ok(Vec::new()));
}

/// Returns a check of a limit of requests.
fn requests(subject: BilledTo, window: LimitWindow, from: i64, limit: u64) -> StartCheck {
    let from = Timestamp(from);
    StartCheck { subject, unit: StartUnit::Requests, window, from, limit }
}

fn start(at: i64, runs: u64, checks: &[StartCheck]) -> NewStart {
    let counts = StartCounts { requests: 1, runs };
    NewStart { at: Timestamp(at), counts, checks: checks.to_vec() }
}

pub(super) async fn starts_are_counted_up_to_their_limits(store: Arc<dyn Store>) {
    let minute = |now: i64| requests(key("k"), LimitWindow::Minute, now - MINUTE_MS + 1, 2);
    let runs =
        StartCheck { unit: StartUnit::Runs, ..requests(account("acme"), LimitWindow::Day, 0, 5) };
    let begin = 1_000_000;
    for (at, started) in [(begin, 2), (begin + 10_000, 1)] {
        let new = start(at, started, &[minute(at), runs.clone()]);
        assert_eq!(store.count_start(&new).await, Ok(None), "{at}");
    }
    // The minute is full until its first request has left it.
    let now = begin + 20_000;
    let refused = store.count_start(&start(now, 1, &[runs.clone(), minute(now)])).await;
    let refused = refused.expect("counts").expect("a refusal");
    assert_eq!(refused.check, minute(now));
    assert_eq!((refused.used, refused.free_at), (2, Some(Timestamp(begin + MINUTE_MS))));
    let now = begin + MINUTE_MS - 1;
    assert!(store.count_start(&start(now, 1, &[minute(now)])).await.expect("counts").is_some());
    let now = begin + MINUTE_MS;
    assert_eq!(store.count_start(&start(now, 1, &[minute(now)])).await, Ok(None));
    // Nothing that was refused counts, for the other limit either: 3 of 5 runs are started.
    let many = store.count_start(&start(now, 3, std::slice::from_ref(&runs))).await;
    let many = many.expect("counts").expect("a refusal");
    assert_eq!((many.used, many.free_at), (3, None));
    assert_eq!(store.count_start(&start(now, 2, std::slice::from_ref(&runs))).await, Ok(None));
    let counts = store.starts(&account("acme"), LimitWindow::Day, Timestamp(0)).await;
    assert_eq!(counts, Ok(StartCounts { requests: 3, runs: 5 }));
    let other = requests(key("k2"), LimitWindow::Minute, now - MINUTE_MS + 1, 1);
    assert_eq!(store.count_start(&start(now, 1, &[other])).await, Ok(None), "another key");
    // The next day begins at a quarter of an hour.
    let day = 96 * weftwork_store::QUARTER_MS;
    let next = StartCheck { from: Timestamp(day), ..runs };
    assert_eq!(store.count_start(&start(day, 5, &[next])).await, Ok(None));
}
