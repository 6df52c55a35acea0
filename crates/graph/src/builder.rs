//! Building graphs.

use crate::compiled::{CompiledGraph, NodeFn, NodeOptions, Parts, RouteFn};
use crate::extract::{BuildInfo, DepMap};
use crate::node::Handler;
use crate::policy::{Retry, Timeout};
use crate::route::{IntoRoute, RouteHandler};
use crate::state::{ChannelDef, StateSpec};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use weftwork_engine::ids::did_you_mean;
use weftwork_engine::plan::PlanBuilder;
use weftwork_engine::{Plan, PlanProblem};
use weftwork_types::ErrorCode;

/// Supersteps a run may take when nothing else is said. High enough for long agents, low enough to
/// end a loop that never would.
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
    version: String,
    plan: PlanBuilder,
    nodes: BTreeMap<String, NodeFn>,
    routes: BTreeMap<String, Vec<RouteFn>>,
    checks: Vec<(String, NodeFn)>,
    deps: DepMap,
    problems: Vec<PlanProblem>,
    step_limit: u32,
    state: PhantomData<fn() -> S>,
}

/// Everything that is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("graph `{graph}` cannot be built:{}", list(problems))]
pub struct BuildError {
    /// The graph.
    pub graph: String,
    /// The problems.
    pub problems: Vec<PlanProblem>,
}

impl BuildError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode("W0101")
    }
}

fn list(problems: &[PlanProblem]) -> String {
    problems.iter().map(|p| format!("\n  - {p}")).collect()
}

impl<S: StateSpec> Graph<S> {
    /// An empty graph with the channels of `S`.
    pub fn new(name: impl Into<String>) -> Self {
        Self::over(name, S::channels())
    }

    pub(crate) fn over(name: impl Into<String>, channels: Vec<ChannelDef>) -> Self {
        let mut plan = PlanBuilder::default();
        for def in channels {
            plan.channel(def.name, def.channel);
        }
        Self {
            name: name.into(),
            version: "0".to_owned(),
            plan,
            nodes: BTreeMap::new(),
            routes: BTreeMap::new(),
            checks: Vec::new(),
            deps: DepMap::default(),
            problems: Vec::new(),
            step_limit: STEP_LIMIT_DEFAULT,
            state: PhantomData,
        }
    }

    /// Names the version that stands in usage facts: a git SHA at build, say.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Gives the graph something its nodes take as [`Deps`](crate::Deps).
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.deps.insert(value);
        self
    }

    /// Adds a node.
    pub fn node<M: 'static>(mut self, name: impl Into<String>, node: impl Handler<M>) -> Self {
        let name = name.into();
        self.plan.node(name.clone());
        let node = NodeFn::new(node);
        self.checks.push((name.clone(), node.clone()));
        self.nodes.insert(name, node);
        self
    }

    /// Lets a node wait until nothing else is due: it runs once, after all branches that lead to
    /// it in whatever number of steps.
    pub fn defer(mut self, node: impl Into<String>) -> Self {
        self.plan.defer(node);
        self
    }

    /// Tries a node again when it fails.
    pub fn retry(self, node: impl AsRef<str>, retry: Retry) -> Self {
        self.with_options("a retry policy", node.as_ref(), |options| options.retry = Some(retry))
    }

    /// Limits how long an attempt of a node may take.
    pub fn timeout(self, node: impl AsRef<str>, timeout: Timeout) -> Self {
        self.with_options("a timeout", node.as_ref(), |options| options.timeout = timeout)
    }

    /// Lets a handler take over when a node has failed for good, in the same superstep: what it
    /// returns counts in place of the node's result. It takes what nodes take, and
    /// [`Failure`](crate::Failure). The node's edges and routes are not followed; the handler says
    /// where to go on with a [`Command`](crate::Command).
    pub fn on_error<M: 'static>(mut self, node: impl AsRef<str>, handler: impl Handler<M>) -> Self {
        let handler = NodeFn::new(handler);
        self.checks.push((format!("{} (on error)", node.as_ref()), handler.clone()));
        self.with_options("an error handler", node.as_ref(), |options| {
            options.on_error = Some(handler);
        })
    }

    fn with_options(
        mut self,
        what: &str,
        node: &str,
        change: impl FnOnce(&mut NodeOptions),
    ) -> Self {
        match self.nodes.get_mut(node) {
            Some(found) => change(Arc::make_mut(&mut found.options)),
            None => {
                let did_you_mean = did_you_mean(node, self.nodes.keys().map(String::as_str));
                self.problems.push(PlanProblem::UnknownNode {
                    what: what.to_owned(),
                    name: node.to_owned(),
                    did_you_mean,
                });
            }
        }
        self
    }

    /// Adds an edge: when `from` has finished, `to` is due. From `START`, `to` is due first; an
    /// edge to `END` says that nothing follows.
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

    /// Adds a route: when `from` has finished, the function says where to go on. The targets come
    /// from its type.
    pub fn route<R: IntoRoute + 'static>(
        self,
        from: impl Into<String>,
        route: impl RouteHandler<S, R>,
    ) -> Self {
        let targets = R::targets().iter().map(|t| (*t).to_owned()).collect();
        self.add_route(from.into(), targets, RouteFn::new::<S, R>(route))
    }

    /// Adds a route whose targets are named here, because its type does not tell them.
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
        self.plan.route(from, targets.into_iter().map(Into::into).collect());
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
    pub fn build(self) -> Result<CompiledGraph, BuildError> {
        let info = BuildInfo { state: TypeId::of::<S>(), state_name: S::NAME, deps: &self.deps };
        let mut problems = self.problems;
        for (name, node) in &self.checks {
            problems.extend(
                node.check(&info).into_iter().map(|(what, fix)| PlanProblem::BadExtractor {
                    node: name.clone(),
                    what,
                    fix,
                }),
            );
        }
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
        }))
    }
}
