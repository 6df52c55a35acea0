//! The start of a run: it takes its input, or continues from the thread's checkpoint.

use super::loop_start::{
    LoopRequest, LoopStart, RecordUse, Request, StartFacts, StoredStart, SubgraphStart,
};
use super::past::{KeptAnswers, PastAnswers};
use super::{RunLoop, counted_channels};
use crate::error::RuntimeError;
use crate::run_loop::context::{Replay, RunEntry};
use crate::run_loop::event::Source;
use crate::run_loop::options::{LoopInput, LoopResult, Options, StartCommand};
use crate::run_loop::sync::lock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weftwork_engine::pregel::StartInput;
use weftwork_engine::{NodeIdx, TaskOutput, Write};
use weftwork_types::CheckpointId;

/// Branch on which a loop starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BranchStart {
    /// The branch of the loaded checkpoint.
    Loaded,
    /// A new branch.
    New,
}

impl RunLoop {
    /// Starts the loop: takes its input, or continues from its checkpoint.
    pub(crate) async fn begin(&mut self, input: LoopInput, options: &Options) -> LoopResult<()> {
        let input = match input {
            LoopInput::Resumed(answers) => {
                self.answer_past_again(answers).await?;
                LoopInput::Nothing
            }
            other => other,
        };
        self.set_begun();
        if self.starts_anew() {
            self.loop_context.set_entry(RunEntry::Starts);
        }
        // A process that continues a run stops where the one before it would have stopped.
        let passes_stop = options.continued.is_none();
        if passes_stop && self.waits() && !self.loop_context.is_nested() && input.answers() {
            self.loop_context.check_newest_within().await?;
            self.loop_context.run.answers_newest.store(true, Ordering::Relaxed);
        }
        let start = LoopStart::decide(&self.start_facts(&input));
        let origin = match start {
            LoopStart::Fresh { .. } => {
                self.take_fresh_input(start, input).await?;
                None
            }
            LoopStart::Resume { .. } | LoopStart::Continue { .. } | LoopStart::Replay => {
                self.use_records(start, &[])?;
                self.apply_request(input, BranchStart::Loaded).await?;
                self.continue_past(passes_stop);
                None
            }
            LoopStart::Fork => self.start_fork(input, passes_stop).await?,
        };
        if !self.loop_context.is_nested() {
            let is_fresh = matches!(start, LoopStart::Fresh { .. });
            self.loop_context.set_entry(if is_fresh {
                RunEntry::Starts
            } else {
                RunEntry::Resumes
            });
            if start.subgraphs() == SubgraphStart::Replayed {
                // Subgraphs had their state before the tasks of the loaded checkpoint ran. A branch
                // repeats those of the checkpoint that it leaves.
                let parent = self.position.parent().filter(|_| self.position.is_forked());
                let bound = origin.or(parent).or(self.position.id());
                *lock(&self.loop_context.replay) = bound.map(|bound| Arc::new(Replay::new(bound)));
            }
        }
        Ok(())
    }

    /// Returns the facts that decide the start of the loop.
    fn start_facts(&self, input: &LoopInput) -> StartFacts {
        let loop_context = &self.loop_context;
        let request = match input {
            _ if loop_context.is_nested() => LoopRequest::Nested {
                has_input: matches!(input, LoopInput::Input(_)),
                entry: loop_context.entry(),
                answers_newest: loop_context.run.answers_newest.load(Ordering::Relaxed),
            },
            LoopInput::Input(_) => LoopRequest::Outermost(Request::Input),
            LoopInput::Command(_) if input.answers() => LoopRequest::Outermost(Request::Answers),
            LoopInput::Command(_) => LoopRequest::Outermost(Request::Command),
            LoopInput::Nothing | LoopInput::Resumed(_) => LoopRequest::Outermost(Request::Nothing),
        };
        let stored = if self.machine.is_fresh() {
            StoredStart::Nothing
        } else if self.position.is_forked() {
            StoredStart::Branch { is_repeatable: !self.has_asked_for_good() }
        } else {
            StoredStart::Superstep
        };
        let waits = loop_context.graph.settings().waits_for_answers;
        StartFacts { request, point: self.start, stored, waits }
    }

    /// Takes the input, or a command in place of one if there is nothing that it could change.
    async fn take_fresh_input(&mut self, start: LoopStart, input: LoopInput) -> LoopResult<()> {
        // Closers read the answers on record, which show the calls that may have been made: answers
        // are cleared after them.
        let has_closed = match &input {
            LoopInput::Input(_) => self.close_left_open().await?,
            _ => false,
        };
        let PastAnswers { rest, kept } = self.take_past_answers(start, input)?;
        self.use_records(start, &kept)?;
        let (given, command) = match rest {
            LoopInput::Input(input) => (Some(input), LoopInput::Nothing),
            command => (None, command),
        };
        let written = self.apply_request(command, BranchStart::Loaded).await?;
        let written = written.map(|output| StartInput::Writes(Arc::new(output)));
        let Some(input) = given.or(written) else {
            // A graph that a task runs without input is due nothing in the superstep with which the
            // run starts or continues. Elsewhere the caller has forgotten the input.
            return match self.loop_context.entry() {
                RunEntry::Passed => Err(RuntimeError::EmptyInput),
                RunEntry::Starts | RunEntry::Resumes => Ok(()),
            };
        };
        self.machine.take_input(self.with_messages(input)?).map_err(RuntimeError::Engine)?;
        self.clear_recorded();
        if !has_closed {
            self.counters.clear_written();
        }
        // The checkpoint of the input contains what closers wrote, so that a crash before it
        // repeats both.
        self.checkpoint(Source::Input).await
    }

    /// Continues on a branch of its own. Returns the checkpoint that was left, if it was itself a
    /// branch: its parent.
    async fn start_fork(
        &mut self,
        input: LoopInput,
        passes_stop: bool,
    ) -> LoopResult<Option<CheckpointId>> {
        let PastAnswers { rest, kept } = self.take_past_answers(LoopStart::Fork, input)?;
        self.use_records(LoopStart::Fork, &kept)?;
        self.apply_request(rest, BranchStart::New).await?;
        if passes_stop {
            self.machine.pass();
        }
        let origin = self.position.parent().filter(|_| self.position.is_forked());
        // The tasks ask again, under ids of the branch. Those on record stay with the branch that
        // it leaves.
        self.open.recorded_mut().iter_mut().for_each(|(_, record)| record.clear_questions());
        self.counters.clear_written();
        // Before a task asks: otherwise the newest checkpoint would still be that of the branch that is
        // left, and the answer would continue there.
        self.checkpoint(Source::Fork).await?;
        self.emit_start();
        // The answers follow the checkpoint that they are stored with. After a crash between them,
        // the next process takes them from the request again.
        self.store_answers(kept).await?;
        Ok(origin)
    }

    /// Continues in the place of the loaded checkpoint. If `passes_stop`, the stop that ended the
    /// run before does not end this one.
    fn continue_past(&mut self, passes_stop: bool) {
        if passes_stop {
            self.machine.pass();
        }
        self.emit_start();
    }

    fn emit_start(&mut self) {
        self.emitted = Some(self.machine.slots().clone());
        self.loop_context.emit_values(self.machine.slots(), None);
    }

    /// Takes the answers to questions of an older checkpoint, if the start goes back to it.
    fn take_past_answers(&self, start: LoopStart, input: LoopInput) -> LoopResult<PastAnswers> {
        match start.subgraphs() {
            SubgraphStart::Replayed => self.answer_past(input),
            SubgraphStart::Newest => Ok(PastAnswers { rest: input, kept: Vec::new() }),
        }
    }

    /// Prepares the records of the open superstep for their use by the start, with the answers that
    /// its tasks have from the start.
    fn use_records(&mut self, start: LoopStart, kept: &[KeptAnswers]) -> LoopResult<()> {
        let records = start.record_use();
        self.open.set_record_use(records);
        if self.waits() || records == RecordUse::Calls {
            // An answer counts once.
            self.open.outside_mut().resume = None;
        }
        if records == RecordUse::Calls {
            self.open.recorded_mut().iter_mut().for_each(|(_, record)| record.clear_answers());
        }
        // After the old answers are cleared: these are the new ones.
        self.keep_answers(kept)?;
        let is_fresh = matches!(start, LoopStart::Fresh { .. });
        if is_fresh || records != RecordUse::Results {
            // The results on record are not used: what they wrote is not in the next checkpoint.
            self.counters.set_recount(self.counted_in_records());
        }
        Ok(())
    }

    /// Applies the command, if there is one, and the changes from outside that are on record. Returns
    /// the writes of the command.
    async fn apply_request(
        &mut self,
        input: LoopInput,
        branch: BranchStart,
    ) -> LoopResult<Option<TaskOutput>> {
        let written = match input {
            LoopInput::Command(command) => Some(self.take_command(command, branch).await?),
            LoopInput::Input(_) | LoopInput::Nothing | LoopInput::Resumed(_) => None,
        };
        let outside = self.open.outside().output.clone();
        self.machine.apply_beside(&outside).map_err(RuntimeError::Engine)?;
        *lock(&self.loop_context.answer) = self.open.outside().resume.clone();
        Ok(written)
    }

    pub(crate) fn clear_recorded(&mut self) {
        self.open.clear_records();
        *lock(&self.loop_context.answer) = None;
        lock(&self.loop_context.calls).clear();
    }

    /// Returns what the command writes and where it leads.
    async fn take_command(
        &mut self,
        command: StartCommand,
        branch: BranchStart,
    ) -> LoopResult<TaskOutput> {
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
        let loop_context = &self.loop_context;
        let parent = self.position.id();
        // Ids of messages follow from the place: a process that repeats the command adds no second
        // copy.
        let place = format!(
            "{}\u{0}{}\u{0}command\u{0}{parent:?}",
            loop_context.run.options.thread, loop_context.address.ns
        );
        let update = loop_context.graph.with_whole_messages(update, &place)?;
        output.named = update.into_iter().map(|(name, json)| (name, Write::json(json))).collect();
        let plan = self.loop_context.graph.plan();
        plan.find_named(NodeIdx::START, &mut output).map_err(RuntimeError::Engine)?;
        // A change that cannot be applied must not be stored: the thread could not be read with it.
        self.machine.check_beside(&output).map_err(RuntimeError::Engine)?;
        if branch == BranchStart::New {
            self.counters.recount(counted_channels(plan, &output));
        }
        let outside = self.open.outside_mut();
        outside.output.writes.extend(output.writes.iter().cloned());
        outside.output.goto.extend_from_slice(&output.goto);
        output.writes.retain(|(index, _)| plan.is_input(*index));
        if !nothing {
            self.open.outside_mut().resume = one;
        }
        // Before a task runs: a process that takes the run over continues with the change, and does
        // not apply the command again.
        if !nothing
            // The first checkpoint of a branch contains the change.
            && branch == BranchStart::Loaded
            && !self.on_exit()
            && let (Some(checkpointer), Some(id)) =
                (&self.loop_context.storage.checkpointer, self.position.id())
        {
            let at = &self.loop_context.address;
            let outside = self.open.outside().clone();
            checkpointer.put_outside(at, self.loop_context.graph.plan(), id, outside).await?;
        }
        Ok(output)
    }

    /// Returns `true` if a graph that stores its own state was last run by another task than the
    /// current one.
    fn starts_anew(&self) -> bool {
        let loop_context = &self.loop_context;
        loop_context.storage.own
            && loop_context.entry() == RunEntry::Resumes
            && self.position.metadata().parents != loop_context.enclosing
            && loop_context.graph.settings().takes_input_of_other_task
    }
}

fn node_fail(error: crate::error::NodeError) -> RuntimeError {
    RuntimeError::Node(error.into_fault())
}
