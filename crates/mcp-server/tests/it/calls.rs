//! Calls of tools: results, progress, conversations and cancellation.

use crate::world::{ADA, BOB, Client, EVE, Events, LEGACY, READER, RUNNER, World, tasks, text_of};
use serde_json::{Value, json};
use weftwork::testing::Step;

#[tokio::test]
async fn a_call_has_the_answer_in_both_versions_with_and_without_a_stream() {
    let world = World::new().await;
    let modern = Client::modern(ADA, json!({}));
    let session = world.session(ADA, &json!({})).await;
    for (number, client) in
        [modern.clone(), modern.plain(), session.clone(), session.plain().id(json!(9))]
            .iter()
            .enumerate()
    {
        let answer = world.call(client, "golf", &format!("One {number}.")).await;
        let result = answer.result();
        assert_eq!(text_of(&result), format!("1: One {number}."), "{result}");
        assert_eq!(result["isError"], false);
        let structured = &result["structuredContent"];
        assert_eq!(structured["answer"], format!("1: One {number}."));
        assert!(structured["conversation"].is_string(), "{structured}");
        assert_eq!(structured["conversation"], result["_meta"]["weftwork/conversation"]);
        assert_eq!(answer.messages().len(), 1, "nobody has asked for progress");
        let is_stream = answer.headers["content-type"] == "text/event-stream; charset=utf-8";
        assert_eq!(is_stream, client.streams);
    }
}

#[tokio::test]
async fn a_conversation_continues_and_hosts_may_replace_hyphens() {
    let world = World::new().await;
    let client = Client::modern(ADA, json!({}));
    let first = world.call(&client, "golf", "One.").await.result();
    let conversation = &first["structuredContent"]["conversation"];
    let arguments = json!({"message": "Two.", "conversation": conversation});
    let params = json!({"name": "golf", "arguments": arguments});
    let second = world.ask(&client, "tools/call", params).await.result();
    assert_eq!(text_of(&second), "3: Two.");
    assert_eq!(second["structuredContent"]["conversation"], *conversation);

    let params = json!({"name": "typed_one", "arguments": {"line": "b"}});
    let typed = world.ask(&client, "tools/call", params).await.result();
    assert_eq!(typed["structuredContent"], json!({"line": "a"}), "{typed}");
    assert_eq!(text_of(&typed), "{\"line\":\"a\"}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model_and_nothing_is_begun() {
    let world = World::new().await;
    let client = Client::modern(ADA, json!({}));
    for (tool, arguments, part) in [
        ("golf", json!({}), "`message` is missing"),
        ("golf", json!({"message": " "}), "`message` is missing"),
        ("golf", json!({"message": 1}), "`message` is no text"),
        ("golf", json!({"message": "a", "conversation": []}), "`conversation` is no text"),
        ("golf", json!({"message": "a", "model": "x"}), "unknown argument `model`"),
        ("typed-one", json!({}), "line"),
        ("typed-one", json!({"line": 1}), "line"),
    ] {
        let params = json!({"name": tool, "arguments": arguments});
        let result = world.ask(&client, "tools/call", params).await.result();
        assert_eq!(result["isError"], true, "{arguments}: {result}");
        assert!(text_of(&result).contains(part), "{arguments}: {result}");
    }
    assert_eq!(world.requests(), 0);
}

#[tokio::test]
async fn progress_increases_for_the_token_of_the_client_and_ends_with_the_response() {
    let world = World::new().await;
    let session = world.session(ADA, &json!({})).await;
    for (client, token) in [(Client::modern(ADA, json!({})), json!("t-1")), (session, json!(7))] {
        let params = json!({"name": "golf", "arguments": {"message": "One."},
            "_meta": {"progressToken": token}});
        let messages = world.ask(&client, "tools/call", params).await.messages();
        let (last, notes) = messages.split_last().expect("messages");
        assert!(last.get("result").is_some(), "{last}");
        assert!(notes.len() >= 2, "{notes:?}");
        for (number, note) in notes.iter().enumerate() {
            assert_eq!(note["method"], "notifications/progress");
            assert_eq!(note["params"]["progressToken"], token);
            assert_eq!(note["params"]["progress"], number + 1);
            assert!(note["params"]["message"].is_string());
        }
    }
}

/// Two clients with equal ids of requests, whose streams are read in turns.
#[tokio::test]
async fn two_clients_with_equal_ids_interleaved_get_their_own_answers() {
    let world = World::new().await;
    let sessions = [
        world.session(ADA, &json!({})).await,
        world.session(EVE, &json!({})).await,
        world.session(ADA, &json!({})).await,
        Client::modern(EVE, json!({})),
    ];
    let mut streams = Vec::new();
    for (number, client) in sessions.iter().enumerate() {
        let params = json!({"name": "golf", "arguments": {"message": format!("of {number}")},
            "_meta": {"progressToken": 1}});
        streams.push(world.open(client, "tools/call", params).await);
    }
    let mut answers = vec![None; streams.len()];
    while answers.contains(&None) {
        for (stream, answer) in streams.iter_mut().zip(&mut answers) {
            let Some(message) = stream.next().await else { continue };
            if message.get("result").is_some() {
                assert_eq!(message["id"], 1);
                *answer = Some(text_of(&message["result"]).to_owned());
            }
        }
    }
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Some(format!("1: of {number}")));
    }
}

/// A model that never ends its answer.
fn silent(_: &weftwork::models::ChatRequest) -> Step {
    Step::text("never").hanging()
}

/// Reads progress until the agent has begun, and returns the id of the run.
async fn begun(world: &World, client: &Client, messages: &mut Events) -> Value {
    messages.next().await.expect("the agent begins");
    let who = client.token;
    let runs = world.runs_of(who).await;
    runs.first().expect("a run").clone()
}

fn with_progress() -> Value {
    json!({"name": "golf", "arguments": {"message": "One."}, "_meta": {"progressToken": 1}})
}

#[tokio::test]
async fn a_client_of_the_newer_version_that_leaves_cancels_its_run() {
    let world = World::with(silent).await;
    let client = Client::modern(ADA, tasks());
    let mut messages = world.open(&client, "tools/call", with_progress()).await;
    let run = begun(&world, &client, &mut messages).await;
    drop(messages);
    loop {
        let task = world.ask(&client, "tasks/get", json!({"taskId": run})).await.result();
        match task["status"].as_str() {
            Some("cancelled") => break,
            status => assert_eq!(status, Some("working")),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_notification_of_an_older_client_cancels_its_own_call_and_no_other() {
    let world = World::with(silent).await;
    let client = world.session(ADA, &json!({})).await;
    let mut messages = world.open(&client, "tools/call", with_progress()).await;
    let run = begun(&world, &client, &mut messages).await;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "no"}})
    .to_string();
    let status = async || {
        let task = world.ask(&client.id(json!(5)), "tasks/get", json!({"taskId": run})).await;
        task.result()["status"].clone()
    };
    // Another session of the same subject, and the same session of another subject.
    let other = world.session(ADA, &json!({})).await;
    for foreign in [&other, &client.of(EVE), &client.of(BOB)] {
        let session = foreign.session.as_deref().expect("a session");
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
        assert_eq!(world.post(foreign.token, &headers, &note).await.status, 202);
        assert_eq!(status().await, "working");
    }
    let session = client.session.as_deref().expect("a session");
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
    assert_eq!(world.post(ADA, &headers, &note).await.status, 202);
    assert_eq!(status().await, "cancelled");
    let rest = messages.rest().await;
    assert!(rest.iter().all(|message| message.get("result").is_none()), "{rest:?}");
    // A notification for a request that has ended has no effect.
    assert_eq!(world.post(ADA, &headers, &note).await.status, 202);
}

#[tokio::test]
async fn an_older_client_that_leaves_does_not_stop_its_run() {
    let world = World::new().await;
    let client = world.session(ADA, &json!({})).await;
    let messages = world.open(&client, "tools/call", with_progress()).await;
    drop(messages);
    // The same request again, as clients repeat it after a lost connection.
    let result = world.ask(&client, "tools/call", with_progress()).await.result();
    assert_eq!(text_of(&result), "1: One.");
    assert_eq!(world.requests(), 1, "nothing is asked twice");
}

#[tokio::test]
async fn a_call_with_a_key_has_the_run_of_the_first_one() {
    let world = World::new().await;
    let client = Client::modern(ADA, json!({}));
    let call = |message: &str, id: i64| {
        let params = json!({"name": "golf", "arguments": {"message": message},
            "_meta": {"weftwork/idempotencyKey": "k"}});
        (client.id(json!(id)), params)
    };
    let (first, params) = call("One.", 1);
    let first = world.ask(&first, "tools/call", params).await.result();
    let (again, params) = call("One.", 2);
    assert_eq!(world.ask(&again, "tools/call", params).await.result(), first);
    assert_eq!(world.requests(), 1);
    let (other, params) = call("Two.", 3);
    assert_eq!(world.ask(&other, "tools/call", params).await.code(), -32602);
    // The key is that of a subject.
    let (foreign, params) = call("One.", 4);
    let foreign = world.ask(&foreign.of(EVE), "tools/call", params).await.result();
    assert_ne!(foreign["_meta"]["weftwork/run"], first["_meta"]["weftwork/run"]);
}

#[tokio::test]
async fn a_run_that_fails_is_an_error_for_the_model_and_a_right_is_needed() {
    let world = World::with(|_| {
        Step::fails(weftwork::models::ModelError::Malformed {
            provider: "p".to_owned(),
            reason: "no".to_owned(),
            retriable: false,
        })
    })
    .await;
    let client = Client::modern(RUNNER, json!({}));
    let result = world.call(&client, "golf", "One.").await.result();
    assert_eq!(result["isError"], true, "{result}");
    assert!(!text_of(&result).is_empty());
    assert!(result["_meta"]["weftwork/code"].is_string(), "{result}");
    let refused = world.call(&client.of(READER), "golf", "One.").await;
    assert_eq!(refused.status, 403, "{}", refused.body);
}

#[tokio::test]
async fn a_call_that_is_sent_again_is_not_counted_at_a_limit() {
    let world = World::limited().await;
    let client = world.session(ADA, &json!({})).await;
    let first = world.call(&client, "golf", "One.").await.result();
    assert_eq!(world.call(&client, "golf", "One.").await.result(), first);
    let other = world.call(&client.id(json!(2)), "golf", "Two.").await;
    assert!(other.body.contains("W0661"), "{}", other.body);
    assert_eq!(world.requests(), 1);
}
