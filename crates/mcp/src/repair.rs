//! Messages of servers in a form that the protocol does not have, but whose meaning is clear.
//!
//! The client reads a message as a whole, so that one odd member would cost all of it: a list its good
//! tools, and a call its result after its effect. What is odd is left out or put into the form of the
//! protocol before; a tool that cannot be used is marked and refused by its name.

use serde_json::{Map, Value, json};

/// Member of a tool's schema that has the reason why the tool cannot be used.
pub(crate) const PROBLEM: &str = "x-weft-problem";
/// Error code of JSON-RPC for a failure without a code of its own.
const INTERNAL_ERROR: i64 = -32603;
/// Members of results: of lists of tools, of descriptions of servers, of calls, and of requests for
/// input.
const RESULT_MEMBERS: [&str; 10] = [
    "tools",
    "protocolVersion",
    "supportedVersions",
    "serverInfo",
    "content",
    "structuredContent",
    "isError",
    "toolResult",
    "inputRequests",
    "requestState",
];
/// Members that results of all kinds may have.
const ENVELOPE_MEMBERS: [&str; 4] = ["_meta", "resultType", "ttlMs", "cacheScope"];
/// Version of servers that do not name theirs.
const VERSION: &str = "2025-03-26";

/// Puts a message into the form of the protocol. Returns `false` if it was in it.
pub(crate) fn message(message: &mut Value) -> bool {
    let before = message.clone();
    match &mut *message {
        Value::Array(messages) => messages.iter_mut().for_each(repair_message),
        message => repair_message(message),
    }
    *message != before
}

fn repair_message(message: &mut Value) {
    let Value::Object(members) = message else { return };
    let is_answer = members.contains_key("result") || members.contains_key("error");
    if !is_answer && !members.contains_key("method") {
        return;
    }
    members.insert("jsonrpc".to_owned(), "2.0".into());
    let is_empty = |error: &Value| match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let has_result = members.get("result").is_some_and(|result| !result.is_null());
    if members.get("error").is_some_and(|error| error.is_null() || has_result && is_empty(error)) {
        members.remove("error");
    }
    if let Some(error) = members.get_mut("error") {
        repair_error(error);
        members.remove("result");
    }
    if let Some(result) = members.get_mut("result") {
        repair_result(result);
    }
}

/// An error is an object with a code and a message.
fn repair_error(error: &mut Value) {
    let said = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let Value::Object(members) = error else {
        *error = json!({"code": INTERNAL_ERROR, "message": said(error)});
        return;
    };
    let message = members.get("message").map(said).unwrap_or_default();
    let code = members.get("code").cloned().unwrap_or_default();
    let is_code = code.as_i64().is_some_and(|code| i32::try_from(code).is_ok());
    let text = match (is_code, said(&code)) {
        (false, code) if !code.is_empty() => format!("{message} ({code})"),
        _ => message,
    };
    members.insert("message".to_owned(), text.into());
    if !is_code {
        members.insert("code".to_owned(), INTERNAL_ERROR.into());
    }
}

fn repair_result(result: &mut Value) {
    match result {
        Value::Array(blocks) => *result = json!({"content": blocks}),
        Value::Null => *result = json!({"content": []}),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            *result = json!({"content": [result.take()]});
        }
        // No request of this client has such a result: it is that of a call.
        Value::Object(members) if is_foreign(members) => {
            *result = json!({"content": [result.to_string()]});
        }
        Value::Object(_) => {}
    }
    let Value::Object(members) = result else { return };
    keep_if(members, "_meta", Value::is_object);
    keep_if(members, "ttlMs", Value::is_number);
    let has = |name: &str| members.contains_key(name);
    if has("tools") && !has("content") {
        keep_if(members, "nextCursor", Value::is_string);
        repair_tools(members);
    } else if has("protocolVersion") || has("supportedVersions") || has("serverInfo") {
        repair_description(members);
    } else if ["content", "structuredContent", "isError", "toolResult"].into_iter().any(has) {
        repair_call_result(members);
    }
}

/// Returns `true` for the members of a result that none of the requests has.
fn is_foreign(members: &Map<String, Value>) -> bool {
    let is_known = |name: &str| RESULT_MEMBERS.contains(&name);
    let is_envelope = |name: &str| ENVELOPE_MEMBERS.contains(&name);
    members.keys().any(|name| !is_envelope(name)) && !members.keys().any(|name| is_known(name))
}

/// Removes a member unless it has the right type.
pub(crate) fn keep_if(
    members: &mut Map<String, Value>,
    name: &str,
    is_right: impl Fn(&Value) -> bool,
) {
    if members.get(name).is_some_and(|value| !is_right(value)) {
        members.remove(name);
    }
}

/// Returns a text, or the text of a number.
fn text_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The server's description of itself.
fn repair_description(members: &mut Map<String, Value>) {
    let info = members.entry("serverInfo").or_insert_with(|| json!({}));
    let name = text_of(info.get("name"));
    let version = text_of(info.get("version"));
    *info = json!({
        "name": name.unwrap_or_else(|| "unnamed".to_owned()),
        "version": version.unwrap_or_else(|| "0".to_owned()),
    });
    keep_if(members, "instructions", Value::is_string);
    let capabilities = members.entry("capabilities").or_insert_with(|| json!({"tools": {}}));
    if let Value::Object(known) = capabilities {
        known.retain(|_, value| !matches!(value, Value::Null | Value::Bool(false)));
        for value in known.values_mut().filter(|value| !value.is_object()) {
            *value = json!({});
        }
    } else {
        *capabilities = json!({"tools": {}});
    }
    if members.contains_key("supportedVersions") {
        return;
    }
    let version = members.entry("protocolVersion").or_insert(Value::Null);
    if !version.is_string() {
        *version = VERSION.into();
    }
}

fn repair_tools(members: &mut Map<String, Value>) {
    let Some(Value::Array(tools)) = members.get_mut("tools") else { return };
    for (number, entry) in tools.iter_mut().enumerate() {
        let placeholder = format!("entry {}", number + 1);
        let Value::Object(tool) = entry else {
            *entry = refused_entry(&placeholder, "its entry in the list is no object");
            continue;
        };
        // Nothing is decided by them, and the client does not show them.
        for name in ["icons", "execution", "_meta"] {
            tool.remove(name);
        }
        keep_if(tool, "title", Value::is_string);
        keep_if(tool, "description", Value::is_string);
        keep_if(tool, "annotations", Value::is_object);
        keep_if(tool, "outputSchema", Value::is_object);
        if let Some(Value::Object(hints)) = tool.get_mut("annotations") {
            hints.retain(|name, value| match name.as_str() {
                "title" => value.is_string(),
                _ => value.is_boolean(),
            });
        }
        let Some(name) = tool.get("name").and_then(Value::as_str).map(str::to_owned) else {
            *entry = refused_entry(&placeholder, "its `name` is no text");
            continue;
        };
        let declared = tool.remove("inputSchema").or_else(|| tool.remove("input_schema"));
        match declared {
            Some(schema @ Value::Object(_)) => {
                tool.insert("inputSchema".to_owned(), schema);
            }
            // It takes no arguments.
            None | Some(Value::Null | Value::Bool(true)) => {
                tool.insert("inputSchema".to_owned(), json!({"type": "object", "properties": {}}));
            }
            Some(_) => *entry = refused_entry(&name, "its `inputSchema` is no object"),
        }
    }
}

/// An entry for a tool that cannot be used.
fn refused_entry(name: &str, problem: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", PROBLEM: problem}})
}

/// The result of a call.
fn repair_call_result(members: &mut Map<String, Value>) {
    keep_if(members, "structuredContent", |value| !value.is_null());
    let is_error = members.get("isError").map(|value| match value {
        Value::Null => false,
        Value::Bool(is_error) => *is_error,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(word) => {
            !["", "false", "no", "0"].contains(&word.trim().to_ascii_lowercase().as_str())
        }
        Value::Array(_) | Value::Object(_) => true,
    });
    members.extend(is_error.map(|is_error| ("isError".to_owned(), is_error.into())));
    // The form of the protocol's first version.
    let old = members.remove("toolResult").map(|result| vec![result]);
    let content = members.entry("content").or_insert(Value::Null);
    let mut blocks = match content.take() {
        Value::Array(blocks) => blocks,
        Value::Null => old.unwrap_or_default(),
        one => vec![one],
    };
    blocks.iter_mut().for_each(repair_block);
    *content = blocks.into();
}

/// A part of a result. One in an unknown form is shown to the model as it is.
fn repair_block(block: &mut Value) {
    let quoted = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let as_text = |text: String| json!({"type": "text", "text": text});
    let Value::Object(members) = &mut *block else {
        *block = as_text(quoted(block));
        return;
    };
    for name in ["annotations", "_meta", "icons"] {
        members.remove(name);
    }
    let is_text =
        |members: &Map<String, Value>, name: &str| members.get(name).is_some_and(Value::is_string);
    let kind = members.get("type").and_then(Value::as_str).unwrap_or("text").to_owned();
    match kind.as_str() {
        "text" if members.contains_key("text") => {
            *block = as_text(members.get("text").map(quoted).unwrap_or_default());
        }
        "image" | "audio" if is_text(members, "data") => {
            if !is_text(members, "mimeType") {
                members.insert("mimeType".to_owned(), "application/octet-stream".into());
            }
        }
        "resource_link" if is_text(members, "uri") => {
            if !is_text(members, "name") {
                let uri = members.get("uri").cloned().unwrap_or_default();
                members.insert("name".to_owned(), uri);
            }
            for name in ["title", "description", "mimeType"] {
                keep_if(members, name, Value::is_string);
            }
            keep_if(members, "size", Value::is_u64);
        }
        "resource" => {
            let inner = members.get_mut("resource").and_then(Value::as_object_mut);
            let is_whole = inner.is_some_and(|inner| {
                inner.remove("_meta");
                keep_if(inner, "mimeType", Value::is_string);
                is_text(inner, "uri") && (is_text(inner, "text") || is_text(inner, "blob"))
            });
            if !is_whole {
                *block = as_text(block.to_string());
            }
        }
        // `tool_use` and `tool_result` are parts of requests for samples.
        _ => *block = as_text(block.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(mut found: Value) -> Value {
        message(&mut found);
        found
    }

    fn result(result: Value) -> Value {
        repaired(json!({"id": 1, "result": result}))["result"].take()
    }

    #[test]
    fn a_message_in_the_form_of_the_protocol_stays_as_it_is() {
        for mut sound in [
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [
                {"name": "a", "description": "b", "inputSchema": {"type": "object"},
                 "annotations": {"readOnlyHint": true}},
            ], "nextCursor": "c"}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"isError": false, "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "resource", "resource": {"uri": "x:1", "text": "a"}},
                {"type": "resource_link", "uri": "x:1", "name": "a", "size": 3},
            ]}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"a": 1}}),
            json!({"level": "info", "message": "a line of a log"}),
        ] {
            assert!(!message(&mut sound), "{sound}");
        }
    }

    #[test]
    fn an_odd_tool_costs_itself_alone() {
        let schema = json!({"type": "object", "properties": {}});
        for (odd, name, problem) in [
            (json!(null), "entry 1", Some("no object")),
            (json!("a"), "entry 1", Some("no object")),
            (json!({"name": 5, "inputSchema": schema}), "entry 1", Some("`name`")),
            (json!({"name": "a", "inputSchema": "x"}), "a", Some("`inputSchema`")),
            (json!({"name": "a"}), "a", None),
            (json!({"name": "a", "inputSchema": null}), "a", None),
            (json!({"name": "a", "input_schema": schema}), "a", None),
            (json!({"name": "a", "inputSchema": schema, "icons": "x", "_meta": "y"}), "a", None),
            (json!({"name": "a", "inputSchema": schema, "description": 7, "title": []}), "a", None),
            (json!({"name": "a", "inputSchema": schema, "annotations": "x"}), "a", None),
            (
                json!({"name": "a", "inputSchema": schema, "annotations": {"readOnlyHint": "true"}}),
                "a",
                None,
            ),
            (json!({"name": "a", "inputSchema": schema, "outputSchema": true}), "a", None),
        ] {
            let good = json!({"name": "good", "inputSchema": schema});
            let found = result(json!({"tools": [odd, good], "nextCursor": 5, "_meta": "x"}));
            assert_eq!((&found["tools"][0]["name"], &found["tools"][1]), (&json!(name), &good));
            let said = found["tools"][0]["inputSchema"][PROBLEM].as_str().unwrap_or_default();
            assert_eq!(said.is_empty(), problem.is_none(), "{found}");
            assert!(said.contains(problem.unwrap_or_default()), "{found}");
            let read: Result<rmcp::model::ListToolsResult, _> = serde_json::from_value(found);
            assert_eq!(read.expect("a list").tools.len(), 2);
        }
    }

    #[test]
    fn what_a_tool_has_answered_is_kept() {
        let texts = |result: Value| {
            let read: rmcp::model::CallToolResult =
                serde_json::from_value(result.clone()).unwrap_or_else(|e| panic!("{result}: {e}"));
            let texts = read.content.iter().filter_map(|block| block.as_text());
            texts.map(|text| text.text.clone()).collect::<Vec<_>>().join("|")
        };
        for (odd, expected) in [
            (
                json!({"content": [{"type": "text", "text": "paid"}, {"type": "text", "text": null}]}),
                "paid|",
            ),
            (
                json!({"content": [{"type": "text", "text": "paid", "annotations": {"priority": "high"}}]}),
                "paid",
            ),
            (json!({"content": "paid"}), "paid"),
            (json!({"content": {"type": "text", "text": "paid"}}), "paid"),
            (json!({"content": ["paid"], "isError": "false"}), "paid"),
            (json!([{"type": "text", "text": "paid"}]), "paid"),
            (json!({"content": [{"text": "paid"}], "_meta": 5}), "paid"),
            (json!({"toolResult": "paid"}), "paid"),
            (json!("paid"), "paid"),
            (json!(7), "7"),
            (json!(true), "true"),
            (json!(null), ""),
            (json!({"status": "paid"}), r#"{"status":"paid"}"#),
            (
                json!({"error": {"code": -1, "message": "no"}}),
                r#"{"error":{"code":-1,"message":"no"}}"#,
            ),
            (
                json!({"resultType": "complete", "messages": []}),
                r#"{"resultType":"complete","messages":[]}"#,
            ),
            (json!({"content": null, "structuredContent": null, "isError": null}), ""),
            (json!({"content": [{"type": "video", "id": 1}]}), r#"{"type":"video","id":1}"#),
            (
                json!({"content": [{"type": "resource", "resource": {"text": "paid"}}]}),
                r#"{"type":"resource","resource":{"text":"paid"}}"#,
            ),
            (
                json!({"content": [{"type": "image", "data": "AA=="}, {"type": "resource_link", "uri": "x", "size": "12"}]}),
                "",
            ),
        ] {
            assert_eq!(texts(result(odd.clone())), expected, "{odd}");
        }
    }

    #[test]
    fn errors_and_descriptions_of_servers_are_read() {
        for (odd, code, said) in [
            (json!("no"), -32603, "no"),
            (json!({"message": "no"}), -32603, "no"),
            (json!({"code": "ERR_X", "message": "no"}), -32603, "no (ERR_X)"),
            (json!({"code": 99_999_999_999_i64, "message": null}), -32603, " (99999999999)"),
            (json!({"code": -32000, "message": {"a": 1}}), -32000, r#"{"a":1}"#),
        ] {
            let error = repaired(json!({"id": 1, "error": odd, "result": null}));
            assert_eq!(error["error"]["code"], code, "{error}");
            assert_eq!(error["error"]["message"], said, "{error}");
            assert_eq!((&error["jsonrpc"], error.get("result")), (&json!("2.0"), None));
        }
        for odd in [
            json!({"protocolVersion": 5, "serverInfo": {"name": "a", "version": 1, "icons": "x"}}),
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": true, "prompts": null}}),
            json!({"serverInfo": "x", "capabilities": null, "instructions": 5}),
        ] {
            let read: Result<rmcp::model::InitializeResult, _> =
                serde_json::from_value(result(odd.clone()));
            assert!(read.is_ok(), "{odd}: {read:?}");
        }
    }
}
