//! Conditions: expressions in CEL over a call, or over the results of steps.
//!
//! The values are chosen by a model, and possibly by an attacker. An expression has a
//! bounded size and no loops, so the cost of evaluating it is bounded by its size and that of the
//! values.

use super::PolicyCall;
use crate::error::cut;
use crate::name;
use cel::common::ast::{Expr, IdedExpr};
use cel::objects::{Key, Map};
use cel::{Context, Program, Value as Cel};
use serde_json::{Number, Value};
use std::sync::Arc;

/// Maximum length of an expression in bytes.
pub(super) const CONDITION_BYTES_MAX: usize = 1_024;

/// Maximum nesting of an expression: brackets, alternatives and signs. The parser is recursive.
const DEPTH_MAX: usize = 12;
/// Maximum number of operators, calls and members, which the parts of an expression may nest in.
const OPERATORS_MAX: usize = 100;

/// Maximum depth of a parsed expression, which is evaluated recursively.
const LEVELS_MAX: usize = 24;
const PARSER_STACK_BYTES: usize = 32 << 20;

const VARIABLES: [&str; 5] = ["args", "tool", "server", "effect", "principal"];

/// Functions of expressions, with the operators by the names that the parser gives them.
const FUNCTIONS: [&str; 23] = [
    "_?_:_",
    "_&&_",
    "_||_",
    "!_",
    "_-_",
    "_+_",
    "_*_",
    "_/_",
    "_%_",
    "_==_",
    "_!=_",
    "_>=_",
    "_<=_",
    "_>_",
    "_<_",
    "-_",
    "_[_]",
    "@in",
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "double",
];

/// A compiled condition.
#[derive(Debug, Clone)]
pub struct Condition {
    text: String,
    program: Arc<Program>,
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The condition has no truth value for a call: a member is missing, types do not fit, or the
/// result is not a boolean. The reason is not reported, because it may quote secret arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoTruthValue;

impl Condition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The expected form and the part that was found instead.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::over(text, &VARIABLES)
    }

    /// Compiles an expression over variables with these names, for [`holds_over`](Self::holds_over).
    ///
    /// # Errors
    /// The expected form and the part that was found instead.
    pub fn over(text: &str, variables: &[&str]) -> Result<Self, String> {
        if text.len() > CONDITION_BYTES_MAX {
            return Err(format!(
                "expected a CEL expression of at most {CONDITION_BYTES_MAX} bytes, found {} bytes",
                text.len()
            ));
        }
        if is_deep(text) {
            return Err(format!(
                "expected a CEL expression with at most {DEPTH_MAX} nested parts and {OPERATORS_MAX} operators, found `{}`",
                cut(text, 80)
            ));
        }
        let program = parse(text).map_err(|detail| {
            format!("expected a CEL expression, found `{}`: {}", cut(text, 80), cut(&detail, 120))
        })?;
        check(program.expression(), variables, LEVELS_MAX)?;
        Ok(Self { text: text.to_owned(), program: Arc::new(program) })
    }

    /// Returns the truth value over values of the variables; `None` if there is none: a member is
    /// missing, types do not fit, or the result is not a boolean.
    #[must_use]
    pub fn holds_over(&self, values: &serde_json::Map<String, Value>) -> Option<bool> {
        let mut context = Context::default();
        for (name, json) in values {
            context.add_variable_from_value(name, value(json));
        }
        match self.program.execute(&context) {
            Ok(Cel::Bool(holds)) => Some(holds),
            _ => None,
        }
    }

    pub(super) fn holds(&self, call: &PolicyCall<'_>) -> Result<bool, NoTruthValue> {
        let mut context = Context::default();
        let effect = super::effect_name(call.spec.effect);
        let server = name::server(&call.spec.name).unwrap_or_default();
        let principal = [
            ("org", text(call.principal.org.as_str())),
            ("subject", text(&call.principal.subject)),
        ];
        context.add_variable_from_value("args", value(call.args));
        context.add_variable_from_value("tool", text(&call.spec.name));
        context.add_variable_from_value("server", text(server));
        context.add_variable_from_value("effect", text(effect));
        context.add_variable_from_value("principal", map(principal.into_iter()));
        match self.program.execute(&context) {
            Ok(Cel::Bool(holds)) => Ok(holds),
            _ => Err(NoTruthValue),
        }
    }
}

/// Parses an expression on a thread of its own, because the parser uses up to 200 KiB of stack for
/// each level of nesting.
fn parse(text: &str) -> Result<Program, String> {
    let text = text.to_owned();
    let parser = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES).spawn(move || {
        Program::compile(&text).map_err(|errors| {
            errors.errors.first().map(|error| error.msg.clone()).unwrap_or_default()
        })
    });
    let parser = parser.map_err(|error| error.to_string())?;
    parser.join().unwrap_or_else(|_| Err("the parser failed".to_owned()))
}

/// Returns `true` if the parts of an expression may be nested too deeply for a recursive parser.
/// Characters in literals are counted too.
fn is_deep(text: &str) -> bool {
    let mut open = 0_usize;
    let mut deepest = 0;
    let mut turns = 0;
    let mut operators = 0;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'?' | b'!' | b'-' => turns += 1,
            b'.' | b'+' | b'*' | b'/' | b'%' | b'&' | b'|' | b'<' | b'>' | b'=' => operators += 1,
            _ => {}
        }
    }
    deepest > DEPTH_MAX || turns > DEPTH_MAX || operators > OPERATORS_MAX
}

/// Checks that an expression has only known names and no loops, and at most `levels` levels.
fn check(part: &IdedExpr, variables: &[&str], levels: usize) -> Result<(), String> {
    let Some(levels) = levels.checked_sub(1) else {
        return Err(format!("expected an expression of at most {LEVELS_MAX} levels, found more"));
    };
    let all = |parts: &[IdedExpr]| parts.iter().try_for_each(|part| check(part, variables, levels));
    match &part.expr {
        Expr::Literal(_) => Ok(()),
        Expr::Ident(name) if variables.contains(&name.as_str()) => Ok(()),
        Expr::Ident(name) => {
            Err(format!("expected one of {}, found `{}`", variables.join(", "), cut(name, 80)))
        }
        Expr::Select(select) => check(&select.operand, variables, levels),
        Expr::List(list) => all(&list.elements),
        Expr::Call(call) if FUNCTIONS.contains(&call.func_name.as_str()) => {
            call.target.iter().try_for_each(|target| check(target, variables, levels))?;
            all(&call.args)
        }
        Expr::Call(call) => Err(no_such(&format!("`{}`", cut(&call.func_name, 80)))),
        Expr::Comprehension(_) => Err(no_such("a loop over a list")),
        Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified => Err(no_such("a structure")),
    }
}

fn no_such(found: &str) -> String {
    format!(
        "expected operators, `in`, `has`, `size`, `contains`, `startsWith`, `endsWith` and `double`, found {found}"
    )
}

fn text(text: &str) -> Cel {
    Cel::String(Arc::new(text.to_owned()))
}

fn map<'a>(members: impl Iterator<Item = (&'a str, Cel)>) -> Cel {
    let members = members.map(|(name, value)| (Key::String(Arc::new(name.to_owned())), value));
    Cel::Map(Map { map: Arc::new(members.collect()) })
}

/// Converts a JSON value. Integers are `int` if they fit, so that they can be compared and computed
/// with literals.
fn value(json: &Value) -> Cel {
    match json {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => self::number(number),
        Value::String(content) => text(content),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(value).collect())),
        Value::Object(members) => {
            map(members.iter().map(|(name, member)| (name.as_str(), value(member))))
        }
    }
}

fn number(number: &Number) -> Cel {
    match (number.as_i64(), number.as_u64()) {
        (Some(int), _) => Cel::Int(int),
        (None, Some(large)) => Cel::UInt(large),
        (None, None) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}
