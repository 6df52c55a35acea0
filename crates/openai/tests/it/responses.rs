//! Responses.

use crate::world::{ADA, BOB, RUNNER, World, echo, malformed, text_of, written};
use serde_json::{Value, json};
use weftwork::testing::Step;

fn asks(text: &str) -> Value {
    json!({"model": "golf", "input": text})
}

#[tokio::test]
async fn a_response_is_the_same_whole_in_events_and_later() {
    let world = World::new().await;
    let mut body = asks("Which club?");
    body["metadata"] = json!({"topic": "golf"});
    let whole = world.respond(body.clone()).await.json();
    assert_eq!(text_of(&whole), "1: Which club?");
    assert_eq!((&whole["status"], &whole["error"]), (&json!("completed"), &Value::Null));
    assert_eq!(whole["metadata"], json!({"topic": "golf"}));
    assert_eq!(
        whole["usage"],
        json!({
            "input_tokens": 7, "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 12,
        })
    );
    let path = format!("/v1/responses/{}", whole["id"].as_str().expect("an id"));
    assert_eq!(world.get(ADA, &path).await.json(), whole);

    body["stream"] = true.into();
    let events = world.respond(body).await.events();
    let names: Vec<_> =
        events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    let deltas = names.iter().filter(|name| **name == "response.output_text.delta").count();
    assert!(deltas > 1, "{names:?}");
    let mut without = names.clone();
    without.dedup();
    assert_eq!(
        without,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "1: Which club?");
    let completed = &events.last().expect("events")["response"];
    let path = format!("/v1/responses/{}", completed["id"].as_str().expect("an id"));
    assert_eq!(world.get(ADA, &path).await.json(), *completed, "found at once");
}

#[tokio::test]
async fn a_thread_goes_on_from_the_response_that_a_request_names() {
    let world = World::new().await;
    let first = world.respond(asks("One.")).await.json();
    let continued = async |text: &str, previous: &Value| {
        let mut body = asks(text);
        body["previous_response_id"] = previous.clone();
        world.respond(body).await.json()
    };
    let second = continued("Two.", &first["id"]).await;
    assert_eq!(text_of(&second), "3: Two.");
    assert_eq!(second["previous_response_id"], first["id"]);
    let third = continued("Three.", &second["id"]).await;
    assert_eq!(text_of(&third), "5: Three.");
    // From an earlier one, it goes on a branch of its own.
    let branch = continued("Else.", &first["id"]).await;
    assert_eq!(text_of(&branch), "3: Else.");
    assert_eq!(text_of(&continued("More.", &branch["id"]).await), "5: More.");
    assert_eq!(text_of(&world.get(ADA, &path_of(&third)).await.json()), "5: Three.");

    // A repeated request has its response, though others have followed.
    let mut body = asks("Keyed.");
    body["previous_response_id"] = third["id"].clone();
    let body = body.to_string();
    let key = [("idempotency-key", "key")];
    let ask = async || world.send_with(ADA, "POST /v1/responses", &key, &body).await.json();
    let keyed = ask().await;
    continued("After.", &keyed["id"]).await;
    assert_eq!(ask().await, keyed);
}

fn path_of(response: &Value) -> String {
    format!("/v1/responses/{}", response["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn a_conversation_goes_on_by_its_id() {
    let world = World::new().await;
    for (count, conversation) in [(1, json!("talk")), (3, json!({"id": "talk"}))] {
        let mut body = asks("Again.");
        body["conversation"] = conversation;
        let response = world.respond(body).await.json();
        assert_eq!(text_of(&response), format!("{count}: Again."));
        assert_eq!(response["conversation"], json!({"id": "talk"}));
    }
    let mut both = asks("Again.");
    both["conversation"] = "talk".into();
    both["previous_response_id"] = "resp_1".into();
    assert_eq!(world.respond(both).await.error()["param"], "conversation");
}

#[tokio::test]
async fn an_approval_is_requested_answered_and_counts_once() {
    let world = World::new().await;
    let asked = async || world.respond(json!({"model": "clerk", "input": "Write a."})).await.json();
    let waiting = asked().await;
    let before = written();
    assert_eq!(waiting["status"], "completed");
    let item = &waiting["output"][0];
    assert_eq!(item["type"], "mcp_approval_request");
    assert_eq!(
        (&item["name"], &item["arguments"]),
        (&json!("desk/write"), &json!("{\"line\":\"a\"}"))
    );
    assert_eq!(item["server_label"], "clerk");
    let answer = |item: &Value, approve: bool| {
        json!({"type": "mcp_approval_response", "approval_request_id": item["id"],
            "approve": approve, "reason": "because"})
    };
    let body = json!({
        "model": "clerk", "previous_response_id": waiting["id"], "input": [answer(item, true)],
    });
    let lacking = world.post(RUNNER, "/v1/responses", &body).await;
    assert_eq!((lacking.status, &lacking.error()["type"]), (403, &json!("permission_error")));
    let others = world.post(BOB, "/v1/responses", &body).await;
    assert_eq!(others.status, 404);
    let done = world.respond(body.clone()).await.json();
    assert_eq!(text_of(&done), "wrote a", "{done}");
    assert_eq!(written(), before + 1);
    let late = world.respond(body).await;
    assert_eq!((late.status, &late.error()["code"]), (409, &json!("W0204")));
    assert_eq!(written(), before + 1);
    // The response that asked stays as it was.
    assert_eq!(world.get(ADA, &path_of(&waiting)).await.json(), waiting);

    // The id of the approval is enough, in a stream too, and a refusal is an answer.
    let waiting = asked().await;
    let item = &waiting["output"][0];
    let said = json!({"role": "user", "content": "Write a."});
    let body = json!({
        "model": "clerk", "stream": true, "input": [said, item, answer(item, false)],
    });
    let events = world.respond(body).await.events();
    let last = events.last().expect("events");
    assert_ne!(last["type"], "response.completed", "the call was refused: {last}");
    assert_eq!(written(), before + 1);
}

#[tokio::test]
async fn an_approval_in_a_stream_is_an_item() {
    let world = World::new().await;
    let body = json!({"model": "clerk", "stream": true, "input": "Write a."});
    let events = world.respond(body).await.events();
    let added = events.iter().find(|event| event["type"] == "response.output_item.added");
    assert_eq!(added.expect("an item")["item"]["type"], "mcp_approval_request");
    assert_eq!(events.last().expect("events")["type"], "response.completed");
    // A text cannot answer it.
    let id = &events.last().expect("events")["response"]["id"];
    let body = json!({"model": "clerk", "previous_response_id": id, "input": "Yes."});
    let refused = world.respond(body).await;
    assert_eq!((refused.status, &refused.error()["code"]), (400, &json!("W1038")));
}

#[tokio::test]
async fn a_response_is_deleted_or_not_stored_and_then_missing() {
    let world = World::new().await;
    let kept = world.respond(asks("Keep.")).await.json();
    let mut body = asks("Forget.");
    body["store"] = false.into();
    let unstored = world.respond(body).await.json();
    assert_eq!(unstored["store"], false);
    let request = format!("DELETE {}", path_of(&kept));
    let deleted = world.send_with(ADA, &request, &[], "").await.json();
    assert_eq!(deleted, json!({"id": kept["id"], "object": "response", "deleted": true}));
    for response in [&kept, &unstored] {
        let missing = world.get(ADA, &path_of(response)).await;
        assert_eq!(missing.status, 404);
        let mut body = asks("On.");
        body["previous_response_id"] = response["id"].clone();
        let refused = world.respond(body).await;
        assert_eq!(
            (refused.status, &refused.error()["param"]),
            (404, &json!("previous_response_id"))
        );
    }
    assert_eq!(world.send_with(ADA, &request, &[], "").await.status, 404);
}

#[tokio::test]
async fn a_response_in_the_background_is_read_and_cancelled() {
    let world = World::with(|request| match crate::world::last_text(request).as_str() {
        "Hang." => Step::cut("Ha").hanging(),
        _ => echo(request),
    });
    let world = world.await;
    let mut body = asks("Hang.");
    body["background"] = true.into();
    let response = world.respond(body).await.json();
    assert_eq!(response["background"], true);
    assert!(["queued", "in_progress"].contains(&response["status"].as_str().expect("a status")));
    let path = path_of(&response);
    let now = world.get(ADA, &path).await.json();
    assert_eq!((&now["output"], &now["usage"]), (&json!([]), &Value::Null));
    let delete = format!("DELETE {path}");
    assert_eq!(world.send_with(ADA, &delete, &[], "").await.status, 409, "it has not ended");
    let cancelled = world.post(ADA, &format!("{path}/cancel"), &json!({})).await.json();
    assert_eq!(cancelled["status"], "cancelled");
    let again = world.post(ADA, &format!("{path}/cancel"), &json!({})).await.json();
    assert_eq!(again, cancelled, "one that has ended stays as it is");
}

#[tokio::test]
async fn a_failed_run_is_a_failed_response() {
    let world = World::with(|_| Step::fails(malformed()));
    let world = world.await;
    let response = world.respond(asks("Hello")).await.json();
    assert_eq!(response["status"], "failed");
    assert!(response["error"]["code"].as_str().is_some_and(|code| code.starts_with("W03")));
    assert_eq!(world.get(ADA, &path_of(&response)).await.json(), response);
    let mut body = asks("Hello");
    body["stream"] = true.into();
    let events = world.respond(body).await.events();
    assert_eq!(events.last().expect("events")["type"], "response.failed");

    // A tool that fails after the approval.
    let world = World::new().await;
    let body = json!({"model": "clerk", "input": "Write fail."});
    let waiting = world.respond(body).await.json();
    let approval = json!({"type": "mcp_approval_response", "approve": true,
        "approval_request_id": waiting["output"][0]["id"]});
    let response = world.respond(json!({"model": "clerk", "input": [approval]})).await.json();
    assert_eq!(response["status"], "failed", "{response}");
}
