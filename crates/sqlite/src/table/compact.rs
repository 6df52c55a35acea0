//! The compact form of calls and usage in the log: arrays without member names, and without values
//! that equal those of the run's row. New members are only added at the end, with a default.

use crate::error::Done;
use crate::row::At;
use rusqlite::Row;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::OnceCell;
use weftwork_store::UsageRow;
use weftwork_types::caller::{Caller, GraphCaller};
use weftwork_types::canonical::Hash;
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallResult, CallState};
use weftwork_types::tool::Effect;
use weftwork_types::usage::{Tokens, UsageFact, UsageStatus};
use weftwork_types::{InvocationId, RunId, Timestamp};

/// A call: key, identity (kind, name, node, superstep, effect), state (state, result, made,
/// possibly paid, reused), and the times at which it was opened and settled.
#[derive(Serialize, Deserialize)]
pub(crate) struct Call<'a>(
    CallKey,
    CallKind,
    Cow<'a, str>,
    Cow<'a, str>,
    i64,
    Effect,
    CallState,
    Option<Cow<'a, CallResult>>,
    u32,
    u32,
    u32,
    Timestamp,
    Option<Timestamp>,
);

impl<'a> From<&'a CallRecord> for Call<'a> {
    fn from(call: &'a CallRecord) -> Self {
        Self(
            call.key,
            call.kind,
            Cow::Borrowed(&call.name),
            Cow::Borrowed(&call.node),
            call.step,
            call.effect,
            call.state,
            call.result.as_ref().map(Cow::Borrowed),
            call.made,
            call.possibly_paid,
            call.reused,
            call.opened_at,
            call.settled_at,
        )
    }
}

impl From<Call<'_>> for CallRecord {
    fn from(call: Call<'_>) -> Self {
        let Call(key, kind, name, node, step, effect, state, result, ..) = call;
        let Call(.., made, possibly_paid, reused, opened_at, settled_at) = call;
        let name = name.into_owned();
        let node = node.into_owned();
        let result = result.map(Cow::into_owned);
        Self {
            key,
            kind,
            name,
            node,
            step,
            effect,
            state,
            result,
            made,
            possibly_paid,
            reused,
            opened_at,
            settled_at,
        }
    }
}

/// A usage fact: caller and graph, if they differ from those of the run's row; graph version; the
/// fact itself, with input tokens, output tokens and the estimated flag as one tuple, and at the
/// end the rest of the account, if there is any.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fact<'a>(
    Option<Cow<'a, Caller>>,
    Option<Cow<'a, str>>,
    Cow<'a, str>,
    Cow<'a, InvocationId>,
    u32,
    Cow<'a, str>,
    Cow<'a, str>,
    UsageStatus,
    Option<Cow<'a, str>>,
    (u64, u64, bool),
    Option<u64>,
    Option<Cow<'a, str>>,
    Hash,
    Timestamp,
    u64,
    #[serde(default, skip_serializing_if = "Parts::are_none")] Parts,
);

/// Parts of the tokens: read from a cache, spent on reasoning, written to a cache. Then the time to the
/// first token, and the costs besides that of the fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Parts(
    u64,
    u64,
    #[serde(default)] u64,
    #[serde(default)] Option<u64>,
    #[serde(default, skip_serializing_if = "Costs::are_none")] Costs,
);

/// Costs: stated by the provider, by the price table beside it, saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Costs(Option<u64>, Option<u64>, Option<u64>);

impl Costs {
    fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Parts {
    fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The billing identity in the row of a run.
#[derive(Debug)]
pub(crate) struct Payer {
    /// Caller as JSON.
    json: String,
    /// Parsed caller, filled on first use.
    caller: OnceCell<Caller>,
    graph: String,
}

impl Payer {
    pub(crate) fn read(at: &At<'_>, row: &Row<'_>) -> Done<Self> {
        let json = at.plain(row, "caller")?;
        let graph = at.plain(row, "graph")?;
        Ok(Self { json, caller: OnceCell::new(), graph })
    }

    fn caller(&self) -> serde_json::Result<&Caller> {
        if let Some(caller) = self.caller.get() {
            return Ok(caller);
        }
        let caller = serde_json::from_str(&self.json)?;
        Ok(self.caller.get_or_init(|| caller))
    }

    /// Converts a usage fact to its compact form.
    pub(crate) fn shorten<'a>(&self, caller: &'a GraphCaller, fact: &'a UsageFact) -> Fact<'a> {
        let same = self.caller().is_ok_and(|own| caller.caller == *own);
        let Tokens { input, output, estimated, cached, cache_written, reasoning } = fact.tokens;
        let costs =
            Costs(fact.provider_cost_micro_usd, fact.compared_micro_usd, fact.saved_micro_usd);
        Fact(
            (!same).then_some(Cow::Borrowed(&caller.caller)),
            (caller.graph != self.graph).then_some(Cow::Borrowed(&caller.graph)),
            Cow::Borrowed(&caller.graph_version),
            Cow::Borrowed(&fact.invocation_id),
            fact.attempt,
            Cow::Borrowed(&fact.provider),
            Cow::Borrowed(&fact.model),
            fact.status,
            fact.error_code.as_deref().map(Cow::Borrowed),
            (input, output, estimated),
            fact.cost_micro_usd,
            fact.provider_call_id.as_deref().map(Cow::Borrowed),
            fact.prompt_hash,
            fact.started_at,
            fact.latency_ms,
            Parts(cached, reasoning, cache_written, fact.first_token_ms, costs),
        )
    }

    /// Restores a usage fact of this run from its compact form.
    pub(crate) fn lengthen(&self, at: &At<'_>, run: &RunId, short: Fact<'_>) -> Done<UsageRow> {
        let Fact(caller, graph, version, invocation, attempt, provider, model, status, ..) = short;
        let Fact(.., error_code, tokens, cost, call_id, prompt_hash, started_at, latency_ms, parts) =
            short;
        let caller = match caller {
            Some(caller) => caller.into_owned(),
            None => self
                .caller()
                .map_err(|error| at.corrupt(format!("the caller of its run: {error}")))?
                .clone(),
        };
        let (input, output, estimated) = tokens;
        let Parts(cached, reasoning, cache_written, first_token_ms, costs) = parts;
        let Costs(provider_cost_micro_usd, compared_micro_usd, saved_micro_usd) = costs;
        let caller = GraphCaller {
            caller,
            run: run.clone(),
            graph: graph.map_or_else(|| self.graph.clone(), Cow::into_owned),
            graph_version: version.into_owned(),
        };
        let fact = UsageFact {
            invocation_id: invocation.into_owned(),
            attempt,
            provider: provider.into_owned(),
            model: model.into_owned(),
            status,
            error_code: error_code.map(Cow::into_owned),
            tokens: Tokens { input, output, estimated, cached, cache_written, reasoning },
            cost_micro_usd: cost,
            provider_cost_micro_usd,
            compared_micro_usd,
            saved_micro_usd,
            provider_call_id: call_id.map(Cow::into_owned),
            prompt_hash,
            started_at,
            latency_ms,
            first_token_ms,
        };
        Ok(UsageRow { caller: caller.into(), fact })
    }
}
