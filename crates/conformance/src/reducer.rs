//! The channels of a spec's reducers: ours where they do the same, with Python's checks in front.

use crate::expr;
use crate::python::{self, Raised};
use crate::spec::Reducer;
use serde_json::{Value as Json, json};
use weftwork_graph::ChannelDef;
use weftwork_graph::channel::{
    Append, Channel, Fleeting, LastValue, Managed, Reduce, Refused, Topic, Untracked,
};
use weftwork_graph::{Value, Write};

/// A removal of this message removes all.
const ALL: &str = "__remove_all__";

/// The channel of a key.
pub(crate) fn channel(key: &str, reducer: Reducer) -> ChannelDef {
    let (key, append) = (key.to_owned(), Append::<Json>::new);
    match reducer {
        Reducer::Last => ChannelDef::new(key, LastValue::<Json>::new()),
        Reducer::Any => ChannelDef::new(key, Fleeting::<Json>::any()),
        Reducer::Add => checked(key, folds::<Sum>, Reduce::new(|| json!(0), reduce::<Sum>)),
        Reducer::Max => checked(key, folds::<Larger>, Reduce::new(|| json!(0), reduce::<Larger>)),
        Reducer::Or => checked(key, folds::<Merge>, Reduce::new(|| json!({}), reduce::<Merge>)),
        Reducer::Append => checked(key, are_lists, append()),
        Reducer::Delta(every) => checked(key, are_lists, append().counted(every.into())),
        Reducer::Untracked => ChannelDef::new(key, Untracked::<Json>::new()),
        Reducer::Ephemeral => ChannelDef::new(key, Fleeting::<Json>::one()),
        Reducer::Topic => ChannelDef::new(key, Topic::<Json>::new()),
        Reducer::TopicAccumulating => ChannelDef::new(key, Gathered::Topic),
        Reducer::Messages => ChannelDef::new(key, Gathered::Messages),
        Reducer::LastStep => ChannelDef::new(key, Managed::LastStep),
        Reducer::Remaining => ChannelDef::new(key, Managed::Remaining),
    }
}

/// A reducer of two values.
trait Fold {
    fn fold(value: &Json, write: &Json) -> Result<Json, Raised>;
}

struct Sum;

impl Fold for Sum {
    fn fold(value: &Json, write: &Json) -> Result<Json, Raised> {
        python::add(value, write)
    }
}

struct Larger;

impl Fold for Larger {
    fn fold(value: &Json, write: &Json) -> Result<Json, Raised> {
        let larger = if python::at_least(value, write)? { value } else { write };
        Ok(larger.clone())
    }
}

struct Merge;

impl Fold for Merge {
    fn fold(value: &Json, write: &Json) -> Result<Json, Raised> {
        python::merge(value, write)
    }
}

/// The reducer as [`Reduce`] takes it: what it refuses was found by the check before.
fn reduce<F: Fold>(value: Json, write: Json) -> Json {
    F::fold(&value, &write).unwrap_or(write)
}

/// Looks for what Python would refuse.
type Check = fn(Option<&Value>, &[Write]) -> Result<(), (usize, Raised)>;

fn folds<F: Fold>(current: Option<&Value>, writes: &[Write]) -> Result<(), (usize, Raised)> {
    let Some(mut value) = current.and_then(Value::get::<Json>).cloned() else { return Ok(()) };
    for (index, write) in writes.iter().enumerate() {
        match write {
            Write::Json(json) => value = F::fold(&value, json).map_err(|raised| (index, raised))?,
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn are_lists(_: Option<&Value>, writes: &[Write]) -> Result<(), (usize, Raised)> {
    let refused = writes.iter().enumerate().find_map(|(index, write)| match write {
        Write::Json(json) => Some((index, python::add(&json!([]), json).err()?)),
        _ => None,
    });
    refused.map_or(Ok(()), Err)
}

fn refused((index, raised): (usize, Raised)) -> Refused {
    Refused::Bad { index, reason: format!("{}: {}", raised.class, raised.message) }
}

fn checked(key: String, check: Check, channel: impl Channel + 'static) -> ChannelDef {
    ChannelDef::new(key, Checked { check, channel })
}

/// A channel whose writes are checked first.
#[derive(Debug)]
struct Checked<C> {
    check: Check,
    channel: C,
}

impl<C: Channel> Channel for Checked<C> {
    fn kind(&self) -> &'static str {
        self.channel.kind()
    }

    fn is_stored(&self) -> bool {
        self.channel.is_stored()
    }

    fn initial(&self) -> Option<Value> {
        self.channel.initial()
    }

    fn lapses(&self) -> bool {
        self.channel.lapses()
    }

    fn counted(&self) -> Option<u64> {
        self.channel.counted()
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        (self.check)(current.as_ref(), writes).map_err(refused)?;
        self.channel.apply(current, writes)
    }

    fn encode(&self, value: &Value) -> Result<Json, String> {
        self.channel.encode(value)
    }

    fn decode(&self, json: &Json) -> Result<Value, String> {
        self.channel.decode(json)
    }

    fn encode_write(&self, write: &Value) -> Result<Json, String> {
        self.channel.encode_write(write)
    }
}

/// Lists that no channel of ours makes the same way.
#[derive(Debug)]
enum Gathered {
    /// Everything that was ever written; no value while that is nothing.
    Topic,
    /// Tagged messages: one with a known id replaces the older, a removal takes it out.
    Messages,
}

impl Channel for Gathered {
    fn kind(&self) -> &'static str {
        match self {
            Self::Topic => "gathered",
            Self::Messages => "tagged_messages",
        }
    }

    fn initial(&self) -> Option<Value> {
        match self {
            Self::Topic => None,
            Self::Messages => Some(Value::new(json!([]))),
        }
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        let mut items = match current.and_then(Value::take::<Json>) {
            Some(Json::Array(items)) => items,
            _ => Vec::new(),
        };
        for (index, write) in writes.iter().enumerate() {
            let written = match write {
                Write::Json(json) => list(json),
                Write::Overwrite(json) => return Ok(Some(Value::new(json.clone()))),
                Write::Typed(_) => {
                    let reason = "expected JSON".to_owned();
                    return Err(Refused::Bad { index, reason });
                }
            };
            match self {
                Self::Topic => items.extend(written),
                Self::Messages => {
                    items =
                        add_messages(items, written).map_err(|raised| refused((index, raised)))?;
                }
            }
        }
        let empty = matches!(self, Self::Topic) && items.is_empty();
        Ok((!empty).then(|| Value::new(Json::Array(items))))
    }

    fn encode(&self, value: &Value) -> Result<Json, String> {
        value.get::<Json>().cloned().ok_or_else(|| "expected JSON".to_owned())
    }

    fn decode(&self, json: &Json) -> Result<Value, String> {
        Ok(Value::new(json.clone()))
    }

    fn encode_write(&self, write: &Value) -> Result<Json, String> {
        self.encode(write)
    }
}

fn list(json: &Json) -> Vec<Json> {
    match json {
        Json::Array(items) => items.clone(),
        one => vec![one.clone()],
    }
}

/// A conversation with more messages.
fn add_messages(mut all: Vec<Json>, more: Vec<Json>) -> Result<Vec<Json>, Raised> {
    let more: Vec<Json> = with_ids(more, all.len())?;
    let removes_all =
        |m: &Json| expr::as_message(m).is_some_and(|m| (m.0, m.2) == ("remove", Some(ALL)));
    if let Some(last) = more.iter().rposition(removes_all) {
        return Ok(more.into_iter().skip(last.saturating_add(1)).collect());
    }
    let mut removed = Vec::new();
    for message in more {
        let Some((role, _, Some(id))) = expr::as_message(&message) else { continue };
        let known = all.iter().position(|m| expr::as_message(m).is_some_and(|m| m.2 == Some(id)));
        match (known, role) {
            (Some(index), "remove") => removed.push(index),
            (Some(index), _) => {
                removed.retain(|removed| *removed != index);
                if let Some(slot) = all.get_mut(index) {
                    *slot = message;
                }
            }
            (None, "remove") => {
                return Err(Raised::new(
                    "ValueError",
                    format!(
                        "Attempting to delete a message with an ID that doesn't exist ('{id}')"
                    ),
                ));
            }
            (None, _) => all.push(message),
        }
    }
    let kept = all.into_iter().enumerate().filter(|(index, _)| !removed.contains(index));
    Ok(kept.map(|(_, message)| message).collect())
}

/// Messages, each with an id: those without one are numbered by their place.
fn with_ids(messages: Vec<Json>, before: usize) -> Result<Vec<Json>, Raised> {
    let named = messages.into_iter().enumerate().map(|(index, message)| {
        let Some((role, content, id)) = expr::as_message(&message) else {
            let message = format!("Unsupported message type: {}", python::type_name(&message));
            return Err(Raised::new("NotImplementedError", message));
        };
        if id.is_some() {
            return Ok(message);
        }
        let id = format!("message-{}", before.saturating_add(index));
        Ok(expr::message(role, content.clone(), id.into()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::{Check, Larger, Merge, Sum, add_messages, are_lists, folds};
    use serde_json::{Value as Json, json};
    use weftwork_graph::{Value, Write};

    fn message(role: &str, content: &str, id: &str) -> Json {
        json!({"$msg": [role, content, id]})
    }

    #[test]
    fn messages_replace_and_remove_by_id() {
        let all = vec![message("human", "hi", "h"), message("ai", "one", "a")];
        let more = vec![message("ai", "ONE", "a"), message("ai", "two", "b")];
        let all = add_messages(all, more).unwrap();
        assert_eq!(all[1], message("ai", "ONE", "a"));
        let all = add_messages(all, vec![message("remove", "", "h")]).unwrap();
        assert_eq!(all.len(), 2);
        let raised = add_messages(all.clone(), vec![message("remove", "", "x")]).unwrap_err();
        assert_eq!(raised.class, "ValueError");
        let afresh = vec![message("remove", "", "__remove_all__"), message("ai", "new", "n")];
        assert_eq!(add_messages(all, afresh).unwrap(), [message("ai", "new", "n")]);
    }

    #[test]
    fn messages_without_an_id_get_one() {
        let all = add_messages(Vec::new(), vec![json!({"$msg": ["ai", "x", null]})]).unwrap();
        assert_eq!(all, [message("ai", "x", "message-0")]);
    }

    #[test]
    fn writes_that_python_refuses_are_found() {
        let refused = |check: Check, current: Json, write: Json| {
            let current = Value::new(current);
            check(Some(&current), &[Write::json(write)]).err().map(|(_, raised)| raised.class)
        };
        let refusal = Some("TypeError".to_owned());
        assert_eq!(refused(folds::<Sum>, json!(1), json!("a")), refusal);
        assert_eq!(refused(folds::<Sum>, json!(1), json!(2)), None);
        assert_eq!(refused(folds::<Larger>, json!(1), json!(null)), refusal);
        assert_eq!(refused(folds::<Merge>, json!({}), json!(3)), refusal);
        assert_eq!(refused(are_lists, json!([]), json!("a")), refusal);
        assert_eq!(refused(are_lists, json!([]), json!(["a"])), None);
    }
}
