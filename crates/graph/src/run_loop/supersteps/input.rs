//! The start of a run: it takes its input, or continues from the thread's checkpoint.

use super::{RunLoop, counted};
use crate::error::RuntimeError;
use crate::run_loop::context::Replay;
use crate::run_loop::event::Source;
use crate::run_loop::options::{Going, LoopInput, StartCommand};
use crate::run_loop::sync::lock;
use crate::semantics::{Resuming, Unanswered};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weftwork_engine::fault_injection::{self, Bug};
use weftwork_engine::pregel::StartInput;
use weftwork_engine::{NodeIdx, TaskOutput, Write};

impl RunLoop {
    /// `passes`: what stopped the thread does not stop it again.
    pub(crate) async fn begin(&mut self, begin: LoopInput, passes: bool) -> Going<()> {
        let scope = Arc::clone(&self.scope);
        let begin = match begin {
            LoopInput::Resumed(answers) => {
                self.answer_past_again(answers).await?;
                LoopInput::Nothing
            }
            other => other,
        };
        self.set_begun();
        if self.starts_anew() {
            scope.set_resuming(Some(false));
        }
        let flag = scope.resuming();
        let goes_on = matches!(begin, LoopInput::Nothing | LoopInput::Command(_));
        let resuming = !self.machine.is_fresh() && flag.unwrap_or(goes_on);
        let waits = scope.graph.semantics().unanswered == Unanswered::Wait;
        if passes && waits && !scope.is_nested() && begin.answers() {
            scope.check_newest_within().await?;
            scope.shared.answers_newest.store(true, Ordering::Relaxed);
        }
        let continues = scope.shared.answers_newest.load(Ordering::Relaxed);
        let named = scope.around.contains_key(&*scope.place.ns);
        let here = scope.is_nested() && named && !continues;
        // Before answers are cleared: they tell which calls may have been made.
        let closed = match &begin {
            LoopInput::Input(_) if !resuming => self.close_left_open().await?,
            _ => false,
        };
        let addressed = self.start.is_addressed();
        let superseded = self.start.is_superseded();
        // Answers at an older checkpoint are for its questions, on a branch of their own.
        let past = superseded && waits && !scope.is_nested() && begin.answers();
        let (begin, kept) = match past {
            true => self.answer_past(begin)?,
            false => (begin, Vec::new()),
        };
        let travels = addressed && (here || past || !(begin.answers() || flag == Some(true)));
        // A branch or a change is left too if its tasks cannot run again in their places.
        let leaves = !self.position.is_forked() || superseded || waits && self.has_asked_for_good();
        let again = travels || superseded;
        self.open.set_runs_again(again);
        if waits {
            // An answer counts once.
            self.open.outside_mut().resume = None;
        }
        if travels || superseded && waits {
            self.open.recorded_mut().iter_mut().for_each(|(_, record)| record.clear_answers());
            self.open.outside_mut().resume = None;
        }
        self.keep_answers(&kept);
        let forks = resuming && travels && leaves;
        if !resuming || again {
            self.counters.set_recount(self.counted_in_records());
        }
        let (begin, given) = match begin {
            LoopInput::Command(command) => (LoopInput::Nothing, Some(command)),
            other => (other, None),
        };
        let command = match given {
            Some(given) => Some(self.take_command(given, forks).await?),
            None => None,
        };
        let beside = self.open.outside().output.clone();
        self.machine.apply_beside(&beside).map_err(RuntimeError::Engine)?;
        *lock(&scope.answer) = self.open.outside().resume.clone();
        let mut bound = None;
        if resuming {
            if passes {
                self.machine.pass();
            }
            bound = self.go_on(forks).await?;
            if forks {
                self.store_answers(kept).await?;
            }
        } else if let Some(input) = match begin {
            LoopInput::Input(input) => Some(input),
            // Without anything to continue, a command is input too.
            _ => command.map(|output| StartInput::Writes(Arc::new(output))),
        } {
            self.machine.take_input(self.with_messages(input)?);
            self.clear_recorded();
            if !closed {
                self.counters.clear_written();
            }
            self.checkpoint(Source::Input).await?;
        } else if flag.is_none() {
            return Err(RuntimeError::EmptyInput);
        }
        if !scope.is_nested() {
            scope.set_resuming(Some(resuming));
            if travels {
                let parent = self.position.parent().filter(|_| self.position.is_forked());
                let bound = bound.or(parent).or(self.position.id());
                *lock(&scope.replay) = bound.map(|bound| Arc::new(Replay::new(bound)));
            }
        }
        Ok(())
    }

    /// Continues past the stop of the thread; on a branch of its own if that was requested.
    async fn go_on(&mut self, forks: bool) -> Going<Option<weftwork_types::CheckpointId>> {
        let mut bound = None;
        if forks {
            if self.position.is_forked() {
                bound = self.position.parent();
            }
            self.open.recorded_mut().iter_mut().for_each(|(_, record)| record.clear_questions());
            self.counters.clear_written();
            self.checkpoint(Source::Fork).await?;
        }
        self.emitted = Some(self.machine.slots().clone());
        self.scope.emit_values(self.machine.slots(), None);
        Ok(bound)
    }

    pub(crate) fn clear_recorded(&mut self) {
        self.open.clear_records();
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
            return Err(RuntimeError::EmptyInput);
        }
        let mut output = TaskOutput::default();
        for next in goto {
            output.goto.push(next.into_goto().map_err(node_fail)?);
        }
        let scope = &self.scope;
        let parent = self.position.id();
        let place =
            format!("{}\u{0}{}\u{0}command\u{0}{parent:?}", scope.shared.thread, scope.place.ns);
        let update = scope.graph.with_whole_messages(update, &place)?;
        output.named = update.into_iter().map(|(name, json)| (name, Write::json(json))).collect();
        let plan = self.scope.graph.plan();
        plan.find_named(NodeIdx::START, &mut output).map_err(RuntimeError::Engine)?;
        // A change that cannot be applied must not be stored: the thread could not be read with it.
        self.machine.check_beside(&output).map_err(RuntimeError::Engine)?;
        if forks {
            self.counters.recount(counted(plan, &output));
        }
        let outside = self.open.outside_mut();
        outside.output.writes.extend(output.writes.iter().cloned());
        outside.output.goto.extend_from_slice(&output.goto);
        output.writes.retain(|(index, _)| plan.is_input(*index));
        if !nothing {
            self.open.outside_mut().resume = one;
        }
        if !nothing
            && !forks
            && !self.on_exit()
            && let (Some(checkpointer), Some(id)) =
                (&self.scope.keep.checkpointer, self.position.id())
        {
            let (at, outside) = (&self.scope.place, self.open.outside().clone());
            checkpointer.put_outside(at, self.scope.graph.plan(), id, outside).await?;
        }
        Ok(output)
    }

    /// Returns `true` if a graph that stores its own state was last run by another task than the
    /// current one.
    fn starts_anew(&self) -> bool {
        let scope = &self.scope;
        scope.keep.own
            && scope.resuming() == Some(true)
            && self.position.metadata().parents != scope.around
            && !fault_injection::has(Bug::DropsOwnInput)
            && scope.graph.semantics().resuming == Resuming::Exact
    }
}

fn node_fail(error: crate::error::NodeError) -> RuntimeError {
    RuntimeError::Node(error.into_fault())
}
