//! Two organisations, and two subjects of one, on every method: own, other's and missing.

use crate::world::{ADA, BOB, Client, EVE, READER, World, forms, tasks};
use serde_json::{Value, json};

const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

#[tokio::test]
async fn another_ones_and_a_missing_task_answer_the_same_bytes() {
    let world = World::new().await;
    let ada = Client::modern(ADA, tasks());
    let params = json!({"name": "clerk", "arguments": {"message": "Write a."}});
    let asked = world.ask(&ada, "tools/call", params).await.result();
    let own = asked["_meta"]["weftwork/run"].as_str().expect("an id").to_owned();
    let old = world.session(ADA, &forms()).await;
    let requests = |id: &str| {
        let task = json!({"taskId": id});
        let update = json!({"taskId": id, "inputResponses": {"x": {"action": "decline"}}});
        vec![
            (&ada, "tasks/get", task.clone()),
            (&ada, "tasks/update", update),
            (&ada, "tasks/cancel", task.clone()),
            (&old, "tasks/get", task.clone()),
            (&old, "tasks/result", task.clone()),
            (&old, "tasks/cancel", task),
        ]
    };
    for (at, (client, method, params)) in requests(NOBODY).into_iter().enumerate() {
        let missing = world.ask(client, method, params).await;
        assert_eq!(missing.code(), -32602, "{method}");
        for (token, id) in [(BOB, own.as_str()), (EVE, &own), (ADA, "x"), (ADA, "")] {
            let (client, method, params) = requests(id).swap_remove(at);
            let answer = world.ask(&client.of(token), method, params).await;
            assert_eq!(answer.status, missing.status, "{token} {method}");
            assert_eq!(answer.body, missing.body, "{token} {method}");
        }
    }
    // A run of another protocol is none of this one.
    let thread =
        world.send(crate::world::request_of(ADA, "POST /threads", &[], "{}")).await.any_json();
    assert!(thread["thread_id"].is_string());
    let task = world.ask(&ada, "tasks/get", json!({"taskId": own})).await.result();
    assert_eq!(task["status"], "input_required", "nobody has changed it");
}

#[tokio::test]
async fn a_tool_that_is_hidden_another_ones_or_missing_answers_the_same_bytes() {
    let world = World::new().await;
    let bob = Client::modern(BOB, json!({}));
    let old = world.session(BOB, &json!({})).await;
    let call = |name: &str| json!({"name": name, "arguments": {"message": "One."}});
    for client in [&bob, &old] {
        let missing = world.ask(client, "tools/call", call("nobody")).await;
        assert_eq!((missing.status, missing.code()), (200, -32602));
        for name in ["hidden", "own", "", "Golf", "golf/", "../golf", "golf\n"] {
            let params = call(name);
            // Names that no header has come in Base64 from a client; here the header is not the point.
            if client.session.is_none() && !name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                continue;
            }
            let answer = world.ask(client, "tools/call", params).await;
            assert_eq!(answer.body, missing.body, "{name}");
        }
    }
    assert_eq!(world.requests(), 0);
    // An agent that is no longer exposed keeps its calls to itself.
    let ada = Client::modern(ADA, tasks());
    let done = world.ask(&ada, "tools/call", call("own")).await.result();
    let id = json!({"taskId": done["_meta"]["weftwork/run"]});
    assert_eq!(world.ask(&ada, "tasks/get", id.clone()).await.result()["status"], "completed");
    world.desk.expose(Some("one"), "own", false).await;
    let gone = world.ask(&ada, "tasks/get", id).await;
    let missing = world.ask(&ada, "tasks/get", json!({"taskId": NOBODY})).await;
    assert_eq!(gone.body, missing.body);
}

#[tokio::test]
async fn a_conversation_belongs_to_a_subject() {
    let world = World::new().await;
    let ada = Client::modern(ADA, json!({}));
    let mine = world.call(&ada, "golf", "Mine.").await.result();
    let conversation = &mine["structuredContent"]["conversation"];
    for token in [BOB, EVE] {
        let arguments = json!({"message": "Yours.", "conversation": conversation});
        let params = json!({"name": "golf", "arguments": arguments});
        let other = world.ask(&ada.of(token), "tools/call", params).await.result();
        // The same id is another conversation for another subject.
        assert_eq!(crate::world::text_of(&other), "1: Yours.", "{token}");
    }
}

#[tokio::test]
async fn each_method_needs_its_right_and_a_token() {
    let world = World::new().await;
    let ada = Client::modern(ADA, tasks());
    let params = json!({"name": "clerk", "arguments": {"message": "Write a."}});
    let asked = world.ask(&ada, "tools/call", params.clone()).await.result();
    let id = asked["_meta"]["weftwork/run"].clone();
    let reader = ada.of(READER);
    for (method, params, status) in [
        ("tools/list", json!({}), 200),
        ("tasks/get", json!({"taskId": id}), 200),
        ("tools/call", params, 403),
        ("tasks/cancel", json!({"taskId": id}), 403),
    ] {
        let answer = world.ask(&reader, method, params.clone()).await;
        assert_eq!(answer.status, status, "{method}: {}", answer.body);
        let without = world.ask(&ada.of(""), method, params).await;
        assert_eq!(without.status, 401, "{method}");
        let body: Value = without.any_json();
        assert!(body["error"]["code"].is_i64() && body.get("id").is_none(), "{body}");
    }
}
