//! Graphs with a node that runs a graph of another server: `remote_parent`, `remote_inter` and
//! `remote_slow`, each the graph of that name between its start and the node `after`.

use crate::graphs::{graph, last};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use weftwork::egress::{EgressConfig, GuardedClient};
use weftwork::graph::{Ctx, DynUpdate, Dynamic, Input, START, State};
use weftwork::remote::{RemoteGraph, RemoteServer};
use weftwork::runtime::RuntimeBuilder;

/// The graphs and their channels.
const GRAPHS: [(&str, &[(&str, &str)]); 3] = [
    ("parent", &[("msg", "string"), ("out", "string"), ("n", "integer")]),
    ("inter", &[("q", "string"), ("answer", "string"), ("note", "string")]),
    ("slow", &[("log", "array"), ("steps", "integer"), ("delay", "number")]),
];

/// Adds the graphs to a runtime. `url` is the address of the other server.
///
/// # Errors
/// The problem of the address or of a graph.
pub(crate) fn host(
    mut builder: RuntimeBuilder,
    url: &str,
) -> Result<RuntimeBuilder, Box<dyn Error>> {
    let allow = vec![url.trim_start_matches("http://").parse()?];
    let egress = GuardedClient::new(EgressConfig { allow, ..EgressConfig::default() })?;
    let server = RemoteServer::new("other", url, Arc::new(egress))?;
    for (name, channels) in GRAPHS {
        let remote = RemoteGraph::new(server.clone(), name);
        let channels = channels.iter().chain([&("after", "string")]);
        let built = graph(name, channels.map(|(name, kind)| last(name, kind)).collect())
            .node("remote", move |Input(input): Input, ctx: Ctx| {
                let remote = remote.clone();
                async move { remote.run(&ctx, input).await }
            })
            .node("after", after)
            .edge(START, "remote")
            .edge("remote", "after")
            .build()?;
        builder = builder.graph(format!("remote_{name}"), built);
    }
    Ok(builder)
}

async fn after(state: State<Dynamic>) -> DynUpdate {
    let text = |name: &str| state.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let shown = text("note").or_else(|| text("out")).unwrap_or_default();
    DynUpdate::new().write("after", json!(format!("after {shown}")))
}
