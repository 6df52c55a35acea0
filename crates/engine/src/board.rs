//! What decides which nodes are due: the triggers of nodes and joins, and what was sent.
//!
//! Source: the channels that LangGraph gives to nodes and joins (`EphemeralValue`,
//! `NamedBarrierValue` and their `AfterFinish` forms) with `apply_writes` of `pregel/_algo.py`,
//! without its version numbers: what they decide is kept as it was decided
//! (`docs/adr/0006-what-is-due.md`).

use crate::plan::{NodeIdx, Plan, TriggerIdx, TriggerKind};
use crate::task::Arg;
use std::collections::BTreeSet;

/// The triggers of a graph at one checkpoint, and what was sent in its last step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Board {
    triggers: Vec<Trigger>,
    sends: Vec<(NodeIdx, Arg)>,
    /// The triggers that became available in the last step.
    updated: BTreeSet<TriggerIdx>,
    /// The nodes that ran in the last step because a trigger led to them, once per trigger.
    last: Vec<NodeIdx>,
}

/// One trigger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trigger {
    /// For the trigger of a node: whether something led to it.
    pub(crate) written: bool,
    /// For a join: the sources that arrived.
    pub(crate) sources: BTreeSet<NodeIdx>,
    /// For deferred targets: whether nothing else was left to run.
    pub(crate) finished: bool,
}

/// What one superstep does to the board.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// The triggers of the tasks that ran, or were dropped.
    pub(crate) consumed: Vec<TriggerIdx>,
    /// Whether the step had tasks at all. Without one nothing is cleared.
    pub(crate) bump: bool,
    /// Whether the change came from outside: then the nodes that ran last stay the same.
    pub(crate) outside: bool,
    /// The nodes that edges and routes lead to.
    pub(crate) branches: Vec<NodeIdx>,
    /// Nodes that arrived at their joins.
    pub(crate) arrivals: Vec<NodeIdx>,
    /// Tasks that were sent.
    pub(crate) sends: Vec<(NodeIdx, Arg)>,
}

impl Board {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { triggers: vec![Trigger::default(); plan.triggers.len()], ..Self::default() }
    }

    /// A board as it was stored.
    pub(crate) fn restored(
        triggers: Vec<Trigger>,
        sends: Vec<(NodeIdx, Arg)>,
        updated: BTreeSet<TriggerIdx>,
        last: Vec<NodeIdx>,
    ) -> Self {
        Self { triggers, sends, updated, last }
    }

    /// Tasks that were sent, in order.
    pub(crate) fn sends(&self) -> &[(NodeIdx, Arg)] {
        &self.sends
    }

    /// The triggers, in the plan's order.
    pub(crate) fn triggers(&self) -> &[Trigger] {
        &self.triggers
    }

    /// The triggers that became available in the last step.
    pub(crate) fn updated(&self) -> &BTreeSet<TriggerIdx> {
        &self.updated
    }

    /// The nodes that ran in the last step because a trigger led to them, once per trigger.
    pub(crate) fn last(&self) -> &[NodeIdx] {
        &self.last
    }

    /// The nodes that are due and the triggers that make them so, by name of the node. When the
    /// last step made something available, only that counts.
    pub(crate) fn due(&self, plan: &Plan) -> Vec<(NodeIdx, Vec<TriggerIdx>)> {
        let mut due: Vec<(NodeIdx, Vec<TriggerIdx>)> = Vec::new();
        let updated_targets: BTreeSet<NodeIdx> = self
            .updated
            .iter()
            .filter_map(|index| plan.triggers.get(index.0))
            .map(|trigger| trigger.target)
            .collect();
        for (index, (trigger, planned)) in self.triggers.iter().zip(&plan.triggers).enumerate() {
            let candidate = self.updated.is_empty() || updated_targets.contains(&planned.target);
            if !candidate || !trigger.is_available(&planned.kind) {
                continue;
            }
            match due.iter_mut().find(|(node, _)| *node == planned.target) {
                Some((_, triggers)) => triggers.push(TriggerIdx(index)),
                None => due.push((planned.target, vec![TriggerIdx(index)])),
            }
        }
        due.sort_by(|a, b| plan.node_name(a.0).cmp(plan.node_name(b.0)));
        due
    }

    /// Closes a superstep: what ran used its triggers up, what was written becomes available, what
    /// nobody wrote is cleared, and when nothing is due the deferred nodes are.
    pub(crate) fn advance(&mut self, plan: &Plan, moves: Moves) {
        self.updated.clear();
        if moves.bump && !moves.outside {
            self.last.clear();
        }
        for index in &moves.consumed {
            if let Some((trigger, planned)) = self.trigger(plan, *index) {
                trigger.consume(&planned.kind);
                let target = planned.target;
                self.last.push(target);
            }
        }
        for node in &moves.branches {
            self.lead_to(plan, *node);
        }
        for node in &moves.arrivals {
            self.arrive(plan, *node);
        }
        if moves.bump {
            self.sends = moves.sends;
            self.clear_unwritten(plan);
            if self.updated.is_empty() {
                self.release_deferred(plan);
            }
        } else {
            self.sends.extend(moves.sends);
        }
    }

    fn trigger<'a>(
        &mut self,
        plan: &'a Plan,
        index: TriggerIdx,
    ) -> Option<(&mut Trigger, &'a crate::plan::TriggerPlan)> {
        self.triggers.get_mut(index.0).zip(plan.triggers.get(index.0))
    }

    fn lead_to(&mut self, plan: &Plan, node: NodeIdx) {
        let index = TriggerIdx(node.0);
        let Some((trigger, planned)) = self.trigger(plan, index) else { return };
        trigger.written = true;
        trigger.finished = false;
        if trigger.is_available(&planned.kind) {
            self.updated.insert(index);
        }
    }

    fn arrive(&mut self, plan: &Plan, node: NodeIdx) {
        let Some(joins) = plan.nodes.get(node.0).map(|n| &n.joins) else { return };
        for index in joins {
            let Some((trigger, planned)) = self.trigger(plan, *index) else { continue };
            if trigger.sources.insert(node) && trigger.is_available(&planned.kind) {
                self.updated.insert(*index);
            }
        }
    }

    /// A trigger of a node lasts one step only.
    fn clear_unwritten(&mut self, plan: &Plan) {
        for (index, (trigger, planned)) in self.triggers.iter_mut().zip(&plan.triggers).enumerate()
        {
            let fleeting = matches!(planned.kind, TriggerKind::Branch { defer: false });
            if fleeting && trigger.written && !self.updated.contains(&TriggerIdx(index)) {
                trigger.written = false;
            }
        }
    }

    fn release_deferred(&mut self, plan: &Plan) {
        for (index, (trigger, planned)) in self.triggers.iter_mut().zip(&plan.triggers).enumerate()
        {
            if planned.kind.is_deferred() && !trigger.finished && trigger.is_full(&planned.kind) {
                trigger.finished = true;
                self.updated.insert(TriggerIdx(index));
            }
        }
    }
}

impl Trigger {
    fn is_full(&self, kind: &TriggerKind) -> bool {
        match kind {
            TriggerKind::Branch { .. } => self.written,
            TriggerKind::Join { sources, .. } => {
                sources.iter().all(|source| self.sources.contains(source))
            }
        }
    }

    fn is_available(&self, kind: &TriggerKind) -> bool {
        self.is_full(kind) && (self.finished || !kind.is_deferred())
    }

    /// Its node ran, or was dropped: the trigger starts over.
    fn consume(&mut self, kind: &TriggerKind) {
        if self.is_available(kind) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{END, PlanBuilder, START};

    fn plan(defer_c: bool) -> Plan {
        let mut builder = PlanBuilder::default();
        for name in ["a", "b", "c"] {
            builder.node(name);
        }
        if defer_c {
            builder.defer("c");
        }
        builder.edge(START, "a");
        builder.edge("a", "b");
        builder.edge("b", END);
        builder.join(vec!["a".into(), "b".into()], "c");
        builder.build().expect("sound")
    }

    fn names(board: &Board, plan: &Plan) -> Vec<String> {
        board.due(plan).iter().map(|(node, _)| plan.node_name(*node).to_owned()).collect()
    }

    fn ran(board: &mut Board, plan: &Plan, nodes: &[usize]) {
        let consumed = board.due(plan).into_iter().flat_map(|(_, triggers)| triggers).collect();
        let nodes: Vec<_> = nodes.iter().map(|n| NodeIdx(*n)).collect();
        let branches = nodes.iter().flat_map(|n| plan.nodes[n.0].edges.clone()).collect();
        let moves = Moves { consumed, bump: true, branches, arrivals: nodes, ..Moves::default() };
        board.advance(plan, moves);
    }

    #[test]
    fn a_join_waits_for_all_its_sources_and_starts_over() {
        for defer in [false, true] {
            let plan = plan(defer);
            let mut board = Board::new(&plan);
            for _ in 0..2 {
                let start = Moves { bump: true, branches: vec![NodeIdx(0)], ..Moves::default() };
                board.advance(&plan, start);
                assert_eq!(names(&board, &plan), ["a"]);
                ran(&mut board, &plan, &[0]);
                assert_eq!(names(&board, &plan), ["b"]);
                ran(&mut board, &plan, &[1]);
                assert_eq!(names(&board, &plan), ["c"], "deferred: {defer}");
                ran(&mut board, &plan, &[2]);
                assert!(board.due(&plan).is_empty());
            }
        }
    }
}
