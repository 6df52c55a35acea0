//! The description of the routes: an OpenAPI document, and a page that shows it.

use crate::mounted::MountedOperation;
use crate::operations::{Access, OPERATIONS, Operation, RUN_BODY};
use serde_json::{Map, Value, json};

/// Returns all operations that are described: those of the server, and those of mounted protocols.
fn described(mounted: &[MountedOperation]) -> impl Iterator<Item = Operation> {
    let of_protocol = |of: &MountedOperation| {
        let access = Access::ByBody(of.rights);
        (of.method, of.path, access, of.summary, of.members)
    };
    OPERATIONS.iter().copied().chain(mounted.iter().map(of_protocol))
}

/// Returns the OpenAPI document.
pub(crate) fn document(mounted: &[MountedOperation]) -> Value {
    let mut paths = Map::new();
    for (method, path, access, summary, members) in described(mounted) {
        let rights = access.rights();
        let parameters: Vec<_> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| {
                let schema = json!({"type": "string"});
                json!({"name": name, "in": "path", "required": true, "schema": schema})
            })
            .chain((members == RUN_BODY || path == "/chat/{agent}").then(|| {
                let schema = json!({"type": "string", "maxLength": 255});
                let what = "A repeated request with this key has the run of the first one.";
                json!({"name": "Idempotency-Key", "in": "header", "description": what, "schema": schema})
            }))
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
        // A list of several rights would ask for all of them.
        operation["security"] = match rights {
            [] => json!([]),
            [right] => json!([{"token": [right]}, {"key": [right]}]),
            _ => json!([{"token": []}, {"key": []}]),
        };
        if !members.is_empty() {
            let members: Map<_, _> =
                members.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            let schema = json!({"type": "object", "properties": members});
            operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
        }
        let at = paths.entry(path).or_insert_with(|| json!({}));
        at[method] = operation;
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
pub(crate) fn page(mounted: &[MountedOperation]) -> String {
    let mut rows = String::new();
    for (method, path, access, summary, members) in described(mounted) {
        let method = method.to_uppercase();
        let rights: Vec<_> = access.rights().iter().map(|right| right.name()).collect();
        let rights = rights.join(" or ");
        let members = members.join(", ");
        rows += &format!(
            "<tr><td>{method}</td><td><code>{path}</code></td><td>{summary}</td><td>{rights}</td>\
             <td>{members}</td></tr>\n"
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Weftwork</title>\n\
         <style>body{{font:15px sans-serif;margin:2em}}td,th{{padding:.2em .8em;text-align:left;\
         vertical-align:top}}</style></head>\n<body><h1>Routes</h1>\n<p>For clients of LangGraph, and for chats. \
         The same as <a href=\"openapi.json\">OpenAPI</a>.</p>\n<table>\n<tr><th>Method</th>\
         <th>Path</th><th>Effect</th><th>Right</th>\
         <th>Members of the body</th></tr>\n{rows}</table></body></html>\n"
    )
}
