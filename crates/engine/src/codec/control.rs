//! Encoding of the control state, which decides the next superstep.

use super::output::{OutputReader, read_output, write_arg, write_output};
use crate::binary::{Reader, Writer};
use crate::error::EngineError;
use crate::plan::layout::{Mapped, node_number, write_node};
use crate::plan::{Plan, TriggerIdx};
use crate::pregel::{Control, Machine, Sent, StartInput, Trigger, Updated};
use crate::task::Arg;
use std::collections::BTreeSet;
use std::sync::Arc;

const WRITTEN: u8 = 1;
const FINISHED: u8 = 2;

/// Limit for counters of changes, which no thread reaches.
const CHANGES_MAX: u32 = u32::MAX / 2;

mod tag {
    pub(super) const NONE: u8 = 0;
    pub(super) const JSON: u8 = 1;
    pub(super) const WRITES: u8 = 2;
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const KNOWN: u8 = 4;
    pub(super) const ANY: u8 = 1;
    pub(super) const START: u8 = 2;
}

pub(super) fn write(out: &mut Writer, machine: &Machine) -> Result<(), EngineError> {
    let plan = machine.plan();
    let control = machine.control();
    for number in [control.version, control.passed, control.start_version, control.start_seen] {
        out.number(number);
    }
    let changed = control.triggers.iter().enumerate().filter(|(_, t)| **t != Trigger::default());
    out.count(changed.clone().count());
    for (index, trigger) in changed {
        out.count(index);
        out.number(trigger.version);
        out.number(trigger.seen);
        out.byte((u8::from(trigger.written) * WRITTEN) | (u8::from(trigger.finished) * FINISHED));
    }
    out.count(control.arrived.len());
    for (join, sources) in &control.arrived {
        out.count(join.0);
        out.count(sources.len());
        sources.iter().for_each(|source| out.count(node_number(*source)));
    }
    out.count(control.written.len());
    control.written.iter().for_each(|index| out.count(index.0));
    out.count(control.sends.len());
    for sent in &*control.sends {
        write_node(out, sent.node, &sent.name);
        write_arg(out, &sent.name, &sent.arg)?;
    }
    match &control.start {
        None => out.byte(tag::NONE),
        Some(StartInput::Json(json)) => {
            out.byte(tag::JSON);
            let input = || "the input".to_owned();
            out.json(&**json)
                .map_err(|reason| EngineError::BadValue { channel: input(), reason })?;
        }
        Some(StartInput::Writes(output)) => {
            out.byte(tag::WRITES);
            write_output(out, plan, output)?;
        }
    }
    write_updated(out, &control.updated);
    Ok(())
}

/// Skips to the writes of the pending input; returns `false` if there are none.
pub(super) fn find_writes(read: &mut Reader<'_>) -> Result<bool, EngineError> {
    for _ in 0..4 {
        read.wide()?;
    }
    for _ in 0..read.count()? {
        for _ in 0..3 {
            read.wide()?;
        }
        read.byte()?;
    }
    for _ in 0..read.count()? {
        read.wide()?;
        for _ in 0..read.count()? {
            read.wide()?;
        }
    }
    for _ in 0..read.count()? {
        read.wide()?;
    }
    for _ in 0..read.count()? {
        if read.wide()? == 0 {
            read.text()?;
        }
        read.value()?;
    }
    Ok(read.byte()? == tag::WRITES)
}

fn write_updated(out: &mut Writer, updated: &Updated) {
    match updated {
        Updated::Unknown => out.byte(tag::UNKNOWN),
        Updated::Known { any, start, triggers } => {
            out.byte(tag::KNOWN | (u8::from(*any) * tag::ANY) | (u8::from(*start) * tag::START));
            out.count(triggers.len());
            triggers.iter().for_each(|index| out.count(index.0));
        }
    }
}

pub(super) fn read(
    read: &mut Reader<'_>,
    plan: &Plan,
    with: &OutputReader<'_>,
) -> Result<Control, EngineError> {
    let mapped = with.mapped;
    let mut control = Control::new(plan);
    control.version = read.number()?;
    if control.version > CHANGES_MAX {
        return Err(read.damaged("fewer changes"));
    }
    control.passed = read.number()?;
    control.start_version = read.number()?;
    control.start_seen = read.number()?;
    for _ in 0..read.count()? {
        let index = read.number()?;
        let version = read.number()?;
        let seen = read.number()?;
        let flags = read.byte()?;
        let written = flags & WRITTEN != 0;
        let finished = flags & FINISHED != 0;
        if let Some(index) = trigger_of_build(mapped.trigger(plan, index, read)?, written)?
            && let Some(trigger) = control.triggers.get_mut(index.0)
        {
            *trigger = Trigger { version, seen, written, finished };
        }
    }
    for _ in 0..read.count()? {
        let index = read.number()?;
        let join = trigger_of_build(mapped.trigger(plan, index, read)?, true)?;
        let mut sources = BTreeSet::new();
        for _ in 0..read.count()? {
            let number = read.number()?;
            sources.extend(mapped.node(plan, number, read)?.ok());
        }
        control.arrived.extend(join.map(|join| (join, sources)));
    }
    for _ in 0..read.count()? {
        let index = read.number()?;
        control.written.extend(trigger_of_build(mapped.trigger(plan, index, read)?, true)?);
    }
    let mut sends = Vec::new();
    for _ in 0..read.count()? {
        let (node, name) = match mapped.target(plan, read)? {
            Ok(node) => (Some(node), Arc::clone(plan.shared_name(node))),
            Err(name) if mapped.is_same() => (None, name.into()),
            Err(name) => return Err(EngineError::LostNode { node: name.to_owned() }),
        };
        let json = with.json(read, &name)?;
        let arg = Arc::new(Arg { typed: None, json });
        sends.push(Sent { node, name, arg });
    }
    control.sends = sends.into();
    control.start = match read.byte()? {
        tag::NONE => None,
        tag::JSON => Some(StartInput::Json(Arc::new(with.json(read, "the input")?))),
        tag::WRITES => Some(StartInput::Writes(Arc::new(read_output(read, with)?))),
        _ => return Err(read.damaged("how the input is given")),
    };
    control.updated = read_updated(read, plan, mapped)?;
    Ok(control)
}

fn read_updated(
    read: &mut Reader<'_>,
    plan: &Plan,
    mapped: &Mapped,
) -> Result<Updated, EngineError> {
    let flags = read.byte()?;
    if flags == tag::UNKNOWN {
        return Ok(Updated::Unknown);
    }
    let any = flags & tag::ANY != 0;
    let start = flags & tag::START != 0;
    let mut triggers = crate::pregel::Indices::new();
    for _ in 0..read.count()? {
        let index = read.number()?;
        triggers.extend(mapped.trigger(plan, index, read)?.ok());
    }
    // Another build may have a different order of nodes, so all of them are checked.
    Ok(if mapped.is_same() { Updated::Known { any, start, triggers } } else { Updated::Unknown })
}

/// Reads a trigger of this build; a missing one matters only if its node is due.
fn trigger_of_build(
    found: Result<TriggerIdx, &str>,
    matters: bool,
) -> Result<Option<TriggerIdx>, EngineError> {
    match found {
        Ok(index) => Ok(Some(index)),
        Err(name) if matters => Err(EngineError::LostNode {
            node: name.strip_prefix("branch:to:").unwrap_or(name).to_owned(),
        }),
        Err(_) => Ok(None),
    }
}
