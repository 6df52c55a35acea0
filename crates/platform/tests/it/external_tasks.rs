//! Agents of other servers that are asked in the form of definitions.

use crate::peer::{Partner, Scene, URL, answers, body, breaks, header, refuses_to_connect, reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weftwork_types::port::{EgressRequest, ManualClock, Method};

const TASKS: &str = "endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 0";

fn done(content: &Value) -> Value {
    json!({
        "success": true, "mode": "build", "content": content,
        "metadata": {"conversationId": "theirs", "run": "r1"},
    })
}

#[tokio::test]
async fn a_request_has_the_form_of_definitions_and_goes_on_in_the_conversation_there() {
    let external =
        format!("{TASKS}, agent: golf, authentication: {{type: bearer, secret: PARTNER_KEY}}");
    let scene =
        Scene::new(&external, Partner::new(|_, _| answers(200, &done(&json!({"clubs": 14})))))
            .await;
    let first = scene.ask(json!({"userMessage": "How many?", "payload": {"title": "Clubs"}})).await;
    assert!(first.success, "{first:?}");
    assert_eq!(first.content, Some(json!({"clubs": 14})));
    assert_eq!(first.metadata["external"]["context"], "theirs");
    let second = scene.ask(json!({"userMessage": "Again", "input": {"n": 1}})).await;
    assert!(second.success, "{second:?}");
    let got = scene.partner.got();
    assert_eq!(got[0].url, format!("{URL}/agent-to-agent/tasks"));
    assert_eq!(header(&got[0], "authorization"), Some("Bearer CANARY-KEY"));
    let chain: Value =
        serde_json::from_str(header(&got[0], "weft-chain").expect("a chain")).expect("JSON");
    assert_eq!(chain["depth"], 1);
    assert!(
        chain["agents"][0].as_str().is_some_and(|name| name.starts_with("partner@")),
        "{chain}"
    );
    let keys = got.iter().map(|request| header(request, "idempotency-key").expect("a key"));
    let keys: Vec<_> = keys.collect();
    assert!(keys[0] != keys[1] && keys[0].len() >= 32, "{keys:?}");
    let mut sent = body(&got[0]);
    let conversation = sent["conversationId"].take();
    assert_eq!(conversation.as_str().map(str::len), Some(36), "an id of its own: {conversation}");
    assert_eq!(
        sent,
        json!({
            "agent": "golf", "mode": "build", "userMessage": "How many?", "conversationId": null,
            "payload": {"title": "Clubs"},
        })
    );
    let sent = body(&got[1]);
    assert_eq!((&sent["conversationId"], &sent["input"]), (&json!("theirs"), &json!({"n": 1})));
}

#[tokio::test]
async fn answers_are_read_in_both_forms_and_refused_in_others() {
    let inner = json!({
        "success": true, "mode": "build",
        "payload": {"content": "text", "metadata": {"conversationId": "x"}},
    });
    let failed = json!({
        "success": false, "mode": "build", "error": "no clubs",
        "metadata": {"code": "W0301", "retriable": true},
    });
    let script = move |number: usize, _: &_| match number {
        0 => answers(200, &inner),
        // A run that failed.
        1 => answers(500, &failed),
        2 => answers(200, &json!({"success": "yes", "mode": "build"})),
        3 => reply(200, &[], "<html>"),
        4 => answers(404, &json!({"detail": "there is no agent"})),
        5 => answers(200, &json!({"content": "done"})),
        6 => reply(302, &[("location", "https://elsewhere.example/")], ""),
        _ => {
            answers(200, &json!({"success": true, "mode": "build", "content": "x".repeat(700_000)}))
        }
    };
    let scene = Scene::new(TASKS, Partner::new(script)).await;
    let first = scene.ask(json!({"userMessage": "one"})).await;
    assert_eq!(first.content, Some(json!("text")), "{first:?}");
    let second = scene.ask(json!({"userMessage": "two"})).await;
    assert_eq!(
        second.error.as_deref(),
        Some("the agent at https://partner.example failed: no clubs")
    );
    assert_eq!(
        (&second.metadata["code"], &second.metadata["retriable"]),
        (&json!("W1065"), &json!(true))
    );
    // What the server did is unknown, or it refused the request.
    for (message, code) in [
        ("three", None),
        ("four", None),
        ("five", Some("W1065")),
        ("six", None),
        ("seven", Some("W1065")),
    ] {
        let request = json!({"userMessage": message, "conversationId": message});
        let answer = scene.ask(request).await;
        assert_eq!(answer.metadata.get("code"), code.map(|of| json!(of)).as_ref(), "{answer:?}");
        let questions = json!(answer.metadata.get("questions")).to_string();
        let is_unknown = questions.contains("once_outcome_unknown")
            && questions.contains("an answer of https://partner.example cannot be used");
        assert_eq!(is_unknown, code.is_none(), "{answer:?}");
    }
    let cut = scene.ask(json!({"userMessage": "long"})).await;
    assert_eq!(cut.content.as_ref().map(|of| &of["cut"]), Some(&json!(true)));
    assert!(cut.metadata["warnings"].is_array(), "{:?}", cut.metadata);
}

#[tokio::test]
async fn an_approval_of_the_server_is_a_question_here() {
    let script = |number: usize, _: &_| match number {
        0 => answers(
            200,
            &json!({
                "success": true, "mode": "build", "content": "May I order?",
                "metadata": {
                    "status": "input_required", "approvalId": "a1", "conversationId": "theirs",
                    "questions": [{"id": "a1", "ask": {"tool": "shop/order", "args": {"n": 1}}}],
                },
            }),
        ),
        _ => answers(200, &done(&json!("ordered"))),
    };
    let external = format!("{TASKS}, agent: clerk");
    let scene = Scene::new(&external, Partner::new(script)).await;
    let asked = scene.ask(json!({"userMessage": "Order."})).await;
    assert_eq!(asked.metadata["status"], "input_required", "{asked:?}");
    assert_eq!(
        asked.metadata["questions"][0]["ask"]["value"],
        json!({
            "question": "agent clerk at https://partner.example asks: May I order?",
            "call": {"tool": "shop/order", "arguments": {"n": 1}},
        })
    );
    assert_eq!(scene.answer(&asked, json!("approve")).await["content"], "ordered");
    let got = scene.partner.got();
    assert_eq!(got.len(), 2, "the first request is not sent again");
    assert_eq!(
        body(&got[1]),
        json!({
            "agent": "clerk", "mode": "build", "userMessage": "", "conversationId": "theirs",
            "payload": {"orchestrationAction": "human-response", "approvalId": "a1", "decision": "approve"},
        })
    );
}

#[tokio::test]
async fn a_decision_that_comes_too_late_gives_what_came_of_the_earlier_one() {
    let script = |_: usize, request: &EgressRequest| {
        let payload = &body(request)["payload"];
        if payload.get("approvalId").is_none() {
            let metadata = json!({"status": "input_required", "approvalId": "a1"});
            let asks = json!({"success": true, "mode": "build", "content": "May I?", "metadata": metadata});
            return answers(200, &asks);
        }
        match payload.get("decision") {
            Some(_) => answers(
                409,
                &json!({"success": false, "mode": "build", "error": "it has another answer"}),
            ),
            None => answers(200, &done(&json!("ordered"))),
        }
    };
    let scene = Scene::new(TASKS, Partner::new(script)).await;
    let asked = scene.ask(json!({"userMessage": "Order."})).await;
    let ended = scene.answer(&asked, json!("reject")).await;
    assert_eq!(ended["content"], "ordered", "{ended}");
    let warnings = ended["metadata"]["warnings"].to_string();
    assert!(warnings.contains("before the answer to its question"), "{warnings}");
}

#[tokio::test]
async fn a_request_that_may_have_been_taken_is_not_sent_again_without_a_person() {
    let scene = Scene::new(TASKS, Partner::new(|_, _| breaks())).await;
    let asked = scene.ask(json!({"userMessage": "Order."})).await;
    assert_eq!(asked.metadata["status"], "input_required", "{asked:?}");
    assert!(json!(asked.metadata["questions"]).to_string().contains("once_outcome_unknown"));
    assert_eq!(scene.partner.got().len(), 1);
    // The server of another definition recognises it.
    let external =
        "endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 1, idempotent: true";
    let script = |number: usize, _: &_| match number {
        0 => breaks(),
        _ => answers(200, &done(&json!("ordered"))),
    };
    let scene = Scene::new(external, Partner::new(script)).await;
    let answer = scene.ask(json!({"userMessage": "Order."})).await;
    assert_eq!(answer.content, Some(json!("ordered")), "{answer:?}");
    let keys: Vec<_> = scene.partner.got();
    assert_eq!(header(&keys[0], "idempotency-key"), header(&keys[1], "idempotency-key"));
}

#[tokio::test]
async fn repetitions_that_are_used_up_leave_the_outcome_to_a_person() {
    let external =
        "endpoint: 'https://partner.example/agent-to-agent/tasks', retries: 2, idempotent: true";
    // With a check of the health the server is left alone between the attempts.
    let checked = format!("{external}, healthCheck: {{endpoint: /health}}");
    for (external, sends) in [(external, 3), (checked.as_str(), 2)] {
        for answer in ["call_again", "give_up"] {
            let is_well = Arc::new(AtomicBool::new(false));
            let switch = Arc::clone(&is_well);
            let clock = ManualClock::moved_by_sleeps();
            let partner = Partner::new(move |number, request| {
                let is_well = switch.load(Ordering::Relaxed);
                match request.method {
                    Method::Get if is_well || number < 4 => reply(200, &[], "ok"),
                    Method::Post if is_well => answers(200, &done(&json!("ordered"))),
                    _ => reply(503, &[], "busy"),
                }
            });
            let scene = Scene::at(Some(clock.clone()), external, "", partner).await;
            let asked = scene.ask(json!({"userMessage": "Order."})).await;
            assert_eq!(asked.metadata["status"], "input_required", "{asked:?}");
            let question = json!(asked.metadata["questions"]).to_string();
            assert!(question.contains("once_outcome_unknown"), "{question}");
            assert!(question.contains("status 503: busy"), "{question}");
            is_well.store(true, Ordering::Relaxed);
            clock.advance(Duration::from_secs(60));
            let ended = scene.answer(&asked, json!({"answer": answer})).await;
            let keys = scene.partner.got();
            let keys = keys.iter().filter_map(|request| header(request, "idempotency-key"));
            let keys: Vec<_> = keys.collect();
            match answer {
                "call_again" => {
                    assert_eq!(ended["content"], "ordered", "{ended}");
                    assert_eq!(keys, [keys[0]].repeat(sends + 1), "one key");
                }
                _ => {
                    assert_eq!(ended["error"]["code"], "W0132", "{ended}");
                    assert_eq!(keys.len(), sends);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_did_not_leave_is_a_failure_that_may_pass() {
    let scene = Scene::new(TASKS, Partner::new(|_, _| refuses_to_connect())).await;
    let answer = scene.ask(json!({"userMessage": "Order."})).await;
    assert_eq!(answer.metadata["code"], "W0803", "{answer:?}");
    assert_eq!(answer.metadata["retriable"], true);
    let missing = format!("{TASKS}, authentication: {{type: bearer}}");
    let scene = Scene::new(&missing, Partner::new(|_, _| breaks())).await;
    assert_eq!(scene.code("Order.").await, "W1061");
    assert!(scene.partner.got().is_empty());
}
