//! Questions of all threads of a principal, and answers to them.

use super::Service;
use super::graphs::Hosted;
use crate::chat::answer;
use crate::chat::question::{Asked, allowed_decisions};
use crate::error::{ApiError, Result};
use crate::translate::{state, time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_graph::RuntimeError;
use weftwork_store::{AskingThread, InterruptRow, StoreError, ThreadRow, asking_threads};
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::run::{Answers, Multitask, RunInput, RunOptions, RunRef};
use weftwork_types::{CheckpointId, InterruptId, ThreadId};

impl Service {
    /// Returns a page of the open questions, of one thread or of all in their order, and their number. A
    /// damaged row takes only its question from the list.
    pub(crate) async fn open_questions(
        &self,
        of: Option<&ThreadId>,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Value>, usize)> {
        let mut page = Vec::new();
        let mut count = 0;
        if let Some(of) = of {
            // Fails for a thread that does not exist.
            self.row(of).await?;
        }
        let mut asking = asking_threads(self.store().as_ref(), self.who()).await?;
        asking.retain(|asking| of.is_none_or(|of| asking.thread.id == *of));
        for AskingThread { thread, open } in asking {
            for row in open.iter().filter(|row| row.interrupt.asks()) {
                if count >= offset && page.len() < limit {
                    match self.question_to_json(&thread, row).await {
                        Err(StoreError::Corrupt { .. }) => continue,
                        question => page.push(question?),
                    }
                }
                count += 1;
            }
        }
        Ok((page, count))
    }

    /// Returns the open questions of a thread, without timers.
    pub(super) async fn asked_on(
        &self,
        thread: &ThreadId,
    ) -> Result<Vec<InterruptRow>, StoreError> {
        let mut rows = self.store().interrupts(self.who(), thread).await?;
        rows.retain(|row| row.is_open() && row.interrupt.asks());
        Ok(rows)
    }

    async fn question_to_json(
        &self,
        thread: &ThreadRow,
        row: &InterruptRow,
    ) -> Result<Value, StoreError> {
        let run = RunRef { thread: thread.id.clone(), run: row.run.clone() };
        let run = self.store().run(self.who(), &run).await?;
        let asked_at = run.ended_at.unwrap_or(thread.updated_at);
        let interrupt = row.interrupt.clone().into_shown();
        let graph = thread.graph.as_deref().map(|graph| self.name_of(graph));
        let (action, allowed) = match &interrupt.ask {
            Ask::Approval(request) => (
                json!({"name": request.tool, "args": request.args, "effect": request.effect,
                    "reason": request.reason}),
                json!(allowed_decisions(&interrupt)),
            ),
            _ => (Value::Null, json!(["respond"])),
        };
        let age_ms = self.now().0.saturating_sub(asked_at.0);
        Ok(json!({
            "id": question_address(&thread.id, interrupt.id),
            "interrupt_id": interrupt.id,
            "thread_id": thread.id,
            "run_id": row.run,
            "agent": graph,
            "node": interrupt.node,
            "graph": interrupt.graph,
            "question": state::interrupt_to_json(&interrupt)["value"],
            "call": tool_call_of(&interrupt),
            "action": action,
            "allowed": allowed,
            "response_schema": interrupt.answer_schema,
            "run_created_at": time::format_time(run.new.created_at),
            "run_by": run.new.caller.virtual_key,
            "created_at": time::format_time(asked_at),
            "age_ms": age_ms,
            "expires_at": interrupt.expires_at.map(time::format_time),
        }))
    }

    /// Answers questions of one thread by their ids, all or none, and returns the run that continues
    /// the thread. Answers that were sent before with the same idempotency key have its first run.
    ///
    /// # Errors
    /// Status 409 with the first answer if a question was answered; 404 if it does not exist; 422
    /// for an answer that does not fit; 429 if a limit of the account or key is reached.
    pub(crate) async fn respond(
        &self,
        values: &BTreeMap<String, Value>,
        key: Option<&str>,
    ) -> Result<RunRef> {
        let missing = || ApiError::missing("Interrupt not found");
        let mut of_thread = None;
        let mut given = BTreeMap::new();
        for (id, value) in values {
            let (thread, id) = read_address(id)?;
            if *of_thread.get_or_insert_with(|| thread.clone()) != thread {
                return Err(ApiError::invalid(
                    "the questions are of several threads; send the answers of each thread alone",
                ));
            }
            given.insert(id, value);
        }
        let thread = of_thread.ok_or_else(missing)?;
        let row = match self.row(&thread).await {
            Err(error) if error.is_missing() => return Err(missing()),
            row => row?,
        };
        let rows = self.store().interrupts(self.who(), &thread).await?;
        let earlier = self.find_earlier(&thread, key).await?;
        let mut answers = BTreeMap::new();
        let mut asking = None;
        for (id, value) in given {
            let asked = rows.iter().find(|row| row.interrupt.id == id).ok_or_else(missing)?;
            if let Some(first) = asked.answer.clone().filter(|_| earlier.is_none()) {
                let first = Box::new(first);
                return Err(StoreError::Answered { interrupt: id.to_string(), first }.into());
            }
            answers.insert(id, answer::of_result(&asked.interrupt, value)?);
            asking.get_or_insert_with(|| asked.run.clone());
        }
        let graph = row.graph.as_deref().ok_or_else(missing)?;
        let hosted = self.hosted(self.name_of(graph))?;
        let options = match &earlier {
            Some(earlier) => earlier.new.options.clone(),
            None => {
                // The run continues with the settings of the run that asked.
                let run = asking.ok_or_else(missing)?;
                let asking = RunRef { thread: thread.clone(), run };
                let asking = self.store().run(self.who(), &asking).await?;
                asking.new.options.clone().for_continuation()
            }
        };
        let idempotency_key = key.map(str::to_owned);
        let options = RunOptions { multitask: Multitask::Reject, idempotency_key, ..options };
        let input = RunInput::answers(answers);
        if earlier.is_none() {
            self.admit_run(&input).await?;
        }
        let begun = self.begin_run(&hosted, &thread, input, options).await?;
        if earlier.is_some() {
            return Ok(begun.run);
        }
        Ok(self.log_run(begun, self.name_of(&hosted.id)).run)
    }

    /// Replaces decisions in the shape of LangChain by decisions of approvals, if the thread waits for
    /// approvals, or waited for some at the checkpoint that the request names. Other answers stay as
    /// they are.
    pub(super) async fn read_decisions(
        &self,
        hosted: &Hosted,
        thread: &ThreadId,
        at: Option<CheckpointId>,
        input: RunInput,
    ) -> Result<RunInput> {
        let RunInput::Command(mut command) = input else { return Ok(input) };
        let Some(answers) = command.answers.take() else { return Ok(RunInput::Command(command)) };
        let asked = match at {
            Some(at) => self.asked_at(hosted, thread, at).await?,
            None => match self.asked_on(thread).await {
                Err(StoreError::NotFound { .. }) => Vec::new(),
                rows => rows?.into_iter().map(|row| row.interrupt).collect(),
            },
        };
        let asked: Vec<&Interrupt> = asked.iter().collect();
        command.answers = Some(replace_decisions(&asked, answers)?);
        Ok(RunInput::Command(command))
    }

    /// Returns the questions that tasks asked at a checkpoint, answered since or not. A checkpoint that
    /// does not exist has none; the run is refused.
    async fn asked_at(
        &self,
        hosted: &Hosted,
        thread: &ThreadId,
        at: CheckpointId,
    ) -> Result<Vec<Interrupt>> {
        let opened = self.runtime().thread_for(self.who(), &hosted.id, thread.as_str())?;
        let opened = opened.with_principal(self.who().clone());
        match opened.view().at(at).state().await {
            Err(RuntimeError::UnknownCheckpoint { .. }) => Ok(Vec::new()),
            state => Ok(state?.interrupts),
        }
    }
}

/// Returns answers with the decisions that they have.
fn replace_decisions(open: &[&Interrupt], answers: Answers) -> Result<Answers> {
    let approvals: Vec<_> =
        open.iter().filter(|asked| matches!(asked.ask, Ask::Approval(_))).collect();
    match answers {
        Answers::ById(given) => {
            let given = given.into_iter().map(|(id, value)| {
                let asked = approvals.iter().find(|asked| asked.id == id);
                let value = match (asked, listed_decisions(&value)) {
                    (Some(asked), Some([one])) => read_decision(asked, one)?,
                    (Some(asked), _) => read_decision(asked, &value)?,
                    (None, _) => value,
                };
                Ok((id, value))
            });
            Ok(Answers::ById(given.collect::<Result<_>>()?))
        }
        Answers::One(value) => {
            let list = match (listed_decisions(&value), approvals.as_slice()) {
                (Some(list), [_, ..]) => list,
                // A decision, alone or as the only one of a list.
                (_, [asked]) if open.len() == 1 => {
                    let only = value.as_array().filter(|list| list.len() == 1);
                    let only = only.and_then(|list| list.first()).unwrap_or(&value);
                    return read_decision(asked, only).map(Answers::One);
                }
                _ => return Ok(Answers::One(value)),
            };
            if list.len() != approvals.len() {
                return Err(ApiError::invalid(format!(
                    "`decisions` has {} elements; expected {}, one for each call that waits",
                    list.len(),
                    approvals.len()
                )));
            }
            let pairs = approvals.iter().zip(list);
            let by_id = pairs.map(|(asked, value)| Ok((asked.id, read_decision(asked, value)?)));
            Ok(Answers::ById(by_id.collect::<Result<_>>()?))
        }
        answers @ Answers::ByKey(_) => Ok(answers),
    }
}

fn read_decision(asked: &Interrupt, value: &Value) -> Result<Value> {
    answer::of_result(asked, value)
}

/// Returns the list of decisions of an answer in the shape of LangChain.
fn listed_decisions(value: &Value) -> Option<&[Value]> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    Some(members.get("decisions")?.as_array()?.as_slice())
}

/// Returns the id of a question in the interface: its thread, a dot, and its own id.
pub(crate) fn question_address(thread: &ThreadId, id: InterruptId) -> String {
    format!("{thread}.{id}")
}

/// Returns the call that stands for a question in chats.
pub(super) fn tool_call_of(interrupt: &Interrupt) -> Option<Value> {
    let call = Asked::of(interrupt)?.call;
    Some(json!({"id": call.id, "name": call.name, "args": call.args}))
}

fn read_address(text: &str) -> Result<(ThreadId, InterruptId)> {
    let parts = text
        .rsplit_once('.')
        .and_then(|(thread, id)| Some((ThreadId::new(thread).ok()?, id.parse().ok()?)));
    parts.ok_or_else(|| {
        ApiError::invalid(
            "Invalid interrupt ID: expected a thread, a dot and 32 hexadecimal digits",
        )
    })
}
