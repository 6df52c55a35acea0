//! The description of the routes: an OpenAPI document, and a page that shows it.

use serde_json::{Map, Value, json};

/// An operation: its method, its path, its description, and the names of the members of its body.
type Operation = (&'static str, &'static str, &'static str, &'static [&'static str]);

const RUN: &[&str] = &[
    "assistant_id",
    "input",
    "command",
    "checkpoint",
    "metadata",
    "config",
    "context",
    "interrupt_before",
    "interrupt_after",
    "stream_mode",
    "stream_subgraphs",
    "multitask_strategy",
    "if_not_exists",
    "after_seconds",
    "durability",
    "on_disconnect",
    "on_completion",
];
const ASSISTANT: &[&str] =
    &["graph_id", "assistant_id", "name", "description", "config", "context", "metadata"];
const ASSISTANTS: &[&str] =
    &["metadata", "graph_id", "name", "limit", "offset", "sort_by", "sort_order", "select"];
const THREADS: &[&str] = &[
    "ids",
    "metadata",
    "values",
    "query",
    "status",
    "timed",
    "limit",
    "offset",
    "sort_by",
    "sort_order",
    "select",
    "extract",
];

/// All operations.
#[rustfmt::skip]
const OPERATIONS: &[Operation] = &[
    ("get", "/ok", "Health of the server, and of its store with `check_db`", &[]),
    ("get", "/info", "Version and abilities", &[]),
    ("get", "/metrics", "Counts, for Prometheus or as JSON with `format=json`", &[]),
    ("get", "/schemas/events", "Read the JSON Schema of the events of runs", &[]),
    ("post", "/assistants", "Create an assistant", ASSISTANT),
    ("post", "/assistants/search", "Find assistants", ASSISTANTS),
    ("post", "/assistants/count", "Count assistants", ASSISTANTS),
    ("get", "/assistants/{assistant_id}", "Read an assistant", &[]),
    ("patch", "/assistants/{assistant_id}", "Add a version to an assistant", ASSISTANT),
    ("delete", "/assistants/{assistant_id}", "Delete an assistant", &[]),
    ("post", "/assistants/{assistant_id}/versions", "List the versions of an assistant", &["metadata", "limit", "offset"]),
    ("post", "/assistants/{assistant_id}/latest", "Make a version the current one", &["version"]),
    ("get", "/assistants/{assistant_id}/graph", "Read nodes and edges, with those of subgraphs with `xray`", &[]),
    ("get", "/assistants/{assistant_id}/schemas", "Read the schemas of the graph", &[]),
    ("get", "/assistants/{assistant_id}/subgraphs", "Read the schemas of the subgraphs", &[]),
    ("get", "/assistants/{assistant_id}/subgraphs/{namespace}", "Read the schemas of a subgraph", &[]),
    ("post", "/threads", "Create a thread", &["thread_id", "metadata", "if_exists", "supersteps"]),
    ("post", "/threads/search", "Find threads", THREADS),
    ("post", "/threads/count", "Count threads", THREADS),
    ("post", "/threads/prune", "Delete threads", &["thread_ids", "strategy"]),
    ("get", "/threads/{thread_id}", "Read a thread", &[]),
    ("patch", "/threads/{thread_id}", "Replace members of the metadata of a thread", &["metadata"]),
    ("delete", "/threads/{thread_id}", "Delete a thread", &[]),
    ("post", "/threads/{thread_id}/copy", "Copy a thread; up to a checkpoint, without its runs", &["checkpoint_id"]),
    ("get", "/threads/{thread_id}/state", "Read the newest state", &[]),
    ("post", "/threads/{thread_id}/state", "Change the state", &["values", "as_node", "checkpoint", "checkpoint_id"]),
    ("post", "/threads/{thread_id}/state/checkpoint", "Read the state at a place", &["checkpoint", "subgraphs"]),
    ("get", "/threads/{thread_id}/state/{checkpoint_id}", "Read the state at a checkpoint", &[]),
    ("get", "/threads/{thread_id}/history", "List the newest states", &[]),
    ("post", "/threads/{thread_id}/history", "List states", &["limit", "before", "metadata", "checkpoint", "select"]),
    ("post", "/threads/{thread_id}/runs", "Start a run", RUN),
    ("get", "/threads/{thread_id}/runs", "List the runs of a thread", &[]),
    ("post", "/threads/{thread_id}/runs/wait", "Start a run and wait for its values", RUN),
    ("post", "/threads/{thread_id}/runs/stream", "Start a run and stream its events", RUN),
    ("get", "/threads/{thread_id}/runs/{run_id}", "Read a run", &[]),
    ("delete", "/threads/{thread_id}/runs/{run_id}", "Delete a run", &[]),
    ("get", "/threads/{thread_id}/runs/{run_id}/join", "Wait for the values of a run", &[]),
    ("get", "/threads/{thread_id}/runs/{run_id}/stream", "Stream the events of a run, after `Last-Event-ID`", &[]),
    ("post", "/threads/{thread_id}/runs/{run_id}/cancel", "Cancel a run, and roll its work back with `action=rollback`", &[]),
    ("post", "/threads/{thread_id}/commands", "Carry out a command of the protocol of threads", &["id", "method", "params"]),
    ("post", "/threads/{thread_id}/stream/events", "Stream the events of a thread over all its runs", &["channels", "namespaces", "depth", "since"]),
    ("get", "/threads/{thread_id}/stream/events", "Open a WebSocket for commands and events of a thread", &[]),
    ("post", "/runs", "Start a run on a thread of its own", RUN),
    ("post", "/runs/wait", "Start a run on a thread of its own and wait for its values", RUN),
    ("post", "/runs/stream", "Start a run on a thread of its own and stream its events", RUN),
    ("post", "/runs/batch", "Start several runs; the body is a list of requests", &[]),
    ("post", "/runs/cancel", "Cancel several runs", &["thread_id", "run_ids", "status"]),
    ("get", "/runs/{run_id}/stream", "Stream the events of a run that is named by its id alone", &[]),
    ("post", "/chat/{agent}", "Say something to an agent, or answer it, and stream its message; bodies of assistant-ui and of `useChat`, formats by `protocol`", &["messages", "threadId", "id", "trigger", "model"]),
    ("get", "/chat/{agent}/{thread_id}", "List the messages of a thread, without one that is being produced; of the newest turns with `limit`", &[]),
    ("get", "/chat/{agent}/{thread_id}/stream", "Stream the message that is being produced from its beginning; 204 if there is none", &[]),
    ("post", "/chat/{agent}/{thread_id}/cancel", "Cancel the message that is being produced", &[]),
    ("get", "/models", "List the models of which chats select one; the first one is that of the agents", &[]),
    ("get", "/interrupts", "List the open questions of all threads; those that people answered with `answered=true`, of one thread with `thread_id`", &[]),
    ("post", "/interrupts/{interrupt_id}/respond", "Answer a question; the first answer counts", &["type", "args", "message", "answer"]),
    ("get", "/artifacts/{artifact_id}", "Read a value that streams and states have by reference", &[]),
    ("put", "/store/items", "Put an item", &["namespace", "key", "value", "index", "ttl"]),
    ("get", "/store/items", "Read an item, by `namespace` and `key`", &[]),
    ("delete", "/store/items", "Delete an item", &["namespace", "key"]),
    ("post", "/store/items/search", "Find items", &["namespace_prefix", "filter", "query", "limit", "offset"]),
    ("post", "/store/namespaces", "List namespaces", &["prefix", "suffix", "max_depth", "limit", "offset"]),
];

/// Returns the OpenAPI document.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for (method, path, summary, members) in OPERATIONS {
        let parameters: Vec<_> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| {
                let schema = json!({"type": "string"});
                json!({"name": name, "in": "path", "required": true, "schema": schema})
            })
            .collect();
        let mut operation = json!({
            "summary": summary,
            "parameters": parameters,
            "responses": {
                "2XX": {"description": "The request was carried out."},
                "4XX": {"$ref": "#/components/responses/Error"},
                "5XX": {"$ref": "#/components/responses/Error"},
            },
        });
        if !members.is_empty() {
            let members: Map<_, _> =
                members.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            let schema = json!({"type": "object", "properties": members});
            operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        let at = paths.entry(*path).or_insert_with(|| json!({}));
        at[*method] = operation;
    }
    let detail = json!({"type": "object", "required": ["detail"],
        "properties": {"detail": {"type": "string"}}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Weftwork", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "security": [{"token": []}, {"key": []}],
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
            "responses": {"Error": {
                "description": "The request was refused, or failed.",
                "content": {"application/json": {"schema": detail}},
            }},
        },
    })
}

/// Returns a page with the operations. It loads nothing.
pub(crate) fn page() -> String {
    let mut rows = String::new();
    for (method, path, summary, members) in OPERATIONS {
        let method = method.to_uppercase();
        let members = members.join(", ");
        rows += &format!(
            "<tr><td>{method}</td><td><code>{path}</code></td><td>{summary}</td><td>{members}</td></tr>\n"
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Weftwork</title>\n\
         <style>body{{font:15px sans-serif;margin:2em}}td,th{{padding:.2em .8em;text-align:left;\
         vertical-align:top}}</style></head>\n<body><h1>Routes</h1>\n<p>For clients of LangGraph, and for chats. \
         The same as <a href=\"openapi.json\">OpenAPI</a>.</p>\n<table>\n<tr><th>Method</th>\
         <th>Path</th><th>Effect</th><th>Members of the body</th></tr>\n{rows}</table></body></html>\n"
    )
}
