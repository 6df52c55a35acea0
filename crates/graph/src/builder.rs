//! Building graphs.

mod check;

use crate::compiled::{CompiledGraph, InputCheck, NodeFn, NodeOptions, Parts, RouteFn, Thread};
use crate::error::BuildError;
use crate::extract::Role;
use crate::node::Handler;
use crate::policy::{Cache, Retry, Timeout};
use crate::route::{IntoRoute, RouteHandler};
use crate::schema::Described;
use crate::semantics::{Semantics, SubgraphState};
use crate::state::{ChannelDef, StateSpec};
use serde_json::Value as Json;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use weftwork_engine::plan::PlanBuilder;
use weftwork_engine::{Plan, PlanProblem};
use weftwork_types::code::Fault;
use weftwork_types::port::Dependencies;
use weftwork_types::run::Stops;

/// Default limit of the supersteps of a run. High enough for long agents, low enough to end a loop
/// that never would.
const STEP_LIMIT_DEFAULT: u32 = 10_000;

/// A graph that is being put together.
///
/// # Example
/// ```
/// use weftwork_graph::{END, Graph, List, NodeResult, START, State};
///
/// #[derive(State)]
/// struct Count {
///     #[channel(reduce = |sum, n| sum + n, default)]
///     n: u32,
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// async fn step(state: State<Count>) -> CountUpdate {
///     CountUpdate::new().n(1).log([format!("was {}", state.n())])
/// }
///
/// let graph = Graph::<Count>::new("count")
///     .node("step", step)
///     .edge(START, "step")
///     .edge("step", END)
///     .build()?;
/// assert_eq!(graph.name(), "count");
/// # Ok::<(), weftwork_graph::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Graph<S: StateSpec> {
    name: String,
    version: Option<String>,
    plan: PlanBuilder,
    nodes: BTreeMap<String, NodeFn>,
    routes: BTreeMap<String, Vec<RouteFn>>,
    checks: Vec<Check>,
    deps: Dependencies,
    problems: Vec<PlanProblem>,
    options: Vec<Options>,
    /// Nodes that stops name.
    stops: Vec<(&'static str, String)>,
    step_limit: u32,
    semantics: Semantics,
    before: Stops,
    after: Stops,
    concurrency: Option<usize>,
    described: Vec<Described>,
    input_check: Option<InputCheck>,
    state: PhantomData<fn() -> S>,
}

impl<S: StateSpec> Graph<S> {
    /// An empty graph with the channels of `S`.
    pub fn new(name: impl Into<String>) -> Self {
        Self::over(name, S::channels())
    }

    pub(crate) fn over(name: impl Into<String>, channels: Vec<ChannelDef>) -> Self {
        let mut plan = PlanBuilder::default();
        let mut described = Vec::new();
        for def in channels {
            described.push(def.described);
            plan.channel(def.name, def.channel);
        }
        Self {
            name: name.into(),
            version: None,
            plan,
            nodes: BTreeMap::new(),
            routes: BTreeMap::new(),
            checks: Vec::new(),
            deps: Dependencies::new(),
            problems: Vec::new(),
            options: Vec::new(),
            stops: Vec::new(),
            step_limit: STEP_LIMIT_DEFAULT,
            semantics: Semantics::weft(),
            before: Stops::None,
            after: Stops::None,
            concurrency: None,
            described,
            input_check: None,
            state: PhantomData,
        }
    }

    /// Adds a channel beside those of `S`: nodes read it by [`TaskInput::channel`] and write to it by
    /// [`Ctx::write_also`](crate::Ctx::write_also), in arguments that work with graphs of any state.
    ///
    /// [`TaskInput::channel`]: crate::TaskInput::channel
    pub fn channel(mut self, def: ChannelDef) -> Self {
        self.described.push(def.described);
        self.plan.channel(def.name, def.channel);
        self
    }

    /// Checks the input of hosted runs before anything of them is stored, for example for media that the
    /// model of the graph does not take. Input that the check refuses is as if it was never sent.
    pub fn check_input(
        mut self,
        check: impl Fn(&Json) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Self {
        self.input_check = Some(InputCheck::new(check));
        self
    }

    /// Makes the graph one node that takes the input as it is.
    pub(crate) fn single(mut self) -> Self {
        self.plan.single();
        self
    }

    /// Sets the version that usage facts show. A graph without one has that of the program, from
    /// `RuntimeBuilder::program_version` or the executable; an empty one is none.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into()).filter(|version| !version.is_empty());
        self
    }

    /// Gives the graph something its nodes take as [`Deps`](crate::Deps). A value of the same type
    /// that a run has takes precedence.
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.deps = self.deps.with(value);
        self
    }

    /// Declares a run-scoped dependency: nodes take a [`Deps<T>`](crate::Deps) that each run has of
    /// its own, from the function that the graph is hosted with.
    pub fn with_run_scoped<T: Send + Sync + 'static>(mut self) -> Self {
        self.deps = self.deps.with_run_scoped::<T>();
        self
    }

    /// Adds a node.
    pub fn node<M: 'static>(mut self, name: impl Into<String>, node: impl Handler<M>) -> Self {
        let name = name.into();
        self.plan.node(name.clone());
        let node = NodeFn::new(node);
        self.checks.push(Check { name: name.clone(), node: node.clone(), role: Role::Node });
        self.nodes.insert(name, node);
        self
    }

    /// Adds a graph as a node. The two exchange values by the names of their channels: the graph
    /// gets those that the node reads and that it takes input for, and the node writes those of its
    /// output that are channels here. What else the graph has is its own.
    pub fn subgraph(
        mut self,
        name: impl Into<String>,
        graph: CompiledGraph,
        keep: SubgraphState,
    ) -> Self {
        let name = name.into();
        self.plan.node(name.clone());
        self.nodes.insert(name, crate::subgraph::subgraph_node(graph, keep));
        self
    }

    /// Declares that the code of a node calls a graph, as the first one and with this state
    /// ([`Ctx::call`](crate::Ctx::call)): drawings and views show it like a
    /// [`subgraph`](Self::subgraph). The code converts the values that the two exchange.
    pub fn calls(self, node: impl AsRef<str>, graph: CompiledGraph, keep: SubgraphState) -> Self {
        self.with_options("a called graph", node.as_ref(), move |options| {
            options.graph = Some((graph, keep));
        })
    }

    /// Narrows what a node and its routes read as [`Input`](crate::Input) to these channels.
    pub fn reads<T: Into<String>>(
        mut self,
        node: impl Into<String>,
        channels: impl IntoIterator<Item = T>,
    ) -> Self {
        self.plan.reads(node, channels.into_iter().map(Into::into).collect());
        self
    }

    /// Narrows what input may write to these channels.
    pub fn input<T: Into<String>>(mut self, channels: impl IntoIterator<Item = T>) -> Self {
        self.plan.input(channels.into_iter().map(Into::into).collect());
        self
    }

    /// Narrows the output to these channels.
    pub fn output<T: Into<String>>(mut self, channels: impl IntoIterator<Item = T>) -> Self {
        self.plan.output(channels.into_iter().map(Into::into).collect());
        self
    }

    /// Chooses how the graph behaves where the reference and we differ.
    pub fn semantics(mut self, semantics: Semantics) -> Self {
        self.semantics = semantics;
        self.plan.unknown(semantics.unknown);
        self
    }

    /// Stops runs before these nodes; a run that continues passes them.
    pub fn interrupt_before(mut self, stops: Stops) -> Self {
        self.before = self.known_stops("`interrupt_before`", stops);
        self
    }

    /// Stops runs after these nodes.
    pub fn interrupt_after(mut self, stops: Stops) -> Self {
        self.after = self.known_stops("`interrupt_after`", stops);
        self
    }

    fn known_stops(&mut self, what: &'static str, stops: Stops) -> Stops {
        if let Stops::Nodes(nodes) = &stops {
            self.stops.extend(nodes.iter().map(|node| (what, node.clone())));
        }
        stops
    }

    /// Runs at most this many tasks of a superstep at a time.
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = Some(tasks.max(1));
        self
    }

    /// Runs a node on a pool of threads for code that blocks: that of the tokio runtime, which has
    /// at most 512 threads unless it is built otherwise; further nodes wait for one.
    ///
    /// When the node is cut off, by a timeout or because its run ends, its thread continues until
    /// the code returns or awaits. The result is dropped, and calls, questions and events of the
    /// attempt are refused from then on (W0125); the next attempt may run already.
    pub fn blocking(self, node: impl AsRef<str>) -> Self {
        self.with_options("`blocking`", node.as_ref(), |options| options.thread = Thread::Blocking)
    }

    /// Runs a node on any thread of the runtime, side by side with the other tasks of its
    /// superstep, for code that computes long. Results are applied in the same order as without it.
    /// When the node is cut off, it ends at its next await; until then, what it does is refused as
    /// for [`blocking`](Self::blocking).
    pub fn parallel(self, node: impl AsRef<str>) -> Self {
        self.with_options("`parallel`", node.as_ref(), |options| options.thread = Thread::Parallel)
    }

    /// Uses the result of a node again when it gets the same input, from any thread and run of the
    /// host.
    pub fn cache(self, node: impl AsRef<str>, cache: Cache) -> Self {
        self.with_options("a cache", node.as_ref(), move |options| options.cache = Some(cache))
    }

    /// Lets a node wait until nothing else is due: it runs once, after all branches that lead to
    /// it in whatever number of steps.
    pub fn defer(mut self, node: impl Into<String>) -> Self {
        self.plan.defer(node);
        self
    }

    /// Tries a node again when it fails.
    pub fn retry(self, node: impl AsRef<str>, retry: Retry) -> Self {
        self.with_options("a retry policy", node.as_ref(), move |options| {
            options.retry = Some(retry)
        })
    }

    /// Limits how long an attempt of a node may take.
    pub fn timeout(self, node: impl AsRef<str>, timeout: Timeout) -> Self {
        self.with_options("a timeout", node.as_ref(), move |options| options.timeout = timeout)
    }

    /// Sets a handler that takes over when a node has failed for good, in the same superstep: the
    /// handler's result counts in place of the node's. It takes what nodes take, and
    /// [`Failure`](crate::Failure). The node's edges and routes are not followed; the handler
    /// selects the next nodes with a [`Command`](crate::Command).
    pub fn on_error<M: 'static>(mut self, node: impl AsRef<str>, handler: impl Handler<M>) -> Self {
        let handler = NodeFn::new(handler);
        let name = node.as_ref().to_owned();
        self.checks.push(Check { name, node: handler.clone(), role: Role::Handler });
        self.with_options("an error handler", node.as_ref(), move |options| {
            options.on_error = Some(handler);
        })
    }

    /// Sets a closer for tasks of a node that are left open: new input ends their superstep before
    /// it could be closed, after a question, a cancellation or a failure.
    ///
    /// The results of tasks that had finished are applied before the input. For each other task of
    /// the node the closer runs in its place and reads what is on record: it has the input of the
    /// task, and its questions have the answers that were given. It calls no model and no tool. Its
    /// writes are applied like those of the node; edges, routes and commands are not followed. A
    /// closer that stops at an open question writes nothing. A graph that a closer runs with
    /// [`Ctx::call`](crate::Ctx::call) is not continued: its open superstep is closed in the same
    /// way, and the call returns the state of the graph; it stops the closer if the task has not
    /// begun the graph.
    ///
    /// Without a closer, tasks that are left open are dropped with their results. A
    /// [`subgraph`](Self::subgraph) has a closer if its graph has one.
    pub fn on_left_open<M: 'static>(
        mut self,
        node: impl AsRef<str>,
        closer: impl Handler<M>,
    ) -> Self {
        let closer = NodeFn::new(closer);
        let name = node.as_ref().to_owned();
        self.checks.push(Check { name, node: closer.clone(), role: Role::Closer });
        self.with_options("a closer", node.as_ref(), move |options| {
            options.on_left_open = Some(closer);
        })
    }

    /// Defers options until the graph is built: a node may be added after them.
    fn with_options(
        mut self,
        what: &'static str,
        node: &str,
        change: impl FnOnce(&mut NodeOptions) + Send + Sync + 'static,
    ) -> Self {
        self.options.push(Options { what, node: node.to_owned(), change: Box::new(change) });
        self
    }

    /// Adds an edge: when `from` has finished, `to` is due. From `START`, `to` is due first; an
    /// edge to `END` means that nothing follows.
    pub fn edge(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.plan.edge(from, to);
        self
    }

    /// Adds a node that is due once all of `from` have finished, in whatever steps.
    pub fn join<I, T>(mut self, from: I, to: impl Into<String>) -> Self
    where
        I: IntoIterator<Item = T>,
        T: Into<String>,
    {
        self.plan.join(from.into_iter().map(Into::into).collect(), to);
        self
    }

    /// Adds a route: when `from` has finished, the function selects the next nodes. The targets
    /// come from its type.
    pub fn route<R: IntoRoute + 'static>(
        self,
        from: impl Into<String>,
        route: impl RouteHandler<S, R>,
    ) -> Self {
        let targets = R::targets().iter().map(|t| (*t).to_owned()).collect();
        self.add_route(from.into(), targets, RouteFn::new::<S, R>(route))
    }

    /// Adds a route whose targets are named here, because its type does not list them.
    pub fn route_to<R: IntoRoute + 'static, I, T>(
        self,
        from: impl Into<String>,
        targets: I,
        route: impl RouteHandler<S, R>,
    ) -> Self
    where
        I: IntoIterator<Item = T>,
        T: Into<String>,
    {
        let targets = targets.into_iter().map(Into::into).collect();
        self.add_route(from.into(), targets, RouteFn::new::<S, R>(route))
    }

    /// Declares where the commands of a node may lead, for drawing and checking.
    pub fn ends<I, T>(mut self, from: impl Into<String>, targets: I) -> Self
    where
        I: IntoIterator<Item = T>,
        T: Into<String>,
    {
        self.plan.ends(from, targets.into_iter().map(Into::into).collect());
        self
    }

    /// Sets how many supersteps a run may take; then it ends with the outcome `limit_reached`.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.step_limit = steps;
        self
    }

    fn add_route(mut self, from: String, targets: Vec<String>, route: RouteFn) -> Self {
        self.plan.route(from.clone(), targets);
        self.routes.entry(from).or_default().push(route);
        self
    }

    /// Validates the graph.
    ///
    /// # Errors
    /// [`BuildError`] with every problem there is.
    pub fn build(mut self) -> Result<CompiledGraph, BuildError> {
        self.check();
        let mut problems = self.problems;
        let plan = self.plan.build().unwrap_or_else(|found| {
            problems.splice(0..0, found);
            Plan::default()
        });
        if !problems.is_empty() {
            return Err(BuildError { graph: self.name, problems });
        }
        Ok(CompiledGraph::new(Parts {
            name: self.name,
            version: self.version,
            plan: Arc::new(plan),
            nodes: self.nodes,
            routes: self.routes,
            deps: self.deps,
            step_limit: self.step_limit,
            semantics: self.semantics,
            before: self.before,
            after: self.after,
            concurrency: self.concurrency,
            state: (TypeId::of::<S>(), S::NAME),
            described: self.described,
            input_check: self.input_check,
        }))
    }
}

/// Options of a node, as they were given.
struct Options {
    what: &'static str,
    node: String,
    change: Box<dyn FnOnce(&mut NodeOptions) + Send + Sync>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("what", &self.what).field("node", &self.node).finish()
    }
}

/// A function whose arguments and result are to be checked.
#[derive(Debug)]
struct Check {
    name: String,
    node: NodeFn,
    role: Role,
}
