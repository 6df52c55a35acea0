//! Collection and validation of the parts of a graph.

use super::draft::{Draft, edge_name, join_name};
use super::{
    ChannelIdx, ChannelPlan, NodeIdx, NodePlan, Plan, Roles, START, TriggerIdx, Unknown,
    compute_fingerprint,
};
use crate::channel::Channel;
use crate::error::PlanProblem;
use std::sync::Arc;

/// A builder that collects the parts of a graph and validates them together.
#[derive(Debug, Default)]
pub struct PlanBuilder {
    pub(super) channels: Vec<ChannelPlan>,
    pub(super) nodes: Vec<String>,
    deferred: Vec<String>,
    edges: Vec<(String, String)>,
    joins: Vec<(Vec<String>, String)>,
    routes: Vec<(String, Vec<String>)>,
    /// The declared targets of the commands of nodes.
    ends: Vec<(String, Vec<String>)>,
    /// `true` if a route may lead to any node; then no node is reported as unreachable.
    open_routes: bool,
    reads: Vec<(String, Vec<String>)>,
    input: Option<Vec<String>>,
    output: Option<Vec<String>>,
    unknown: Unknown,
    pub(super) single: bool,
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

    /// Defers a node until no other node is due.
    pub fn defer(&mut self, node: impl Into<String>) {
        self.deferred.push(node.into());
    }

    /// Adds an edge. [`START`] and [`END`](crate::plan::END) are allowed where they make sense.
    pub fn edge(&mut self, from: impl Into<String>, to: impl Into<String>) {
        self.edges.push((from.into(), to.into()));
    }

    /// Adds a node that waits for all of `from`.
    pub fn join(&mut self, from: Vec<String>, to: impl Into<String>) {
        self.joins.push((from, to.into()));
    }

    /// Restricts the channels that a node may read.
    pub fn reads(&mut self, node: impl Into<String>, channels: Vec<String>) {
        self.reads.push((node.into(), channels));
    }

    /// Restricts the channels that a node may read, unless they are restricted already.
    pub fn reads_unless_said(&mut self, node: String, channels: Vec<String>) {
        if !self.reads.iter().any(|(said, _)| *said == node) {
            self.reads.push((node, channels));
        }
    }

    /// `true` if there is a channel of that name.
    #[must_use]
    pub fn has_channel(&self, name: &str) -> bool {
        self.channels.iter().any(|channel| channel.name == name)
    }

    /// Restricts the channels that input may write.
    pub fn input(&mut self, channels: Vec<String>) {
        self.input = Some(channels);
    }

    /// Restricts the channels of the output.
    pub fn output(&mut self, channels: Vec<String>) {
        self.output = Some(channels);
    }

    /// Sets the handling of unknown names. [`Unknown::Ignore`] also allows unreachable nodes.
    pub fn unknown(&mut self, unknown: Unknown) {
        self.unknown = unknown;
    }

    /// Makes a graph of one node that takes the input unchanged.
    pub fn single(&mut self) {
        self.single = true;
    }

    /// Declares the targets of routes of `from`. An empty list allows all nodes.
    pub fn route(&mut self, from: impl Into<String>, targets: Vec<String>) {
        self.open_routes |= targets.is_empty();
        self.routes.push((from.into(), targets));
    }

    /// Declares the targets of commands of `from`. An empty list allows all nodes.
    pub fn ends(&mut self, from: impl Into<String>, targets: Vec<String>) {
        self.open_routes |= targets.is_empty();
        self.ends.push((from.into(), targets));
    }

    /// Describes the edge or join that leads to a node, if the graph declares one.
    #[must_use]
    pub fn leads_to(&self, node: &str) -> Option<String> {
        let edge = self.edges.iter().find(|(_, to)| to == node);
        let join = self.joins.iter().find(|(_, to)| to == node);
        let edge = edge.map(|(from, to)| edge_name(from, to));
        edge.or_else(|| join.map(|(from, to)| join_name(from, to)))
    }

    /// Validates the graph.
    ///
    /// # Errors
    /// All problems, in the order in which the parts were added.
    pub fn build(self) -> Result<Plan, Vec<PlanProblem>> {
        let mut draft = Draft::new(&self);
        self.deferred.iter().for_each(|name| draft.defer(name));
        self.edges.iter().for_each(|(from, to)| draft.edge(from, to));
        self.joins.iter().for_each(|(from, to)| draft.join(from, to));
        self.routes.iter().for_each(|(from, targets)| {
            draft.route(&format!("a route of `{from}`"), from, targets);
        });
        self.ends.iter().for_each(|(from, targets)| draft.ends(from, targets));
        self.reads.iter().for_each(|(node, channels)| draft.reads(node, channels));
        let input = self.input.as_ref().map(|names| draft.schema("the input", names, &self));
        let output = self.output.as_ref().map(|names| draft.schema("the output", names, &self));
        let entered = draft.entered || self.single;
        if !entered && !self.routes.iter().any(|(from, _)| from == START) {
            draft.problems.push(PlanProblem::NoEntry);
        }
        let strict = self.unknown == Unknown::Refuse && !self.single;
        if strict {
            draft.check_joins(&self.joins);
        }
        if draft.problems.is_empty() && !self.open_routes && strict {
            draft.find_unreachable();
        }
        if !draft.problems.is_empty() {
            return Err(draft.problems);
        }
        let fingerprint = compute_fingerprint(&draft.nodes, &self.channels);
        let lapsing = self.channels.iter().enumerate().filter(|(_, c)| c.channel.lapses());
        let state = self.channels.iter().enumerate().filter(|(_, c)| c.channel.managed().is_none());
        let counted = self.channels.iter().enumerate();
        let counted = counted.filter_map(|(i, c)| Some((ChannelIdx(i), c.channel.counted()?)));
        let untracked = self
            .channels
            .iter()
            .enumerate()
            .filter(|(_, c)| c.channel.managed().is_none() && !c.channel.is_stored());
        let deferred = draft.triggers.iter().enumerate().filter(|(_, t)| t.kind.is_deferred());
        Ok(Plan {
            lapsing: lapsing.map(|(i, _)| i).collect(),
            deferred: deferred.map(|(i, _)| TriggerIdx(i)).collect(),
            rank: rank_nodes(&draft.nodes),
            counted: counted.collect(),
            roles: assign_roles(&self.channels, input.as_deref(), output.as_deref(), self.single),
            untracked: untracked.map(|(i, _)| i).collect(),
            state_keys: state.map(|(i, _)| i).collect(),
            output,
            unknown: self.unknown,
            single: self.single,
            nodes: draft.nodes,
            channels: self.channels,
            triggers: draft.triggers,
            entry: draft.entry,
            start_routes: draft.start_targets,
            by_name: draft.by_name,
            channel_by_name: draft.channel_by_name,
            fingerprint,
            layout: std::sync::OnceLock::new(),
        })
    }
}

/// The roles of each channel. In a single-node graph only the first channel holds state.
fn assign_roles(
    channels: &[ChannelPlan],
    input: Option<&[usize]>,
    output: Option<&[usize]>,
    single: bool,
) -> Vec<Roles> {
    let within = |keys: Option<&[usize]>, i| keys.is_none_or(|keys| keys.contains(&i));
    let roles = channels.iter().enumerate().map(|(i, planned)| {
        let free = planned.channel.managed().is_none();
        Roles {
            state: free && (i == 0 || !single),
            input: free && within(input, i),
            output: free && within(output, i),
        }
    });
    roles.collect()
}

/// The rank of each node in the order of names.
fn rank_nodes(nodes: &[NodePlan]) -> Vec<usize> {
    let mut by_name: Vec<usize> = (0..nodes.len()).collect();
    by_name.sort_by(|a, b| nodes.get(*a).map(|n| &n.name).cmp(&nodes.get(*b).map(|n| &n.name)));
    let mut ranks = vec![0; nodes.len()];
    for (rank, index) in by_name.into_iter().enumerate() {
        if let Some(slot) = ranks.get_mut(index) {
            *slot = rank;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::PlanBuilder;
    use crate::channel::{LastValue, Managed};
    use crate::plan::{Plan, START};
    use std::sync::Arc;

    fn built(times: usize) -> Plan {
        let mut plan = PlanBuilder::default();
        for node in ["a", "b", "c"] {
            plan.node(node);
        }
        for _ in 0..times {
            plan.edge(START, "a");
            plan.edge("a", "b");
            plan.join(vec!["a".to_owned(), "b".to_owned()], "c");
        }
        plan.build().expect("sound")
    }

    #[test]
    fn an_edge_that_is_given_twice_counts_once() {
        let once = built(1);
        let twice = built(2);
        assert_eq!(once.entry, twice.entry);
        assert_eq!(once.triggers.len(), twice.triggers.len());
        for (once, twice) in once.nodes.iter().zip(&twice.nodes) {
            assert_eq!((&once.edges, &once.joins), (&twice.edges, &twice.joins));
        }
    }

    #[test]
    fn a_managed_channel_is_no_part_of_input_and_output() {
        let mut plan = PlanBuilder::default();
        plan.channel("n", Arc::new(LastValue::<u8>::new()));
        plan.channel("left", Arc::new(Managed::Remaining));
        plan.node("a");
        plan.edge(START, "a");
        plan.output(vec!["n".to_owned(), "left".to_owned()]);
        let problems = plan.build().expect_err("`left` is the run's");
        let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(text.starts_with("channel `left` in the output is kept by the run"), "{text}");
    }
}
