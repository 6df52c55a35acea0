//! An OpenAI-compatible provider for the kill test. It lives in the test's process, so its counts
//! outlive the processes that are killed.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Every prompt that was asked and every answer that was begun. Each answer has a number of its own.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bill {
    /// How often each prompt was asked.
    pub(crate) asked: BTreeMap<String, u32>,
    /// The prompt behind each answer's id.
    pub(crate) prompt_of: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Provider {
    url: String,
    bill: Arc<Mutex<Bill>>,
}

impl Provider {
    /// Starts it on a free port. An answer takes 5 to 50 ms, as `seed` has it.
    pub(crate) fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let bill = Arc::new(Mutex::new(Bill::default()));
        let shared = Arc::clone(&bill);
        std::thread::spawn(move || {
            for (number, connection) in listener.incoming().enumerate() {
                let (Ok(connection), bill) = (connection, Arc::clone(&shared)) else { continue };
                let wait = 5 + mix(seed ^ number as u64) % 46;
                // A client that was killed is what this is about.
                std::thread::spawn(move || serve(connection, &bill, wait).ok());
            }
        });
        Self { url, bill }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn bill(&self) -> Bill {
        self.bill.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A number that looks random, for each number (splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn serve(mut connection: TcpStream, bill: &Mutex<Bill>, wait_ms: u64) -> std::io::Result<()> {
    let body = read(&connection)?;
    let request: Value = serde_json::from_slice(&body)?;
    let prompt = request["messages"].to_string();
    let id = {
        let mut bill = bill.lock().unwrap_or_else(PoisonError::into_inner);
        *bill.asked.entry(prompt.clone()).or_default() += 1;
        let id = format!("answer-{}", bill.prompt_of.len() + 1);
        bill.prompt_of.insert(id.clone(), prompt);
        id
    };
    std::thread::sleep(Duration::from_millis(wait_ms));
    let (delta, reason) = answer(&request, &id);
    let chunk = |choice: Value| json!({"id": id, "model": "desk", "choices": [choice]});
    let usage = json!({
        "id": id, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    });
    let chunks = [
        chunk(json!({"index": 0, "delta": delta})),
        chunk(json!({"index": 0, "delta": {}, "finish_reason": reason})),
        usage,
    ];
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(text.as_bytes())
}

fn read(connection: &TcpStream) -> std::io::Result<Vec<u8>> {
    let mut reader = BufReader::new(connection);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

/// The story by rules: look the order up, look at the weather, refund, say so.
fn answer(request: &Value, id: &str) -> (Value, &'static str) {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let call = |name: &str, args: Value| {
        let function = json!({"name": name, "arguments": args.to_string()});
        let call = json!({"index": 0, "id": format!("call-{id}"), "type": "function", "function": function});
        (json!({"role": "assistant", "tool_calls": [call]}), "tool_calls")
    };
    match messages.iter().filter(|message| message["role"] == "tool").count() {
        0 => call("lookup_order", json!({"order_id": "A1001"})),
        1 => call("get_weather", json!({"city": "Oslo"})),
        2 => call("refund_order", json!({"order_id": "A1001", "amount": 25})),
        _ => (json!({"role": "assistant", "content": "Order A1001 was refunded."}), "stop"),
    }
}
