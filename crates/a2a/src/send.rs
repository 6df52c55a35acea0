//! Messages: a new task, or the answer to the questions of a task.

use crate::content::{Details, Said};
use crate::error::{A2aError, Result, shorten};
use crate::task::{TaskRuns, metadata_of};
use crate::wire::{self, Message, Part, Role};
use axum::http::HeaderMap;
use serde_json::{Map, Value, json};
use weftwork_server::{MountedClient, TurnSource, address_of, page_of_thread};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::{Ask, Interrupt};
use weftwork_types::port::{AgentSummary, Begun, Says, TaskCaller, Turn};
use weftwork_types::run::AnswerTo;
use weftwork_types::task::{TaskRequest, TaskResponse};
use weftwork_types::tool::{Reply, UnknownAnswer};
use weftwork_types::{CallChain, Principal, Right, canonical};

/// Code of a request in a conversation that waits for an answer.
const WAITING: &str = "W1038";
/// Code of a key that was used before with a different request.
const KEY_REUSED: &str = "W0205";
/// Maximum length of the id of a message in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 256;

/// The effect of a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// A task of which this many runs had ended before.
    Task { task: TaskRuns, done: usize },
    /// An answer without a task.
    Message(Message),
}

/// A client that sends a message to an agent.
#[derive(Debug)]
pub(crate) struct Sending<'a> {
    pub(crate) source: &'a TurnSource,
    pub(crate) client: &'a MountedClient,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) agent: &'a AgentSummary,
}

impl Sending<'_> {
    /// Begins or continues a task.
    ///
    /// # Errors
    /// An error for a message that does not fit, for a task that does not take one, and those of the
    /// store. Nothing was begun.
    pub(crate) async fn send(&self, message: Message) -> Result<Sent> {
        check_message(&message)?;
        let said = Said::read(&message)?;
        match message.task_id.as_str() {
            "" => self.begin(message, said).await,
            _ => self.answer(message, said).await,
        }
    }

    fn who(&self) -> &Principal {
        self.client.principal()
    }

    /// Returns the caller. A message that is sent again, with the same id, has the run of the first one.
    fn caller(&self, message: &Message) -> Result<TaskCaller> {
        let who = self.who();
        let Message { message_id, context_id, task_id, .. } = message;
        let names =
            json!(["a2a:message", who.subject, self.agent.slug, context_id, task_id, message_id]);
        let mut by = self.client.caller(self.headers)?;
        if let Some(chain) = message.metadata.get(CallChain::METADATA) {
            let field = format!("message.metadata.{}", CallChain::METADATA);
            let read = CallChain::read(chain);
            let chain = read.map_err(|error| A2aError::invalid(&field, error.to_string()))?;
            by.chain = by.chain.joined(chain);
        }
        by.idempotency_key = Some(format!("a2a-{}", canonical::hash(&names)));
        Ok(by)
    }

    async fn begin(&self, message: Message, said: Said) -> Result<Sent> {
        self.client.require(Right::Run)?;
        let by = self.caller(&message)?;
        let metadata = metadata_of(&message);
        let context = Some(message.context_id.clone()).filter(|context| !context.is_empty());
        self.client.admit_turn(&by, &self.agent.slug, context.as_deref()).await?;
        let begun = match said.details.clone() {
            Some(details) => self.begin_with_details(by, said, details, context, metadata).await?,
            None => {
                let sent = message.clone();
                let (message, input) = said.into_message(self.agent.input_schema.is_some());
                let turn = Turn {
                    agent: self.agent.slug.clone(),
                    mode: None,
                    conversation: context,
                    says: Says::Messages { messages: vec![message], input },
                    after: None,
                    metadata,
                };
                match self.source.platform.begin(by, turn).await {
                    Ok(handle) => Begun::Run(handle),
                    Err(fault) if fault.code == WAITING => {
                        return self.answer_in_context(sent, fault).await;
                    }
                    Err(fault) => return Err(of_begin(fault)),
                }
            }
        };
        let run = match begun {
            Begun::Run(handle) => handle.run.run,
            Begun::Answer(response) => return answered(&message, response).map(Sent::Message),
        };
        let platform = &*self.source.platform;
        let task = TaskRuns::find(platform, self.who(), &self.agent.slug, run.as_str()).await?;
        Ok(Sent::Task { task, done: 0 })
    }

    /// Answers the only question of the context, if a text does: some clients send the context of a task
    /// that asks, and not the task. A decision about a call needs its task.
    async fn answer_in_context(&self, message: Message, waiting: Fault) -> Result<Sent> {
        let platform = &*self.source.platform;
        let turns = platform.turns(self.who(), &message.context_id).await;
        let turns = turns.map_err(A2aError::of_fault)?;
        let last = turns.iter().rev().find(|turn| turn.rolled_back_at.is_none());
        let Some(last) = last else { return Err(of_begin(waiting)) };
        let own = TaskRuns::all_of(&turns, &self.agent.slug).pop();
        let Some(task) = own.filter(|task| task.chain.last().at == last.at) else {
            let page = page_of_thread(&address_of(self.headers), &last.at.thread);
            return Err(A2aError::unsupported(format!(
                "{}. No task of A2A asks it: it is answered on the page, {page}",
                waiting.message
            )));
        };
        let outcome = task.outcome(platform, self.who()).await?;
        let mut asking = outcome.questions().iter().filter(|question| question.asks());
        let is_plain = asking.next().is_some_and(|question| {
            question.approval().is_none() && AnswerForm::of(question).text_place().is_some()
        });
        if !is_plain || asking.next().is_some() {
            return Err(A2aError::unsupported(format!(
                "{}. A message with the `taskId` {} answers it",
                waiting.message,
                task.id()
            )));
        }
        let said = Said::read(&message)?;
        self.answer(Message { task_id: task.id(), ..message }, said).await
    }

    async fn begin_with_details(
        &self,
        by: TaskCaller,
        said: Said,
        details: Details,
        context: Option<String>,
        metadata: Map<String, Value>,
    ) -> Result<Begun> {
        let Details { mode, payload } = details;
        if payload.approval_id.is_some() || payload.decision.is_some() {
            self.client.require(Right::Approve)?;
        }
        let (message, input) = said.into_message(self.agent.input_schema.is_some());
        let has_file = message
            .parts
            .iter()
            .any(|part| !matches!(part, weftwork_types::message::Part::Text { .. }));
        if has_file {
            let message =
                "a message with `{mode, payload}` has texts and data alone; leave the file out";
            return Err(A2aError::invalid("message.parts", message));
        }
        let request = TaskRequest {
            agent: self.agent.slug.clone(),
            mode,
            user_message: message.joined_text(),
            input,
            conversation_id: context,
            payload,
        };
        let begun = self.source.platform.begin_request(by, request, metadata).await;
        begun.map_err(of_begin)
    }

    async fn answer(&self, message: Message, said: Said) -> Result<Sent> {
        let platform = &*self.source.platform;
        let who = self.who();
        let task = TaskRuns::find(platform, who, &self.agent.slug, &message.task_id).await?;
        if !message.context_id.is_empty() && message.context_id != task.context() {
            let text = "`message.contextId` is not the context of the task; leave it out";
            return Err(A2aError::invalid("message.contextId", text));
        }
        if let Some(done) = task.place_of_message(&message.message_id) {
            return Ok(Sent::Task { task, done });
        }
        let state = task.status(platform, who).await?.state;
        if state.is_terminal() {
            let text = "the task has ended, and takes no more messages; send one without `taskId`, in \
                        its context, for a new task";
            return Err(A2aError::unsupported(text));
        }
        if !state.asks() {
            let text = "the task is in progress, and takes no message before it asks or ends";
            return Err(A2aError::unsupported(text));
        }
        self.client.require(Right::Approve)?;
        let by = self.caller(&message)?;
        self.client.admit_turn(&by, &self.agent.slug, Some(task.context())).await?;
        let outcome = task.outcome(platform, who).await?;
        let answers = answers_to(outcome.questions(), &said)?;
        let turn = Turn {
            agent: self.agent.slug.clone(),
            mode: None,
            conversation: Some(task.context().to_owned()),
            says: Says::Answers(answers),
            after: None,
            metadata: metadata_of(&message),
        };
        let done = task.chain.count();
        platform.begin(by, turn).await.map_err(of_begin)?;
        let task = task.reload(platform, who).await?;
        self.source.changed.notify_waiters();
        Ok(Sent::Task { task, done })
    }
}

/// The error of a message that began nothing.
fn of_begin(fault: Fault) -> A2aError {
    match fault.code.as_str() {
        // The context waits for an answer, or works.
        WAITING | "W0202" => A2aError::unsupported(format!(
            "the context has a task that has not ended ({}); send the message with its `taskId` once it \
             asks, or in another context",
            fault.message
        )),
        KEY_REUSED => {
            let text =
                "`message.messageId` was used before, with another content; choose a new one";
            A2aError::invalid("message.messageId", text)
        }
        _ => A2aError::of_fault(fault),
    }
}

fn check_message(message: &Message) -> Result<()> {
    let length = message.message_id.len();
    if length == 0 || length > MESSAGE_ID_BYTES_MAX {
        let found = format!("a text of {length} bytes");
        let expected = format!("1 to {MESSAGE_ID_BYTES_MAX}");
        return Err(A2aError::wrong("message.messageId", &found, &expected));
    }
    match message.role {
        Role::User => Ok(()),
        Role::Agent => Err(A2aError::wrong("message.role", "ROLE_AGENT", "ROLE_USER")),
    }
}

/// The message that answers a request without a run.
fn answered(message: &Message, response: TaskResponse) -> Result<Message> {
    let TaskResponse { success, content, metadata, error, .. } = response;
    if !success {
        let text = error.unwrap_or_else(|| "the request failed".to_owned());
        return Err(A2aError::invalid("message.parts", text));
    }
    let context = metadata.get("conversationId").and_then(Value::as_str);
    let context_id = context.unwrap_or(&message.context_id).to_owned();
    let part = Part::data(json!({"content": content, "metadata": metadata}));
    Ok(wire::Message {
        message_id: format!("{}-answer", shorten(&message.message_id)),
        context_id,
        task_id: String::new(),
        role: Role::Agent,
        parts: vec![part],
        metadata: Map::new(),
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    })
}

/// Returns the answers of a message to open questions: by their ids in a data part `{answers}`, or one
/// answer to the only question, as data or as a text.
fn answers_to(questions: &[Interrupt], said: &Said) -> Result<Vec<AnswerTo>> {
    let asking: Vec<_> = questions.iter().filter(|question| question.asks()).collect();
    let by_id = said.data.iter().find_map(|data| data.get("answers")?.as_object());
    if let Some(by_id) = by_id {
        let mut answers = Vec::new();
        for (id, value) in by_id {
            let question = asking.iter().find(|question| question.id.to_string() == *id);
            let field = format!("message.parts.data.answers.{}", shorten(id));
            let question = question.ok_or_else(|| {
                A2aError::wrong(&field, "an answer to no open question", "the id of one")
            })?;
            answers.push(answer_to(question, value)?);
        }
        return Ok(answers);
    }
    let [question] = asking.as_slice() else {
        let ids: Vec<_> = asking.iter().map(|question| question.id.to_string()).collect();
        let message = format!(
            "the task has several questions; answer with a data part `{{\"answers\": {{ID: VALUE}}}}` for \
             {}",
            ids.join(", ")
        );
        return Err(A2aError::invalid("message.parts", message));
    };
    let value = match said.data.first() {
        Some(data) => data.clone(),
        None => Value::String(said.text()),
    };
    Ok(vec![answer_to(question, &value)?])
}

fn answer_to(question: &Interrupt, value: &Value) -> Result<AnswerTo> {
    if question.approval().is_some() {
        return decide(question, value);
    }
    if question.unknown().is_some() {
        return tell(question, value);
    }
    let form = AnswerForm::of(question);
    Ok(question.answer(match value.as_str() {
        Some(text) => form.answer_text(text),
        None => form.answer_value(value),
    }))
}

/// The form of the answers to a question that is no approval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerForm {
    /// Schema of the content; `None` for any.
    pub(crate) schema: Option<Value>,
    /// `true` for the question of a tool, which may also be declined.
    is_reply: bool,
}

/// The place of a text in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TextPlace {
    /// The text is the answer.
    Whole,
    /// The answer is an object with the text as its only member.
    Member(String),
}

impl AnswerForm {
    pub(crate) fn of(question: &Interrupt) -> Self {
        let is_reply = matches!(question.ask, Ask::Question { tool: Some(_), .. });
        if let Some(form) = question.unknown_form() {
            return Self { schema: Some(form), is_reply };
        }
        let schema = question.answer_schema.as_ref();
        let content = schema.filter(|_| is_reply);
        let content = content.and_then(|schema| schema.pointer("/oneOf/0/properties/content"));
        Self { schema: content.or(schema).cloned(), is_reply }
    }

    /// Returns the place of a text; `None` if no text answers the question.
    fn text_place(&self) -> Option<TextPlace> {
        let Some(schema) = &self.schema else { return Some(TextPlace::Whole) };
        if schema["type"] == "string" {
            return Some(TextPlace::Whole);
        }
        let mut members = schema["properties"].as_object()?.iter();
        let (name, member) = members.next()?;
        let is_only = members.next().is_none() && member["type"] == "string";
        is_only.then(|| TextPlace::Member(name.clone()))
    }

    fn answer_text(&self, text: &str) -> Value {
        self.accept(match self.text_place() {
            Some(TextPlace::Whole) => json!(text),
            Some(TextPlace::Member(name)) => json!({name: text}),
            // A client that sends texts alone can give other values too.
            None => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        })
    }

    /// The answer with a value, which may be a whole reply.
    fn answer_value(&self, value: &Value) -> Value {
        match self.is_reply && value.get("action").is_some() {
            true => value.clone(),
            false => self.accept(value.clone()),
        }
    }

    fn accept(&self, content: Value) -> Value {
        match self.is_reply {
            true => json!(Reply::Accept { content }),
            false => content,
        }
    }
}

/// Reads what happened to a call of unknown outcome: a word, or `{answer, value}`.
fn tell(question: &Interrupt, value: &Value) -> Result<AnswerTo> {
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    let read = UnknownAnswer::read(value).or_else(|| UnknownAnswer::read(parsed.as_ref()?));
    let answer = read.ok_or_else(|| {
        let expected = format!(
            "the text {}, or a data part `{{answer, value}}` with `happened`, `call_again` or `give_up`",
            UnknownAnswer::WORDS
        );
        A2aError::wrong("message.parts", "no answer about the call", &expected)
    })?;
    Ok(question.answer(json!(answer)))
}

/// Reads the decision about a call: a word, or `{decision, args, reason}`.
fn decide(question: &Interrupt, value: &Value) -> Result<AnswerTo> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let word = value.as_str().or_else(|| text("decision")).unwrap_or_default().trim();
    let reason = text("reason").unwrap_or_default();
    match word.to_ascii_lowercase().as_str() {
        "approve" | "approved" | "yes" => Ok(question.approve()),
        "reject" | "rejected" | "no" => Ok(question.reject(reason)),
        "edit" => match value.get("args") {
            Some(args) if args.is_object() => Ok(question.edit(args.clone())),
            _ => {
                let field = "message.parts.data.args";
                Err(A2aError::wrong(field, "missing", "the arguments of the call"))
            }
        },
        _ => {
            let expected = "the text `approve` or `reject`, or a data part `{decision, args, reason}` \
                            with `approve`, `edit` or `reject`";
            Err(A2aError::wrong("message.parts", "no decision", expected))
        }
    }
}
