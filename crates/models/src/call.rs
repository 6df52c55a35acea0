//! The one seam that every model call passes: journal, budget, retries, usage, ledger, events.

use crate::attempt::Attempt;
use crate::chat::{ChatModel, ChatRequest, FinishReason};
use crate::prompt_hash::prompt_hash;
use crate::{ModelError, RetryPolicy, fingerprint};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_types::canonical;
use weftwork_types::code::Fault;
use weftwork_types::event::AiEvent;
use weftwork_types::message::Message;
use weftwork_types::port::{
    Attempts, CallContext, CallKey, CallKind, CallResult, Intent, JournalError, Opened,
};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact};

/// The version of what the journal keeps of a model call.
const RECORD_VERSION: u64 = 1;

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The answer. Its id is a function of the call, so a repeated look-up gives the same one.
    pub message: Message,
    /// Why it ended. At [`FinishReason::Length`] the text is cut.
    pub finish: FinishReason,
    /// What the attempt that gave it used.
    pub tokens: Tokens,
    /// The model's id, `provider:model`.
    pub model: String,
    /// The provider's own id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
}

/// Calls models. Nodes reach models only through this.
#[derive(Debug, Clone, Default)]
pub struct ModelCaller {
    policy: RetryPolicy,
}

impl ModelCaller {
    /// A caller with its own rules for further attempts.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy }
    }

    /// Calls a model, or finds the answer it gave before.
    ///
    /// Every attempt gets a usage fact, failed ones too: it is counted by the budget, written to
    /// the ledger and told as an event. The journal has the answer before this returns, and puts
    /// it on disk with the next commit of the run. A ledger that refuses a fact twice does not void
    /// an answer that was paid: the fact stays in the run's events, and is offered again whenever
    /// the recorded answer is used.
    ///
    /// # Errors
    /// The [`ModelError`] of the last attempt; [`ModelError::Deadline`] when the deadline passed
    /// or would pass before the next attempt; [`ModelError::Budget`] and [`ModelError::Journal`]
    /// when no attempt may be made or its answer could not be recorded.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt; its usage is estimated, counted by the budget and
    /// told as an event, but not written to the ledger.
    pub async fn call(
        &self,
        model: &dyn ChatModel,
        request: ChatRequest,
        ctx: &CallContext,
    ) -> Result<ChatResponse, ModelError> {
        let name = model.info().id();
        let intent = Intent {
            kind: CallKind::Model,
            name: name.clone(),
            input: canonical::hash(&json!({
                "model": name, "request": fingerprint::request(&request),
            })),
            call_id: None,
            effect: Effect::ReadOnly,
            attempts: Attempts::Each,
        };
        match ctx.journal.open(intent).await? {
            Opened::Settled { result, .. } => reuse(&name, &result.value, ctx).await,
            // A model call of unknown outcome is made again: it changes nothing but the bill.
            Opened::New { key } | Opened::Unknown { key, .. } => {
                self.make(model, Arc::new(request), key, ctx).await
            }
        }
    }

    async fn make(
        &self,
        model: &dyn ChatModel,
        request: Arc<ChatRequest>,
        key: CallKey,
        ctx: &CallContext,
    ) -> Result<ChatResponse, ModelError> {
        let name = model.info().id();
        let hash = prompt_hash(&name, &request);
        let mut number = 0;
        loop {
            number += 1;
            let late = || ModelError::Deadline { provider: model.info().provider.clone() };
            if ctx.deadline.is_some_and(|deadline| ctx.clock.now() >= deadline) {
                return Err(late());
            }
            ctx.budget.admit_model_call()?;
            let attempt = Attempt::begin(model.info(), &request, (key, number), hash, ctx);
            let (fact, outcome) = attempt.run(model, &request).await;
            let error = match outcome {
                Ok(response) => return self.keep(response, fact, key, ctx).await,
                Err(error) => error,
            };
            book(&fact, ctx).await;
            let Some(wait) = self.policy.wait(number, &error, ctx.clock.unique()) else {
                return Err(error);
            };
            if ctx.deadline.is_some_and(|deadline| ctx.clock.now().plus(wait) >= deadline) {
                return Err(late());
            }
            ctx.clock.sleep(wait).await;
        }
    }

    /// Records an answer: first in the journal, with its fact, so that no answer is on record
    /// without its bill.
    async fn keep(
        &self,
        response: ChatResponse,
        fact: UsageFact,
        key: CallKey,
        ctx: &CallContext,
    ) -> Result<ChatResponse, ModelError> {
        let value = json!({"v": RECORD_VERSION, "response": response, "usage": fact});
        let settled = ctx.journal.settle(key, CallResult { value }).await;
        book(&fact, ctx).await;
        settled?;
        Ok(response)
    }
}

#[derive(Deserialize)]
struct Record {
    v: u64,
    response: ChatResponse,
    usage: UsageFact,
}

/// Uses a recorded answer: tells it as if it had just come, and makes sure that it is billed.
async fn reuse(name: &str, value: &Value, ctx: &CallContext) -> Result<ChatResponse, ModelError> {
    let unreadable = |reason: String| {
        let message = format!("the recorded answer cannot be read: {reason}");
        let source = Fault::new(weftwork_types::ErrorCode("W0314"), message);
        ModelError::Journal(JournalError { name: name.to_owned(), source })
    };
    let record: Record =
        serde_json::from_value(value.clone()).map_err(|error| unreadable(error.to_string()))?;
    if record.v != RECORD_VERSION {
        return Err(unreadable(format!("version {} is not {RECORD_VERSION}", record.v)));
    }
    ctx.emit.emit(AiEvent::CallReused { kind: "model".to_owned(), name: name.to_owned() });
    let message = &record.response.message;
    let delta = message.joined_text();
    if !delta.is_empty() {
        ctx.emit.emit_of(&message.id, AiEvent::TextDelta { delta });
    }
    book(&record.usage, ctx).await;
    Ok(record.response)
}

/// Writes a fact to the ledger, where a second time changes nothing; tries twice.
async fn book(fact: &UsageFact, ctx: &CallContext) {
    for _ in 0..2 {
        match ctx.ledger.record(&ctx.principal, &ctx.caller, fact).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(invocation = %fact.invocation_id, %error, "not in the ledger")
            }
        }
    }
}
