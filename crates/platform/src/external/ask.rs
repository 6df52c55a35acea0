//! A request to an agent of another server, by either protocol.

use super::error::FailedAttempt;
use super::peer::Peer;
use crate::definition::ExternalForm;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::{Ctx, NodeResult, Once, Question, RuntimeError};
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::port::Demand;
use weftwork_types::task::Payload;
use weftwork_types::tool::UnknownAnswer;
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, CallChain, MessageId};

/// Member of the record of a request that the server refused.
const FAULT: &str = "fault";
/// Member of the record of a request that failed, and may have had an effect.
const UNKNOWN: &str = "unknown";

/// A request to an agent of another server.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// Last message of the user.
    pub(crate) message: Option<&'a Message>,
    pub(crate) input: Option<&'a Value>,
    pub(crate) payload: &'a Payload,
    /// Agents that led to the request.
    pub(crate) chain: CallChain,
    /// Conversation at the server that the request continues.
    pub(crate) context: Option<String>,
    /// Id of the message with the answer.
    pub(crate) answer: &'a MessageId,
}

/// The answer of an agent of another server.
#[derive(Debug)]
pub(crate) struct PeerAnswer {
    pub(crate) content: NodeResult<Value>,
    pub(crate) location: PeerLocation,
}

/// The location of a request at its server, as far as it is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerLocation {
    /// Conversation.
    pub(crate) context: Option<String>,
    /// Task or run.
    pub(crate) task: Option<String>,
    /// `true` if the task had gone on when an answer to its question was to be sent.
    pub(crate) is_late: bool,
}

impl PeerLocation {
    /// Sets the conversation, unless it is empty.
    pub(super) fn set_context(&mut self, context: String) {
        if !context.is_empty() {
            self.context = Some(context);
        }
    }
}

/// A request with its number in the node, by which it is found on record.
pub(super) struct Numbered {
    pub(super) number: u32,
    /// Content, without the key.
    pub(super) content: Value,
}

/// A request that failed, and may have had an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unknown {
    fault: Fault,
    /// Key with which it was sent.
    key: String,
}

impl Unknown {
    /// Asks a person what happened, as for other calls without a known outcome.
    fn ask(&self, name: &str, content: &Value, ctx: &Ctx) -> NodeResult<UnknownAnswer> {
        let Self { fault, key } = self;
        let value = json!({
            "kind": "once_outcome_unknown",
            "name": name,
            "input": content,
            "idempotency_key": key,
            "reason": format!("`{name}` was begun and left no result: {}", fault.message),
        });
        let question = Question::value(value).answer_schema(UnknownAnswer::schema(json!(true)));
        let answer = ctx.ask_question(question)?.value;
        Ok(serde_json::from_value(answer)?)
    }
}

/// A request that is on its way. It is logged if the run is cancelled meanwhile.
struct OnWay<'a> {
    slug: &'a str,
    ctx: &'a Ctx,
    ended: bool,
}

impl OnWay<'_> {
    fn ends(mut self) {
        self.ended = true;
    }
}

impl Drop for OnWay<'_> {
    fn drop(&mut self) {
        if !self.ended && self.ctx.is_cancelled() {
            tracing::warn!(
                agent = self.slug,
                "a request was cancelled on its way: it is unknown whether the agent does it"
            );
        }
    }
}

/// Reads what is recorded in place of an answer.
fn recorded<T: DeserializeOwned>(value: &Value, member: &str) -> Option<T> {
    let only = value.as_object().filter(|of| of.len() == 1)?.get(member)?;
    T::deserialize(only).ok()
}

/// Sends a request with a key, and returns what is recorded of its answer.
pub(super) type Work<'a> =
    dyn Fn(String) -> BoxFuture<'a, Result<Value, FailedAttempt>> + Send + Sync + 'a;

impl Peer {
    /// Asks the agent, and returns its answer. Its questions are asked here. The content is an error if the
    /// agent or its server failed, with the code of the failure, or while a question has no answer, which
    /// stops the node.
    ///
    /// # Cancel safety
    /// If the run was cancelled, the task there is cancelled in the background. Otherwise it goes on, and is
    /// found again when the node is executed again.
    pub(crate) async fn ask(self: &Arc<Self>, asked: Asked<'_>, ctx: &Ctx) -> PeerAnswer {
        let mut location =
            PeerLocation { context: asked.context.clone(), ..PeerLocation::default() };
        let content = match self.transport.form() {
            ExternalForm::Task => self.ask_task(asked, &mut location, ctx).await,
            ExternalForm::A2a => self.ask_a2a(asked, &mut location, ctx).await,
        };
        PeerAnswer { content, location }
    }

    /// Makes a request once. If it is unknown whether the server took it, a person decides; if the process
    /// ended within it, only if the server does not recognise a repeated request.
    pub(super) async fn once(&self, of: Numbered, ctx: &Ctx, work: &Work<'_>) -> NodeResult<Value> {
        let name = format!("external:{}", self.slug);
        let mut id = of.number.to_string();
        let mut again: Option<Unknown> = None;
        loop {
            let once = Once::new(name.clone()).with(of.content.clone()).id(id.clone());
            let once = if self.is_recognised() { once.idempotent() } else { once };
            let made = ctx.once(once, async |key| {
                let tool = format!("external/{}", self.slug);
                let reserved = ctx.calls().budget.reserve(&Demand::ToolCall { tool }).await;
                let reserved = reserved.map_err(|error| error.fault())?;
                // Every attempt has the key of the first one.
                let key = again.as_ref().map_or_else(|| key.to_string(), |first| first.key.clone());
                let on_way = OnWay { slug: &self.slug, ctx, ended: false };
                let done = work(key.clone()).await;
                on_way.ends();
                reserved.settle(Usage::tool_call()).await;
                Ok(match done {
                    Ok(value) => value,
                    Err(failed) => {
                        let fault = failed.error.fault();
                        match failed.may_have_acted {
                            true => json!({UNKNOWN: Unknown { fault, key }}),
                            // The server did nothing, which is an answer too.
                            false => json!({FAULT: fault}),
                        }
                    }
                })
            });
            let value = made.await?;
            if let Some(fault) = recorded(&value, FAULT) {
                return Err(Fault::into(fault));
            }
            let Some(unknown) = recorded::<Unknown>(&value, UNKNOWN) else { return Ok(value) };
            if ctx.calls().origin.run().is_none() {
                return Err(unknown.fault.into());
            }
            match unknown.ask(&name, &of.content, ctx)? {
                UnknownAnswer::Happened { value } => return Ok(value),
                UnknownAnswer::GiveUp => {
                    return Err(RuntimeError::GivenUp { name }.fault().into());
                }
                UnknownAnswer::CallAgain => {
                    id.push('+');
                    again = Some(unknown);
                }
            }
        }
    }

    /// Returns `true` if the server recognises a repeated request.
    pub(super) fn is_recognised(&self) -> bool {
        self.transport.idempotent == Some(true)
    }
}
