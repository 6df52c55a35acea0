//! Messages of servers that are nearly JSON.

use crate::framing::Framer;
use crate::repair;
use rmcp::model::ErrorData;
use serde_json::Value;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weftwork_types::json;

/// Size of a read from a server, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Depth of a message from which on its parts are not read. A parser fails at 128 levels.
const DEPTH_MAX: usize = 120;
/// Maximum number of places in a line at which a message may begin.
const MESSAGES_MAX: usize = 32;
/// Error code of JSON-RPC for a message that is not JSON.
const PARSE_ERROR: i64 = -32700;

/// Mark in the details of an error that stands for an answer that cannot be read.
const UNREADABLE: &str = "x-weft-unreadable";

/// Returns `true` for an error that stands for an answer that cannot be read: the server may have
/// carried the request out.
pub(crate) fn is_unreadable(error: &ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data.get(UNREADABLE).is_some())
}

/// Returns `true` for the id of a request, which some servers repeat as a text.
pub(crate) fn same_id(found: &Value, asked: &Value) -> bool {
    match (found, asked) {
        (Value::String(found), Value::Number(asked)) => *found == asked.to_string(),
        (found, asked) => found == asked,
    }
}

/// Returns a message that can be read in place of one that cannot: the same one in the JSON and in the
/// form of the protocol that it means, or else an error as the answer to its request, if it names that
/// before anything else. Without an answer the request would wait for its limit of time. Several
/// messages in one are on lines of their own.
pub(crate) fn repair_line(message: &[u8]) -> Option<String> {
    let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
    let error = match serde_json::from_slice::<Value>(message) {
        Ok(mut value) if !json::has_wide_number(message) => {
            let is_list = value.is_array();
            return (repair::message(&mut value) || is_list).then(|| join_messages(value));
        }
        read => read.err(),
    };
    let shallow = || json::read_liberal(&json::without_depth(message, DEPTH_MAX)?).ok();
    if let Some(mut value) = json::read_liberal(message).ok().or_else(shallow) {
        repair::message(&mut value);
        return Some(join_messages(value));
    }
    let message = String::from_utf8_lossy(message);
    let messages = messages_within(&message);
    if !messages.is_empty() {
        return Some(messages.into_iter().map(join_messages).collect::<Vec<_>>().join("\n"));
    }
    let error = error?;
    let id = find_id(&message)?;
    let problem = format!("its answer is not JSON: {error}");
    let details = serde_json::json!({UNREADABLE: true});
    let error = serde_json::json!({"code": PARSE_ERROR, "message": problem, "data": details});
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error});
    Some(answer.to_string())
}

/// Returns the messages at the beginning of a line that has more than one, or other text after them. A
/// message after other text is not read: a log may repeat messages of others, whose ids mean nothing
/// here.
fn messages_within(line: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while rest.starts_with('{') && found.len() < MESSAGES_MAX {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let Some(Ok(mut value)) = values.next() else { break };
        if !is_message(&value) {
            break;
        }
        rest = rest[values.byte_offset()..].trim_start();
        repair::message(&mut value);
        found.push(value);
    }
    found
}

fn is_message(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some();
    let is_answer = (has("result") || has("error")) && has("id");
    is_answer && !has("method") || has("jsonrpc") && has("method")
}

fn join_messages(value: Value) -> String {
    match value {
        Value::Array(messages) => {
            messages.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
        }
        message => message.to_string(),
    }
}

/// Returns the id of a message that precedes its content.
fn find_id(message: &str) -> Option<serde_json::Value> {
    let members = message.trim_start().strip_prefix('{')?;
    let head =
        ["\"result\"", "\"error\"", "\"params\""].iter().filter_map(|name| members.find(name));
    let head = members.get(..head.min().unwrap_or(members.len()))?;
    let after = head.split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    let mut values = serde_json::Deserializer::from_str(after).into_iter();
    values.next()?.ok().filter(|id: &serde_json::Value| id.is_number() || id.is_string())
}

/// The requests that were asked before, and whose answers are too late.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateAnswer(Arc<Mutex<Option<Value>>>);

impl LateAnswer {
    fn get(&self) -> MutexGuard<'_, Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines that are written to a server. The client asks first with `server/discover`, and after a
/// time without an answer with `initialize`: the answer to the former is of no use then, and would be
/// taken for that of the latter.
#[derive(Debug)]
pub(crate) struct RequestLines<W> {
    inner: W,
    dropped: LateAnswer,
    /// Id of the first request.
    first: Option<Value>,
}

impl<W> RequestLines<W> {
    pub(crate) fn new(inner: W, dropped: LateAnswer) -> Self {
        Self { inner, dropped, first: None }
    }

    fn note_bytes(&mut self, bytes: &[u8]) {
        // Messages are written as a whole.
        for line in bytes.split(|byte| *byte == b'\n') {
            let message = serde_json::from_slice::<Value>(line).unwrap_or_default();
            match message["method"].as_str() {
                Some("server/discover") => self.first = Some(message["id"].clone()),
                Some("initialize") => *self.dropped.get() = self.first.take(),
                _ => {}
            }
        }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for RequestLines<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.starts_with(b"{") {
            self.note_bytes(bytes);
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// The lines of a reader, each of which is a message that can be parsed if it is possible.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    inner: R,
    framer: Framer,
    /// Lines that are not read yet.
    ready: Vec<u8>,
    /// Number of their bytes that were read.
    read: usize,
    dropped: LateAnswer,
}

impl<R> Lines<R> {
    pub(crate) fn new(inner: R, dropped: LateAnswer) -> Self {
        Self { inner, framer: Framer::default(), ready: Vec::new(), read: 0, dropped }
    }

    /// Returns `true` for an answer that is too late.
    fn is_dropped(&self, line: &[u8]) -> bool {
        let dropped = self.dropped.get();
        let Some(id) = &*dropped else { return false };
        let message = serde_json::from_slice::<Value>(line).unwrap_or_default();
        message.get("method").is_none() && message.get("id") == Some(id)
    }

    fn end_line(&mut self, line: Vec<u8>) {
        if self.is_dropped(line.trim_ascii()) {
            return;
        }
        match repair_line(line.trim_ascii()).filter(|_| !line.trim_ascii().is_empty()) {
            Some(message) => self.ready.extend(message.bytes().chain([b'\n'])),
            None => self.ready.extend(line),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.read == this.ready.len() {
            this.ready.clear();
            this.read = 0;
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            let lines = match read.filled() {
                [] => this.framer.end(),
                bytes => this.framer.add(bytes),
            };
            if lines.is_empty() && read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            lines.into_iter().for_each(|line| this.end_line(line));
        }
        let rest = this.ready.get(this.read..).unwrap_or_default();
        let some = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(some);
        this.read += some.len();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn lines_are_readable_however_they_arrive() {
        let sent = "{\"id\":1,\"n\":NaN}\n\n no message \r\n{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"result\":{\"a\":\n{\"id\":3}";
        for size in [1, 3, 64, 1000] {
            let (mut server, client) = tokio::io::duplex(size);
            let send = async {
                server.write_all(sent.as_bytes()).await.expect("writes");
                drop(server);
            };
            let mut read = String::new();
            let mut lines = Lines::new(client, LateAnswer::default());
            tokio::join!(send, async { lines.read_to_string(&mut read).await.expect("reads") });
            let lines: Vec<_> = read.split('\n').collect();
            assert_eq!(lines[..3], ["{\"id\":1,\"n\":null}", "", " no message \r"], "{size}");
            let answer: Value = serde_json::from_str(lines[3]).expect("JSON");
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("b"), &json!(-32700)));
            assert_eq!(lines[4..], ["{\"id\":3}"]);
        }
    }

    #[test]
    fn a_message_is_read_before_other_text_on_its_line_and_not_after_it() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let request = r#"{"jsonrpc":"2.0","method":"ping","id":2}"#;
        for (line, expected) in [
            (format!("[INFO] {{ready}} {answer}"), None),
            (format!("{answer} # done"), Some(answer.to_owned())),
            (format!("{request}{answer}"), Some(format!("{request}\n{answer}"))),
            // A log repeats messages, also of others.
            (format!("received {request}"), None),
            (format!("sent {request} {answer}"), None),
            ("{".repeat(50_000), None),
        ] {
            let read = repair_line(line.as_bytes());
            let read = read.map(|read| {
                let values = read.lines().map(serde_json::from_str::<Value>);
                values.map(|value| value.expect("JSON")).collect::<Vec<_>>()
            });
            let expected = expected.map(|expected| {
                let values = expected.lines().map(serde_json::from_str::<Value>);
                values.map(|value| value.expect("JSON")).collect::<Vec<_>>()
            });
            assert_eq!(read, expected, "{line:.200}");
        }
    }

    #[test]
    fn numbers_and_depth_that_no_value_has_cost_themselves_alone() {
        let deep = format!("{}1{}", "[".repeat(400), "]".repeat(400));
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{{"wide":18446744073709551616,"far":1e999,"deep":{deep}}}}}}}"#
        );
        let read: Value =
            serde_json::from_str(&repair_line(message.as_bytes()).expect("read")).expect("JSON");
        let found = &read["result"]["structuredContent"];
        assert_eq!(
            (&found["wide"], &found["far"]),
            (&json!("18446744073709551616"), &json!("1e999"))
        );
        assert!(found["deep"].to_string().contains("nested too deeply"), "{found}");
        assert_eq!(read["id"], 1);
    }

    #[test]
    fn only_the_id_of_the_message_itself_is_answered() {
        for text in [
            "{\"result\":{\"id\":3,\"a\":",
            "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"id\":3",
            "{\"id\":null,\"error\":{",
            "id: 3",
        ] {
            assert_eq!(repair_line(text.as_bytes()), None, "{text}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_too_late_is_dropped() {
        let dropped = LateAnswer::default();
        let mut asked = RequestLines::new(tokio::io::sink(), dropped.clone());
        let (mut server, client) = tokio::io::duplex(1_000);
        let mut lines = Lines::new(client, dropped);
        for (method, id) in [("server/discover", 0), ("initialize", 1)] {
            let message = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method});
            asked.write_all(format!("{message}\n").as_bytes()).await.expect("writes");
        }
        let late = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n";
        let asks = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}\n";
        let own = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
        let all = [late, asks, own].concat();
        server.write_all(all.as_bytes()).await.expect("writes");
        drop(server);
        let mut read = String::new();
        lines.read_to_string(&mut read).await.expect("reads");
        assert_eq!(read, [asks, own].concat());
    }
}
