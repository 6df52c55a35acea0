//! Graphs of a spec, and its functional form.

use super::cursor::Cursor;
use super::op::{self, CLASSES, Op};
use crate::SpecError;
use crate::expr::Expr;
use std::time::Duration;

/// A graph, of the spec or below a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct GraphSpec {
    pub(crate) state: Vec<(String, Reducer)>,
    pub(crate) input: Option<Vec<String>>,
    pub(crate) output: Option<Vec<String>>,
    pub(crate) nodes: Vec<(String, NodeSpec)>,
    pub(crate) edges: Vec<(Source, String)>,
    pub(crate) branches: Vec<BranchSpec>,
    pub(crate) interrupt_before: Option<StopsSpec>,
    pub(crate) interrupt_after: Option<StopsSpec>,
}

impl GraphSpec {
    /// `true` if a subgraph stores its own state.
    pub(super) fn has_own_graphs(&self) -> bool {
        self.nodes.iter().any(|(_, node)| node.has_own_graphs())
    }

    /// `true` if a node, itself or in a subgraph, has such a property.
    pub(super) fn any_node_spec(&self, wanted: fn(&NodeSpec) -> bool) -> bool {
        let within = |node: &NodeSpec| {
            let graphs = [&node.sub, &node.call_sub];
            graphs.into_iter().flatten().any(|graph| graph.any_node_spec(wanted))
        };
        self.nodes.iter().any(|(_, node)| wanted(node) || within(node))
    }

    /// `true` if it has a channel with such a reducer, itself or in a subgraph.
    pub(super) fn has_reducer(&self, wanted: fn(&Reducer) -> bool) -> bool {
        let within = |node: &NodeSpec| {
            let graphs = [&node.sub, &node.call_sub];
            graphs.into_iter().flatten().any(|graph| graph.has_reducer(wanted))
        };
        self.state.iter().any(|(_, reducer)| wanted(reducer))
            || self.nodes.iter().any(|(_, node)| within(node))
    }
}

impl GraphSpec {
    /// `true` if a subgraph stops before or after nodes.
    pub(super) fn has_inner_stops(&self) -> bool {
        let stops = |graph: &Self| {
            let both = [&graph.interrupt_before, &graph.interrupt_after];
            both.into_iter().flatten().any(|stops| !stops.is_empty()) || graph.has_inner_stops()
        };
        self.nodes.iter().flat_map(|(_, node)| node.graphs()).any(stops)
    }

    /// `true` if the ops of a node are such, here or in a subgraph.
    pub(super) fn any_node(&self, wanted: &dyn Fn(&[Op]) -> bool) -> bool {
        self.nodes.iter().any(|(_, node)| node.any_node(wanted))
    }
}

impl FlowSpec {
    /// `true` if the ops of the entry point or of a task are such.
    pub(super) fn any_node(&self, wanted: &dyn Fn(&[Op]) -> bool) -> bool {
        let tasks = self.tasks.iter().map(|(_, task)| task);
        tasks.chain([&self.entry]).any(|node| node.any_node(wanted))
    }
}

impl NodeSpec {
    fn graphs(&self) -> impl Iterator<Item = &GraphSpec> {
        [&self.sub, &self.call_sub].into_iter().flatten().map(AsRef::as_ref)
    }

    fn any_node(&self, wanted: &dyn Fn(&[Op]) -> bool) -> bool {
        wanted(&self.ops)
            || self.on_error.as_ref().is_some_and(|ops| wanted(ops))
            || self.graphs().any(|graph| graph.any_node(wanted))
    }

    fn has_own_graphs(&self) -> bool {
        let mut within = [&self.sub, &self.call_sub].into_iter().flatten();
        let own = self.persist == Persist::Own;
        within.any(|graph| own || graph.has_own_graphs())
    }
}

impl FlowSpec {
    pub(super) fn has_own_graphs(&self) -> bool {
        let tasks = self.tasks.iter().map(|(_, task)| task);
        tasks.chain([&self.entry]).any(NodeSpec::has_own_graphs)
    }
}

/// The reducer of a key of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reducer {
    Last,
    Any,
    Add,
    Append,
    Or,
    Max,
    Untracked,
    Ephemeral,
    Topic,
    TopicAccumulating,
    /// A list that is stored as changes, and whole after so many updates.
    Delta(u32),
    Messages,
    LastStep,
    Remaining,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NodeSpec {
    pub(crate) ops: Vec<Op>,
    pub(crate) reads: Option<Vec<String>>,
    pub(crate) defer: bool,
    pub(crate) policies: Policies,
    pub(crate) on_error: Option<Vec<Op>>,
    pub(crate) ends: Option<Vec<String>>,
    pub(crate) sub: Option<Box<GraphSpec>>,
    pub(crate) call_sub: Option<Box<GraphSpec>>,
    pub(crate) persist: Persist,
}

/// The retry, cache and timeout policies of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Policies {
    pub(crate) retry: Option<RetrySpec>,
    pub(crate) cache: Option<CacheSpec>,
    pub(crate) timeout: Option<TimeoutSpec>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RetrySpec {
    pub(crate) max_attempts: u32,
    /// A class; without one, the reference's default.
    pub(crate) on: Option<String>,
    pub(crate) factor: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CacheSpec {
    Forever,
    For(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TimeoutSpec {
    pub(crate) run: Option<Duration>,
    pub(crate) idle: Option<Duration>,
}

/// The persistence of a subgraph's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Persist {
    #[default]
    Inherit,
    Own,
    Never,
}

/// Source of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Node(String),
    All(Vec<String>),
}

/// A conditional edge.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BranchSpec {
    pub(crate) from: String,
    pub(crate) to: Expr,
    pub(crate) map: BranchMap,
    pub(crate) name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BranchMap {
    Anywhere,
    Nodes(Vec<String>),
    Labels(Vec<(String, String)>),
}

/// Nodes at which to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StopsSpec {
    All,
    Nodes(Vec<String>),
}

impl StopsSpec {
    /// `true` if it has no stops.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Nodes(nodes) if nodes.is_empty())
    }
}

/// The functional form: tasks, and what calls them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlowSpec {
    pub(crate) tasks: Vec<(String, NodeSpec)>,
    pub(crate) entry: NodeSpec,
}

pub(super) fn graph(at: Cursor<'_>) -> Result<GraphSpec, SpecError> {
    Ok(GraphSpec {
        state: at.member("state")?.members(|_, reducer| Reducer::read(reducer))?,
        input: at.maybe("input", |keys| keys.texts())?,
        output: at.maybe("output", |keys| keys.texts())?,
        nodes: at.member("nodes")?.members(|_, at| node(at))?,
        edges: at.maybe("edges", |edges| edges.each(edge))?.unwrap_or_default(),
        branches: at.maybe("branches", |all| all.each(branch))?.unwrap_or_default(),
        interrupt_before: at.maybe("interrupt_before", stops)?,
        interrupt_after: at.maybe("interrupt_after", stops)?,
    })
}

pub(super) fn flow(at: Cursor<'_>) -> Result<FlowSpec, SpecError> {
    let tasks = at.maybe("tasks", |tasks| tasks.members(|_, at| node(at)))?;
    Ok(FlowSpec { tasks: tasks.unwrap_or_default(), entry: node(at.member("entry")?)? })
}

pub(super) fn stops(at: Cursor<'_>) -> Result<StopsSpec, SpecError> {
    if at.json.as_str() == Some("*") {
        return Ok(StopsSpec::All);
    }
    at.texts().map(StopsSpec::Nodes).map_err(|_| at.expected("`*` or a list of nodes"))
}

impl Reducer {
    /// Updates after which a list stored as changes is stored whole.
    const SNAPSHOT_AFTER: u32 = 100;

    fn read(at: Cursor<'_>) -> Result<Self, SpecError> {
        let name = at.text()?;
        Ok(match name.as_str() {
            "last" => Self::Last,
            "any" => Self::Any,
            "add" => Self::Add,
            "append" => Self::Append,
            "or" => Self::Or,
            "max" => Self::Max,
            "untracked" => Self::Untracked,
            "ephemeral" => Self::Ephemeral,
            "topic" => Self::Topic,
            "topic_acc" => Self::TopicAccumulating,
            "delta" => Self::Delta(Self::SNAPSHOT_AFTER),
            "messages" => Self::Messages,
            "last_step" => Self::LastStep,
            "remaining" => Self::Remaining,
            other => {
                let after = other.strip_prefix("delta:").and_then(|after| after.parse().ok());
                Self::Delta(after.filter(|after| *after > 0).ok_or_else(|| {
                    at.expected("a reducer, such as `last`, `append` or `delta:3`")
                })?)
            }
        })
    }

    /// `true` if the run supplies the value and no node writes it.
    pub(crate) fn is_managed(self) -> bool {
        matches!(self, Self::LastStep | Self::Remaining)
    }

    /// `true` if an overwrite replaces the value; other reducers treat it as an ordinary value.
    pub(crate) fn knows_overwrites(self) -> bool {
        matches!(
            self,
            Self::Add | Self::Append | Self::Or | Self::Max | Self::Delta(_) | Self::Messages
        )
    }
}

fn node(at: Cursor<'_>) -> Result<NodeSpec, SpecError> {
    at.object()?;
    let inner = |at: Cursor<'_>| graph(at).map(Box::new);
    Ok(NodeSpec {
        ops: at.maybe("do", op::read_all)?.unwrap_or_default(),
        reads: at.maybe("in", |keys| keys.texts())?,
        defer: at.maybe("defer", |defer| defer.flag())?.unwrap_or_default(),
        policies: Policies {
            retry: at.maybe("retry", retry)?,
            cache: at.maybe("cache", cache)?,
            timeout: at.maybe("timeout", timeout)?.flatten(),
        },
        on_error: at.maybe("on_error", op::read_all)?,
        ends: at.maybe("ends", |ends| ends.texts())?,
        sub: at.maybe("sub", inner)?,
        call_sub: at.maybe("call_sub", inner)?,
        persist: at.maybe("persist", persist)?.unwrap_or_default(),
    })
}

fn persist(at: Cursor<'_>) -> Result<Persist, SpecError> {
    if at.json.is_null() {
        return Ok(Persist::Inherit);
    }
    Ok(if at.flag()? { Persist::Own } else { Persist::Never })
}

fn retry(at: Cursor<'_>) -> Result<RetrySpec, SpecError> {
    at.object()?;
    let on = at.maybe("retry_on", |on| {
        let class = on.text()?;
        let known = CLASSES.contains(&class.as_str());
        if known { Ok(class) } else { Err(on.expected(format!("one of {}", CLASSES.join(", ")))) }
    })?;
    let factor = at.maybe("backoff_factor", |factor| {
        let found = factor.json.as_f64().filter(|factor| *factor >= 0.0);
        found.ok_or_else(|| factor.expected("a number from 0"))
    })?;
    Ok(RetrySpec {
        max_attempts: at.maybe("max_attempts", |max| max.small())?.unwrap_or(3),
        on,
        factor: factor.unwrap_or(2.0),
    })
}

fn cache(at: Cursor<'_>) -> Result<CacheSpec, SpecError> {
    match at.json.as_bool() {
        Some(true) => Ok(CacheSpec::Forever),
        _ => at.seconds().map(CacheSpec::For).map_err(|_| at.expected("true or seconds")),
    }
}

fn timeout(at: Cursor<'_>) -> Result<Option<TimeoutSpec>, SpecError> {
    if at.json.is_null() {
        return Ok(None);
    }
    if at.json.is_number() {
        return Ok(Some(TimeoutSpec { run: Some(at.seconds()?), idle: None }));
    }
    let part = |name| {
        at.maybe(name, |at| if at.json.is_null() { Ok(None) } else { at.seconds().map(Some) })
    };
    at.object()?;
    let found =
        TimeoutSpec { run: part("run_timeout")?.flatten(), idle: part("idle_timeout")?.flatten() };
    Ok(Some(found))
}

fn edge(at: Cursor<'_>) -> Result<(Source, String), SpecError> {
    let from = at.item(0)?;
    let source = match from.json.as_str() {
        Some(name) => Source::Node(name.to_owned()),
        None => Source::All(from.texts()?),
    };
    Ok((source, at.item(1)?.text()?))
}

fn branch(at: Cursor<'_>) -> Result<BranchSpec, SpecError> {
    let map = at.maybe("map", |map| {
        if map.json.is_null() {
            return Ok(BranchMap::Anywhere);
        }
        if map.json.is_object() {
            return map.members(|_, to| to.text()).map(BranchMap::Labels);
        }
        let nodes = map.texts()?;
        Ok(if nodes.is_empty() { BranchMap::Anywhere } else { BranchMap::Nodes(nodes) })
    })?;
    Ok(BranchSpec {
        from: at.member("from")?.text()?,
        to: Expr::read(at.member("to")?)?,
        map: map.unwrap_or(BranchMap::Anywhere),
        name: at.maybe("name", |name| name.text())?.unwrap_or_else(|| "route".to_owned()),
    })
}
