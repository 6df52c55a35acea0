//! Python's rules for JSON values: specs were recorded with them, and their nodes compute with them.

use serde_json::{Map, Number, Value as Json};
use std::cmp::Ordering;

/// An exception as the reference would raise it: its class and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raised {
    pub(crate) class: String,
    pub(crate) message: String,
}

impl Raised {
    pub(crate) fn new(class: &str, message: impl Into<String>) -> Self {
        Self { class: class.to_owned(), message: message.into() }
    }

    fn type_error(message: impl Into<String>) -> Self {
        Self::new("TypeError", message)
    }
}

/// A number, with the distinctions of Python.
#[derive(Debug, Clone, Copy)]
enum Num {
    Int(i128),
    Float(f64),
}

impl Num {
    fn of(value: &Json) -> Option<Self> {
        match value {
            Json::Bool(flag) => Some(Self::Int(i128::from(*flag))),
            Json::Number(number) => Some(Self::of_number(number)),
            _ => None,
        }
    }

    fn of_number(number: &Number) -> Self {
        if let Some(int) = number.as_i64() {
            return Self::Int(int.into());
        }
        match number.as_u64() {
            Some(int) => Self::Int(int.into()),
            None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    fn float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "Python's own conversion rounds too")]
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    fn add(self, other: Self) -> Json {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => int(a.saturating_add(b)),
            (a, b) => Number::from_f64(a.float() + b.float()).map_or(Json::Null, Json::Number),
        }
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }
}

/// An integer; beyond 64 bits JSON holds it as the nearest float.
fn int(value: i128) -> Json {
    if let Ok(small) = i64::try_from(value) {
        return small.into();
    }
    match u64::try_from(value) {
        Ok(big) => big.into(),
        Err(_) => Number::from_f64(Num::Int(value).float()).map_or(Json::Null, Json::Number),
    }
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) => match Num::of_number(number) {
            Num::Int(_) => "int",
            Num::Float(_) => "float",
        },
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) if is_message(value) => "BaseMessage",
        Json::Object(_) => "dict",
    }
}

/// Returns `true` if a value is a message, which is no dict although it is written as one.
fn is_message(value: &Json) -> bool {
    crate::expr::as_message(value).is_some()
}

/// Returns `true` if a value counts as true.
pub(crate) fn truth(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(flag) => *flag,
        Json::Number(_) => {
            Num::of(value).and_then(|n| n.compare(Num::Int(0))) != Some(Ordering::Equal)
        }
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
}

/// `a == b`: numbers by value, true is 1, members of objects in any order.
pub(crate) fn equal(a: &Json, b: &Json) -> bool {
    if let Some(a) = Num::of(a)
        && let Some(b) = Num::of(b)
    {
        return a.compare(b) == Some(Ordering::Equal);
    }
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => a == b,
    }
}

/// `a < b`.
pub(crate) fn less(a: &Json, b: &Json) -> Result<bool, Raised> {
    if let Some(a) = Num::of(a)
        && let Some(b) = Num::of(b)
    {
        return Ok(a.compare(b) == Some(Ordering::Less));
    }
    match (a, b) {
        (Json::String(a), Json::String(b)) => Ok(a < b),
        (Json::Array(a), Json::Array(b)) => match a.iter().zip(b).find(|(a, b)| !equal(a, b)) {
            Some((a, b)) => less(a, b),
            None => Ok(a.len() < b.len()),
        },
        _ => Err(Raised::type_error(format!(
            "'<' not supported between instances of '{}' and '{}'",
            type_name(a),
            type_name(b)
        ))),
    }
}

/// `a >= b`, which is not `not a < b` where a float is no number.
pub(crate) fn at_least(a: &Json, b: &Json) -> Result<bool, Raised> {
    if let Some(a) = Num::of(a)
        && let Some(b) = Num::of(b)
    {
        return Ok(matches!(a.compare(b), Some(Ordering::Greater | Ordering::Equal)));
    }
    less(a, b).map(|less| !less).map_err(|_| {
        let a = type_name(a);
        let b = type_name(b);
        Raised::type_error(format!("'>=' not supported between instances of '{a}' and '{b}'"))
    })
}

/// `a + b`: a sum, or one after the other.
pub(crate) fn add(a: &Json, b: &Json) -> Result<Json, Raised> {
    if let Some(a) = Num::of(a)
        && let Some(b) = Num::of(b)
    {
        return Ok(a.add(b));
    }
    match (a, b) {
        (Json::String(a), Json::String(b)) => Ok(format!("{a}{b}").into()),
        (Json::Array(a), Json::Array(b)) => Ok([a.as_slice(), b.as_slice()].concat().into()),
        (Json::String(_), other) => Err(Raised::type_error(format!(
            "can only concatenate str (not \"{}\") to str",
            type_name(other)
        ))),
        (Json::Array(_), other) => Err(Raised::type_error(format!(
            "can only concatenate list (not \"{}\") to list",
            type_name(other)
        ))),
        _ => Err(Raised::type_error(format!(
            "unsupported operand type(s) for +: '{}' and '{}'",
            type_name(a),
            type_name(b)
        ))),
    }
}

/// `{**a, **b}`, where nothing counts as an empty object.
pub(crate) fn merge(a: &Json, b: &Json) -> Result<Json, Raised> {
    let mut all = Map::new();
    for side in [a, b] {
        match side {
            Json::Object(members) => {
                all.extend(members.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            empty if !truth(empty) => {}
            other => {
                let message = format!("'{}' object is not a mapping", type_name(other));
                return Err(Raised::type_error(message));
            }
        }
    }
    Ok(Json::Object(all))
}

/// `len(value or [])`.
pub(crate) fn length(value: &Json) -> Result<Json, Raised> {
    match value {
        empty if !truth(empty) => Ok(0.into()),
        Json::String(text) => Ok(text.chars().count().into()),
        Json::Array(items) => Ok(items.len().into()),
        Json::Object(members) if !is_message(value) => Ok(members.len().into()),
        other => {
            let message = format!("object of type '{}' has no len()", type_name(other));
            Err(Raised::type_error(message))
        }
    }
}

/// `value[key]`.
pub(crate) fn item(value: &Json, key: &Json) -> Result<Json, Raised> {
    match value {
        Json::Object(members) if !is_message(value) => {
            let found = key.as_str().and_then(|key| members.get(key));
            found.cloned().ok_or_else(|| Raised::new("KeyError", bare(key)))
        }
        Json::Array(items) => {
            let index = index(key, items.len(), "list")?;
            items.get(index).cloned().ok_or_else(|| out_of_range("list"))
        }
        Json::String(text) => {
            let index = index(key, text.chars().count(), "string")?;
            let found = text.chars().nth(index).ok_or_else(|| out_of_range("string"))?;
            Ok(found.to_string().into())
        }
        other => {
            let message = format!("'{}' object is not subscriptable", type_name(other));
            Err(Raised::type_error(message))
        }
    }
}

fn index(key: &Json, length: usize, what: &str) -> Result<usize, Raised> {
    let Some(Num::Int(index)) = Num::of(key) else {
        let message = format!("{what} indices must be integers or slices, not {}", type_name(key));
        return Err(Raised::type_error(message));
    };
    let from_start =
        if index < 0 { index.saturating_add(i128::try_from(length).unwrap_or(0)) } else { index };
    usize::try_from(from_start).map_err(|_| out_of_range(what))
}

fn out_of_range(what: &str) -> Raised {
    Raised::new("IndexError", format!("{what} index out of range"))
}

/// `key in value`.
pub(crate) fn contains(value: &Json, key: &Json) -> Result<bool, Raised> {
    match (value, key) {
        (Json::Object(members), Json::String(key)) => Ok(members.contains_key(key)),
        (Json::Object(_), _) => Ok(false),
        (Json::Array(items), key) => Ok(items.iter().any(|item| equal(item, key))),
        (Json::String(text), Json::String(part)) => Ok(text.contains(part.as_str())),
        (Json::String(_), key) => Err(Raised::type_error(format!(
            "'in <string>' requires string as left operand, not {}",
            type_name(key)
        ))),
        (other, _) => Err(not_iterable(other)),
    }
}

/// `sorted(value)`.
pub(crate) fn sorted(value: &Json) -> Result<Json, Raised> {
    let mut items = items(value)?;
    let mut failed = None;
    items.sort_by(|a, b| {
        let order = less(a, b).and_then(|below| {
            Ok(match (below, less(b, a)?) {
                (true, _) => Ordering::Less,
                (_, true) => Ordering::Greater,
                _ => Ordering::Equal,
            })
        });
        order.unwrap_or_else(|raised| {
            failed.get_or_insert(raised);
            Ordering::Equal
        })
    });
    failed.map_or(Ok(Json::Array(items)), Err)
}

/// The values that a loop over a value visits.
pub(crate) fn items(value: &Json) -> Result<Vec<Json>, Raised> {
    match value {
        Json::Array(items) => Ok(items.clone()),
        Json::Object(members) => Ok(members.keys().cloned().map(Json::String).collect()),
        Json::String(text) => Ok(text.chars().map(|c| c.to_string().into()).collect()),
        other => Err(not_iterable(other)),
    }
}

fn not_iterable(value: &Json) -> Raised {
    Raised::type_error(format!("'{}' object is not iterable", type_name(value)))
}

/// A string as it is, anything else as compact JSON.
pub(crate) fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => {
            let mut out = String::new();
            write_json(other, &mut out);
            out
        }
    }
}

/// The same of a value that may hold messages, which have no JSON.
pub(crate) fn dumped(value: &Json) -> Result<String, Raised> {
    fn holds_message(value: &Json) -> bool {
        match value {
            Json::Array(items) => items.iter().any(holds_message),
            Json::Object(members) => is_message(value) || members.values().any(holds_message),
            _ => false,
        }
    }
    if holds_message(value) {
        return Err(Raised::type_error("a message is not JSON serializable"));
    }
    Ok(text(value))
}

/// The text that an exception shows for a key.
pub(crate) fn bare(key: &Json) -> String {
    match key {
        Json::Null => "None".to_owned(),
        Json::Bool(true) => "True".to_owned(),
        Json::Bool(false) => "False".to_owned(),
        other => text(other),
    }
}

/// Compact JSON as Python writes it, which differs in floats.
fn write_json(value: &Json, out: &mut String) {
    match value {
        Json::Number(number) => match Num::of_number(number) {
            Num::Int(_) => out.push_str(&number.to_string()),
            Num::Float(float) => out.push_str(&float_text(float)),
        },
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (index, (key, item)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Json::String(key.clone()).to_string());
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The shortest text that reads back as the same float; powers of ten below -4 and from 16 on.
fn float_text(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{float:e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = match power.strip_prefix('-') {
            Some(power) => ('-', power),
            None => ('+', power),
        };
        return format!("{digits}e{sign}{power:0>2}");
    }
    let text = float.to_string();
    if text.contains('.') || !float.is_finite() { text } else { format!("{text}.0") }
}

#[cfg(test)]
mod tests {
    use super::{
        Raised, add, contains, equal, float_text, item, length, less, sorted, text, truth,
    };
    use serde_json::{Value as Json, json};

    #[test]
    fn only_empty_zero_and_nothing_are_false() {
        for no in [json!(null), json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})]
        {
            assert!(!truth(&no), "{no}");
        }
        for yes in [json!(true), json!(-1), json!(0.5), json!(" "), json!([0]), json!({"a": null})]
        {
            assert!(truth(&yes), "{yes}");
        }
    }

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(equal(&json!(1), &json!(1.0)));
        assert!(equal(&json!(true), &json!(1)));
        assert!(equal(&json!([0, {"a": 1}]), &json!([false, {"a": 1.0}])));
        assert!(equal(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})));
        assert!(!equal(&json!("1"), &json!(1)));
        assert!(!equal(&json!(null), &json!(false)));
    }

    #[test]
    fn sums_follow_the_types() {
        assert_eq!(add(&json!(1), &json!(true)).unwrap(), json!(2));
        assert_eq!(add(&json!(1), &json!(0.5)).unwrap(), json!(1.5));
        assert_eq!(add(&json!("a"), &json!("b")).unwrap(), json!("ab"));
        assert_eq!(add(&json!([1]), &json!(["b"])).unwrap(), json!([1, "b"]));
        let message = |a: Json, b: Json| add(&a, &b).unwrap_err().message;
        assert_eq!(message(json!("a"), json!(1)), "can only concatenate str (not \"int\") to str");
        let expected = "can only concatenate list (not \"str\") to list";
        assert_eq!(message(json!([]), json!("a")), expected);
        let expected = "unsupported operand type(s) for +: 'NoneType' and 'int'";
        assert_eq!(message(json!(null), json!(1)), expected);
    }

    #[test]
    fn order_is_within_a_type() {
        assert!(less(&json!(1), &json!(1.5)).unwrap());
        assert!(less(&json!("Z"), &json!("a")).unwrap());
        assert!(less(&json!([1, 2]), &json!([1, 3])).unwrap());
        assert!(less(&json!([1]), &json!([1, 0])).unwrap());
        let raised = less(&json!(null), &json!(1)).unwrap_err();
        let expected = "'<' not supported between instances of 'NoneType' and 'int'";
        assert_eq!(raised, Raised::new("TypeError", expected));
        assert_eq!(sorted(&json!({"b": 1, "a": 2})).unwrap(), json!(["a", "b"]));
        assert_eq!(sorted(&json!([3, 1.5, true])).unwrap(), json!([true, 1.5, 3]));
        assert_eq!(sorted(&json!([1, "a"])).unwrap_err().class, "TypeError");
    }

    #[test]
    fn items_are_found_or_raise() {
        assert_eq!(item(&json!({"a": 1}), &json!("a")).unwrap(), json!(1));
        assert_eq!(item(&json!([1, 2]), &json!(-1)).unwrap(), json!(2));
        assert_eq!(item(&json!({}), &json!("k")).unwrap_err(), Raised::new("KeyError", "k"));
        assert_eq!(item(&json!([]), &json!(0)).unwrap_err().class, "IndexError");
        assert_eq!(item(&json!(null), &json!(0)).unwrap_err().class, "TypeError");
        assert!(contains(&json!("abc"), &json!("bc")).unwrap());
        assert_eq!(length(&json!(null)).unwrap(), json!(0));
        assert_eq!(length(&json!("äö")).unwrap(), json!(2));
        assert_eq!(length(&json!(3)).unwrap_err().class, "TypeError");
    }

    #[test]
    fn text_is_compact_json() {
        assert_eq!(text(&json!("as is")), "as is");
        assert_eq!(text(&json!({"a": [1, 2.0, null, "ü\n"]})), r#"{"a":[1,2.0,null,"ü\n"]}"#);
        let floats = [(1e16, "1e+16"), (1.5e-5, "1.5e-05"), (0.0001, "0.0001"), (123.0, "123.0")];
        for (float, expected) in floats {
            assert_eq!(float_text(float), expected);
        }
    }
}
