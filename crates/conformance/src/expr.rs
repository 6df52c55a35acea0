//! Expressions: what a spec computes with.

use crate::SpecError;
use crate::message::check_content;
use crate::python::{self, Raised};
use crate::spec::Cursor;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Local variables of one execution of a node.
pub(crate) type Vars = BTreeMap<String, Json>;

/// An expression. Values it makes that JSON does not know are objects with one tag: `$send`,
/// `$overwrite`, `$msg`, as a trace shows them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Value(Json),
    List(Vec<Expr>),
    Object(Vec<(String, Expr)>),
    Key(String),
    Var(String),
    Arg,
    Pair(Binary, Box<Expr>),
    Len(Box<Expr>),
    If(Box<[Expr; 3]>),
    Has(Json),
    Keys,
    Text(Box<Expr>),
    Send(String, Box<Expr>),
    Sends { node: String, items: Box<Expr>, key: String },
    Message { role: Role, content: Box<Expr>, id: Option<Json> },
}

/// An operation on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Less,
    Equal,
    Get,
}

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Ai,
    Human,
    Remove,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Ai => "ai",
            Self::Human => "human",
            Self::Remove => "remove",
        }
    }
}

impl Expr {
    /// Reads an expression. An object with one member whose name is not an operator, and every
    /// other object, is an object of expressions.
    pub(crate) fn read(at: Cursor<'_>) -> Result<Self, SpecError> {
        match at.json {
            Json::Array(_) => Ok(Self::List(at.each(Self::read)?)),
            Json::Object(members) => {
                if members.len() == 1
                    && let Some(name) = members.keys().next()
                    && let Some(operation) = Self::operation(name, at.member(name)?)?
                {
                    return Ok(operation);
                }
                Ok(Self::Object(at.members(|_, value| Self::read(value))?))
            }
            scalar => Ok(Self::Value(scalar.clone())),
        }
    }

    fn boxed(at: Cursor<'_>) -> Result<Box<Self>, SpecError> {
        Self::read(at).map(Box::new)
    }

    fn operation(name: &str, at: Cursor<'_>) -> Result<Option<Self>, SpecError> {
        Ok(Some(match name {
            "$" => Self::Key(at.text()?),
            "$v" => Self::Var(at.text()?),
            "$arg" => Self::Arg,
            "+" => Self::Pair(Binary::Add, Self::boxed(at)?),
            "<" => Self::Pair(Binary::Less, Self::boxed(at)?),
            "==" => Self::Pair(Binary::Equal, Self::boxed(at)?),
            "get" => Self::Pair(Binary::Get, Self::boxed(at)?),
            "len" => Self::Len(Self::boxed(at)?),
            "?" => Self::If(Self::choice(at)?),
            "has" => Self::Has(at.json.clone()),
            "keys" => Self::Keys,
            "str" => Self::Text(Self::boxed(at)?),
            "obj" => Self::Object(at.members(|_, value| Self::read(value))?),
            "send" => Self::Send(at.item(0)?.text()?, Self::boxed(at.item(1)?)?),
            "sends" => Self::Sends {
                node: at.item(0)?.text()?,
                items: Self::boxed(at.item(1)?)?,
                key: at.item(2)?.text()?,
            },
            "msg" => Self::message(at)?,
            _ => return Ok(None),
        }))
    }

    fn choice(at: Cursor<'_>) -> Result<Box<[Self; 3]>, SpecError> {
        if at.array()?.len() != 3 {
            return Err(at.expected("a condition and two expressions"));
        }
        let read = |index| Self::read(at.item(index)?);
        Ok(Box::new([read(0)?, read(1)?, read(2)?]))
    }

    fn message(at: Cursor<'_>) -> Result<Self, SpecError> {
        let role = at.member("role")?;
        let role = match role.json.as_str() {
            Some("ai") => Role::Ai,
            Some("human") => Role::Human,
            Some("remove") => Role::Remove,
            _ => return Err(role.expected("`ai`, `human` or `remove`")),
        };
        let content = at.maybe("content", Self::boxed)?;
        let content = content.unwrap_or_else(|| Box::new(Self::Value(json!(""))));
        let id = at.maybe("id", |id| match id.json {
            Json::String(_) | Json::Null => Ok(id.json.clone()),
            _ => Err(id.expected("a string")),
        })?;
        Ok(Self::Message { role, content, id })
    }

    /// Its value, over a node's input and its local variables.
    pub(crate) fn eval(&self, input: &Json, vars: &Vars) -> Result<Json, Raised> {
        let of = |inner: &Expr| inner.eval(input, vars);
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::List(items) => items.iter().map(of).collect(),
            Self::Object(members) => {
                let members = members.iter().map(|(key, value)| Ok((key.clone(), of(value)?)));
                members.collect::<Result<Map<_, _>, _>>().map(Json::Object)
            }
            Self::Key(key) => Ok(input.get(key).cloned().unwrap_or_default()),
            Self::Var(name) => Ok(vars.get(name).cloned().unwrap_or_default()),
            Self::Arg => Ok(input.clone()),
            Self::Pair(binary, operands) => binary.apply(&of(operands)?),
            Self::Len(inner) => python::length(&of(inner)?),
            Self::If(parts) => {
                let [condition, yes, no] = parts.as_ref();
                of(if python::truth(&of(condition)?) { yes } else { no })
            }
            Self::Has(key) => python::contains(input, key).map(Json::Bool),
            Self::Keys => python::sorted(input),
            Self::Text(inner) => python::dumped(&of(inner)?).map(Json::String),
            Self::Send(node, arg) => Ok(send(node, of(arg)?)),
            Self::Sends { node, items, key } => sends(node, &of(items)?, key),
            Self::Message { role, content, id } => {
                if *role == Role::Remove {
                    let id = id.clone().ok_or_else(|| Raised::new("KeyError", "id"))?;
                    return Ok(message(role.name(), json!(""), id));
                }
                let content = of(content)?;
                check_content(&content, role.name())?;
                Ok(message(role.name(), content, id.clone().unwrap_or_default()))
            }
        }
    }

    /// Its value outside of nodes, where there is neither input nor variable.
    pub(crate) fn alone(&self) -> Result<Json, Raised> {
        self.eval(&json!({}), &Vars::new())
    }
}

impl Binary {
    fn apply(self, operands: &Json) -> Result<Json, Raised> {
        let pair = python::items(operands)?;
        let [a, b] = pair.as_slice() else {
            let few = format!("not enough values to unpack (expected 2, got {})", pair.len());
            let many = "too many values to unpack (expected 2)".to_owned();
            return Err(Raised::new("ValueError", if pair.len() < 2 { few } else { many }));
        };
        match self {
            Self::Add => python::add(a, b),
            Self::Less => python::less(a, b).map(Json::Bool),
            Self::Equal => Ok(python::equal(a, b).into()),
            Self::Get => python::item(a, b),
        }
    }
}

/// A send as a value.
pub(crate) fn send(node: &str, arg: Json) -> Json {
    json!({ "$send": [node, arg] })
}

fn sends(node: &str, items: &Json, key: &str) -> Result<Json, Raised> {
    if !python::truth(items) {
        return Ok(json!([]));
    }
    let items = python::items(items)?.into_iter();
    Ok(items.map(|item| send(node, json!({ key: item }))).collect())
}

/// A message as a value.
pub(crate) fn message(role: &str, content: Json, id: Json) -> Json {
    json!({ "$msg": [role, content, id] })
}

/// An overwrite as a value, for channels that do not know overwrites.
pub(crate) fn overwrite(value: Json) -> Json {
    json!({ "$overwrite": value })
}

/// The node and the argument of a send.
pub(crate) fn as_send(value: &Json) -> Option<(&str, &Json)> {
    match tagged(value, "$send")?.as_array()?.as_slice() {
        [Json::String(node), arg] => Some((node, arg)),
        _ => None,
    }
}

/// The role, the content and the id of a message.
pub(crate) fn as_message(value: &Json) -> Option<(&str, &Json, Option<&str>)> {
    match tagged(value, "$msg")?.as_array()?.as_slice() {
        [Json::String(role), content, id] => Some((role, content, id.as_str())),
        _ => None,
    }
}

fn tagged<'a>(value: &'a Json, tag: &str) -> Option<&'a Json> {
    let members = value.as_object()?;
    if members.len() == 1 { members.get(tag) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Expr, Vars};
    use crate::python::Raised;
    use crate::spec::Cursor;
    use serde_json::{Value as Json, json};

    fn eval(expr: Json, input: Json) -> Result<Json, Raised> {
        let vars = Vars::from([("x".to_owned(), json!(5))]);
        Expr::read(Cursor::root(&expr)).unwrap().eval(&input, &vars)
    }

    #[test]
    fn values_come_from_input_and_variables() {
        let input = json!({"n": 3, "log": ["a"]});
        assert_eq!(eval(json!({"+": [{"$": "n"}, {"$v": "x"}]}), input.clone()).unwrap(), json!(8));
        assert_eq!(
            eval(json!([{"$": "none"}, {"$v": "y"}]), input.clone()).unwrap(),
            json!([null, null])
        );
        assert_eq!(eval(json!({"$arg": 1}), input.clone()).unwrap(), input);
        assert_eq!(eval(json!({"keys": 1}), input.clone()).unwrap(), json!(["log", "n"]));
        assert_eq!(eval(json!({"has": "log"}), input.clone()).unwrap(), json!(true));
        assert_eq!(eval(json!({"$": "n"}), json!([1])).unwrap(), Json::Null);
    }

    #[test]
    fn only_one_member_makes_an_operator() {
        assert_eq!(eval(json!({"len": [1, 2]}), json!({})).unwrap(), json!(2));
        let plain = json!({"len": {"$v": "x"}, "b": {"$arg": 1}});
        assert_eq!(eval(plain, json!({})).unwrap(), json!({"len": 5, "b": {}}));
        assert_eq!(
            eval(json!({"obj": {"len": {"$v": "x"}}}), json!({})).unwrap(),
            json!({"len": 5})
        );
    }

    #[test]
    fn a_choice_evaluates_one_side() {
        let expr = json!({"?": [{"$": "c"}, "yes", {"get": [{}, "no"]}]});
        assert_eq!(eval(expr.clone(), json!({"c": [0]})).unwrap(), json!("yes"));
        assert_eq!(eval(expr, json!({"c": 0})).unwrap_err(), Raised::new("KeyError", "no"));
    }

    #[test]
    fn sends_and_messages_are_tagged() {
        let sends = eval(json!({"sends": ["w", [1, 2], "i"]}), json!({})).unwrap();
        assert_eq!(sends, json!([{"$send": ["w", {"i": 1}]}, {"$send": ["w", {"i": 2}]}]));
        let message = json!({"msg": {"role": "ai", "content": {"str": {"$v": "x"}}, "id": "m"}});
        assert_eq!(eval(message, json!({})).unwrap(), json!({"$msg": ["ai", "5", "m"]}));
        let number = json!({"msg": {"role": "ai", "content": {"$v": "x"}, "id": "m"}});
        assert_eq!(eval(number, json!({})).unwrap_err().class, "ValidationError");
        let remove = json!({"msg": {"role": "remove", "content": "x", "id": "m"}});
        assert_eq!(eval(remove, json!({})).unwrap(), json!({"$msg": ["remove", "", "m"]}));
        let unnamed = eval(json!({"msg": {"role": "remove"}}), json!({}));
        assert_eq!(unnamed.unwrap_err(), Raised::new("KeyError", "id"));
        for op in ["len", "str"] {
            let message = json!({op: {"msg": {"role": "ai", "content": "x"}}});
            assert_eq!(eval(message, json!({})).unwrap_err().class, "TypeError");
        }
    }

    #[test]
    fn pairs_are_unpacked() {
        let raised = eval(json!({"+": [1]}), json!({})).unwrap_err();
        let expected = "not enough values to unpack (expected 2, got 1)";
        assert_eq!(raised, Raised::new("ValueError", expected));
        assert_eq!(eval(json!({"==": {"$": "p"}}), json!({"p": [1, 1.0]})).unwrap(), json!(true));
    }

    #[test]
    fn malformed_expressions_name_their_place() {
        let read = |json: Json| Expr::read(Cursor::root(&json)).unwrap_err().to_string();
        let error = read(json!([{"?": [1, 2]}]));
        let expected = "the spec has [1,2] at `/0/?`; expected a condition and two expressions";
        assert_eq!(error, expected);
        let error = read(json!({"msg": {"role": "bot"}}));
        assert!(error.contains("\"bot\" at `/msg/role`"), "{error}");
    }
}
