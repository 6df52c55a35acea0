//! Checks of a graph before it is compiled.

use super::{Check, Graph, Options};
use crate::compiled::Checked;
use crate::extract::{BuildInfo, Role};
use crate::policy::Timeout;
use crate::state::StateSpec;
use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;
use weftwork_engine::PlanProblem;
use weftwork_engine::ids::did_you_mean;

impl<S: StateSpec> Graph<S> {
    /// Applies the options of nodes, and collects the problems that the plan does not find.
    pub(super) fn check(&mut self) {
        // Before the graphs that code calls are added: they need not share channels.
        self.check_subgraphs();
        self.take_options();
        for (what, name) in std::mem::take(&mut self.stops) {
            if !self.nodes.contains_key(&name) {
                self.mentions_unknown(what, name);
            }
        }
        for check in std::mem::take(&mut self.checks) {
            self.check_function(check);
        }
        self.check_timeouts();
    }

    /// Takes up the options of nodes, and finds those of nodes that are not there.
    fn take_options(&mut self) {
        for Options { what, node, change } in std::mem::take(&mut self.options) {
            match self.nodes.get_mut(&node) {
                Some(found) => change(Arc::make_mut(&mut found.options)),
                None => self.mentions_unknown(what, node),
            }
        }
    }

    fn mentions_unknown(&mut self, what: &str, node: String) {
        self.problems.push(PlanProblem::UnknownNode {
            what: what.to_owned(),
            did_you_mean: did_you_mean(&node, self.nodes.keys().map(String::as_str)),
            name: node,
        });
    }

    /// Finds what the graph does not give to a node, and what the node returns that does not fit.
    fn check_function(&mut self, Check { name, node, role }: Check) {
        let info = BuildInfo {
            state: TypeId::of::<S>(),
            state_name: S::NAME,
            deps: &self.deps,
            role,
            led_to: self.plan.leads_to(&name),
        };
        let node_name = match role {
            Role::Node => name.clone(),
            Role::Handler => format!("{name} (on error)"),
            Role::Closer => format!("{name} (left open)"),
        };
        let Checked { misfits, reads } = node.check(&info);
        let fits = misfits.is_empty();
        self.problems.extend(misfits.into_iter().map(|(what, fix)| PlanProblem::BadExtractor {
            node: node_name.clone(),
            what,
            fix,
        }));
        if let (Role::Node, Some(channels), true) = (role, reads, fits) {
            self.plan.reads_unless_said(name, channels.into_iter().map(str::to_owned).collect());
        }
    }

    /// Reports limits that no attempt can meet.
    fn check_timeouts(&mut self) {
        for (name, node) in &self.nodes {
            let Timeout { run, idle } = node.options.timeout;
            if [run, idle].contains(&Some(Duration::ZERO)) {
                let what = format!("the timeout of node `{name}`");
                let why = "is 0, so that no attempt can end in time; give it more, or none";
                self.problems.push(PlanProblem::Misplaced { what, why });
            }
        }
    }

    /// Finds graphs that have nothing to exchange with this one.
    fn check_subgraphs(&mut self) {
        if self.semantics.unknown != weftwork_engine::Unknown::Refuse {
            return;
        }
        for (node, function) in &self.nodes {
            let Some((graph, _)) = &function.options.graph else { continue };
            let inner = graph.plan();
            if inner.is_single() || inner.channel_names().any(|name| self.plan.has_channel(name)) {
                continue;
            }
            self.problems.push(PlanProblem::NothingShared {
                node: node.clone(),
                graph: graph.name().to_owned(),
                channels: inner.channel_names().collect::<Vec<_>>().join(", "),
            });
        }
    }
}
