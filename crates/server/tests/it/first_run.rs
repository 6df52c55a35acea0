//! Facts for people who open a server for the first time: agents, the model that is offered, error pages.

use crate::chat;
use crate::client::Client;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use weftwork_server::{DownloadState, ModelDownload, ModelOffer, Server};

#[tokio::test]
async fn an_assistant_has_a_description_its_tools_and_requests_for_them() {
    let runtime = chat::client().await.runtime;
    let server = Server::new(runtime.clone()).describe("desk", "orders and refunds");
    let client = Client::of(server, runtime);
    let desk = client.post("/assistants/search", json!({"name": "desk"})).await.json();
    assert_eq!(desk[0]["description"], "orders and refunds", "{desk}");
    let keeper = client.post("/assistants/search", json!({"graph_id": "keeper"})).await.json();
    assert_eq!((&keeper[0]["name"], &keeper[0]["description"]), (&json!("keeper"), &Value::Null));
    let found = client.get("/assistants/desk/tools").await.json();
    let tool = |name: &str| -> Value {
        let tools = found["tools"].as_array().expect("a list");
        tools.iter().find(|tool| tool["name"] == name).expect(name).clone()
    };
    let refund = tool("refund_order");
    assert_eq!(refund["permission"], "asks", "{refund}");
    assert_eq!(refund["effect"], "external_side_effect", "{refund}");
    assert!(refund["reason"].is_string() && refund["member"].is_null(), "{refund}");
    assert_eq!(tool("lookup_order")["permission"], "allowed");
    let requests = found["requests"].as_array().map(Vec::len);
    assert!(requests.is_some_and(|requests| requests <= 2), "{found}");
    assert_eq!(
        client.get("/assistants/nobody/tools").await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

/// A download whose steps are those of the test.
#[derive(Debug)]
struct Steps(Mutex<DownloadState>);

impl ModelDownload for Steps {
    fn offer(&self) -> ModelOffer {
        ModelOffer {
            model: "local:small".to_owned(),
            label: "small".to_owned(),
            bytes: 10,
            licence: "Apache-2.0".to_owned(),
            sources: vec!["https://models.example".to_owned()],
            import: "weft models import FILE".to_owned(),
            state: self.0.lock().expect("a state").clone(),
        }
    }

    fn begin(&self) {
        let source = "https://models.example".to_owned();
        *self.0.lock().expect("a state") = DownloadState::Loading { source, done: 3 };
    }
}

#[tokio::test]
async fn a_model_is_offered_and_its_download_begins_on_request() {
    let client = chat::client().await;
    assert_eq!(client.get("/setup").await.json(), json!({"download": null}));
    assert_eq!(client.post("/setup/download", json!({})).await.status, StatusCode::NOT_FOUND);
    let steps = Arc::new(Steps(Mutex::new(DownloadState::Offered)));
    let server = Server::new(client.runtime.clone()).model_download(steps);
    let client = Client::of(server, client.runtime);
    let offer = client.get("/setup").await.json();
    assert_eq!(offer["download"]["licence"], "Apache-2.0", "{offer}");
    assert_eq!(offer["download"]["state"], json!({"state": "offered"}));
    assert_eq!(client.post("/setup/download", json!({})).await.status, StatusCode::ACCEPTED);
    let state = &client.get("/setup").await.json()["download"]["state"];
    let expected = json!({"state": "loading", "source": "https://models.example", "done": 3});
    assert_eq!(*state, expected);
}

#[tokio::test]
async fn an_error_code_has_a_page() {
    let client = chat::client().await;
    for code in ["W0302", "w0302"] {
        let page = client.get(&format!("/errors/{code}")).await;
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(page.headers["content-type"], "text/markdown; charset=utf-8");
        assert!(page.body.starts_with("# W0302: "), "{}", page.body);
    }
    assert_eq!(client.get("/errors/W0999").await.status, StatusCode::NOT_FOUND);
}
