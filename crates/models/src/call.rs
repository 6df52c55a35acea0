//! The only path by which models are called: journal, budget, retries, usage, ledger, events.

use crate::attempt::{Attempt, AttemptId, Bill, CallInfo};
use crate::cache::ResponseCache;
use crate::capability;
use crate::chat::{ChatModel, ChatRequest, FinishReason};
use crate::collect::message_id;
use crate::limiter::CallPermit;
use crate::protocol::is_paused_turn;
use crate::retry::delay_after;
use crate::secrets::Secrets;
use crate::spans::{call_span, record_call_end};
use crate::{ModelCallError, ModelError, RetryPolicy, fingerprint, options};
use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use tracing::Instrument as _;
use uuid::Uuid;
use weftwork_types::canonical;
use weftwork_types::code::Fault;
use weftwork_types::event::{AiEvent, ToolCallPart};
use weftwork_types::message::Message;
use weftwork_types::port::{
    Attempts, CallContext, CallKey, CallKind, CallResult, Intent, Journal, JournalError, Opened,
};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, Usage, UsageFact, UsageStatus};
use weftwork_types::{InvocationId, MessageId};

/// Version of the journal record of a model call.
const RECORD_VERSION: u64 = 1;

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The answer. Its id is derived from the call, so a replayed call returns the same id.
    pub message: Message,
    /// Why the answer ended. At [`FinishReason::Length`] the text is truncated.
    pub finish: FinishReason,
    /// Usage of the attempt that produced the answer.
    pub tokens: Tokens,
    /// The model's id, `provider:model`.
    pub model: String,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_call_id: Option<String>,
}

/// An announced call. If it ends before its first attempt, its announcement is withdrawn: nothing was
/// paid.
#[derive(Debug)]
struct Announced<'a> {
    key: CallKey,
    journal: &'a dyn Journal,
    has_begun: bool,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if !self.has_begun {
            self.journal.withdraw(self.key);
        }
    }
}

/// Attempts of a call so far.
#[derive(Debug, Default)]
pub(crate) struct Tried<'a> {
    pub(crate) attempts: u32,
    pub(crate) used: Usage,
    /// Error of the last attempt that the provider ended.
    failed: Option<ModelError>,
    /// Id of the message that the call produces: that of its first request.
    message: Option<MessageId>,
    /// The request of the last attempts, or of the next one.
    announced: Option<Announced<'a>>,
}

/// A call that the journal has no outcome of.
#[derive(Clone, Copy)]
struct OpenCall<'a> {
    key: CallKey,
    /// The request without its secrets.
    request: &'a Arc<ChatRequest>,
    secrets: &'a Secrets,
}

/// Maximum number of requests that continue an answer which its provider paused.
const CONTINUATIONS_MAX: usize = 5;

/// Calls models. Nodes call models only through this type.
#[derive(Debug, Clone, Default)]
pub struct ModelCaller {
    policy: RetryPolicy,
}

/// The model of a single run, as a dependency of the run: it answers the calls that the graph makes
/// to another model.
#[derive(Debug, Clone)]
pub struct RunModel {
    /// Id of the model that is replaced, `provider:model`. Calls to other models are not changed.
    pub instead_of: String,
    /// The model of the run.
    pub model: Arc<dyn ChatModel>,
}

impl ModelCaller {
    /// Creates a caller with the given retry policy.
    #[must_use]
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy }
    }

    /// Calls a model, or returns the recorded answer of an earlier identical call. A [`RunModel`]
    /// among the dependencies of the run is called instead of the model that it replaces.
    ///
    /// An answer that the provider pauses is continued, at most 5 times.
    ///
    /// After a final error, the [`ChatModel::fallback`] is called, and the answer names the model that
    /// gave it. An answer of the [`ChatModel::cache`] is given without an attempt; its usage fact has
    /// attempt 0 and no tokens.
    ///
    /// Every attempt reserves its estimated tokens from the budget, and settles with what it used.
    /// Every attempt, failed, cut or not, produces a usage fact: the ledger records it, and an event
    /// reports it. The answer is in the journal before this returns, and becomes durable with the
    /// next commit of the run.
    ///
    /// # Errors
    /// [`ModelCallError`] with the [`ModelError`] of the last attempt; [`ModelError::Unsupported`] without
    /// an attempt if the request sets an option that the model lacks, or an option to a value that
    /// it does not take; [`ModelError::Deadline`] if the deadline has passed or would pass before the
    /// next attempt; [`ModelError::Budget`] if the budget allows no attempt, or its wall time would be
    /// used up before the next one; [`ModelError::Journal`] if the answer could not be recorded.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt and releases its reservation. Its usage is estimated,
    /// charged to the budget, reported as an event and recorded by the ledger.
    pub async fn call(
        &self,
        model: &dyn ChatModel,
        request: ChatRequest,
        ctx: &CallContext,
    ) -> Result<ChatResponse, ModelCallError> {
        let mut tried = Tried::default();
        let chosen = ctx.dependencies.get::<RunModel>();
        let chosen = chosen.as_ref().filter(|chosen| chosen.instead_of == model.info().id());
        let model = chosen.map_or(model, |chosen| chosen.model.as_ref());
        let span = call_span(model);
        let making = self.make_whole(model, request, ctx, &mut tried);
        let outcome = making.instrument(span.clone()).await;
        record_call_end(&span, &tried, outcome.as_ref());
        outcome.map_err(|error| {
            let last_attempt = tried.failed.filter(|_| is_limit(&error));
            ModelCallError::new(error, last_attempt.as_ref(), tried.attempts, tried.used)
        })
    }

    /// Makes a call, and continues its answer if the provider pauses it. Each request is a call of
    /// its own in the journal, so that a request whose answer is recorded is never paid again.
    async fn make_whole<'a>(
        &self,
        model: &dyn ChatModel,
        mut request: ChatRequest,
        ctx: &'a CallContext,
        tried: &mut Tried<'a>,
    ) -> Result<ChatResponse, ModelError> {
        let mut paused: Vec<ChatResponse> = Vec::new();
        loop {
            let answer = self.find_or_make(model, request.clone(), ctx, tried).await?;
            tried.message.get_or_insert_with(|| answer.message.id.clone());
            if answer.finish != FinishReason::Paused {
                return Ok(join_paused(paused, answer));
            }
            if paused.len() == CONTINUATIONS_MAX {
                let provider = model.info().provider.clone();
                return Err(ModelError::Paused { provider, continued: CONTINUATIONS_MAX });
            }
            request.messages.push(answer.message.clone());
            paused.push(answer);
        }
    }

    async fn find_or_make<'a>(
        &self,
        model: &dyn ChatModel,
        request: ChatRequest,
        ctx: &'a CallContext,
        tried: &mut Tried<'a>,
    ) -> Result<ChatResponse, ModelError> {
        // Providers and tools may repeat what the conversation has, whichever run it is from.
        ctx.hidden.add_conversation(&request.messages);
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
            Opened::Settled { result, .. } => reuse(&name, &result.value, ctx),
            // A model call with an unknown outcome is repeated: its only effect is its cost.
            Opened::New { key } | Opened::Unknown { key, .. } => {
                tried.announced =
                    Some(Announced { key, journal: ctx.journal.as_ref(), has_begun: false });
                let mut request = request;
                capability::read_text_files(&mut request);
                capability::note_older_media(model, &mut request);
                if let Some(what) = unsupported(model, &request) {
                    return Err(ModelError::Unsupported { model: name, what });
                }
                let (request, secrets) = Secrets::take(request);
                let call = OpenCall { key, request: &Arc::new(request), secrets: &secrets };
                self.call_with_fallbacks(model, call, tried, ctx).await
            }
        }
    }

    /// Calls the model, and after a final error its fallbacks. Each attempt of each model is one of
    /// the call.
    async fn call_with_fallbacks<'a>(
        &self,
        model: &dyn ChatModel,
        open: OpenCall<'_>,
        tried: &mut Tried<'a>,
        ctx: &'a CallContext,
    ) -> Result<ChatResponse, ModelError> {
        let OpenCall { key, request, .. } = open;
        let message = tried.message.get_or_insert_with(|| message_id(key)).clone();
        let cache = model
            .cache()
            .map(|cache| (cache, ResponseCache::key(&ctx.principal, &model.info().id(), request)));
        if let Some((cache, cache_key)) = &cache {
            if has_passed(ctx) {
                return Err(ModelError::Deadline { provider: model.info().provider.clone() });
            }
            if let Some(mut cached) = cache.get(cache_key, ctx.clock.elapsed()) {
                cached.message.id.clone_from(&message);
                let call = CallInfo::new(key, message, model, request);
                let bill = Bill::new(call.without_attempt(model.info(), cached.tokens, ctx), ctx);
                return self.give_cached(cached, bill, key, ctx).await;
            }
        }
        let mut current = model;
        loop {
            let made = self.make_attempts(current, open, tried, ctx).await;
            let error = match made {
                Ok((response, bill)) => {
                    if let Some((cache, cache_key)) = cache {
                        cache.insert(cache_key, &response, ctx.clock.elapsed());
                    }
                    return self.record(response, bill, key, ctx).await;
                }
                Err(error) => error,
            };
            // What the budget and the deadline refuse, no other model may do instead.
            if is_limit(&error) {
                return Err(error);
            }
            // A fallback that cannot take the request is passed over.
            current = current.fallback(&error).ok_or_else(|| error.clone())?;
            while unsupported(current, request).is_some() {
                current = current.fallback(&error).ok_or_else(|| error.clone())?;
            }
            tracing::warn!(model = %current.info().id(), %error, "model call goes to a fallback");
        }
    }

    /// Makes attempts with one model until one succeeds or the policy allows no further one.
    async fn make_attempts<'a>(
        &self,
        model: &dyn ChatModel,
        open: OpenCall<'_>,
        tried: &mut Tried<'a>,
        ctx: &'a CallContext,
    ) -> Result<(ChatResponse, Bill<'a>), ModelError> {
        let OpenCall { key, request, secrets } = open;
        let message = tried.message.get_or_insert_with(|| message_id(key)).clone();
        let call = CallInfo::new(key, message, model, request);
        let before = tried.attempts;
        loop {
            let number = tried.attempts + 1;
            let late = || ModelError::Deadline { provider: model.info().provider.clone() };
            if has_passed(ctx) {
                return Err(late());
            }
            let id = AttemptId::new(number, ctx);
            let demand = call.demand(model.info(), &id, request);
            let reservation = ctx.budget.reserve(&demand).await?;
            let turn = wait_for_turn(model, request, ctx).await?;
            if let Some(announced) = &mut tried.announced {
                announced.has_begun = true;
            }
            let attempt = Attempt::begin(model.info(), &call, id, reservation, ctx);
            let (bill, outcome) = attempt.run(model, request, secrets).await;
            drop(turn);
            tried.attempts = number;
            tried.used += Usage::from(bill.fact());
            let error = match outcome {
                Ok(response) => return Ok((response, bill)),
                Err(error) => error,
            };
            drop(bill);
            if is_limit(&error) {
                return Err(error);
            }
            ctx.ledger.recorded().await;
            let chance = ctx.clock.unique();
            let wait = delay_after(&self.policy, number - before, &error, chance);
            tried.failed = Some(error.clone());
            let Some(wait) = wait else { return Err(error) };
            let now = ctx.clock.now();
            if ctx.deadline.is_some_and(|deadline| now.plus(wait) >= deadline) {
                return Err(late());
            }
            if let Some(limit) = ctx.budget.wall_time(now) {
                limit.check_wait(now, wait)?;
            }
            ctx.clock.sleep(wait).await;
        }
    }

    /// Gives an answer of the cache: it is the call's own, with a usage fact that says that no
    /// attempt was made.
    async fn give_cached(
        &self,
        mut response: ChatResponse,
        bill: Bill<'_>,
        key: CallKey,
        ctx: &CallContext,
    ) -> Result<ChatResponse, ModelError> {
        response.tokens = bill.fact().tokens;
        show(&response.message, &response.model, ctx);
        let message = Some(response.message.id.clone());
        ctx.emit.emit(AiEvent::UsageReport {
            fact: bill.fact().clone(),
            message,
            finish: Some(response.finish.name().to_owned()),
            task: None,
        });
        self.record(response, bill, key, ctx).await
    }

    /// Records an answer, and then its bill. The journal record includes the usage fact, so that no
    /// answer is recorded without its cost.
    async fn record(
        &self,
        response: ChatResponse,
        bill: Bill<'_>,
        key: CallKey,
        ctx: &CallContext,
    ) -> Result<ChatResponse, ModelError> {
        let value = json!({"v": RECORD_VERSION, "response": response, "usage": bill.fact()});
        let settled = ctx.journal.settle(key, CallResult { value }).await;
        drop(bill);
        settled?;
        Ok(response)
    }
}

/// Returns an answer with its parts from before the pauses.
fn join_paused(paused: Vec<ChatResponse>, mut last: ChatResponse) -> ChatResponse {
    let mut parts = Vec::new();
    let mut tokens = Tokens::default();
    for piece in paused {
        tokens = tokens + piece.tokens;
        parts.extend(piece.message.parts.into_iter().filter(|part| !is_paused_turn(part)));
    }
    parts.append(&mut last.message.parts);
    last.message.parts = parts;
    last.tokens = tokens + last.tokens;
    last
}

/// The part of a request that the model does not support, and how to avoid it.
fn unsupported(model: &dyn ChatModel, request: &ChatRequest) -> Option<String> {
    let lacking = model.lacks().iter().find(|capability| capability.is_asked_by(request));
    if let Some(capability) = lacking {
        return Some(capability.refusal());
    }
    let values = options::check_values(request).and_then(|()| model.check_options(request));
    if let Err(what) = values {
        return Some(what);
    }
    let asked = u64::from(request.max_tokens?);
    let limit = model.token_limits().output?;
    (asked > limit).then(|| format!("`max_tokens` is {asked}, and its limit is {limit}; lower it"))
}

/// Waits until the limiter of a model, if it has one, lets an attempt begin. Nothing is sent until
/// then, and a call that is cut meanwhile uses nothing.
async fn wait_for_turn(
    model: &dyn ChatModel,
    request: &ChatRequest,
    ctx: &CallContext,
) -> Result<Option<CallPermit>, ModelError> {
    let Some(limiter) = model.limiter() else { return Ok(None) };
    let turn = std::pin::pin!(limiter.wait(request.estimated_tokens()));
    let Some(deadline) = ctx.deadline else { return Ok(Some(turn.await)) };
    match select(turn, ctx.clock.sleep(deadline.since(ctx.clock.now()))).await {
        Either::Left((permit, _)) => Ok(Some(permit)),
        Either::Right(_) => Err(ModelError::Deadline { provider: model.info().provider.clone() }),
    }
}

/// Returns `true` if an error is a limit of the run, and not the end of an attempt by the provider.
fn is_limit(error: &ModelError) -> bool {
    matches!(error, ModelError::Deadline { .. } | ModelError::Budget(_))
}

/// Returns `true` if the deadline of the call has passed.
fn has_passed(ctx: &CallContext) -> bool {
    ctx.deadline.is_some_and(|deadline| ctx.clock.now() >= deadline)
}

#[derive(Deserialize)]
struct Record {
    v: u64,
    response: ChatResponse,
    usage: UsageFact,
}

/// Returns a recorded answer: emits its events again and makes sure that the ledger has its fact.
fn reuse(name: &str, value: &Value, ctx: &CallContext) -> Result<ChatResponse, ModelError> {
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
    show(&record.response.message, name, ctx);
    ctx.ledger.record(&record.usage);
    ctx.ledger.record(&reused_fact(record.usage, ctx));
    Ok(record.response)
}

/// Returns the fact of a call whose answer is that of a recorded one, given the fact of that one.
fn reused_fact(recorded: UsageFact, ctx: &CallContext) -> UsageFact {
    let saved_micro_usd = match recorded.attempt {
        0 => recorded.saved_micro_usd,
        _ => recorded.cost_micro_usd,
    };
    UsageFact {
        invocation_id: InvocationId::from_uuid(Uuid::from_u128(ctx.clock.unique())),
        attempt: 0,
        status: UsageStatus::Ok,
        error_code: None,
        tokens: Tokens::default(),
        cost_micro_usd: Some(0),
        provider_cost_micro_usd: None,
        compared_micro_usd: None,
        saved_micro_usd,
        provider_call_id: None,
        started_at: ctx.clock.now(),
        latency_ms: 0,
        first_token_ms: None,
        ..recorded
    }
}

/// Emits the events of an answer that was given before.
fn show(message: &Message, model: &str, ctx: &CallContext) {
    ctx.emit.emit(AiEvent::CallReused { kind: "model".to_owned(), name: model.to_owned() });
    let delta = message.joined_text();
    if !delta.is_empty() {
        ctx.emit.emit_of(&message.id, AiEvent::TextDelta { delta });
    }
    for (index, call) in message.tool_calls().enumerate().filter(|(_, call)| call.shown.is_none()) {
        let delta = call.args.to_string();
        let call =
            ToolCallPart { tool_call_id: call.id.clone(), tool_name: call.name.clone(), index };
        ctx.emit.emit_of(&message.id, AiEvent::ToolCallDelta { call, delta });
    }
}
