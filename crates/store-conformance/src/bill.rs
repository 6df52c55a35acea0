use super::fixture::{begin, commit, fact, finish, principal, program_fact, thread, us, write};
use std::slice;
use std::sync::Arc;
use weftwork_store::{
    BilledTo, Commit, LimitWindow, NewStart, Period, QUARTER_MS, Receipt, StartCheck, StartCounts,
    StartUnit, Store, UsageGroup, UsageRow, UsageSum, UsageTotal, erase_names, move_all_usage,
};
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{Principal, Timestamp};

/// An attempt as the columns of the bill have it, each with a value.
fn complete(invocation: &str, run: &str) -> UsageRow {
    let mut row = fact(invocation, run, 100);
    row.fact = UsageFact {
        attempt: 2,
        status: UsageStatus::Error,
        error_code: Some("W0303".to_owned()),
        tokens: Tokens::estimated(70, 30).cached(50).cache_written(10).reasoning(20),
        cost_micro_usd: Some(9),
        provider_cost_micro_usd: Some(9),
        compared_micro_usd: Some(12),
        saved_micro_usd: Some(3),
        provider_call_id: Some("call 1".to_owned()),
        latency_ms: 40,
        first_token_ms: Some(4),
        ..row.fact
    };
    row
}

async fn commit_usage(store: &dyn Store, thread: &str, run: &str, rows: Vec<UsageRow>) {
    let claim = begin(store, thread, run).await;
    let usage = rows.into_iter().map(Arc::new).collect();
    write(store, &claim, Commit { usage, ..commit(1_200) }).await;
    finish(store, &claim, 1_500).await;
}

/// Commits two facts of the run `r` of the organisation `us`, for tests of a driver's own.
pub async fn facts_of_a_run(store: &dyn Store) {
    commit_usage(store, "t", "r", vec![complete("a", "r"), fact("b", "r", 200)]).await;
}

/// Checks that the bill of the run of [`facts_of_a_run`] has a number of attempts, each with its
/// receipt.
///
/// # Panics
/// Panics if it has another number.
pub async fn bill_of_a_run(store: &dyn Store, attempts: usize) {
    let (calls, receipts) = read(store, "r").await;
    assert_eq!((calls.len(), receipts.len()), (attempts, attempts));
}

async fn read(store: &dyn Store, subject: &str) -> (Vec<UsageRow>, Vec<Receipt>) {
    let calls = store.model_calls(&us(), subject).await.expect("reads");
    (calls, store.receipts(&us(), subject).await.expect("reads"))
}

pub(super) async fn facts_are_moved_once(store: Arc<dyn Store>) {
    let rows = vec![complete("a", "r"), fact("b", "r", 200)];
    commit_usage(&*store, "t", "r", rows.clone()).await;
    store.record_usage(&us(), fact("c", "r", 300)).await.expect("records");
    assert_eq!(read(&*store, "r").await, (Vec::new(), Vec::new()), "nothing is moved by itself");
    let mut moved = 0;
    for _ in 0..3 {
        let some = store.move_usage(2).await.expect("moves");
        assert!(some <= 2, "{some}");
        moved += some;
    }
    assert_eq!(moved, 3);
    let calls = [rows, vec![fact("c", "r", 300)]].concat();
    let receipts: Vec<_> = calls.iter().filter_map(Receipt::of).collect();
    let bill = read(&*store, "r").await;
    assert_eq!(bill, (calls, receipts));

    assert_eq!(store.move_usage(9).await, Ok(0));
    // An answer that is read from the journal is recorded again, whatever its commit.
    let mut other = fact("b", "r", 200);
    other.fact.tokens.output = 999;
    store.record_usage(&us(), other.clone()).await.expect("a repeated fact is no error");
    commit_usage(&*store, "t", "r2", vec![complete("a", "r"), other]).await;
    move_all_usage(&*store).await.expect("moves");
    assert_eq!(read(&*store, "r").await, bill);
}

pub(super) async fn a_paid_attempt_has_one_receipt(store: Arc<dyn Store>) {
    let mut refused = fact("refused", "r", 100);
    refused.fact.tokens = Tokens::estimated(0, 0);
    refused.fact.cost_micro_usd = Some(0);
    refused.fact.status = UsageStatus::Error;
    let mut cut = fact("cut", "r", 200);
    cut.fact.status = UsageStatus::Cancelled;
    cut.fact.cost_micro_usd = None;
    let rows = vec![refused, cut, fact("whole", "r", 300)];
    commit_usage(&*store, "t", "r", rows.clone()).await;
    move_all_usage(&*store).await.expect("moves");
    let (calls, receipts) = read(&*store, "r").await;
    assert_eq!(calls, rows);
    let paid: Vec<_> = receipts
        .iter()
        .map(|of| (of.attempt.as_str(), of.subject.as_str(), of.amount, of.cost_micro_usd))
        .collect();
    assert_eq!(paid, [("cut", "r", 10, None), ("whole", "r", 10, Some(11))]);
}

pub(super) async fn a_call_outside_of_runs_has_no_run(store: Arc<dyn Store>) {
    let row = program_fact("title", 100);
    store.record_usage(&us(), row.clone()).await.expect("records");
    store.record_usage(&us(), row.clone()).await.expect("a repeated fact is no error");
    assert_eq!(move_all_usage(&*store).await, Ok(1));
    let receipt = Receipt::of(&row).expect("it is paid");
    assert_eq!(receipt.subject, "title");
    assert_eq!(read(&*store, "title").await, (vec![row], vec![receipt]));
}

pub(super) async fn facts_are_moved_after_their_thread(store: Arc<dyn Store>) {
    commit_usage(&*store, "t", "r", vec![fact("a", "r", 100)]).await;
    store.move_usage(1).await.expect("moves");
    commit_usage(&*store, "t", "r2", vec![fact("b", "r2", 200)]).await;
    store.delete_thread(&us(), &thread("t")).await.expect("deletes");
    assert_eq!(move_all_usage(&*store).await, Ok(1), "only what was not moved before");
    for (run, row) in [("r", fact("a", "r", 100)), ("r2", fact("b", "r2", 200))] {
        let receipt = Receipt::of(&row).expect("it is paid");
        assert_eq!(read(&*store, run).await, (vec![row], vec![receipt]), "{run}");
    }
}

pub(super) async fn usage_is_summed_by_group_and_period(store: Arc<dyn Store>) {
    let mut versioned = fact("d", "r", QUARTER_MS + 1);
    let graph = GraphCaller {
        graph: "test:graph@7".to_owned(),
        graph_version: "7".to_owned(),
        ..versioned.caller.run().expect("a run").clone()
    };
    versioned.caller = graph.into();
    let mut unpriced = fact("c", "r", 300);
    unpriced.fact.cost_micro_usd = None;
    let mut stored = fact("e", "r", 400);
    stored.fact = UsageFact {
        attempt: 0,
        tokens: Tokens::default(),
        cost_micro_usd: Some(0),
        saved_micro_usd: Some(11),
        ..stored.fact
    };
    let rows = [
        complete("a", "r"),
        fact("b", "r", 200),
        unpriced,
        versioned,
        stored,
        program_fact("f", -1),
        program_fact("g", 500),
    ];
    for row in &rows {
        store.record_usage(&us(), row.clone()).await.expect("records");
    }
    move_all_usage(&*store).await.expect("moves");
    let first_quarter = Period { from: Timestamp(0), until: Timestamp(QUARTER_MS) };
    for (period, expected) in [(Period::ALL, 4), (first_quarter, 2)] {
        let mut totals: Vec<UsageTotal> = Vec::new();
        for row in rows.iter().filter(|row| period.has(row.fact.started_at)) {
            let group = UsageGroup::of(row);
            let sum = UsageSum::of(&row.fact);
            match totals.iter_mut().find(|total| total.group == group) {
                Some(total) => total.sum += sum,
                None => totals.push(UsageTotal { group, sum }),
            }
        }
        totals.sort_by(|a, b| a.group.cmp(&b.group));
        assert_eq!(totals.len(), expected);
        assert_eq!(store.usage_totals(&us(), period).await, Ok(totals), "{period:?}");
    }
}

pub(super) async fn another_organisation_has_another_bill(store: Arc<dyn Store>) {
    let them = principal("them");
    let mut theirs = fact("a", "r", 100);
    theirs.fact.tokens = Tokens::reported(1, 1);
    store.record_usage(&us(), fact("a", "r", 100)).await.expect("records");
    store.record_usage(&them, theirs.clone()).await.expect("records");
    assert_eq!(move_all_usage(&*store).await, Ok(2));
    assert_eq!(store.model_calls(&them, "r").await, Ok(vec![theirs]));
    let receipts = store.receipts(&them, "r").await.expect("reads");
    assert_eq!(receipts.iter().map(|of| of.amount).collect::<Vec<_>>(), [2]);
    let totals = store.usage_totals(&them, Period::ALL).await.expect("reads");
    assert_eq!(totals.iter().map(|total| total.sum.attempts).sum::<u64>(), 1);
    assert_eq!(read(&*store, "r").await.0, vec![fact("a", "r", 100)]);
}

pub(super) async fn names_are_erased_and_amounts_stay(store: Arc<dyn Store>) {
    let of = |account: &str, key: &str, row: UsageRow| {
        let named = Caller {
            billing_account: account.parse().expect("an id"),
            virtual_key: key.parse().expect("an id"),
            ..row.caller.caller().clone()
        };
        let caller = match row.caller.run() {
            Some(graph) => GraphCaller { caller: named, ..graph.clone() }.into(),
            None => CallOrigin::Program(Arc::new(named)),
        };
        UsageRow { caller, ..row }
    };
    let rows = [
        of("ann", "phone", fact("a", "r", 100)),
        of("ann", "desk", program_fact("title", 200)),
        of("bob", "phone", fact("b", "r2", 300)),
        // The name is a part of another one, and a name of something else.
        of("anna", "ann", fact("c", "r3", 400)),
    ];
    for row in &rows {
        store.record_usage(&us(), row.clone()).await.expect("records");
        store.record_usage(&principal("them"), row.clone()).await.expect("records");
    }
    let whole = async |who: &Principal| {
        let totals = store.usage_totals(who, Period::ALL).await.expect("reads");
        totals.iter().fold(UsageSum::default(), |mut all, total| {
            all += total.sum;
            all
        })
    };
    move_all_usage(&*store).await.expect("moves");
    let before = whole(&us()).await;

    let ann = BilledTo::Account("ann".parse().expect("an id"));
    let check = StartCheck {
        subject: ann.clone(),
        unit: StartUnit::Runs,
        window: LimitWindow::Day,
        from: Timestamp(0),
        limit: 9,
    };
    let counts = StartCounts { requests: 1, runs: 1 };
    let start = NewStart { at: Timestamp(1_000), counts, checks: vec![check] };
    assert_eq!(store.count_start(&start).await, Ok(None));
    assert_eq!(erase_names(&*store, &us(), &ann).await, Ok(2));
    assert_eq!(erase_names(&*store, &us(), &ann).await, Ok(0), "nothing has the name any more");
    let starts = store.starts(&ann, LimitWindow::Day, Timestamp(0)).await;
    assert_eq!(starts, Ok(StartCounts::default()));
    for (row, is_erased) in rows.iter().zip([true, true, false, false]) {
        let caller = if is_erased { row.caller.erased() } else { row.caller.clone() };
        let expected = UsageRow { caller, fact: row.fact.clone() };
        let (calls, receipts) = read(&*store, row.subject()).await;
        assert_eq!(calls, slice::from_ref(&expected));
        assert_eq!(receipts, Vec::from_iter(Receipt::of(&expected)));
        if let Some(graph) = row.caller.run() {
            let kept = store.usage_of_run(&us(), &graph.run).await.expect("reads");
            assert_eq!(kept, [expected], "what is retained of deleted threads");
        }
    }
    assert_eq!(whole(&us()).await, before);
    let theirs = store.model_calls(&principal("them"), "r").await.expect("reads");
    assert_eq!(theirs, rows[..1], "names of another organisation stay");

    let phone = BilledTo::Key("phone".parse().expect("an id"));
    assert_eq!(erase_names(&*store, &us(), &phone).await, Ok(1));
    assert_eq!(whole(&us()).await, before);
    // What a process records again has names, and a row of the bill has none.
    store.record_usage(&us(), rows[2].clone()).await.expect("records");
    move_all_usage(&*store).await.expect("moves");
    let (calls, _) = read(&*store, "r2").await;
    assert_eq!(calls[0].caller, rows[2].caller.erased());
}
