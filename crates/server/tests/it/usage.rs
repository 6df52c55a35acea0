//! Ids of requests, and the report of usage.

use crate::client::{Client, token, with_tokens};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_server::Server;
use weftwork_store::UsageRow;
use weftwork_types::caller::{CallOrigin, Caller};
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
    UsageRow { caller: CallOrigin::Program(Arc::new(caller)), fact }
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
    for query in ["?zone=Mars", "?by=user", "?from=soon", "?format=pdf"] {
        let status = get("one", query).await.status;
        assert!(status.is_client_error(), "{query}: {status}");
    }
}
