//! A graph that runs another one for each item of a list.

use super::member::{MESSAGES, added_work};
use crate::agent::{Agent, AgentKind, Compile};
use crate::error::{AgentError, too_many_items};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Deps, IntoGraph, InvalidGraph, List, Next, NodeResult, START, SendTo,
    State, SubgraphState,
};
use weftwork_types::message::{Message, Role};

/// Maximum number of items of one run.
pub const ITEMS_MAX: usize = 1_000;

/// Default number of items that are worked on at a time.
const CONCURRENCY: usize = 8;

const MAP: &str = "map";
const COLLECT: &str = "collect";

/// The state of a [`ParallelMap`].
#[derive(Debug, State)]
pub struct MapState {
    /// The items, at most [`ITEMS_MAX`].
    #[channel(default)]
    pub items: List<Value>,
    /// Results of the last superstep, in no particular order.
    #[channel(topic)]
    pub mapped: List<Mapped>,
    /// The results, one for each item in the same order.
    #[channel(default)]
    pub results: List<Value>,
}

/// A result with the position of its item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mapped {
    /// Position of the item, from 0.
    pub index: usize,
    /// The result.
    pub result: Value,
}

/// An item as it is sent to its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Item {
    index: usize,
    item: Value,
}

/// A builder of a graph that runs another one for each item of the channel `items`, a limited number
/// at a time, and puts the results into `results` in the order of the items.
///
/// A text given to a graph with a conversation becomes a message of the user, and the result is the
/// text of the last answer. Any other item is the input of the graph, and the result is its output.
/// All items are tasks of one superstep: if some wait for a person, the others run to their results,
/// and a run that continues runs only those that have none.
pub type ParallelMap = Agent<kind::ParallelMap>;

/// Kinds of agents.
pub(crate) mod kind {
    use super::{CompiledGraph, InvalidGraph};

    /// The kind of [`ParallelMap`](crate::ParallelMap).
    #[derive(Debug)]
    pub struct ParallelMap {
        pub(super) graph: Result<CompiledGraph, InvalidGraph>,
        pub(super) concurrency: usize,
    }
}

impl AgentKind for kind::ParallelMap {}

/// The graph that is run for each item.
#[derive(Debug)]
struct Mapping(CompiledGraph);

impl ParallelMap {
    /// Creates a graph that runs another one for each item, at most eight at a time.
    pub fn new(name: impl Into<String>, graph: impl IntoGraph) -> Self {
        let kind = kind::ParallelMap { graph: graph.into_graph(), concurrency: CONCURRENCY };
        let mut agent = Self::of_kind(name, kind);
        // The items are limited.
        agent.options.step_limit = None;
        agent
    }

    /// Sets the number of items that are worked on at a time, at least 1.
    pub fn concurrency(mut self, items: usize) -> Self {
        self.kind.concurrency = items;
        self
    }
}

impl Compile for kind::ParallelMap {
    fn compile(agent: Agent<Self>) -> Result<CompiledGraph, AgentError> {
        let Agent { options, kind } = agent;
        let mapped = kind.graph?;
        let mapping = Mapping(mapped.clone());
        let graph = options
            .graph::<MapState>()
            .with(mapping)
            .node(MAP, run_item)
            .node(COLLECT, collect_results)
            .calls(MAP, mapped, SubgraphState::PerTask)
            .route_to(START, [MAP, COLLECT], move |state: State<MapState>| {
                each_item(&options.name, state.items())
            })
            .edge(MAP, COLLECT)
            .concurrency(kind.concurrency);
        Ok(graph.build()?)
    }
}

fn each_item(name: &str, items: &List<Value>) -> NodeResult<Vec<Next>> {
    if items.len() > ITEMS_MAX {
        return Err(too_many_items(name, items.len(), ITEMS_MAX).into());
    }
    if items.is_empty() {
        return Ok(vec![Next::node(COLLECT)]);
    }
    let items = items.iter().cloned().enumerate();
    Ok(items.map(|(index, item)| SendTo::to(MAP, Item { index, item }).into()).collect())
}

async fn run_item(
    Arg(Item { index, item }): Arg<Item>,
    mapping: Deps<Mapping>,
    ctx: Ctx,
) -> NodeResult<MapStateUpdate> {
    let Mapping(graph) = &*mapping;
    let result = match item {
        Value::String(text) if graph.holds_messages(MESSAGES) => {
            let asked = [Message::text(ctx.message_id(), Role::User, text)];
            let input = json!({ MESSAGES: asked });
            let output = ctx.call(graph, SubgraphState::PerTask, input).await?;
            json!(added_work(output, &asked)?.answer(graph.name())?.joined_text())
        }
        item => ctx.call(graph, SubgraphState::PerTask, item).await?,
    };
    Ok(MapStateUpdate::new().mapped([Mapped { index, result }]))
}

async fn collect_results(state: State<MapState>) -> MapStateUpdate {
    let mut mapped: Vec<Mapped> = state.mapped().into_iter().flatten().cloned().collect();
    mapped.sort_by_key(|one| one.index);
    MapStateUpdate::new().results(mapped.into_iter().map(|one| one.result).collect())
}
