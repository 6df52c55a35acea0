//! Answers to questions whose tasks have other ids now: those of an older checkpoint, which a branch
//! of its own asks again, and those of a subgraph that was changed since.

use super::RunLoop;
use crate::error::RuntimeError;
use crate::run_loop::checkpointer::{
    CheckpointAddress, TaskAnswers, TaskDetails, TaskKey, TaskRecord, TaskRecords,
};
use crate::run_loop::context::{CalledTask, CarriedAnswer, LoopContext};
use crate::run_loop::event::Source;
use crate::run_loop::options::{LoopInput, LoopResult, StartCommand};
use crate::run_loop::questions::{answers_by_id, check_answer, check_open};
use crate::run_loop::sync::lock;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weftwork_engine::ids::interrupt_id;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{CheckpointId, InterruptId, TaskId};

/// Answers that a task of the branch has from the start.
pub(crate) struct KeptAnswers {
    key: TaskKey,
    answers: TaskAnswers,
}

/// Command whose answers to questions of an older checkpoint are taken.
pub(super) struct PastAnswers {
    /// The rest of the command.
    pub(super) rest: LoopInput,
    /// Answers that tasks of the branch have from the start.
    pub(super) kept: Vec<KeptAnswers>,
}

/// A superstep whose tasks asked: the one that is open, or that of an older checkpoint.
struct AskedStep<'a> {
    ns: &'a str,
    at: CheckpointId,
    step: i64,
    records: &'a TaskRecords,
}

impl AskedStep<'_> {
    /// The last questions of its tasks, answered since or not.
    fn last_questions(&self) -> Vec<Interrupt> {
        let mut asked = Vec::new();
        let mut ids = BTreeSet::new();
        for (key, record) in self.records {
            if let TaskKey::Node { .. } = key {
                let questions = record.questions().iter();
                asked.extend(questions.filter(|question| ids.insert(question.id)).cloned());
            }
        }
        asked
    }

    /// The answers of tasks that asked an answered question themselves, or that called such a task:
    /// those that they had before it, and this one.
    fn kept(&self, answers: &BTreeMap<InterruptId, Json>) -> Vec<KeptAnswers> {
        let mut kept = Vec::new();
        for (key, record) in self.records {
            let task = self.task_of(key);
            let mut taken = record.answers().cloned().unwrap_or_default();
            let mut is_around = false;
            for question in record.questions() {
                let answer = answers.get(&question.id);
                is_around |= answer.is_some();
                let Some(number) = question_number(question).filter(|_| question.task == task)
                else {
                    continue;
                };
                // Another answer that it got since is not one of this branch.
                taken.resize(taken.len().max(number + 1), None);
                if let Some(place) = taken.get_mut(number) {
                    *place = answer.cloned();
                }
            }
            if is_around && !taken.is_empty() {
                kept.push(KeptAnswers { key: key.clone(), answers: taken });
            }
        }
        kept
    }

    /// The questions that neither its tasks nor those that they called have asked themselves: those
    /// of subgraphs.
    fn asked_within(&self) -> impl Iterator<Item = Interrupt> {
        let own: BTreeSet<_> = self.records.iter().map(|(key, _)| self.task_of(key)).collect();
        self.last_questions().into_iter().filter(move |question| !own.contains(&question.task))
    }

    fn task_of(&self, key: &TaskKey) -> TaskId {
        key.id(self.ns, self.at, self.step)
    }
}

impl LoopContext {
    /// Refuses answers at checkpoints of a subgraph, and of the graphs around it, that are not the
    /// newest ones: a branch begins at a checkpoint of the outermost graph.
    pub(super) async fn check_newest_within(&self) -> LoopResult<()> {
        let inner = self.enclosing.keys().max_by_key(|ns| ns.len()).filter(|ns| !ns.is_empty());
        let Some((checkpointer, inner)) = self.storage.checkpointer.as_ref().zip(inner) else {
            return Ok(());
        };
        for (ns, at) in &self.enclosing {
            let thread = Arc::clone(&self.address.thread);
            let place = CheckpointAddress { thread, ns: ns.as_str().into() };
            if checkpointer.newest(&place).await?.is_some_and(|newest| newest != *at) {
                return Err(RuntimeError::AnsweredPastWithin { ns: inner.clone() });
            }
        }
        Ok(())
    }
}

impl RunLoop {
    /// Takes the answers of a command at an older checkpoint. Returns what is left of the command,
    /// and the answers that tasks of the branch have from the start.
    ///
    /// # Errors
    /// As for answers at the newest checkpoint, about the questions of the older one.
    pub(super) fn answer_past(&self, begin: LoopInput) -> LoopResult<PastAnswers> {
        let LoopInput::Command(StartCommand { goto, update, resume: Some(resume) }) = begin else {
            return Ok(PastAnswers { rest: begin, kept: Vec::new() });
        };
        if !self.writer.is_on() {
            return Err(RuntimeError::NoCheckpointer { what: "an answer" });
        }
        let step = self.open_step();
        let asked = step.as_ref().map(AskedStep::last_questions).unwrap_or_default();
        let now = self.loop_context.run.host.clock().now();
        let asked: Vec<&Interrupt> = asked.iter().collect();
        let answers = answers_by_id(&asked, resume, now)?;
        // All answers are checked before one is taken: a command that is refused changes nothing.
        check_open(answers.keys(), &asked)?;
        for question in &asked {
            if let Some(answer) = answers.get(&question.id) {
                check_answer(question, answer, now)?;
            }
        }
        let mut kept = Vec::new();
        if let Some(step) = step {
            kept = step.kept(&answers);
            self.carry_answers(step.asked_within(), &answers);
        }
        let rest = match goto.is_empty() && update.is_empty() {
            true => LoopInput::Nothing,
            false => LoopInput::Command(StartCommand { goto, update, resume: None }),
        };
        Ok(PastAnswers { rest, kept })
    }

    /// Takes the answers at an older checkpoint again, in a run that another process began. That
    /// process stored the first checkpoint of the branch, and may have died before it stored the
    /// answers.
    pub(super) async fn answer_past_again(
        &mut self,
        answers: BTreeMap<InterruptId, Json>,
    ) -> LoopResult<()> {
        // Later checkpoints of the branch follow supersteps whose tasks have taken the answers.
        let is_first = self.position.metadata().source == Source::Fork;
        let Some(origin) = self.position.parent().filter(|_| is_first && self.waits()) else {
            // Questions have the ids under which they were answered.
            if !self.waits() && self.loop_context.run.answers.set(answers).is_err() {
                tracing::warn!("the answers of a run were given twice; the first count");
            }
            return Ok(());
        };
        let loop_context = Arc::clone(&self.loop_context);
        let Some(checkpointer) = &loop_context.storage.checkpointer else { return Ok(()) };
        let plan = loop_context.graph.plan();
        let saved = checkpointer.load(&loop_context.address, plan, Some(origin)).await?;
        let Some(saved) = saved else { return Ok(()) };
        let step = AskedStep {
            ns: &loop_context.address.ns,
            at: origin,
            step: saved.checkpoint.metadata.step + 1,
            records: &saved.tasks,
        };
        for KeptAnswers { key, answers } in step.kept(&answers) {
            let recorded = self.open.recorded_mut();
            let known = recorded.iter_mut().find(|(known, _)| *known == key);
            match known {
                // A task that ran since has what it was given.
                Some((_, record)) if record.answers().is_some() || record.is_finished() => {}
                Some((_, record)) => record.details_mut().answers = Some(answers),
                None => recorded.push((key, record_of_answers(&answers))),
            }
        }
        self.carry_answers(step.asked_within(), &answers);
        loop_context.run.carries_again.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Records if an earlier process of the run has closed supersteps of this subgraph. Questions of
    /// those have taken their answers, and one that asks the same again must not take them too.
    pub(super) fn set_begun(&self) {
        let again = self.loop_context.run.carries_again.load(Ordering::Relaxed);
        let metadata = self.position.metadata();
        // Superstep 0 passes the input on, and runs no node.
        let closed = metadata.source == Source::Loop && metadata.step > 0;
        if again && closed && self.loop_context.is_nested() {
            self.loop_context.begun.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the questions of the superstep cannot be asked again by the same tasks. Some
    /// have answers for good. Or subgraphs have asked: they begin anew, and their questions, answered
    /// or not, have other ids then than those on record.
    pub(super) fn has_asked_for_good(&self) -> bool {
        let mut recorded = self.open.recorded().iter();
        recorded.any(|(_, record)| record.answers().is_some() || record.has_passed())
            || self.open_step().is_some_and(|step| step.asked_within().next().is_some())
    }

    /// The superstep that starts from the loaded checkpoint.
    fn open_step(&self) -> Option<AskedStep<'_>> {
        Some(AskedStep {
            ns: &self.loop_context.address.ns,
            at: self.position.id()?,
            step: self.position.step(),
            records: self.open.recorded(),
        })
    }

    /// Lets the questions of a changed subgraph take answers although their tasks are new.
    pub(super) fn carry_to_changed(&self, answers: &BTreeMap<InterruptId, Json>) {
        let Some(step) = self.open_step() else { return };
        let due = self.open.recorded().iter().filter(|(_, record)| record.is_due());
        for (key, record) in due {
            let task = step.task_of(key);
            let within = record.questions().iter().filter(|asked| asked.task != task);
            self.carry_answers(within.cloned(), answers);
        }
    }

    fn carry_answers(
        &self,
        asked: impl Iterator<Item = Interrupt>,
        answers: &BTreeMap<InterruptId, Json>,
    ) {
        let mut carried = lock(&self.loop_context.run.carried);
        for question in asked {
            if let Some((number, answer)) =
                question_number(&question).zip(answers.get(&question.id))
            {
                let answer = answer.clone();
                carried.push(CarriedAnswer { question, number, answer });
            }
        }
    }

    /// Gives the answers to the tasks that run again.
    pub(super) fn keep_answers(&mut self, kept: &[KeptAnswers]) -> LoopResult<()> {
        for KeptAnswers { key, answers } in kept {
            let recorded = self.open.recorded_mut().iter_mut().find(|(known, _)| known == key);
            let lost = || RuntimeError::broken_invariant("an answered task has no record");
            let (_, record) = recorded.ok_or_else(lost)?;
            record.details_mut().answers = Some(answers.clone());
            // A task that another called has no slot in the superstep. It finds its answers here.
            if let TaskKey::Call { .. } = key {
                let called = CalledTask {
                    key: key.clone(),
                    record: record_of_answers(answers),
                    fresh: false,
                };
                lock(&self.loop_context.calls).push(called);
            }
        }
        Ok(())
    }

    /// Stores the answers with the first checkpoint of the branch, so that another process has them.
    pub(super) async fn store_answers(&mut self, kept: Vec<KeptAnswers>) -> LoopResult<()> {
        if kept.is_empty() || self.on_exit() {
            return Ok(());
        }
        let loop_context = Arc::clone(&self.loop_context);
        let checkpointer = loop_context.storage.checkpointer.as_ref();
        let lost = || RuntimeError::broken_invariant("a branch is stored without a checkpoint");
        let (checkpointer, id) = checkpointer.zip(self.position.id()).ok_or_else(lost)?;
        let records = kept.into_iter().map(|kept| (kept.key, record_of_answers(&kept.answers)));
        let records: TaskRecords = records.collect();
        self.writer.wait_durable(&loop_context).await?;
        Ok(checkpointer
            .put_tasks(&loop_context.address, loop_context.graph.plan(), id, records)
            .await?)
    }
}

fn record_of_answers(answers: &[Option<Json>]) -> TaskRecord {
    let details = TaskDetails { answers: Some(answers.to_vec()), ..TaskDetails::default() };
    TaskRecord::from(details)
}

/// The number of a question among those of its task.
fn question_number(question: &Interrupt) -> Option<usize> {
    const QUESTIONS_MAX: u32 = 1_000;
    // A question does not store its number: its id is a hash of it.
    let number = (0..QUESTIONS_MAX).find(|n| interrupt_id(question.task, *n) == question.id)?;
    usize::try_from(number).ok()
}
