//! Two organisations, and two subjects of one, on every route: own, other's and missing.

use crate::world::{ADA, Answer, BOB, EVE, READER, RUNNER, World};
use serde_json::{Value, json};

/// Returns an answer without what names the request.
fn comparable(answer: &Answer, id: &str) -> (u16, String) {
    (answer.status, answer.body.replace(id, "ID"))
}

#[tokio::test]
async fn another_ones_and_a_missing_thing_answer_the_same_bytes() {
    let world = World::new().await;
    let chat = json!({"model": "golf", "messages": [{"role": "user", "content": "One."}]});
    let response = world.respond(json!({"model": "golf", "input": "One."})).await.json();
    let chat_run = world.chat(chat).await.json();
    let waiting = world.respond(json!({"model": "clerk", "input": "Write a."})).await.json();
    let own = response["id"].as_str().expect("an id");
    let nobody = "resp_00000000000000000000000000000000";
    let of_chat = format!("resp_{}", &chat_run["id"].as_str().expect("an id")["chatcmpl-".len()..]);
    let approval = waiting["output"][0]["id"].as_str().expect("an id");
    let no_approval = "mcpr_00000000000000000000000000000000_00000000000000000000000000000000";

    let by_id = |method: &str, id: &str| match method {
        "previous" => (
            "POST /v1/responses".to_owned(),
            json!({"model": "golf", "input": "Two.", "previous_response_id": id}),
        ),
        "approval" => (
            "POST /v1/responses".to_owned(),
            json!({"model": "clerk", "input": [{"type": "mcp_approval_response",
                "approval_request_id": id, "approve": true}]}),
        ),
        "cancel" => (format!("POST /v1/responses/{id}/cancel"), json!({})),
        method => (format!("{method} /v1/responses/{id}"), json!({})),
    };
    let send = async |who: &str, method: &str, id: &str| {
        let (request, body) = by_id(method, id);
        let body = if request.starts_with("GET") { Value::Null } else { body };
        comparable(&world.send_with(who, &request, &[], &body.to_string()).await, id)
    };
    for method in ["GET", "DELETE", "cancel", "previous"] {
        let missing = send(ADA, method, nobody).await;
        assert_eq!(missing.0, 404, "{method}: {missing:?}");
        for who in [BOB, EVE] {
            assert_eq!(send(who, method, own).await, missing, "{method} {who}");
        }
        // The run of another protocol is no response.
        assert_eq!(send(ADA, method, &of_chat).await, missing, "{method}");
    }
    let missing = send(ADA, "approval", no_approval).await;
    assert_eq!(missing.0, 404);
    for who in [BOB, EVE] {
        assert_eq!(send(who, "approval", approval).await, missing, "{who}");
    }
    assert_eq!(send(ADA, "GET", own).await.0, 200);
    assert_eq!(send(ADA, "approval", approval).await.0, 200);
}

#[tokio::test]
async fn a_model_that_is_hidden_another_ones_or_missing_answers_the_same_bytes() {
    let world = World::new().await;
    let ids = async |who: &str| -> Vec<String> {
        let models = world.get(who, "/v1/models").await.json();
        let data = models["data"].as_array().expect("a list").clone();
        data.iter().map(|model| model["id"].as_str().expect("an id").to_owned()).collect()
    };
    let of_golf = ["golf", "golf:plan", "golf:build"];
    let of_own = ["own", "own:plan", "own:build"];
    let of_scores = ["scores", "scores:plan", "scores:build"];
    assert_eq!(ids(BOB).await, [&["clerk"], &of_golf[..], &of_scores[..]].concat());
    assert_eq!(ids(ADA).await, [&["clerk"], &of_golf[..], &of_own[..], &of_scores[..]].concat());
    assert_eq!(ids(READER).await, [""; 0], "a client that may not run");

    let body = |model: &str| {
        json!({"model": model, "input": "One.",
        "messages": [{"role": "user", "content": "One."}]})
    };
    let send = async |who: &str, request: &str, model: &str| {
        let request = request.replace("MODEL", model);
        let answer = world.send_with(who, &request, &[], &body(model).to_string()).await;
        comparable(&answer, model)
    };
    for request in ["GET /v1/models/MODEL", "POST /v1/chat/completions", "POST /v1/responses"] {
        let missing = send(BOB, request, "nothing").await;
        assert_eq!(missing.0, 404, "{missing:?}");
        assert!(missing.1.contains("model_not_found"), "{missing:?}");
        for model in ["hidden", "own", "own:plan", "golf:converse", "golf:fly", ""] {
            let sent = send(BOB, request, model).await;
            if model.is_empty() {
                assert!(sent.0 >= 400);
                continue;
            }
            assert_eq!(sent, missing, "{request} {model}");
        }
        assert_eq!(send(ADA, request, "own").await.0, 200, "{request}");
    }
}

#[tokio::test]
async fn an_agent_that_is_exposed_no_longer_has_no_models_and_no_responses() {
    let world = World::new().await;
    let response = world.respond(json!({"model": "golf", "input": "One."})).await.json();
    let path = format!("/v1/responses/{}", response["id"].as_str().expect("an id"));
    assert_eq!(world.get(ADA, &path).await.status, 200);
    world.desk.expose(None, "golf", false).await;
    assert_eq!(world.get(ADA, &path).await.status, 404);
    assert_eq!(world.get(ADA, "/v1/models/golf").await.status, 404);
    assert_eq!(world.respond(json!({"model": "golf", "input": "One."})).await.status, 404);
}

#[tokio::test]
async fn an_operator_of_the_organisation_exposes_its_agents_and_no_others() {
    let world = World::new().await;
    let put = async |who: &str, slug: &str, body: &str| {
        world.send_with(who, &format!("PUT /agents/{slug}/exposure"), &[], body).await
    };
    let off = put(ADA, "own", r#"{"openai": false}"#).await.json();
    assert_eq!(off["exposed"], json!([]), "{off}");
    assert_eq!(world.get(ADA, "/v1/models/own").await.status, 404);
    let on = put(ADA, "own", r#"{"openai": true}"#).await.json();
    assert_eq!(on["exposed"], json!(["openai"]), "{on}");
    assert_eq!(on, world.get(ADA, "/agents/own/exposure").await.json());
    assert_eq!(world.get(ADA, "/agents/own").await.json()["exposed"], json!(["openai"]));
    assert_eq!(
        world.get(ADA, "/agents/hidden").await.json().get("exposed"),
        None,
        "off by default"
    );
    for (who, slug, body, status) in [
        (ADA, "golf", r#"{"openai": false}"#, 403),
        (BOB, "own", r#"{"openai": true}"#, 404),
        (BOB, "nothing", r#"{"openai": true}"#, 404),
        (READER, "own", r#"{"openai": true}"#, 403),
        (ADA, "own", r#"{"smtp": true}"#, 422),
        (ADA, "own", r#"{"openai": 1}"#, 422),
    ] {
        let answer = put(who, slug, body).await;
        assert_eq!(answer.status, status, "{who} {slug} {body}: {}", answer.body);
    }
    assert_eq!(world.get(ADA, "/v1/models/golf").await.status, 200);
}

#[tokio::test]
async fn an_exposure_has_the_addresses_and_examples_of_the_protocols_of_the_server() {
    let world = World::new().await;
    let read = async |who: &str, slug: &str| {
        let headers = [("x-forwarded-proto", "https")];
        world.send_with(who, &format!("GET /agents/{slug}/exposure"), &headers, "").await
    };
    let own = read(ADA, "own").await.json();
    assert_eq!(own["mayChange"], true);
    // The server has no routes of A2A, also of an agent that others serve by it.
    let names = |of: &Value| {
        let protocols = of["protocols"].as_array().cloned().unwrap_or_default();
        protocols.iter().map(|of| of["protocol"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&own), ["openai"]);
    let access = &own["protocols"][0]["access"];
    let settings = json!([
        {"name": "Base URL", "text": "https://localhost/v1"},
        {"name": "Model", "text": "own"},
    ]);
    assert_eq!(access["settings"], settings, "{own}");
    let examples = access["examples"].as_array().expect("a list");
    let is_right = |example: &Value| {
        let text = example["text"].as_str().unwrap_or_default();
        text.contains("https://localhost/v1") && text.contains("\"own\"")
    };
    assert!(examples.len() == 2 && examples.iter().all(is_right), "{own}");
    assert_eq!(access.get("card"), None);
    let hidden = read(ADA, "hidden").await.json();
    assert_eq!((names(&hidden), &hidden["exposed"]), (vec![json!("openai")], &json!([])));
    assert_eq!(hidden["protocols"][0].get("access"), None, "{hidden}");
    // Who may not change it sees it.
    for (who, slug) in [(READER, "own"), (RUNNER, "own"), (ADA, "golf"), (BOB, "golf")] {
        let seen = read(who, slug).await.json();
        assert_eq!(seen["mayChange"], false, "{who} {slug}");
        assert!(seen["protocols"][0]["access"].is_object(), "{seen}");
    }
    let missing = comparable(&read(BOB, "nothing").await, "nothing");
    assert_eq!((missing.0, comparable(&read(BOB, "own").await, "own")), (404, missing.clone()));
}

#[tokio::test]
async fn errors_of_the_guard_have_the_form_of_the_protocol() {
    let world = World::new().await;
    let wrong = world.get("token-of-nobody-here", "/v1/models").await;
    assert_eq!((wrong.status, &wrong.error()["code"]), (401, &json!("invalid_api_key")));
    assert_eq!(wrong.headers["www-authenticate"], "Bearer");
    let lacking = world.post(READER, "/v1/responses", &json!({})).await;
    assert_eq!((lacking.status, &lacking.error()["type"]), (403, &json!("permission_error")));
    let method = world.send_with(ADA, "PUT /v1/models", &[], "").await;
    assert_eq!((method.status, method.headers["allow"].to_str().ok()), (405, Some("GET")));
    assert!(method.error()["message"].is_string());
    let path = world.get(ADA, "/v1/embeddings").await;
    assert_eq!((path.status, &path.error()["type"]), (404, &json!("invalid_request_error")));
    let form = [("content-type", "text/plain")];
    let form = world.send_with(ADA, "POST /v1/responses", &form, "{}").await;
    assert_eq!(form.status, 415);
    assert!(form.error()["message"].is_string());
    let other = world.get("token-of-nobody-here", "/agents").await;
    assert!(other.body.starts_with("{\"detail\""), "other paths keep their form: {}", other.body);
}
