//! The context that tools get from the runs of their graphs.

use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::graph::SystemClock;
use weftwork::graph::{Host, Start};
use weftwork::prelude::*;
use weftwork::store::{ItemRef, ItemStore, MemoryItems, Namespace, PutOptions, Ttl};
use weftwork::types::Principal;

fn wishes(key: &str) -> ItemRef {
    let namespace = Namespace::new(["wishes"]).expect("a namespace");
    ItemRef::new(namespace, key).expect("a key")
}

/// Notes a wish for later conversations.
#[tool(effect = state_change, on_unknown = idempotent, shown(thread, run, by))]
async fn note_wish(wish: String, context: ToolContext) -> Result<Value, ToolError> {
    let Some(items) = context.items() else {
        return Err(ToolError::unavailable("there is no item store"));
    };
    let at = wishes(context.thread().as_str());
    items.put(context.principal(), &at, json!({"wish": wish}), PutOptions::default()).await?;
    let run = context.run().map(ToString::to_string);
    Ok(json!({"thread": context.thread(), "run": run, "by": context.principal().subject}))
}

#[derive(Debug, State)]
struct Talk {
    /// `true` if the node has an item store.
    has_items: bool,
    noted: Value,
}

async fn listen(ctx: Ctx, tools: Tools) -> NodeResult<TalkUpdate> {
    let noted = match tools.call("note_wish", json!({"wish": "a lamp"})).await {
        Err(ToolCallError::Failed(failure)) => json!(failure.safe_message),
        other => other?.value,
    };
    Ok(TalkUpdate::new().has_items(ctx.items().is_some()).noted(noted))
}

fn graph() -> CompiledGraph {
    let policy = Policy::builder().allow("note_wish").build().expect("a policy");
    let tools = ToolRunner::new(ToolBox::new().with(note_wish), policy).expect("tools");
    let graph = Graph::<Talk>::new("talk").with(tools);
    graph.node("listen", listen).edge(START, "listen").build().expect("sound")
}

#[tokio::test]
async fn a_tool_gets_the_item_store_of_its_runtime() {
    let items: Arc<dyn ItemStore> = Arc::new(MemoryItems::new(Arc::new(SystemClock::new())));
    let runtime = Runtime::in_memory().graph("talk", graph()).items(Arc::clone(&items));
    let runtime = runtime.open().await.expect("opens");
    let thread = runtime.thread("talk", "t-1").expect("an id");
    let ended = thread.start(json!({})).await.expect("runs");
    let output = ended.output().expect("completed");
    assert_eq!(output["has_items"], true);
    let run = ended.run().run.as_str();
    assert_eq!(output["noted"], json!({"thread": "t-1", "run": run, "by": "local"}));
    let found = items.get(&Principal::local(), &wishes("t-1"), Ttl::Keep).await.expect("reads");
    assert_eq!(found.expect("the item").value, json!({"wish": "a lamp"}));
}

#[tokio::test]
async fn a_tool_has_an_item_store_where_a_node_has_one() {
    let items: Arc<dyn ItemStore> = Arc::new(MemoryItems::new(Arc::new(SystemClock::new())));
    for (host, has_items) in [(Host::new(), false), (Host::new().with_items(items), true)] {
        let outcome = graph().run(&host, Start::Input(json!({}))).outcome().await.expect("runs");
        let output = outcome.output().expect("completed");
        assert_eq!(output["has_items"], has_items);
        let is_refused = output["noted"] == "there is no item store";
        assert_eq!(is_refused, !has_items, "{output}");
    }
}
