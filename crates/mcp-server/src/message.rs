//! Messages of JSON-RPC, as clients send them and as they get them.

use crate::error::{Kind, McpError, Result};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use weftwork_server::read_json;

/// Members of a message.
pub(crate) type Params = Map<String, Value>;

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Params,
    },
    /// The response to a request of this server.
    Response {
        id: String,
        result: Value,
    },
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// A text or a whole number.
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Params,
}

/// A message that was refused, with its id if that is known.
#[derive(Debug)]
pub(crate) struct RefusedMessage {
    pub(crate) id: Option<Value>,
    pub(crate) error: McpError,
}

impl RefusedMessage {
    fn new(id: Option<Value>, kind: Kind, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { id, error: McpError::bad_request(kind, message) })
    }
}

impl Incoming {
    /// Reads a message.
    ///
    /// # Errors
    /// An error for a body that is no message, and for a batch.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Box<RefusedMessage>> {
        let value = read_json(body).map_err(|refused| match refused.status {
            StatusCode::UNPROCESSABLE_ENTITY => {
                let text = format!("the body is no JSON: {}", refused.detail);
                RefusedMessage::new(None, Kind::ParseError, text)
            }
            _ => Box::new(RefusedMessage { id: None, error: refused.into() }),
        })?;
        let Value::Object(mut members) = value else {
            let text = "the body is no JSON object; a message is one, and batches are not taken";
            return Err(RefusedMessage::new(None, Kind::InvalidRequest, text));
        };
        let id = members.shift_remove("id");
        if id.as_ref().is_some_and(|id| !is_id(id)) {
            let text = "`id` is neither a text nor a whole number";
            return Err(RefusedMessage::new(None, Kind::InvalidRequest, text));
        }
        if members.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(RefusedMessage::new(id, Kind::InvalidRequest, "`jsonrpc` is not \"2.0\""));
        }
        match members.shift_remove("method") {
            Some(Value::String(method)) => Self::read_call(id, method, members),
            Some(_) => Err(RefusedMessage::new(id, Kind::InvalidRequest, "`method` is no text")),
            None => Self::read_response(id, members),
        }
    }

    fn read_call(
        id: Option<Value>,
        method: String,
        mut members: Params,
    ) -> Result<Self, Box<RefusedMessage>> {
        let params = match members.shift_remove("params") {
            None | Some(Value::Null) => Params::new(),
            Some(Value::Object(params)) => params,
            Some(_) => {
                return Err(RefusedMessage::new(id, Kind::InvalidParams, "`params` is no object"));
            }
        };
        Ok(match id {
            Some(id) => Self::Request(Request { id, method, params }),
            None => Self::Notification { method, params },
        })
    }

    fn read_response(id: Option<Value>, mut members: Params) -> Result<Self, Box<RefusedMessage>> {
        let result = members.shift_remove("result");
        // A client that cannot ask a person says so by an error.
        let refused = members.contains_key("error").then(|| json!({"action": "cancel"}));
        match (&id, result.or(refused)) {
            (Some(Value::String(id)), Some(result)) => {
                Ok(Self::Response { id: id.clone(), result })
            }
            _ => {
                let text =
                    "the message has no `method`, and is no response to a request of this server";
                Err(RefusedMessage::new(id, Kind::InvalidRequest, text))
            }
        }
    }

    /// Returns the method and the parameters; `None` for a response.
    pub(crate) fn call(&self) -> Option<(&str, &Params)> {
        match self {
            Self::Request(Request { method, params, .. })
            | Self::Notification { method, params } => Some((method, params)),
            Self::Response { .. } => None,
        }
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// Returns the response to a request.
pub(crate) fn response(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns the response to a request that failed.
pub(crate) fn failure(id: &Value, error: &McpError) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()})
}

/// Returns a notification.
pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Returns the request for a parameter that is a text.
///
/// # Errors
/// An error if it is missing, or no text.
pub(crate) fn text_param<'p>(params: &'p Params, name: &str) -> Result<&'p str> {
    let text = params.get(name).and_then(Value::as_str);
    text.ok_or_else(|| McpError::invalid(format!("`params.{name}` is missing; expected a text")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_request_a_notification_or_a_response() {
        let read = |value: Value| Incoming::read(value.to_string().as_bytes()).expect("a message");
        let request = read(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
        assert!(matches!(request, Incoming::Request(Request { id, .. }) if id == 1));
        let note = read(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert!(matches!(note, Incoming::Notification { .. }));
        let answer = read(json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}}));
        assert!(matches!(answer, Incoming::Response { id, .. } if id == "q"));
        let refused = read(json!({"jsonrpc": "2.0", "id": "q", "error": {"code": -1}}));
        assert!(
            matches!(refused, Incoming::Response { result, .. } if result["action"] == "cancel")
        );
    }

    #[test]
    fn other_bodies_are_refused_by_their_kinds() {
        for (body, code) in [
            ("{", -32700),
            ("", -32700),
            ("[]", -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
            ("1", -32600),
            (r#"{"id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32602),
        ] {
            let refused = Incoming::read(body.as_bytes()).expect_err(body);
            assert_eq!(refused.error.to_json()["code"], code, "{body}");
        }
    }
}
