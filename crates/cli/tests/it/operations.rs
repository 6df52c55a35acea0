//! Operations of OpenAPI files as tools of agents, against a server that records what reaches it.

use crate::home::{Came, Home};
use serde_json::{Value, json};
use weftwork_testkit::{LoopbackServer, Received, Reply};

const FILE: &str = r#"openapi: 3.0.3
servers: [{url: "https://elsewhere.example.org"}]
paths:
  /orders/{id}/items/{item}:
    get:
      operationId: getItem
      summary: Reads an item of an order
      parameters:
        - {name: id, in: path, required: true, schema: {}}
        - {name: item, in: path, required: true, schema: {}}
        - {name: tags, in: query, schema: {type: array, items: {type: string}}}
        - {name: sizes, in: query, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: filter, in: query, style: deepObject, schema: {type: object}}
        - {name: where, in: query, content: {application/json: {schema: {type: object}}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: X-Shop, in: header, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
  /orders:
    post:
      operationId: createOrder
      summary: Creates an order
      requestBody:
        required: true
        content:
          application/vnd.shop+json:
            schema: {type: object, required: [item], properties: {item: {type: string}}}
  /mails:
    post:
      operationId: sendMail
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object}
            encoding: {copies: {style: deepObject, explode: true}}
  /files/{name}.{ending}:
    delete:
      operationId: removeFile
      parameters:
        - {name: name, in: path, required: true, schema: {type: string}}
        - {name: ending, in: path, required: true, schema: {type: string}}
"#;
const ALLOWED: &str = r#"{"version": 1, "rules": [{"tool": "api/*", "decision": "allow"}]}"#;

/// A home with an agent that has the operations of the file, and a model.
struct Scene {
    home: Home,
    server: LoopbackServer,
}

impl Scene {
    /// `kind` has the type of the agent and what belongs to it; the model gives these answers in turn.
    async fn new(kind: &str, rules: &str, answers: &'static [&'static str]) -> Self {
        let server = LoopbackServer::start(move |_, request| answer(request, answers));
        let server = server.await.expect("a server");
        let url = server.url("");
        let home = Home::new().config(&format!(
            "model = \"fake:desk\"\nagents = \"agents\"\n[providers.fake]\nurl = \"{url}/v1\"\n[egress]\nallow = [\"127.0.0.1\"]\n"
        ));
        let home = home.set("AGENT_SHOP_TOKEN", "CANARY").set("WEFT_POLICY", "rules.json");
        std::fs::create_dir_all(home.path("agents/shop")).expect("made");
        let api = format!(
            "{{endpoint: '{url}/base/', authentication: {{type: bearer}}, headers: {{X-Shop: tea}}, retries: 0}}"
        );
        let definition = format!(
            "weft: 1\n{}\nopenapi: api.yaml\noperations: [getItem, createOrder, removeFile, sendMail]\n",
            kind.replace("{api}", &api)
        );
        for (name, text) in [
            ("rules.json", rules),
            ("agents/shop/agent.yaml", &definition),
            ("agents/shop/api.yaml", FILE),
        ] {
            std::fs::write(home.path(name), text).expect("written");
        }
        Self { home, server }
    }

    fn weft(&self, args: &[&str]) -> Came {
        tokio::task::block_in_place(|| self.home.weft(args))
    }

    fn ask(&self, args: &[&str]) -> Value {
        let came = self.weft(&[&["agents", "run", "shop"], args, &["--json"]].concat());
        assert!(!came.out.contains("CANARY") && !came.errors.contains("CANARY"), "{came:?}");
        serde_json::from_str(&came.out).unwrap_or_else(|_| panic!("no answer: {came:?}"))
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.ask(&["--payload", &json!({"tool": tool, "arguments": arguments}).to_string()])
    }

    /// Requests that reached the API.
    fn requests(&self) -> Vec<Received> {
        let received = self.server.received().into_iter();
        received.filter(|request| !request.path.starts_with("/v1")).collect()
    }
}

/// Answers as the model or as the API.
fn answer(request: &Received, answers: &[&str]) -> Reply {
    if !request.path.starts_with("/v1") {
        let mut body = json!({"path": request.path, "method": request.method});
        if request.path.ends_with("/long") {
            body["text"] = "x".repeat(700_000).into();
        }
        return Reply::full(200, &[("content-type", "application/json")], body.to_string());
    }
    // A request for the arguments of a tool names it.
    let asked = String::from_utf8_lossy(&request.body);
    let turn = usize::from(asked.contains("Take the arguments"));
    let text = answers.get(turn).copied().unwrap_or("{}");
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"});
    let stream = format!("data: {}\n\ndata: [DONE]\n\n", json!({"id": "c", "choices": [choice]}));
    Reply::full(200, &[("content-type", "text/event-stream")], stream)
}

const API: &str = "type: api\ntransport: {kind: api, api: {api}}";

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_called_with_its_parameters_at_the_endpoint_of_the_definition() {
    let scene = Scene::new(API, ALLOWED, &[]).await;
    let found = scene.call(
        "api/shop/get_item",
        &json!({
            "id": 7, "item": "a b", "tags": ["x", "y&z"], "sizes": [1, 2],
            "filter": {"state": "open"}, "where": {"a": [1]}, "X-Trace": "t1", "X-Shop": "other",
        }),
    );
    let path = "/base/orders/7/items/a%20b?tags=x&tags=y%26z&sizes=1%2C2&filter%5Bstate%5D=open&where=%7B%22a%22%3A%5B1%5D%7D";
    assert_eq!(found["content"], json!({"path": path, "method": "GET"}), "{found}");
    let sent = &scene.requests()[0];
    assert_eq!(sent.header("authorization"), Some("Bearer CANARY"));
    assert_eq!(sent.header("x-trace"), Some("t1"));
    let shops = sent.headers.iter().filter(|(name, _)| name == "x-shop");
    assert_eq!(shops.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["tea"]);

    let found = scene.call("api/shop/create_order", &json!({"body": {"item": "tea"}}));
    assert_eq!(found["content"], json!({"path": "/base/orders", "method": "POST"}), "{found}");
    let sent = &scene.requests()[1];
    assert_eq!(sent.header("content-type"), Some("application/vnd.shop+json"));
    assert_eq!(sent.body, br#"{"item":"tea"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_forms_have_the_names_that_the_file_says() {
    let scene = Scene::new(API, ALLOWED, &[]).await;
    let body = json!({"to": ["a@x", "b@x"], "copies": ["c", "d"], "parts": {"text": ["Hi & bye"]}, "n": 1});
    scene.call("api/shop/send_mail", &json!({"body": body}));
    let sent = &scene.requests()[0];
    assert_eq!(sent.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(
        String::from_utf8_lossy(&sent.body),
        "to=a%40x&to=b%40x&copies%5B0%5D=c&copies%5B1%5D=d&parts%5Btext%5D%5B0%5D=Hi+%26+bye&n=1"
    );
}

/// Values that models were led to write in other programs.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_the_path_stays_within_its_segment() {
    let scene = Scene::new(API, ALLOWED, &[]).await;
    for (id, sent) in [
        (json!("admin/config"), "admin%2Fconfig"),
        (json!("a?x=1"), "a%3Fx%3D1"),
        (json!("a#frag"), "a%23frag"),
        (json!("%2e%2e"), "%252e%252e"),
        (json!("..;/"), "..%3B%2F"),
        (json!("..."), "..."),
        (json!("{item}"), "%7Bitem%7D"),
        (json!("\\x"), "%5Cx"),
        (json!("a\r\nX: 1"), "a%0D%0AX%3A%201"),
        (json!("@evil.example/"), "%40evil.example%2F"),
        (json!("ü"), "%C3%BC"),
        (json!(["a", "b/c"]), "a%2Cb%2Fc"),
        (json!(true), "true"),
    ] {
        let found = scene.call("api/shop/get_item", &json!({"id": id, "item": "1"}));
        let path = format!("/base/orders/{sent}/items/1");
        assert_eq!(found["content"]["path"], path.as_str(), "{id}: {found}");
    }
    let sent = scene.requests().len();
    for (tool, arguments, text) in [
        ("get_item", json!({"id": "..", "item": "1"}), "leads to another one"),
        ("get_item", json!({"id": "../../admin/config", "item": "1"}), "leads to another one"),
        ("get_item", json!({"id": "\\..\\x", "item": "1"}), "leads to another one"),
        ("get_item", json!({"id": ".", "item": "1"}), "leads to another one"),
        ("get_item", json!({"id": "", "item": "1"}), "`id` is empty"),
        ("get_item", json!({"id": null, "item": "1"}), "`id` is empty"),
        ("get_item", json!({"item": "1"}), "id"),
        ("get_item", json!({"id": 1, "item": "1", "path": "/x"}), "path"),
        (
            "get_item",
            json!({"id": 1, "item": "1", "X-Trace": "a\r\nX: 1"}),
            "`X-Trace` has a line break",
        ),
        ("remove_file", json!({"name": "", "ending": "."}), "is empty"),
    ] {
        let found = scene.call(&format!("api/shop/{tool}"), &arguments);
        assert_eq!(found["metadata"]["code"], "W0402", "{arguments}: {found}");
        let error = found["error"].as_str().unwrap_or_default();
        assert!(error.contains(text), "{arguments}: {error}");
    }
    assert_eq!(scene.requests().len(), sent, "none was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_chooses_among_operations_and_takes_their_arguments() {
    let answers = &[r#"{"tool": "api/shop/get_item"}"#, r#"{"id": 7, "item": "x"}"#];
    let kinds = [(API, "/path"), ("type: tool\ntransport: {kind: api, api: {api}}", "/body/path")];
    for (kind, place) in kinds {
        let scene = Scene::new(kind, ALLOWED, answers).await;
        let found = scene.ask(&["Read item x of order 7."]);
        let path = found["content"].pointer(place);
        assert_eq!(path, Some(&json!("/base/orders/7/items/x")), "{found}");
        assert_eq!(found["metadata"]["tools"][0]["tool"], "api/shop/get_item", "{found}");
        let asked = scene.server.received();
        let asked = String::from_utf8_lossy(&asked[0].body).into_owned();
        assert!(asked.contains("api/shop/create_order: Creates an order"), "{asked}");
        let other = scene.call("api/shop/list_orders", &json!({}));
        assert_eq!(other["metadata"]["code"], "W1034", "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_calls_operations_that_its_agent_has() {
    let kind = r#"type: function
transport: {kind: function, function: {grants: [tools], timeout_ms: 60000}, api: {api}}
function_code: |
  async function handler(input, ctx) {
    const read = await ctx.tools('api/shop/get_item', { id: 1, item: 2 });
    try { await ctx.tools('api/shop', {}); } catch (error) { return [read.body.path, error.code]; }
  }"#;
    let scene = Scene::new(kind, ALLOWED, &[]).await;
    let found = scene.ask(&["Go."]);
    assert_eq!(found["content"], json!(["/base/orders/1/items/2", "W1034"]), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rule_a_person_approves_operations_that_change_something() {
    let rules = r#"{"version": 1, "rules": []}"#;
    for (tool, arguments, is_asked) in [
        ("get_item", json!({"id": 1, "item": 2}), false),
        ("create_order", json!({"body": {"item": "tea"}}), true),
        ("remove_file", json!({"name": "a", "ending": "txt"}), true),
    ] {
        let scene = Scene::new(API, rules, &[]).await;
        let found = scene.call(&format!("api/shop/{tool}"), &arguments);
        assert_eq!(found["metadata"]["status"] == "input_required", is_asked, "{tool}: {found}");
        assert_eq!(scene.requests().len(), usize::from(!is_asked), "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_is_reported() {
    let scene = Scene::new(API, ALLOWED, &[]).await;
    let found = scene.call("api/shop/get_item", &json!({"id": 1, "item": "long"}));
    assert_eq!(found["content"]["cut"], true, "{}", found["metadata"]);
    let warnings = found["metadata"]["warnings"].to_string();
    assert!(warnings.contains("longer than a deliverable may be"), "{warnings}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_prints_the_tools_of_agents_with_their_tokens() {
    let kind = "type: tool\ntools: [files/read]\ntransport: {kind: api, api: {api}}";
    let scene = Scene::new(kind, ALLOWED, &[]).await;
    let came = scene.weft(&["agents", "check"]);
    assert_eq!(came.status, Some(0), "{came:?}");
    let lines: Vec<_> = came.out.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  files/read  declared by its server",
            "  api/shop/get_item  about 91 tokens",
            "  api/shop/create_order  about 53 tokens",
            "  api/shop/remove_file  about 43 tokens",
            "  api/shop/send_mail  about 32 tokens",
        ]
    );
    std::fs::write(scene.home.path("agents/shop/api.yaml"), "openapi: 2.0\n").expect("written");
    let came = scene.weft(&["agents", "check"]);
    assert!(came.out.starts_with("shop/api.yaml:1:10: W1008"), "{came:?}");
}
