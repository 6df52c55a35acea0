//! The validated topology of a graph, with numbers in place of names.

use crate::channel::Channel;
use crate::error::PlanProblem;
use crate::ids::did_you_mean;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_types::canonical::{Hash, hash};

/// A node, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIdx(pub usize);

/// A channel, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelIdx(pub usize);

/// The validated topology of a graph.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) channels: Vec<ChannelPlan>,
    pub(crate) joins: Vec<Join>,
    pub(crate) entry: Vec<NodeIdx>,
    pub(crate) by_name: BTreeMap<String, NodeIdx>,
    pub(crate) channel_by_name: BTreeMap<String, ChannelIdx>,
    fingerprint: Hash,
}

/// A node and what follows it.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// The nodes that always follow it.
    pub edges: Vec<NodeIdx>,
    /// The joins it is a source of.
    pub(crate) joins: Vec<usize>,
    /// The names a route or command of it may choose, as far as they are declared. `END` included.
    pub routes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ChannelPlan {
    pub(crate) name: String,
    pub(crate) channel: Arc<dyn Channel>,
}

/// A node that waits for all of several others.
#[derive(Debug, Clone)]
pub(crate) struct Join {
    pub(crate) name: String,
    pub(crate) sources: Vec<NodeIdx>,
    pub(crate) target: NodeIdx,
}

/// Where an edge starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// At the start of the graph.
    Start,
    /// At a node.
    Node(String),
}

/// Name of the end of a graph in routes and drawings.
pub const END: &str = "END";
/// Name of the start of a graph in edges and drawings.
pub const START: &str = "START";

/// Collects a graph's parts and validates them together.
#[derive(Debug, Default)]
pub struct PlanBuilder {
    channels: Vec<ChannelPlan>,
    nodes: Vec<String>,
    edges: Vec<(String, String)>,
    joins: Vec<(Vec<String>, String)>,
    routes: Vec<(String, Vec<String>)>,
    /// Nodes that a command may lead anywhere from; then nothing is called unreachable.
    open_routes: bool,
}

impl PlanBuilder {
    /// Adds a channel; returns its place.
    pub fn channel(&mut self, name: impl Into<String>, channel: Arc<dyn Channel>) -> ChannelIdx {
        self.channels.push(ChannelPlan { name: name.into(), channel });
        ChannelIdx(self.channels.len() - 1)
    }

    /// Adds a node; returns its place.
    pub fn node(&mut self, name: impl Into<String>) -> NodeIdx {
        self.nodes.push(name.into());
        NodeIdx(self.nodes.len() - 1)
    }

    /// Adds an edge. [`START`] and [`END`] are allowed where they make sense.
    pub fn edge(&mut self, from: impl Into<String>, to: impl Into<String>) {
        self.edges.push((from.into(), to.into()));
    }

    /// Adds a node that waits for all of `from`.
    pub fn join(&mut self, from: Vec<String>, to: impl Into<String>) {
        self.joins.push((from, to.into()));
    }

    /// Declares where routes of `from` may lead. An empty list means anywhere.
    pub fn route(&mut self, from: impl Into<String>, targets: Vec<String>) {
        self.open_routes |= targets.is_empty();
        self.routes.push((from.into(), targets));
    }

    /// Validates everything.
    ///
    /// # Errors
    /// All problems there are, in the order in which the parts were added.
    pub fn build(self) -> Result<Plan, Vec<PlanProblem>> {
        let mut problems = Vec::new();
        let by_name = self.index_nodes(&mut problems);
        let channel_by_name = self.index_channels(&mut problems);
        let mut find = |what: String, name: &str| -> Option<NodeIdx> {
            let found = by_name.get(name).copied();
            if found.is_none() {
                let did_you_mean = did_you_mean(name, by_name.keys().map(String::as_str));
                problems.push(PlanProblem::UnknownNode {
                    what,
                    name: name.to_owned(),
                    did_you_mean,
                });
            }
            found
        };
        let mut nodes: Vec<NodePlan> = self
            .nodes
            .iter()
            .map(|name| NodePlan {
                name: name.clone(),
                edges: Vec::new(),
                joins: Vec::new(),
                routes: Vec::new(),
            })
            .collect();
        let mut entry = Vec::new();
        let mut start_routes = Vec::new();
        for (from, to) in &self.edges {
            let what = format!("edge `{from}` -> `{to}`");
            let source =
                if from == START { Some(None) } else { find(what.clone(), from).map(Some) };
            let target = if to == END { None } else { find(what, to) };
            match (source, target) {
                (Some(None), Some(target)) => entry.push(target),
                (Some(Some(source)), Some(target)) => {
                    if let Some(node) = nodes.get_mut(source.0) {
                        node.edges.push(target);
                    }
                }
                _ => {}
            }
        }
        let mut joins = Vec::new();
        for (from, to) in &self.joins {
            let what = format!("join [{}] -> `{to}`", from.join(", "));
            let sources: Vec<_> = from.iter().filter_map(|f| find(what.clone(), f)).collect();
            if let Some(target) = find(what, to) {
                for source in &sources {
                    if let Some(node) = nodes.get_mut(source.0) {
                        node.joins.push(joins.len());
                    }
                }
                joins.push(Join { name: format!("{}:{to}", from.join("+")), sources, target });
            }
        }
        for (from, targets) in &self.routes {
            let what = format!("route of `{from}`");
            for target in targets.iter().filter(|t| *t != END) {
                find(what.clone(), target);
            }
            if from == START {
                start_routes.extend(targets.iter().filter_map(|t| by_name.get(t).copied()));
            } else if let Some(node) = find(what, from).and_then(|source| nodes.get_mut(source.0)) {
                node.routes.extend(targets.iter().cloned());
            }
        }
        if entry.is_empty() && !self.routes.iter().any(|(from, _)| from == START) {
            problems.push(PlanProblem::NoEntry);
        }
        if problems.is_empty() && !self.open_routes {
            unreachable(&nodes, &joins, &by_name, entry.iter().chain(&start_routes), &mut problems);
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let fingerprint = fingerprint(&nodes, &self.channels);
        let channels = self.channels;
        Ok(Plan { nodes, channels, joins, entry, by_name, channel_by_name, fingerprint })
    }

    fn index_nodes(&self, problems: &mut Vec<PlanProblem>) -> BTreeMap<String, NodeIdx> {
        let mut by_name = BTreeMap::new();
        for (i, name) in self.nodes.iter().enumerate() {
            check_name("node", name, problems);
            if by_name.insert(name.clone(), NodeIdx(i)).is_some() {
                problems.push(PlanProblem::DuplicateNode { name: name.clone() });
            }
        }
        by_name
    }

    fn index_channels(&self, problems: &mut Vec<PlanProblem>) -> BTreeMap<String, ChannelIdx> {
        let mut by_name = BTreeMap::new();
        for (i, channel) in self.channels.iter().enumerate() {
            check_name("channel", &channel.name, problems);
            if by_name.insert(channel.name.clone(), ChannelIdx(i)).is_some() {
                problems.push(PlanProblem::DuplicateChannel { name: channel.name.clone() });
            }
        }
        by_name
    }
}

fn check_name(kind: &'static str, name: &str, problems: &mut Vec<PlanProblem>) {
    let reason = if name.is_empty() || name.chars().count() > 128 {
        "names have 1 to 128 characters"
    } else if name == START || name == END || name.starts_with("__") {
        "it is reserved"
    } else if name.contains(['|', ':']) || name.chars().any(char::is_control) {
        "`|`, `:` and control characters separate names in paths"
    } else {
        return;
    };
    problems.push(PlanProblem::BadName { name: name.to_owned(), kind, reason });
}

fn unreachable<'a>(
    nodes: &[NodePlan],
    joins: &[Join],
    by_name: &BTreeMap<String, NodeIdx>,
    entry: impl Iterator<Item = &'a NodeIdx>,
    problems: &mut Vec<PlanProblem>,
) {
    let mut seen = BTreeSet::new();
    let mut open: Vec<NodeIdx> = entry.copied().collect();
    while let Some(index) = open.pop() {
        let Some(node) = nodes.get(index.0).filter(|_| seen.insert(index)) else { continue };
        open.extend(&node.edges);
        open.extend(node.routes.iter().filter_map(|name| by_name.get(name)));
        open.extend(node.joins.iter().filter_map(|j| joins.get(*j)).map(|join| join.target));
    }
    let lost = nodes.iter().enumerate().filter(|(i, _)| !seen.contains(&NodeIdx(*i)));
    problems.extend(lost.map(|(_, node)| PlanProblem::Unreachable { name: node.name.clone() }));
}

fn fingerprint(nodes: &[NodePlan], channels: &[ChannelPlan]) -> Hash {
    let nodes: Vec<_> = nodes.iter().map(|n| n.name.as_str()).collect();
    let channels: Vec<_> = channels.iter().map(|c| (c.name.as_str(), c.channel.kind())).collect();
    hash(&serde_json::json!({"v": 1, "nodes": nodes, "channels": channels}))
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            channels: Vec::new(),
            joins: Vec::new(),
            entry: Vec::new(),
            by_name: BTreeMap::new(),
            channel_by_name: BTreeMap::new(),
            fingerprint: fingerprint(&[], &[]),
        }
    }
}

impl Plan {
    /// The nodes, in the order in which they were added.
    #[must_use]
    pub fn nodes(&self) -> &[NodePlan] {
        &self.nodes
    }

    /// The node of a name.
    #[must_use]
    pub fn node_idx(&self, name: &str) -> Option<NodeIdx> {
        self.by_name.get(name).copied()
    }

    /// The name of a node.
    #[must_use]
    pub fn node_name(&self, index: NodeIdx) -> &str {
        self.nodes.get(index.0).map_or("", |n| n.name.as_str())
    }

    /// The names of the channels, in order.
    pub fn channel_names(&self) -> impl Iterator<Item = &str> {
        self.channels.iter().map(|c| c.name.as_str())
    }

    /// The channel of a name.
    #[must_use]
    pub fn channel_idx(&self, name: &str) -> Option<ChannelIdx> {
        self.channel_by_name.get(name).copied()
    }

    /// The nodes that edges from the start lead to.
    #[must_use]
    pub fn entry(&self) -> &[NodeIdx] {
        &self.entry
    }

    /// The joins as sources and target.
    pub fn joins(&self) -> impl Iterator<Item = (&[NodeIdx], NodeIdx)> {
        self.joins.iter().map(|j| (j.sources.as_slice(), j.target))
    }

    /// Hash of nodes and channels: two builds with one fingerprint can load each other's threads.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        self.fingerprint
    }
}
