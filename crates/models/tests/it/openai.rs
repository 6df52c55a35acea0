//! Tests of the client against the responses of a misbehaving server.

use crate::desk::{Desk, request};
use crate::server::{fragment, model, said, server, stream, waiting, whole, words};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_models::{
    ChatEvent, ChatRequest, FinishReason, ModelCallError, ModelCaller, ModelError, RetryPolicy,
};
use weftwork_testkit::{LoopbackServer, ManualClock, Reply};
use weftwork_types::code::Phase;
use weftwork_types::event::AiEvent;
use weftwork_types::message::Part;
use weftwork_types::port::{CallContext, EgressError, LimitedBudget, Limits};
use weftwork_types::tool::{Effect, ToolExample, ToolSpec, UnknownOutcome};
use weftwork_types::usage::{Tokens, Usage, UsageStatus};

/// Timeout for a server that sends nothing, below the time limit of a test.
const PATIENCE_MS: u64 = 2_000;

async fn ask_once(
    server: &LoopbackServer,
) -> Result<weftwork_models::ChatResponse, ModelCallError> {
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let caller = ModelCaller::new(RetryPolicy::once());
    caller.call(&*waiting(server, "", PATIENCE_MS), request("hi"), &desk.context(&clock)).await
}

async fn refused(reply: Reply) -> ModelError {
    let server = server(move |_, _| reply.clone()).await;
    let error = ask_once(&server).await.expect_err("refused");
    let stored = json!(error.fault()).to_string();
    assert!(!error.to_string().contains("hunter2") && !stored.contains("hunter2"), "{stored}");
    assert_eq!(server.received().len(), 1, "one attempt is one request");
    *error.error
}

#[tokio::test]
async fn an_answer_streams_with_its_usage() {
    let chunks = [said(json!({"reasoning_content": "hm"})), words("Hel"), words("lo 🧵")];
    let server = server(move |_, _| whole(&chunks, "stop")).await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let model = model(&server, "");
    let answer = ModelCaller::default().call(&*model, request("hi"), &desk.context(&clock)).await;
    let answer = answer.expect("an answer");

    assert_eq!(answer.message.joined_text(), "Hello 🧵");
    assert_eq!(answer.finish, FinishReason::Stop);
    assert_eq!(answer.tokens, Tokens::reported(11, 7));
    assert_eq!(answer.provider_call_id.as_deref(), Some("lab-1"));
    assert_eq!(desk.shown(), "Hello 🧵");

    let received = &server.received()[0];
    assert_eq!(received.path, "/v1/chat/completions");
    assert_eq!(received.header("authorization"), Some("Bearer sk-hunter2"));
    let body: Value = serde_json::from_slice(&received.body).expect("json");
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hi"}]));
    assert!(!format!("{model:?}").contains("hunter2"), "the key is never printed");
}

#[tokio::test]
async fn usage_under_unknown_names_counts_against_a_budget_of_tokens() {
    let mut estimate = None;
    for account in [
        r#"{"units_in": 11, "units_out": 7}"#,
        r#""18 tokens""#,
        "{}",
        "NaN",
        // No numbers, as servers in Python write them.
        r#"{"prompt_tokens": NaN, "completion_tokens": NaN, "cost": NaN}"#,
        r#"{"prompt_tokens": Infinity, "completion_tokens": -Infinity, "cost": -1}"#,
        r#"{"prompt_tokens": "NaN", "completion_tokens": "inf", "cost": "-inf"}"#,
        r#"{"prompt_tokens": -5, "completion_tokens": 1e999}"#,
        r#"{"prompt_tokens": 11, "completion_tokens": NaN}"#,
        r#"{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": NaN}"#,
    ] {
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let account = format!("data: {{\"choices\": [], \"usage\": {account}}}\n\n");
        let server = server(move |_, _| {
            let chunks = [words("0123456789 0123456789"), end.clone()];
            stream(&chunks).piece(&account).piece("data: [DONE]\n\n").end()
        });
        let server = server.await;
        let desk = Desk::new();
        let clock = ManualClock::moved_by_sleeps();
        let model = model(&server, "");
        let caller = ModelCaller::default();
        let free = caller.call(&*model, request("hi"), &desk.context(&clock)).await;
        // The estimate of a call: enough for one, whatever its account says, and not for two.
        let estimate = *estimate.get_or_insert(free.expect("an answer").tokens.total());
        let tokens = Some(estimate);
        let limits = Limits { tokens, ..Limits::default() };
        let budget = LimitedBudget::new(limits, Usage::default());
        let ctx = CallContext { budget: Arc::new(budget.clone()), ..Desk::new().context(&clock) };
        let answer = caller.call(&*model, request("hi"), &ctx).await.expect("an answer");
        assert!(answer.tokens.estimated, "{:?}", answer.tokens);
        assert!(answer.tokens.input > 0 && answer.tokens.output > 4, "{:?}", answer.tokens);
        assert_eq!(budget.used().tokens, answer.tokens);
        let error = caller.call(&*model, request("once more"), &ctx).await.expect_err("used up");
        assert_eq!((error.code().0, server.received().len()), ("W0601", 2));
    }
}

#[tokio::test]
async fn tool_calls_come_in_fragments_and_in_parallel() {
    let chunks = [
        fragment(0, Some("c1"), Some("lookup"), ""),
        fragment(0, None, None, "{\"order_id\""),
        fragment(1, Some("c2"), Some("add"), "{\"a\":1,"),
        fragment(0, None, None, ":\"A1\"}"),
        fragment(1, None, None, "\"b\":2}"),
    ];
    let server = server(move |_, _| whole(&chunks, "tool_calls")).await;
    let answer = ask_once(&server).await.expect("an answer");
    let calls: Vec<_> = answer
        .message
        .tool_calls()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.args.clone()))
        .collect();
    let lookup = ("c1", "lookup", json!({"order_id": "A1"}));
    assert_eq!(calls, [lookup, ("c2", "add", json!({"a": 1, "b": 2}))]);
    assert_eq!(answer.finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn a_stream_that_stops_is_truncated_however_it_stops() {
    let half = [words("Hel"), words("lo")];
    for reply in [stream(&half), stream(&half).end(), stream(&half).hang()] {
        let error = refused(reply).await;
        assert!(matches!(error, ModelError::Truncated { events: 2, .. }), "{error}");
        assert!(error.is_retriable());
    }
}

#[tokio::test]
async fn what_goes_wrong_has_its_own_name() {
    let json = [("content-type", "application/json")];
    let quota = r#"{"error":{"message":"no money: sk-hunter2","code":"insufficient_quota"}}"#;
    for (reply, code) in [
        (Reply::full(401, &json, r#"{"error":{"message":"bad key sk-hunter2"}}"#), "W0303"),
        (Reply::full(429, &json, quota), "W0304"),
        (Reply::full(500, &[], "oops sk-hunter2"), "W0305"),
        (Reply::full(404, &json, r#"{"error":{"message":"no model sk-hunter2"}}"#), "W0306"),
        (Reply::full(200, &[], "<html>login</html>"), "W0308"),
        (Reply::full(200, &[], "data: {oops\n\n"), "W0308"),
        (Reply::full(200, &json, r#"{"error":{"message":"overloaded"}}"#), "W0305"),
        (Reply::nothing(), "W0309"),
        (Reply::nothing().hang(), "W0309"),
        (Reply::full(302, &[("location", "http://10.0.0.1/")], ""), "W0309"),
        (Reply::full(303, &[("location", "/v1/chat/completions/")], ""), "W0309"),
    ] {
        assert_eq!(refused(reply.clone()).await.code().0, code, "{reply:?}");
    }
}

#[tokio::test]
async fn a_redirect_keeps_the_request_and_goes_to_no_other_origin() {
    let other = server(|_, _| whole(&[words("from another")], "stop")).await;
    for status in [301, 302, 307, 308] {
        let moved = server(move |number, _| match number {
            0 => Reply::full(status, &[("location", "/v1/chat/completions/")], ""),
            _ => whole(&[words("here")], "stop"),
        })
        .await;
        let answer = ask_once(&moved).await.expect("an answer");
        assert_eq!(answer.message.joined_text(), "here", "{status}");
        let received = moved.received();
        assert_eq!(received[1].path, "/v1/chat/completions/", "{status}");
        assert_eq!(
            (&received[1].method, &received[1].body),
            (&received[0].method, &received[0].body)
        );

        let location = other.url("/v1/chat/completions?key=hunter2");
        let error = refused(Reply::full(status, &[("location", &location)], "")).await;
        let text = error.to_string();
        let target = other.url("/v1/chat/completions");
        assert!(text.contains(&target) && text.contains(&format!("status {status}")), "{text}");
        assert!(!error.is_retriable());
    }
    assert!(other.received().is_empty());
}

#[tokio::test]
async fn media_that_a_model_refuses_are_left_out_of_its_requests() {
    let refusals = [
        (404, r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#),
        (
            400,
            r#"{"error":{"message":"Invalid content type. image_url is only supported by certain models."}}"#,
        ),
        (400, r#"{"error":{"message":"messages[0].content must be a string"}}"#),
        (
            500,
            r#"{"error":{"message":"image input is not supported - hint: you may need to provide the mmproj"}}"#,
        ),
    ];
    for (status, refusal) in refusals {
        let server = server(move |_, received| {
            match String::from_utf8_lossy(&received.body).contains("image_url") {
                true => Reply::full(status, &[("content-type", "application/json")], refusal),
                false => whole(&[words("seen")], "stop"),
            }
        })
        .await;
        let mut request = request("see");
        request.messages[0].parts.push(Part::Media(weftwork_types::message::Media {
            media_type: "image/png".to_owned(),
            url: "data:image/png;base64,AA==".to_owned(),
        }));
        for requests in [2, 3] {
            let desk = Desk::new();
            let clock = ManualClock::moved_by_sleeps();
            let caller = ModelCaller::new(RetryPolicy::once());
            let model = waiting(&server, "", PATIENCE_MS);
            let answer = caller.call(&*model, request.clone(), &desk.context(&clock)).await;
            assert_eq!(answer.expect("an answer").message.joined_text(), "seen", "{refusal}");
            assert_eq!(server.received().len(), requests, "{refusal}");
            let sent = String::from_utf8_lossy(&server.received()[requests - 1].body).into_owned();
            assert!(sent.contains("this model does not take it"), "{sent}");
        }
    }
    // Another refusal is passed on.
    let error = refused(Reply::full(400, &[], "image format not supported")).await;
    assert_eq!(error.code().0, "W0306");
}

#[tokio::test]
async fn the_cost_in_a_header_is_read() {
    for (header, cost) in [("0.0077", Some(7700)), ("0.0", None), ("none", None)] {
        let server = server(move |_, _| {
            let text = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]});
            let headers =
                [("content-type", "application/json"), ("x-litellm-response-cost", header)];
            Reply::full(200, &headers, text.to_string())
        })
        .await;
        let mut events = waiting(&server, "", PATIENCE_MS).stream(Arc::new(request("hi")));
        let mut found = None;
        while let Some(event) = events.next().await {
            if let ChatEvent::Cost(micro_usd) = event.expect("an event") {
                found = Some(micro_usd);
            }
        }
        assert_eq!(found, cost, "{header}");
    }
}

#[tokio::test]
async fn a_slow_server_is_a_timeout() {
    let error = refused(Reply::nothing().hang()).await;
    let ModelError::Transport { source: EgressError::Timeout { what, after_ms, .. }, .. } = error
    else {
        panic!("expected a timeout, found: {error}");
    };
    assert_eq!((what, after_ms), ("answer", PATIENCE_MS));
}

#[tokio::test]
async fn an_answer_without_end_does_not_fill_the_memory() {
    let line = words(&"x".repeat(512 * 1024));
    let chunks = vec![line; 40];
    let error = refused(stream(&chunks)).await;
    assert!(error.to_string().contains("16 MiB"), "{error}");
}

#[tokio::test]
async fn a_server_that_answers_in_one_piece_is_understood() {
    let body = json!({
        "id": "lab-1", "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "whole"}}],
    });
    let server = server(move |_, _| {
        Reply::full(200, &[("content-type", "application/json")], body.to_string())
    });
    let server = server.await;
    let answer = ask_once(&server).await.expect("an answer");
    assert_eq!((answer.message.joined_text().as_str(), answer.tokens.output), ("whole", 2));
}

#[tokio::test]
async fn throttling_is_waited_for_and_every_attempt_is_counted() {
    let server = server(|number, _| match number {
        0 => Reply::full(429, &[("retry-after", "7")], r#"{"error":{"message":"slow down"}}"#),
        1 => stream(&[words("Hel")]),
        _ => whole(&[words("Hello")], "stop"),
    });
    let server = server.await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let caller = ModelCaller::default();
    let answer = caller.call(&*model(&server, ""), request("hi"), &desk.context(&clock)).await;
    assert_eq!(answer.expect("an answer").message.joined_text(), "Hello");

    assert_eq!(server.received().len(), 3);
    let sleeps = clock.sleeps();
    assert_eq!(sleeps[0], Duration::from_secs(7));
    assert!(sleeps[1] >= Duration::from_millis(500) && sleeps[1] <= Duration::from_secs(1));

    let facts = desk.facts();
    let told: Vec<_> =
        facts.iter().map(|fact| (fact.attempt, fact.status, fact.error_code.as_deref())).collect();
    assert_eq!(
        told,
        [
            (1, UsageStatus::Error, Some("W0304")),
            (2, UsageStatus::Error, Some("W0307")),
            (3, UsageStatus::Ok, None),
        ]
    );
    assert_eq!(desk.booked(), facts);
    assert!(facts[1].tokens.estimated && facts[1].tokens.output == 1, "{:?}", facts[1].tokens);
    assert_eq!(facts[0].tokens.input, 0, "a refused attempt used nothing");
    assert_ne!(facts[0].invocation_id, facts[1].invocation_id);
    assert_eq!(facts[0].prompt_hash, facts[2].prompt_hash);

    let events = desk.events.lock().expect("a lock");
    let resets = events.iter().filter(|event| matches!(event, AiEvent::AttemptReset(_)));
    assert_eq!(resets.count(), 1, "only the second attempt had shown anything");
    drop(events);
    assert_eq!(desk.shown(), "HelHello");
}

#[tokio::test]
async fn a_server_that_always_fails_is_asked_three_times() {
    let server = server(|_, _| Reply::full(503, &[], "down")).await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let caller = ModelCaller::default();
    let answer = caller.call(&*model(&server, ""), request("hi"), &desk.context(&clock)).await;
    let error = answer.expect_err("down");
    assert_eq!((error.code().0, error.attempts), ("W0305", 3));
    let details = error.fault().details.expect("they are known");
    assert_eq!((details.phase, details.attempt), (Some(Phase::Model), Some(3)));
    let used = desk.facts().into_iter().map(|fact| Usage::model_call(fact.tokens));
    assert_eq!(details.usage, used.reduce(|sum, used| sum + used));
    assert_eq!((server.received().len(), desk.facts().len(), desk.booked().len()), (3, 3, 3));
    assert!(desk.settled.lock().expect("a lock").is_empty());
}

#[tokio::test]
async fn a_refused_key_is_not_tried_again() {
    let server = server(|_, _| Reply::full(401, &[], "no")).await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let caller = ModelCaller::default();
    let answer = caller.call(&*model(&server, ""), request("hi"), &desk.context(&clock)).await;
    let error = answer.expect_err("refused");
    assert_eq!(
        error.to_string(),
        "provider `lab` refused the key (status 401): no; check `LAB_KEY`"
    );
    assert_eq!((server.received().len(), desk.facts().len()), (1, 1));
}

pub(crate) fn weather() -> ToolSpec {
    ToolSpec {
        name: "get_weather".to_owned(),
        description: "Tells the weather".to_owned(),
        parameters: json!({
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string"}}, "additionalProperties": false,
        }),
        output: None,
        effect: Effect::ReadOnly,
        on_unknown: UnknownOutcome::Idempotent,
        shown: None,
        examples: vec![ToolExample {
            request: "Weather in Rome?".to_owned(),
            args: json!({"city": "Rome"}),
        }],
    }
}

#[tokio::test]
async fn a_server_that_knows_no_tools_is_held_to_a_schema() {
    let chunks = [words("{\"tool\":\"get_wea"), words("ther\",\"args\":{\"city\":\"Oslo\"}}")];
    let server = server(move |_, _| whole(&chunks, "stop")).await;
    let desk = Desk::new();
    let clock = ManualClock::moved_by_sleeps();
    let request = ChatRequest { tools: vec![weather()], ..request("Weather in Oslo?") };
    let model = model(&server, "\"tools_as_schema\"");
    let answer = ModelCaller::default().call(&*model, request, &desk.context(&clock)).await;
    let answer = answer.expect("an answer");

    let [Part::ToolCall(call)] = answer.message.parts.as_slice() else { panic!("{answer:?}") };
    assert_eq!((call.name.as_str(), &call.args), ("get_weather", &json!({"city": "Oslo"})));
    assert!(call.id.as_str().starts_with("call_"), "an id is made: {}", call.id);
    assert_eq!((answer.finish, answer.tokens.output), (FinishReason::ToolCalls, 7));
    assert_eq!(desk.shown(), "", "nobody is shown the JSON of a choice");

    let body: Value = serde_json::from_slice(&server.received()[0].body).expect("json");
    assert!(body.get("tools").is_none());
    assert_eq!(body["messages"][0]["role"], "system");
    assert_eq!(body["response_format"]["type"], "json_schema");
}
