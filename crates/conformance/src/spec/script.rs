//! Scripts: what is done with a graph, one entry after the other.

use super::cursor::Cursor;
use super::graph::{StopsSpec, stops};
use crate::SpecError;
use crate::expr::Expr;
use serde_json::Value as Json;
use weftwork_graph::Durability;

/// An entry of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) act: Act,
    pub(crate) thread: String,
    /// Names of nodes: the subgraph reached through them.
    pub(crate) inside: Option<Vec<String>>,
    pub(crate) at: Option<Which>,
    /// `true` if the state includes snapshots of subgraphs.
    pub(crate) with_subgraphs: bool,
}

/// The action of an entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Run(Box<RunEntry>),
    /// Changes the state in a node's name; the new checkpoint may be saved under a name.
    Update {
        values: Update,
        as_node: Option<String>,
        save: Option<String>,
    },
    /// Several changes, one list for each superstep.
    Bulk(Vec<Vec<(Json, Option<String>)>>),
    /// Only reads.
    Look,
}

/// The values that `update` writes: an expression when it is an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Update {
    Object(Expr),
    Plain(Json),
}

/// A run and its options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunEntry {
    pub(crate) begin: Begin,
    pub(crate) modes: Option<Vec<String>>,
    /// `None` if the setting determines it.
    pub(crate) durability: Option<Durability>,
    pub(crate) limit: Option<u32>,
    pub(crate) interrupt_before: Option<StopsSpec>,
    pub(crate) interrupt_after: Option<StopsSpec>,
    pub(crate) context: Option<Json>,
}

/// The start of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Begin {
    Input(Expr),
    Resume(Json),
    /// Answers by the text of the question.
    ResumeByValue(Vec<(String, Json)>),
    Command {
        goto: Expr,
        update: Json,
        resume: Json,
    },
}

/// Choice of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Which {
    Saved(String),
    /// The newest of the history that matches, or a later choice.
    Match {
        wanted: Vec<(String, Json)>,
        pick: usize,
    },
}

impl Entry {
    /// `true` for a run that answers questions.
    pub(crate) fn answers(&self) -> bool {
        match &self.act {
            Act::Run(run) => match &run.begin {
                Begin::Resume(_) | Begin::ResumeByValue(_) => true,
                Begin::Command { resume, .. } => !resume.is_null(),
                Begin::Input(_) => false,
            },
            _ => false,
        }
    }
}

pub(super) fn entry(at: Cursor<'_>) -> Result<Entry, SpecError> {
    at.object()?;
    Ok(Entry {
        act: act(at)?,
        thread: at.maybe("thread", |thread| thread.text())?.unwrap_or_else(|| "t".to_owned()),
        inside: at.maybe("in", |path| path.texts())?,
        at: at.maybe("at", |which| read_which(which, at))?,
        with_subgraphs: at.json.get("sub").is_some_and(crate::python::truth),
    })
}

fn read_which(which: Cursor<'_>, entry: Cursor<'_>) -> Result<Which, SpecError> {
    if let Some(name) = which.json.as_str() {
        return Ok(Which::Saved(name.to_owned()));
    }
    let wanted = which.members(|name, value| match name {
        "step" | "source" | "next" => Ok(value.json.clone()),
        _ => Err(which.expected("a saved name, or an object of `step`, `next` and `source`")),
    })?;
    let pick = entry.maybe("pick", |pick| pick.small())?.unwrap_or(0);
    Ok(Which::Match { wanted, pick: pick.try_into().unwrap_or(usize::MAX) })
}

fn act(at: Cursor<'_>) -> Result<Act, SpecError> {
    if let Some(update) = at.get("update") {
        let values = match update.json {
            Json::Object(_) => Update::Object(Expr::read(update)?),
            other => Update::Plain(other.clone()),
        };
        let as_node = at.maybe("as", as_node)?.flatten();
        return Ok(Act::Update { values, as_node, save: at.maybe("save", |name| name.text())? });
    }
    if let Some(bulk) = at.get("bulk") {
        let change = |at: Cursor<'_>| Ok((at.item(0)?.json.clone(), as_node(at.item(1)?)?));
        return bulk.each(|step| step.each(change)).map(Act::Bulk);
    }
    if at.get("state").is_some() {
        return Ok(Act::Look);
    }
    run(at).map(Box::new).map(Act::Run)
}

/// A node's name; nothing and an empty name leave the choice to the graph.
fn as_node(at: Cursor<'_>) -> Result<Option<String>, SpecError> {
    if at.json.is_null() {
        return Ok(None);
    }
    at.text().map(|name| Some(name).filter(|name| !name.is_empty()))
}

fn run(at: Cursor<'_>) -> Result<RunEntry, SpecError> {
    Ok(RunEntry {
        begin: begin(at)?,
        modes: at.maybe("modes", |modes| modes.texts())?,
        durability: at.maybe("durability", durability)?,
        limit: at.maybe("limit", |limit| limit.small())?,
        interrupt_before: at.maybe("interrupt_before", stops)?,
        interrupt_after: at.maybe("interrupt_after", stops)?,
        context: at.json.get("context").cloned(),
    })
}

fn begin(at: Cursor<'_>) -> Result<Begin, SpecError> {
    if let Some(answer) = at.get("resume") {
        return Ok(Begin::Resume(answer.json.clone()));
    }
    if let Some(answers) = at.get("resume_by_value") {
        return answers.members(|_, answer| Ok(answer.json.clone())).map(Begin::ResumeByValue);
    }
    if let Some(command) = at.get("command") {
        command.object()?;
        let part = |name| command.json.get(name).cloned().unwrap_or_default();
        let goto = command.maybe("goto", Expr::read)?;
        return Ok(Begin::Command {
            goto: goto.unwrap_or_else(|| Expr::List(Vec::new())),
            update: part("update"),
            resume: part("resume"),
        });
    }
    let input = at.maybe("input", Expr::read)?;
    Ok(Begin::Input(input.unwrap_or(Expr::Value(Json::Null))))
}

fn durability(at: Cursor<'_>) -> Result<Durability, SpecError> {
    match at.json.as_str() {
        Some("sync") => Ok(Durability::Sync),
        Some("async") => Ok(Durability::Async),
        Some("exit") => Ok(Durability::Exit),
        _ => Err(at.expected("`sync`, `async` or `exit`")),
    }
}
