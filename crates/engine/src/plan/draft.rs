//! A plan that is being validated.

use super::{
    ChannelIdx, END, NodeIdx, NodePlan, PlanBuilder, START, TriggerIdx, TriggerKind, TriggerPlan,
};
use crate::error::PlanProblem;
use crate::ids::did_you_mean;
use std::collections::{BTreeMap, BTreeSet};

/// A plan that is being validated, with its problems.
pub(super) struct Draft {
    pub(super) nodes: Vec<NodePlan>,
    pub(super) triggers: Vec<TriggerPlan>,
    pub(super) entry: Vec<NodeIdx>,
    /// `true` if an edge leads from the start, including one to the end.
    pub(super) entered: bool,
    pub(super) start_routes: Vec<NodeIdx>,
    pub(super) start_targets: Vec<String>,
    pub(super) by_name: BTreeMap<String, NodeIdx>,
    pub(super) channel_by_name: BTreeMap<String, ChannelIdx>,
    pub(super) problems: Vec<PlanProblem>,
}

impl Draft {
    pub(super) fn new(parts: &PlanBuilder) -> Self {
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

    pub(super) fn find(&mut self, what: &str, name: &str) -> Option<NodeIdx> {
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

    /// Finds the source of an edge, join or route.
    pub(super) fn source(&mut self, what: &str, name: &str) -> Option<NodeIdx> {
        let why = match name {
            END => "begins at END, where nothing goes on; begin it at a node",
            START => "waits for START, which is no node; name nodes, or add an edge from START",
            name => return self.find(what, name),
        };
        self.problems.push(PlanProblem::Misplaced { what: what.to_owned(), why });
        None
    }

    /// Finds the target of an edge, join or route.
    pub(super) fn target(&mut self, what: &str, name: &str) -> Option<NodeIdx> {
        if name != START {
            return self.find(what, name);
        }
        let why = "leads to START, where runs only begin; name the node to go back to";
        self.problems.push(PlanProblem::Misplaced { what: what.to_owned(), why });
        None
    }

    pub(super) fn check_joins(&mut self, joins: &[(Vec<String>, String)]) {
        let why = "waits for no node and would never be due; name the nodes it waits for";
        let empty = joins.iter().filter(|(from, _)| from.is_empty());
        let empty = empty.map(|(from, to)| join_name(from, to));
        self.problems.extend(empty.map(|what| PlanProblem::Misplaced { what, why }));
    }

    /// Finds channels by their names.
    pub(super) fn keys(&mut self, what: &str, names: &[String]) -> Vec<usize> {
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

    /// Finds the channels of an input or output, which must not be managed.
    pub(super) fn schema(
        &mut self,
        what: &str,
        names: &[String],
        parts: &PlanBuilder,
    ) -> Vec<usize> {
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

    pub(super) fn reads(&mut self, node: &str, channels: &[String]) {
        let what = format!("what `{node}` reads");
        let keys = self.keys(&what, channels);
        let node = self.find(&what, node);
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node.0)) {
            node.reads = Some(keys);
        }
    }

    /// Defers a node. Called before joins are added, because they inherit the setting of their
    /// target.
    pub(super) fn defer(&mut self, name: &str) {
        let node = self.find("`defer`", name);
        if let Some(trigger) = node.and_then(|node| self.triggers.get_mut(node.0)) {
            trigger.kind = TriggerKind::Branch { defer: true };
        }
    }

    pub(super) fn edge(&mut self, from: &str, to: &str) {
        let what = edge_name(from, to);
        let source = if from == START { None } else { Some(self.source(&what, from)) };
        let target = if to == END { None } else { self.target(&what, to) };
        self.entered |= from == START;
        match (source, target) {
            (None, Some(target)) => add_node(&mut self.entry, target),
            (Some(Some(source)), Some(target)) => {
                if let Some(node) = self.nodes.get_mut(source.0) {
                    add_node(&mut node.edges, target);
                }
            }
            _ => {}
        }
    }

    pub(super) fn join(&mut self, from: &[String], to: &str) {
        let what = join_name(from, to);
        let mut sources = Vec::with_capacity(from.len());
        for name in from {
            self.source(&what, name).into_iter().for_each(|source| add_node(&mut sources, source));
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

    pub(super) fn ends(&mut self, from: &str, targets: &[String]) {
        if from == START {
            let why = "say where commands lead, and START is no node that could return one; add an edge or a route from START";
            self.problems.push(PlanProblem::Misplaced { what: "`ends` of START".to_owned(), why });
            return;
        }
        self.route(&format!("`ends` of `{from}`"), from, targets);
    }

    pub(super) fn route(&mut self, what: &str, from: &str, targets: &[String]) {
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

    pub(super) fn find_unreachable(&mut self) {
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

/// Adds a node unless it is present: an edge that is given twice counts once.
fn add_node(nodes: &mut Vec<NodeIdx>, node: NodeIdx) {
    if !nodes.contains(&node) {
        nodes.push(node);
    }
}

pub(super) fn edge_name(from: &str, to: &str) -> String {
    format!("edge `{from}` -> `{to}`")
}

pub(super) fn join_name(from: &[String], to: &str) -> String {
    format!("join [{}] -> `{to}`", from.join(", "))
}

fn check_name(kind: &'static str, name: &str, problems: &mut Vec<PlanProblem>) {
    let reason = if name.is_empty() || name.chars().count() > 128 {
        "names have 1 to 128 characters"
    } else if name == START || name == END {
        "it is where graphs begin or end; choose another"
    } else if name.starts_with("__") {
        "names that begin with `__` are reserved; choose another"
    } else if name.contains(['|', ':']) || name.chars().any(char::is_control) {
        "`|`, `:` and control characters separate names in paths; leave them out"
    } else {
        return;
    };
    problems.push(PlanProblem::BadName { name: name.to_owned(), kind, reason });
}
