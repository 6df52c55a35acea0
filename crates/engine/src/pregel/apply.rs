//! Application of the outputs of a superstep's tasks.

use super::control::{Control, Sent, StartInput, Updated};
use super::{Ahead, Machine, Path, Task};
use crate::error::EngineError;
use crate::fold::Batch;
use crate::ids::did_you_mean;
use crate::plan::{ChannelIdx, Finder, NodeIdx, Plan};
use crate::task::{Goto, TaskOutput};
use crate::value::{Slots, Write};
use std::sync::Arc;

/// A task and its output.
#[derive(Debug, Clone, Copy)]
pub struct Done<'a> {
    /// The task.
    pub task: &'a Task,
    /// The output.
    pub output: &'a TaskOutput,
    /// `true` if its node's edges and joins are followed.
    pub edges: bool,
}

impl Path {
    /// The order in which writes are applied.
    fn order(self, plan: &Plan, node: NodeIdx) -> (u8, usize, bool) {
        let rank = plan.rank.get(node.0).copied().unwrap_or_default();
        match self {
            Self::Outside(index) => (0, index as usize, false),
            Self::Pull => (1, rank, false),
            Self::Handler(None) => (1, rank, true),
            Self::Push(index) => (2, index as usize, false),
            Self::Handler(Some(index)) => (2, index as usize, true),
        }
    }
}

impl Machine {
    /// Closes a superstep: applies the outputs of its tasks in task order, and computes the nodes
    /// that are due next. Stores the written channels in `written`.
    ///
    /// # Errors
    /// [`EngineError`] if a write cannot be applied or a target does not exist.
    pub fn apply(
        &mut self,
        done: &mut [Done<'_>],
        written: &mut Vec<ChannelIdx>,
    ) -> Result<(), EngineError> {
        self.apply_ahead(done, None, written)
    }

    /// Closes a superstep whose only task's writes may have been applied to the state before.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_ahead(
        &mut self,
        done: &mut [Done<'_>],
        ahead: Option<Ahead>,
        written: &mut Vec<ChannelIdx>,
    ) -> Result<(), EngineError> {
        let Self { plan, slots, control } = self;
        let plan: &Plan = plan;
        if done.len() > 1 {
            done.sort_by_key(|d| d.task.path.order(plan, d.task.node));
        }
        let next = control.version + 1;
        control.begin(plan, done.iter().map(|d| d.task), next)?;
        if !ahead.is_some_and(|ahead| ahead.reach(slots, written)) {
            plan.fold_all(slots, done, written)?;
        }
        control.note_state(slots, written);
        let mut sends = Vec::new();
        for d in done.iter() {
            control.follow_edges(plan, d, next)?;
            control.follow(plan, d.task.node, &d.output.goto, &mut sends, next)?;
        }
        control.end(plan, slots, Closed { written, sends, next })
    }

    /// Takes new input and drops the nodes that were due. Afterwards the hidden first node is due.
    ///
    /// # Errors
    /// [`EngineError::BrokenInvariant`].
    pub fn take_input(&mut self, input: StartInput) -> Result<(), EngineError> {
        let dropped = self.due()?;
        let Self { plan, slots, control } = self;
        let next = control.version + 1;
        control.begin(plan, dropped.iter(), next)?;
        control.set_start(input, next);
        if !dropped.is_empty() {
            control.end(plan, slots, Closed { written: &[], sends: Vec::new(), next })?;
        }
        Ok(())
    }

    /// Takes input as a change from outside; due nodes stay due.
    pub fn add_input(&mut self, input: StartInput) {
        let next = self.control.version + 1;
        self.control.begin_updated();
        self.control.set_start(input, next);
        self.forget_updated();
    }

    /// Applies changes from outside to the open superstep; due nodes stay due. The changes of several
    /// requests are in order: of two that a channel cannot take in one superstep, the later counts.
    ///
    /// # Errors
    /// [`EngineError`] if a write cannot be applied or a target does not exist.
    pub fn apply_beside(&mut self, output: &TaskOutput) -> Result<(), EngineError> {
        if output.writes.is_empty() && output.goto.is_empty() {
            return Ok(());
        }
        let plan = Arc::clone(&self.plan);
        let next = self.control.version + 1;
        let written = plan.fold_in_order(&mut self.slots, &output.writes)?;
        let mut sends = Vec::new();
        self.control.follow(&plan, NodeIdx::START, &output.goto, &mut sends, next)?;
        if let (false, Updated::Known { any, .. }) = (written.is_empty(), &mut self.control.updated)
        {
            *any = true;
        }
        if !sends.is_empty() {
            self.control.sends = sends.into();
        }
        self.control.version = next;
        Ok(())
    }

    /// Checks a change from outside before it is stored.
    ///
    /// # Errors
    /// [`EngineError`] if one of its writes cannot be applied, two of them cannot be applied
    /// together, or a target does not exist.
    pub fn check_beside(&self, output: &TaskOutput) -> Result<(), EngineError> {
        let mut slots = self.slots.clone();
        let task = Task { node: NodeIdx::START, path: Path::Outside(0), arg: None };
        let done = [Done { task: &task, output, edges: false }];
        self.plan.fold_all(&mut slots, &done, &mut Vec::new())?;
        let mut control = self.control.clone();
        let next = control.version + 1;
        control.follow(&self.plan, NodeIdx::START, &output.goto, &mut Vec::new(), next)
    }
}

impl Control {
    fn set_start(&mut self, input: StartInput, next: u32) {
        self.start = Some(input);
        self.start_version = next;
        self.version = next;
        if let Updated::Known { any, start, .. } = &mut self.updated {
            *any = true;
            *start = true;
        }
    }

    /// Marks the triggers of the tasks as read.
    fn begin<'a>(
        &mut self,
        plan: &Plan,
        tasks: impl Iterator<Item = &'a Task> + Clone,
        next: u32,
    ) -> Result<(), EngineError> {
        self.begin_updated();
        let pulled = tasks.filter(|task| task.path == Path::Pull);
        let pulled = pulled.map(|task| if plan.single { NodeIdx::START } else { task.node });
        for node in pulled.clone() {
            self.mark_read(plan, node)?;
        }
        for node in pulled {
            self.consume(plan, node, next)?;
        }
        Ok(())
    }

    fn note_state(&mut self, slots: &Slots, written: &[ChannelIdx]) {
        let available = written.iter().any(|index| slots.get(index.0).is_some());
        if let (true, Updated::Known { any, .. }) = (available, &mut self.updated) {
            *any = true;
        }
    }

    fn follow_edges(&mut self, plan: &Plan, done: &Done<'_>, next: u32) -> Result<(), EngineError> {
        if !done.edges {
            return Ok(());
        }
        if done.task.node == NodeIdx::START {
            for node in &plan.entry {
                self.lead_to(plan, *node, next)?;
            }
            return Ok(());
        }
        let Some(node) = plan.nodes.get(done.task.node.0) else {
            return Err(EngineError::BrokenInvariant { what: "the plan has no node of a task" });
        };
        for target in &node.edges {
            self.lead_to(plan, *target, next)?;
        }
        for join in &node.joins {
            self.arrive(plan, done.task.node, *join, next)?;
        }
        Ok(())
    }

    fn follow(
        &mut self,
        plan: &Plan,
        from: NodeIdx,
        gotos: &[Goto],
        sends: &mut Vec<Sent>,
        next: u32,
    ) -> Result<(), EngineError> {
        let mut targets = Targets { plan, from, names: plan.finder() };
        for goto in gotos {
            match goto {
                Goto::End => {}
                Goto::Node(name) => {
                    if let Some(node) = targets.find(name)? {
                        self.lead_to(plan, node, next)?;
                    }
                }
                Goto::Send { node, arg } => {
                    let found = targets.find(node)?;
                    let name = match found {
                        Some(index) => Arc::clone(plan.shared_name(index)),
                        None => node.as_str().into(),
                    };
                    if sends.is_empty() {
                        sends.reserve_exact(gotos.len());
                    }
                    sends.push(Sent { node: found, name, arg: Arc::clone(arg) });
                }
            }
        }
        Ok(())
    }

    /// Closes the superstep: replaces the previous sends, clears values that last one superstep,
    /// and releases deferred nodes when nothing else is due.
    fn end(
        &mut self,
        plan: &Plan,
        slots: &mut Slots,
        closed: Closed<'_>,
    ) -> Result<(), EngineError> {
        let Closed { written, sends, next } = closed;
        if let (false, Updated::Known { any, .. }) = (sends.is_empty(), &mut self.updated) {
            *any = true;
        }
        let mut changed = !written.is_empty() || !sends.is_empty() || !self.sends.is_empty();
        self.sends = sends.into();
        self.clear_unwritten(plan, next)?;
        for index in &plan.lapsing {
            if !written.contains(&ChannelIdx(*index)) && slots.get(*index).is_some() {
                slots.set(*index, None);
                changed = true;
            }
        }
        if !self.leads_on() {
            self.release_deferred(plan, next)?;
        }
        if changed {
            self.version = next;
        }
        Ok(())
    }
}

/// A superstep whose outputs are applied.
struct Closed<'a> {
    /// The channels that its tasks wrote.
    written: &'a [ChannelIdx],
    sends: Vec<Sent>,
    /// The count of changes after it.
    next: u32,
}

/// Finds the nodes that an output leads to.
struct Targets<'a> {
    plan: &'a Plan,
    from: NodeIdx,
    names: Finder<'a>,
}

impl<'a> Targets<'a> {
    fn find(&mut self, name: &'a str) -> Result<Option<NodeIdx>, EngineError> {
        let Self { plan, from, names } = self;
        let found = names.find(name);
        if found.is_some() || plan.ignores_unknown() {
            return Ok(found);
        }
        Err(EngineError::UnknownTarget {
            from: plan.node_name(*from).to_owned(),
            to: name.to_owned(),
            known: plan.node_names(),
            did_you_mean: did_you_mean(name, plan.by_name.keys().map(String::as_str)),
        })
    }
}

impl Plan {
    /// Checks that the graph has the nodes an output leads to, or ignores those it does not have.
    ///
    /// # Errors
    /// [`EngineError::UnknownTarget`] for the first it does not have.
    pub fn check_targets(&self, from: NodeIdx, output: &TaskOutput) -> Result<(), EngineError> {
        let mut targets = Targets { plan: self, from, names: self.finder() };
        for goto in &output.goto {
            if let Goto::Node(name) | Goto::Send { node: name, .. } = goto {
                targets.find(name)?;
            }
        }
        Ok(())
    }

    /// Applies writes that were made one after the other from outside. Returns their channels.
    fn fold_in_order(
        &self,
        slots: &mut Slots,
        writes: &[(ChannelIdx, Write)],
    ) -> Result<Vec<ChannelIdx>, EngineError> {
        let by_start = |_: usize| self.node_name(NodeIdx::START).to_owned();
        let mut writes: Vec<_> = writes.iter().collect();
        writes.sort_by_key(|(index, _)| *index);
        let mut written = Vec::new();
        for same in writes.chunk_by(|a, b| a.0 == b.0) {
            let [(index, _), ..] = same else { continue };
            let all: Vec<Write> = same.iter().map(|(_, write)| write.clone()).collect();
            let mut together = slots.clone();
            let by = vec![0; all.len()];
            match self.fold_writes(&mut together, index.0, &all, &by, &by_start) {
                Ok(()) => *slots = together,
                Err(error) if all.len() == 1 => return Err(error),
                Err(_) => {
                    for write in &all {
                        let write = std::slice::from_ref(write);
                        self.fold_writes(slots, index.0, write, &[0], &by_start)?;
                    }
                }
            }
            written.push(*index);
        }
        Ok(written)
    }

    /// Applies the writes of a superstep, those of each channel together and in task order. Stores
    /// the channels in `written`.
    pub(super) fn fold_all(
        &self,
        slots: &mut Slots,
        done: &[Done<'_>],
        written: &mut Vec<ChannelIdx>,
    ) -> Result<(), EngineError> {
        written.clear();
        let name_of = |task: usize| {
            let node = done.get(task).map_or(NodeIdx::START, |d| d.task.node);
            self.node_name(node).to_owned()
        };
        if let [only] = done
            && only.output.writes.is_sorted_by(|a, b| a.0 < b.0)
        {
            written.extend(only.output.writes.iter().map(|(index, _)| *index));
            return self.fold_each(slots, &only.output.writes, &name_of);
        }
        let mut all: Vec<(ChannelIdx, usize, &Write)> = Vec::new();
        for (task, d) in done.iter().enumerate() {
            all.extend(d.output.writes.iter().map(|(index, write)| (*index, task, write)));
        }
        all.sort_by_key(|(index, task, _)| (*index, *task));
        let mut batch = Batch::default();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let [(index, ..), ..] = same else { continue };
            batch.writes.clear();
            batch.by.clear();
            batch.writes.extend(same.iter().map(|(_, _, write)| (*write).clone()));
            batch.by.extend(same.iter().map(|(_, task, _)| *task));
            self.fold_writes(slots, index.0, &batch.writes, &batch.by, &name_of)?;
            written.push(*index);
        }
        Ok(())
    }
}
