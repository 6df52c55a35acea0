//! Compiled graphs: validated, with types erased, ready to run.

use crate::extract::{BuildInfo, Role, TaskInput};
use crate::node::Handler;
use crate::output::NodeResult;
use crate::policy::{Cache, Retry, Timeout};
use crate::route::{IntoRoute, RouteHandler};
use crate::schema::{Described, GraphSchemas, Source};
use crate::semantics::{LoopSettings, Semantics, SubgraphState};
use crate::state::{Seen, StateSpec};
use serde_json::Value as Json;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::{Goto, NodeIdx, Plan, TaskOutput};
use weftwork_types::BoxFuture;
use weftwork_types::code::Fault;
use weftwork_types::port::Dependencies;
use weftwork_types::run::{RunOptions, Stops};

/// A graph that can run. Cloning shares it.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{CompiledGraph, END, Graph, START, State};
///
/// #[derive(State)]
/// struct Sum {
///     #[channel(reduce = |sum, n| sum + n)]
///     n: u32,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let double = async |sum: State<Sum>| SumUpdate::new().n(*sum.n());
/// let graph: CompiledGraph = Graph::<Sum>::new("sum")
///     .node("double", double)
///     .edge(START, "double")
///     .edge("double", END)
///     .build()?;
/// let ended = graph.invoke(json!({"n": 21})).await?;
/// assert_eq!(*ended.state::<Sum>()?.n(), 42);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CompiledGraph(Arc<Inner>);

struct Inner {
    name: String,
    version: Option<String>,
    plan: Arc<Plan>,
    nodes: Vec<NodeFn>,
    routes: Vec<Vec<RouteFn>>,
    start_routes: Vec<RouteFn>,
    deps: Dependencies,
    step_limit: u32,
    semantics: Semantics,
    settings: LoopSettings,
    before: Stops,
    after: Stops,
    concurrency: Option<usize>,
    handlers: Vec<Arc<str>>,
    /// The state's type, and its name.
    state: (TypeId, &'static str),
    /// Descriptions of the channels, in their order.
    described: Vec<Described>,
    input_check: Option<InputCheck>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledGraph")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) nodes: BTreeMap<String, NodeFn>,
    pub(crate) routes: BTreeMap<String, Vec<RouteFn>>,
    pub(crate) deps: Dependencies,
    pub(crate) step_limit: u32,
    pub(crate) semantics: Semantics,
    pub(crate) before: Stops,
    pub(crate) after: Stops,
    pub(crate) concurrency: Option<usize>,
    pub(crate) state: (TypeId, &'static str),
    pub(crate) described: Vec<Described>,
    pub(crate) input_check: Option<InputCheck>,
}

/// A check of input, with its type erased.
#[derive(Clone)]
pub(crate) struct InputCheck(Arc<ErasedInputCheck>);

type ErasedInputCheck = dyn Fn(&Json) -> Result<(), Fault> + Send + Sync;

impl InputCheck {
    pub(crate) fn new(check: impl Fn(&Json) -> Result<(), Fault> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }
}

impl std::fmt::Debug for InputCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InputCheck")
    }
}

type ErasedRun = dyn Fn(&TaskInput<'_>) -> BoxFuture<'static, NodeResult<TaskOutput>> + Send + Sync;
type ErasedCheck = dyn Fn(&BuildInfo<'_>) -> Checked + Send + Sync;
type ErasedRoute = dyn Fn(Seen<'_>) -> NodeResult<Vec<Goto>> + Send + Sync;

/// Result of checking a node's types against its graph.
pub(crate) struct Checked {
    /// Mismatches with the graph, each with its fix.
    pub(crate) misfits: Vec<(String, String)>,
    /// The channels it reads, when it reads only some.
    pub(crate) reads: Option<Vec<&'static str>>,
}

/// A node with its types erased.
#[derive(Clone)]
pub(crate) struct NodeFn {
    run: Arc<ErasedRun>,
    check: Arc<ErasedCheck>,
    pub(crate) options: Arc<NodeOptions>,
}

/// Settings under which a node runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeOptions {
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Timeout,
    pub(crate) on_error: Option<NodeFn>,
    pub(crate) on_left_open: Option<NodeFn>,
    pub(crate) cache: Option<Cache>,
    pub(crate) thread: Thread,
    /// The graph that the node runs.
    pub(crate) graph: Option<(CompiledGraph, SubgraphState)>,
}

/// The thread on which a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Thread {
    /// The run's own.
    #[default]
    Run,
    /// A thread of the pool for blocking code.
    Blocking,
    /// Any of the runtime's, side by side with the others.
    Parallel,
}

impl NodeOptions {
    /// The graph that the node runs, if it stores checkpoints.
    pub(crate) fn stored_subgraph(&self) -> Option<&(CompiledGraph, SubgraphState)> {
        self.graph.as_ref().filter(|(_, keep)| *keep != SubgraphState::Stateless)
    }

    /// Returns `true` if an attempt is a single call on the run's own thread.
    pub(crate) fn is_plain(&self) -> bool {
        let limits = self.timeout.run.is_some() || self.timeout.idle.is_some();
        self.retry.is_none() && !limits && self.thread == Thread::Run
    }
}

impl NodeFn {
    pub(crate) fn new<M: 'static>(handler: impl Handler<M>) -> Self {
        let handler = Arc::new(handler);
        let checked = Arc::clone(&handler);
        Self {
            run: Arc::new(move |input| handler.call(input)),
            check: Arc::new(move |info| Checked {
                misfits: checked.check(info),
                reads: checked.reads(),
            }),
            options: Arc::default(),
        }
    }

    pub(crate) fn call(&self, input: &TaskInput<'_>) -> BoxFuture<'static, NodeResult<TaskOutput>> {
        (self.run)(input)
    }

    pub(crate) fn check(&self, info: &BuildInfo<'_>) -> Checked {
        (self.check)(info)
    }
}

impl std::fmt::Debug for NodeFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeFn")
    }
}

/// A route with its types erased.
#[derive(Clone)]
pub(crate) struct RouteFn(Arc<ErasedRoute>);

impl RouteFn {
    pub(crate) fn new<S: StateSpec, R: IntoRoute + 'static>(
        route: impl RouteHandler<S, R>,
    ) -> Self {
        Self(Arc::new(move |seen| route.choose(seen)))
    }

    pub(crate) fn choose(&self, seen: Seen<'_>) -> NodeResult<Vec<Goto>> {
        (self.0)(seen)
    }
}

impl std::fmt::Debug for RouteFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RouteFn")
    }
}

impl CompiledGraph {
    pub(crate) fn new(mut parts: Parts) -> Self {
        let names: Vec<String> = parts.plan.nodes().iter().map(|n| n.name.to_string()).collect();
        Self(Arc::new(Inner {
            nodes: names.iter().filter_map(|name| parts.nodes.remove(name)).collect(),
            routes: names.iter().map(|n| parts.routes.remove(n).unwrap_or_default()).collect(),
            start_routes: parts.routes.remove(weftwork_engine::plan::START).unwrap_or_default(),
            name: parts.name,
            version: parts.version,
            plan: parts.plan,
            deps: parts.deps,
            step_limit: parts.step_limit,
            semantics: parts.semantics,
            settings: LoopSettings::new(parts.semantics),
            before: parts.before,
            after: parts.after,
            concurrency: parts.concurrency,
            state: parts.state,
            described: parts.described,
            input_check: parts.input_check,
            handlers: names.iter().map(|n| format!("__error_handler__{n}").into()).collect(),
        }))
    }

    /// Checks the input of a run, as the graph was built with.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_input(&self, input: &Json) -> Result<(), Fault> {
        match &self.0.input_check {
            Some(InputCheck(check)) => check(input),
            None => Ok(()),
        }
    }

    /// The graph's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The graph's own version, if it was built with one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.0.version.as_deref()
    }

    /// The graph's topology.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.0.plan
    }

    /// Returns the graphs that nodes run, with the names of the nodes.
    pub fn subgraphs(&self) -> impl Iterator<Item = (&str, &Self)> {
        let nodes = self.0.plan.nodes().iter().zip(&self.0.nodes);
        nodes.filter_map(|(node, run)| {
            run.options.graph.as_ref().map(|(graph, _)| (&*node.name, graph))
        })
    }

    /// Returns the first channel that receives errors, as declared by `#[channel(error)]` or
    /// [`ChannelDef::of_errors`](crate::ChannelDef::of_errors).
    #[must_use]
    pub fn error_channel(&self) -> Option<&str> {
        let mut channels = self.0.plan.channel_names().zip(&self.0.described);
        channels.find(|(_, described)| described.of_errors).map(|(name, _)| name)
    }

    /// Returns the JSON Schemas of the graph, made from the types of its state.
    #[must_use]
    pub fn schemas(&self) -> GraphSchemas {
        let name = self.name();
        let plan = self.plan();
        Source { name, plan, described: &self.0.described }.schemas()
    }

    /// Returns `true` if a channel of this name holds the messages of a conversation.
    #[must_use]
    pub fn holds_messages(&self, channel: &str) -> bool {
        self.0.plan.is_conversation(self.0.plan.channel_idx(channel))
    }

    /// Returns `true` if the graph's state is `S`.
    pub(crate) fn is_over<S: StateSpec>(&self) -> bool {
        self.0.state.0 == TypeId::of::<S>()
    }

    /// Returns the facts about the graph that node types are checked against.
    pub(crate) fn info(&self) -> BuildInfo<'_> {
        let (state, state_name) = self.0.state;
        BuildInfo { state, state_name, deps: &self.0.deps, role: Role::Node, led_to: None }
    }

    pub(crate) fn node(&self, index: NodeIdx) -> Option<&NodeFn> {
        self.0.nodes.get(index.0)
    }

    /// Returns `true` if tasks of some node are closed when they are left open.
    #[must_use]
    pub fn has_closers(&self) -> bool {
        self.0.nodes.iter().any(|node| node.options.on_left_open.is_some())
    }

    /// The name under which a node's error handler runs.
    pub(crate) fn handler_name(&self, index: NodeIdx) -> Option<&Arc<str>> {
        self.0.handlers.get(index.0)
    }

    /// Semantics of the graph where LangGraph behaves differently.
    #[must_use]
    pub fn semantics(&self) -> Semantics {
        self.0.semantics
    }

    /// Settings of its loops, derived from its semantics.
    pub(crate) fn settings(&self) -> &LoopSettings {
        &self.0.settings
    }

    /// Returns `true` if runs with these options stop before or after nodes.
    #[must_use]
    pub fn stops(&self, options: &RunOptions) -> bool {
        let before = options.interrupt_before.as_ref().unwrap_or(&self.0.before);
        let after = options.interrupt_after.as_ref().unwrap_or(&self.0.after);
        !(before.is_none() && after.is_none())
    }

    pub(crate) fn before(&self) -> &Stops {
        &self.0.before
    }

    pub(crate) fn after(&self) -> &Stops {
        &self.0.after
    }

    pub(crate) fn concurrency(&self) -> Option<usize> {
        self.0.concurrency
    }

    pub(crate) fn routes(&self, index: NodeIdx) -> &[RouteFn] {
        if index == NodeIdx::START {
            return &self.0.start_routes;
        }
        self.0.routes.get(index.0).map_or(&[], Vec::as_slice)
    }

    /// Returns the values that the graph was built with, and its declarations of those that each
    /// run has.
    #[must_use]
    pub fn dependencies(&self) -> &Dependencies {
        &self.0.deps
    }

    pub(crate) fn step_limit(&self) -> u32 {
        self.0.step_limit
    }
}
