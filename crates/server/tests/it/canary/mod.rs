//! A generated text stands in everything that is secret: members of results that may not be shown,
//! secret arguments, the key of a model, and headers of requests. It is in no byte that the server
//! sends or logs.

mod after;
mod codes;
mod provider;
mod trace;

use crate::client::{Answer, CHANNELS, Client};
use crate::protocol::Events;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::{SinkExt, StreamExt};
use provider::Provider;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use weftwork::prelude::*;
use weftwork::tools::{Decision, Rule, ToolPattern};
use weftwork_server::Server;
use weftwork_types::{ErrorCode, Principal};

/// Longest wait for a part of a stream.
const WAIT: Duration = Duration::from_secs(20);

/// The text.
static CANARY: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().simple().to_string());

/// Returns a secret that has the text in it.
fn secret(kind: &str) -> String {
    format!("{kind}-{}", *CANARY)
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Account {
    id: String,
    card: String,
    owner: Owner,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Owner {
    name: String,
    address: Vec<String>,
}

/// Opens an account with a secret number.
#[tool(shown(id, "owner.name"))]
fn open_account(id: String, #[arg(secret)] pin: String) -> Account {
    let owner = Owner { name: "Ada".to_owned(), address: vec![secret("street"), pin] };
    Account { id, card: secret("card"), owner }
}

/// Checks an account. Its error repeats the secret argument, and what another call has hidden.
#[tool]
fn check_account(id: String, note: String, #[arg(secret)] pin: String) -> Result<String, String> {
    Err(format!("{id}: {pin} does not open {} ({note})", secret("card")))
}

/// Closes an account. It panics with what it was given.
#[tool]
fn close_account(id: String, #[arg(secret)] pin: String) -> Result<String, String> {
    panic!("{id} cannot be closed with {pin}: {}", secret("card"))
}

/// Moves an account, which takes longer than it may.
#[tool(timeout_ms = 20)]
async fn move_account(id: String, #[arg(secret)] pin: String) -> Result<String, String> {
    tokio::time::sleep(WAIT).await;
    Ok(format!("{id} {pin}"))
}

/// Lists an account: with more than a result may have.
#[tool(shown(id))]
fn list_account(id: String, #[arg(secret)] pin: String) -> Account {
    let owner = Owner { name: "Ada".to_owned(), address: vec![pin; 100_000] };
    Account { id, card: secret("card"), owner }
}

/// Freezes an account, which nobody may.
#[tool]
fn freeze_account(id: String, #[arg(secret)] pin: String) -> Result<String, String> {
    Ok(format!("{id} {pin}"))
}

/// Reports an account, which fails with the code that it is given.
#[tool]
fn report_account(
    id: String,
    code: String,
    #[arg(secret)] pin: String,
) -> Result<String, ToolError> {
    let known = codes::of_runs().find(|known| *known == code);
    let text = format!("{id}: {pin} does not open {}", secret("card"));
    Err(ToolError::failed(text).with_code(ErrorCode(known.unwrap_or("W0406"))))
}

/// The output of the server, with the request that led to it.
#[derive(Default)]
struct Sent(Vec<(String, String)>);

/// A client whose requests have secrets in their headers.
struct RecordingClient {
    client: Client,
    sent: Sent,
}

impl RecordingClient {
    async fn request(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers() {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let answer =
            tokio::time::timeout(WAIT, self.client.send(request)).await.expect("an answer");
        let response = format!("{} {:?}\n{}", answer.status, answer.headers, answer.body);
        self.sent.0.push((format!("{method} {path} {body}"), response));
        answer
    }

    /// Sends a request that succeeds; returns the body.
    async fn get(&mut self, path: &str) -> String {
        let answer = self.request("GET", path, &Value::Null).await;
        assert!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.body);
        answer.body
    }

    async fn post(&mut self, path: &str, body: &Value) -> String {
        let answer = self.request("POST", path, body).await;
        assert!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.body);
        answer.body
    }

    /// Creates a thread and returns its path.
    async fn thread(&mut self) -> String {
        let made: Value =
            serde_json::from_str(&self.post("/threads", &json!({})).await).expect("JSON");
        format!("/threads/{}", made["thread_id"].as_str().expect("an id"))
    }
}

impl RecordingClient {
    /// Forks a thread at each of its checkpoints, and reads the messages that the forks have.
    async fn fork(&mut self, thread: &str) {
        let select = json!({"limit": 20, "select": ["checkpoint_id"]});
        let list = self.post(&format!("{thread}/history"), &select).await;
        let list: Vec<Value> = serde_json::from_str(&list).expect("JSON");
        let mut messages = String::new();
        for checkpoint in &list {
            let copy = self.post(&format!("{thread}/copy"), checkpoint).await;
            let copy: Value = serde_json::from_str(&copy).expect("JSON");
            let id = copy["thread_id"].as_str().expect("an id");
            messages += &self.get(&format!("/chat/keeper/{id}")).await;
        }
        assert!(messages.contains(r#""output":{"id":"A1","owner":{"name":"Ada"}}"#), "{messages}");
    }
}

fn headers() -> Vec<(&'static str, String)> {
    vec![
        ("host", "localhost".to_owned()),
        ("authorization", format!("Bearer {}", secret("token"))),
        ("x-api-key", secret("own")),
        ("x-openai-api-key", secret("openai")),
        ("api-key", secret("azure")),
        ("cookie", format!("other={}", secret("cookie"))),
        ("user-agent", secret("agent")),
        // The response repeats the id of a request.
        ("x-request-id", "request-1".to_owned()),
    ]
}

fn agent(provider: &Provider) -> CompiledGraph {
    let decision = Decision::AskHuman { reason: "it opens".to_owned() };
    let rule = Rule::new(ToolPattern::One("open_account".to_owned()), decision);
    let allowed =
        ["check_account", "close_account", "move_account", "list_account", "report_account"];
    let allow = |name: &str| Rule::new(ToolPattern::One(name.to_owned()), Decision::Allow);
    let deny = Decision::Deny { reason: "nobody may".to_owned() };
    let denied = Rule::new(ToolPattern::One("freeze_account".to_owned()), deny);
    let rules = allowed.into_iter().map(allow).chain([rule, denied]).collect();
    let tools = ToolBox::new().with(open_account).with(check_account).with(close_account);
    let tools = tools.with(move_account).with(list_account).with(freeze_account);
    let tools = tools.with(report_account);
    ReactAgent::new("keeper", provider.model())
        .model_caller(weftwork::models::ModelCaller::new(weftwork::models::RetryPolicy::once()))
        .tools(tools)
        .policy(Policy { rules, ..Policy::default() })
        .build()
        .expect("sound")
}

const MODES: [&str; 9] = [
    "values",
    "updates",
    "messages",
    "messages-tuple",
    "custom",
    "tasks",
    "checkpoints",
    "debug",
    "events",
];

fn input(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

/// Runs to the approval, to the end and into a failure, in each stream mode.
async fn classic(client: &mut RecordingClient) {
    let resume = json!({"resume": {"decisions": [{"type": "approve"}]}});
    for mode in MODES {
        let thread = client.thread().await;
        let stream = format!("{thread}/runs/stream");
        let body =
            json!({"assistant_id": "keeper", "stream_mode": [mode], "stream_subgraphs": true});
        let with = |name: &str, value: &Value| {
            let mut body = body.clone();
            body[name] = value.clone();
            body
        };
        client.post(&stream, &with("input", &input("open"))).await;
        client.get(&format!("{thread}/state")).await;
        let ended = client.post(&stream, &with("command", &resume)).await;
        assert!(mode != "values" || ended.contains("Opened."), "{ended}");
        for said in ["check", "check", "fail", "fail", "fail", "fail", "fail"] {
            client.post(&stream, &with("input", &input(said))).await;
        }
        // A person says no, with words of their own.
        client.post(&stream, &with("input", &input("open"))).await;
        let no = json!({"resume": {"decisions": [{"type": "reject", "message": "no"}]}});
        client.post(&stream, &with("command", &no)).await;
        client.get(&thread).await;
        client.get(&format!("{thread}/state?subgraphs=true")).await;
        client.get(&format!("{thread}/history")).await;
        let select = json!({"limit": 20, "select": ["values", "tasks", "metadata", "interrupts"]});
        let history = client.post(&format!("{thread}/history"), &select).await;
        assert!(history.contains("Opened."), "{history}");
        client.fork(&thread).await;
        let runs = client.get(&format!("{thread}/runs")).await;
        let runs: Vec<Value> = serde_json::from_str(&runs).expect("JSON");
        for run in &runs {
            let path = format!("{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
            client.get(&path).await;
            client.get(&format!("{path}/join")).await;
            client.get(&format!("{path}/stream?stream_mode={mode}")).await;
        }
    }
    let body = json!({"assistant_id": "keeper", "input": input("open")});
    client.post("/runs/wait", &body).await;
    client.post("/threads/search", &json!({})).await;
    let extract =
        json!({"all": "values", "last": "values.messages[-1]", "result": "values.messages[2]"});
    let found =
        client.post("/threads/search", &json!({"query": "keeper", "extract": extract})).await;
    assert!(found.contains("\"extracted\""), "{found}");
    client.get("/assistants/keeper/graph").await;
}

/// Says the same in both formats of chats.
async fn chats(client: &mut RecordingClient) {
    for protocol in ["ui-message-stream", "data-stream"] {
        let path = format!("/chat/keeper?protocol={protocol}");
        let thread = protocol;
        let say = |messages: Value| json!({"threadId": thread, "messages": messages});
        let user =
            |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
        let asked = client.post(&path, &say(json!([user("open")]))).await;
        assert!(asked.contains("request_approval"), "{asked}");
        client.get(&format!("/chat/keeper/{thread}")).await;
        let listed: Vec<Value> =
            serde_json::from_str(&client.get("/interrupts").await).expect("JSON");
        let question = listed.iter().find(|one| one["thread_id"] == thread).expect("a question");
        let answer = json!({"role": "tool", "content": [{"type": "tool-result",
            "toolCallId": question["call"]["id"], "toolName": "request_approval",
            "output": {"type": "json", "value": {"type": "approve"}}}]});
        let ended = client.post(&path, &say(json!([answer]))).await;
        assert!(ended.contains("Opened."), "{ended}");
        for _ in 0..6 {
            client.post(&path, &say(json!([user("check")]))).await;
        }
        for _ in 0..30 {
            let failed = client.post(&path, &say(json!([user("fail")]))).await;
            assert!(failed.contains("(W03"), "{failed}");
        }
        let stored = client.get(&format!("/chat/keeper/{thread}")).await;
        assert!(stored.contains(r#""output":{"id":"A1","owner":{"name":"Ada"}}"#), "{stored}");
        let answered = client.get("/interrupts?answered=true").await;
        assert!(answered.contains(thread), "{answered}");
        client.get(&format!("/interrupts?answered=true&thread_id={thread}")).await;
    }
}

/// Sends commands, and reads all events of the thread by a socket and as server-sent events.
async fn events(client: &mut RecordingClient, address: std::net::SocketAddr) {
    let thread = uuid::Uuid::new_v4().to_string();
    let mut request = format!("ws://{address}/threads/{thread}/stream/events")
        .into_client_request()
        .expect("a request");
    for (name, value) in headers().into_iter().filter(|(name, _)| *name != "host") {
        request.headers_mut().insert(name, value.parse().expect("a value"));
    }
    let stream = TcpStream::connect(address).await.expect("connects");
    let (mut socket, _) = client_async(request, stream).await.expect("a socket");
    let mut next = 0;
    for (method, params, until) in [
        ("subscription.subscribe", json!({"channels": CHANNELS}), "subscription_id"),
        ("run.start", json!({"assistant_id": "keeper", "input": input("open")}), "interrupted"),
        ("state.get", json!({"namespace": []}), "checkpoint"),
        ("state.listCheckpoints", json!({}), "checkpoints"),
        ("agent.getTree", json!({}), "graph_name"),
        ("input.respond", json!({}), "\"completed\""),
        ("run.start", json!({"assistant_id": "keeper", "input": input("check")}), "\"completed\""),
        ("run.start", json!({"assistant_id": "keeper", "input": input("fail")}), "\"failed\""),
    ] {
        let mut params = params;
        if method == "input.respond" {
            params = json!({"namespace": [], "interrupt_id": asked(&client.sent),
                "response": {"decisions": [{"type": "approve"}]}});
        }
        next += 1;
        let command = json!({"id": next, "method": method, "params": params}).to_string();
        socket.send(Frame::Text(command.clone().into())).await.expect("sends");
        loop {
            let message = tokio::time::timeout(WAIT, socket.next()).await.expect(until);
            let Frame::Text(text) = message.expect("open").expect("sound") else { continue };
            client.sent.0.push((format!("WebSocket {command}"), text.to_string()));
            assert!(!text.contains("\"type\":\"error\""), "{command}: {text}");
            if text.contains(until) {
                break;
            }
        }
    }
    let filter = json!({"channels": CHANNELS, "since": 0});
    let mut events = Events::open_with(&client.client, &thread, filter, &headers()).await;
    while !events.received.contains("\"event\":\"failed\"") {
        events.next().await;
    }
    let tape = events.received;
    assert!(tape.contains("tool-finished") && tape.contains("Opened."), "{tape}");
    client.sent.0.push((format!("events of {thread}"), tape));
}

/// The id of the question that the socket has asked last.
fn asked(sent: &Sent) -> Value {
    let asks = |text: &str| text.contains("\"method\":\"input.requested\"");
    let (_, text) = sent.0.iter().rev().find(|(_, text)| asks(text)).expect("a question");
    let event: Value = serde_json::from_str(text).expect("JSON");
    event["params"]["data"]["interrupt_id"].clone()
}

/// Requests that are refused, with the secrets that they have.
async fn refusals(client: &mut RecordingClient) {
    for (method, path, body) in [
        ("GET", "/threads/none", Value::Null),
        ("GET", "/nothing", Value::Null),
        ("POST", "/runs/wait", json!({"assistant_id": "nobody"})),
        ("POST", "/chat/keeper", json!({})),
        ("GET", "/artifacts/a/b/c", Value::Null),
        ("DELETE", "/ok", Value::Null),
    ] {
        let answer = client.request(method, path, &body).await;
        assert!(answer.status.is_client_error(), "{method} {path}: {}", answer.body);
    }
    refusals_beside_secrets(client).await;
    let request = Request::get("/info").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {}", secret("wrong")));
    let answer = client.client.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    client.sent.0.push(("a wrong token".to_owned(), answer.body));
}

/// Requests that are refused, at a thread whose state and open question have secrets.
async fn refusals_beside_secrets(client: &mut RecordingClient) {
    let thread = client.thread().await;
    let approve = json!({"command": {"resume": {"decisions": [{"type": "approve"}]}}});
    let said = |text: &str| json!({"input": input(text)});
    for mut body in [said("open"), approve, said("check"), said("open")] {
        body["assistant_id"] = json!("keeper");
        client.post(&format!("{thread}/runs/wait"), &body).await;
    }
    let run = |more: &Value| {
        let mut body = json!({"assistant_id": "keeper"});
        body.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().unwrap_or_default());
        ("runs/wait", body)
    };
    let none = uuid::Uuid::new_v4().to_string();
    let answer = |value: Value| run(&json!({"command": {"resume": value}}));
    let mut requests = vec![
        ("state", json!({"values": {"messages": 5}})),
        ("state", json!({"values": {"nothing": 1}})),
        ("state", json!({"values": {"messages": [{"role": "tool"}]}})),
        ("state", json!({"values": {"messages": []}, "as_node": "nobody"})),
        ("state", json!({"values": {}, "checkpoint_id": none})),
        ("state", json!(7)),
        ("state/checkpoint", json!({"checkpoint": {"checkpoint_id": none}})),
        ("history", json!({"limit": "many"})),
        ("history", json!({"before": {"checkpoint_id": 7}})),
        ("copy", json!({"checkpoint_id": none})),
        ("runs/stream", json!({"assistant_id": "keeper", "stream_mode": ["nothing"]})),
        ("stream/events", json!({"channels": ["nothing"]})),
        ("commands", json!({"id": 1, "method": "nothing", "params": {}})),
        run(&json!({"input": {"messages": [{"role": "nobody", "content": 7}]}})),
        run(&json!({"input": 7})),
        run(&json!({"input": {"messages": [{"type": "remove", "id": "unknown"}]}})),
        run(&json!({"command": {"goto": "nobody"}})),
        run(&json!({"command": {"update": {"messages": 7}}})),
        run(&json!({"config": {"recursion_limit": 0}, "input": input("open")})),
        run(&json!({"checkpoint": {"checkpoint_id": none}, "input": input("open")})),
        run(&json!({"multitask_strategy": "nothing", "input": input("open")})),
        run(&json!({"context": {"nothing": 1}, "input": input("open")})),
        answer(json!({"decisions": [{"type": "nothing"}]})),
        answer(json!({"decisions": []})),
        answer(json!({none.replace("-", ""): "yes"})),
        answer(json!("maybe")),
    ];
    // Last, for it makes the call.
    requests.push(answer(json!({"decisions": [{"type": "edit", "edited_action":
        {"name": "open_account", "args": {"id": 7, "pin": secret("edited")}}}]})));
    for (path, body) in &requests {
        let answer = client.request("POST", &format!("{thread}/{path}"), body).await;
        assert!(!answer.status.is_server_error(), "{path} {body}: {}", answer.body);
    }
    let limited = json!({"assistant_id": "keeper", "input": input("open"),
        "config": {"recursion_limit": 1}});
    client.request("POST", &format!("{thread}/runs/wait"), &limited).await;
    for path in ["runs/none", "runs/none/join", "runs/none/stream", "state/none", "nothing"] {
        let answer = client.request("GET", &format!("{thread}/{path}"), &Value::Null).await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.body);
    }
}

/// Checks that the errors which repeat what was sent were caused by their own means, and prints those.
#[expect(clippy::print_stdout, reason = "a report of the test")]
fn check_caused(sent: &Sent) {
    let is_sent = |code: &&str| sent.0.iter().any(|(_, response)| response.contains(*code));
    let caused: Vec<&str> = codes::of_runs().filter(is_sent).collect();
    println!("{} errors caused: {caused:?}", caused.len());
    let repeating = [
        "W0303", "W0304", "W0305", "W0306", "W0308", "W0401", "W0402", "W0403", "W0404", "W0406",
        "W0407", "W0408",
    ];
    for code in repeating {
        assert!(caused.contains(&code), "{code} of {caused:?}");
    }
}

/// Prints the errors that the test has driven through the channels. Checks that these are all of
/// its part, and that none has come that a run or a tool cannot cause.
#[expect(clippy::print_stdout, reason = "a report of the test")]
fn check_driven(sent: &Sent, driven: &[&str]) {
    let is_sent = |code: &&str| sent.0.iter().any(|(_, response)| response.contains(*code));
    let missing: Vec<&&str> = driven.iter().filter(|code| !is_sent(code)).collect();
    assert!(missing.is_empty(), "not driven: {missing:?}");
    let others: Vec<_> = codes::outside().filter(|(_, code)| is_sent(code)).collect();
    assert!(others.is_empty(), "in the wrong list: {others:?}");
    println!("{} errors driven; reported elsewhere:", driven.len());
    for (place, code) in codes::outside() {
        println!("  {code}: {place}");
    }
}

#[tokio::test]
async fn what_is_secret_is_in_no_byte_that_the_server_sends_or_logs() {
    let traced = trace::Traced::default();
    let _traced = tracing::subscriber::set_default(traced.clone());
    let provider = Provider::start().await;
    let graphs = after::graphs(&provider);
    let builder = Runtime::in_memory().graph("keeper", agent(&provider));
    let builder = graphs.into_iter().fold(builder, |all, (name, graph)| all.graph(name, graph));
    let runtime = builder.open().await.expect("opens");
    let logged = Arc::new(Mutex::new(Vec::new()));
    let entries = Arc::clone(&logged);
    let log = move |entry| entries.lock().expect("no panic").push(format!("{entry:?}"));
    let server = Server::new(runtime.clone()).log(log);
    let server = server.token(secret("token"), Principal::local()).expect("a token");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(server.clone().serve(listener, std::future::pending()));
    let plain = Client::of(server, runtime);
    let mut client = RecordingClient { client: plain, sent: Sent::default() };

    classic(&mut client).await;
    chats(&mut client).await;
    events(&mut client, address).await;
    refusals(&mut client).await;
    after::errors(&mut client).await;
    check_caused(&client.sent);
    let driven = codes::driven();
    after::drive_codes(&mut client, &driven).await;

    for (request, response) in &client.sent.0 {
        assert!(!response.contains(&*CANARY), "{request}\n{response}");
    }
    let logged = logged.lock().expect("no panic").clone();
    assert!(logged.len() > 100 && !logged.join("\n").contains(&*CANARY), "{logged:?}");
    tracing::debug!(of = "the test", "a line");
    let traced = traced.text();
    assert!(traced.contains("the test"), "{traced}");
    let line = traced.lines().find(|line| line.contains(&*CANARY));
    assert_eq!(line, None);
    check_driven(&client.sent, &driven);
    // The model has the key and the whole values: the secrets were there.
    assert!(provider.has_read(&[secret("key"), secret("card"), secret("street"), secret("pin")]));
}
