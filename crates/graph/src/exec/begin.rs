//! The start of a run: it takes its input, or continues from the thread's checkpoint.

use super::api::{Fail, Going, Resuming, StartCommand, Unanswered};
use super::cycle::Cycle;
use super::event::Source;
use super::saver::TaskRecord;
use super::scope::{Replay, lock};
use crate::error::RuntimeError;
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_engine::planted::{self, Bug};
use weftwork_engine::pregel::StartInput;
use weftwork_engine::{ChannelIdx, NodeIdx, TaskOutput, Write};

/// Starting point of a loop.
pub(crate) enum Begin {
    Input(StartInput),
    Nothing,
    Command(StartCommand),
}

impl Begin {
    fn answers(&self) -> bool {
        matches!(self, Self::Command(StartCommand { resume: Some(_), .. }))
    }
}

impl Cycle {
    /// `passes`: what stopped the thread does not stop it again.
    pub(super) async fn begin(&mut self, begin: Begin, passes: bool) -> Going<()> {
        let scope = Arc::clone(&self.scope);
        if self.starts_anew() {
            scope.set_resuming(Some(false));
        }
        let flag = scope.resuming();
        let goes_on = matches!(begin, Begin::Nothing | Begin::Command(_));
        let resuming = !self.machine.is_fresh() && flag.unwrap_or(goes_on);
        let here = scope.is_nested() && scope.around.contains_key(&*scope.place.ns);
        let travels = self.addressed && (here || !(begin.answers() || flag == Some(true)));
        self.replaying = travels || self.superseded;
        let waits = scope.graph.semantics().unanswered == Unanswered::Wait;
        if waits {
            // An answer counts once.
            self.outside.resume = None;
        }
        if travels || self.superseded && waits {
            self.known.iter_mut().for_each(|(_, record)| record.resume = None);
            self.outside.resume = None;
        }
        let forked = matches!(self.meta.source, Source::Update | Source::Fork);
        let forks = resuming && travels && (!forked || self.superseded);
        if !resuming || self.replaying {
            self.recount = self.counted_in_known();
        }
        let (begin, given) = match begin {
            Begin::Command(command) => (Begin::Nothing, Some(command)),
            other => (other, None),
        };
        let command = match given {
            Some(given) => Some(self.take_command(given, forks).await?),
            None => None,
        };
        let beside = self.outside.output.clone();
        self.machine.apply_beside(&beside).map_err(RuntimeError::Engine)?;
        *lock(&scope.answer) = self.outside.resume.clone();
        let mut bound = None;
        if resuming {
            if passes {
                self.machine.pass();
            }
            bound = self.go_on(forks).await?;
        } else if let Some(input) = match begin {
            Begin::Input(input) => Some(input),
            // Where nothing is to be gone on with, a command is input too.
            _ => command.map(|output| StartInput::Writes(Arc::new(output))),
        } {
            self.machine.take_input(input);
            self.forget_known();
            self.written.clear();
            self.checkpoint(Source::Input).await?;
        } else if flag.is_none() {
            return Err(RuntimeError::EmptyInput.into());
        }
        if !scope.is_nested() {
            scope.set_resuming(Some(resuming));
            if travels {
                let forked = matches!(self.meta.source, Source::Update | Source::Fork);
                let bound = bound.or(self.prev.filter(|_| forked)).unwrap_or(self.id);
                *lock(&scope.replay) = Some(Arc::new(Replay::new(bound)));
            }
        }
        Ok(())
    }

    /// Goes on past what stopped the thread; on a branch of its own when that was asked for.
    async fn go_on(&mut self, forks: bool) -> Going<Option<weftwork_types::CheckpointId>> {
        let mut bound = None;
        if forks {
            if matches!(self.meta.source, Source::Update | Source::Fork) {
                bound = self.prev;
            }
            self.known.iter_mut().for_each(|(_, record)| record.interrupts.clear());
            self.written.clear();
            self.checkpoint(Source::Fork).await?;
        }
        self.told = Some(self.machine.slots().clone());
        self.scope.tell_values(self.machine.slots(), None);
        Ok(bound)
    }

    pub(super) fn forget_known(&mut self) {
        self.known.clear();
        self.outside = super::saver::Outside::default();
        *lock(&self.scope.answer) = None;
        lock(&self.scope.calls).clear();
    }

    /// Returns what the command writes and where it leads.
    async fn take_command(&mut self, command: StartCommand, forks: bool) -> Going<TaskOutput> {
        let StartCommand { goto, update, resume } = command;
        let answers = resume.is_some();
        let one = resume.map_or(Ok(None), |resume| self.accept(resume))?;
        let nothing = goto.is_empty() && update.is_empty() && one.is_none();
        if nothing && !answers {
            return Err(RuntimeError::EmptyInput.into());
        }
        let mut output = TaskOutput::default();
        for next in goto {
            output.goto.push(next.into_goto().map_err(node_fail)?);
        }
        output.named = update.into_iter().map(|(name, json)| (name, Write::json(json))).collect();
        let plan = self.scope.graph.plan();
        plan.find_named(NodeIdx::START, &mut output).map_err(RuntimeError::Engine)?;
        if forks {
            self.recount.extend(counted(plan, &output));
        }
        self.outside.output.writes.extend(output.writes.iter().cloned());
        self.outside.output.goto.extend_from_slice(&output.goto);
        output.writes.retain(|(index, _)| plan.is_input(*index));
        if !nothing {
            self.outside.resume = one;
        }
        if !nothing
            && !forks
            && !self.on_exit()
            && let Some(saver) = &self.scope.keep.saver
        {
            let (at, outside) = (&self.scope.place, self.outside.clone());
            saver.put_outside(at, self.scope.graph.plan(), self.id, outside).await?;
        }
        Ok(output)
    }

    /// Returns `true` if a graph that keeps its own state was last run by another task than the
    /// current one.
    fn starts_anew(&self) -> bool {
        let scope = &self.scope;
        scope.keep.own
            && scope.resuming() == Some(true)
            && self.meta.parents != scope.around
            && !planted::has(Bug::DropsOwnInput)
            && scope.graph.semantics().resuming == Resuming::Exact
    }

    /// Counted channels that tasks wrote whose results are not used.
    fn counted_in_known(&self) -> BTreeSet<ChannelIdx> {
        let plan = self.scope.graph.plan();
        let outputs =
            self.known.iter().filter_map(|(_, TaskRecord { output, .. })| output.as_ref());
        let mut found: BTreeSet<_> = outputs.flat_map(|output| counted(plan, output)).collect();
        found.extend(counted(plan, &self.outside.output));
        found
    }
}

/// The counted channels that an output writes.
pub(super) fn counted(plan: &weftwork_engine::Plan, output: &TaskOutput) -> Vec<ChannelIdx> {
    let counted: Vec<_> = plan.counted().map(|(index, _)| index).collect();
    if counted.is_empty() {
        return counted;
    }
    output.writes.iter().map(|(index, _)| *index).filter(|i| counted.contains(i)).collect()
}

fn node_fail(error: crate::error::NodeError) -> Fail {
    Fail::Error(RuntimeError::Node(error.into_fault()))
}
