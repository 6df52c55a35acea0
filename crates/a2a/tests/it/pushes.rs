//! Push notifications: configurations, deliveries, retries, and their secrets.

use crate::world::{ADA, World, message, state};
use serde_json::{Value, json};

const HOOK: &str = "https://example.com/hook";

fn config(task: &Value, id: &str) -> Value {
    json!({"taskId": task["id"], "id": id, "url": HOOK, "token": "t-secret",
        "authentication": {"scheme": "Bearer", "credentials": "c-secret"}})
}

#[tokio::test]
async fn a_configuration_is_made_read_listed_and_deleted_and_never_shows_its_secrets() {
    let world = World::new().await;
    let task = world.ask("clerk", "m1", "Write a.").await;
    let call = async |method: &str, params: Value| world.rpc(ADA, "clerk", method, &params).await;
    let shown = json!({"taskId": task["id"], "id": "a", "url": HOOK,
        "authentication": {"scheme": "Bearer"}});
    let made = call("CreateTaskPushNotificationConfig", config(&task, "a")).await.result();
    assert_eq!(made, shown);
    let of = |id: &str| json!({"taskId": task["id"], "id": id});
    assert_eq!(call("GetTaskPushNotificationConfig", of("a")).await.result(), shown);
    let named = call("CreateTaskPushNotificationConfig", config(&task, "")).await.result();
    assert!(named["id"].as_str().is_some_and(|id| id.len() == 36), "{named}");
    let listed = call("ListTaskPushNotificationConfigs", of("")).await.result();
    assert_eq!(listed["configs"].as_array().map(Vec::len), Some(2));
    let path =
        format!("/a2a/clerk/tasks/{}/pushNotificationConfigs", task["id"].as_str().expect("id"));
    let by_rest = world.rest(ADA, &format!("GET {path}/a"), &Value::Null).await;
    assert_eq!(by_rest.json(), shown);
    assert!(!format!("{made}{listed}{}", by_rest.body).contains("secret"));
    for _ in 0..2 {
        assert_eq!(call("DeleteTaskPushNotificationConfig", of("a")).await.result(), json!({}));
    }
    assert_eq!(call("GetTaskPushNotificationConfig", of("a")).await.code(), -32001);
    for number in 0..9 {
        call("CreateTaskPushNotificationConfig", config(&task, &format!("b{number}")))
            .await
            .result();
    }
    let full = call("CreateTaskPushNotificationConfig", config(&task, "c")).await;
    assert_eq!(full.code(), -32602, "{}", full.body);
    call("CreateTaskPushNotificationConfig", config(&task, "b0")).await.result();
}

#[tokio::test]
async fn addresses_and_secrets_that_do_not_fit_are_refused_also_within_a_message() {
    let world = World::new().await;
    let task = world.ask("clerk", "m1", "Write a.").await;
    for (member, value) in [
        ("url", json!("")),
        ("url", json!("http://10.0.0.1/hook")),
        ("url", json!("https://10.0.0.1/hook")),
        ("url", json!("file:///etc/passwd")),
        ("url", json!(format!("{HOOK}/{}", "a".repeat(2_100)))),
        ("token", json!("a\r\nx-evil: 1")),
        ("token", json!("a".repeat(5_000))),
        ("authentication", json!({"scheme": "Bearer\r\n", "credentials": "a"})),
        ("authentication", json!({"scheme": "", "credentials": "a"})),
        ("authentication", json!({"scheme": "Bearer", "credentials": "a\nb-canary"})),
        ("id", json!("a/b")),
        ("id", json!("a".repeat(129))),
    ] {
        let mut config = config(&task, "a");
        config[member] = value.clone();
        let made = world.rpc(ADA, "clerk", "CreateTaskPushNotificationConfig", &config).await;
        assert_eq!(made.code(), -32602, "{member} {value}: {}", made.body);
        assert!(!made.body.contains("secret") && !made.body.contains("canary"), "{}", made.body);
        assert!(!made.body.contains("egress.allow"), "{}", made.body);
        let before = world.requests();
        let params = json!({"message": message("m2", "Write b."),
            "configuration": {"taskPushNotificationConfig": config}});
        let sent = world.rpc(ADA, "golf", "SendMessage", &params).await;
        assert_eq!(sent.code(), -32602, "{member} {value}: {}", sent.body);
        assert_eq!(world.requests(), before, "nothing was begun");
    }
}

#[tokio::test(start_paused = true)]
async fn updates_are_delivered_in_order_with_the_secrets_and_failures_are_repeated() {
    let world = World::new().await;
    let deliveries = tokio::spawn(world.server.deliveries().run());
    world.web.statuses.lock().expect("no panic").extend([200, 503, 429, 200]);
    let mut inline = config(&json!({}), "a");
    inline.as_object_mut().expect("an object").shift_remove("taskId");
    let params = json!({"message": message("m1", "Write a."),
        "configuration": {"taskPushNotificationConfig": inline}});
    let task = world.rpc(ADA, "clerk", "SendMessage", &params).await.result()["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_AUTH_REQUIRED");
    let received = world.web.received(4).await;
    let first = &received[0];
    assert_eq!(first.url, HOOK);
    for (name, value) in [
        ("authorization", "Bearer c-secret"),
        ("x-a2a-notification-token", "t-secret"),
        ("content-type", "application/a2a+json"),
    ] {
        let header = first.headers.iter().find(|(known, _)| known == name);
        assert_eq!(header.map(|(_, value)| value.as_str()), Some(value), "{name}");
    }
    assert_eq!(state(&first.body["statusUpdate"]), "TASK_STATE_WORKING");
    // Two attempts failed.
    assert_eq!(received[1].body, received[2].body);
    assert_eq!(received[1].body, received[3].body);
    assert_eq!(state(&received[3].body["statusUpdate"]), "TASK_STATE_AUTH_REQUIRED");

    let mut answer = message("m2", "approve");
    answer["taskId"] = task["id"].clone();
    let done = world.rpc(ADA, "clerk", "SendMessage", &json!({"message": answer})).await.result();
    assert_eq!(state(&done["task"]), "TASK_STATE_COMPLETED");
    let mut count = 5;
    loop {
        let received = world.web.received(count).await;
        let last = &received[count - 1].body;
        assert_eq!(last.as_object().map(serde_json::Map::len), Some(1), "{last}");
        if state(&last["statusUpdate"]) == "TASK_STATE_COMPLETED" {
            let artifacts = received.iter().filter(|of| of.body.get("artifactUpdate").is_some());
            assert!(artifacts.count() > 0);
            break;
        }
        count += 1;
    }
    deliveries.abort();
}

#[tokio::test(start_paused = true)]
async fn a_restart_continues_after_the_last_delivery_and_a_refusal_ends_them() {
    let world = World::new().await;
    let task = world.ask("clerk", "m1", "Write a.").await;
    for id in ["a", "b"] {
        world
            .rpc(ADA, "clerk", "CreateTaskPushNotificationConfig", &config(&task, id))
            .await
            .result();
    }
    world
        .rpc(
            ADA,
            "clerk",
            "DeleteTaskPushNotificationConfig",
            &json!({"taskId": task["id"], "id": "b"}),
        )
        .await
        .result();
    let first = tokio::spawn(world.server.deliveries().run());
    let mut answer = message("m2", "approve");
    answer["taskId"] = task["id"].clone();
    world.rpc(ADA, "clerk", "SendMessage", &json!({"message": answer})).await.result();
    let received = world.web.received(1).await;
    assert_eq!(state(&received[0].body["statusUpdate"]), "TASK_STATE_WORKING", "{received:?}");
    first.abort();
    let second = tokio::spawn(world.server.deliveries().run());
    let mut count = 2;
    let last = loop {
        let received = world.web.received(count).await;
        let last = received[count - 1].body.clone();
        if state(&last["statusUpdate"]) == "TASK_STATE_COMPLETED" {
            break received;
        }
        count += 1;
    };
    // The update that was sent and not recorded may come twice.
    assert!(last.len() <= 5, "{last:?}");
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn an_address_that_refuses_is_not_asked_again() {
    let world = World::new().await;
    world.web.statuses.lock().expect("no panic").extend([302]);
    let deliveries = tokio::spawn(world.server.deliveries().run());
    let params = json!({"message": message("m1", "One."),
        "configuration": {"taskPushNotificationConfig": {"url": HOOK}}});
    world.rpc(ADA, "golf", "SendMessage", &params).await.result();
    world.web.received(1).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(world.web.received(1).await.len(), 1);
    deliveries.abort();
}
