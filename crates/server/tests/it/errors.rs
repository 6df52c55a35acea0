//! Refused requests of all routes, and requests that are drawn at random.
//!
//! `openapi.json` and `tests/errors.txt` are written anew with `WEFT_WRITE=1`.

use crate::client::Client;
use crate::reference;
use crate::resources::with_token;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use weftwork_testkit::fuzz::{Random, mutated};

pub(crate) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
const SEED: u64 = 20;
/// Requests in the fast tier, and in the full one.
const REQUESTS: (usize, usize) = (5_000, 20_000);

/// The operations of the committed description: methods, paths, and if they have a body.
pub(crate) async fn operations(client: &Client) -> Vec<(String, String, bool)> {
    let document = client.get("/openapi.json").await.json();
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let has_body = operation.get("requestBody").is_some();
            operations.push((method.to_uppercase(), path.clone(), has_body));
        }
    }
    operations
}

/// Compares a file with its content now.
pub(crate) fn check_file(name: &str, now: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("WEFT_WRITE").is_some() {
        std::fs::write(&file, now).expect("writes");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(committed, now, "{name} is not as committed");
}

#[tokio::test]
async fn the_description_of_the_routes_is_the_committed_one() {
    let client = Client::new().await;
    let document = client.get("/openapi.json").await.json();
    check_file("openapi.json", &(serde_json::to_string_pretty(&document).expect("JSON") + "\n"));
    let page = client.get("/docs").await.body;
    assert!(page.contains("/store/items") && !page.contains("http"), "{page}");
    for (method, path, _) in operations(&client).await {
        let refused = send(&client, "TRACE", &with_ids(&path, NOBODY), "{}", &[]).await;
        assert_eq!(refused.0, StatusCode::METHOD_NOT_ALLOWED, "{method} {path} is not a route");
    }
}

#[tokio::test]
async fn the_schema_of_events_is_the_committed_one_and_so_are_its_types() {
    let client = Client::new().await;
    let schema = client.get("/schemas/events").await.json();
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    check_file("../types/schemas/events.json", &text);
    check_file("../types/schemas/events.ts", &weftwork_types::schema::typescript(&schema));
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let Ok(request) = request.body(Body::from(body.to_owned())) else {
        return (StatusCode::BAD_REQUEST, String::new());
    };
    let answer = client.send(request).await;
    (answer.status, answer.body)
}

/// A path with an id for each of its parameters.
pub(crate) fn with_ids(path: &str, id: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { id.to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn refused_requests_of_all_routes_have_the_listed_status_and_body() {
    let client = Client::new().await;
    let foreign = Foreign::new().await;
    let mut table = String::from("# Refused requests: status and body of each route.\n");
    let usual = json!({"assistant_id": "echo", "input": {}, "version": 1}).to_string();
    let huge = (17 << 20).to_string();
    for (method, path, has_body) in operations(&client).await {
        writeln!(table, "\n{method} {path}").expect("a text");
        let mut cases = Vec::new();
        if path.contains('{') {
            cases.push(("missing", with_ids(&path, NOBODY), usual.as_str(), vec![]));
            cases.push(("not an id", with_ids(&path, "x"), usual.as_str(), vec![]));
        }
        if has_body {
            let path = with_ids(&path, NOBODY);
            cases.push(("malformed", path.clone(), "{bad", vec![]));
            cases.push(("wrong type", path.clone(), "[1]", vec![]));
            cases.push(("too large", path, "{}", vec![("content-length", huge.as_str())]));
        }
        if let Some(path) = foreign.path(&path) {
            foreign.check(&method, &path, &usual, &mut table).await;
        }
        for (case, path, body, headers) in cases {
            let (status, body) = send(&client, &method, &path, body, &headers).await;
            assert!(status != StatusCode::INTERNAL_SERVER_ERROR, "{method} {path}: {body}");
            if !status.is_success() {
                let detail: Value = serde_json::from_str(&body).expect("JSON");
                assert!(detail["detail"].is_string(), "{method} {path}: {body}");
            }
            check_wording(&body);
            let body: String = body.chars().take(160).collect();
            writeln!(table, "  {case}: {} {body}", status.as_u16()).expect("a text");
        }
    }
    check_file("tests/errors.txt", &table);
}

/// Fails if the body of an error has names of types or values of this program, or of its libraries.
#[track_caller]
fn check_wording(body: &str) {
    let words =
        ["::", "serde", "struct ", "enum ", "untagged", " variant", "Option<", "Some(", "NonZero"];
    let found = words.iter().find(|word| body.contains(**word));
    assert!(found.is_none(), "`{}` is of this program: {body}", found.unwrap_or(&""));
    let numbers = ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "isize", "f64"];
    let found =
        body.split(|letter: char| !letter.is_ascii_alphanumeric()).find(|w| numbers.contains(w));
    assert_eq!(found, None, "{body}");
}

/// Members of bodies. Of the values of the test at most one fits each.
const MEMBERS: [&str; 48] = [
    "assistant_id",
    "input",
    "command",
    "checkpoint",
    "checkpoint_id",
    "metadata",
    "config",
    "context",
    "webhook",
    "interrupt_before",
    "interrupt_after",
    "stream_mode",
    "stream_subgraphs",
    "multitask_strategy",
    "if_not_exists",
    "after_seconds",
    "durability",
    "checkpoint_during",
    "on_disconnect",
    "on_completion",
    "graph_id",
    "if_exists",
    "name",
    "description",
    "version",
    "values",
    "as_node",
    "supersteps",
    "thread_id",
    "run_ids",
    "thread_ids",
    "status",
    "limit",
    "offset",
    "sort_by",
    "sort_order",
    "select",
    "extract",
    "before",
    "namespace",
    "key",
    "value",
    "ttl",
    "namespace_prefix",
    "filter",
    "messages",
    "strategy",
    "channels",
];

#[tokio::test(start_paused = true)]
async fn errors_of_wrong_members_name_no_types_of_the_program() {
    let client = Client::over(reference::runtime().await);
    let wrong = [json!(7.5), json!(-1), json!("x"), json!([[7]]), json!({"x": [1]}), json!(true)];
    let nested = ["resume", "goto", "update", "configurable", "recursion_limit", "tags", "node"];
    let mut refused = 0;
    let mut commands = 0;
    for (method, path, has_body) in operations(&client).await {
        if !has_body {
            continue;
        }
        for value in &wrong {
            let mut bodies = vec![value.clone()];
            for member in MEMBERS {
                bodies.push(json!({"assistant_id": "echo", "graph_id": "echo", member: value}));
            }
            for member in nested {
                let inner = json!({member: value});
                bodies.push(json!({"assistant_id": "echo", "command": inner, "config": inner}));
            }
            for body in bodies {
                let (status, answer) =
                    send(&client, &method, &with_ids(&path, NOBODY), &body.to_string(), &[]).await;
                if status.is_client_error() {
                    refused += 1;
                    check_wording(&answer);
                }
            }
        }
        if path.ends_with("/commands") {
            for (method, member) in [
                "run.start",
                "input.respond",
                "input.inject",
                "state.get",
                "state.listCheckpoints",
                "state.fork",
            ]
            .iter()
            .flat_map(|method| {
                let members = [
                    "input",
                    "config",
                    "metadata",
                    "responses",
                    "interrupt_id",
                    "message",
                    "namespace",
                    "keys",
                    "limit",
                    "before",
                    "checkpoint_id",
                    "assistant_id",
                ];
                members.map(|member| (*method, member))
            }) {
                for value in &wrong {
                    let params = json!({"assistant_id": "echo", member: value});
                    let command = json!({"id": 1, "method": method, "params": params}).to_string();
                    let answer =
                        send(&client, "POST", &with_ids(&path, NOBODY), &command, &[]).await.1;
                    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
                    commands += usize::from(answer["type"] == "error");
                    check_wording(answer["message"].as_str().unwrap_or_default());
                }
            }
        }
    }
    assert!(refused > 1_000 && commands > 100, "{refused} and {commands} errors");
}

/// Things of an organisation, and a client of another one.
struct Foreign {
    client: Client,
    /// The names of parameters of paths, with the ids of the things.
    ids: Vec<(&'static str, String)>,
}

impl Foreign {
    async fn new() -> Self {
        let runtime = Client::new().await.runtime;
        let (client, [one, _]) = with_token(&runtime);
        let send = async |path: &str, body: Value| {
            let headers = [("x-api-key", one.as_str())];
            let (status, found) = send(&client, "POST", path, &body.to_string(), &headers).await;
            assert_eq!(status, StatusCode::OK, "{path}: {found}");
            serde_json::from_str::<Value>(&found).expect("JSON")
        };
        let text = |value: &Value, name: &str| value[name].as_str().expect("an id").to_owned();
        let assistant =
            text(&send("/assistants", json!({"graph_id": "echo"})).await, "assistant_id");
        let thread = text(&send("/threads", json!({})).await, "thread_id");
        let run = json!({"assistant_id": "echo", "input": {"msg": "secret"}});
        let runs = format!("/threads/{thread}/runs");
        send(&format!("{runs}/wait"), run.clone()).await;
        let run = text(&send(&runs, run).await, "run_id");
        let states = send(&format!("/threads/{thread}/history"), json!({})).await;
        let checkpoint = text(&states[0], "checkpoint_id");
        let ids = vec![
            ("{assistant_id}", assistant),
            ("{thread_id}", thread),
            ("{run_id}", run),
            ("{checkpoint_id}", checkpoint),
        ];
        Self { client, ids }
    }

    /// A path with the ids of the things; `None` if it names none.
    fn path(&self, path: &str) -> Option<String> {
        self.ids.iter().any(|(name, _)| path.contains(name)).then(|| {
            let ids = self.ids.iter();
            let path = ids.fold(path.to_owned(), |path, (name, id)| path.replace(name, id));
            with_ids(&path, "x")
        })
    }

    /// Adds the answer to the client of the other organisation, which is that for a thing that does
    /// not exist.
    async fn check(&self, method: &str, path: &str, body: &str, table: &mut String) {
        let headers = [("x-api-key", "token-of-organisation-two")];
        let (status, found) = send(&self.client, method, path, body, &headers).await;
        let unknown = |text: &str| {
            self.ids.iter().fold(text.to_owned(), |text, (_, id)| text.replace(id, NOBODY))
        };
        let missing = send(&self.client, method, &unknown(path), body, &headers).await;
        assert_eq!((status, unknown(&found)), missing, "{method} {path}");
        let found: String = unknown(&found).chars().take(160).collect();
        writeln!(table, "  foreign: {} {found}", status.as_u16()).expect("a text");
    }
}

/// Ids and names that occur in requests.
struct Known {
    ids: Vec<String>,
    bodies: Vec<String>,
}

impl Known {
    fn new() -> Self {
        let ids = ["x", NOBODY, "", "%00", "..", "echo", "agent", "1-0", "%F0%9F%98%80", "null"];
        let bodies = [
            json!({"assistant_id": "echo", "input": {"msg": "a"}, "if_not_exists": "create"}),
            json!({"assistant_id": "inter", "input": {"q": 1}, "stream_mode": ["values", "debug"]}),
            json!({"assistant_id": "parent", "input": {"msg": "a"}, "stream_subgraphs": true}),
            json!({"assistant_id": "slow", "input": {"steps": 2, "delay": 0.1}}),
            json!({"assistant_id": "failing", "input": {}, "multitask_strategy": "rollback"}),
            json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "x"}]}}),
            json!({"assistant_id": "inter", "command": {"resume": "yes", "goto": "done"}}),
            json!({"assistant_id": "echo", "input": null, "after_seconds": 3, "durability": "exit"}),
            json!({"assistant_id": "echo", "checkpoint": {"checkpoint_id": NOBODY}}),
            json!({"graph_id": "echo", "metadata": {"a": 1}, "config": {"configurable": {"x": 1}}}),
            json!({"values": {"msg": "x"}, "as_node": "echo", "version": 2}),
            json!({"namespace": ["a", "b"], "key": "k", "value": {"n": 1}, "ttl": 0.5}),
            json!({"threadId": NOBODY, "messages": [{"role": "user", "content": "2+3?"}]}),
            json!({"id": NOBODY, "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]},
                {"role": "assistant", "parts": [{"type": "tool-add", "toolCallId": "call_1",
                    "state": "output-available", "input": {}, "output": 7}]}]}),
            json!({"namespace_prefix": ["a"], "filter": {"n": {"$gt": 0}}, "query": "x"}),
            json!({"limit": 3, "offset": 1, "status": "idle", "sort_by": "created_at"}),
            json!({"limit": -1, "metadata": 7, "before": {"configurable": {}}}),
            json!({"thread_ids": [NOBODY], "run_ids": [NOBODY], "thread_id": NOBODY}),
            json!([]),
        ];
        let ids = ids.map(str::to_owned).to_vec();
        Self { ids, bodies: bodies.map(|body| body.to_string()).to_vec() }
    }

    /// Keeps ids of an answer for later requests.
    fn learn(&mut self, body: &str, random: &mut Random) {
        let found = serde_json::from_str::<Value>(body).unwrap_or_default();
        for name in ["thread_id", "run_id", "assistant_id", "checkpoint_id"] {
            let Some(id) = found.get(name).and_then(Value::as_str) else { continue };
            if self.ids.len() < 200 {
                self.ids.push(id.to_owned());
            } else {
                let at = random.below(self.ids.len());
                self.ids[at] = id.to_owned();
            }
        }
    }

    fn id(&self, random: &mut Random) -> String {
        self.ids[random.below(self.ids.len())].clone()
    }

    fn body(&self, random: &mut Random) -> String {
        let body = self.bodies[random.below(self.bodies.len())].replace(NOBODY, &self.id(random));
        match random.below(4) {
            0 => {
                let others: Vec<_> = self.bodies.iter().map(String::as_bytes).collect();
                let bytes = mutated(body.as_bytes(), &others, 0, random);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => body,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_generated_request_fails_the_server() {
    println!("seed {SEED}");
    let client = Client::over(reference::runtime().await);
    let operations = operations(&client).await;
    let mut random = Random::new(SEED);
    let mut known = Known::new();
    let mut by_status: BTreeMap<u16, usize> = BTreeMap::new();
    let is_full = std::env::var("WEFT_TIER").is_ok_and(|tier| tier == "full");
    let requests = if is_full { REQUESTS.1 } else { REQUESTS.0 };
    for number in 0..requests {
        let (method, path, _) = &operations[random.below(operations.len())];
        let mut parts: Vec<String> = Vec::new();
        for part in path.split('/') {
            parts.push(if part.starts_with('{') { known.id(&mut random) } else { part.to_owned() });
        }
        let queries =
            ["", "?limit=2", "?wait=true&action=rollback", "?stream_mode=values", "?x=%ff"];
        let path = parts.join("/") + queries[random.below(queries.len())];
        let body = known.body(&mut random);
        let event = known.id(&mut random);
        let headers = [("last-event-id", event.as_str())];
        let (status, answer) = send(&client, method, &path, &body, &headers).await;
        let is_failure = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
        if status.is_client_error() {
            check_wording(&answer);
        }
        assert!(!is_failure, "request {number}, seed {SEED}: {method} {path} {body}: {answer}");
        *by_status.entry(status.as_u16()).or_default() += 1;
        known.learn(&answer, &mut random);
    }
    println!("{by_status:?}");
    assert!(by_status[&200] > requests / 20, "too few requests reach a route: {by_status:?}");
    let run = json!({"assistant_id": "echo", "input": {"msg": "alive"}});
    assert_eq!(client.post("/runs/wait", run).await.json()["out"], "echo:alive");
}
