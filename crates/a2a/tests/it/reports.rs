//! Reports of users of other servers of this protocol, tried here.

use crate::world::{ADA, World, message, state, text_of};
use serde_json::{Map, Value, json};
use weftwork::testing::Step;
use weftwork::types::caller::Caller;
use weftwork::types::message::Message;
use weftwork::types::port::{AgentTurns, Says, TaskCaller, Turn};
use weftwork::types::{CallChain, OrgId, Principal, Rights};

/// A client that left, or whose server restarted, subscribes again and misses nothing of the task: it
/// begins with the task, also while it asks.
#[tokio::test]
async fn a_client_that_left_sees_the_rest_of_a_task_that_did_not_stop() {
    let world = World::new().await;
    let body = json!({"message": message("m1", "Write a.")});
    let mut first = world.open(ADA, "POST /a2a/clerk/message:stream", &body).await;
    let task = first.next().await.expect("the task")["task"].clone();
    drop(first);
    let id = task["id"].as_str().expect("an id");
    let subscribe = format!("POST /a2a/clerk/tasks/{id}:subscribe");
    let mut again = world.open(ADA, &subscribe, &Value::Null).await;
    let first = again.next().await.expect("the task");
    assert_eq!(first["task"]["id"], task["id"]);
    let mut now = state(&first["task"]).to_owned();
    while now != "TASK_STATE_AUTH_REQUIRED" {
        let event = again.next().await.expect("the stream is open while the task asks");
        now = state(&event["statusUpdate"]).to_owned();
    }
}

/// A task that has ended takes no message, in both bindings.
#[tokio::test]
async fn a_task_that_has_ended_takes_no_message() {
    let world = World::new().await;
    let task = world.ask("golf", "m1", "One.").await;
    let mut late = message("m2", "Two.");
    late["taskId"] = task["id"].clone();
    let late = json!({"message": late});
    for method in ["SendMessage", "SendStreamingMessage"] {
        assert_eq!(world.rpc(ADA, "golf", method, &late).await.code(), -32004, "{method}");
    }
    let refused = world.rest(ADA, "POST /a2a/golf/message:send", &late).await;
    assert_eq!((refused.status, refused.reason().as_str()), (400, "UNSUPPORTED_OPERATION"));
    assert_eq!(world.requests(), 1);
}

/// All who follow a task that waits see that it was cancelled, and so does its webhook.
#[tokio::test(start_paused = true)]
async fn a_cancelled_task_that_waited_reaches_its_streams_and_webhooks() {
    let world = World::new().await;
    let deliveries = tokio::spawn(world.server.deliveries().run());
    let task = world.ask("clerk", "m1", "Write a.").await;
    let id = task["id"].as_str().expect("an id");
    let config = json!({"taskId": id, "url": "https://example.com/hook"});
    world.rpc(ADA, "clerk", "CreateTaskPushNotificationConfig", &config).await.result();
    let subscribe = format!("GET /a2a/clerk/tasks/{id}:subscribe");
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = world.open(ADA, &subscribe, &Value::Null).await;
        stream.next().await.expect("the task");
        streams.push(stream);
    }
    world.rpc(ADA, "clerk", "CancelTask", &json!({"id": id})).await.result();
    for stream in streams {
        let rest = stream.rest().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(state(&rest[0]["statusUpdate"]), "TASK_STATE_CANCELED");
    }
    let received = world.web.received(1).await;
    assert_eq!(state(&received[0].body["statusUpdate"]), "TASK_STATE_CANCELED");
    deliveries.abort();
}

/// A message in the context of a task that asks is no new task, and says what to send.
#[tokio::test]
async fn a_message_in_a_context_that_waits_is_refused_with_the_reason() {
    let world = World::new().await;
    let task = world.ask("clerk", "m1", "Write a.").await;
    let mut next = message("m2", "yes");
    next["contextId"] = task["contextId"].clone();
    let refused = world.rpc(ADA, "clerk", "SendMessage", &json!({"message": next})).await;
    assert_eq!(refused.code(), -32004, "{}", refused.body);
    let id = task["id"].as_str().expect("an id");
    assert!(refused.body.contains(id), "the task that takes it: {}", refused.body);
    let mut wrong = message("m3", "approve");
    wrong["taskId"] = task["id"].clone();
    wrong["contextId"] = "another".into();
    let refused = world.rpc(ADA, "clerk", "SendMessage", &json!({"message": wrong})).await;
    assert_eq!(refused.code(), -32602, "{}", refused.body);
}

/// A run that A2A did not begin is answered on the page.
#[tokio::test]
async fn a_context_that_waits_for_another_protocol_says_where_it_is_answered() {
    let world = World::new().await;
    let task = world.ask("golf", "m1", "One.").await;
    let context = task["contextId"].as_str().expect("an id");
    let turn = Turn {
        agent: "clerk".to_owned(),
        mode: None,
        conversation: Some(context.to_owned()),
        says: Says::Messages { messages: vec![Message::user("Write a.")], input: None },
        after: None,
        metadata: Map::new(),
    };
    let org = OrgId::new("one").expect("an id");
    let by = TaskCaller {
        principal: Principal::new(org, "ada").with_rights(Rights::ALL),
        caller: Caller::local("request").expect("an id"),
        parent_span: None,
        idempotency_key: None,
        chain: CallChain::default(),
    };
    let begun = world.desk.platform.begin(by, turn).await.expect("begins");
    begun.outcome.await;
    for agent in ["clerk", "golf"] {
        let mut next = message("m2", "approve");
        next["contextId"] = context.into();
        let refused = world.rpc(ADA, agent, "SendMessage", &json!({"message": next})).await;
        assert_eq!(refused.code(), -32004, "{}", refused.body);
        let page = format!("/ui/#/thread/{}", begun.run.thread);
        assert!(refused.body.contains(&page), "{page}: {}", refused.body);
    }
}

#[tokio::test]
async fn a_call_of_unknown_outcome_takes_a_word_and_is_named_when_its_task_is_cancelled() {
    let world = World::of_cashier().await;
    let mut tasks = Vec::new();
    for id in ["m1", "m2"] {
        let task = world.ask("cashier", id, "Pay a.").await;
        assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
        let parts = &task["status"]["message"]["parts"];
        let text = parts[0]["text"].as_str().expect("a text");
        assert!(text.contains("It may have been made, with {\"line\":\"a\"}"), "{text}");
        let answers = parts[1].pointer("/data/questions/0/schema/properties/answer/enum");
        assert_eq!(answers, Some(&json!(["happened", "call_again", "give_up"])), "{parts}");
        tasks.push(task["id"].clone());
    }
    for (id, text, code) in [("m3", "perhaps", Some(-32602)), ("m4", "give up", None)] {
        let mut given = message(id, text);
        given["taskId"] = tasks[0].clone();
        let sent = world.rpc(ADA, "cashier", "SendMessage", &json!({"message": given})).await;
        match code {
            Some(code) => assert_eq!(sent.code(), code, "{}", sent.body),
            None => assert_ne!(state(&sent.result()["task"]), "TASK_STATE_INPUT_REQUIRED"),
        }
    }
    let canceled = world.rpc(ADA, "cashier", "CancelTask", &json!({"id": tasks[1]})).await.result();
    let text = canceled["status"]["message"]["parts"][0]["text"].as_str().expect("a text");
    assert!(text.contains("may have been made: `desk/pay` with {\"line\":\"a\"}"), "{text}");
}

/// The text of an attempt that failed is replaced, and not continued.
#[tokio::test]
async fn a_stream_replaces_the_text_of_an_attempt_that_failed() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let world =
        World::with(move |_| match calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Step::cut("Half of"),
            _ => Step::text("The whole."),
        })
        .await;
    let body = json!({"message": message("m1", "One.")});
    let events = world.rest(ADA, "POST /a2a/golf/message:stream", &body).await.events();
    let mut text = String::new();
    for update in events.iter().filter_map(|event| event.get("artifactUpdate")) {
        if update["append"] != true {
            text.clear();
        }
        text.push_str(update["artifact"]["parts"][0]["text"].as_str().expect("a text"));
    }
    assert_eq!(text, "The whole.", "{events:?}");
    let id = events[0]["task"]["id"].clone();
    let task = world.rpc(ADA, "golf", "GetTask", &json!({"id": id})).await.result();
    assert_eq!(text_of(&task), "The whole.");
}
