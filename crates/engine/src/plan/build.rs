//! Validating the parts of a graph together.

use super::{
    ChannelIdx, ChannelPlan, END, NodeIdx, NodePlan, Plan, Roles, START, TriggerIdx, TriggerKind,
    TriggerPlan, Unknown, fingerprint,
};
use crate::channel::Channel;
use crate::error::PlanProblem;
use crate::ids::did_you_mean;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Collects a graph's parts and validates them together.
#[derive(Debug, Default)]
pub struct PlanBuilder {
    channels: Vec<ChannelPlan>,
    nodes: Vec<String>,
    deferred: Vec<String>,
    edges: Vec<(String, String)>,
    joins: Vec<(Vec<String>, String)>,
    routes: Vec<(String, Vec<String>)>,
    /// Where commands of nodes may lead.
    ends: Vec<(String, Vec<String>)>,
    /// `true` if some route may lead anywhere; then no node is reported as unreachable.
    open_routes: bool,
    reads: Vec<(String, Vec<String>)>,
    input: Option<Vec<String>>,
    output: Option<Vec<String>>,
    unknown: Unknown,
    single: bool,
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

    /// Lets a node wait until nothing else is due.
    pub fn defer(&mut self, node: impl Into<String>) {
        self.deferred.push(node.into());
    }

    /// Adds an edge. [`START`] and [`END`] are allowed where they make sense.
    pub fn edge(&mut self, from: impl Into<String>, to: impl Into<String>) {
        self.edges.push((from.into(), to.into()));
    }

    /// Adds a node that waits for all of `from`.
    pub fn join(&mut self, from: Vec<String>, to: impl Into<String>) {
        self.joins.push((from, to.into()));
    }

    /// Narrows what a node may read to these channels.
    pub fn reads(&mut self, node: impl Into<String>, channels: Vec<String>) {
        self.reads.push((node.into(), channels));
    }

    /// The same unless it is said elsewhere what the node may read.
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

    /// Narrows what input may write to these channels.
    pub fn input(&mut self, channels: Vec<String>) {
        self.input = Some(channels);
    }

    /// Narrows the output to these channels.
    pub fn output(&mut self, channels: Vec<String>) {
        self.output = Some(channels);
    }

    /// Says what happens with names the graph does not know. With [`Unknown::Ignore`] nodes that
    /// nothing leads to are allowed as well.
    pub fn unknown(&mut self, unknown: Unknown) {
        self.unknown = unknown;
    }

    /// Makes a graph of one node that takes the input as it is.
    pub fn single(&mut self) {
        self.single = true;
    }

    /// Declares where routes of `from` may lead. An empty list means anywhere.
    pub fn route(&mut self, from: impl Into<String>, targets: Vec<String>) {
        self.open_routes |= targets.is_empty();
        self.routes.push((from.into(), targets));
    }

    /// Declares where commands of `from` may lead. An empty list means anywhere.
    pub fn ends(&mut self, from: impl Into<String>, targets: Vec<String>) {
        self.open_routes |= targets.is_empty();
        self.ends.push((from.into(), targets));
    }

    /// The edge or join that leads to a node, in words, if the graph declares one.
    #[must_use]
    pub fn leads_to(&self, node: &str) -> Option<String> {
        let edge = self.edges.iter().find(|(_, to)| to == node);
        let join = self.joins.iter().find(|(_, to)| to == node);
        let edge = edge.map(|(from, to)| edge_name(from, to));
        edge.or_else(|| join.map(|(from, to)| join_name(from, to)))
    }

    /// Validates everything.
    ///
    /// # Errors
    /// All problems there are, in the order in which the parts were added.
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
        let fingerprint = fingerprint(&draft.nodes, &self.channels);
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
            rank: ranks(&draft.nodes),
            counted: counted.collect(),
            roles: roles(&self.channels, input.as_deref(), output.as_deref(), self.single),
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

/// A plan on its way, with everything that is wrong with it.
struct Draft {
    nodes: Vec<NodePlan>,
    triggers: Vec<TriggerPlan>,
    entry: Vec<NodeIdx>,
    /// `true` if an edge leads from the start, even if only to the end.
    entered: bool,
    start_routes: Vec<NodeIdx>,
    start_targets: Vec<String>,
    by_name: BTreeMap<String, NodeIdx>,
    channel_by_name: BTreeMap<String, ChannelIdx>,
    problems: Vec<PlanProblem>,
}

impl Draft {
    fn new(parts: &PlanBuilder) -> Self {
        let mut problems = Vec::new();
        let mut by_name = BTreeMap::new();
        for (i, name) in parts.nodes.iter().enumerate() {
            check_name("node", name, &mut problems);
            if by_name.insert(name.clone(), NodeIdx(i)).is_some() {
                problems.push(PlanProblem::DuplicateNode { name: name.clone() });
            }
        }
        let mut channel_by_name = BTreeMap::new();
        for (i, channel) in parts.channels.iter().enumerate() {
            if !parts.single {
                check_name("channel", &channel.name, &mut problems);
            }
            if channel_by_name.insert(channel.name.clone(), ChannelIdx(i)).is_some() {
                problems.push(PlanProblem::DuplicateChannel { name: channel.name.clone() });
            }
        }
        let nodes = parts.nodes.iter().enumerate().map(|(i, name)| NodePlan {
            name: name.as_str().into(),
            triggers: vec![TriggerIdx(i)],
            reads: None,
            edges: Vec::new(),
            joins: Vec::new(),
            routes: Vec::new(),
        });
        let triggers = parts.nodes.iter().enumerate().map(|(i, name)| TriggerPlan {
            name: format!("branch:to:{name}"),
            target: NodeIdx(i),
            kind: TriggerKind::Branch { defer: false },
        });
        Self {
            nodes: nodes.collect(),
            triggers: triggers.collect(),
            entry: Vec::new(),
            entered: false,
            start_routes: Vec::new(),
            start_targets: Vec::new(),
            by_name,
            channel_by_name,
            problems,
        }
    }

    fn find(&mut self, what: &str, name: &str) -> Option<NodeIdx> {
        let found = self.by_name.get(name).copied();
        if found.is_none() {
            self.problems.push(PlanProblem::UnknownNode {
                what: what.to_owned(),
                name: name.to_owned(),
                did_you_mean: did_you_mean(name, self.by_name.keys().map(String::as_str)),
            });
        }
        found
    }

    /// A node that something leads on from.
    fn source(&mut self, what: &str, name: &str) -> Option<NodeIdx> {
        let why = match name {
            END => "begins at END, where nothing goes on; begin it at a node",
            START => "waits for START, which is no node; name nodes, or add an edge from START",
            name => return self.find(what, name),
        };
        self.problems.push(PlanProblem::Misplaced { what: what.to_owned(), why });
        None
    }

    /// A node that something leads to.
    fn target(&mut self, what: &str, name: &str) -> Option<NodeIdx> {
        if name != START {
            return self.find(what, name);
        }
        let why = "leads to START, where runs only begin; name the node to go back to";
        self.problems.push(PlanProblem::Misplaced { what: what.to_owned(), why });
        None
    }

    fn check_joins(&mut self, joins: &[(Vec<String>, String)]) {
        let why = "waits for no node and would never be due; name the nodes it waits for";
        let empty = joins.iter().filter(|(from, _)| from.is_empty());
        let empty = empty.map(|(from, to)| join_name(from, to));
        self.problems.extend(empty.map(|what| PlanProblem::Misplaced { what, why }));
    }

    /// The channels of these names.
    fn keys(&mut self, what: &str, names: &[String]) -> Vec<usize> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            match self.channel_by_name.get(name) {
                Some(index) => found.push(index.0),
                None => self.problems.push(PlanProblem::UnknownChannel {
                    what: what.to_owned(),
                    name: name.clone(),
                    did_you_mean: did_you_mean(
                        name,
                        self.channel_by_name.keys().map(String::as_str),
                    ),
                }),
            }
        }
        found
    }

    /// The channels of an input or output, which nobody but nodes may write or read.
    fn schema(&mut self, what: &str, names: &[String], parts: &PlanBuilder) -> Vec<usize> {
        let keys = self.keys(what, names);
        for channel in keys.iter().filter_map(|index| parts.channels.get(*index)) {
            if channel.channel.managed().is_some() {
                let what = format!("channel `{}` in {what}", channel.name);
                let why = "is kept by the run for its nodes; leave it out";
                self.problems.push(PlanProblem::Misplaced { what, why });
            }
        }
        keys
    }

    fn reads(&mut self, node: &str, channels: &[String]) {
        let what = format!("what `{node}` reads");
        let keys = self.keys(&what, channels);
        let node = self.find(&what, node);
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node.0)) {
            node.reads = Some(keys);
        }
    }

    /// Called before joins are added: they ask their target.
    fn defer(&mut self, name: &str) {
        let node = self.find("`defer`", name);
        if let Some(trigger) = node.and_then(|node| self.triggers.get_mut(node.0)) {
            trigger.kind = TriggerKind::Branch { defer: true };
        }
    }

    fn edge(&mut self, from: &str, to: &str) {
        let what = edge_name(from, to);
        let source = if from == START { None } else { Some(self.source(&what, from)) };
        let target = if to == END { None } else { self.target(&what, to) };
        self.entered |= from == START;
        match (source, target) {
            (None, Some(target)) => add(&mut self.entry, target),
            (Some(Some(source)), Some(target)) => {
                if let Some(node) = self.nodes.get_mut(source.0) {
                    add(&mut node.edges, target);
                }
            }
            _ => {}
        }
    }

    fn join(&mut self, from: &[String], to: &str) {
        let what = join_name(from, to);
        let mut sources = Vec::with_capacity(from.len());
        for name in from {
            self.source(&what, name).into_iter().for_each(|source| add(&mut sources, source));
        }
        if to == END {
            return;
        }
        let Some(target) = self.target(&what, to) else { return };
        let same = |known: &TriggerPlan| {
            let joins =
                matches!(&known.kind, TriggerKind::Join { sources: of, .. } if *of == sources);
            joins && known.target == target
        };
        if self.triggers.iter().any(same) {
            return;
        }
        let index = TriggerIdx(self.triggers.len());
        for source in &sources {
            if let Some(node) = self.nodes.get_mut(source.0) {
                node.joins.push(index);
            }
        }
        if let Some(node) = self.nodes.get_mut(target.0) {
            node.triggers.push(index);
        }
        let defer = self.triggers.get(target.0).is_some_and(|t| t.kind.is_deferred());
        self.triggers.push(TriggerPlan {
            name: format!("join:{}:{to}", from.join("+")),
            target,
            kind: TriggerKind::Join { sources, defer },
        });
    }

    fn ends(&mut self, from: &str, targets: &[String]) {
        if from == START {
            let why = "say where commands lead, and START is no node that could return one; add an edge or a route from START";
            self.problems.push(PlanProblem::Misplaced { what: "`ends` of START".to_owned(), why });
            return;
        }
        self.route(&format!("`ends` of `{from}`"), from, targets);
    }

    fn route(&mut self, what: &str, from: &str, targets: &[String]) {
        let named = targets.iter().filter(|t| *t != END);
        let found: Vec<_> = named.filter_map(|t| self.target(what, t)).collect();
        if from == START {
            self.start_routes.extend(found);
            self.start_targets.extend(targets.iter().cloned());
            return;
        }
        let source = self.source(what, from);
        if let Some(node) = source.and_then(|source| self.nodes.get_mut(source.0)) {
            node.routes.extend(targets.iter().cloned());
        }
    }

    fn find_unreachable(&mut self) {
        let mut seen = BTreeSet::new();
        let mut open: Vec<NodeIdx> = self.entry.iter().chain(&self.start_routes).copied().collect();
        while let Some(index) = open.pop() {
            let Some(node) = self.nodes.get(index.0).filter(|_| seen.insert(index)) else {
                continue;
            };
            open.extend(&node.edges);
            open.extend(node.routes.iter().filter_map(|name| self.by_name.get(name)));
            open.extend(node.joins.iter().filter_map(|j| self.triggers.get(j.0)).map(|t| t.target));
        }
        let lost = self.nodes.iter().enumerate().filter(|(i, _)| !seen.contains(&NodeIdx(*i)));
        let lost = lost.map(|(_, node)| PlanProblem::Unreachable { name: node.name.to_string() });
        self.problems.extend(lost);
    }
}

/// Adds what is not there yet: an edge that is given twice leads on once.
fn add(nodes: &mut Vec<NodeIdx>, node: NodeIdx) {
    if !nodes.contains(&node) {
        nodes.push(node);
    }
}

/// The roles of each channel. In a single-node graph only the first channel holds state.
fn roles(
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

fn edge_name(from: &str, to: &str) -> String {
    format!("edge `{from}` -> `{to}`")
}

fn join_name(from: &[String], to: &str) -> String {
    format!("join [{}] -> `{to}`", from.join(", "))
}

/// The place of each node among the nodes by name.
fn ranks(nodes: &[NodePlan]) -> Vec<usize> {
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

fn check_name(kind: &'static str, name: &str, problems: &mut Vec<PlanProblem>) {
    let reason = if name.is_empty() || name.chars().count() > 128 {
        "names have 1 to 128 characters"
    } else if name == START || name == END {
        "it is where graphs begin or end; choose another"
    } else if name.starts_with("__") {
        "names that begin with `__` are the house's own; choose another"
    } else if name.contains(['|', ':']) || name.chars().any(char::is_control) {
        "`|`, `:` and control characters separate names in paths; leave them out"
    } else {
        return;
    };
    problems.push(PlanProblem::BadName { name: name.to_owned(), kind, reason });
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
        let (once, twice) = (built(1), built(2));
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
