//! The operations of A2A in its two bindings.

use super::card::{Binding, Interface};
use super::error::FailedAttempt;
use super::peer::{ANSWER_BYTES_MAX, Peer, PeerRequest, Reading, Repetition, Verdict};
use serde_json::{Value, json};
use url::Url;
use weftwork_a2a_wire::{Message, VERSION};
use weftwork_types::port::Method;

/// Code of an operation in which an agent failed: it may have done some of it.
const INTERNAL: i64 = -32603;
/// Code of an operation that an agent does not have, or not in the state of the task.
const UNSUPPORTED: i64 = -32004;
/// Code of a version of the protocol that an agent does not have.
const OTHER_VERSION: i64 = -32009;

/// An operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation<'a> {
    Send { message: &'a Message, streams: bool },
    Get { task: &'a str },
    Cancel { task: &'a str },
    Subscribe { task: &'a str },
}

impl Operation<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Send { streams: true, .. } => "SendStreamingMessage",
            Self::Send { streams: false, .. } => "SendMessage",
            Self::Get { .. } => "GetTask",
            Self::Cancel { .. } => "CancelTask",
            Self::Subscribe { .. } => "SubscribeToTask",
        }
    }

    fn params(self, tenant: &str) -> Value {
        let mut params = match self {
            // A server without streams answers before the task has ended, and is asked again.
            Self::Send { message, streams: false } => {
                json!({"message": message, "configuration": {"returnImmediately": true}})
            }
            Self::Send { message, streams: true } => json!({"message": message}),
            // The messages of the task are those of this run.
            Self::Get { task } => json!({"id": task, "historyLength": 0}),
            Self::Cancel { task } | Self::Subscribe { task } => json!({"id": task}),
        };
        if !tenant.is_empty() {
            params["tenant"] = tenant.into();
        }
        params
    }

    fn streams(self) -> bool {
        matches!(self, Self::Send { streams: true, .. } | Self::Subscribe { .. })
    }

    /// Method and path of the operation, below the address of the agent.
    fn route(self) -> (Method, Vec<String>) {
        match self {
            Self::Send { streams: true, .. } => (Method::Post, vec!["message:stream".to_owned()]),
            Self::Send { .. } => (Method::Post, vec!["message:send".to_owned()]),
            Self::Get { task } => (Method::Get, vec!["tasks".to_owned(), task.to_owned()]),
            Self::Cancel { task } => {
                (Method::Post, vec!["tasks".to_owned(), format!("{task}:cancel")])
            }
            Self::Subscribe { task } => {
                (Method::Post, vec!["tasks".to_owned(), format!("{task}:subscribe")])
            }
        }
    }
}

impl Interface {
    /// Returns the request of an operation.
    pub(super) fn request(&self, of: Operation<'_>, repetition: Repetition) -> PeerRequest {
        let accept = match of.streams() {
            true => "text/event-stream, application/json",
            false => "application/a2a+json, application/json",
        };
        let (method, url, body, content_type) = match self.binding {
            Binding::JsonRpc => {
                let params = of.params(&self.tenant);
                let body =
                    json!({"jsonrpc": "2.0", "id": 1, "method": of.name(), "params": params});
                (Method::Post, self.url.clone(), Some(body), "application/json")
            }
            Binding::Rest => {
                let (method, path) = of.route();
                let body = match of {
                    Operation::Send { .. } => Some(of.params(&self.tenant)),
                    _ if method == Method::Post => Some(json!({})),
                    _ => None,
                };
                let mut url = self.below(path);
                if matches!(of, Operation::Get { .. }) {
                    url.set_query(Some("historyLength=0"));
                }
                (method, url, body, "application/a2a+json")
            }
        };
        let mut headers = vec![("accept", accept.to_owned()), ("a2a-version", VERSION.to_owned())];
        headers.extend(body.as_ref().map(|_| ("content-type", content_type.to_owned())));
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let reading = match of.streams() {
            true => Reading::Stream,
            false => Reading::Whole { bytes_max: ANSWER_BYTES_MAX },
        };
        let verdict = Verdict::Status;
        PeerRequest { method, url, headers, body: body.into(), reading, repetition, verdict }
    }

    fn below(&self, path: Vec<String>) -> Url {
        let mut url = self.url.clone();
        let tenant = Some(self.tenant.clone()).filter(|tenant| !tenant.is_empty());
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(tenant).extend(path);
        }
        url
    }

    /// Takes the result out of an answer, or of an event of a stream.
    pub(super) fn result(&self, peer: &Peer, mut value: Value) -> Result<Value, FailedAttempt> {
        if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
            return Err(refused(peer, error));
        }
        match self.binding {
            Binding::Rest => Ok(value),
            Binding::JsonRpc => match value.get_mut("result") {
                Some(result) if result.is_object() => Ok(result.take()),
                _ => {
                    let reason = "it has neither `result` nor `error`";
                    Err(peer.invalid("an answer", reason).into())
                }
            },
        }
    }
}

/// The failure of an operation that the agent refused.
fn refused(peer: &Peer, error: &Value) -> FailedAttempt {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
    let what = match code {
        OTHER_VERSION => format!("has another version of the protocol than {VERSION}"),
        UNSUPPORTED => "does not support the operation".to_owned(),
        code => format!("refused the operation with code {code}"),
    };
    let failed = FailedAttempt::from(peer.failed(what, text));
    if code == INTERNAL { failed.of_taken() } else { failed }
}
