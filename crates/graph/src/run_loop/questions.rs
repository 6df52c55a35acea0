//! Open questions: the answers they take, and their expiry.

use crate::error::RuntimeError;
use crate::question::Question;
use crate::run_loop::context::{Given, LoopContext, RunContext, TaskContext};
use crate::run_loop::schema::answer_checker;
use crate::run_loop::sync::lock;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use weftwork_engine::ids::interrupt_id;
use weftwork_schema::Quotes;
use weftwork_types::interrupt::{Answer, Ask, Interrupt};
use weftwork_types::run::Answers;
use weftwork_types::{InterruptId, Timestamp};

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
            // One answer without an id is for the only question that still waits for one.
            let mut live =
                open.iter().filter(|question| open.len() == 1 || !has_lapsed(question, now));
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

/// Checks that answers are for open questions.
///
/// # Errors
/// [`RuntimeError::UnknownQuestion`] with the open ones, for the first answer to another question.
pub fn check_open<'a>(
    answered: impl IntoIterator<Item = &'a InterruptId>,
    open: &[&Interrupt],
) -> Result<(), RuntimeError> {
    let is_open = |id: &InterruptId| open.iter().any(|question| question.id == *id);
    match answered.into_iter().find(|id| !is_open(id)) {
        None => Ok(()),
        Some(found) => {
            let open = open.iter().map(|question| question.id).collect();
            Err(RuntimeError::UnknownQuestion { found: *found, open })
        }
    }
}

fn has_lapsed(question: &Interrupt, now: Timestamp) -> bool {
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
    // The time of acceptance counts: a takeover decides as the process before did (ADR 0035).
    if matches!(question.ask, Ask::Approval(_)) && has_lapsed(question, given_at) {
        let problem = "the time for the decision is over, and the call counts as rejected";
        return Err(wrong_answer(question.id, &question.node, problem.to_owned()));
    }
    let Some(schema) = &question.answer_schema else { return Ok(()) };
    let checked = answer_checker(schema)?.check(answer, Quotes::Values);
    checked.map_err(|problem| wrong_answer(question.id, &question.node, problem))
}

fn wrong_answer(question: InterruptId, node: &str, problem: String) -> RuntimeError {
    RuntimeError::WrongAnswer { question, node: node.to_owned(), problem }
}

impl LoopContext {
    /// Returns `true` if one of a task's open questions may get an answer in this run, or its
    /// default.
    pub(crate) fn may_answer(&self, open: &[Interrupt]) -> bool {
        let given = |question: &Interrupt| self.run.answer(question.id).is_some();
        let expires = open.iter().any(|question| question.lapses_at().is_some());
        // An answer without an id may be for any question: only the task finds out, by asking
        // again.
        self.offers_answer() || open.iter().any(given) || expires && self.any_lapsed(open)
    }

    fn any_lapsed(&self, open: &[Interrupt]) -> bool {
        let now = self.run.host.clock().now();
        open.iter().any(|question| has_lapsed(question, now))
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

    /// Answer to a question, by its id: given to this run, or on record for the thread.
    pub(crate) fn answer(&self, id: InterruptId) -> Option<Json> {
        let given = self.answers.get().and_then(|answers| answers.get(&id).cloned());
        given.or_else(|| Some(self.host.environment().answer(id)?.value))
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
        // An answer that an earlier attempt took stands: what was done because of it is on record.
        if !resume.get(index as usize).is_some_and(Option::is_some) {
            let id = interrupt_id(self.id(), index);
            let given = self.loop_context.run.answer(id);
            let given = given.or_else(|| self.take_carried(index, question));
            // An answer by id was checked when it came, against the question as it was asked then.
            // The node sees it even if it asks otherwise now, and can ask again: an approval in a
            // copy of the thread, for example, is bound to the call of the other thread.
            let unchecked = given.is_none();
            // Last: it can be taken once, by a question that has no answer of its own.
            let Some(answer) = given.or_else(|| self.task_state.take_answer()) else {
                return Ok((index, None));
            };
            if let Some(schema) = question.answer_schema.as_ref().filter(|_| unchecked) {
                // It came before the question was known, so that it could not be refused then.
                let checked = answer_checker(schema)?.check(&answer, Quotes::Values);
                checked.map_err(|problem| wrong_answer(id, self.key.name(), problem))?;
            }
            self.task_state.put_answer(&mut resume, index as usize, answer);
        }
        self.task_state.resumed.store(true, Ordering::Relaxed);
        let id = interrupt_id(self.id(), index);
        let answer = resume.get(index as usize).and_then(Option::as_ref);
        let answer = answer.map(|value| self.answered(id, &question.ask, Given::Answer(value)));
        Ok((index, answer))
    }

    /// Takes an answer to the same question of a task that has another id now.
    fn take_carried(&self, index: u32, question: &Question) -> Option<Json> {
        // The carried answers were taken in a superstep that is closed. An equal question later
        // asks anew.
        if self.loop_context.begun.load(Ordering::Relaxed) {
            return None;
        }
        let mut carried = lock(&self.loop_context.run.carried);
        let graph = self.loop_context.is_nested().then(|| self.loop_context.graph.name());
        let found = carried.iter().position(|carried| {
            let asked = &carried.question;
            carried.number == index as usize
                && asked.ask == question.ask
                && asked.node == **self.key.name()
                && asked.graph.as_deref() == graph
        })?;
        // Each answer is taken once: another task may ask the same question.
        Some(carried.remove(found).answer)
    }

    /// Takes the default of a question that has expired as its answer; not while a question the
    /// task asked before it is open.
    pub(crate) fn take_default(&self, index: u32, ask: &Ask, default: &Json) -> Option<Answer> {
        let mut resume = lock(&self.task_state.resume);
        let has_answer = |number| resume.get(number).is_some_and(Option::is_some);
        let is_open = |before| !has_answer(before) && !self.task_state.is_taken(before);
        if (0..index as usize).any(is_open) || has_answer(index as usize) {
            return None;
        }
        self.task_state.put_answer(&mut resume, index as usize, default.clone());
        self.task_state.resumed.store(true, Ordering::Relaxed);
        Some(self.answered(interrupt_id(self.id(), index), ask, Given::Default(default)))
    }
}
