//! The values that entries of a script pass in: answers, changes, targets.

use crate::message;
use crate::node::{Goto, goto_of};
use crate::play::Played;
use crate::python::{self, Raised};
use crate::spec::Update;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use weftwork_graph::Answers;
use weftwork_graph::run_loop::{AsNode, StateUpdate};
use weftwork_types::InterruptId;
use weftwork_types::run::Target;

/// An answer, or answers by the ids of the questions when nothing else can be meant.
pub(crate) fn resume(answer: &Json) -> Option<Answers> {
    let by_id = answer.as_object().and_then(|members| {
        let answers = members.iter().map(|(id, answer)| {
            let is_id =
                id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            Some((id.parse().ok().filter(|_| is_id)?, answer.clone()))
        });
        answers.collect::<Option<BTreeMap<InterruptId, Json>>>()
    });
    match by_id {
        Some(answers) => Some(Answers::ById(answers)),
        None => (!answer.is_null()).then(|| Answers::One(answer.clone())),
    }
}

pub(crate) fn update_values(update: &Update) -> Played<Option<Vec<(String, Json)>>> {
    match update {
        Update::Object(expr) => members(&expr.alone()?),
        Update::Plain(value) => members(value),
    }
}

pub(crate) fn bulk_update(values: &Json, name: Option<&str>) -> Played<StateUpdate> {
    Ok(StateUpdate { values: members(values)?, as_node: as_node(name) })
}

fn members(values: &Json) -> Played<Option<Vec<(String, Json)>>> {
    match values {
        Json::Null => Ok(None),
        Json::Object(members) => {
            let members = members.iter();
            let members = members.map(|(key, value)| (key.clone(), message::record(value.clone())));
            Ok(Some(members.collect()))
        }
        other => Err(Raised::new(
            "InvalidUpdateError",
            format!("a change must be an object of channel values, found {other}"),
        )),
    }
}

pub(crate) fn as_node(name: Option<&str>) -> AsNode {
    match name {
        Some("START") => AsNode::Start,
        Some("END") => AsNode::End,
        other => AsNode::from(other.map(str::to_owned)),
    }
}

/// The targets of a command from outside, which may contain only names and sends.
pub(crate) fn targets(value: &Json) -> Played<Vec<Target>> {
    let all = match value {
        Json::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let targets = all.iter().filter(|_| python::truth(value)).map(|one| {
        let found: Vec<Goto> = if one.is_array() { Vec::new() } else { goto_of(one) };
        found.into_iter().next().map(target).ok_or_else(|| {
            let found = python::type_name(one);
            let message = format!("In Command.goto, expected Send/str, got {found}");
            Raised::new("TypeError", message)
        })
    });
    targets.collect()
}

/// A target of a command.
fn target(goto: Goto) -> Target {
    match goto {
        Goto::Node(node) => Target::Node(node),
        Goto::End => Target::Node("__end__".to_owned()),
        Goto::Send(node, arg) => Target::Send { node, arg: message::records(arg) },
    }
}
