//! The validated topology of a graph, with numbers in place of names.

mod build;

pub use build::PlanBuilder;

use crate::channel::Channel;
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_types::canonical::{Hash, hash};

/// A node, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIdx(pub usize);

/// A channel, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelIdx(pub usize);

/// Something that can make a node due, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TriggerIdx(pub usize);

/// The validated topology of a graph.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) channels: Vec<ChannelPlan>,
    /// First one per node, in their order, for edges and routes; then one per join.
    pub(crate) triggers: Vec<TriggerPlan>,
    /// The channels that a superstep clears when it does not write them.
    pub(crate) lapsing: Vec<usize>,
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
    pub(crate) joins: Vec<TriggerIdx>,
    /// The names a route or command of it may choose, as far as they are declared. `END` included.
    pub routes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ChannelPlan {
    pub(crate) name: String,
    pub(crate) channel: Arc<dyn Channel>,
}

/// Something that can make a node due.
#[derive(Debug, Clone)]
pub(crate) struct TriggerPlan {
    /// Its name, as streams show it.
    pub(crate) name: String,
    pub(crate) target: NodeIdx,
    pub(crate) kind: TriggerKind,
}

/// How a trigger becomes available.
#[derive(Debug, Clone)]
pub(crate) enum TriggerKind {
    /// An edge, a route or a command led to its node.
    Branch {
        /// Whether the node waits until nothing else is due.
        defer: bool,
    },
    /// All of these nodes finished, in whatever steps.
    Join { sources: Vec<NodeIdx>, defer: bool },
}

impl TriggerKind {
    pub(crate) fn is_deferred(&self) -> bool {
        match self {
            Self::Branch { defer } | Self::Join { defer, .. } => *defer,
        }
    }
}

/// Name of the end of a graph in routes and drawings.
pub const END: &str = "END";
/// Name of the start of a graph in edges and drawings.
pub const START: &str = "START";

/// Two builds with one fingerprint can load each other's threads.
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
            triggers: Vec::new(),
            lapsing: Vec::new(),
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
        self.triggers.iter().filter_map(|trigger| match &trigger.kind {
            TriggerKind::Join { sources, .. } => Some((sources.as_slice(), trigger.target)),
            TriggerKind::Branch { .. } => None,
        })
    }

    /// The name of a trigger, as streams show it.
    #[must_use]
    pub fn trigger_name(&self, index: TriggerIdx) -> &str {
        self.triggers.get(index.0).map_or("", |t| t.name.as_str())
    }

    pub(crate) fn trigger_idx(&self, name: &str) -> Option<TriggerIdx> {
        self.triggers.iter().position(|t| t.name == name).map(TriggerIdx)
    }

    /// Hash of nodes and channels: two builds with one fingerprint can load each other's threads.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        self.fingerprint
    }
}
