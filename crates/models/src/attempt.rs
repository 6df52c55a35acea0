//! A single attempt of a model call, and the usage fact that every attempt produces.

use crate::ModelError;
use crate::call::ChatResponse;
use crate::chat::{BYTES_PER_TOKEN, ChatEvent, ChatModel, ChatRequest, FinishReason, ModelInfo};
use crate::collect::Collector;
use crate::fingerprint;
use crate::price::Price;
use crate::prompt_hash::prompt_hash;
use crate::secrets::Secrets;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use uuid::Uuid;
use weftwork_types::canonical::{self, Hash};
use weftwork_types::event::{AiEvent, AttemptReset};
use weftwork_types::port::{CallContext, CallKey, Demand, EgressError, Reservation};
use weftwork_types::usage::{Tokens, Usage, UsageFact, UsageStatus};
use weftwork_types::{BoxFuture, ErrorCode, InvocationId, MessageId};

/// An attempt within its call.
#[derive(Debug)]
pub(crate) struct AttemptId {
    invocation: InvocationId,
    /// Number of the attempt, from 1; 0 for an answer that needs none.
    number: u32,
}

impl AttemptId {
    pub(crate) fn new(number: u32, ctx: &CallContext) -> Self {
        let invocation = InvocationId::from_uuid(Uuid::from_u128(ctx.clock.unique()));
        Self { invocation, number }
    }
}

/// Maximum number of input or output tokens of an attempt that a provider is believed: a higher one is
/// replaced by an estimate, so that one wrong answer spoils no sum.
const TOKENS_MAX: u64 = 1_000_000_000;
/// Maximum cost of an attempt that a provider is believed, in millionths of a US dollar.
const COST_MAX: u64 = 1_000_000_000_000;

/// Returns the counts of a provider without those that no model has.
fn plausible(reported: Tokens) -> Tokens {
    let believed = |count: u64| if count <= TOKENS_MAX { count } else { 0 };
    let counts = Tokens::reported(believed(reported.input), believed(reported.output));
    Tokens { estimated: reported.estimated, ..counts }
        .cached(reported.cached)
        .cache_written(reported.cache_written)
        .reasoning(reported.reasoning)
}

/// Data that all attempts of a call share.
#[derive(Debug)]
pub(crate) struct CallInfo {
    key: CallKey,
    /// Id of the message that the attempts produce.
    message: MessageId,
    prompt_hash: Hash,
    /// The size of the request in bytes, for the usage estimate.
    asked_bytes: u64,
    /// The price of the model, if it is known.
    price: Option<Price>,
}

impl CallInfo {
    pub(crate) fn new(
        key: CallKey,
        message: MessageId,
        model: &dyn ChatModel,
        request: &ChatRequest,
    ) -> Self {
        let asked = canonical::to_string(&fingerprint::request(request));
        let prompt_hash = prompt_hash(&model.info().id(), request);
        let asked_bytes = asked.len() as u64;
        Self { key, message, prompt_hash, asked_bytes, price: model.price() }
    }

    /// Returns the cost of tokens; `None` if the price is unknown.
    fn cost(&self, tokens: Tokens) -> Option<u64> {
        self.price.map(|price| price.of(tokens))
    }

    /// Returns the usage fact of a call that needed no attempt, because the response cache has an
    /// answer for which these tokens were used.
    pub(crate) fn without_attempt(
        &self,
        info: &ModelInfo,
        cached: Tokens,
        ctx: &CallContext,
    ) -> UsageFact {
        let cost_micro_usd = self.cost(Tokens::default());
        let saved_micro_usd = self.cost(cached);
        let status = UsageStatus::Ok;
        let fact = self.fact(info, AttemptId::new(0, ctx), ctx);
        UsageFact { status, cost_micro_usd, saved_micro_usd, ..fact }
    }

    /// Returns the usage fact of an attempt at its beginning.
    fn fact(&self, info: &ModelInfo, attempt: AttemptId, ctx: &CallContext) -> UsageFact {
        UsageFact {
            invocation_id: attempt.invocation,
            attempt: attempt.number,
            provider: info.provider.clone(),
            model: info.model.clone(),
            status: UsageStatus::Cancelled,
            error_code: None,
            tokens: Tokens::default(),
            cost_micro_usd: None,
            provider_call_id: None,
            prompt_hash: self.prompt_hash,
            started_at: ctx.clock.now(),
            latency_ms: 0,
            provider_cost_micro_usd: None,
            compared_micro_usd: None,
            saved_micro_usd: None,
            first_token_ms: None,
        }
    }

    /// Returns the demand of an attempt for a budget.
    pub(crate) fn demand(
        &self,
        info: &ModelInfo,
        attempt: &AttemptId,
        request: &ChatRequest,
    ) -> Demand {
        let input = self.asked_bytes.div_ceil(BYTES_PER_TOKEN);
        let tokens = Tokens::estimated(input, request.max_tokens.map_or(0, u64::from));
        let cost_micro_usd = self.cost(tokens);
        let invocation = attempt.invocation.clone();
        Demand::ModelCall { invocation, model: info.id(), tokens, cost_micro_usd }
    }
}

/// The usage of an attempt that has ended, or was cut. It is handed to the ledger when this is
/// dropped: after the answer is recorded, and also if the call is cancelled before.
#[derive(Debug)]
#[must_use = "a bill that is dropped before its answer is recorded may be stored without it"]
pub(crate) struct Bill<'a> {
    fact: UsageFact,
    ctx: &'a CallContext,
}

impl<'a> Bill<'a> {
    pub(crate) fn new(fact: UsageFact, ctx: &'a CallContext) -> Self {
        Self { fact, ctx }
    }

    pub(crate) fn fact(&self) -> &UsageFact {
        &self.fact
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        self.ctx.ledger.record(&self.fact);
    }
}

/// Progress of the account of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccountState {
    /// The provider may send more.
    Open,
    /// The usage fact is complete.
    Counted,
    /// The usage fact was reported and billed.
    Billed,
}

/// A running attempt. If it is dropped before its end, it still counts, reports and bills its
/// usage.
pub(crate) struct Attempt<'a, 'call> {
    ctx: &'a CallContext,
    call: &'call CallInfo,
    /// The part of the budget set aside for the attempt, until it is settled.
    reservation: Option<Reservation>,
    /// The id of the message that the attempt produces.
    message: MessageId,
    collector: Collector,
    /// The usage fact, with status `Cancelled` until the attempt ends.
    fact: UsageFact,
    progress: AccountState,
    began: Duration,
    shown: bool,
}

impl<'a, 'call> Attempt<'a, 'call> {
    pub(crate) fn begin(
        info: &ModelInfo,
        call: &'call CallInfo,
        attempt: AttemptId,
        reservation: Reservation,
        ctx: &'a CallContext,
    ) -> Self {
        let fact = call.fact(info, attempt, ctx);
        Self {
            ctx,
            call,
            reservation: Some(reservation),
            message: call.message.clone(),
            collector: Collector::default(),
            fact,
            progress: AccountState::Open,
            began: ctx.clock.elapsed(),
            shown: false,
        }
    }

    /// Makes the attempt. When this returns, its usage fact is counted and reported, and its bill is
    /// open.
    pub(crate) async fn run(
        mut self,
        model: &dyn ChatModel,
        request: &Arc<ChatRequest>,
        secrets: &Secrets,
    ) -> (Bill<'a>, Result<ChatResponse, ModelError>) {
        let outcome = self.read_stream(model, request, secrets).await;
        self.complete_fact(outcome.as_ref().err());
        let outcome = outcome.map_err(|error| {
            let error = if secrets.is_empty() { error } else { error.without_answer() };
            error.shaped(&self.ctx.hidden)
        });
        let said = std::mem::take(&mut self.collector);
        let mut outcome = outcome.and_then(|()| {
            let id = self.message.clone();
            said.response(model.info(), self.call.key, id, request, self.fact.tokens)
        });
        outcome.iter_mut().for_each(|response| secrets.hide(&mut response.message));
        let error = outcome.as_ref().err();
        if error.is_some() && self.shown {
            self.emit(AiEvent::AttemptReset(AttemptReset::of_node(model.info().id())));
        }
        self.fact.status = match error {
            None => UsageStatus::Ok,
            Some(ModelError::Deadline { .. }) => UsageStatus::Cancelled,
            Some(_) => UsageStatus::Error,
        };
        self.fact.error_code = error.map(|error| error.fault().code);
        if let Some(reservation) = self.reservation.take() {
            reservation.settle(Usage::from(&self.fact)).await;
        }
        let finish = outcome.as_ref().ok().map(|response| response.finish);
        (self.report_usage(finish), outcome)
    }

    /// Reads the stream up to its last event, its first error or the deadline.
    async fn read_stream(
        &mut self,
        model: &dyn ChatModel,
        request: &Arc<ChatRequest>,
        secrets: &Secrets,
    ) -> Result<(), ModelError> {
        let provider = || model.info().provider.clone();
        let mut stream = model.stream(Arc::clone(request));
        let ctx = self.ctx;
        let passed = || ctx.deadline.is_some_and(|deadline| ctx.clock.now() >= deadline);
        let mut late: BoxFuture<'static, ()> = match self.ctx.deadline {
            Some(deadline) => self.ctx.clock.sleep(deadline.since(self.ctx.clock.now())),
            None => Box::pin(std::future::pending()),
        };
        while !self.collector.is_whole() {
            // The clock is read first, so that the stream is not polled once the deadline passed.
            let next = poll_fn(|cx| match passed() {
                true => Poll::Ready(None),
                false => stream.poll_next_unpin(cx).map(Some),
            });
            match select(next, &mut late).await {
                Either::Left((Some(Some(event)), _)) => self.take(event?, request, secrets),
                Either::Left((Some(None), _)) => {
                    return Err(ModelError::Truncated {
                        provider: provider(),
                        events: self.collector.events(),
                        reason: "the stream ended before its last event".to_owned(),
                    });
                }
                Either::Left((None, _)) | Either::Right(((), _)) => {
                    return Err(ModelError::Deadline { provider: provider() });
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: ChatEvent, request: &ChatRequest, secrets: &Secrets) {
        if self.fact.first_token_ms.is_none() && event.is_part() {
            let passed = self.ctx.clock.elapsed().saturating_sub(self.began);
            self.fact.first_token_ms = Some(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
        }
        match &event {
            ChatEvent::TextDelta(delta) => {
                self.shown = true;
                self.emit(AiEvent::TextDelta { delta: delta.clone() });
            }
            ChatEvent::ReasoningDelta(delta) => {
                self.shown = true;
                self.emit(AiEvent::ReasoningDelta { delta: delta.clone() });
            }
            ChatEvent::ToolCallDelta { index, args, .. } if !args.is_empty() => {
                let index = *index;
                let delta = args.clone();
                self.collector.push(event);
                let call = self.collector.call(index, self.call.key, request);
                if let Some(call) = call.filter(|call| !secrets.are_in(&call.tool_name)) {
                    self.shown = true;
                    self.emit(AiEvent::ToolCallDelta { call, delta });
                }
                return;
            }
            _ => {}
        }
        self.collector.push(event);
    }

    fn emit(&self, event: AiEvent) {
        self.ctx.emit.emit_of(&self.message, event);
    }

    /// The usage of the attempt: the provider's counts, or estimates for those that are missing or
    /// zero. Of an answer that was cut, the output is at least what was received: the counts before
    /// it may be those of its beginning. An attempt that the provider refused, or that never reached
    /// it, used nothing.
    fn tokens(&self, error: Option<&ModelError>) -> Tokens {
        let nothing_came = self.collector.events() == 0 && self.collector.tokens().is_none();
        if nothing_came && error.is_some_and(is_refusal) {
            return Tokens { estimated: true, ..Tokens::default() };
        }
        let input = self.call.asked_bytes.div_ceil(BYTES_PER_TOKEN);
        let output = self.collector.bytes().div_ceil(BYTES_PER_TOKEN);
        let Some(reported) = self.collector.tokens().map(plausible) else {
            return Tokens::estimated(input, output);
        };
        // A provider reads the request and makes what it sends: it reports zero of what it counts
        // under a name that is unknown here.
        let is_whole = self.collector.is_whole();
        let takes_estimate = reported.output == 0 || !is_whole && reported.output < output;
        Tokens {
            input: if reported.input == 0 { input } else { reported.input },
            output: if takes_estimate { output } else { reported.output },
            estimated: reported.estimated || reported.input == 0 || takes_estimate && output > 0,
            ..reported
        }
    }

    /// Returns the limit of time that has passed, which is why the attempt is cut off.
    fn passed_limit(&self) -> Option<ErrorCode> {
        let now = self.ctx.clock.now();
        if self.ctx.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(ErrorCode("W0124"));
        }
        let time = self.ctx.budget.wall_time(now).filter(|time| time.until <= now);
        time.map(|time| time.exceeded().code())
    }

    /// Completes the usage fact with what was received, unless it is complete.
    fn complete_fact(&mut self, error: Option<&ModelError>) {
        if self.progress != AccountState::Open {
            return;
        }
        self.progress = AccountState::Counted;
        let took = self.ctx.clock.elapsed().saturating_sub(self.began);
        let tokens = self.tokens(error);
        self.fact.tokens = tokens;
        let price = self.call.cost(tokens);
        // The provider's own account comes before the price table.
        let stated = self.collector.cost_micro_usd().filter(|cost| *cost <= COST_MAX);
        self.fact.cost_micro_usd = stated.or(price);
        self.fact.provider_cost_micro_usd = stated;
        self.fact.compared_micro_usd = stated.and(price);
        self.fact.provider_call_id = self.collector.provider_call_id();
        self.fact.latency_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    }

    /// Reports the usage fact with the reason for which the answer ended, and returns its bill.
    fn report_usage(&mut self, finish: Option<FinishReason>) -> Bill<'a> {
        self.progress = AccountState::Billed;
        let fact = self.fact.clone();
        let message = Some(self.message.clone());
        let finish = finish.map(|reason| reason.name().to_owned());
        self.ctx.emit.emit(AiEvent::UsageReport { fact, message, finish, task: None });
        Bill::new(self.fact.clone(), self.ctx)
    }
}

impl Drop for Attempt<'_, '_> {
    fn drop(&mut self) {
        if self.progress == AccountState::Billed {
            return;
        }
        self.complete_fact(None);
        if self.fact.status == UsageStatus::Cancelled {
            self.fact.error_code = self.passed_limit().map(|code| code.0.to_owned());
        }
        if let Some(mut reservation) = self.reservation.take() {
            reservation.spend(Usage::from(&self.fact));
        }
        drop(self.report_usage(None));
    }
}

/// Returns `true` if the error shows that the provider did no work.
fn is_refusal(error: &ModelError) -> bool {
    match error {
        ModelError::Transport { source, .. } => {
            !matches!(source, EgressError::Timeout { .. } | EgressError::Broken { .. })
        }
        ModelError::Truncated { .. }
        | ModelError::Malformed { .. }
        | ModelError::Empty { .. }
        | ModelError::Paused { .. }
        | ModelError::Deadline { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_no_model_has_are_not_believed() {
        let whole = Tokens::reported(TOKENS_MAX, 7).cached(5).reasoning(3);
        assert_eq!(plausible(whole), whole);
        let wild = Tokens::reported(u64::MAX, 7).cached(u64::MAX);
        assert_eq!(plausible(wild), Tokens::reported(0, 7));
        let wild = Tokens::reported(7, TOKENS_MAX + 1).reasoning(9);
        assert_eq!(plausible(wild), Tokens::reported(7, 0));
    }
}
