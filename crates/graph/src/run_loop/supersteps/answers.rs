//! Answers that a run takes.

use super::RunLoop;
use crate::error::RuntimeError;
use crate::run_loop::options::LoopResult;
use crate::run_loop::questions::{answers_by_id, check_answer, check_open};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::Answers;

impl RunLoop {
    /// Accepts answers once each of them fits its question. Returns the one that names none.
    pub(crate) fn accept(&self, answers: Answers) -> LoopResult<Option<Json>> {
        // Without checkpoints there is no open superstep that could have asked.
        if !self.writer.is_on() {
            return Err(RuntimeError::NoCheckpointer { what: "an answer" });
        }
        let open = self.open_questions();
        let host = &self.loop_context.run.host;
        let now = host.clock().now();
        // A run that another process had begun takes answers that were accepted before.
        let given_at = |question: &Interrupt| {
            host.environment().answer(question.id).map_or(now, |answer| answer.answered_at)
        };
        let answers = match answers {
            Answers::One(answer) if open.len() < 2 && !(self.waits() && open.len() == 1) => {
                open.first().map_or(Ok(()), |only| check_answer(only, &answer, given_at(only)))?;
                return Ok(Some(answer));
            }
            answers => answers_by_id(&open, answers, now)?,
        };
        if self.waits() && !self.start.is_superseded() {
            // The store of a hosted run has accepted its answers before.
            let fresh = answers.keys().filter(|id| host.environment().answer(**id).is_none());
            check_open(fresh, &open)?;
        }
        for question in open {
            if let Some(answer) = answers.get(&question.id) {
                check_answer(question, answer, given_at(question))?;
            }
        }
        self.carry_to_changed(&answers);
        if self.loop_context.run.answers.set(answers).is_err() {
            tracing::warn!("the answers of a run were given twice; the first count");
        }
        Ok(None)
    }

    /// Returns `true` if tasks wait until their questions are answered.
    pub(super) fn waits(&self) -> bool {
        self.loop_context.graph.settings().waits_for_answers
    }

    /// The questions that wait for an answer, of this graph and those within.
    fn open_questions(&self) -> Vec<&Interrupt> {
        let mut open = Vec::new();
        let mut ids = BTreeSet::new();
        let waits = self.waits();
        let Some(checkpoint) = self.position.id() else { return open };
        let ns = &self.loop_context.address.ns;
        let step = self.position.step();
        let unfinished = self.open.recorded().iter().filter(|(_, record)| !record.is_finished());
        for (key, record) in unfinished {
            let task = key.id(ns, checkpoint, step);
            for question in record.questions() {
                // What failed after its question was answered has it on record still.
                let answered =
                    waits && (record.has_passed() || record.has_answered(task, question));
                if !answered && ids.insert(question.id) {
                    open.push(question);
                }
            }
        }
        open
    }
}
