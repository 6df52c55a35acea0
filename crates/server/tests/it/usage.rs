//! Ids of requests, and the report of usage.

use crate::client::{Client, token, with_tokens};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_server::Server;
use weftwork_store::{RunRow, UsageRow};
use weftwork_types::caller::{CallOrigin, Caller, GraphCaller};
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{InvocationId, OrgId, Principal, ThreadId, Timestamp, canonical};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn client() -> Client {
    let runtime = Client::new().await.runtime;
    Client::of(with_tokens(Server::new(runtime.clone())), runtime)
}

async fn send(
    client: &Client,
    request: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> crate::client::Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut builder = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    client.send(builder.body(Body::from(body.to_string())).expect("a request")).await
}

#[tokio::test]
async fn a_run_has_the_ids_of_its_request_which_the_response_repeats() {
    let client = client().await;
    let token = token("one");
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let run = json!({"assistant_id": "echo", "input": {"msg": "a"}, "if_not_exists": "create",
        "metadata": {"x-request-id": "forged"}});
    for (thread, id) in [("given", Some("order-7")), ("made", None), ("bad", Some("two words"))] {
        let mut headers = vec![("x-api-key", token.as_str()), ("traceparent", parent.as_str())];
        headers.extend(id.map(|id| ("x-request-id", id)));
        let request = format!("POST /threads/{thread}/runs/wait");
        let answer = send(&client, &request, &headers, run.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let echoed = answer.headers["x-request-id"].to_str().expect("a text").to_owned();
        assert_eq!(echoed == "order-7", thread == "given", "{thread}: {echoed}");
        let who = Principal::new(OrgId::new("one").expect("an id"), "ada");
        let id = ThreadId::new(thread).expect("an id");
        let runs = client.runtime.store().runs(&who, &id).await.expect("runs");
        let caller = &runs[0].new.caller;
        assert_eq!((caller.request.as_str(), caller.trace.as_str()), (echoed.as_str(), TRACE));
    }
    let answer = send(&client, "GET /nowhere", &[("x-request-id", "lost-1")], json!({})).await;
    assert_eq!(answer.headers["x-request-id"], "lost-1", "a refusal has it, too");
}

fn row(n: i64, cost_micro_usd: Option<u64>) -> UsageRow {
    let caller = Caller::local("request").expect("an id");
    row_of(CallOrigin::Program(Arc::new(caller)), n, cost_micro_usd)
}

fn row_of_run(run: &RunRow, n: i64, cost_micro_usd: Option<u64>) -> UsageRow {
    let caller = GraphCaller {
        caller: run.new.caller.clone(),
        run: run.new.at.run.clone(),
        graph: run.new.graph.clone(),
        graph_version: "7".to_owned(),
    };
    row_of(caller.into(), n, cost_micro_usd)
}

fn row_of(caller: CallOrigin, n: i64, cost_micro_usd: Option<u64>) -> UsageRow {
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
        // 2026-03-28 in UTC, and the day after in Berlin.
        started_at: Timestamp(1_774_740_600_000 + n),
        latency_ms: 5,
        first_token_ms: None,
    };
    UsageRow { caller, fact }
}

#[tokio::test]
async fn usage_is_that_of_the_organisation_by_day_and_zone() {
    let client = client().await;
    for (org, rows) in
        [("one", [row(1, Some(5)), row(2, None)]), ("two", [row(1, None), row(2, None)])]
    {
        let who = Principal::new(OrgId::new(org).expect("an id"), "ada");
        for row in rows {
            client.runtime.store().record_usage(&who, row).await.expect("records");
        }
    }
    let get = async |org: &str, query: &str| {
        let token = token(org);
        let request = format!("GET /usage{query}");
        send(&client, &request, &[("x-api-key", token.as_str())], json!({})).await
    };
    let answer = get("one", "?by=model,day&zone=Europe/Berlin").await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let report: Value = serde_json::from_str(&answer.body).expect("JSON");
    let line = &report["rows"][0];
    assert_eq!((&line["model"], &line["day"]), (&json!("lab:tiny"), &json!("2026-03-29")));
    assert_eq!(line["attempts"], 2);
    assert_eq!((&line["cost_micro_usd"], &line["unpriced"]), (&json!(5), &json!(1)));
    assert_eq!(report["total"]["input_tokens"], 14);
    let answer = get("two", "?by=day&format=csv").await;
    assert!(answer.body.starts_with("day,attempts,"), "{}", answer.body);
    assert!(answer.body.contains("2026-03-28,2,0,14,6,0,0,0,0,,2,"), "{}", answer.body);
    let answer = get("two", "?until=2026-03-27").await;
    assert!(answer.body.starts_with(r#"{"rows":[]"#), "{}", answer.body);
    for query in
        ["?zone=Mars", "?by=user", "?from=soon", "?from=2026-03-29&until=2026-03-28", "?format=pdf"]
    {
        let status = get("one", query).await.status;
        assert!(status.is_client_error(), "{query}: {status}");
    }
}

async fn runs_of(client: &Client, thread: &str) -> Vec<RunRow> {
    let who = Principal::new(OrgId::new("one").expect("an id"), "ada");
    let thread = ThreadId::new(thread).expect("an id");
    client.runtime.store().runs(&who, &thread).await.expect("runs")
}

#[tokio::test]
async fn usage_of_a_thread_is_that_of_its_runs() {
    let client = client().await;
    let who = Principal::new(OrgId::new("one").expect("an id"), "ada");
    let wait = async |mut body: Value| {
        body["assistant_id"] = json!("inter");
        body["if_not_exists"] = json!("create");
        let path = "/threads/t/runs/wait";
        client.send_as(Some("one"), "POST", path, body.to_string()).await.json()
    };
    for question in ["ok?", "again?"] {
        let asked = wait(json!({"input": {"q": question}})).await;
        let id = asked["__interrupt__"][0]["id"].as_str().expect("an id");
        wait(json!({"command": {"resume": {id: "yes"}}})).await;
    }
    let runs = runs_of(&client, "t").await;
    let [first, second, third, last] = &runs[..] else { panic!("{runs:?}") };
    let usage = [
        row_of_run(first, 1, Some(5)),
        row_of_run(second, 2, Some(2)),
        row_of_run(second, 3, None),
        row_of_run(third, 4, None),
        row_of_run(last, 5, Some(1)),
        row(6, Some(100)),
    ];
    for row in usage {
        client.runtime.store().record_usage(&who, row).await.expect("records");
    }
    // The price of a deleted run was paid.
    let path = format!("/threads/t/runs/{}", last.new.at.run);
    let deleted = client.send_as(Some("one"), "DELETE", &path, "").await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.body);
    let report = client.send_as(Some("one"), "GET", "/threads/t/usage", "").await.json();
    let shown = |row: &Value| {
        ["run_id", "answer", "attempts", "cost_micro_usd", "unpriced"].map(|name| row[name].clone())
    };
    let rows: Vec<_> = report["rows"].as_array().expect("rows").iter().map(shown).collect();
    let [first, second, third] = [first, second, third].map(|run| json!(run.new.at.run));
    assert_eq!(
        rows,
        [
            [first.clone(), first.clone(), json!(1), json!(5), json!(0)],
            [second, first, json!(2), json!(2), json!(1)],
            [third.clone(), third, json!(1), Value::Null, json!(1)],
        ]
    );
    let total = ["attempts", "input_tokens", "cost_micro_usd", "unpriced"];
    let total = total.map(|name| report["total"][name].clone());
    assert_eq!(total, [json!(5), json!(35), json!(8), json!(2)]);
}

#[tokio::test]
async fn usage_of_other_threads_is_that_of_none() {
    let client = client().await;
    let body = json!({"thread_id": "t"}).to_string();
    client.send_as(Some("one"), "POST", "/threads", body).await.json();
    let empty = client.send_as(Some("one"), "GET", "/threads/t/usage", "").await.json();
    assert_eq!((&empty["rows"], &empty["total"]["cost_micro_usd"]), (&json!([]), &json!(0)));
    for (org, thread) in [(Some("one"), "nowhere"), (Some("two"), "t"), (Some("two"), "nowhere")] {
        let get = async |part: &str| {
            let path = format!("/threads/{thread}/{part}");
            let answer = client.send_as(org, "GET", &path, "").await;
            (answer.status, answer.body)
        };
        let usage = get("usage").await;
        assert_eq!(usage.0, StatusCode::NOT_FOUND, "{}", usage.1);
        assert_eq!(usage, get("runs").await, "{org:?} {thread}");
    }
}
