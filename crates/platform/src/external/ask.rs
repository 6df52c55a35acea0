//! A request to an agent of another server, by either protocol.

use super::error::FailedAttempt;
use super::peer::Peer;
use crate::definition::ExternalForm;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::{Ctx, NodeResult, Once};
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::port::Demand;
use weftwork_types::task::Payload;
use weftwork_types::usage::Usage;
use weftwork_types::{BoxFuture, CallChain, MessageId};

/// Member of the record of a request that the server refused.
const FAULT: &str = "fault";

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
    pub(crate) place: PeerPlace,
}

/// The place of a request at its server, as far as it is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PeerPlace {
    /// Conversation.
    pub(crate) context: Option<String>,
    /// Task or run.
    pub(crate) task: Option<String>,
    /// `true` if the task had gone on when an answer to its question was to be sent.
    pub(crate) is_late: bool,
}

impl PeerPlace {
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
        let mut place = PeerPlace { context: asked.context.clone(), ..PeerPlace::default() };
        let content = match self.transport.form() {
            ExternalForm::Task => self.ask_task(asked, &mut place, ctx).await,
            ExternalForm::A2a => self.ask_a2a(asked, &mut place, ctx).await,
        };
        PeerAnswer { content, place }
    }

    /// Makes a request once. If it is unknown whether the server took it, a person decides, unless the server
    /// recognises a repeated request.
    pub(super) async fn once(&self, of: Numbered, ctx: &Ctx, work: &Work<'_>) -> NodeResult<Value> {
        let is_recognised = self.is_recognised();
        let once = Once::new(format!("external:{}", self.slug)).with(of.content);
        let once = once.id(of.number.to_string());
        let once = if is_recognised { once.idempotent() } else { once };
        let mut is_lost = false;
        let value = loop {
            let made = ctx.once(once.clone(), async |key| {
                let tool = format!("external/{}", self.slug);
                let reserved = ctx.calls().budget.reserve(&Demand::ToolCall { tool }).await;
                let reserved = reserved.map_err(|error| error.fault())?;
                let done = work(key.to_string()).await;
                reserved.settle(Usage::tool_call()).await;
                is_lost = done.as_ref().is_err_and(|failed| failed.may_have_acted);
                match done {
                    Ok(value) => Ok(value),
                    Err(failed) if is_lost => Err(failed.error.fault().into()),
                    // The server did nothing, which is an answer too.
                    Err(failed) => Ok(json!({FAULT: failed.error.fault()})),
                }
            });
            match made.await {
                // On record, it is a request without an answer, about which a person is asked now.
                Err(_) if is_lost && !is_recognised && ctx.calls().origin.run().is_some() => {
                    is_lost = false;
                }
                made => break made?,
            }
        };
        match value.get(FAULT).map(|fault| serde_json::from_value::<Fault>(fault.clone())) {
            Some(Ok(fault)) => Err(fault.into()),
            _ => Ok(value),
        }
    }

    /// Returns `true` if the server recognises a repeated request.
    pub(super) fn is_recognised(&self) -> bool {
        self.transport.idempotent == Some(true)
    }
}
