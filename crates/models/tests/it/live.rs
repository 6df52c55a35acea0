//! The protocols on servers that others wrote, or on recordings of them.
//!
//! Without a server the answers come from a recording, and the requests must equal the recorded
//! ones. `make test-live` runs the cells against the real servers; `scripts/test-live.sh --record`
//! records them, which is needed when requests change.
#![expect(clippy::print_stdout, reason = "the table is part of the result")]

use crate::desk::Desk;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use weftwork_egress::{EgressConfig, GuardedClient};
use weftwork_models::{
    ChatModel, ChatRequest, ChatResponse, FinishReason, ModelCallError, ModelCaller, ModelRegistry,
    ProviderTable, ToolChoice,
};
use weftwork_testkit::ManualClock;
use weftwork_types::message::{Media, Message, Part, Role, ToolCall, ToolResult};
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse};
use weftwork_types::tool::ToolSpec;
use weftwork_types::{BoxFuture, MessageId, ToolCallId};

/// Environment variable; if set, the recordings are replaced by the answers of the servers.
const RECORD: &str = "WEFT_TEST_LIVE_RECORD";
/// Environment variable with the servers' names and versions and the date, for recordings.
const ORIGIN: &str = "WEFT_TEST_LIVE_ORIGIN";
/// Environment variable with the key for the servers.
const KEY: &str = "WEFT_TEST_LIVE_KEY";
const MODEL: &str = "smollm2-135m";

/// A server that speaks some of the protocols.
struct Origin {
    /// Name of its recording.
    name: &'static str,
    /// Environment variable with its URL.
    variable: &'static str,
    /// Each protocol with the path of its base URL.
    protocols: &'static [(&'static str, &'static str)],
    /// The cells of the table that are not passed, with what is found there.
    other: &'static [&'static str],
}

const LLAMACPP: Origin = Origin {
    name: "llamacpp",
    variable: "WEFT_TEST_LIVE_TOOLS_URL",
    protocols: &[("openai", "/v1"), ("openai_responses", "/v1"), ("anthropic", "/v1")],
    other: &[
        "| openai_responses | cut at a number of tokens | reported as complete |",
        "| openai_responses | structured output, object | ignored by the server |",
        "| openai_responses | structured output, list | ignored by the server |",
        "| anthropic | tool choice none | ignored by the server |",
        "| anthropic | structured output, object | ignored by the server |",
        "| anthropic | structured output, list | ignored by the server |",
    ],
};

const LITELLM: Origin = Origin {
    name: "litellm",
    variable: "WEFT_TEST_LIVE_GEMINI_URL",
    protocols: &[("gemini", "/v1beta")],
    other: &[
        "| gemini | usage with cached tokens | not reported |",
        "| gemini | structured output, list | ignored by the server |",
        "| gemini | image that the model cannot read | ignored by the server |",
    ],
};

/// Recorded requests and answers of a server, in order.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Recording {
    /// The server, its version, the model, and the date.
    origin: String,
    exchanges: VecDeque<Exchange>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Exchange {
    path: String,
    request: Value,
    status: u16,
    /// The body of the answer, as it was sent.
    answer: String,
}

impl Origin {
    fn file(&self) -> PathBuf {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        root.expect("a root").join(format!("tests/cassettes/protocols-{}.json", self.name))
    }
}

/// The part of a URL after the host.
fn path(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or(String::new(), |at| rest[at..].to_owned())
}

fn exchange(request: &EgressRequest) -> Exchange {
    let body = serde_json::from_slice(&request.body).expect("a body in JSON");
    Exchange { path: path(&request.url), request: body, status: 0, answer: String::new() }
}

/// Returns `true` for a request with a note in place of an image that the model refused.
fn is_without_image(request: &Value) -> bool {
    request.to_string().contains("this model does not take it")
}

/// A client that knows if a request was sent with a note in place of its image.
#[derive(Debug)]
struct ImageWatch {
    client: Arc<dyn Egress>,
    is_noted: AtomicBool,
}

impl Egress for ImageWatch {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        self.is_noted.fetch_or(is_without_image(&exchange(&request).request), Ordering::Relaxed);
        self.client.send(request)
    }
}

/// A client that answers from a recording.
#[derive(Debug)]
struct Player(Mutex<Recording>);

impl Egress for Player {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let asked = exchange(&request);
        if is_without_image(&asked.request) {
            // The servers were recorded with the requests that they refuse.
            let answer = Bytes::from("nothing is recorded for this request");
            let body = futures_util::stream::iter([Ok(answer)]).boxed();
            let response = EgressResponse { status: 400, headers: Vec::new(), body };
            return Box::pin(std::future::ready(Ok(response)));
        }
        let next = self.0.lock().expect("a lock").exchanges.pop_front();
        let next = next.expect("the recording ended: record the servers anew");
        assert_eq!((&asked.path, &asked.request), (&next.path, &next.request));
        let answer = Bytes::from(next.answer);
        // Chunks end at arbitrary bytes.
        let chunks: Vec<_> = answer.chunks(97).map(|part| Ok(answer.slice_ref(part))).collect();
        let body = futures_util::stream::iter(chunks).boxed();
        let response = EgressResponse { status: next.status, headers: Vec::new(), body };
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// A client that records the answers of a server.
#[derive(Debug)]
struct Tape {
    client: GuardedClient,
    recording: Mutex<Recording>,
}

impl Egress for Tape {
    fn send(&self, request: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        Box::pin(async move {
            let mut exchange = exchange(&request);
            let mut response = self.client.send(request).await?;
            let mut answer = Vec::new();
            while let Some(chunk) = response.body.next().await {
                answer.extend_from_slice(&chunk?);
            }
            exchange.status = response.status;
            exchange.answer = String::from_utf8(answer.clone()).expect("text");
            self.recording.lock().expect("a lock").exchanges.push_back(exchange);
            response.body = futures_util::stream::iter([Ok(Bytes::from(answer))]).boxed();
            Ok(response)
        })
    }
}

fn message(number: usize, role: Role, parts: Vec<Part>) -> Message {
    Message::new(MessageId::new(format!("m{number}")).expect("an id"), role, parts)
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::Text { text: text.to_owned() }]
}

fn call(id: &str, order: &str, amount: u32) -> Part {
    Part::ToolCall(ToolCall {
        id: ToolCallId::new(id).expect("an id"),
        name: "refund_order".to_owned(),
        args: json!({"order_id": order, "amount": amount}),
        shown: None,
    })
}

fn result(id: &str) -> Part {
    Part::ToolResult(ToolResult {
        tool_call_id: ToolCallId::new(id).expect("an id"),
        name: "refund_order".to_owned(),
        value: json!("refunded"),
        shown: None,
        is_error: false,
    })
}

fn refund() -> ToolSpec {
    ToolSpec {
        name: "refund_order".to_owned(),
        description: "Refunds an order.".to_owned(),
        parameters: json!({
            "type": "object", "required": ["order_id", "amount"],
            "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer"}},
        }),
        examples: Vec::new(),
        ..crate::openai::weather()
    }
}

fn asked(question: &str, max_tokens: u32) -> ChatRequest {
    ChatRequest {
        messages: vec![message(0, Role::User, text(question))],
        temperature: Some(0.0),
        max_tokens: Some(max_tokens),
        ..ChatRequest::default()
    }
}

/// A conversation with three refunds, whose form a small model continues, and one more request.
fn refunds() -> ChatRequest {
    let mut request = ChatRequest { tools: vec![refund()], ..asked("", 60) };
    request.messages.clear();
    for (number, (order, amount)) in
        [("A1001", 25), ("A1002", 30), ("A1003", 12)].iter().enumerate()
    {
        let id = format!("call_{number}");
        let turns = [
            (Role::User, text(&format!("Refund {amount} for order {order}"))),
            (Role::Assistant, vec![call(&id, order, *amount)]),
            (Role::Tool, vec![result(&id)]),
            (Role::Assistant, text("It is refunded.")),
        ];
        for (role, parts) in turns {
            request.messages.push(message(request.messages.len(), role, parts));
        }
    }
    let question = text("Refund 40 for order A1004");
    request.messages.push(message(request.messages.len(), Role::User, question));
    request
}

/// A cell of the table: `Err` has what is found in place of the expected.
type Cell = Result<(), String>;

fn expect(holds: bool, found: &impl std::fmt::Debug) -> Cell {
    if holds { Ok(()) } else { Err(format!("{found:?}")) }
}

/// Finding for a part of a request that a server drops.
const IGNORED: &str = "ignored by the server";

struct Lab {
    model: Arc<dyn ChatModel>,
    watch: Arc<ImageWatch>,
}

impl Lab {
    async fn ask(&self, request: ChatRequest) -> Result<ChatResponse, ModelCallError> {
        let desk = Desk::new();
        let clock = ManualClock::moved_by_sleeps();
        // These servers close connections that are kept open.
        ModelCaller::default().call(&*self.model, request, &desk.context(&clock)).await
    }

    async fn answer(&self, request: ChatRequest) -> Result<ChatResponse, String> {
        self.ask(request).await.map_err(|error| error.to_string())
    }

    async fn text(&self) -> Cell {
        let answer = self.answer(asked("Say hello.", 40)).await?;
        let said = answer.message.joined_text();
        expect(!said.is_empty(), &answer)
    }

    async fn usage(&self) -> Cell {
        let tokens = self.answer(asked("Say hello.", 40)).await?.tokens;
        expect(!tokens.estimated && tokens.input > 8 && tokens.output > 0, &tokens)
    }

    /// The request that was sent last is sent again.
    async fn cached(&self) -> Cell {
        let tokens = self.answer(asked("Say hello.", 40)).await?.tokens;
        if tokens.cached > 0 { Ok(()) } else { Err("not reported".to_owned()) }
    }

    async fn length(&self) -> Cell {
        let answer = self.answer(asked("Tell me a long story.", 6)).await?;
        match answer.finish {
            FinishReason::Stop => Err("reported as complete".to_owned()),
            finish => expect(finish == FinishReason::Length, &answer),
        }
    }

    async fn call(&self) -> Cell {
        let answer = self.answer(refunds()).await?;
        let calls: Vec<_> = answer.message.tool_calls().collect();
        let [call] = calls.as_slice() else { return Err(format!("{answer:?}")) };
        let args = json!({"order_id": "A1004", "amount": 40});
        let is_right = call.name == "refund_order" && call.args == args;
        expect(is_right && answer.finish == FinishReason::ToolCalls, &answer)
    }

    async fn result(&self) -> Cell {
        let mut request = refunds();
        let first = self.answer(request.clone()).await?.message;
        let Some(id) = first.tool_calls().next().map(|call| call.id.clone()) else {
            return Err(format!("{first:?}"));
        };
        request.messages.push(first);
        request.messages.push(message(99, Role::Tool, vec![result(id.as_str())]));
        let answer = self.answer(request).await?;
        expect(answer.message.joined_text().contains("refunded"), &answer)
    }

    async fn no_call(&self) -> Cell {
        let request = ChatRequest { tool_choice: ToolChoice::None, ..refunds() };
        let answer = self.answer(request).await?;
        if answer.message.tool_calls().next().is_none() { Ok(()) } else { Err(IGNORED.to_owned()) }
    }

    async fn schema(&self, schema: Value) -> Cell {
        let kind = schema["type"].clone();
        let request =
            ChatRequest { response_schema: Some(schema), ..asked("A city in Norway?", 60) };
        let answer = self.answer(request).await?;
        let value: Value =
            serde_json::from_str(&answer.message.joined_text()).map_err(|_| IGNORED.to_owned())?;
        expect(if kind == "array" { value.is_array() } else { value["city"].is_string() }, &answer)
    }

    async fn image(&self) -> Cell {
        let mut request = asked("What is it?", 16);
        let pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        let media = Media { media_type: "image/png".to_owned(), url: pixel.to_owned() };
        request.messages[0].parts.push(Part::Media(media));
        let asked = self.ask(request).await;
        match asked {
            // A server that refuses the image is asked again without it.
            _ if self.watch.is_noted.load(Ordering::Relaxed) => Ok(()),
            Ok(_) => Err(IGNORED.to_owned()),
            Err(error) => expect(error.to_string().contains("image"), &error.to_string()),
        }
    }
}

async fn table(origin: &Origin, client: &Arc<dyn Egress>, url: &str) -> String {
    let object = json!({"type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"], "additionalProperties": false});
    let list = json!({"type": "array", "items": {"type": "string"}, "maxItems": 3});
    let mut table = String::new();
    for (protocol, base) in origin.protocols {
        let config = format!(
            "[lab]\nurl = \"{url}{base}\"\nkey_env = \"LAB_KEY\"\nprotocol = \"{protocol}\"\nhead_timeout_ms = 120000\nidle_timeout_ms = 120000"
        );
        let overrides = toml::from_str(&config).expect("a table");
        let key = std::env::var(KEY).unwrap_or_else(|_| "sk-none".to_owned());
        let env = |name: &str| (name == "LAB_KEY").then(|| key.clone());
        let providers = ProviderTable::load(&env, &overrides).expect("a table");
        let watch = ImageWatch { client: Arc::clone(client), is_noted: AtomicBool::new(false) };
        let watch = Arc::new(watch);
        let watched: Arc<dyn Egress> = Arc::<ImageWatch>::clone(&watch);
        let registry = ModelRegistry::new(&providers, &watched);
        let model = registry.resolve(&format!("lab:{MODEL}")).expect("a model");
        let lab = Lab { model, watch };
        let cells = [
            ("text", lab.text().await),
            ("usage", lab.usage().await),
            ("usage with cached tokens", lab.cached().await),
            ("cut at a number of tokens", lab.length().await),
            ("tool call after earlier calls", lab.call().await),
            ("answer after a result", lab.result().await),
            ("tool choice none", lab.no_call().await),
            ("structured output, object", lab.schema(object.clone()).await),
            ("structured output, list", lab.schema(list.clone()).await),
            ("image that the model cannot read", lab.image().await),
        ];
        for (name, cell) in cells {
            let found = cell.err().unwrap_or_else(|| "yes".to_owned());
            writeln!(table, "| {protocol} | {name} | {found} |").expect("a string");
        }
    }
    table
}

async fn plays(origin: Origin) {
    let table = match std::env::var(origin.variable) {
        Ok(url) => {
            let egress = EgressConfig {
                allow: vec!["127.0.0.1".parse().expect("a host")],
                ..EgressConfig::default()
            };
            let client = GuardedClient::new(egress).expect("a client");
            let tape = Arc::new(Tape { client, recording: Mutex::default() });
            let client: Arc<dyn Egress> = Arc::<Tape>::clone(&tape);
            let table = table(&origin, &client, &url).await;
            if std::env::var_os(RECORD).is_some() {
                let mut recording = tape.recording.lock().expect("a lock");
                recording.origin = std::env::var(ORIGIN).expect("the origin of the recording");
                let text = serde_json::to_string_pretty(&*recording).expect("JSON");
                std::fs::write(origin.file(), text + "\n").expect("writes");
            }
            table
        }
        Err(_) => {
            let text = std::fs::read(origin.file()).expect("a recording");
            let recording: Recording = serde_json::from_slice(&text).expect("a recording in JSON");
            println!("recorded from {}", recording.origin);
            let player = Arc::new(Player(Mutex::new(recording)));
            let client: Arc<dyn Egress> = Arc::<Player>::clone(&player);
            let table = table(&origin, &client, "http://127.0.0.1:9").await;
            let left = player.0.lock().expect("a lock").exchanges.len();
            assert_eq!(left, 0, "the recording has further exchanges: record the servers anew");
            table
        }
    };
    println!("| protocol of {} | cell | found |\n|---|---|---|\n{table}", origin.name);
    let other: Vec<&str> = table.lines().filter(|line| !line.ends_with("| yes |")).collect();
    assert_eq!(other, origin.other);
}

#[tokio::test]
async fn three_protocols_pass_on_llamacpp() {
    plays(LLAMACPP).await;
}

#[tokio::test]
async fn gemini_passes_on_litellm() {
    plays(LITELLM).await;
}
