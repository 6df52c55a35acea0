//! Standard streams.

use crate::world::{MODERN, World, echo, meta, text_of};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split,
};
use weftwork::store::MemoryStore;
use weftwork::testing::Step;

/// The host of a program.
struct Host {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Host {
    fn start(world: &World) -> Self {
        let (own, of_program) = tokio::io::duplex(1 << 16);
        let (output, input) = split(own);
        let (reads, writes) = split(of_program);
        let served = tokio::spawn(weftwork_mcp_server::serve_lines(world.local(), reads, writes));
        Self { lines: BufReader::new(output).lines(), input, served }
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("written");
    }

    async fn read(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("a line").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn ask(&mut self, id: i64, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&message.to_string()).await;
        let answer = self.read().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    async fn end(mut self) {
        self.input.shutdown().await.expect("closed");
        self.served.await.expect("no panic").expect("ends");
        assert_eq!(self.lines.next_line().await.expect("read"), None, "nothing else is written");
    }
}

async fn initialize(host: &mut Host, capabilities: Value) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "host", "version": "1"}});
    let begun = host.ask(0, "initialize", params).await;
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25", "{begun}");
    host.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
}

#[tokio::test]
async fn both_versions_are_served_a_message_a_line_and_no_other_line_is_written() {
    let world = World::new().await;
    let mut host = Host::start(&world);
    let found = host.ask(1, "server/discover", json!({"_meta": meta(&json!({}))})).await;
    assert_eq!(found["result"]["supportedVersions"][0], MODERN);
    let params =
        json!({"name": "golf", "arguments": {"message": "One."}, "_meta": meta(&json!({}))});
    let called = host.ask(2, "tools/call", params).await;
    assert_eq!(text_of(&called["result"]), "1: One.");
    initialize(&mut host, json!({})).await;
    let params = json!({"name": "golf", "arguments": {"message": "Two."}});
    assert_eq!(text_of(&host.ask(3, "tools/call", params).await["result"]), "1: Two.");
    // Lines that are no messages.
    host.write("").await;
    host.write("{").await;
    assert_eq!(host.read().await["error"]["code"], -32700);
    host.write("[]").await;
    assert_eq!(host.read().await["error"]["code"], -32600);
    host.write(&json!({"jsonrpc": "2.0", "id": "x", "result": {}}).to_string()).await;
    assert_eq!(host.ask(4, "nothing", json!({})).await["error"]["code"], -32601);
    host.write(&json!({"jsonrpc": "2.0", "method": "notifications/nothing"}).to_string()).await;
    assert_eq!(host.ask(5, "ping", json!({})).await["result"], json!({}));
    host.end().await;
}

#[tokio::test]
async fn an_older_host_is_asked_and_answers() {
    let world = World::new().await;
    let mut host = Host::start(&world);
    initialize(&mut host, json!({"elicitation": {}})).await;
    let call = json!({"name": "clerk", "arguments": {"message": "Write a."}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    host.write(&call.to_string()).await;
    let request = host.read().await;
    assert_eq!(request["method"], "elicitation/create", "{request}");
    let accept = json!({"action": "accept", "content": {"decision": "approve"}});
    let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": accept});
    host.write(&answer.to_string()).await;
    let done = host.read().await;
    assert_eq!((&done["id"], &done["result"]["isError"]), (&json!(1), &json!(false)), "{done}");
    host.end().await;
}

/// A cancelled call gets no response in either version, and its run stops.
#[tokio::test]
async fn a_call_is_cancelled_by_a_notification() {
    let world = World::with(|_| Step::text("never").hanging()).await;
    for is_modern in [true, false] {
        let mut host = Host::start(&world);
        let mut params = json!({"name": "golf", "arguments": {"message": "One."}});
        let mut token = json!({"progressToken": 1});
        if is_modern {
            token = meta(&json!({}));
            token["progressToken"] = 1.into();
        } else {
            initialize(&mut host, json!({})).await;
        }
        params["_meta"] = token;
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        host.write(&call.to_string()).await;
        assert_eq!(host.read().await["method"], "notifications/progress");
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": 7}});
        host.write(&note.to_string()).await;
        loop {
            let open = world.open_runs().await;
            if open == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        while let Ok(Ok(Some(line))) =
            tokio::time::timeout(std::time::Duration::from_millis(1), host.lines.next_line()).await
        {
            assert!(!line.contains("\"result\""), "{line}");
        }
        host.end().await;
    }
}

#[tokio::test]
async fn requests_before_the_end_of_the_input_are_answered() {
    let store = Arc::new(MemoryStore::new());
    let world = World::over(store, echo).await;
    let params =
        json!({"name": "golf", "arguments": {"message": "One."}, "_meta": meta(&json!({}))});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let input = call.to_string();
    let mut output = Vec::new();
    weftwork_mcp_server::serve_lines(world.local(), input.as_bytes(), &mut output)
        .await
        .expect("ends");
    let answer: Value = serde_json::from_slice(&output).expect("one line");
    assert_eq!(text_of(&answer["result"]), "1: One.");
}

/// A line that is too long is refused, and the next one is read.
#[tokio::test]
async fn a_line_that_is_too_long_is_refused_and_the_next_one_is_read() {
    let world = World::new().await;
    let long = format!("{}\n", "a".repeat((16 << 20) + 10));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let input = format!("{long}{ping}\n");
    let mut output = Vec::new();
    weftwork_mcp_server::serve_lines(world.local(), input.as_bytes(), &mut output)
        .await
        .expect("ends");
    let text = String::from_utf8(output).expect("text");
    let answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), 2, "{text}");
    assert!(answers.iter().any(|answer| answer["id"] == 1 && answer["result"] == json!({})));
}
