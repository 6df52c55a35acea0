//! Open questions: the answers they take, and their expiry.

use crate::error::RuntimeError;
use crate::question::Question;
use crate::run_loop::context::{Given, LoopContext, Purpose, RunContext, TaskContext};
use crate::run_loop::schema::answer_checker;
use crate::run_loop::sync::lock;
use crate::semantics::Unanswered;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use weftwork_engine::ids::interrupt_id;
use weftwork_schema::Quotes;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::run::Answers;
use weftwork_types::{InterruptId, TaskId, Timestamp};

/// Resolves answers to the ids of open questions.
///
/// A single answer is for the only open question, or for the only one that does not take a default
/// now.
///
/// # Errors
/// [`RuntimeError::ManyQuestions`], [`RuntimeError::UnknownKey`].
pub fn answers_by_id(
    open: &[&Interrupt],
    answers: Answers,
    now: Timestamp,
) -> Result<BTreeMap<InterruptId, Json>, RuntimeError> {
    match answers {
        Answers::ById(answers) => Ok(answers),
        Answers::ByKey(answers) => by_key(open, answers),
        Answers::One(answer) => {
            let mut live = open.iter().filter(|question| open.len() == 1 || !lapsed(question, now));
            match (live.next(), live.next()) {
                (Some(only), None) => Ok(BTreeMap::from([(only.id, answer)])),
                _ => Err(RuntimeError::ManyQuestions { open: open.len() }),
            }
        }
    }
}

/// The answers by the ids of their questions.
fn by_key(
    open: &[&Interrupt],
    answers: BTreeMap<String, Json>,
) -> Result<BTreeMap<InterruptId, Json>, RuntimeError> {
    let mut keys: BTreeMap<&str, Vec<InterruptId>> = BTreeMap::new();
    for question in open {
        if let Some(key) = &question.key {
            keys.entry(key).or_default().push(question.id);
        }
    }
    let mut by_id = BTreeMap::new();
    for (key, answer) in answers {
        let Some(ids) = keys.get(key.as_str()) else {
            let open = keys.into_keys().map(str::to_owned).collect();
            return Err(RuntimeError::UnknownKey { found: key, open });
        };
        by_id.extend(ids.iter().map(|id| (*id, answer.clone())));
    }
    Ok(by_id)
}

fn lapsed(question: &Interrupt, now: Timestamp) -> bool {
    question.lapses_at().is_some_and(|at| at <= now)
}

/// Checks an answer that was given at a time against its question.
///
/// # Errors
/// [`RuntimeError::WrongAnswer`] if it breaks the schema, or is a decision about a call that comes
/// after the time for it.
pub fn check_answer(
    question: &Interrupt,
    answer: &Json,
    given_at: Timestamp,
) -> Result<(), RuntimeError> {
    if matches!(question.ask, Ask::Approval(_)) && lapsed(question, given_at) {
        let problem = "the time for the decision is over, and the call counts as rejected";
        return Err(wrong(question.id, &question.node, problem.to_owned()));
    }
    let Some(schema) = &question.answer_schema else { return Ok(()) };
    let checked = answer_checker(schema)?.check(answer, Quotes::Values);
    checked.map_err(|problem| wrong(question.id, &question.node, problem))
}

fn wrong(question: InterruptId, node: &str, problem: String) -> RuntimeError {
    RuntimeError::WrongAnswer { question, node: node.to_owned(), problem }
}

impl LoopContext {
    /// Returns `true` if one of a task's open questions may get an answer in this run, or its
    /// default.
    pub(crate) fn may_answer(&self, open: &[Interrupt]) -> bool {
        let given = |question: &Interrupt| self.shared.answer(question.id).is_some();
        let expires = open.iter().any(|question| question.lapses_at().is_some());
        self.offers_answer() || open.iter().any(given) || expires && self.any_lapsed(open)
    }

    fn any_lapsed(&self, open: &[Interrupt]) -> bool {
        let now = self.shared.host.clock().now();
        open.iter().any(|question| lapsed(question, now))
    }
}

impl RunContext {
    /// Records when open questions expire: the time of the first asking counts.
    pub(crate) fn know(&self, open: &[Interrupt]) {
        for question in open {
            if let (Some(at), Some(default)) = (question.expires_at, &question.default) {
                let mut expiries = lock(&self.expiries);
                expiries.entry(question.id).or_insert_with(|| (at, default.clone()));
            }
        }
    }

    pub(crate) fn expiry(&self, id: InterruptId) -> Option<(Timestamp, Json)> {
        lock(&self.expiries).get(&id).cloned()
    }

    /// The answer that was given by id to a task's next question.
    pub(crate) fn given_answer(
        &self,
        task: impl FnOnce() -> TaskId,
        answered: usize,
        unanswered: Unanswered,
    ) -> Option<Json> {
        self.answers.get()?;
        let task = task();
        let next = u32::try_from(answered).unwrap_or(u32::MAX);
        let first = || match unanswered {
            // In the reference the id of the first question denotes the task's next one.
            Unanswered::Rerun => self.answer(interrupt_id(task, 0)),
            Unanswered::Wait => None,
        };
        self.answer(interrupt_id(task, next)).or_else(first).cloned()
    }
}

impl TaskContext {
    /// The number of the task's next question, and its answer when there is one.
    pub(crate) fn next_answer(
        &self,
        question: &Question,
    ) -> Result<(u32, Option<Answer>), RuntimeError> {
        let index = self.task_state.next_question();
        let mut resume = lock(&self.task_state.resume);
        if resume.len() <= index as usize {
            let id = || interrupt_id(self.id(), index);
            let given = || self.scope.shared.answers.get().and_then(|all| all.get(&id()).cloned());
            let recorded = || self.recorded_answer(id());
            let answer = given().or_else(recorded).or_else(|| self.task_state.take_answer());
            let Some(answer) = answer else {
                return Ok((index, None));
            };
            if let Some(schema) = &question.answer_schema {
                // It came before the question was known, so that it could not be refused then.
                let checked = answer_checker(schema)?.check(&answer, Quotes::Values);
                let id = interrupt_id(self.id(), index);
                checked.map_err(|problem| wrong(id, self.key.name(), problem))?;
            }
            // Questions before it were taken by what is on record, and are not asked again.
            resume.resize(index as usize, Json::Null);
            resume.push(answer);
        }
        self.task_state.resumed.store(true, Ordering::Relaxed);
        let id = interrupt_id(self.id(), index);
        let answer = resume.get(index as usize);
        let answer = answer.map(|value| self.answered(id, &question.ask, Given::Answer(value)));
        Ok((index, answer))
    }

    /// The answer that an earlier run gave to a question of a task that is closed. It may have led to
    /// calls without being stored with the task.
    fn recorded_answer(&self, id: InterruptId) -> Option<Json> {
        let closes = self.purpose == Purpose::Close;
        let answer = closes.then(|| self.scope.shared.host.environment().answer(id));
        answer.flatten().map(|answer| answer.value)
    }

    /// Takes the default of a question that has expired as its answer; not while a question the
    /// task asked before it is open.
    pub(crate) fn take_default(&self, index: u32, ask: &Ask, default: &Json) -> Option<Answer> {
        let mut resume = lock(&self.task_state.resume);
        let open = (resume.len()..index as usize).any(|before| !self.task_state.is_taken(before));
        if open || resume.len() > index as usize {
            return None;
        }
        resume.resize(index as usize, Json::Null);
        resume.push(default.clone());
        self.task_state.resumed.store(true, Ordering::Relaxed);
        Some(self.answered(interrupt_id(self.id(), index), ask, Given::Default(default)))
    }
}
