//! Turns: what a request says in which conversation, and its run.

use crate::approval::ApprovalId;
use crate::error::{ApiError, Result};
use crate::model::Model;
use crate::page::PageAddress;
use serde_json::{Map, Value, json};
use weftwork_server::MountedClient;
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::port::{RunHandle, Says, TaskCaller, Turn};
use weftwork_types::run::AnswerTo;
use weftwork_types::{Right, RunId, ThreadId};

/// Code of a request in a conversation that waits for an answer.
const WAITING: &str = "W1038";
/// Member of the metadata of runs that this protocol began.
pub(crate) const METADATA: &str = "openai";

/// A message of a client to a model, with those before it.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) messages: Vec<Message>,
    /// Id of the conversation; `None` for a new one.
    pub(crate) conversation: Option<String>,
    /// Run after which it is said.
    pub(crate) after: Option<RunId>,
    /// Metadata that is stored with the run.
    pub(crate) metadata: Value,
}

impl Said {
    /// Leaves out the messages before the last one.
    pub(crate) fn with_last_alone(mut self) -> Self {
        let last = self.messages.len().saturating_sub(1);
        self.messages.drain(..last);
        self
    }
}

/// The decision of a person about a call.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) id: ApprovalId,
    pub(crate) approves: bool,
    pub(crate) reason: Option<String>,
}

/// A client that asks a model.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) client: &'a MountedClient,
    pub(crate) by: TaskCaller,
    pub(crate) model: &'a Model,
    pub(crate) page: &'a PageAddress,
}

impl Asking<'_> {
    /// Begins the run of a message.
    ///
    /// # Errors
    /// Status 403 without the right, 409 if a run of the conversation has not ended, 429 if too many runs
    /// wait, 400 for what does not fit, and if the conversation waits for an answer.
    pub(crate) async fn say(&self, said: Said) -> Result<RunHandle> {
        let Asking { client, by, model, page } = self;
        client.require(Right::Run)?;
        client.admit_turn(by, &model.slug, said.conversation.as_deref()).await?;
        let platform = client.platform()?;
        let last = said.messages.last();
        let input = last.and_then(|last| model.input_in(&last.joined_text()));
        let conversation = said.conversation.clone();
        let turn = Turn {
            agent: model.slug.clone(),
            mode: model.mode,
            conversation: said.conversation,
            says: Says::Messages { messages: said.messages, input },
            after: said.after,
            metadata: own_metadata(said.metadata),
        };
        match platform.begin(by.clone(), turn).await {
            Err(fault) if fault.code == WAITING => {
                Err(waits(fault, client, page, conversation.as_deref().unwrap_or_default()).await)
            }
            begun => begun.map_err(ApiError::refused),
        }
    }

    /// Begins the run of decisions about calls that wait for an approval.
    ///
    /// # Errors
    /// Status 403 without the right, 404 for an approval that the principal does not have, 409 for one that
    /// was decided before.
    pub(crate) async fn decide(
        &self,
        decisions: Vec<Decision>,
        metadata: Value,
    ) -> Result<RunHandle> {
        let Asking { client, by, model, .. } = self;
        client.require(Right::Approve)?;
        let platform = client.platform()?;
        let who = client.principal();
        let Some(first) = decisions.first() else {
            return Err(ApiError::invalid("input", "`input` has no approval response"));
        };
        let missing = |id: &ApprovalId| ApiError::missing("approval request", &id.to_string());
        let run = first.id.run.clone();
        let turn = platform.turn(who, &run).await.map_err(ApiError::refused);
        let turn = turn.map_err(|error| match error.is_missing() {
            true => missing(&first.id),
            false => error,
        })?;
        if turn.agent != model.slug {
            return Err(missing(&first.id));
        }
        client.admit_turn(by, &model.slug, Some(&turn.conversation)).await?;
        let followed = platform.follow(who, &run).await.map_err(ApiError::refused)?;
        let outcome = followed.outcome.await;
        let mut answers: Vec<AnswerTo> = Vec::new();
        for Decision { id, approves, reason } in decisions {
            let of_run = outcome.questions().iter().filter(|_| id.run == run);
            let mut asked = of_run.filter(|asked| asked.approval().is_some());
            let question = asked.find(|asked| asked.id == id.question);
            let question = question.ok_or_else(|| missing(&id))?;
            answers.push(match (approves, reason) {
                (true, _) => question.approve(),
                (false, reason) => question.reject(reason.unwrap_or_default()),
            });
        }
        let turn = Turn {
            agent: model.slug.clone(),
            mode: None,
            conversation: Some(turn.conversation),
            says: Says::Answers(answers),
            after: None,
            metadata: own_metadata(metadata),
        };
        platform.begin(by.clone(), turn).await.map_err(ApiError::refused)
    }
}

/// The error for a message in a conversation that waits for an answer on the page.
async fn waits(
    fault: Fault,
    client: &MountedClient,
    page: &PageAddress,
    conversation: &str,
) -> ApiError {
    let place = match client.platform() {
        Ok(platform) => platform.conversation(client.principal(), conversation, false).await.ok(),
        Err(_) => None,
    };
    let thread = place.as_ref().and_then(|of| of.pointer("/conversation/thread")?.as_str());
    let thread = thread.and_then(|thread| ThreadId::new(thread).ok());
    let message = match thread {
        Some(thread) => format!("{}; its page: {}", fault.message, page.of_thread(&thread)),
        None => fault.message,
    };
    ApiError::new(axum::http::StatusCode::BAD_REQUEST, message).with_code(WAITING)
}

fn own_metadata(value: Value) -> Map<String, Value> {
    Map::from_iter([(METADATA.to_owned(), value)])
}

/// The metadata of the run of a chat completion.
pub(crate) fn of_chat() -> Value {
    json!({"api": "chat.completions"})
}
