//! Limits at the door: requests that start work get status 429 before anything is stored.

use crate::client::{Answer, Client};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weftwork::prelude::*;
use weftwork::runtime::limits::{LimitOwner, LimitRules, UsageLimits};
use weftwork::testing::{ScriptedModel, Step};
use weftwork_server::{AccessKey, KeyFile, Server, TokenHash};
use weftwork_testkit::ManualClock;
use weftwork_types::port::Clock as _;
use weftwork_types::usage::Tokens;
use weftwork_types::{BillingAccountId, OrgId, Principal, Rights, Timestamp, VirtualKeyId};

const SMALL: &str = "token-of-the-small-key";
const LARGE: &str = "token-of-the-large-key";

fn key(token: &str, name: &str) -> AccessKey {
    let org = OrgId::new("acme").expect("an id");
    AccessKey {
        hash: TokenHash::of(token),
        principal: Principal::new(org, "ada").with_rights(Rights::ALL),
        billing_account: BillingAccountId::new("acme").expect("an id"),
        virtual_key: VirtualKeyId::new(name).expect("an id"),
    }
}

fn write_keys(path: &Path) {
    let lines = format!("{}\n{}\n", key(SMALL, "small"), key(LARGE, "large"));
    std::fs::write(path, lines).expect("written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("a mode");
}

/// A server with an agent, two keys, and limits of one of them.
struct Desk {
    client: Client,
    clock: ManualClock,
    model: Arc<ScriptedModel>,
}

impl Desk {
    async fn new(limits: &[(&str, u64)]) -> Self {
        let rules: LimitRules =
            limits.iter().map(|(name, max)| (name.parse().expect("a limit"), *max)).collect();
        let limits = UsageLimits::new("Europe/Berlin").expect("a zone");
        let limits = limits.with(LimitOwner::Key, "small", rules).expect("a key");
        let clock = ManualClock::new();
        // 2026-10-24 in Berlin, 22:00. The day after has 25 hours.
        clock.advance(Timestamp(1_792_872_000_000).since(clock.now()));
        let said = |_: &_| Step::text("Yes.").using(Tokens::reported(80, 20));
        let model = Arc::new(ScriptedModel::from_fn(said));
        let agent = ReactAgent::new("desk", Arc::clone(&model)).build();
        let runtime = Runtime::in_memory().clock(Arc::new(clock.clone())).limits(limits);
        let runtime = runtime.graph("desk", agent).open().await.expect("opens");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        write_keys(&path);
        let server = Server::new(runtime.clone()).keys(KeyFile::new(&path)).expect("keys");
        Self { client: Client::of(server, runtime), clock, model }
    }

    async fn send(
        &self,
        token: &str,
        request: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Answer {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let builder = Request::builder().method(method).uri(path).header("host", "localhost");
        let builder = builder.header("x-api-key", token);
        let builder =
            headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        self.client.send(builder.body(Body::from(body.to_string())).expect("a request")).await
    }

    async fn small(&self, request: &str, body: Value) -> Answer {
        self.send(SMALL, request, &[], body).await
    }
}

fn run() -> Value {
    let messages = json!([{"role": "user", "content": "Is it open?"}]);
    json!({"assistant_id": "desk", "input": {"messages": messages}, "if_not_exists": "create"})
}

/// Checks that a request was refused by a limit, and returns the seconds to wait.
#[track_caller]
fn wait_of(answer: &Answer, limit: &str) -> u64 {
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{}", answer.body);
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    let detail = body["detail"].as_str().expect("a text");
    let found = format!("key `small` has the limit of {limit}");
    assert!(detail.starts_with(&found) && detail.ends_with("(W0661)"), "{detail}");
    answer.headers["retry-after"].to_str().expect("a text").parse().expect("a number")
}

#[tokio::test]
async fn requests_a_minute_are_refused_before_anything_is_stored() {
    let desk = Desk::new(&[("requests_per_minute", 2)]).await;
    assert_eq!(desk.small("POST /threads/t/runs/wait", run()).await.status, StatusCode::OK);
    desk.clock.advance(Duration::from_millis(20_500));
    let stream = desk.small("POST /threads/t/runs/stream", run()).await;
    assert_eq!(stream.status, StatusCode::OK, "{}", stream.body);
    let say = json!({"messages": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]});
    for (request, body) in [
        ("POST /threads/new/runs/wait", run()),
        ("POST /threads/new/runs", run()),
        ("POST /runs/stream", run()),
        ("POST /runs/batch", json!([run()])),
        ("POST /chat/desk", say),
    ] {
        let wait = wait_of(&desk.small(request, body).await, "2 requests a minute");
        assert_eq!(wait, 40, "{request}: the first one leaves after 39.5 seconds");
    }
    let start = json!({"id": 1, "method": "run.start", "params": {
        "assistant_id": "desk", "input": {"messages": []}}});
    let command = desk.small("POST /threads/new/commands", start).await;
    assert!(command.body.contains("W0661"), "{} {}", command.status, command.body);
    assert_eq!(desk.small("GET /threads/new", json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(desk.model.calls(), 2);
    // Others are not limited, and reads are not.
    let other = desk.send(LARGE, "POST /threads/u/runs/wait", &[], run()).await;
    assert_eq!(other.status, StatusCode::OK, "{}", other.body);
    for request in ["GET /threads/t", "GET /threads/t/runs", "GET /threads/t/state", "GET /usage"] {
        assert_eq!(desk.small(request, json!({})).await.status, StatusCode::OK, "{request}");
    }
    assert!(desk.small("POST /threads/search", json!({})).await.status.is_success());
    // A request that does not fit is told so.
    let wrong = desk.small("POST /threads/new/runs", json!({"assistant_id": "nobody"})).await;
    assert!(
        wrong.status == StatusCode::NOT_FOUND || wrong.status == StatusCode::UNPROCESSABLE_ENTITY
    );
    desk.clock.advance(Duration::from_millis(39_500));
    assert_eq!(desk.small("POST /threads/t/runs/wait", run()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn runs_a_day_are_those_of_batches_and_repeated_requests_do_not_count() {
    let desk = Desk::new(&[("runs_per_day", 3)]).await;
    let wait = desk.small("POST /runs/batch", json!([run(), run(), run(), run()])).await;
    assert_eq!(wait_of(&wait, "3 runs a day"), 2 * 3_600, "midnight in Berlin");
    assert_eq!(desk.model.calls(), 0);
    let batch = desk.small("POST /runs/batch", json!([run(), run()])).await;
    assert_eq!(batch.status, StatusCode::OK, "{}", batch.body);
    let keyed = [("idempotency-key", "order-7")];
    for _ in 0..3 {
        let again = desk.send(SMALL, "POST /threads/t/runs/wait", &keyed, run()).await;
        assert_eq!(again.status, StatusCode::OK, "{}", again.body);
    }
    desk.clock.advance(Duration::from_secs(2 * 3_600));
    let batch = desk.small("POST /runs/batch", json!([run(), run(), run()])).await;
    assert_eq!(batch.status, StatusCode::OK, "{}", batch.body);
    let next = desk.small("POST /threads/t/runs/wait", run()).await;
    assert_eq!(wait_of(&next, "3 runs a day"), 25 * 3_600, "a day on which clocks are put back");
}

#[tokio::test]
async fn used_up_tokens_refuse_requests_and_are_reported() {
    let desk = Desk::new(&[("tokens_per_month", 180)]).await;
    assert_eq!(desk.small("POST /threads/t/runs/wait", run()).await.status, StatusCode::OK);
    // The estimate fits in what is left, and the answer does not.
    let last = desk.small("POST /threads/t/runs/wait", run()).await;
    assert_eq!(last.status, StatusCode::OK, "{}", last.body);
    let refused = desk.small("POST /threads/t/runs/wait", run()).await;
    let wait = wait_of(&refused, "180 tokens a month");
    assert_eq!(wait, 2 * 3_600 + 7 * 24 * 3_600 + 3_600, "November in Berlin");
    assert_eq!(desk.model.calls(), 2);
    let report = desk.small("GET /usage", json!({})).await.json();
    let limits = &report["limits"];
    let line = json!({"key": "small", "limit": "tokens_per_month", "used": "200", "max": "180",
        "until": "2026-11-01T00:00:00+01:00"});
    assert_eq!(limits, &json!([line]));
    let others = desk.send(LARGE, "GET /usage", &[], json!({})).await.json();
    assert_eq!(others["limits"], json!([]));
    // The thread is as before, and its next run passes in the next month.
    desk.clock.advance(Duration::from_secs(wait));
    assert_eq!(desk.small("POST /threads/t/runs/wait", run()).await.status, StatusCode::OK);
}
