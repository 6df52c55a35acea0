//! The channels of a spec's reducers: ours where they do the same, with Python's checks in front.

use crate::message;
use crate::python::{self, Raised};
use crate::spec::Reducer;
use serde_json::{Value as Json, json};
use weftwork_graph::ChannelDef;
use weftwork_graph::channel::{
    Append, Channel, Ephemeral, LastValue, Managed, Messages, Reduce, Refused, Topic, Untracked,
};
use weftwork_graph::{Value, Write};

/// The channel of a key.
pub(crate) fn channel(key: &str, reducer: Reducer) -> ChannelDef {
    let key = key.to_owned();
    let append = Append::<Json>::new;
    match reducer {
        Reducer::Last => ChannelDef::new(key, LastValue::<Json>::new()),
        Reducer::Any => ChannelDef::new(key, Ephemeral::<Json>::any()),
        Reducer::Add => checked(key, folds::<Sum>, Reduce::new(|| json!(0), reduce::<Sum>)),
        Reducer::Max => checked(key, folds::<Larger>, Reduce::new(|| json!(0), reduce::<Larger>)),
        Reducer::Or => checked(key, folds::<Merge>, Reduce::new(|| json!({}), reduce::<Merge>)),
        Reducer::Append => checked(key, are_lists, append()),
        Reducer::Delta(every) => checked(key, are_lists, append().counted(every.into())),
        Reducer::Untracked => ChannelDef::new(key, Untracked::<Json>::new()),
        Reducer::Ephemeral => ChannelDef::new(key, Ephemeral::<Json>::one()),
        Reducer::Topic => ChannelDef::new(key, Topic::<Json>::new()),
        Reducer::TopicAccumulating => ChannelDef::new(key, Gathered),
        Reducer::Messages => ChannelDef::new(key, Coercing(Messages)),
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
        if message::is_record(write) {
            return Err(Raised::new("TypeError", "a message is not a mapping"));
        }
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

fn refused(index: usize, raised: &Raised) -> Refused {
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
        let checked = (self.check)(current.as_ref(), writes);
        checked.map_err(|(index, raised)| refused(index, &raised))?;
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

/// The product's conversation, behind what Python makes of writes that are no messages.
#[derive(Debug)]
struct Coercing(Messages);

impl Channel for Coercing {
    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        let coerced = writes.iter().enumerate().map(|(index, write)| match write {
            Write::Json(json) => match message::coerced(json) {
                Ok(changes) => Ok(Write::json(changes)),
                Err(raised) => Err(refused(index, &raised)),
            },
            other => Ok(other.clone()),
        });
        self.0.apply(current, &coerced.collect::<Result<Vec<_>, _>>()?)
    }

    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn initial(&self) -> Option<Value> {
        self.0.initial()
    }

    fn encode(&self, value: &Value) -> Result<Json, String> {
        self.0.encode(value)
    }

    fn decode(&self, json: &Json) -> Result<Value, String> {
        self.0.decode(json)
    }

    fn encode_write(&self, write: &Value) -> Result<Json, String> {
        self.0.encode_write(write)
    }

    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        self.0.write_value(value, out)
    }

    fn read_value(&self, json: &[u8]) -> Result<Value, String> {
        self.0.read_value(json)
    }

    fn items(&self, value: &Value) -> Option<usize> {
        self.0.items(value)
    }

    fn write_patch(&self, older: &Value, value: &Value, out: &mut Vec<u8>) -> Result<bool, String> {
        self.0.write_patch(older, value, out)
    }

    fn patched(&self, older: Value, patch: &[u8]) -> Result<Value, String> {
        self.0.patched(older, patch)
    }
}

/// Everything that was ever written to a topic; no value while that is nothing.
#[derive(Debug)]
struct Gathered;

impl Channel for Gathered {
    fn kind(&self) -> &'static str {
        "gathered"
    }

    fn initial(&self) -> Option<Value> {
        None
    }

    fn apply(&self, current: Option<Value>, writes: &[Write]) -> Result<Option<Value>, Refused> {
        let mut items = match current.and_then(Value::take::<Json>) {
            Some(Json::Array(items)) => items,
            _ => Vec::new(),
        };
        for (index, write) in writes.iter().enumerate() {
            match write {
                Write::Json(json) => match &**json {
                    Json::Array(more) => items.extend(more.iter().cloned()),
                    one => items.push(one.clone()),
                },
                Write::Overwrite(json) => return Ok(Some(Value::new((**json).clone()))),
                Write::Typed(_) => {
                    let reason = "expected JSON".to_owned();
                    return Err(Refused::Bad { index, reason });
                }
            }
        }
        Ok((!items.is_empty()).then(|| Value::new(Json::Array(items))))
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

#[cfg(test)]
mod tests {
    use super::{Check, Coercing, Larger, Merge, Sum, are_lists, folds};
    use crate::expr::message;
    use crate::message::record;
    use serde_json::{Value as Json, json};
    use weftwork_graph::channel::{Channel, Messages, Refused};
    use weftwork_graph::{List, Value, Write};
    use weftwork_types::message::Message;

    #[test]
    fn conversations_are_the_products() {
        let put = |id: &str, text: &str| record(message("ai", text.into(), id.into()));
        let apply = |current, write| Coercing(Messages).apply(current, &[Write::json(write)]);
        let all = apply(None, json!([put("a", "one"), "two"])).unwrap();
        let all = apply(all, json!([put("a", "ONE"), put("b", "three")])).unwrap().unwrap();
        assert_eq!(all.get::<List<Message>>().map(List::len), Some(3));
        let Err(Refused::Bad { reason, .. }) = apply(Some(all), json!([5])) else { panic!() };
        assert!(reason.starts_with("NotImplementedError: "), "{reason}");
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
