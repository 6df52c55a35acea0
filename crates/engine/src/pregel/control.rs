//! The control state, which decides the nodes that are due: the triggers of nodes and joins, the
//! input, and the pending sends.
//!
//! Source: the channels that LangGraph gives to nodes and joins (`EphemeralValue`,
//! `NamedBarrierValue` and their `AfterFinish` forms), and the versions by which `apply_writes` and
//! `prepare_next_tasks` of `pregel/_algo.py` decide (`docs/adr/0006-what-is-due.md`).

use crate::error::EngineError;
use crate::plan::{NodeIdx, Plan, TriggerIdx, TriggerKind, TriggerPlan};
use crate::task::Arg;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A control state that does not fit its plan. It is copied and has nothing to drop, because the
/// functions below run several times for each task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Misfit(&'static str);

impl From<Misfit> for EngineError {
    fn from(Misfit(what): Misfit) -> Self {
        Self::BrokenInvariant { what }
    }
}

const NO_TRIGGER: Misfit = Misfit("the control state has no such trigger");

fn trigger_plan(plan: &Plan, index: TriggerIdx) -> Result<&TriggerPlan, Misfit> {
    plan.triggers.get(index.0).ok_or(Misfit("the plan has no such trigger"))
}

fn triggers_of(plan: &Plan, node: NodeIdx) -> Result<&[TriggerIdx], Misfit> {
    let node = plan.nodes.get(node.0).ok_or(Misfit("the plan has no such node"))?;
    Ok(node.triggers.as_slice())
}

/// A list of indices, usually one or two.
pub(crate) type Indices<T> = SmallVec<[T; 2]>;

/// New input, as received.
#[derive(Debug, Clone)]
pub enum StartInput {
    /// JSON from outside.
    Json(Arc<serde_json::Value>),
    /// Typed writes.
    Writes(Arc<crate::task::TaskOutput>),
}

/// A pending send.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The node; `None` if the graph has no such node and ignores that.
    pub node: Option<NodeIdx>,
    /// The name it was sent to.
    pub name: Arc<str>,
    /// The argument it receives.
    pub arg: Arc<Arg>,
}

/// The pending sends. Clones share them, because every checkpoint has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sends(Option<Arc<[Sent]>>);

impl From<Vec<Sent>> for Sends {
    fn from(sends: Vec<Sent>) -> Self {
        Self((!sends.is_empty()).then(|| sends.into()))
    }
}

impl std::ops::Deref for Sends {
    type Target = [Sent];

    fn deref(&self) -> &[Sent] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// A trigger, with the counts of changes at which it last changed and was last read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) version: u32,
    pub(crate) seen: u32,
    /// For the trigger of a node: `true` if an edge, route or command led to it.
    pub(crate) written: bool,
    /// For deferred targets: `true` if no other node was due.
    pub(crate) finished: bool,
}

/// The triggers of a graph, in one allocation because every checkpoint clones them.
#[derive(Debug, Default)]
pub(crate) struct Triggers(SmallVec<[Trigger; 12]>);

impl Clone for Triggers {
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl std::ops::Deref for Triggers {
    type Target = [Trigger];

    fn deref(&self) -> &[Trigger] {
        &self.0
    }
}

impl std::ops::DerefMut for Triggers {
    fn deref_mut(&mut self) -> &mut [Trigger] {
        &mut self.0
    }
}

/// The triggers and input that the last superstep made available.
#[derive(Debug, Clone, Default)]
pub(crate) enum Updated {
    /// Unknown: all nodes are checked, in the order in which they were added.
    #[default]
    Unknown,
    /// Known.
    Known {
        /// `true` if anything was updated, state included.
        any: bool,
        /// `true` if the input was updated.
        start: bool,
        /// The triggers that became available.
        triggers: Indices<TriggerIdx>,
    },
}

/// The control state of a checkpoint: triggers, input and pending sends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control {
    pub(crate) triggers: Triggers,
    /// The finished sources of joins.
    pub(crate) arrived: BTreeMap<TriggerIdx, BTreeSet<NodeIdx>>,
    /// The triggers of nodes that are written.
    pub(crate) written: Indices<TriggerIdx>,
    pub(crate) sends: Sends,
    pub(crate) start: Option<StartInput>,
    pub(crate) start_version: u32,
    pub(crate) start_seen: u32,
    pub(crate) updated: Updated,
    /// Number of changes so far.
    pub(crate) version: u32,
    /// The value of `version` when the run last continued past an interrupt.
    pub(crate) passed: u32,
}

impl Control {
    pub(crate) fn new(plan: &Plan) -> Self {
        let triggers = Triggers(SmallVec::from_elem(Trigger::default(), plan.triggers.len()));
        Self { triggers, ..Self::default() }
    }

    /// The state of a trigger. Control states are made for their plan, or checked against it when
    /// they are read, so that each trigger of the plan has one.
    pub(crate) fn trigger(&self, index: TriggerIdx) -> Result<&Trigger, Misfit> {
        self.triggers.get(index.0).ok_or(NO_TRIGGER)
    }

    fn trigger_mut(&mut self, index: TriggerIdx) -> Result<&mut Trigger, Misfit> {
        self.triggers.get_mut(index.0).ok_or(NO_TRIGGER)
    }

    fn is_full(&self, plan: &Plan, index: TriggerIdx) -> Result<bool, Misfit> {
        Ok(match &trigger_plan(plan, index)?.kind {
            TriggerKind::Branch { .. } => self.trigger(index)?.written,
            TriggerKind::Join { sources, .. } => self
                .arrived
                .get(&index)
                .is_some_and(|arrived| sources.iter().all(|source| arrived.contains(source))),
        })
    }

    fn is_deferred(plan: &Plan, index: TriggerIdx) -> Result<bool, Misfit> {
        Ok(trigger_plan(plan, index)?.kind.is_deferred())
    }

    fn is_available(&self, plan: &Plan, index: TriggerIdx) -> Result<bool, Misfit> {
        Ok(self.is_full(plan, index)?
            && (self.trigger(index)?.finished || !Self::is_deferred(plan, index)?))
    }

    /// `true` if one of a node's triggers is available and changed since the node last ran.
    fn is_due(&self, plan: &Plan, node: NodeIdx) -> Result<bool, Misfit> {
        if node == NodeIdx::START {
            return Ok(self.start.is_some() && self.start_version > self.start_seen);
        }
        for index in triggers_of(plan, node)? {
            let trigger = self.trigger(*index)?;
            if trigger.version > trigger.seen && self.is_available(plan, *index)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the nodes that are not due.
    fn retain_due(
        &self,
        plan: &Plan,
        mut candidates: Indices<NodeIdx>,
    ) -> Result<Indices<NodeIdx>, Misfit> {
        let mut misfit = None;
        candidates.retain(|node| match self.is_due(plan, *node) {
            Ok(is_due) => is_due,
            Err(found) => {
                misfit = Some(found);
                false
            }
        });
        misfit.map_or(Ok(candidates), Err)
    }

    /// The nodes that are due. If the triggers updated by the last superstep are known, only these
    /// are checked, by name; otherwise all nodes, in the order in which they were added.
    pub(crate) fn due(&self, plan: &Plan) -> Result<Indices<NodeIdx>, Misfit> {
        let mut candidates = Indices::new();
        match &self.updated {
            Updated::Known { any: true, start, triggers } => {
                if *start {
                    candidates.push(NodeIdx::START);
                }
                for index in triggers {
                    candidates.push(trigger_plan(plan, *index)?.target);
                }
                if candidates.len() > 1 {
                    candidates.sort_by_key(|node| plan.rank.get(node.0).copied());
                    candidates.dedup();
                }
            }
            Updated::Known { .. } | Updated::Unknown => return self.due_in_order(plan),
        }
        self.retain_due(plan, candidates)
    }

    /// The nodes that are due, in the order in which they were added.
    pub(crate) fn due_in_order(&self, plan: &Plan) -> Result<Indices<NodeIdx>, Misfit> {
        let mut candidates = Indices::new();
        if self.start.is_some() {
            candidates.push(NodeIdx::START);
        }
        let mut nodes: Indices<NodeIdx> = Indices::new();
        for index in self.written.iter().chain(self.arrived.keys()) {
            nodes.push(trigger_plan(plan, *index)?.target);
        }
        nodes.sort_unstable();
        nodes.dedup();
        candidates.extend(nodes);
        self.retain_due(plan, candidates)
    }

    /// Marks the triggers of a node as read, after it ran or was dropped.
    pub(crate) fn mark_read(&mut self, plan: &Plan, node: NodeIdx) -> Result<(), Misfit> {
        if node == NodeIdx::START {
            self.start_seen = self.start_version;
            return Ok(());
        }
        for index in triggers_of(plan, node)? {
            let trigger = self.trigger_mut(*index)?;
            trigger.seen = trigger.version;
        }
        Ok(())
    }

    /// Resets the triggers that a node has read: joins, and deferrals that were released.
    pub(crate) fn consume(&mut self, plan: &Plan, node: NodeIdx, next: u32) -> Result<(), Misfit> {
        if node == NodeIdx::START {
            return Ok(());
        }
        for index in triggers_of(plan, node)? {
            let join = index.0 >= plan.nodes.len();
            if !(join || Self::is_deferred(plan, *index)?) || !self.is_available(plan, *index)? {
                continue;
            }
            self.arrived.remove(index);
            self.written.retain(|written| *written != *index);
            let trigger = self.trigger_mut(*index)?;
            *trigger = Trigger { version: next, seen: trigger.seen, ..Trigger::default() };
            self.version = next;
        }
        Ok(())
    }

    /// Records that an edge, a route or a command leads to a node.
    pub(crate) fn lead_to(&mut self, plan: &Plan, node: NodeIdx, next: u32) -> Result<(), Misfit> {
        let index = TriggerIdx(node.0);
        let deferred = Self::is_deferred(plan, index)?;
        let before = *self.trigger(index)?;
        if !before.written {
            self.written.push(index);
        }
        *self.trigger_mut(index)? =
            Trigger { version: next, seen: before.seen, written: true, finished: false };
        self.version = next;
        // A deferred node becomes available only when no other node is due.
        if !deferred {
            self.note(index);
        }
        Ok(())
    }

    /// Records the end of a source of a join.
    pub(crate) fn arrive(
        &mut self,
        plan: &Plan,
        node: NodeIdx,
        join: TriggerIdx,
        next: u32,
    ) -> Result<(), Misfit> {
        if !self.arrived.entry(join).or_default().insert(node) {
            return Ok(());
        }
        self.trigger_mut(join)?.version = next;
        self.version = next;
        if self.is_available(plan, join)? {
            self.note(join);
        }
        Ok(())
    }

    /// Starts the record of updated triggers.
    pub(crate) fn begin_updated(&mut self) {
        match &mut self.updated {
            Updated::Known { any, start, triggers } => {
                *any = false;
                *start = false;
                triggers.clear();
            }
            Updated::Unknown => {
                self.updated =
                    Updated::Known { any: false, start: false, triggers: Indices::new() };
            }
        }
    }

    fn note(&mut self, index: TriggerIdx) {
        if let Updated::Known { any, triggers, .. } = &mut self.updated {
            *any = true;
            if !triggers.contains(&index) {
                triggers.push(index);
            }
        }
    }

    fn is_noted(&self, index: TriggerIdx) -> bool {
        matches!(&self.updated, Updated::Known { triggers, .. } if triggers.contains(&index))
    }

    /// `true` if a trigger became available.
    pub(crate) fn leads_on(&self) -> bool {
        match &self.updated {
            Updated::Known { start, triggers, .. } => *start || !triggers.is_empty(),
            Updated::Unknown => false,
        }
    }

    /// Clears the triggers and the input that were not written in this superstep.
    pub(crate) fn clear_unwritten(&mut self, plan: &Plan, next: u32) -> Result<(), Misfit> {
        let before = self.written.len();
        let mut written = Indices::new();
        for index in std::mem::take(&mut self.written) {
            if Self::is_deferred(plan, index)? || self.is_noted(index) {
                written.push(index);
            } else {
                let trigger = self.trigger_mut(index)?;
                trigger.written = false;
                trigger.version = next;
            }
        }
        self.written = written;
        let start = matches!(self.updated, Updated::Known { start: true, .. });
        let started = !start && self.start.take().is_some();
        if started {
            self.start_version = next;
        }
        if started || before != self.written.len() {
            self.version = next;
        }
        Ok(())
    }

    /// Releases deferred nodes, after no other node is due.
    pub(crate) fn release_deferred(&mut self, plan: &Plan, next: u32) -> Result<(), Misfit> {
        for index in &plan.deferred {
            if self.trigger(*index)?.finished || !self.is_full(plan, *index)? {
                continue;
            }
            let trigger = self.trigger_mut(*index)?;
            trigger.finished = true;
            trigger.version = next;
            self.version = next;
            self.note(*index);
        }
        Ok(())
    }

    /// The node that ran last, if there is only one.
    pub(crate) fn last_node(&self, plan: &Plan) -> Option<NodeIdx> {
        if plan.single {
            return Some(NodeIdx(0));
        }
        let seen = self.triggers.iter().zip(&plan.triggers).filter(|(t, _)| t.version > 0);
        let seen = seen.filter(|(trigger, _)| trigger.seen > 0);
        let mut seen: Vec<_> =
            seen.map(|(trigger, planned)| (trigger.seen, planned.target)).collect();
        if self.start_seen > 0 {
            seen.push((self.start_seen, NodeIdx::START));
        }
        seen.sort_unstable_by_key(|(version, _)| *version);
        match seen.as_slice() {
            [] => Some(NodeIdx::START),
            [(_, node)] => Some(*node),
            [.., (second, _), (first, node)] if first != second => Some(*node),
            _ => None,
        }
    }
}
