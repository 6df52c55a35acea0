//! The graph `fan`: as many tasks at once as its state says.

use crate::graphs::{append, graph, last, length, wait};
use serde_json::{Value, json};
use weftwork::graph::{
    Arg, BuildError, CompiledGraph, Ctx, DynUpdate, Dynamic, Next, START, SendTo, State,
};

/// Builds the graph.
///
/// # Errors
/// [`BuildError`] if it is not sound.
pub(crate) fn fan() -> Result<CompiledGraph, BuildError> {
    fn out(state: State<Dynamic>) -> Vec<Next> {
        let n = state.get("n").and_then(|n| n.as_u64()).unwrap_or_default();
        let delay = state.get("delay").unwrap_or_default();
        let task = |index| json!({"index": index, "delay": delay});
        let tasks = (0..n).map(|index| Next::from(SendTo::to("work", task(index))));
        let tasks: Vec<_> = tasks.collect();
        if tasks.is_empty() { vec![Next::node("join")] } else { tasks }
    }
    async fn work(Arg(task): Arg<Value>, ctx: Ctx) -> DynUpdate {
        wait(task["delay"].as_f64(), 0.0, &ctx).await;
        DynUpdate::new().write("items", json!([task["index"]]))
    }
    async fn join(state: State<Dynamic>) -> DynUpdate {
        DynUpdate::new().write("total", json!(length(&state, "items")))
    }
    graph(
        "fan",
        vec![
            append("items"),
            last("n", "integer"),
            last("delay", "number"),
            last("total", "integer"),
        ],
    )
    .node("work", work)
    .node("join", join)
    .route_to(START, ["work", "join"], out)
    .edge("work", "join")
    .build()
}
