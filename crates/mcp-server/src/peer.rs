//! Versions, headers and sessions: what is known of a client for one message.
//!
//! A session is a text that has what its client said when it began, and no memory of the server. Clients
//! of later processes are as well known.

use crate::error::{Kind, McpError, Result, shorten};
use crate::message::{Incoming, Params};
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use uuid::Uuid;

/// The version whose requests have all that they need.
pub(crate) const MODERN: &str = "2026-07-28";
/// The versions that begin with a handshake, the newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Header of the session.
pub(crate) const SESSION: &str = "mcp-session-id";
/// Extension for tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// Methods whose requests name what they are about in a header, and the parameter.
const NAMED: [(&str, &str); 4] = [
    ("tools/call", "name"),
    ("tasks/get", "taskId"),
    ("tasks/update", "taskId"),
    ("tasks/cancel", "taskId"),
];

/// The era of a version, as the specification names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Each request has the version and the capabilities of its client.
    Modern,
    /// A handshake begins a session.
    Legacy,
}

/// The client of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) era: Era,
    /// `true` if it puts forms to a person.
    pub(crate) elicits: bool,
    /// `true` if it takes a task in place of a result.
    pub(crate) takes_tasks: bool,
    pub(crate) session: Option<String>,
}

impl Peer {
    /// Reads the version, the capabilities and the session of a message, and checks its headers.
    ///
    /// # Errors
    /// An error with status 400 for a version that is not served, and for headers that the message does
    /// not have; with status 404 for a session that is none of this server.
    pub(crate) fn read(headers: &HeaderMap, message: &Incoming) -> Result<Self> {
        let call = message.call();
        let meta = call.and_then(|(_, params)| params.get("_meta")?.as_object());
        let in_body = meta.and_then(|meta| meta.get(VERSION_KEY)?.as_str());
        let in_header = header(headers, "mcp-protocol-version")?;
        match (in_header, in_body) {
            (Some(in_header), Some(in_body)) if in_header != in_body => {
                Err(mismatch("MCP-Protocol-Version", in_header, in_body))
            }
            (None, Some(in_body)) => Err(mismatch("MCP-Protocol-Version", "missing", in_body)),
            (Some(MODERN), _) => Self::modern(headers, call, meta),
            (None, None) => Self::legacy(headers),
            (Some(version), None) if LEGACY.contains(&version) => Self::legacy(headers),
            (Some(version), _) => Err(unsupported(version)),
        }
    }

    fn modern(
        headers: &HeaderMap,
        call: Option<(&str, &Params)>,
        meta: Option<&Params>,
    ) -> Result<Self> {
        let Some((method, params)) = call else {
            let text = "a client sends no responses; answers are in the next request";
            return Err(McpError::bad_request(Kind::InvalidRequest, text));
        };
        let missing = |key: &str| {
            let text = format!("`params._meta` has no `{key}`; each request has it");
            McpError::bad_request(Kind::InvalidParams, text)
        };
        if !meta.is_some_and(|meta| meta.contains_key(VERSION_KEY)) {
            return Err(missing(VERSION_KEY));
        }
        let capabilities = meta.and_then(|meta| meta.get(CAPABILITIES_KEY));
        let capabilities = capabilities.filter(|of| of.is_object());
        let capabilities = capabilities.ok_or_else(|| missing(CAPABILITIES_KEY))?;
        check_header(headers, "Mcp-Method", method)?;
        if let Some((_, param)) = NAMED.iter().find(|(of, _)| *of == method) {
            let named = params.get(*param).and_then(Value::as_str).unwrap_or_default();
            check_header(headers, "Mcp-Name", named)?;
        }
        Ok(Self {
            era: Era::Modern,
            elicits: elicits(capabilities),
            takes_tasks: capabilities["extensions"].get(TASKS).is_some(),
            session: None,
        })
    }

    fn legacy(headers: &HeaderMap) -> Result<Self> {
        let session = header(headers, SESSION)?;
        let elicits = session.map(read_session).transpose()?.unwrap_or(false);
        let session = session.map(str::to_owned);
        Ok(Self { era: Era::Legacy, elicits, takes_tasks: false, session })
    }
}

/// Returns `true` if a client puts forms to a person; one that names no mode does.
fn elicits(capabilities: &Value) -> bool {
    let Some(modes) = capabilities["elicitation"].as_object() else { return false };
    modes.contains_key("form") || !modes.contains_key("url")
}

/// Returns the version for a client that asks for one.
pub(crate) fn negotiate(asked: &str) -> &'static str {
    let [newest, ..] = LEGACY;
    LEGACY.into_iter().find(|version| *version == asked).unwrap_or(newest)
}

/// Returns a session of a client with these capabilities.
pub(crate) fn new_session(capabilities: &Value) -> String {
    let form = if elicits(capabilities) { 'f' } else { 'n' };
    format!("{form}-{}", Uuid::new_v4().simple())
}

/// Returns whether the client of a session puts forms to a person.
///
/// # Errors
/// An error with status 404, after which clients begin another session.
fn read_session(session: &str) -> Result<bool> {
    let parts = session.split_once('-');
    let is_id = |id: &str| id.len() == 32 && Uuid::try_parse(id).is_ok();
    match parts {
        Some(("f", id)) if is_id(id) => Ok(true),
        Some(("n", id)) if is_id(id) => Ok(false),
        _ => {
            let text = "the session does not exist; begin another one by `initialize`";
            let error = McpError::new(Kind::InvalidRequest, text);
            Err(error.with_status(StatusCode::NOT_FOUND))
        }
    }
}

/// All versions, the newest first.
pub(crate) fn supported() -> Vec<&'static str> {
    std::iter::once(MODERN).chain(LEGACY).collect()
}

fn unsupported(version: &str) -> McpError {
    let text = format!("version {} of MCP is not supported", shorten(version));
    let data = json!({"supported": supported(), "requested": version});
    McpError::bad_request(Kind::UnsupportedVersion, text).with_data(data)
}

fn mismatch(name: &str, in_header: &str, in_body: &str) -> McpError {
    let text = format!(
        "header {name} is {}, and the body has {}; expected the same",
        shorten(in_header),
        shorten(in_body)
    );
    McpError::bad_request(Kind::HeaderMismatch, text)
}

/// Reads a header.
///
/// # Errors
/// An error for one that occurs twice, or has other characters than those of ASCII.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>> {
    let mut all = headers.get_all(name).iter();
    let bad = |text: String| McpError::bad_request(Kind::HeaderMismatch, text);
    let Some(first) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(bad(format!("header {name} occurs twice")));
    }
    let text = first.to_str().map_err(|_| bad(format!("header {name} is no ASCII text")))?;
    Ok(Some(text.trim()))
}

/// Checks that a header has the value of the body.
fn check_header(headers: &HeaderMap, name: &str, in_body: &str) -> Result<()> {
    let found = header(headers, name)?;
    let decoded = found.map(decode_header).unwrap_or_default();
    match found.is_some() && decoded == in_body {
        true => Ok(()),
        false => Err(mismatch(name, found.unwrap_or("missing"), in_body)),
    }
}

/// Decodes a value of a header that is in Base64 because of its characters.
fn decode_header(value: &str) -> String {
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let decoded = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.unwrap_or_else(|| value.to_owned())
}

/// Returns the version that a request of the newer era names in its body.
pub(crate) fn version_of_meta(params: &Params) -> Option<&str> {
    params.get("_meta")?.get(VERSION_KEY)?.as_str()
}

/// Returns the parameter that a request names in a header.
pub(crate) fn named_param<'p>(method: &str, params: &'p Params) -> Option<&'p str> {
    let (_, param) = NAMED.iter().find(|(of, _)| *of == method)?;
    params.get(*param)?.as_str()
}

/// Encodes a value for a header.
pub(crate) fn encode_header(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    match is_plain {
        true => value.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(value)),
    }
}
