//! Programs of jq.
//!
//! The engine has no limits: wall time is that of the program, which ends the process, and memory and
//! stack are those of the process.

use super::script::{Outcome, cut};
use crate::error::LimitKind;
use crate::message::{CodeKind, Script, ScriptFailure};
use jaq_core::compile::Undefined;
use jaq_core::load::{self, Arena, File, Loader, parse::Def};
use jaq_core::native::Fun;
use jaq_core::{Compiler, Ctx, Filter, Vars, data};
use jaq_json::Val;
use jaq_json::write::Pp;
use serde::Deserialize;
use serde_json::Value as Json;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Data = data::JustLut<Val>;

/// Native functions that a program may use. None of them reads the machine: not its environment, clock
/// or time zone, no further input; none ends the process or writes to a log.
const NATIVES: &str = "\
    acos acosh ascii_downcase ascii_upcase asin asinh atan atan2 atanh bsearch cbrt ceil contains copysign \
    cos cosh decode_base64 decode_uri encode_base64 encode_uri endswith erf erfc error_empty escape_html \
    escape_sh exp exp10 exp2 explode expm1 fabs fdim first floor fma fmax fmin fmod frexp fromdateiso8601 \
    fromjson gmtime group_by has hypot ilogb implode indices j0 j1 jn key_values keys_unsorted last ldexp \
    length lgamma limit log log10 log1p log2 ltrim ltrimstr matches max_by_or_empty min_by_or_empty mktime \
    modf nearbyint nextafter path path_value pow range remainder reverse rint round rtrim rtrimstr scalbln \
    sin sinh skip sort sort_by split_ split_matches sqrt startswith strftime strptime tan tanh tgamma \
    tobytes todateiso8601 tojson trim trunc unescape_html utf8bytelength y0 y1 yn";
/// Definitions of the standard library that need other natives.
const WITHOUT: [&str; 4] = ["debug", "halt", "halt_error", "stderr"];

/// Most characters of a program in the text of its error.
const FOUND_CHARS_MAX: usize = 20;

/// Reads a program, and executes it if that is its kind.
pub(super) fn execute(script: Script) -> Outcome<Json> {
    // A panic of the engine, such as that of a text that is larger than the address space.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let filter = compile(&script.code)?;
        match script.code_kind {
            CodeKind::JqCheck => Ok(Json::Null),
            _ => run(&filter, script.input, script.limits.output_bytes),
        }
    }));
    ended.unwrap_or_else(|panic| {
        let reason = panic.downcast_ref::<&str>().copied().unwrap_or("no reason");
        Err(thrown(format!("the engine failed: {reason}")))
    })
}

fn compile(code: &str) -> Outcome<Filter<Data>> {
    let arena = Arena::default();
    let loader = Loader::new(definitions());
    let modules = loader.load(&arena, File { code, path: () }).map_err(|errors| {
        let errors = errors.iter().map(|(_, error)| load_error(code, error));
        invalid(errors.collect())
    })?;
    load::import(&modules, |_| Err("data cannot be imported".to_owned())).map_err(|errors| {
        let errors = errors.iter().map(|(_, error)| load_error(code, error));
        invalid(errors.collect())
    })?;
    Compiler::default().with_funs(natives()).compile(modules).map_err(|errors| {
        let errors = errors.iter().flat_map(|(_, errors)| errors);
        invalid(errors.map(|(name, what)| undefined(code, name, what)).collect())
    })
}

fn definitions() -> impl Iterator<Item = Def<&'static str>> {
    let all = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    all.filter(|definition| !WITHOUT.contains(&definition.name))
}

fn natives() -> impl Iterator<Item = Fun<Data>> {
    let all = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    all.filter(|(name, ..)| NATIVES.split_ascii_whitespace().any(|native| native == *name))
}

fn invalid(reasons: Vec<String>) -> ScriptFailure {
    ScriptFailure::Invalid { reason: cut(&reasons.join("; ")) }
}

fn load_error(code: &str, error: &load::Error<&str>) -> String {
    let reasons: Vec<String> = match error {
        load::Error::Io(errors) => {
            errors.iter().map(|(name, reason)| at(code, name, reason)).collect()
        }
        load::Error::Lex(errors) => errors
            .iter()
            .map(|(expected, found)| unexpected(code, expected.as_str(), found))
            .collect(),
        load::Error::Parse(errors) => errors
            .iter()
            .map(|(expected, found)| unexpected(code, expected.as_str(), found))
            .collect(),
    };
    reasons.join("; ")
}

fn unexpected(code: &str, expected: &str, found: &str) -> String {
    let line = found.lines().next().unwrap_or_default();
    let shown: String = line.chars().take(FOUND_CHARS_MAX).collect();
    let shown = if found.is_empty() { "the end".to_owned() } else { format!("`{shown}`") };
    at(code, found, &format!("found {shown}, expected {expected}"))
}

fn undefined(code: &str, name: &str, what: &Undefined) -> String {
    at(code, name, &format!("{} `{name}` does not exist", what.as_str()))
}

/// Returns a reason with the line and the column of a part of the program.
fn at(code: &str, part: &str, reason: &str) -> String {
    let offset = (part.as_ptr() as usize).checked_sub(code.as_ptr() as usize);
    let Some(before) = offset.and_then(|offset| code.get(..offset)) else {
        return reason.to_owned();
    };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {reason}")
}

/// Executes a program, which has exactly one output.
fn run(filter: &Filter<Data>, input: Json, output_bytes: usize) -> Outcome<Json> {
    let input = Val::deserialize(input).map_err(|error| thrown(error.to_string()))?;
    let ctx = Ctx::<Data>::new(&filter.lut, Vars::new([]));
    let mut outputs = filter.id.run((ctx, input)).map(|output| {
        output.map_err(|end| match end.get_err() {
            Ok(error) => thrown(text_of(error)),
            Err(_) => thrown("it ended without an error".to_owned()),
        })
    });
    let Some(first) = outputs.next().transpose()? else {
        let reason = "it has no output; expected one";
        return Err(thrown(reason.to_owned()));
    };
    if outputs.next().transpose()?.is_some() {
        let reason = "it has more than one output; expected one: put it in `[ ]` for a list, or in `first( )`";
        return Err(thrown(reason.to_owned()));
    }
    let mut text = Text { bytes: Vec::new(), bytes_max: output_bytes };
    if jaq_json::write::write(&mut text, &Pp::default(), 0, &first).is_err() {
        return Err(ScriptFailure::Limit { limit: LimitKind::Output });
    }
    let read = serde_json::from_slice(&text.bytes);
    read.map_err(|error| thrown(format!("its output is no JSON: {error}")))
}

/// Returns the text of an error; a text that a program throws is its own.
fn text_of(error: jaq_json::Error) -> String {
    match error.into_val() {
        Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
        other => other.to_string(),
    }
}

fn thrown(message: String) -> ScriptFailure {
    ScriptFailure::Thrown { message: cut(&message), stack: String::new() }
}

/// Text of an output, up to a limit.
struct Text {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Text {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(part.len()) > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
