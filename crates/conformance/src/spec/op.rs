//! Ops: what the nodes of a spec do.

use super::cursor::Cursor;
use crate::SpecError;
use crate::expr::Expr;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// An op of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Set(String, Expr),
    Over(String, Expr),
    Goto(Expr),
    Send(String, Expr),
    Parent { goto: Expr, update: Expr },
    Interrupt(Expr, String),
    Fail(Fail),
    Emit(Expr),
    Count(String),
    Sleep(Duration),
    Heartbeat,
    Drain,
    Let(String, Expr),
    If(Expr, Vec<Op>, Vec<Op>),
    Context(String, String),
    Attempt(String),
    Call(Expr, String),
    Return(Expr),
    List(Vec<Part>),
    Store(StoreOp),
    Llm { tokens: Vec<String>, var: String, id: Option<String> },
    Task(String, Expr, String),
    Tasks(String, Expr, String),
    Previous(String),
    Final(Expr, Expr),
}

/// A failure that stops after some times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fail {
    /// The op as text; failures are counted by it.
    pub(crate) text: String,
    pub(crate) times: u64,
    pub(crate) class: String,
    /// Without one, `boom` with the count.
    pub(crate) message: Option<String>,
}

/// An element of a returned list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Write(String, Expr),
    Goto(String),
}

/// An op on the long-term store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StoreOp {
    Put(Expr, String, Expr),
    Get(Expr, String, String),
    Delete(Expr, String),
    Search { namespace: Expr, filter: Json, limit: u64, offset: u64, var: String },
    List(ListNamespaces),
}

impl StoreOp {
    /// `true` if it changes the store.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Put(..) | Self::Delete(..))
    }
}

/// The arguments of a namespace listing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListNamespaces {
    pub(crate) prefix: Option<Vec<String>>,
    pub(crate) suffix: Option<Vec<String>>,
    pub(crate) max_depth: Option<u64>,
    pub(crate) limit: u64,
    pub(crate) offset: u64,
    pub(crate) var: String,
}

/// Exceptions that nodes may raise.
pub(crate) const CLASSES: [&str; 4] = ["ValueError", "RuntimeError", "ConnectionError", "KeyError"];

pub(super) fn read_all(at: Cursor<'_>) -> Result<Vec<Op>, SpecError> {
    at.each(read)
}

fn read(at: Cursor<'_>) -> Result<Op, SpecError> {
    let name = at.item(0)?;
    let text = |index: usize| at.item(index)?.text();
    let expr = |index: usize| Expr::read(at.item(index)?);
    Ok(match name.text()?.as_str() {
        "set" => Op::Set(text(1)?, expr(2)?),
        "over" => Op::Over(text(1)?, expr(2)?),
        "goto" => Op::Goto(expr(1)?),
        "send" => Op::Send(text(1)?, expr(2)?),
        "parent" => parent(at.item(1)?)?,
        "interrupt" => Op::Interrupt(
            expr(1)?,
            optional(at, 2, |var| var.text())?.unwrap_or_else(|| "_".to_owned()),
        ),
        "fail" => Op::Fail(fail(at)?),
        "emit" => Op::Emit(expr(1)?),
        "count" => Op::Count(text(1)?),
        "sleep" => Op::Sleep(at.item(1)?.seconds()?),
        "heartbeat" => Op::Heartbeat,
        "drain" => Op::Drain,
        "let" => Op::Let(text(1)?, expr(2)?),
        "if" => {
            Op::If(expr(1)?, read_all(at.item(2)?)?, optional(at, 3, read_all)?.unwrap_or_default())
        }
        "ctx" => Op::Context(text(1)?, text(2)?),
        "attempt" => Op::Attempt(text(1)?),
        "call" => Op::Call(expr(1)?, text(2)?),
        "ret" => Op::Return(expr(1)?),
        "list" => Op::List(at.item(1)?.each(part)?),
        "llm" => {
            let id = at.json.get(3).is_some_and(|id| !id.is_null()).then(|| text(3)).transpose()?;
            Op::Llm { tokens: at.item(1)?.texts()?, var: text(2)?, id }
        }
        "task" => Op::Task(text(1)?, expr(2)?, text(3)?),
        "tasks" => Op::Tasks(text(1)?, expr(2)?, text(3)?),
        "prev" => Op::Previous(text(1)?),
        "final" => Op::Final(expr(1)?, expr(2)?),
        store if store.starts_with("store_") => Op::Store(store_op(store, at)?),
        _ => return Err(name.expected("the name of an op, such as `set` or `interrupt`")),
    })
}

fn optional<T>(
    at: Cursor<'_>,
    index: usize,
    read: impl FnOnce(Cursor<'_>) -> Result<T, SpecError>,
) -> Result<Option<T>, SpecError> {
    if at.array()?.len() > index { read(at.item(index)?).map(Some) } else { Ok(None) }
}

fn parent(at: Cursor<'_>) -> Result<Op, SpecError> {
    at.object()?;
    let part = |name, empty| at.maybe(name, Expr::read).map(|e| e.unwrap_or(Expr::Value(empty)));
    Ok(Op::Parent { goto: part("goto", json!([]))?, update: part("update", Json::Null)? })
}

fn fail(at: Cursor<'_>) -> Result<Fail, SpecError> {
    let class = optional(at, 2, |class| {
        let name = class.text()?;
        let known = CLASSES.contains(&name.as_str());
        if known { Ok(name) } else { Err(class.expected(format!("one of {}", CLASSES.join(", ")))) }
    })?;
    Ok(Fail {
        text: at.json.to_string(),
        times: at.item(1)?.count()?,
        class: class.unwrap_or_else(|| "ValueError".to_owned()),
        message: optional(at, 3, |message| message.text())?,
    })
}

fn part(at: Cursor<'_>) -> Result<Part, SpecError> {
    let key = at.item(0)?.text()?;
    let value = at.item(1)?;
    if key == "goto" {
        value.text().map(Part::Goto)
    } else {
        Ok(Part::Write(key, Expr::read(value)?))
    }
}

fn store_op(name: &str, at: Cursor<'_>) -> Result<StoreOp, SpecError> {
    let text = |index: usize| at.item(index)?.text();
    let expr = |index: usize| Expr::read(at.item(index)?);
    Ok(match name {
        "store_put" => StoreOp::Put(expr(1)?, text(2)?, expr(3)?),
        "store_get" => StoreOp::Get(expr(1)?, text(2)?, text(3)?),
        "store_del" => StoreOp::Delete(expr(1)?, text(2)?),
        "store_search" => {
            let how = at.item(2)?;
            how.object()?;
            StoreOp::Search {
                namespace: expr(1)?,
                filter: how.json.get("filter").cloned().unwrap_or_default(),
                limit: how.maybe("limit", |limit| limit.count())?.unwrap_or(10),
                offset: how.maybe("offset", |offset| offset.count())?.unwrap_or(0),
                var: text(3)?,
            }
        }
        "store_list" => StoreOp::List(list_namespaces(at)?),
        _ => return Err(at.item(0)?.expected("the name of an op, such as `store_put`")),
    })
}

fn list_namespaces(at: Cursor<'_>) -> Result<ListNamespaces, SpecError> {
    let how = at.item(1)?;
    how.object()?;
    Ok(ListNamespaces {
        prefix: how.maybe("prefix", |prefix| prefix.texts())?,
        suffix: how.maybe("suffix", |suffix| suffix.texts())?,
        max_depth: how
            .maybe("max_depth", |depth| {
                if depth.json.is_null() { Ok(None) } else { depth.count().map(Some) }
            })?
            .flatten(),
        limit: how.maybe("limit", |limit| limit.count())?.unwrap_or(100),
        offset: how.maybe("offset", |offset| offset.count())?.unwrap_or(0),
        var: at.item(2)?.text()?,
    })
}
