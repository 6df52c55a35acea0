use super::*;
use std::sync::Arc;
use weftwork_store::{MemoryStore, UsageRow, WriteUsage as _};
use weftwork_types::InvocationId;
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::canonical;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};

fn time(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().expect("a time").as_millisecond())
}

fn row(n: usize, started_at: Timestamp, cost_micro_usd: Option<u64>) -> UsageRow {
    let fact = UsageFact {
        invocation_id: InvocationId::new(format!("i{n}")).expect("an id"),
        attempt: 1,
        provider: "lab".to_owned(),
        model: "tiny".to_owned(),
        status: UsageStatus::Ok,
        error_code: None,
        tokens: Tokens::reported(7, 3),
        cost_micro_usd,
        provider_cost_micro_usd: None,
        compared_micro_usd: None,
        saved_micro_usd: None,
        provider_call_id: None,
        prompt_hash: canonical::hash_bytes(b"prompt"),
        started_at,
        latency_ms: 5,
        first_token_ms: None,
    };
    let caller = Caller::local("request").expect("an id");
    UsageRow { caller: CallOrigin::Program(Arc::new(caller)), fact }
}

async fn store_of(rows: Vec<UsageRow>) -> MemoryStore {
    let store = MemoryStore::new();
    for row in rows {
        store.record_usage(&Principal::local(), row).await.expect("records");
    }
    store
}

async fn report(store: &MemoryStore, query: &UsageQuery) -> UsageReport {
    report_usage(store, &Principal::local(), query).await.expect("reports")
}

#[tokio::test]
async fn days_begin_at_midnight_of_their_zone_also_when_clocks_change() {
    // The night before 29 March has 23 hours in Berlin; 1 November has 25 in New York, and Chile
    // skips midnight itself on 6 September.
    let times = [
        "2026-03-28T22:59:59Z",
        "2026-03-28T23:00:00Z",
        "2026-03-29T21:59:59Z",
        "2026-03-29T22:00:00Z",
        "2026-11-01T03:59:59Z",
        "2026-11-01T04:00:00Z",
        "2026-11-02T04:59:59Z",
        "2026-11-02T05:00:00Z",
        "2026-09-06T03:59:59Z",
        "2026-09-06T04:00:00Z",
    ];
    let rows = times.iter().enumerate().map(|(n, at)| row(n, time(at), Some(1)));
    let store = store_of(rows.collect()).await;
    for (zone, from, until, expected) in [
        ("Europe/Berlin", "2026-03-28", "2026-03-30", [1, 2, 1].as_slice()),
        ("America/New_York", "2026-10-31", "2026-11-02", [1, 2, 1].as_slice()),
        ("America/Santiago", "2026-09-05", "2026-09-06", [1, 1].as_slice()),
        ("UTC", "2026-03-28", "2026-03-29", [2, 2].as_slice()),
    ] {
        let query = UsageQuery::new(vec![UsageColumn::Day], zone).expect("a zone");
        let query = query.from(from).expect("a day").until(until).expect("a day");
        let report = report(&store, &query).await;
        let found: Vec<_> = report.rows.iter().map(|line| line.sum.attempts).collect();
        assert_eq!(found, expected, "{zone}: {report:?}");
        assert_eq!(report.rows[0].values, [Some(from.to_owned())], "{zone}");
    }
    // A month, which is its days.
    let query = UsageQuery::new(Vec::new(), "Europe/Berlin").expect("a zone");
    let query = query.from("2026-03-01").expect("a day").until("2026-03-31").expect("a day");
    assert_eq!(report(&store, &query).await.total.attempts, 4);
}

#[tokio::test]
async fn single_days_add_up_to_their_range_in_each_zone() {
    // 200 attempts over ten days with a change of clocks, 72 minutes apart.
    let first = time("2026-03-24T00:00:00Z").0;
    let times = (0..200_i64).map(|n| Timestamp(first + n * 4_321_987));
    let store = store_of(times.enumerate().map(|(n, at)| row(n, at, Some(1))).collect()).await;
    for zone in ["UTC", "Asia/Kolkata", "America/Los_Angeles", "Europe/Berlin", "Pacific/Apia"] {
        let query = || UsageQuery::new(vec![UsageColumn::Day], zone).expect("a zone");
        let range = query().from("2026-03-25").expect("a day").until("2026-04-01").expect("a day");
        let range = report(&store, &range).await;
        let mut single = Vec::new();
        for line in &range.rows {
            let day = line.values[0].as_deref().expect("a day");
            let query = query().from(day).expect("a day").until(day).expect("a day");
            single.extend(report(&store, &query).await.rows);
        }
        assert!(range.rows.len() >= 8, "{zone}: {range:?}");
        assert_eq!(single, range.rows, "{zone}");
    }
}

#[test]
fn days_in_the_reverse_order_are_refused() {
    let query = || UsageQuery::new(Vec::new(), "Europe/Berlin").expect("a zone");
    let from = query().from("2026-03-29").expect("a day");
    assert!(from.clone().until("2026-03-29").is_ok(), "a day");
    let error = from.until("2026-03-28").expect_err("before it").to_string();
    assert_eq!(error, "`until` is \"2026-03-28\"; expected a day that is not before `from`");
    let until = query().until("2026-03-28").expect("a day");
    let error = until.from("2026-03-29").expect_err("after it").to_string();
    assert_eq!(error, "`from` is \"2026-03-29\"; expected a day that is not after `until`");
}

#[tokio::test]
async fn a_call_without_a_price_is_never_free() {
    let mut stated = row(3, Timestamp(0), Some(9));
    stated.fact.provider_cost_micro_usd = Some(9);
    stated.fact.provider_call_id = Some("c".to_owned());
    stated.fact.model = "a,\"b\"".to_owned();
    let mut inside = row(4, Timestamp(0), None);
    inside.fact.model = "free".to_owned();
    let graph = GraphCaller {
        caller: inside.caller.caller().clone(),
        run: "r".parse().expect("an id"),
        graph: "app:shop@2".to_owned(),
        graph_version: "2".to_owned(),
    };
    inside.caller = graph.into();
    let store =
        store_of(vec![row(1, Timestamp(0), Some(5)), row(2, Timestamp(0), None), stated, inside]);
    let by = vec![UsageColumn::Agent, UsageColumn::Model];
    let query = UsageQuery::new(by, "UTC").expect("a zone");
    let report = report(&store.await, &query).await;
    insta::assert_snapshot!(report.to_csv());
    let costs: Vec<_> = report
        .to_json()
        .into_iter()
        .map(|line| (line["cost_micro_usd"].clone(), line["price_micro_usd"].clone()))
        .collect();
    let null = || Value::Null;
    assert_eq!(costs, [(json!(9), null()), (json!(5), json!(5)), (null(), null())]);
    for (text, field) in [("=1+1", "'=1+1"), ("@a,b", "\"'@a,b\""), ("gpt-4", "gpt-4")] {
        assert_eq!(csv_field(text), field);
    }
    assert_eq!(cost_text(0, 1), "unpriced");
    assert_eq!(cost_text(1_500_000, 2), "1.5 + 2 unpriced");
    assert_eq!(cost_text(0, 0), "0");
}

#[test]
fn a_query_names_what_it_does_not_understand() {
    let by: Result<UsageColumn, _> = "user".parse();
    assert_eq!(
        by.expect_err("unknown").to_string(),
        "`by` is \"user\"; expected account, key, agent, version, model or day"
    );
    let zone = UsageQuery::new(Vec::new(), "Mars/Olympus").expect_err("unknown");
    assert_eq!(
        zone.to_string(),
        "`zone` is \"Mars/Olympus\"; expected the name of a time zone, such as `Europe/Berlin` or `UTC`"
    );
    let query = UsageQuery::new(Vec::new(), "UTC").expect("a zone");
    for day in ["2026-02-30", "yesterday", ""] {
        assert!(query.clone().from(day).is_err(), "{day}");
        assert!(query.clone().until(day).is_err(), "{day}");
    }
}
