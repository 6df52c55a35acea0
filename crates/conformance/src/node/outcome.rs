//! Outcomes of a spec's nodes, and the form in which they are returned.

use super::raise;
use crate::expr;
use crate::message;
use crate::python::{self, Raised};
use crate::spec::Reducer;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_graph::{Command, DynUpdate, Dynamic, END, Finish, NodeResult, SendTo};

/// Target at which to continue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Goto {
    Node(String),
    End,
    Send(String, Json),
}

impl Goto {
    /// Returns the target that a name in a spec denotes.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "END" | "__end__" => Self::End,
            name => Self::Node(name.to_owned()),
        }
    }

    fn as_json(&self) -> Json {
        match self {
            Self::Node(name) => name.as_str().into(),
            Self::End => "__end__".into(),
            Self::Send(node, arg) => expr::send(node, arg.clone()),
        }
    }
}

/// The targets in a value: a name, a send, or a list of those. Anything else is no target.
pub(crate) fn goto_of(value: &Json) -> Vec<Goto> {
    match value {
        Json::Array(items) => items.iter().filter_map(one_goto).collect(),
        one => one_goto(one).into_iter().collect(),
    }
}

fn one_goto(value: &Json) -> Option<Goto> {
    if let Some((node, arg)) = expr::as_send(value) {
        return Some(Goto::Send(node.to_owned(), arg.clone()));
    }
    value.as_str().map(Goto::named)
}

/// The results that the ops of a node left behind.
#[derive(Debug, Default)]
pub(crate) struct Out {
    writes: Vec<(String, Write)>,
    pub(super) goto: Vec<Goto>,
    /// The value returned directly; it replaces all other results.
    pub(super) returned: Option<Returned>,
}

#[derive(Debug)]
enum Write {
    Put(Json),
    Overwrite(Json),
}

/// A value that a node returns directly.
#[derive(Debug)]
pub(crate) enum Returned {
    Value(Json),
    List(Vec<ReturnedPart>),
    Parent { goto: Vec<Goto>, update: Json },
    Final { value: Json, saved: Json },
}

#[derive(Debug)]
pub(crate) enum ReturnedPart {
    Write(String, Json),
    Goto(Goto),
}

/// The reducers of a graph, for what they do with overwrites.
pub(crate) type Reducers = BTreeMap<String, Reducer>;

impl Out {
    pub(super) fn put(&mut self, key: &str, value: Json) {
        self.writes.push((key.to_owned(), Write::Put(value)));
    }

    pub(super) fn overwrite(&mut self, key: &str, value: Json) {
        self.writes.push((key.to_owned(), Write::Overwrite(value)));
    }

    /// `true` if the writes are returned as a list of pairs, in which the reference looks for no
    /// messages.
    pub(super) fn is_list_of_pairs(&self) -> bool {
        self.returned.is_none() && !self.is_object()
    }

    /// `true` if the writes are returned as an object rather than as a list of pairs.
    fn is_object(&self) -> bool {
        let keys: BTreeSet<&str> = self.writes.iter().map(|(key, _)| key.as_str()).collect();
        self.goto.is_empty() && keys.len() == self.writes.len()
    }

    /// The command of a node of a graph.
    pub(crate) fn into_command(self, reducers: &Reducers) -> NodeResult<Command<Dynamic>> {
        let update = ReducedUpdate { reducers, update: DynUpdate::new() };
        match self.returned {
            None => {
                let update =
                    self.writes.into_iter().fold(update, |update, (key, write)| match write {
                        Write::Put(value) => update.put(&key, value),
                        Write::Overwrite(value) => update.overwrite(&key, value),
                    });
                Ok(with_goto(Command::update(update.update), self.goto))
            }
            Some(Returned::Value(value)) => value_command(update, value),
            Some(Returned::List(parts)) => list_command(update, parts),
            Some(Returned::Parent { goto, update: value }) => {
                // The writes are for the graph around this one; its reducers are not known here.
                let members = if let Json::Object(members) = value { members } else { Map::new() };
                let update = members.into_iter().fold(DynUpdate::new(), |update, (key, value)| {
                    update.write(key, message::record(value))
                });
                Ok(with_goto(Command::parent(update), goto))
            }
            Some(Returned::Final { .. }) => Err(no_update("a final value")),
        }
    }

    /// The result of the functional form and its tasks.
    pub(crate) fn into_finish(self) -> Finish {
        match self.returned {
            Some(Returned::Value(value)) => Finish::value(message::returned(value)),
            Some(Returned::Final { value, saved }) => {
                Finish::saving(message::record(value), message::record(saved))
            }
            Some(Returned::List(parts)) => {
                let parts = parts.into_iter().map(|part| match part {
                    ReturnedPart::Write(key, value) => json!({ key: value }),
                    ReturnedPart::Goto(goto) => json!({ "$command": { "goto": goto.as_json() } }),
                });
                Finish::value(parts.collect())
            }
            Some(Returned::Parent { goto, update }) => {
                Finish::value(command_json(&goto, (!update.is_null()).then_some(update)))
            }
            None if self.goto.is_empty() && self.writes.is_empty() => Finish::value(Json::Null),
            None if self.is_object() => {
                let members = self.writes.into_iter().map(|(key, write)| (key, write.into_json()));
                Finish::value(message::returned(Json::Object(members.collect())))
            }
            None => {
                let pairs: Vec<Json> = self
                    .writes
                    .into_iter()
                    .map(|(key, write)| json!([key, write.into_json()]))
                    .collect();
                Finish::value(command_json(&self.goto, (!pairs.is_empty()).then(|| pairs.into())))
            }
        }
    }
}

impl Write {
    fn into_json(self) -> Json {
        match self {
            Self::Put(value) => value,
            Self::Overwrite(value) => expr::overwrite(value),
        }
    }
}

fn command_json(goto: &[Goto], update: Option<Json>) -> Json {
    let mut members = Map::new();
    if !goto.is_empty() {
        members.insert("goto".to_owned(), goto.iter().map(Goto::as_json).collect());
    }
    if let Some(update) = update {
        members.insert("update".to_owned(), update);
    }
    json!({ "$command": members })
}

/// Writes to a graph.
struct ReducedUpdate<'a> {
    reducers: &'a Reducers,
    update: DynUpdate,
}

impl ReducedUpdate<'_> {
    fn put(mut self, key: &str, value: Json) -> Self {
        // Values that the run gives are no channels in the reference, where such writes are lost.
        if !self.reducers.get(key).is_some_and(|reducer| reducer.is_managed()) {
            self.update = self.update.write(key, message::record(value));
        }
        self
    }

    fn overwrite(mut self, key: &str, value: Json) -> Self {
        match self.reducers.get(key) {
            Some(reducer) if !reducer.knows_overwrites() => self.put(key, expr::overwrite(value)),
            _ => {
                self.update = self.update.overwrite(key, message::record(value));
                self
            }
        }
    }
}

fn with_goto(command: Command<Dynamic>, goto: Vec<Goto>) -> Command<Dynamic> {
    goto.into_iter().fold(command, |command, goto| match goto {
        Goto::Node(name) => command.goto(name),
        Goto::End => command.goto(END),
        Goto::Send(node, arg) => command.send(SendTo::to(node, message::records(arg))),
    })
}

fn value_command(update: ReducedUpdate<'_>, value: Json) -> NodeResult<Command<Dynamic>> {
    if let Some((node, arg)) = expr::as_send(&value) {
        let send = SendTo::to(node, message::records(arg.clone()));
        return Ok(Command::update(update.update).send(send));
    }
    if expr::as_message(&value).is_some() {
        // The reference takes its fields for channels of the graph, and streams it.
        return Ok(Command::update(update.put("$msg", value).update));
    }
    match value {
        Json::Null => Ok(Command::update(update.update)),
        Json::Object(members) => {
            let update =
                members.into_iter().fold(update, |update, (key, value)| update.put(&key, value));
            Ok(Command::update(update.update))
        }
        other => Err(no_update(&python::text(&other))),
    }
}

fn list_command(
    mut update: ReducedUpdate<'_>,
    parts: Vec<ReturnedPart>,
) -> NodeResult<Command<Dynamic>> {
    if !parts.iter().any(|part| matches!(part, ReturnedPart::Goto(_))) {
        return Err(no_update("a list of objects"));
    }
    let mut goto = Vec::new();
    for part in parts {
        match part {
            ReturnedPart::Write(key, value) => update = update.put(&key, value),
            ReturnedPart::Goto(to) => goto.push(to),
        }
    }
    Ok(with_goto(Command::update(update.update), goto))
}

fn no_update(found: &str) -> weftwork_graph::NodeError {
    let message = format!("a node must return an object of channel values, found {found}");
    raise(Raised::new("InvalidUpdateError", message))
}
