//! The code itself.

use super::{Pipes, pipe};
use crate::error::LimitKind;
use crate::host::HostError;
use crate::message::{FromProcess, Script, ScriptFailure, ToProcess};
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{Array, Context, Ctx, Exception, Function, Object, Promise, Runtime, Value};
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::parent_id;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Parts of the language that code may use: no typed arrays, with which `Atomics` would come, and no
/// proxies and weak references.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::MapSet,
    intrinsic::Promise,
);

/// Members of `ctx`. The host refuses those that it does not grant.
const MEMBERS: &[&str] = &[
    "agents.call",
    "agents.draft",
    "deliverables.list",
    "deliverables.read",
    "emit",
    "log",
    "model",
    "store.delete",
    "store.get",
    "store.put",
    "store.search",
    "tools",
];

const BEGIN: &str = include_str!("begin.js");
/// Name of the code in the lines of its errors.
const FILE: &str = "function.js";
/// Most characters of a message or of the lines of an error.
const TEXT_CHARS_MAX: usize = 2_000;

pub(super) type Outcome<T> = Result<T, ScriptFailure>;

/// The promise of a call to the host.
struct Waiting<'js> {
    resolve: Function<'js>,
    reject: Function<'js>,
}

/// The calls that the code has made, and those that wait for their answers.
#[derive(Default)]
struct Calls<'js> {
    made: u32,
    waiting: BTreeMap<u32, Waiting<'js>>,
}

/// Executes code to its end. The outer error is that of the pipes.
#[expect(clippy::disallowed_methods, reason = "the process has no clock but that of the system")]
pub(super) fn execute(script: Script, pipes: &mut Pipes) -> io::Result<Outcome<Json>> {
    let engine = || -> rquickjs::Result<(Runtime, Context)> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(script.limits.memory_bytes);
        runtime.set_max_stack_size(script.limits.stack_bytes);
        let context = Context::custom::<Intrinsics>(&runtime)?;
        Ok((runtime, context))
    };
    let Ok((runtime, context)) = engine() else {
        return Ok(Err(ScriptFailure::Limit { limit: LimitKind::Memory }));
    };
    let is_late = Rc::new(Cell::new(false));
    let late = Rc::clone(&is_late);
    let begin = Instant::now();
    let most = Duration::from_millis(script.limits.timeout_ms);
    let program = parent_id();
    runtime.set_interrupt_handler(Some(Box::new(move || {
        // A program that was killed reads no result.
        let is_left = parent_id() != program;
        late.set(is_left || begin.elapsed() >= most);
        late.get()
    })));
    let ended = context.with(|ctx| Run { ctx, script: &script, is_late }.run(pipes));
    // The process ends here, and its memory with it.
    std::mem::forget(context);
    std::mem::forget(runtime);
    ended
}

struct Run<'s, 'js> {
    ctx: Ctx<'js>,
    script: &'s Script,
    is_late: Rc<Cell<bool>>,
}

impl<'js> Run<'_, 'js> {
    fn run(&self, pipes: &mut Pipes) -> io::Result<Outcome<Json>> {
        let calls = Rc::new(RefCell::new(Calls::default()));
        let result = match self.begin(&calls) {
            Ok(result) => result,
            Err(failure) => return Ok(Err(failure)),
        };
        let Some(promise) = result.as_promise() else { return Ok(self.json(result)) };
        loop {
            while self.ctx.execute_pending_job() {}
            match promise.result::<Value<'js>>() {
                Some(Ok(value)) => return Ok(self.json(value)),
                Some(Err(_)) => return Ok(Err(self.failure())),
                None if self.is_late.get() => {
                    return Ok(Err(ScriptFailure::Limit { limit: LimitKind::Time }));
                }
                None if calls.borrow().waiting.is_empty() => {
                    return Ok(Err(ScriptFailure::NeverEnds));
                }
                None => {}
            }
            let ToProcess::Reply { id, answer } = pipes.receive()? else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let Some(waiting) = calls.borrow_mut().waiting.remove(&id) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            if self.settle(&waiting, answer).is_err() {
                return Ok(Err(self.failure()));
            }
        }
    }

    /// Reads the code and calls its function.
    fn begin(&self, calls: &Rc<RefCell<Calls<'js>>>) -> Outcome<Value<'js>> {
        let Self { ctx, script, .. } = self;
        let begin = || -> rquickjs::Result<(Object<'js>, Value<'js>)> {
            let options = self.options("begin.js");
            let begin: Function<'js> = ctx.eval_with_options(BEGIN, options)?;
            let members = Array::new(ctx.clone())?;
            for (index, member) in MEMBERS.iter().enumerate() {
                members.set(index, *member)?;
            }
            let seed = Array::new(ctx.clone())?;
            let halves = [script.seed, script.seed.rotate_left(17) ^ 0x9e37_79b9_7f4a_7c15];
            for (index, half) in halves.into_iter().enumerate() {
                // Parts of 32 bits, as JavaScript computes with them.
                seed.set(2 * index, (half >> 32) as i32)?;
                seed.set(2 * index + 1, half as i32)?;
            }
            let now = script.now_ms as f64;
            let made: Object<'js> =
                begin.call((call_of(ctx, script, calls)?, members, now, seed))?;
            let results = match &script.results {
                Json::Null => &Json::Object(serde_json::Map::new()),
                results => results,
            };
            made.set("results", parse_json(ctx, results)?)?;
            let input = parse_json(ctx, &script.input)?;
            Ok((made, input))
        };
        let (made, input) = begin().map_err(|_| self.failure())?;
        let read = ctx.eval_with_options::<(), _>(script.code.as_str(), self.options(FILE));
        if read.is_err() {
            return Err(match self.failure() {
                ScriptFailure::Thrown { message, stack } if message.starts_with("SyntaxError") => {
                    let line = stack.lines().next().unwrap_or_default().trim();
                    ScriptFailure::Invalid { reason: format!("{message} {line}") }
                }
                failure => failure,
            });
        }
        // A function that is declared by `const` is no member of the global object.
        let found = ctx.eval_with_options::<Value<'js>, _>("handler", self.options("begin.js"));
        let handler = found.ok().and_then(Value::into_function);
        let Some(handler) = handler else {
            // The error of a name that does not exist stays with the engine otherwise.
            drop(ctx.catch());
            let reason = "it has no function `handler(input, ctx)`".to_owned();
            return Err(ScriptFailure::Invalid { reason });
        };
        handler.call((input, made)).map_err(|_| self.failure())
    }

    fn options(&self, file: &str) -> EvalOptions {
        let mut options = EvalOptions::default();
        options.strict = true;
        options.filename = Some(file.to_owned());
        options
    }

    /// Ends the promise of a call.
    fn settle(
        &self,
        waiting: &Waiting<'js>,
        answer: Result<Json, HostError>,
    ) -> rquickjs::Result<()> {
        match answer {
            Ok(value) => waiting.resolve.call((parse_json(&self.ctx, &value)?,)),
            Err(HostError { code, message }) => {
                let error = Exception::from_message(self.ctx.clone(), &message)?;
                error.set("code", code)?;
                waiting.reject.call((error,))
            }
        }
    }

    /// Returns a value of the code as JSON.
    fn json(&self, value: Value<'js>) -> Outcome<Json> {
        json_of(&self.ctx, value, self.script.limits.output_bytes).map_err(|error| match error {
            Unfit::TooLarge => ScriptFailure::Limit { limit: LimitKind::Output },
            Unfit::Thrown => self.failure(),
            Unfit::Unreadable(reason) => {
                ScriptFailure::Thrown { message: reason, stack: String::new() }
            }
        })
    }

    /// Returns the failure that the engine holds.
    fn failure(&self) -> ScriptFailure {
        let thrown = self.ctx.catch();
        if self.is_late.get() {
            return ScriptFailure::Limit { limit: LimitKind::Time };
        }
        if thrown.is_null() {
            return ScriptFailure::Null;
        }
        let Some(error) = thrown.clone().into_object().and_then(Exception::from_object) else {
            return self.thrown_value(thrown);
        };
        let name: String = error.get("name").unwrap_or_else(|_| "Error".to_owned());
        let message = error.message().unwrap_or_default();
        match (name.as_str(), message.as_str()) {
            ("InternalError", "out of memory") => ScriptFailure::Limit { limit: LimitKind::Memory },
            ("InternalError", "stack overflow")
            | ("RangeError", "Maximum call stack size exceeded") => {
                ScriptFailure::Limit { limit: LimitKind::Stack }
            }
            _ => ScriptFailure::Thrown {
                message: cut(&format!("{name}: {message}")),
                stack: cut(&error.stack().unwrap_or_default()),
            },
        }
    }

    /// Returns the failure of code that threw a value other than an error.
    fn thrown_value(&self, thrown: Value<'js>) -> ScriptFailure {
        let kind = thrown.type_name();
        let has_json = !(thrown.is_undefined() || thrown.is_symbol() || thrown.is_function());
        let json =
            has_json.then(|| json_of(&self.ctx, thrown, TEXT_CHARS_MAX)).and_then(Result::ok);
        // The code of a `toJSON` is executed too.
        if self.is_late.get() {
            return ScriptFailure::Limit { limit: LimitKind::Time };
        }
        let message = json.map_or_else(|| kind.to_owned(), |json| json.to_string());
        ScriptFailure::Thrown { message, stack: String::new() }
    }
}

/// Returns the function by which `ctx` calls the host.
fn call_of<'js>(
    ctx: &Ctx<'js>,
    script: &Script,
    calls: &Rc<RefCell<Calls<'js>>>,
) -> rquickjs::Result<Function<'js>> {
    let calls = Rc::clone(calls);
    let most = script.limits.output_bytes;
    let call = move |ctx: Ctx<'js>, member: String, args: Value<'js>| {
        let args = json_of(&ctx, args, most).map_err(|error| match error {
            Unfit::Thrown => rquickjs::Error::Exception,
            Unfit::TooLarge => Exception::throw_range(
                &ctx,
                &format!("the arguments of `ctx.{member}` are too large"),
            ),
            Unfit::Unreadable(reason) => Exception::throw_type(&ctx, &reason),
        })?;
        let (promise, resolve, reject) = Promise::new(&ctx)?;
        let mut calls = calls.borrow_mut();
        let id = calls.made;
        calls.made += 1;
        // At once, and not when the code waits: what it emits arrives while it works.
        let message = FromProcess::Call { id, member, args };
        pipe::write(&mut io::stdout(), &message)
            .map_err(|_| Exception::throw_message(&ctx, "the host is gone"))?;
        calls.waiting.insert(id, Waiting { resolve, reject });
        Ok::<_, rquickjs::Error>(promise)
    };
    Function::new(ctx.clone(), call)
}

/// Returns a value of the host. A whole number that JavaScript would round is a text with its digits.
fn parse_json<'js>(ctx: &Ctx<'js>, value: &Json) -> rquickjs::Result<Value<'js>> {
    ctx.json_parse(exact(value).to_string())
}

fn exact(value: &Json) -> Json {
    match value {
        Json::Number(number) if !number.is_f64() => {
            let digits = number.to_string();
            // JavaScript writes the same digits of a number as this: the fewest that name it.
            match number.as_f64().is_some_and(|rounded| rounded.to_string() == digits) {
                true => value.clone(),
                false => digits.into(),
            }
        }
        Json::Array(items) => items.iter().map(exact).collect(),
        Json::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), exact(value))).collect()
        }
        other => other.clone(),
    }
}

/// A value that is no JSON.
enum Unfit {
    TooLarge,
    /// An error of the code, which the engine holds.
    Thrown,
    Unreadable(String),
}

fn json_of<'js>(ctx: &Ctx<'js>, value: Value<'js>, most: usize) -> Result<Json, Unfit> {
    let text = ctx.json_stringify(value).map_err(|_| Unfit::Thrown)?;
    // A function, or nothing.
    let Some(text) = text else { return Ok(Json::Null) };
    let text = text.to_string().map_err(|error| Unfit::Unreadable(error.to_string()))?;
    if text.len() > most {
        return Err(Unfit::TooLarge);
    }
    serde_json::from_str(&text)
        .map_err(|error| Unfit::Unreadable(format!("the value is no JSON: {error}")))
}

pub(super) fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
