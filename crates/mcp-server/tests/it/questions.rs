//! Questions: forms of both versions, their states, and words for clients without forms.

use crate::world::{ADA, BOB, Client, EVE, LEGACY, RUNNER, World, forms, text_of};
use serde_json::{Value, json};

/// Arguments of a call that asks for an approval.
fn call() -> Value {
    json!({"name": "clerk", "arguments": {"message": "Write a."}})
}

/// A call that asks, its key, and the request that answers it.
async fn asked(world: &World, client: &Client) -> (Value, String) {
    let asked = world.ask(client, "tools/call", call()).await.result();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let requests = asked["inputRequests"].as_object().expect("requests");
    let key = requests.keys().next().expect("a question").clone();
    (asked, key)
}

fn answer_with(asked: &Value, key: &str, response: Value) -> Value {
    let mut params = call();
    params["inputResponses"] = json!({key: response});
    params["requestState"] = asked["requestState"].clone();
    params
}

fn approve() -> Value {
    json!({"action": "accept", "content": {"decision": "approve"}})
}

#[tokio::test]
async fn a_question_is_a_result_with_a_state_and_the_next_request_answers_it() {
    let world = World::new().await;
    let client = Client::modern(ADA, forms());
    let (asked, key) = asked(&world, &client).await;
    let request = &asked["inputRequests"][&key];
    assert_eq!(request["method"], "elicitation/create");
    let message = request["params"]["message"].as_str().expect("a text");
    assert!(message.contains("desk/write"), "{message}");
    let schema = &request["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["decision"]["enum"], json!(["approve", "reject"]));

    let answer = answer_with(&asked, &key, approve());
    let done = world.ask(&client.id(json!(2)), "tools/call", answer.clone()).await.result();
    assert_eq!(done["isError"], false, "{done}");
    assert_eq!(done["resultType"], "complete");
    assert_eq!(done["_meta"]["weftwork/run"], asked["_meta"]["weftwork/run"]);
    let requests = world.requests();
    // The same answer again has the same result, and another one has none.
    let again = world.ask(&client.id(json!(3)), "tools/call", answer).await.result();
    assert_eq!(again, done);
    let reject = json!({"action": "accept", "content": {"decision": "reject"}});
    let replayed = answer_with(&asked, &key, reject);
    let refused = world.ask(&client.id(json!(4)), "tools/call", replayed).await;
    assert_eq!(refused.code(), -32602, "{}", refused.body);
    assert_eq!(world.requests(), requests, "nothing is made again");
}

#[tokio::test]
async fn a_state_that_is_tampered_another_ones_or_of_another_request_is_refused() {
    let world = World::new().await;
    let client = Client::modern(ADA, forms());
    let (asked, key) = asked(&world, &client).await;
    let good = answer_with(&asked, &key, approve());
    let state = asked["requestState"].as_str().expect("a text");
    let (run, digits) = state.split_once('.').expect("two parts");
    let flipped = if digits.starts_with('0') { "1" } else { "0" };
    let changed = |name: &str, value: Value| {
        let mut params = good.clone();
        params[name] = value;
        params
    };
    let state_of = |text: String| changed("requestState", text.into());
    let other_message = json!({"message": "Write b."});
    let mut refusals = Vec::new();
    for params in [
        state_of(format!("{run}.{flipped}{}", &digits[1..])),
        state_of(format!("{state}0")),
        state_of(run.to_owned()),
        state_of(format!("00000000-0000-0000-0000-000000000000.{digits}")),
        state_of(String::new()),
        state_of("x".to_owned()),
        changed("requestState", json!(7)),
        changed("arguments", other_message),
        changed("name", json!("golf")),
    ] {
        let refused = world.ask(&client, "tools/call", params.clone()).await;
        assert_eq!((refused.status, refused.code()), (200, -32602), "{params}");
        refusals.push(refused.body);
    }
    for token in [BOB, EVE] {
        let refused = world.ask(&client.of(token), "tools/call", good.clone()).await;
        assert_eq!(refused.code(), -32602, "{token}");
        refusals.push(refused.body);
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:#?}");
    let refused = world.ask(&client.of(RUNNER), "tools/call", good.clone()).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert_eq!(world.ask(&client, "tools/call", good).await.result()["isError"], false);
}

#[tokio::test]
async fn responses_that_are_none_ask_again_or_are_refused_and_a_rejection_is_told() {
    let world = World::new().await;
    let client = Client::modern(ADA, forms());
    let (first, key) = asked(&world, &client).await;
    // The answer is missing, or to another question.
    for responses in [json!({}), json!({"other": approve()})] {
        let mut params = answer_with(&first, &key, approve());
        params["inputResponses"] = responses;
        let again = world.ask(&client, "tools/call", params).await.result();
        assert_eq!(again["resultType"], "input_required");
        assert_eq!(again["inputRequests"], first["inputRequests"]);
        assert_eq!(again["requestState"], first["requestState"]);
    }
    for response in [
        json!(12345),
        json!(null),
        json!({}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {"decision": "perhaps"}}),
    ] {
        let params = answer_with(&first, &key, response.clone());
        let refused = world.ask(&client, "tools/call", params).await;
        assert_eq!(refused.code(), -32602, "{response}");
    }
    for responses in [json!(null), json!([]), json!(7)] {
        let mut params = answer_with(&first, &key, approve());
        params["inputResponses"] = responses.clone();
        assert_eq!(world.ask(&client, "tools/call", params).await.code(), -32602, "{responses}");
    }
    let declined = answer_with(&first, &key, json!({"action": "decline"}));
    let done = world.ask(&client, "tools/call", declined).await.result();
    assert_eq!(done["resultType"], "complete", "{done}");
}

#[tokio::test]
async fn a_call_of_unknown_outcome_has_a_form_and_is_named_when_the_call_is_cancelled() {
    let world = World::of_cashier().await;
    let client = Client::modern(ADA, forms());
    for (response, expected) in [
        (json!({"action": "accept", "content": {"answer": "give_up"}}), "complete"),
        (json!({"action": "decline"}), "may have been made: `desk__pay` with {\"line\":\"a\"}"),
        (json!({"action": "cancel"}), "may have been made: `desk__pay` with {\"line\":\"a\"}"),
    ] {
        let pay = json!({"name": "cashier", "arguments": {"message": "Pay a."}});
        let asked = world.ask(&client, "tools/call", pay.clone()).await.result();
        let requests = asked["inputRequests"].as_object().expect("requests");
        let (key, request) = requests.iter().next().expect("a question");
        let message = request["params"]["message"].as_str().expect("a text");
        assert!(message.contains("It may have been made, with {\"line\":\"a\"}"), "{message}");
        let answers = &request["params"]["requestedSchema"]["properties"]["answer"]["enum"];
        assert_eq!(answers, &json!(["happened", "call_again", "give_up"]));
        let mut params = pay;
        params["inputResponses"] = json!({key: response});
        params["requestState"] = asked["requestState"].clone();
        let done = world.ask(&client.id(json!(2)), "tools/call", params).await.result();
        let text = match expected {
            "complete" => done["resultType"].as_str().expect("a text"),
            _ => text_of(&done),
        };
        assert!(text.contains(expected), "{response}: {done}");
    }
    // An older client, whose stream goes on.
    let client = world.session(ADA, &forms()).await;
    let pay = json!({"name": "cashier", "arguments": {"message": "Pay a."}});
    let mut messages = world.open(&client, "tools/call", pay).await;
    let request = messages.next().await.expect("a request");
    let declined = json!({"action": "decline"});
    assert_eq!(respond(&world, &client, &request["id"], declined).await, 202);
    let messages = messages.rest().await;
    let result = &messages.last().expect("a response")["result"];
    assert!(text_of(result).contains("`desk"), "{result}");
}

#[tokio::test]
async fn a_client_without_forms_is_told_in_words_and_gets_no_request_for_input() {
    let world = World::new().await;
    for client in [
        Client::modern(ADA, json!({})),
        Client::modern(ADA, json!({"elicitation": {"url": {}}})),
        world.session(ADA, &json!({})).await,
    ] {
        let answer = world.ask(&client, "tools/call", call()).await;
        assert!(!answer.body.contains("elicitation/create"), "{}", answer.body);
        let result = answer.result();
        assert!(result.get("requestState").is_none());
        let text = text_of(&result);
        assert!(text.contains("desk/write") && text.contains("weft threads resume "), "{text}");
        // What a person decides, no model does.
        let conversation = &result["structuredContent"]["conversation"];
        let arguments = json!({"message": "approve", "conversation": conversation});
        let params = json!({"name": "clerk", "arguments": arguments});
        let refused = world.ask(&client.id(json!(2)), "tools/call", params).await.result();
        assert_eq!(refused["isError"], true, "{refused}");
    }
}

/// A client without forms answers by a text. The same request again has the run of the answer, and says
/// nothing twice.
#[tokio::test]
async fn a_text_in_the_conversation_answers_a_question_once() {
    let world = World::of_greeter().await;
    let client = Client::modern(ADA, json!({}));
    let asked = world.call(&client, "greeter", "Greet somebody.").await.result();
    assert!(text_of(&asked).contains("Whom?"), "{asked}");
    let conversation = &asked["structuredContent"]["conversation"];
    let answer = async |id: u32, key: &str| {
        let arguments = json!({"message": "Bo", "conversation": conversation});
        let meta = json!({"weftwork/idempotencyKey": key});
        let params = json!({"name": "greeter", "arguments": arguments, "_meta": meta});
        world.ask(&client.id(json!(id)), "tools/call", params).await.result()
    };
    let first = answer(2, "once").await;
    assert_eq!(text_of(&first), "a: hello, Bo");
    let made = (world.runs_of(ADA).await.len(), world.requests());
    assert_eq!(answer(3, "once").await, first);
    assert_eq!((world.runs_of(ADA).await.len(), world.requests()), made);
    // Another request is another message, about which the agent asks again.
    assert!(text_of(&answer(4, "twice").await).contains("Whom?"));
}

/// Reads the request for input in the stream of an older client.
async fn elicited(world: &World, client: &Client) -> (crate::world::Events, Value) {
    let mut messages = world.open(client, "tools/call", call()).await;
    let request = messages.next().await.expect("a request");
    assert_eq!(request["method"], "elicitation/create", "{request}");
    (messages, request)
}

async fn respond(world: &World, client: &Client, id: &Value, result: Value) -> u16 {
    let session = client.session.as_deref().expect("a session");
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result});
    world.post(client.token, &headers, &body.to_string()).await.status
}

#[tokio::test]
async fn an_older_client_is_asked_within_its_stream_and_answers_by_a_message() {
    let world = World::new().await;
    let client = world.session(ADA, &forms()).await;
    let (messages, request) = elicited(&world, &client).await;
    assert_eq!(request["params"]["mode"], "form");
    let id = &request["id"];
    // Another subject, another organisation, another id: nothing is answered.
    let digits = id.as_str().expect("a text");
    let wrong = json!(format!("{digits}0"));
    for (token, id) in
        [(BOB, id), (EVE, id), (ADA, &wrong), (ADA, &json!("x")), (ADA, &json!("1/x.y"))]
    {
        assert_eq!(respond(&world, &client.of(token), id, approve()).await, 400, "{token} {id}");
    }
    assert_eq!(respond(&world, &client, id, json!({"action": "perhaps"})).await, 400);
    assert_eq!(respond(&world, &client, id, approve()).await, 202);
    let messages = messages.rest().await;
    let last = messages.last().expect("a response");
    assert_eq!(last["id"], 1);
    assert_eq!(last["result"]["isError"], false, "{last}");
    // The same response may come again; another one comes too late.
    assert_eq!(respond(&world, &client, id, approve()).await, 202);
    assert_eq!(respond(&world, &client, id, json!({"action": "decline"})).await, 400);
}

#[tokio::test]
async fn an_older_client_that_takes_no_stream_is_told_in_words() {
    let world = World::new().await;
    let client = world.session(ADA, &forms()).await.plain();
    let told = world.ask(&client, "tools/call", call()).await.result();
    assert!(text_of(&told).contains("desk/write"), "{told}");
}

#[tokio::test]
async fn an_older_client_that_refuses_to_ask_rejects() {
    let world = World::new().await;
    let client = world.session(ADA, &forms()).await;
    let (messages, request) = elicited(&world, &client).await;
    let session = client.session.as_deref().expect("a session");
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY)];
    let body =
        json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -1, "message": "no"}});
    assert_eq!(world.post(ADA, &headers, &body.to_string()).await.status, 202);
    let messages = messages.rest().await;
    let last = messages.last().expect("a response");
    assert!(last.get("result").is_some(), "{last}");
    assert!(!last.to_string().contains("wrote"), "{last}");
}
