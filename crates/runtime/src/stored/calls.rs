//! Encoding of the calls of tasks.

use std::sync::Arc;
use weftwork_engine::EngineError;
use weftwork_engine::codec::{OutputReader, Reader, Writer};
use weftwork_graph::run_loop::{CallList, Calls};
use weftwork_types::Timestamp;
use weftwork_types::canonical::Hash;
use weftwork_types::port::{CallKey, CallKind, CallRecord, CallResult, CallState};
use weftwork_types::tool::Effect;

mod flag {
    pub(super) const SETTLED: u8 = 1;
    pub(super) const RESULT: u8 = 2;
    pub(super) const ENDED: u8 = 4;
    /// The call was made by another node than that of the task.
    pub(super) const NODE: u8 = 8;
    pub(super) const ALL: u8 = SETTLED | RESULT | ENDED | NODE;
}

const KINDS: [CallKind; 3] = [CallKind::Model, CallKind::Tool, CallKind::Once];
const EFFECTS: [Effect; 3] = [Effect::ReadOnly, Effect::StateChange, Effect::ExternalSideEffect];

/// Returns the number of a kind and an effect.
fn kind_and_effect(kind: CallKind, effect: Effect) -> u8 {
    let kind = match kind {
        CallKind::Model => 0,
        CallKind::Tool => 1,
        CallKind::Once => 2,
    };
    let effect = match effect {
        Effect::ReadOnly => 0,
        Effect::StateChange => 1,
        Effect::ExternalSideEffect => 2,
    };
    kind * 3 + effect
}

/// Encodes the calls of a task of this node.
pub(super) fn write(out: &mut Writer, node: &str, calls: &CallList) -> Result<(), String> {
    out.count(calls.0.len());
    calls.0.iter().try_for_each(|call| write_one(out, node, call))
}

fn write_one(out: &mut Writer, of: &str, call: &CallRecord) -> Result<(), String> {
    let CallRecord { key, kind, name, node, step, effect, state, result, .. } = call;
    let CallRecord { made, possibly_paid, reused, opened_at, settled_at, .. } = call;
    let has = |yes: bool, flag: u8| if yes { flag } else { 0 };
    out.raw(&key.0.0);
    out.byte(kind_and_effect(*kind, *effect));
    out.byte(
        has(*state == CallState::Settled, flag::SETTLED)
            | has(result.is_some(), flag::RESULT)
            | has(settled_at.is_some(), flag::ENDED)
            | has(node != of, flag::NODE),
    );
    out.text(name);
    if node != of {
        out.text(node);
    }
    out.signed(*step);
    for count in [*made, *possibly_paid, *reused] {
        out.number(count);
    }
    out.signed(opened_at.0);
    if let Some(settled_at) = settled_at {
        out.signed(settled_at.0.wrapping_sub(opened_at.0));
    }
    result.as_ref().map_or(Ok(()), |result| out.json(&result.value))
}

/// Decodes the calls that [`write`] encoded.
pub(super) fn read(
    read: &mut Reader<'_>,
    node: &str,
    with: &OutputReader<'_>,
) -> Result<Calls, EngineError> {
    let mut calls = Vec::new();
    for _ in 0..read.count()? {
        calls.push(Arc::new(read_one(read, node, with)?));
    }
    Ok(CallList::of(calls))
}

fn read_one(
    read: &mut Reader<'_>,
    of: &str,
    with: &OutputReader<'_>,
) -> Result<CallRecord, EngineError> {
    let mut key = [0; 32];
    key.iter_mut().zip(read.raw(32)?).for_each(|(to, from)| *to = *from);
    let what = usize::from(read.byte()?);
    let (Some(kind), Some(effect)) = (KINDS.get(what / 3), EFFECTS.get(what % 3)) else {
        return Err(read.damaged("what was called"));
    };
    let flags = read.byte()?;
    if flags & !flag::ALL != 0 {
        return Err(read.damaged("how a call stands"));
    }
    let has = |flag: u8| flags & flag != 0;
    let name = read.text()?.to_owned();
    let node = if has(flag::NODE) { read.text()? } else { of }.to_owned();
    let step = read.signed()?;
    let made = read.number()?;
    let possibly_paid = read.number()?;
    let reused = read.number()?;
    let opened_at = Timestamp(read.signed()?);
    let after = if has(flag::ENDED) { Some(read.signed()?) } else { None };
    let result = if has(flag::RESULT) { Some(with.json(read, "a call")?) } else { None };
    Ok(CallRecord {
        key: CallKey(Hash(key)),
        kind: *kind,
        name,
        node,
        step,
        effect: *effect,
        state: if has(flag::SETTLED) { CallState::Settled } else { CallState::Intent },
        result: result.map(|value| CallResult { value }),
        made,
        possibly_paid,
        reused,
        opened_at,
        settled_at: after.map(|after| Timestamp(opened_at.0.wrapping_add(after))),
    })
}
