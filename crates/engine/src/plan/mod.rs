//! The validated topology of a graph, with numbers in place of names.

mod build;
mod draft;
pub(crate) mod layout;
mod messages;

pub use crate::index::{ChannelIdx, END, NodeIdx, START, START_NAME, TriggerIdx};
pub use build::PlanBuilder;
pub use layout::{Layout, LayoutId, Mapped};

use crate::channel::Channel;
use crate::error::EngineError;
use crate::ids::did_you_mean;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use weftwork_types::canonical::{Hash, hash};

/// A lookup of nodes by name, which caches the last name because consecutive names are often equal.
#[derive(Debug)]
pub struct Finder<'a> {
    plan: &'a Plan,
    last: Option<(&'a str, Option<NodeIdx>)>,
}

impl<'a> Finder<'a> {
    /// The node of a name.
    pub fn find(&mut self, name: &'a str) -> Option<NodeIdx> {
        match self.last {
            Some((last, found)) if last == name => found,
            _ => {
                let found = self.plan.node_idx(name);
                self.last = Some((name, found));
                found
            }
        }
    }
}

/// The validated topology of a graph.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) channels: Vec<ChannelPlan>,
    /// A trigger per node, in their order, for edges and routes; then one per join.
    pub(crate) triggers: Vec<TriggerPlan>,
    /// The channels that are cleared by a superstep that does not write them.
    pub(crate) lapsing: Vec<usize>,
    /// The triggers of deferred nodes.
    pub(crate) deferred: Vec<TriggerIdx>,
    /// The rank of each node in the order of names.
    pub(crate) rank: Vec<usize>,
    /// The channels whose changes are counted, with the number of updates after which the count
    /// restarts.
    pub(crate) counted: Vec<(ChannelIdx, u64)>,
    /// The roles of each channel.
    pub(crate) roles: Vec<Roles>,
    /// The channels whose values are not stored.
    pub(crate) untracked: Vec<usize>,
    /// The channels that hold a state: all but the managed ones.
    pub(crate) state_keys: Vec<usize>,
    /// The channels of the output; `None` stands for all.
    pub(crate) output: Option<Vec<usize>>,
    /// The handling of names that the graph does not have.
    pub(crate) unknown: Unknown,
    /// `true` if the graph is one node that takes the input unchanged.
    pub(crate) single: bool,
    pub(crate) entry: Vec<NodeIdx>,
    /// The declared targets of routes from the start, including `END`.
    pub(crate) start_routes: Vec<String>,
    pub(crate) by_name: BTreeMap<String, NodeIdx>,
    pub(crate) channel_by_name: BTreeMap<String, ChannelIdx>,
    fingerprint: Hash,
    /// The layout of stored rows, computed at its first use.
    pub(crate) layout: std::sync::OnceLock<Layout>,
}

/// The roles of a channel: state, input, output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) state: bool,
    pub(crate) input: bool,
    pub(crate) output: bool,
}

/// The handling of channel and node names that the graph does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unknown {
    /// The task that named it fails.
    #[default]
    Refuse,
    /// The write or the target is left out.
    Ignore,
}

/// A node and its successors.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// Its name.
    pub name: Arc<str>,
    /// The triggers that can make it due: its own, and those of the joins that lead to it.
    pub(crate) triggers: Vec<TriggerIdx>,
    /// The channels that it may read; `None` stands for all.
    pub(crate) reads: Option<Vec<usize>>,
    /// The nodes that always follow it.
    pub edges: Vec<NodeIdx>,
    /// The joins it is a source of.
    pub(crate) joins: Vec<TriggerIdx>,
    /// The declared targets of its routes and commands, including `END`.
    pub routes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ChannelPlan {
    pub(crate) name: String,
    pub(crate) channel: Arc<dyn Channel>,
}

/// A trigger, which can make a node due.
#[derive(Debug, Clone)]
pub(crate) struct TriggerPlan {
    /// Its name, as streams show it.
    pub(crate) name: String,
    pub(crate) target: NodeIdx,
    pub(crate) kind: TriggerKind,
}

/// The way in which a trigger becomes available.
#[derive(Debug, Clone)]
pub(crate) enum TriggerKind {
    /// An edge, a route or a command led to its node.
    Branch {
        /// `true` if the node waits until nothing else is due.
        defer: bool,
    },
    /// All of these nodes have finished, in any supersteps.
    Join { sources: Vec<NodeIdx>, defer: bool },
}

impl TriggerKind {
    pub(crate) fn is_deferred(&self) -> bool {
        match self {
            Self::Branch { defer } | Self::Join { defer, .. } => *defer,
        }
    }
}

/// Computes the fingerprint: two builds with the same one can load each other's threads.
fn compute_fingerprint(nodes: &[NodePlan], channels: &[ChannelPlan]) -> Hash {
    let nodes: Vec<&str> = nodes.iter().map(|n| &*n.name).collect();
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
            deferred: Vec::new(),
            rank: Vec::new(),
            counted: Vec::new(),
            roles: Vec::new(),
            untracked: Vec::new(),
            state_keys: Vec::new(),
            output: None,
            unknown: Unknown::Refuse,
            single: false,
            entry: Vec::new(),
            start_routes: Vec::new(),
            by_name: BTreeMap::new(),
            channel_by_name: BTreeMap::new(),
            fingerprint: compute_fingerprint(&[], &[]),
            layout: std::sync::OnceLock::new(),
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

    /// Returns a lookup of nodes by name.
    #[must_use]
    pub fn finder(&self) -> Finder<'_> {
        Finder { plan: self, last: None }
    }

    /// The name of a node.
    #[must_use]
    pub fn node_name(&self, index: NodeIdx) -> &str {
        if index == NodeIdx::START {
            return START_NAME;
        }
        self.nodes.get(index.0).map_or("", |n| &*n.name)
    }

    /// The names of the nodes, for messages.
    pub(crate) fn node_names(&self) -> String {
        self.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>().join(", ")
    }

    /// The name of a node, as a shared text.
    #[must_use]
    pub fn shared_name(&self, index: NodeIdx) -> &Arc<str> {
        static START: LazyLock<Arc<str>> = LazyLock::new(|| START_NAME.into());
        self.nodes.get(index.0).map_or(&START, |node| &node.name)
    }

    /// Returns `true` if names that the graph does not have are left out, and `false` if they are
    /// errors.
    #[must_use]
    pub fn ignores_unknown(&self) -> bool {
        self.unknown == Unknown::Ignore
    }

    /// `true` if the graph is one node that takes the input unchanged.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.single
    }

    /// The channels that hold the state, in order.
    pub fn state_keys(&self) -> impl Iterator<Item = ChannelIdx> {
        self.state_keys.iter().map(|i| ChannelIdx(*i))
    }

    /// The channels of the output, in order.
    pub fn output_keys(&self) -> impl Iterator<Item = ChannelIdx> {
        self.output.as_ref().unwrap_or(&self.state_keys).iter().map(|i| ChannelIdx(*i))
    }

    /// `true` if a channel is part of the output.
    #[must_use]
    pub fn is_output(&self, channel: ChannelIdx) -> bool {
        self.roles.get(channel.0).is_some_and(|roles| roles.output)
    }

    /// `true` if a channel holds state; in a single-node graph only the first channel can.
    #[must_use]
    pub fn is_state(&self, channel: ChannelIdx) -> bool {
        self.roles.get(channel.0).is_some_and(|roles| roles.state)
    }

    /// `true` if a channel's values are not stored.
    #[must_use]
    pub fn is_untracked(&self, channel: ChannelIdx) -> bool {
        self.untracked.contains(&channel.0)
    }

    /// `true` if there are channels whose values are not stored.
    #[must_use]
    pub fn has_untracked(&self) -> bool {
        !self.untracked.is_empty()
    }

    /// `true` if input may write a channel.
    #[must_use]
    pub fn is_input(&self, channel: ChannelIdx) -> bool {
        self.roles.get(channel.0).is_some_and(|roles| roles.input)
    }

    /// The channels that a node may read, in order, including managed ones.
    pub fn reads(&self, node: NodeIdx) -> impl Iterator<Item = ChannelIdx> {
        let named = self.nodes.get(node.0).and_then(|n| n.reads.as_deref());
        let all = named.is_none().then_some(0..self.channels.len());
        named.into_iter().flatten().copied().chain(all.into_iter().flatten()).map(ChannelIdx)
    }

    /// The name of a channel.
    #[must_use]
    pub fn channel_name(&self, index: ChannelIdx) -> &str {
        self.channels.get(index.0).map_or("", |c| c.name.as_str())
    }

    /// The channels whose changes are counted, and after how many updates they start over.
    pub fn counted(&self) -> impl Iterator<Item = (ChannelIdx, u64)> {
        self.counted.iter().copied()
    }

    /// The names of a node's triggers, by name.
    #[must_use]
    pub fn triggers_of(&self, node: NodeIdx) -> Vec<&str> {
        let Some(node) = self.nodes.get(node.0) else { return vec![START_NAME] };
        let mut names: Vec<_> = node.triggers.iter().map(|t| self.trigger_name(*t)).collect();
        names.sort_unstable();
        names
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

    /// The channel of a name, or an error that suggests one.
    pub(crate) fn expect_channel(&self, name: &str, by: &str) -> Result<ChannelIdx, EngineError> {
        self.channel_idx(name).ok_or_else(|| EngineError::UnknownChannel {
            by: by.to_owned(),
            name: name.to_owned(),
            did_you_mean: did_you_mean(name, self.channel_names()),
            known: self.channel_names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The nodes that edges from the start lead to.
    #[must_use]
    pub fn entry(&self) -> &[NodeIdx] {
        &self.entry
    }

    /// The declared targets of routes from the start, including `END`.
    #[must_use]
    pub fn start_routes(&self) -> &[String] {
        &self.start_routes
    }

    /// The joins, as sources and target.
    pub fn joins(&self) -> impl Iterator<Item = (&[NodeIdx], NodeIdx)> {
        self.triggers.iter().filter_map(|trigger| match &trigger.kind {
            TriggerKind::Join { sources, .. } => Some((sources.as_slice(), trigger.target)),
            TriggerKind::Branch { .. } => None,
        })
    }

    /// The name of a trigger, as shown in streams.
    #[must_use]
    pub fn trigger_name(&self, index: TriggerIdx) -> &str {
        self.triggers.get(index.0).map_or("", |t| t.name.as_str())
    }

    pub(crate) fn trigger_idx(&self, name: &str) -> Option<TriggerIdx> {
        self.triggers.iter().position(|t| t.name == name).map(TriggerIdx)
    }

    /// The layout of the rows of this graph, with the names that rows do not repeat.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::of(self))
    }

    /// Hash of nodes and channels: two builds with one fingerprint can load each other's threads.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        self.fingerprint
    }
}
