//! States that are only known when the program runs: channels by name, values as JSON.

use crate::builder::Graph;
use crate::output::{IntoOutput, NodeResult};
use crate::run_loop::values::read_json;
use crate::state::{ChannelDef, Members, Seen, StateSpec};
use serde_json::Value;
use std::sync::Arc;
use weftwork_engine::{NodeIdx, Plan, Slots, TaskOutput, Write};

/// A state whose channels are given when the graph is put together.
///
/// # Example
/// ```
/// use serde_json::{Value, json};
/// use weftwork_graph::channel::{Append, LastValue};
/// use weftwork_graph::{ChannelDef, DynUpdate, Dynamic, Graph, START, State};
///
/// async fn greet(state: State<Dynamic>) -> DynUpdate {
///     let name = state.get("name").unwrap_or_default();
///     DynUpdate::new().write("log", json!([format!("hello {name}")]))
/// }
///
/// let channels = vec![
///     ChannelDef::new("name", LastValue::<Value>::new()),
///     ChannelDef::new("log", Append::<Value>::new()),
/// ];
/// let graph = Graph::dynamic("greeter", channels)
///     .node("greet", greet)
///     .edge(START, "greet")
///     .build()?;
/// assert!(graph.mermaid().contains("greet"));
/// # Ok::<(), weftwork_graph::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Dynamic;

impl Graph<Dynamic> {
    /// An empty graph with these channels.
    pub fn dynamic(name: impl Into<String>, channels: Vec<ChannelDef>) -> Self {
        Self::over(name, channels)
    }
}

impl StateSpec for Dynamic {
    const NAME: &'static str = "Dynamic";
    type View = DynView;
    type Update = DynUpdate;

    fn channels() -> Vec<ChannelDef> {
        Vec::new()
    }

    fn view(slots: Slots, plan: &Arc<Plan>) -> DynView {
        DynView { slots, plan: Arc::clone(plan), node: NodeIdx::START, returned: None }
    }

    fn view_of(seen: Seen<'_>) -> DynView {
        DynView {
            slots: seen.slots,
            plan: Arc::clone(seen.plan),
            node: seen.node,
            returned: seen.returned.cloned(),
        }
    }

    fn into_update(self) -> DynUpdate {
        DynUpdate::new()
    }
}

/// View of a [`Dynamic`] state that nodes read.
#[derive(Debug, Clone)]
pub struct DynView {
    slots: Slots,
    plan: Arc<Plan>,
    node: NodeIdx,
    /// For a route: what its node returned.
    returned: Option<Arc<Members>>,
}

impl DynView {
    /// The value of a channel as JSON; `None` when it has none, or there is no such channel.
    #[must_use]
    pub fn get(&self, channel: &str) -> Option<Value> {
        self.plan.channel_json(&self.slots, channel)
    }

    /// The channels the node may read and that have a value, as an object. A route also finds what
    /// its node returned beside them, as it was returned.
    #[must_use]
    pub fn object(&self) -> Value {
        let read = read_json(&self.plan, &self.slots, self.node);
        match (&self.returned, read) {
            (Some(returned), Value::Object(read)) => {
                let mut all = Members::clone(returned);
                all.extend(read);
                Value::Object(all)
            }
            (_, read) => read,
        }
    }

    /// The names of the channels, in order.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.plan.channel_names()
    }
}

/// Update that a node writes to a [`Dynamic`] state.
#[derive(Debug, Default)]
#[must_use]
pub struct DynUpdate(TaskOutput);

impl DynUpdate {
    /// An update that writes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes to a channel. A name the graph does not have fails the task.
    pub fn write(mut self, channel: impl Into<String>, value: Value) -> Self {
        self.0.named.push((channel.into(), Write::json(value)));
        self
    }

    /// Replaces a channel's value, whatever its reducer. The other writes of the superstep to that
    /// channel are dropped; two replacements in one superstep are an error.
    pub fn overwrite(mut self, channel: impl Into<String>, value: Value) -> Self {
        self.0.named.push((channel.into(), Write::overwrite(value)));
        self
    }
}

impl IntoOutput for DynUpdate {
    fn into_output(self) -> NodeResult<TaskOutput> {
        Ok(self.0)
    }
}
