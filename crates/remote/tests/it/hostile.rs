//! Servers that send what they should not, and connections that break.

use crate::rig::{egress, graph_with_remote, server};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_graph::run_loop::Host;
use weftwork_graph::{Modes, RunOutcome, StreamEvent};
use weftwork_remote::{RemoteGraph, RemoteServer};
use weftwork_testkit::{LoopbackServer, ManualClock, Received, Reply};
use weftwork_types::code::Fault;

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const RUN: &str = "00000000-0000-8000-8000-00000000000a";

fn json_of(value: Value) -> Reply {
    Reply::full(200, JSON, value.to_string())
}

/// The head of a stream.
fn stream() -> Reply {
    let place = format!("/threads/t/runs/{RUN}");
    Reply::pieces(200, &[("content-type", "text/event-stream"), ("content-location", &place)])
}

fn frame(name: &str, id: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\nid: {id}\n\n")
}

/// The last frame of a route, without the ids of threads.
fn route(request: &Received) -> &'static str {
    let path = request.path.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path.rsplit('/').next().unwrap_or_default()) {
        ("POST", "threads") => "create",
        ("GET", "runs") => "list",
        ("POST", "stream") => "start",
        ("GET", "stream") => "follow",
        ("GET", "state") => "state",
        ("GET", RUN) => "run",
        _ => "assistant",
    }
}

/// The answer of a server that does everything right.
fn usual(request: &Received) -> Reply {
    match route(request) {
        "create" => json_of(json!({"thread_id": "t"})),
        "list" => json_of(json!([])),
        "start" => stream().piece(frame("values", "1-0", &json!({"out": "fine"}))).end(),
        "run" => json_of(json!({"run_id": RUN, "assistant_id": "a", "status": "success"})),
        "state" => json_of(json!({"values": {"out": "stored"}, "next": [], "tasks": []})),
        "follow" => stream().end(),
        _ => json_of(json!({"graph_id": "g", "version": 3})),
    }
}

/// A server that answers one route in another way.
async fn except(
    other: &'static str,
    reply: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> LoopbackServer {
    let answer = move |_: usize, request: &Received| match route(request) {
        found if found == other => reply(request),
        _ => usual(request),
    };
    LoopbackServer::start(answer).await.expect("starts")
}

async fn outcome_of(remote: RemoteServer) -> RunOutcome {
    let graph = graph_with_remote(RemoteGraph::new(remote, "g"), &["msg", "out"]);
    // Delays between attempts take no time.
    let host = Host::new().with_clock(Arc::new(ManualClock::moved_by_sleeps()));
    match graph.run(&host, json!({"msg": "a"})).finish().await {
        Ok(finished) => finished.outcome(),
        Err(error) => RunOutcome::Failed { fault: error.fault() },
    }
}

async fn outcome(there: &LoopbackServer) -> RunOutcome {
    outcome_of(server(&there.url(""))).await
}

async fn fault(there: &LoopbackServer) -> Fault {
    match outcome(there).await {
        RunOutcome::Failed { fault } => fault,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_is(fault: &Fault, code: &str, says: &str) {
    assert_eq!(fault.code, code, "{fault}");
    assert!(fault.message.contains(says), "{fault}");
}

#[tokio::test]
async fn a_server_that_does_everything_right_is_understood() {
    let there = except("nothing", usual).await;
    assert_eq!(outcome(&there).await.output().expect("completes")["out"], json!("fine"));
    let routes: Vec<_> = there.received().iter().map(route).collect();
    assert_eq!(routes, ["create", "list", "start", "run", "state", "assistant"]);
    let body: Value = serde_json::from_slice(&there.received()[2].body).expect("JSON");
    assert_eq!(body["multitask_strategy"], json!("reject"));
    assert_eq!(
        (&body["stream_subgraphs"], &body["stream_resumable"]),
        (&json!(true), &json!(true))
    );
    assert!(body["metadata"]["weft_call"].is_string(), "{body}");
}

#[tokio::test]
async fn redirects_are_refused_and_the_key_goes_nowhere_else() {
    let elsewhere = except("nothing", usual).await;
    for from in ["create", "list", "start", "run", "state"] {
        let to = elsewhere.url("/threads");
        let there = except(from, move |_| Reply::full(307, &[("location", &to)], "")).await;
        assert_is(&fault(&there).await, "W0653", "redirects are not followed");
        let keys = there.received();
        let keys: Vec<_> = keys.iter().map(|request| request.header("x-api-key")).collect();
        assert!(keys.iter().all(|key| *key == Some("key-of-helper")), "{keys:?}");
    }
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn a_private_address_that_is_not_allowed_is_not_contacted() {
    let there = except("nothing", usual).await;
    let other = egress("http://127.0.0.1:1");
    let remote = RemoteServer::new("helper", &there.url(""), other).expect("valid");
    let RunOutcome::Failed { fault } = outcome_of(remote).await else { panic!("refused") };
    assert_is(&fault, "W0651", "cannot be reached");
    assert!(there.received().is_empty());
}

#[tokio::test]
async fn frames_that_are_too_large_are_refused() {
    let there =
        except("start", |_| stream().piece("data: ").piece("x".repeat(5 << 20)).end()).await;
    assert_is(&fault(&there).await, "W0655", "a frame of more than 4194304 bytes");
}

#[tokio::test]
async fn a_stream_without_an_end_is_refused() {
    let noise = json!("x".repeat(3 << 20));
    let there = except("start", move |_| {
        (0..12).fold(stream(), |reply, _| reply.piece(frame("noise", "1-0", &noise))).hang()
    });
    assert_is(&fault(&there.await).await, "W0655", "a stream of more than 33554432 bytes");
}

#[tokio::test]
async fn answers_that_are_too_large_are_refused() {
    let there = except("state", |_| Reply::full(200, JSON, " ".repeat(9 << 20))).await;
    assert_is(&fault(&there).await, "W0655", "the state of a thread of more than 8388608 bytes");
}

#[tokio::test]
async fn what_is_not_of_the_protocol_is_refused() {
    let deep = format!("event: values\ndata: {}{}\n\n", "[".repeat(300), "]".repeat(300));
    let cases: [(&str, Reply, &str); 8] = [
        (
            "start",
            stream().piece("event: values\ndata: {\n\n").end(),
            "a frame that cannot be read",
        ),
        ("start", stream().piece(deep).end(), "recursion limit"),
        ("start", Reply::full(200, JSON, "{}"), "expected `text/event-stream`"),
        ("start", Reply::pieces(200, &[("content-type", "text/event-stream")]).end(), "its run"),
        ("list", json_of(json!({"runs": []})), "the runs of a thread that cannot be read"),
        ("run", json_of(json!({"run_id": RUN, "status": "dreaming"})), "unknown variant"),
        ("run", Reply::full(200, JSON, "<html>"), "a run that cannot be read"),
        ("state", json_of(json!({"next": 7})), "the state of a thread that cannot be read"),
    ];
    for (other, reply, says) in cases {
        let there = except(other, move |_| reply.clone()).await;
        assert_is(&fault(&there).await, "W0654", says);
    }
}

#[tokio::test]
async fn questions_have_limits() {
    let asks = |questions: Vec<Value>| {
        let tasks = json!([{"interrupts": questions}]);
        json_of(json!({"values": {}, "next": ["ask"], "tasks": tasks}))
    };
    let many = (0..33).map(|id| json!({"id": id.to_string(), "value": 1})).collect();
    let large = vec![json!({"id": "1", "value": "x".repeat(64 << 10)})];
    for (questions, says) in [(many, "a list of questions of more than 32"), (large, "a question")]
    {
        let reply = asks(questions);
        let there = except("state", move |_| reply.clone()).await;
        assert_is(&fault(&there).await, "W0655", says);
    }
}

#[tokio::test]
async fn runs_that_stop_without_a_result_are_errors() {
    let run = |status: &str| json_of(json!({"run_id": RUN, "assistant_id": "a", "status": status}));
    for (status, code, says) in [
        ("interrupted", "W0657", "cancelled there"),
        ("timeout", "W0657", "time limit"),
        ("error", "W0656", "reported no reason"),
    ] {
        let reply = run(status);
        let there = except("run", move |_| reply.clone()).await;
        assert_is(&fault(&there).await, code, says);
    }
    let waits = json_of(json!({"values": {}, "next": ["a"], "tasks": []}));
    let there = except("state", move |_| waits.clone()).await;
    assert_is(&fault(&there).await, "W0657", "before or after a node");
}

#[tokio::test]
async fn a_busy_thread_is_named() {
    let there = except("start", |_| Reply::full(409, JSON, r#"{"detail": "busy"}"#)).await;
    let fault = fault(&there).await;
    assert_is(&fault, "W0658", "has an active run of another caller");
    assert!(fault.retriable);
}

#[tokio::test]
async fn the_key_is_removed_from_what_the_server_says() {
    let echo = |request: &Received| request.header("x-api-key").unwrap_or_default().to_owned();
    let there = except("start", move |request| {
        stream().piece(frame("values", "1-0", &json!({"out": echo(request)}))).end()
    });
    let output = outcome(&there.await).await.output().expect("completes");
    assert_eq!(output["out"], json!("[secret]"));
    let there = except("start", move |request| Reply::full(400, &[], echo(request))).await;
    assert_is(&fault(&there).await, "W0652", "status 400: [secret]");
}

#[tokio::test]
async fn a_stream_that_breaks_continues_after_its_last_event() {
    let first = || stream().piece(frame("updates", "5-1", &json!({"a": {"out": "a"}})));
    let rest = || stream().piece(frame("values", "5-2", &json!({"out": "rest"}))).end();
    let breaks = move |_: usize, request: &Received| match route(request) {
        "start" => first(),
        "follow" => rest(),
        _ => usual(request),
    };
    let there = LoopbackServer::start(breaks).await.expect("starts");
    let graph = graph_with_remote(RemoteGraph::new(server(&there.url("")), "g"), &["msg", "out"]);
    let host = Host::new();
    let mut stream =
        graph.run(&host, json!({"msg": "a"})).modes(Modes::UPDATES | Modes::VALUES).stream();
    let mut frames = Vec::new();
    while let Some(item) = stream.next().await {
        if let StreamEvent::Data { data, .. } = item.event {
            frames.push(data);
        }
    }
    assert_eq!(frames, [json!({"a": {"out": "a"}}), json!({"out": "rest"})]);
    let received = there.received();
    let follow = received.iter().find(|request| route(request) == "follow").expect("continued");
    assert_eq!(follow.header("last-event-id"), Some("5-1"));
    assert_eq!(received.iter().filter(|request| route(request) == "start").count(), 1);
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_asked_again() {
    let failed = Arc::new(AtomicUsize::new(0));
    let there = except("start", move |request| match failed.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::full(503, &[], ""),
        1 => Reply::nothing(),
        _ => usual(request),
    });
    let there = there.await;
    assert_eq!(outcome(&there).await.output().expect("completes")["out"], json!("fine"));
    let routes: Vec<_> = there.received().iter().map(route).collect();
    let expected = ["create", "list", "start", "list", "start", "list", "start"];
    assert_eq!(routes[..7], expected, "before each start, the run is looked for");
    let there = except("state", |_| Reply::full(503, &[], "")).await;
    let fault = fault(&there).await;
    assert_is(&fault, "W0652", "status 503");
    assert!(fault.retriable);
    let states = there.received().iter().filter(|request| route(request) == "state").count();
    assert_eq!(states, 5);
}

#[tokio::test]
async fn a_refusal_for_lack_of_a_key_names_its_variable() {
    let refusal = |status| Reply::full(status, JSON, json!({"detail": "no"}).to_string());
    for (status, names) in [(401, true), (403, true), (422, false)] {
        let there = except("create", move |_| refusal(status)).await;
        let url = there.url("");
        let remote = RemoteServer::new("helper", &url, egress(&url)).expect("valid");
        let outcome = outcome_of(remote.missing_key("HELPER_KEY")).await;
        let RunOutcome::Failed { fault } = outcome else { panic!("{outcome:?}") };
        assert_is(&fault, "W0652", "remote `helper` refused");
        assert_eq!(fault.message.contains("`HELPER_KEY`"), names, "{fault}");
    }
}
