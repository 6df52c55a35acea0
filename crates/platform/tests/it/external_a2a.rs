//! Agents of other servers that are asked by A2A.

use crate::peer::{
    Partner, Reply, Scene, URL, answers, body, breaks, events, header, is_get, refuses_to_connect,
    reply,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weftwork_a2a_wire::CardKey;
use weftwork_types::port::{Clock as _, EgressRequest};

const CARD: &str = "/.well-known/agent-card.json";
const A2A: &str = "endpoint: 'https://partner.example', retries: 0";

/// An answer, and the code of the failure that it is.
type Case = (fn() -> Reply, &'static str);

/// An answer to a message, and the code of the failure that it is; `None` if it leaves the outcome unknown.
type SentCase = (fn() -> Reply, Option<&'static str>);

/// A card with an address of a binding.
fn card(binding: &str, streaming: bool) -> Value {
    json!({
        "name": "Golf",
        "supportedInterfaces": [{
            "url": format!("{URL}/a2a"), "protocolBinding": binding, "protocolVersion": "1.0",
        }],
        "capabilities": {"streaming": streaming},
    })
}

fn status(state: &str, text: &str) -> Value {
    let message = json!({"messageId": text, "role": "ROLE_AGENT", "parts": [{"text": text}]});
    match text {
        "" => json!({"state": format!("TASK_STATE_{state}")}),
        _ => json!({"state": format!("TASK_STATE_{state}"), "message": message}),
    }
}

fn task(state: &str, text: &str) -> Value {
    json!({"id": "t1", "contextId": "c1", "status": status(state, text)})
}

fn result(value: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": value})
}

fn status_update(state: &str, text: &str) -> Value {
    result(
        &json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": status(state, text)}}),
    )
}

fn chunk(text: &str, append: bool) -> Value {
    result(&json!({"artifactUpdate": {
        "taskId": "t1", "contextId": "c1", "append": append,
        "artifact": {"artifactId": "a", "parts": [{"text": text}]},
    }}))
}

/// A server whose card is this one, and whose further answers are those of a script, by the methods of
/// JSON-RPC.
fn server(card: Value, script: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Partner {
    let seen = std::sync::Mutex::new(std::collections::BTreeMap::<String, usize>::new());
    Partner::new(move |_, request| {
        if is_get(request, CARD) {
            return answers(200, &card);
        }
        let method = method_of(request);
        let number = {
            let mut seen = seen.lock().expect("no panic");
            let count = seen.entry(method.clone()).or_default();
            *count += 1;
            *count - 1
        };
        script(&method, number)
    })
}

fn method_of(request: &EgressRequest) -> String {
    body(request)["method"].as_str().unwrap_or_default().to_owned()
}

fn methods(scene: &Scene) -> Vec<String> {
    let got = scene.partner.got();
    got.iter().filter(|request| !is_get(request, CARD)).map(method_of).collect()
}

#[tokio::test]
async fn a_task_is_streamed_and_its_context_goes_on() {
    let script = |_: &str, _| {
        events(
            &[
                result(&json!({"task": task("SUBMITTED", "")})),
                status_update("WORKING", "Counting"),
                chunk("Four", false),
                chunk("teen", true),
                status_update("COMPLETED", ""),
            ],
            false,
        )
    };
    let external = format!("{A2A}, authentication: {{type: bearer, secret: PARTNER_KEY}}");
    let scene = Scene::new(&external, server(card("JSONRPC", true), script)).await;
    let first = scene.ask(json!({"userMessage": "How many?"})).await;
    assert_eq!(first.content, Some(json!("Fourteen")), "{first:?}");
    assert_eq!(
        first.metadata["external"],
        json!({"agent": "partner", "context": "c1", "task": "t1"})
    );
    let second = scene.ask(json!({"userMessage": "Again", "input": {"n": 1}})).await;
    assert!(second.success, "{second:?}");
    assert_eq!(scene.partner.paths(), [CARD, "/a2a", "/a2a"], "the card is known");
    let got = scene.partner.got();
    for request in &got {
        assert_eq!(header(request, "authorization"), Some("Bearer CANARY-KEY"), "{}", request.url);
    }
    assert_eq!(header(&got[1], "a2a-version"), Some("1.0"));
    let sent = body(&got[1]);
    assert_eq!(sent["method"], "SendStreamingMessage");
    let message = &sent["params"]["message"];
    assert_eq!(
        (&message["role"], &message["parts"]),
        (&json!("ROLE_USER"), &json!([{"text": "How many?"}]))
    );
    assert!(message["messageId"].as_str().is_some_and(|id| id.len() >= 32), "{message}");
    assert_eq!(message["contextId"], json!(null));
    assert_eq!(message["metadata"]["weft_chain"]["depth"], 1);
    let message = &body(&got[2])["params"]["message"];
    assert_eq!(message["contextId"], "c1");
    assert_eq!(message["parts"][1]["data"], json!({"n": 1}));
}

#[tokio::test]
async fn a_secret_that_comes_back_in_pieces_is_in_no_answer() {
    let script = |_: &str, _| {
        events(
            &[
                result(&json!({"task": task("WORKING", "")})),
                chunk("It is CANA", false),
                chunk("RY-KEY.", true),
                status_update("COMPLETED", ""),
            ],
            false,
        )
    };
    let external = format!("{A2A}, authentication: {{type: bearer, secret: PARTNER_KEY}}");
    let scene = Scene::new(&external, server(card("JSONRPC", true), script)).await;
    let answer = scene.ask(json!({"userMessage": "Your token?"})).await;
    assert_eq!(answer.content, Some(json!("It is [secret].")), "{answer:?}");
}

#[tokio::test]
async fn a_server_without_streams_is_asked_until_the_task_has_ended() {
    let script = |method: &str, number| match (method, number) {
        ("SendMessage", _) => answers(200, &result(&json!({"task": task("WORKING", "")}))),
        ("GetTask", 0) => answers(200, &result(&task("WORKING", ""))),
        _ => {
            let mut done = task("COMPLETED", "");
            done["artifacts"] = json!([
                {"artifactId": "a", "parts": [{"data": {"clubs": 14}, "mediaType": "application/json"}]},
            ]);
            answers(200, &result(&done))
        }
    };
    let clock = weftwork_types::port::ManualClock::moved_by_sleeps();
    let partner = server(card("JSONRPC", false), script);
    let scene = Scene::at(Some(clock), A2A, "", partner).await;
    let answer = scene.ask(json!({"userMessage": "How many?"})).await;
    assert_eq!(answer.content, Some(json!({"clubs": 14})), "{answer:?}");
    assert_eq!(methods(&scene), ["SendMessage", "GetTask", "GetTask"]);
    let sent = body(&scene.partner.got()[1]);
    assert_eq!(sent["params"]["configuration"]["returnImmediately"], true);
}

#[tokio::test]
async fn a_task_is_found_again_behind_a_server_that_was_down() {
    // Long enough for the breaker to open.
    const LOOKS_DOWN: usize = 12;
    for streaming in [false, true] {
        let script = |method: &str, number| match (method, number) {
            ("SendMessage", _) => answers(200, &result(&json!({"task": task("WORKING", "")}))),
            ("SendStreamingMessage", _) => {
                events(&[result(&json!({"task": task("WORKING", "")}))], true)
            }
            (_, number) if number < LOOKS_DOWN => refuses_to_connect(),
            (_, LOOKS_DOWN) => reply(503, &[], "starting"),
            _ => {
                let mut done = task("COMPLETED", "");
                done["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "done"}]}]);
                match method {
                    "SubscribeToTask" => events(&[result(&json!({"task": done}))], false),
                    _ => answers(200, &result(&done)),
                }
            }
        };
        let clock = weftwork_types::port::ManualClock::moved_by_sleeps();
        let partner = server(card("JSONRPC", streaming), script);
        let scene = Scene::at(Some(clock), A2A, "", partner).await;
        let answer = scene.ask(json!({"userMessage": "Go."})).await;
        assert_eq!(answer.content, Some(json!("done")), "{answer:?}");
        assert_eq!(sent_texts(&scene), ["Go."], "the message is sent once");
    }
}

#[tokio::test]
async fn a_task_that_is_given_up_is_named_and_its_context_goes_on() {
    let script = |method: &str, _| match method {
        "SendMessage" => answers(200, &result(&json!({"task": task("WORKING", "")}))),
        _ => refuses_to_connect(),
    };
    let clock = weftwork_types::port::ManualClock::moved_by_sleeps();
    let partner = server(card("JSONRPC", false), script);
    let scene = Scene::at(Some(clock.clone()), A2A, "", partner).await;
    let begun = clock.elapsed();
    let answer = scene.ask(json!({"userMessage": "Go."})).await;
    assert_eq!(answer.metadata["code"], "W1065", "{answer:?}");
    assert_eq!(
        answer.metadata["external"],
        json!({"agent": "partner", "context": "c1", "task": "t1"})
    );
    assert!(clock.elapsed() - begun >= std::time::Duration::from_secs(60 * 60), "for 60 minutes");
    clock.advance(std::time::Duration::from_secs(60));
    scene.ask(json!({"userMessage": "And?"})).await;
    let got = scene.partner.got();
    let asked = got.iter().filter(|request| !is_get(request, CARD)).map(body);
    let sent: Vec<_> = asked.filter(|body| body["method"] == "SendMessage").collect();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[1]["params"]["message"]["contextId"], "c1");
}

#[tokio::test]
async fn the_binding_with_paths_is_spoken_too() {
    let mut interface = card("HTTP+JSON", false);
    interface["supportedInterfaces"][0]["tenant"] = json!("golf");
    let partner = Partner::new(move |_, request| match request.url.replace(URL, "").as_str() {
        CARD => answers(200, &interface),
        "/a2a/golf/message:send" => answers(200, &json!({"task": task("WORKING", "")})),
        "/a2a/golf/tasks/t1?historyLength=0" => answers(200, &task("COMPLETED", "Fourteen")),
        other => panic!("{other}"),
    });
    let scene = Scene::new(A2A, partner).await;
    let answer = scene.ask(json!({"userMessage": "How many?"})).await;
    assert_eq!(answer.content, Some(json!("Fourteen")), "{answer:?}");
    let got = scene.partner.got();
    assert_eq!(header(&got[1], "content-type"), Some("application/a2a+json"));
    assert_eq!(body(&got[1])["tenant"], "golf");
}

#[tokio::test]
async fn a_broken_stream_is_opened_again_and_the_message_is_sent_once() {
    let script = |method: &str, _| match method {
        "SendStreamingMessage" => {
            events(&[result(&json!({"task": task("WORKING", "")})), chunk("Four", false)], true)
        }
        "GetTask" => {
            let mut known = task("WORKING", "");
            known["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "Four"}]}]);
            answers(200, &result(&known))
        }
        _ => events(
            &[
                result(&json!({"task": task("WORKING", "")})),
                chunk("Fourteen", false),
                status_update("COMPLETED", ""),
            ],
            false,
        ),
    };
    let clock = weftwork_types::port::ManualClock::moved_by_sleeps();
    let scene = Scene::at(Some(clock), A2A, "", server(card("JSONRPC", true), script)).await;
    let answer = scene.ask(json!({"userMessage": "How many?"})).await;
    assert_eq!(answer.content, Some(json!("Fourteen")), "{answer:?}");
    assert_eq!(methods(&scene), ["SendStreamingMessage", "GetTask", "SubscribeToTask"]);
}

#[tokio::test]
async fn questions_of_a_task_become_questions_and_the_answer_its_next_message() {
    let script = |method: &str, number| match (method, number) {
        ("GetTask", _) => answers(200, &result(&task("INPUT_REQUIRED", "Which colour?"))),
        (_, 0) => {
            events(&[result(&json!({"task": task("INPUT_REQUIRED", "Which colour?")}))], false)
        }
        // The state before the answer does not count again.
        _ => events(
            &[
                result(&json!({"task": task("INPUT_REQUIRED", "Which colour?")})),
                chunk("green", false),
                status_update("COMPLETED", ""),
            ],
            false,
        ),
    };
    let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
    let asked = scene.ask(json!({"userMessage": "Paint."})).await;
    let text = json!(asked.metadata["questions"]).to_string();
    assert!(text.contains("agent Golf at https://partner.example asks: Which colour?"), "{text}");
    assert_eq!(scene.answer(&asked, json!("green")).await["content"], "green");
    let sent = ["SendStreamingMessage", "GetTask", "SendStreamingMessage"];
    assert_eq!(methods(&scene), sent, "nothing is sent twice");
    let message = &body(&scene.partner.got()[3])["params"]["message"];
    assert_eq!((&message["taskId"], &message["contextId"]), (&json!("t1"), &json!("c1")));
    assert_eq!(message["parts"], json!([{"text": "green"}]));
}

#[tokio::test]
async fn an_answer_may_be_followed_by_changes_alone() {
    let script = |method: &str, number| match (method, number) {
        ("GetTask", 0) => answers(200, &result(&task("INPUT_REQUIRED", "Which?"))),
        ("GetTask", _) => {
            let mut whole = task("COMPLETED", "");
            let part = |id: &str| json!({"artifactId": id, "parts": [{"text": id}]});
            whole["artifacts"] = json!([part("before"), part("after")]);
            answers(200, &result(&whole))
        }
        (_, 0) => events(&[result(&json!({"task": task("INPUT_REQUIRED", "Which?")}))], false),
        _ => events(
            &[status_update("WORKING", ""), chunk("after", false), status_update("COMPLETED", "")],
            false,
        ),
    };
    let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
    let asked = scene.ask(json!({"userMessage": "Paint."})).await;
    assert_eq!(scene.answer(&asked, json!("green")).await["content"], "before\n\nafter");
    let sent = ["SendStreamingMessage", "GetTask", "SendStreamingMessage", "GetTask"];
    assert_eq!(methods(&scene), sent);
}

/// The texts of the messages that a server got, by their tasks.
fn sent_texts(scene: &Scene) -> Vec<Value> {
    let got = scene.partner.got();
    let asked = got.iter().filter(|request| !is_get(request, CARD));
    let sent = asked.filter(|request| method_of(request).starts_with("Send"));
    sent.map(|request| body(request)["params"]["message"]["parts"][0]["text"].clone()).collect()
}

#[tokio::test]
async fn a_task_that_went_on_without_the_answer_gives_its_result() {
    // Somebody answered there.
    let ended = || {
        let mut whole = task("COMPLETED", "");
        whole["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "ordered"}]}]);
        whole
    };
    for value in ["approve", "reject"] {
        let script = move |method: &str, _| match method {
            "GetTask" => answers(200, &result(&ended())),
            _ => events(&[result(&json!({"task": task("INPUT_REQUIRED", "May I?")}))], false),
        };
        let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
        let asked = scene.ask(json!({"userMessage": "Order."})).await;
        let answer = scene.answer(&asked, json!(value)).await;
        assert_eq!(answer["content"], "ordered", "{answer}");
        let warnings = answer["metadata"]["warnings"].to_string();
        assert!(warnings.contains("which was not taken"), "{warnings}");
        assert_eq!(sent_texts(&scene), ["Order."], "the answer is not sent");
    }
    // It ends between the look and the answer.
    let script = move |method: &str, number| match (method, number) {
        ("GetTask", 0) => answers(200, &result(&task("INPUT_REQUIRED", "May I?"))),
        ("GetTask", _) => answers(200, &result(&ended())),
        (_, 0) => events(&[result(&json!({"task": task("INPUT_REQUIRED", "May I?")}))], false),
        _ => {
            let error = json!({"code": -32004, "message": "the task has ended"});
            answers(200, &json!({"jsonrpc": "2.0", "id": 1, "error": error}))
        }
    };
    let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
    let asked = scene.ask(json!({"userMessage": "Order."})).await;
    assert_eq!(scene.answer(&asked, json!("approve")).await["content"], "ordered");
}

#[tokio::test]
async fn an_answer_is_not_sent_to_another_question() {
    let script = |method: &str, number| match (method, number) {
        ("GetTask", _) => answers(200, &result(&task("INPUT_REQUIRED", "Two?"))),
        (_, 0) => events(&[result(&json!({"task": task("INPUT_REQUIRED", "One?")}))], false),
        _ => events(&[result(&json!({"task": task("COMPLETED", "done")}))], false),
    };
    let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
    let asked = scene.ask(json!({"userMessage": "Order."})).await;
    let thread =
        scene.bench.thread("partner", asked.metadata["thread"].as_str().expect("a thread"));
    let question: weftwork_types::interrupt::Interrupt =
        serde_json::from_value(asked.metadata["questions"][0].clone()).expect("a question");
    let ended = thread.answer(question.answer("1")).await.expect("asks again");
    let second = &ended.questions()[0];
    assert!(json!(second).to_string().contains("Two?"), "{second:?}");
    thread.answer(second.answer("2")).await.expect("ends");
    assert_eq!(sent_texts(&scene), ["Order.", "2"]);
}

#[tokio::test]
async fn listed_questions_keep_their_forms() {
    let mut asking = task("AUTH_REQUIRED", "May I?");
    asking["status"]["message"]["parts"] = json!([
        {"text": "May I?"},
        {"data": {"questions": [
            {"id": "q1", "text": "May I?", "tool": "shop/order", "arguments": {"n": 1}},
            {"id": "q2", "text": "How many?", "schema": {"type": "integer"}},
        ]}},
    ]);
    let script = move |method: &str, number| match (method, number) {
        ("GetTask", _) => answers(200, &result(&asking)),
        (_, 0) => events(&[result(&json!({"task": asking}))], false),
        _ => events(&[result(&json!({"task": task("COMPLETED", "done")}))], false),
    };
    let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
    let asked = scene.ask(json!({"userMessage": "Order."})).await;
    let first = &asked.metadata["questions"][0];
    assert!(first.to_string().contains("shop/order"), "{first}");
    let thread =
        scene.bench.thread("partner", asked.metadata["thread"].as_str().expect("a thread"));
    let answer = |of: &Value, value: Value| {
        let question: weftwork_types::interrupt::Interrupt =
            serde_json::from_value(of.clone()).expect("a question");
        question.answer(value)
    };
    assert!(thread.answer(answer(first, json!("perhaps"))).await.is_err(), "no decision");
    let ended = thread.answer(answer(first, json!("approve"))).await.expect("asks again");
    let second = json!(ended.questions()[0]);
    assert!(second.to_string().contains("How many?"), "{second}");
    thread.answer(answer(&second, json!(3))).await.expect("ends");
    let message = &body(&scene.partner.got()[3])["params"]["message"];
    assert_eq!(message["parts"][0]["data"], json!({"answers": {"q1": "approve", "q2": 3}}));
}

#[tokio::test]
async fn tasks_without_a_result_are_failures_of_the_agent() {
    for (state, text) in [
        ("FAILED", "failed: no clubs"),
        ("REJECTED", "rejected the request"),
        ("CANCELED", "cancelled the task"),
    ] {
        let told = if state == "FAILED" { "no clubs" } else { "" };
        let script =
            move |_: &str, _| events(&[result(&json!({"task": task(state, told)}))], false);
        let scene = Scene::new(A2A, server(card("JSONRPC", true), script)).await;
        let answer = scene.ask(json!({"userMessage": "Go."})).await;
        assert_eq!(answer.metadata["code"], "W1065", "{answer:?}");
        let error = answer.error.expect("an error");
        assert_eq!(error, format!("the agent at {URL} {text}"));
    }
    // An answer without a task.
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]});
    let script = move |_: &str, _| answers(200, &result(&json!({"message": message})));
    let scene = Scene::new(A2A, server(card("JSONRPC", false), script)).await;
    let answer = scene.ask(json!({"userMessage": "Go."})).await;
    assert_eq!(answer.content, Some(json!("Hello")), "{answer:?}");
}

#[tokio::test]
async fn cards_that_cannot_be_believed_are_refused_before_anything_is_sent() {
    let at = |url: &str, version: &str| {
        let mut of = card("JSONRPC", true);
        of["supportedInterfaces"][0]["url"] = json!(url);
        of["supportedInterfaces"][0]["protocolVersion"] = json!(version);
        of
    };
    let own = format!("{URL}/a2a");
    let many = json!({"supportedInterfaces": vec![json!({}); 33]});
    let cards = [
        (at("https://other.example/a2a", "1.0"), "another server, https://other.example"),
        (at("https://partner.example:8443/a2a", "1.0"), "another server"),
        (at("http://partner.example/a2a", "1.0"), "another server"),
        (at("https://user:secret@partner.example/a2a", "1.0"), "another server"),
        (at(&own, "0.3"), "version 0.3 of the protocol; expected 1.0"),
        (json!({"url": own, "protocolVersion": "0.3.0"}), "version 0.3.0"),
        (card("GRPC", true), "JSONRPC or HTTP+JSON"),
        (json!({}), "JSONRPC or HTTP+JSON"),
        (json!({"supportedInterfaces": 1}), "invalid type"),
        (many, "33 addresses"),
    ];
    for (card, text) in cards {
        let scene = Scene::new(A2A, server(card.clone(), |_, _| breaks())).await;
        let answer = scene.ask(json!({"userMessage": "Go."})).await;
        assert_eq!(answer.metadata["code"], "W1067", "{card}: {answer:?}");
        let error = answer.error.expect("an error");
        assert!(error.contains(text), "{card}: {error}");
        assert_eq!(scene.partner.paths(), [CARD], "{card}");
    }
    let replies: [Case; 5] = [
        (breaks, "W0805"),
        (|| reply(200, &[], "<html>"), "W1067"),
        (|| reply(404, &[], "none"), "W1065"),
        (|| reply(301, &[("location", "https://other.example/card")], ""), "W1065"),
        (|| reply(200, &[], "x".repeat(300 << 10)), "W1067"),
    ];
    for (made, code) in replies {
        let scene = Scene::new(A2A, Partner::new(move |_, _| made())).await;
        assert_eq!(scene.code("Go.").await, code);
        assert_eq!(scene.partner.paths(), [CARD]);
    }
}

/// A key whose private part is this byte, repeated.
fn key(byte: u8) -> CardKey {
    let head = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];
    let body = STANDARD.encode([&head[..], &[byte; 32]].concat());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    CardKey::from_pem(&pem).expect("a key")
}

#[tokio::test]
async fn a_card_is_signed_by_a_pinned_key_or_refused() {
    let pinned = format!("{A2A}, card_keys: [{}]", key(1).key_set()["keys"][0]);
    let signed = |by: u8| {
        let mut of = card("JSONRPC", true);
        of["signatures"] = json!([key(by).sign(&of).expect("is signed")]);
        of
    };
    let mut forged = signed(1);
    forged["supportedInterfaces"][0]["url"] = json!(format!("{URL}/elsewhere"));
    // The address of another key is not followed.
    let mut led = signed(2);
    led["signatures"][0]["header"] = json!({"jku": format!("{URL}/keys.json")});
    let done = || events(&[result(&json!({"task": task("COMPLETED", "done")}))], false);
    for (card, text) in [
        (card("JSONRPC", true), "it has no signature"),
        (signed(2), "no key of `card_keys` has signed it"),
        (forged, "no key of `card_keys` has signed it"),
        (led, "no key of `card_keys` has signed it"),
    ] {
        let scene = Scene::new(&pinned, server(card, move |_, _| done())).await;
        let answer = scene.ask(json!({"userMessage": "Go."})).await;
        assert_eq!(answer.metadata["code"], "W1067", "{answer:?}");
        assert!(answer.error.expect("an error").contains(text), "{text}");
        assert_eq!(scene.partner.paths(), [CARD]);
    }
    let scene = Scene::new(&pinned, server(signed(1), move |_, _| done())).await;
    assert!(scene.ask(json!({"userMessage": "Go."})).await.success);
}

#[tokio::test]
async fn answers_that_are_not_of_the_protocol_are_refused() {
    let replies: [SentCase; 10] = [
        (|| reply(200, &[("content-type", "application/json")], "<html>"), None),
        (|| answers(200, &json!({"jsonrpc": "2.0", "id": 1})), None),
        (
            || answers(200, &result(&json!({"task": {"id": "", "status": status("WORKING", "")}}))),
            None,
        ),
        (|| answers(200, &result(&json!({"task": task("DREAMING", "")}))), None),
        (|| answers(200, &result(&json!({"other": {}}))), None),
        (
            || {
                answers(
                    200,
                    &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32009, "message": "no"}}),
                )
            },
            Some("W1065"),
        ),
        (
            || {
                answers(
                    200,
                    &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}),
                )
            },
            None,
        ),
        (|| events(&[json!("no object")], false), None),
        (
            || {
                let other = json!({"statusUpdate": {"taskId": "t2", "contextId": "c1", "status": status("COMPLETED", "")}});
                events(&[result(&json!({"task": task("WORKING", "")})), result(&other)], false)
            },
            Some("W1066"),
        ),
        (
            || {
                let long = json!({"task": task("WORKING", &"x".repeat(2 << 20))});
                events(&[result(&long)], false)
            },
            None,
        ),
    ];
    for (number, (made, code)) in replies.into_iter().enumerate() {
        let scene = Scene::new(A2A, server(card("JSONRPC", true), move |_, _| made())).await;
        let answer = scene.ask(json!({"userMessage": "Go."})).await;
        assert_eq!(answer.metadata.get("code"), code.map(|of| json!(of)).as_ref(), "{number}");
        // The agent has the message: a person says whether it did what it was asked for.
        let questions = json!(answer.metadata.get("questions")).to_string();
        assert_eq!(questions.contains("once_outcome_unknown"), code.is_none(), "{number}");
    }
}

#[tokio::test]
async fn a_card_is_asked_for_again_by_its_tag_once_it_is_old() {
    let clock = weftwork_types::port::ManualClock::new();
    let partner = Partner::new(|_, request| {
        if !is_get(request, CARD) {
            return events(&[result(&json!({"task": task("COMPLETED", "done")}))], false);
        }
        let headers = [("etag", "\"1\""), ("cache-control", "public, max-age=60")];
        match header(request, "if-none-match") {
            Some("\"1\"") => reply(304, &headers, ""),
            _ => reply(200, &headers, card("JSONRPC", true).to_string()),
        }
    });
    let scene = Scene::at(Some(clock.clone()), A2A, "", partner).await;
    for _ in 0..2 {
        assert!(scene.ask(json!({"userMessage": "Go."})).await.success);
    }
    assert_eq!(scene.partner.paths(), [CARD, "/a2a", "/a2a"]);
    clock.advance(std::time::Duration::from_secs(60));
    assert!(scene.ask(json!({"userMessage": "Go."})).await.success);
    assert_eq!(scene.partner.paths()[3..], [CARD, "/a2a"]);
    assert_eq!(header(&scene.partner.got()[3], "if-none-match"), Some("\"1\""));
}
