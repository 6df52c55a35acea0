//! Execution of the nodes of a spec.

mod outcome;
mod store;

pub(crate) use outcome::{Goto, Out, Returned, goto_of};

use crate::expr::{self, Expr, Vars};
use crate::message;
use crate::python::{self, Raised};
use crate::spec::{Fail, Op, Part};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use weftwork_graph::{CompiledGraph, Ctx, NodeError, NodeResult, SubgraphState, TaskDef};
use weftwork_types::BoxFuture;

/// By how many turns a node finishes later for each of its branches.
const BRANCH_TURNS: usize = 2;
/// And for each call of a model.
const MODEL_TURNS: usize = 4;

/// Counters of side effects, in order of their first use. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Counts(Arc<Mutex<Map<String, Json>>>);

impl Counts {
    /// Counts one.
    pub fn add(&self, name: &str) {
        let mut counts = lock(&self.0);
        let count = counts.get(name).and_then(Json::as_u64).unwrap_or(0).saturating_add(1);
        counts.insert(name.to_owned(), count.into());
    }

    /// The counts so far.
    pub(crate) fn so_far(&self) -> Map<String, Json> {
        lock(&self.0).clone()
    }
}

type Fails = BTreeMap<(String, String), u64>;

/// State shared by the nodes of one spec.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) counts: Counts,
    /// Number of runs of each op that fails, by node and op.
    fails: Mutex<Fails>,
    /// The same when the outcome of the node was last stored.
    fails_kept: Mutex<Fails>,
    /// `true` if nodes changed the long-term store since then.
    changed_items: AtomicBool,
    /// The tasks of the functional form.
    pub(crate) tasks: OnceLock<BTreeMap<String, TaskDef>>,
}

impl Shared {
    /// Records that the outcomes of some nodes were stored: their failures so far stay counted.
    pub(crate) fn kept(&self, is_kept: impl Fn(&str) -> bool) {
        let mut kept = lock(&self.fails_kept);
        for (at, count) in lock(&self.fails).iter().filter(|((node, _), _)| is_kept(node)) {
            kept.insert(at.clone(), *count);
        }
    }

    /// Records that a node changed the long-term store.
    pub(crate) fn changed_items(&self) {
        self.changed_items.store(true, Ordering::Relaxed);
    }

    /// Records that no task of the outermost graph is open.
    pub(crate) fn closed(&self) {
        self.kept(|_| true);
        self.changed_items.store(false, Ordering::Relaxed);
    }

    /// `true` if nodes that may run again changed the long-term store.
    pub(crate) fn has_changed_items(&self) -> bool {
        self.changed_items.load(Ordering::Relaxed)
    }

    /// Restores the stored counts: failures that were not recorded happen again.
    pub(crate) fn lost(&self) {
        let kept = lock(&self.fails_kept).clone();
        *lock(&self.fails) = kept;
    }

    /// Counts a failing op, and fails as long as it must.
    fn fail(&self, node: &str, fail: &Fail) -> Result<(), Raised> {
        let count = {
            let mut fails = lock(&self.fails);
            let count = fails.entry((node.to_owned(), fail.text.clone())).or_default();
            *count = count.saturating_add(1);
            *count
        };
        if count > fail.times {
            return Ok(());
        }
        let message = fail.message.clone().unwrap_or_else(|| format!("boom {count}"));
        Err(Raised::new(&fail.class, message))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The code of a node.
#[derive(Debug)]
pub(crate) struct Code {
    /// The name under which failures are counted.
    pub(crate) name: String,
    pub(crate) ops: Vec<Op>,
    /// The graph that `call` runs.
    pub(crate) sub: Option<(CompiledGraph, SubgraphState)>,
    /// By how many turns the node finishes later than plain ones beside it.
    pub(crate) turns: Turns,
    pub(crate) world: Arc<Shared>,
}

/// The causes that make a node of the reference finish after plain ones that started with it,
/// although it waits for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Turns {
    /// Each branch is asked on another thread.
    pub(crate) branches: usize,
    /// A node with a time limit is a task of its own.
    pub(crate) limited: bool,
}

impl Turns {
    async fn pass_before(self) {
        if self.limited {
            turn().await;
        }
    }

    async fn pass_after(self) {
        for _ in 0..self.branches.saturating_mul(BRANCH_TURNS) {
            turn().await;
        }
    }
}

impl Code {
    /// Runs the code once.
    pub(crate) async fn run(&self, input: Json, ctx: Ctx) -> NodeResult<Out> {
        self.turns.pass_before().await;
        let input = message::spec(input);
        let mut run = Execution { code: self, ctx, input, vars: Vars::new(), out: Out::default() };
        run.all(&self.ops).await?;
        if run.out.is_list_of_pairs() {
            run.ctx.mute_messages();
        }
        self.turns.pass_after().await;
        Ok(run.out)
    }
}

/// A single execution of a node.
struct Execution<'a> {
    code: &'a Code,
    ctx: Ctx,
    input: Json,
    vars: Vars,
    out: Out,
}

impl<'a> Execution<'a> {
    fn all<'b>(&'b mut self, ops: &'a [Op]) -> BoxFuture<'b, NodeResult<()>>
    where
        'a: 'b,
    {
        Box::pin(async move {
            for op in ops {
                self.one(op).await?;
            }
            Ok(())
        })
    }

    async fn one(&mut self, op: &'a Op) -> NodeResult<()> {
        match op {
            Op::If(condition, yes, no) => {
                let chosen = if python::truth(&self.eval(condition)?) { yes } else { no };
                self.all(chosen).await
            }
            Op::Sleep(duration) => {
                let sleep = self.ctx.clock().sleep(*duration);
                sleep.await;
                Ok(())
            }
            Op::Store(op) => self.store(op).await,
            Op::Llm { tokens, var, id } => {
                if tokens.is_empty() {
                    let message = "No generations found in stream.";
                    return Err(raise(Raised::new("ValueError", message)));
                }
                let said = expr::message("ai", tokens.concat().into(), id.clone().into());
                let said = message::record(said);
                let id = message::id_of(&said).map_err(raise)?;
                tokens.iter().for_each(|token| self.ctx.token(&id, token));
                self.bind(var, message::spec(said));
                // A model is something to wait for, longer than for a branch.
                for _ in 0..MODEL_TURNS {
                    turn().await;
                }
                Ok(())
            }
            Op::Call(input, var) => {
                let input = self.eval(input)?;
                let Some((graph, keep)) = &self.code.sub else {
                    let message = "'NoneType' object has no attribute 'ainvoke'";
                    return Err(raise(Raised::new("AttributeError", message)));
                };
                let output = self.ctx.call(graph, *keep, message::records(input)).await?;
                self.bind(var, message::spec(output));
                Ok(())
            }
            Op::Task(name, arg, var) => {
                let arg = self.eval(arg)?;
                let returned = self.ctx.task(self.task(name)?, message::record(arg)).await?;
                self.bind(var, message::spec(returned));
                Ok(())
            }
            Op::Tasks(name, args, var) => {
                let args = python::items(&self.eval(args)?).map_err(raise)?;
                let task = self.task(name)?;
                let calls = args
                    .into_iter()
                    .map(message::record)
                    .map(|arg| -> BoxFuture<'_, _> { Box::pin(self.ctx.task(task, arg)) });
                let returned = gather(calls).await?;
                self.bind(var, message::spec(returned.into()));
                Ok(())
            }
            at_once => self.at_once(at_once),
        }
    }

    /// An op that does not wait.
    fn at_once(&mut self, op: &Op) -> NodeResult<()> {
        match op {
            Op::Interrupt(question, var) => {
                let answer = self.ctx.interrupt(self.eval(question)?)?;
                self.bind(var, answer);
            }
            Op::Fail(fail) => self.code.world.fail(&self.code.name, fail).map_err(raise)?,
            Op::Emit(value) => self.ctx.emit(self.eval(value)?),
            Op::Count(name) => self.code.world.counts.add(name),
            Op::Heartbeat => self.ctx.heartbeat(),
            Op::Drain => self.ctx.drain("test"),
            Op::Let(var, value) => {
                let value = self.eval(value)?;
                self.bind(var, value);
            }
            Op::Context(field, var) => {
                let value = self.ctx.context().get(field).cloned().unwrap_or_default();
                self.bind(var, value);
            }
            Op::Attempt(var) => self.bind(var, self.ctx.attempt().into()),
            Op::Previous(var) => {
                let previous = self.ctx.previous().unwrap_or_default();
                self.bind(var, message::spec(previous));
            }
            result => self.leave(result)?,
        }
        Ok(())
    }

    /// Executes an op that sets a result of the node.
    fn leave(&mut self, op: &Op) -> NodeResult<()> {
        match op {
            Op::Set(key, value) => self.out.put(key, self.eval(value)?),
            Op::Over(key, value) => self.out.overwrite(key, self.eval(value)?),
            Op::Goto(to) => self.out.goto.extend(goto_of(&self.eval(to)?)),
            Op::Send(node, arg) => {
                self.out.goto.push(Goto::Send(node.clone(), self.eval(arg)?));
            }
            Op::Parent { goto, update } => {
                let goto = goto_of(&self.eval(goto)?);
                self.out.returned = Some(Returned::Parent { goto, update: self.eval(update)? });
            }
            Op::Return(value) => self.out.returned = Some(Returned::Value(self.eval(value)?)),
            Op::List(parts) => self.out.returned = Some(Returned::List(self.parts(parts)?)),
            Op::Final(value, saved) => {
                let value = self.eval(value)?;
                let saved = self.eval(saved)?;
                self.out.returned = Some(Returned::Final { value, saved });
            }
            _ => {}
        }
        Ok(())
    }

    fn parts(&self, parts: &[Part]) -> NodeResult<Vec<outcome::ReturnedPart>> {
        let part = |part: &Part| match part {
            Part::Goto(to) => Ok(outcome::ReturnedPart::Goto(Goto::named(to))),
            Part::Write(key, value) => {
                Ok(outcome::ReturnedPart::Write(key.clone(), self.eval(value)?))
            }
        };
        parts.iter().map(part).collect()
    }

    fn eval(&self, expr: &Expr) -> NodeResult<Json> {
        expr.eval(&self.input, &self.vars).map_err(raise)
    }

    fn bind(&mut self, var: &str, value: Json) {
        self.vars.insert(var.to_owned(), value);
    }

    fn task(&self, name: &str) -> NodeResult<&'a TaskDef> {
        let tasks = self.code.world.tasks.get();
        let found = tasks.and_then(|tasks| tasks.get(name));
        found.ok_or_else(|| raise(Raised::new("KeyError", name)))
    }
}

/// Yields to the other tasks. Unlike with tokio's own function, waiting tasks continue in the order
/// in which they began to wait.
async fn turn() {
    let mut waited = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the results of concurrent calls. If one fails, the others get their turn of that round,
/// and are dropped.
async fn gather<'a>(
    calls: impl Iterator<Item = BoxFuture<'a, NodeResult<Json>>>,
) -> NodeResult<Vec<Json>> {
    let mut calls: Vec<Result<Json, BoxFuture<'a, NodeResult<Json>>>> = calls.map(Err).collect();
    std::future::poll_fn(move |cx| {
        let mut failed = None;
        for call in &mut calls {
            let Err(future) = call else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(Ok(value)) => *call = Ok(value),
                Poll::Ready(Err(error)) => {
                    failed.get_or_insert(error);
                    *call = Ok(Json::Null);
                }
                Poll::Pending => {}
            }
        }
        if let Some(error) = failed {
            return Poll::Ready(Err(error));
        }
        if calls.iter().any(Result::is_err) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(calls.drain(..).filter_map(Result::ok).collect()))
    })
    .await
}

/// An exception as the failure of a node.
pub(crate) fn raise(raised: Raised) -> NodeError {
    NodeError::of_kind(raised.class, raised.message)
}
