//! Tasks: messages, streams, questions, cancellation and lists, in both bindings.

use crate::world::{ADA, READER, RUNNER, World, echo, message, state, text_of};
use serde_json::{Value, json};
use weftwork::testing::Step;
use weftwork::types::message::Role;

/// Returns a task without its times.
fn timeless(mut task: Value) -> Value {
    task["status"]["timestamp"] = "T".into();
    task
}

#[tokio::test]
async fn a_message_begins_a_task_that_is_the_same_in_both_bindings_and_later() {
    let world = World::new().await;
    let sent = world.ask("golf", "m1", "One.").await;
    assert_eq!(state(&sent), "TASK_STATE_COMPLETED", "{sent}");
    assert_eq!(text_of(&sent), "1: One.");
    let history = &sent["history"];
    assert_eq!(history.as_array().map(Vec::len), Some(1), "{history}");
    assert_eq!(history[0]["messageId"], "m1");
    assert_eq!(history[0]["taskId"], sent["id"]);
    assert_eq!(history[0]["contextId"], sent["contextId"]);

    let id = sent["id"].as_str().expect("an id");
    assert_eq!(world.rpc(ADA, "golf", "GetTask", &json!({"id": id})).await.result(), sent);
    let answer = world.rest(ADA, &format!("GET /a2a/golf/tasks/{id}"), &Value::Null).await;
    assert_eq!(answer.headers["content-type"], "application/a2a+json");
    assert_eq!(answer.json(), sent);
    let short = format!("GET /a2a/golf/tasks/{id}?historyLength=0");
    assert!(world.rest(ADA, &short, &Value::Null).await.json().get("history").is_none());

    // The context continues with a further task.
    let mut next = message("m2", "Two.");
    next["contextId"] = sent["contextId"].clone();
    let next = world.rest(ADA, "POST /a2a/golf/message:send", &json!({"message": next})).await;
    let next = next.json()["task"].clone();
    assert_eq!(text_of(&next), "3: Two.");
    assert_eq!(next["contextId"], sent["contextId"]);
    assert_ne!(next["id"], sent["id"]);
}

#[tokio::test]
async fn a_stream_begins_with_the_task_and_its_updates_make_the_whole_one() {
    let world = World::new().await;
    let body = json!({"message": message("m1", "One.")});
    let events = world.rest(ADA, "POST /a2a/golf/message:stream", &body).await.events();
    let first = &events[0]["task"];
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state(first)), "{first}");
    assert_eq!(first["history"][0]["messageId"], "m1");
    let last = &events[events.len() - 1]["statusUpdate"];
    assert_eq!(state(last), "TASK_STATE_COMPLETED", "{events:?}");

    let mut text = String::new();
    for update in events.iter().filter_map(|event| event.get("artifactUpdate")) {
        if update["append"] != true {
            text.clear();
        }
        text.push_str(update["artifact"]["parts"][0]["text"].as_str().expect("a text"));
    }
    let id = first["id"].clone();
    let whole = world.rpc(ADA, "golf", "GetTask", &json!({"id": id})).await.result();
    assert_eq!(text, text_of(&whole));
    let of_last = events.iter().rev().find_map(|event| event.get("artifactUpdate"));
    assert_eq!(of_last.expect("an artifact")["lastChunk"], true);

    // The same events come by JSON-RPC, each as a result.
    let params = json!({"message": message("m2", "One.")});
    let by_rpc = world.rpc(ADA, "golf", "SendStreamingMessage", &params).await.events();
    assert_eq!(by_rpc.len(), events.len());
    assert!(by_rpc.iter().all(|frame| frame["id"] == 1 && frame["jsonrpc"] == "2.0"));
    assert_eq!(state(&by_rpc[by_rpc.len() - 1]["result"]["statusUpdate"]), "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_call_that_waits_for_an_approval_is_answered_by_the_next_message() {
    let world = World::new().await;
    let asked = world.ask("clerk", "m1", "Write a.").await;
    assert_eq!(state(&asked), "TASK_STATE_AUTH_REQUIRED", "{asked}");
    let question = &asked["status"]["message"];
    assert_eq!(question["role"], "ROLE_AGENT");
    assert_eq!(question["parts"][1]["data"]["questions"][0]["tool"], "desk/write");

    let answer = |id: &str, part: Value| {
        json!({"message": {"messageId": id, "role": "ROLE_USER", "taskId": asked["id"],
            "parts": [part]}})
    };
    let perhaps = answer("m2", json!({"text": "perhaps"}));
    assert_eq!(world.rpc(ADA, "clerk", "SendMessage", &perhaps).await.code(), -32602);
    let approve = answer("m3", json!({"text": "approve"}));
    for token in [READER, RUNNER] {
        let refused = world.rpc(token, "clerk", "SendMessage", &approve).await;
        assert_eq!(refused.status, 403, "{token}: {}", refused.body);
    }
    let done = world.rpc(ADA, "clerk", "SendMessage", &approve).await.result()["task"].clone();
    assert_eq!(done["id"], asked["id"]);
    assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{done}");
    let roles: Vec<_> =
        done["history"].as_array().expect("a list").iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]);
    // A message that is sent again has the same task, and another one none.
    let again = world.rpc(ADA, "clerk", "SendMessage", &approve).await.result();
    assert_eq!(again["task"], done);
    let late = answer("m4", json!({"text": "approve"}));
    assert_eq!(world.rpc(ADA, "clerk", "SendMessage", &late).await.code(), -32004);
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_not_counted_at_a_limit() {
    let world = World::limited().await;
    let send = async |id: &str| {
        let body = json!({"message": message(id, "Hi")});
        world.rpc(ADA, "golf", "SendMessage", &body).await
    };
    let first = send("m1").await.result();
    for _ in 0..3 {
        assert_eq!(send("m1").await.result(), first);
    }
    let other = send("m2").await;
    assert!(other.body.contains("W0661"), "{}", other.body);
    assert!(other.headers.contains_key("retry-after"));
    assert_eq!(world.requests(), 1);
}

#[tokio::test]
async fn a_message_that_is_sent_again_begins_nothing_and_another_content_is_refused() {
    let world = World::new().await;
    let first = world.ask("golf", "m1", "One.").await;
    assert_eq!(world.ask("golf", "m1", "One.").await, first);
    assert_eq!(world.requests(), 1);
    let other = json!({"message": message("m1", "Two.")});
    let refused = world.rpc(ADA, "golf", "SendMessage", &other).await;
    assert_eq!(refused.code(), -32602, "{}", refused.body);
}

#[tokio::test]
async fn a_client_may_leave_before_the_task_has_ended() {
    let world = World::new().await;
    let params = json!({"message": message("m1", "One."),
        "configuration": {"returnImmediately": true}});
    let task = world.rpc(ADA, "golf", "SendMessage", &params).await.result()["task"].clone();
    assert!(state(&task).ends_with("SUBMITTED") || state(&task).ends_with("WORKING"), "{task}");
    loop {
        let now = world.rpc(ADA, "golf", "GetTask", &json!({"id": task["id"]})).await.result();
        if state(&now) == "TASK_STATE_COMPLETED" {
            assert_eq!(text_of(&now), "1: One.");
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_task_that_waits_is_cancelled_and_its_context_goes_on() {
    let world = World::new().await;
    let asked = world.ask("clerk", "m1", "Write a.").await;
    let id = json!({"id": asked["id"]});
    let mut stream = world
        .open(
            ADA,
            "POST /a2a/clerk",
            &json!({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": id}),
        )
        .await;
    let first = stream.next().await.expect("the task");
    assert_eq!(state(&first["result"]["task"]), "TASK_STATE_AUTH_REQUIRED");
    let canceled = world.rpc(ADA, "clerk", "CancelTask", &id).await.result();
    assert_eq!(state(&canceled), "TASK_STATE_CANCELED", "{canceled}");
    // Those who follow it see the end.
    let rest = stream.rest().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(state(&rest[0]["result"]["statusUpdate"]), "TASK_STATE_CANCELED");
    assert_eq!(
        timeless(world.rpc(ADA, "clerk", "GetTask", &id).await.result()),
        timeless(canceled)
    );
    assert_eq!(world.rpc(ADA, "clerk", "CancelTask", &id).await.code(), -32002);
    assert_eq!(world.rpc(ADA, "clerk", "SubscribeToTask", &id).await.code(), -32004);
    let mut next = message("m2", "Write b.");
    next["contextId"] = asked["contextId"].clone();
    let next = world.rpc(ADA, "clerk", "SendMessage", &json!({"message": next})).await;
    assert_eq!(state(&next.result()["task"]), "TASK_STATE_AUTH_REQUIRED");
}

#[tokio::test]
async fn a_task_that_works_is_cancelled() {
    let world = World::with(|_| Step::text("never").hanging()).await;
    let params = json!({"message": message("m1", "One."),
        "configuration": {"returnImmediately": true}});
    let task = world.rpc(ADA, "golf", "SendMessage", &params).await.result()["task"].clone();
    let id = task["id"].as_str().expect("an id");
    let canceled = world.rest(ADA, &format!("POST /a2a/golf/tasks/{id}:cancel"), &json!({})).await;
    let canceled = canceled.json();
    assert_eq!(state(&canceled), "TASK_STATE_CANCELED");
    let text = canceled["status"]["message"]["parts"][0]["text"].as_str().expect("a text");
    assert!(text.contains("may have been made"), "{text}");
}

#[tokio::test]
async fn a_run_that_fails_is_a_failed_task_with_its_reason() {
    let world = World::with(|_| {
        Step::fails(weftwork::models::ModelError::Malformed {
            provider: "p".to_owned(),
            reason: "no".to_owned(),
            retriable: false,
        })
    })
    .await;
    let task = world.ask("golf", "m1", "One.").await;
    assert_eq!(state(&task), "TASK_STATE_FAILED", "{task}");
    assert!(task["status"]["message"]["parts"][1]["data"]["code"].is_string(), "{task}");
}

#[tokio::test]
async fn tasks_are_listed_by_pages_states_contexts_and_times() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let task = world.ask("golf", &format!("m{number}"), "One.").await;
        ids.push(task["id"].clone());
    }
    let waiting = world.ask("clerk", "m9", "Write a.").await;
    let list = async |params: Value| world.rpc(ADA, "golf", "ListTasks", &params).await.result();
    let all = list(json!({})).await;
    assert_eq!(all["totalSize"], 5);
    assert_eq!(all["nextPageToken"], "");
    let times: Vec<_> = all["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| task["status"]["timestamp"].as_str().expect("a time").to_owned())
        .collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    assert!(all["tasks"][0].get("artifacts").is_none());
    let with = list(json!({"includeArtifacts": true, "pageSize": 1})).await;
    assert!(with["tasks"][0]["artifacts"].is_array());

    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = list(json!({"pageSize": 2, "pageToken": token})).await;
        assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(2), &json!(5)));
        seen.extend(page["tasks"].as_array().expect("a list").iter().map(|t| t["id"].clone()));
        token = page["nextPageToken"].as_str().expect("a text").to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 5);
    assert!(ids.iter().all(|id| seen.contains(id)));

    assert_eq!(list(json!({"status": "TASK_STATE_COMPLETED"})).await["totalSize"], 5);
    assert_eq!(list(json!({"status": "TASK_STATE_FAILED"})).await["totalSize"], 0);
    assert_eq!(list(json!({"status": "TASK_STATE_UNSPECIFIED"})).await["totalSize"], 5);
    let context = &all["tasks"][0]["contextId"];
    assert_eq!(list(json!({"contextId": context})).await["totalSize"], 1);
    assert_eq!(list(json!({"statusTimestampAfter": "2999-01-01T00:00:00Z"})).await["totalSize"], 0);
    let by_query = "GET /a2a/clerk/tasks?status=TASK_STATE_AUTH_REQUIRED&pageSize=3";
    let listed = world.rest(ADA, by_query, &Value::Null).await.json();
    assert_eq!(listed["tasks"][0]["id"], waiting["id"]);
}

#[tokio::test]
async fn a_data_part_with_a_mode_and_a_payload_reaches_what_the_agent_can_do() {
    let world = World::with(|request| {
        assert!(request.messages.iter().any(|message| message.role == Role::User));
        echo(request)
    })
    .await;
    let build = json!({"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [
        {"text": "Write the rules."},
        {"data": {"mode": "build", "payload": {"title": "Rules"}}},
    ]}});
    let task = world.rpc(ADA, "golf", "SendMessage", &build).await.result()["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    assert!(task["artifacts"][0]["metadata"]["deliverable"]["id"].is_string(), "{task}");
    // An action on records needs no run, and is answered by a message.
    let list = json!({"message": {"messageId": "m2", "role": "ROLE_USER",
        "contextId": task["contextId"],
        "parts": [{"data": {"mode": "build", "payload": {"action": "list"}}}]}});
    let answer = world.rpc(ADA, "golf", "SendMessage", &list).await.result();
    assert!(answer["message"]["parts"][0]["data"]["content"].is_array(), "{answer}");
    assert_eq!(answer["message"]["role"], "ROLE_AGENT");
    let events = world.rpc(ADA, "golf", "SendStreamingMessage", &list).await.events();
    assert_eq!(events.len(), 1);
    assert!(events[0]["result"]["message"].is_object());
    let wrong = json!({"message": {"messageId": "m3", "role": "ROLE_USER",
        "parts": [{"data": {"mode": "build", "payload": {"acton": "list"}}}]}});
    assert_eq!(world.rpc(ADA, "golf", "SendMessage", &wrong).await.code(), -32602);
}

#[tokio::test]
async fn all_agents_share_an_address_with_the_agent_as_tenant() {
    let world = World::new().await;
    let body = |tenant: &str| {
        json!({"jsonrpc": "2.0", "id": "x", "method": "SendMessage",
            "params": {"tenant": tenant, "message": message("m1", "One.")}})
    };
    let task = world.rest(ADA, "POST /a2a", &body("golf")).await.json();
    assert_eq!(text_of(&task["result"]["task"]), "1: One.");
    assert_eq!(world.rest(ADA, "POST /a2a/", &body("golf")).await.json(), task);
    for tenant in ["hidden", "nobody"] {
        assert_eq!(world.rest(ADA, "POST /a2a", &body(tenant)).await.status, 404);
    }
    assert_eq!(world.rest(ADA, "POST /a2a/golf", &body("clerk")).await.status, 404);
}
