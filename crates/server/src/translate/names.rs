//! Members that LangGraph's server adds to metadata and settings. Clients do not need their values.

use super::ids;
use serde_json::{Map, Value, json};
use weftwork_types::run::RunRef;

/// Version of LangGraph whose behaviour graphs with its semantics have.
pub(crate) const LANGGRAPH: &str = "1.2.22";

/// Adds the members about the server to the metadata of something that a run made.
pub(crate) fn add_server(metadata: &mut Map<String, Value>) {
    for (name, value) in [
        ("run_attempt", json!(1)),
        ("langgraph_version", json!(LANGGRAPH)),
        ("langgraph_api_version", json!(env!("CARGO_PKG_VERSION"))),
        ("langgraph_plan", json!("self-hosted")),
        ("langgraph_host", json!("self-hosted")),
        ("langgraph_api_url", json!("")),
    ] {
        metadata.insert(name.to_owned(), value);
    }
}

/// Returns the named settings of a run, as they are part of the configurations that clients see.
pub(crate) fn configurable(
    run: &RunRef,
    graph: &str,
    assistant: &Value,
    created_ms: i64,
) -> Map<String, Value> {
    let names = json!({
        "langgraph_auth_user": null,
        "langgraph_auth_user_id": "",
        "langgraph_auth_permissions": [],
        "langgraph_request_id": request_of(run),
        "__request_start_time_ms__": created_ms,
        "__after_seconds__": 0,
        "run_id": run.run,
        "thread_id": run.thread,
        "graph_id": graph,
        "assistant_id": assistant,
        "user_id": "",
    });
    match names {
        Value::Object(names) => names,
        _ => Map::new(),
    }
}

/// Returns an id for the request of a run. Requests are not stored; this is derived from the run.
pub(crate) fn request_of(run: &RunRef) -> String {
    ids::derive_uuid(run.run.as_str())
}
