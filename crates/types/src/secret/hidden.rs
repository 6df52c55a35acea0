//! The texts that leave a run: errors of models, tools and nodes, without what the run hides.

use super::SECRET;
use crate::code::{Cause, Fault};
use crate::message::Message;
use crate::shown;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Text in place of a text that may repeat a value too short to be found in it.
pub const HIDDEN_TEXT: &str = "[hidden: it may repeat secret arguments or hidden results]";
/// Minimum length in bytes of a value that is searched in texts. A shorter one is a part of almost
/// every text.
pub(super) const SEARCHED_BYTES_MIN: usize = 3;
/// Maximum length in bytes of the kind of a failure.
const KIND_BYTES_MAX: usize = 128;
/// Minimum length in bytes of a line of a value that is searched on its own.
const LINE_BYTES_MIN: usize = 8;

/// The secret arguments and the hidden parts of results that a run has seen. Clones of its handle
/// are in the contexts of all calls of the run.
///
/// [`shape`](Self::shape) removes them from a text that comes from outside of this program, or from
/// code of users. It finds a value as it is, as JSON and other programs escape it, on one line, line
/// by line, and cut at the end of the text. It does not find encodings such as base64 or
/// percent-encoding.
///
/// A value of one or two bytes cannot be found. Once a run has a *secret* one, each text is replaced
/// as a whole. Once it has a short value in a *hidden result*, a text is replaced as a whole if it
/// repeats another value of the run, because then it quotes what was sent.
#[derive(Default)]
pub struct HiddenValues(Mutex<Values>);

#[derive(Default)]
struct Values {
    searched: BTreeSet<String>,
    has_short_secret: bool,
    has_short_result: bool,
}

impl fmt::Debug for HiddenValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiddenValues").field("count", &self.values().searched.len()).finish()
    }
}

impl HiddenValues {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the secret parts of arguments, given their shown form.
    pub fn add_args(&self, args: &Value, shown: &Value) {
        let mut found = Vec::new();
        collect(args, Some(shown), &mut found);
        let values = &mut *self.values();
        values.has_short_secret |= found.iter().any(|text| is_short(text));
        values.add(found);
    }

    /// Adds the hidden parts of a result, given its shown form.
    pub fn add_result(&self, result: &Value, shown: &Value) {
        let mut found = Vec::new();
        collect(result, Some(shown), &mut found);
        let values = &mut *self.values();
        values.has_short_result |= found.iter().any(|text| is_short(text));
        values.add(found);
    }

    /// Adds the secret arguments and the hidden results of a conversation.
    pub fn add_conversation<'a>(&self, messages: impl IntoIterator<Item = &'a Message>) {
        for message in messages {
            for call in message.tool_calls() {
                call.shown.iter().for_each(|shown| self.add_call(&call.args, shown));
            }
            for result in message.tool_results() {
                result.shown.iter().for_each(|shown| self.add_result(&result.value, shown));
            }
        }
    }

    /// Adds the secret arguments of a call that is on record.
    fn add_call(&self, args: &Value, shown: &Value) {
        if shown == SECRET {
            // All of them are hidden, because the tool was not known.
            self.add_result(args, shown);
        } else {
            self.add_args(args, shown);
        }
    }

    /// Adds the secret arguments and the hidden results in messages, which JSON contains at any
    /// depth.
    pub fn add_messages(&self, json: &Value) {
        match json {
            Value::Array(items) => items.iter().for_each(|item| self.add_messages(item)),
            Value::Object(members) => match (members.get("shown"), shown::form(members)) {
                (Some(shown), Some(shown::Form::Result)) => {
                    self.add_result(members.get("value").unwrap_or(&Value::Null), shown);
                }
                (Some(shown), Some(shown::Form::Call)) => {
                    self.add_call(members.get("args").unwrap_or(&Value::Null), shown);
                }
                _ => members.values().for_each(|member| self.add_messages(member)),
            },
            _ => {}
        }
    }

    /// Returns a text without the values.
    #[must_use]
    pub fn shape(&self, text: &str) -> String {
        self.values().shape(text)
    }

    /// Removes the values from a fault: from its message and from those of its causes. A kind that
    /// is no name, or that repeats a value, is left out.
    pub fn shape_fault(&self, fault: &mut Fault) {
        let values = self.values();
        fault.message = values.shape(&fault.message);
        values.check_kind(&mut fault.kind);
        let mut cause = fault.cause.as_deref_mut();
        while let Some(Cause { message, kind, cause: inner, .. }) = cause {
            *message = values.shape(message);
            values.check_kind(kind);
            cause = inner.as_deref_mut();
        }
    }
}

impl Values {
    fn add(&mut self, found: Vec<String>) {
        for text in found {
            let lines = text.lines().map(str::trim);
            let lines =
                lines.filter(|line| line.len() >= LINE_BYTES_MIN && line.len() < text.len());
            self.searched.extend(lines.map(str::to_owned));
            if !is_short(&text) {
                self.searched.insert(text);
            }
        }
    }

    fn shape(&self, text: &str) -> String {
        if self.has_short_secret && !text.is_empty() {
            return HIDDEN_TEXT.to_owned();
        }
        let mut forms: Vec<String> = self.searched.iter().flat_map(|value| forms(value)).collect();
        // A value may be a part of another one.
        forms.sort_unstable_by_key(|form| std::cmp::Reverse(form.len()));
        let mut shaped = text.to_owned();
        for form in forms.iter().filter(|form| text.contains(form.as_str())) {
            shaped = shaped.replace(form.as_str(), SECRET);
        }
        if let Some(kept) = forms.iter().filter_map(|form| before_cut(&shaped, form)).min() {
            shaped.truncate(kept);
            shaped.push_str(SECRET);
        }
        if self.has_short_result && shaped != text { HIDDEN_TEXT.to_owned() } else { shaped }
    }

    /// Leaves out a kind that is no name, or that repeats a value.
    fn check_kind(&self, kind: &mut Option<Box<str>>) {
        let repeats = |kind: &str| self.searched.iter().any(|value| kind.contains(value.as_str()));
        kind.take_if(|kind| !is_name(kind) || repeats(kind));
    }
}

/// Returns `true` for the name of a class or of a kind, in one of the usual notations.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    text.len() <= KIND_BYTES_MAX && text.bytes().all(is_part)
}

fn is_short(text: &str) -> bool {
    !text.is_empty() && text.len() < SEARCHED_BYTES_MIN
}

/// Returns the texts in which a value may appear: itself, on one line, escaped once, and escaped
/// twice, as in the JSON text of a call within a request.
fn forms(value: &str) -> BTreeSet<String> {
    let one_line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut forms = BTreeSet::from([value.to_owned(), one_line]);
    for escape in [json_escaped, ascii_escaped] {
        let once = escape(value);
        forms.insert(escape(&once));
        forms.insert(once);
    }
    forms.retain(|form| !form.is_empty() && !is_short(form));
    forms
}

/// Escapes a text as JSON.
fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes a text as JSON in ASCII, which is the default of Python.
fn ascii_escaped(text: &str) -> String {
    let mut escaped = String::new();
    for unit in json_escaped(text).encode_utf16() {
        match u8::try_from(unit).ok().filter(u8::is_ascii) {
            Some(byte) => escaped.push(char::from(byte)),
            None => escaped.push_str(&format!("\\u{unit:04x}")),
        }
    }
    escaped
}

/// Returns the position at which a form begins that the end of a text cuts.
fn before_cut(text: &str, form: &str) -> Option<usize> {
    let end = text.trim_end_matches(['…', '.', '`', '"', '\'', ')']);
    let cuts = form.char_indices().map(|(at, _)| at).filter(|at| *at >= SEARCHED_BYTES_MIN);
    let longest = cuts.rev().find(|at| end.ends_with(&form[..*at]))?;
    // A text that is not cut may end with the beginning of a value by chance.
    let is_cut = end.len() < text.len() || longest >= LINE_BYTES_MIN;
    is_cut.then(|| end.len() - longest)
}

/// Collects the texts of values that the shown form does not have.
pub(super) fn collect(value: &Value, shown: Option<&Value>, into: &mut Vec<String>) {
    match (value, shown) {
        (value, Some(same)) if value == same => {}
        (Value::Object(members), shown) => {
            let parts = shown.and_then(Value::as_object);
            for (name, member) in members {
                let part = parts.and_then(|parts| parts.get(name));
                // A shown form hides names that are not declared, as it hides their values.
                if part.is_none() && parts.is_some_and(|parts| parts.contains_key(SECRET)) {
                    into.push(name.clone());
                }
                collect(member, part, into);
            }
        }
        (Value::Array(items), shown) => {
            let shown = shown.and_then(Value::as_array);
            for (at, item) in items.iter().enumerate() {
                collect(item, shown.and_then(|shown| shown.get(at)), into);
            }
        }
        (Value::String(text), _) => into.push(text.clone()),
        (Value::Number(number), _) => into.push(number.to_string()),
        (Value::Bool(_) | Value::Null, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;
    use serde_json::json;

    fn hidden(args: &Value) -> HiddenValues {
        let hidden = HiddenValues::default();
        hidden.add_args(args, &json!(SECRET));
        hidden
    }

    #[test]
    fn a_value_is_found_in_each_form_in_which_it_may_be_echoed() {
        let secret = "Grün \"4711\"\n\\end";
        let hidden = hidden(&json!({"pin": secret}));
        let once = json!({"pin": secret}).to_string();
        let twice = json!({"arguments": once}).to_string();
        let ascii = r#"{"pin": "Gr\u00fcn \"4711\"\n\\end"}"#;
        for echo in [
            format!("bad pin {secret}!"),
            format!("bad request {once}"),
            format!("bad request {twice}"),
            format!("bad request {ascii}"),
            format!("bad request {}", json!(ascii)),
            "on one line: Grün \"4711\" \\end".to_owned(),
            "cut: Grün \"471…".to_owned(),
            "cut: {\"pin\":\"Grün \\\"47…".to_owned(),
        ] {
            let shaped = hidden.shape(&echo);
            assert!(!shaped.contains("47") && shaped.contains(SECRET), "{echo}: {shaped}");
        }
        assert_eq!(hidden.shape("the pin is wrong"), "the pin is wrong");
        assert!(!format!("{hidden:?}").contains("4711"));
    }

    #[test]
    fn a_text_that_may_repeat_a_short_value_is_hidden_as_a_whole() {
        for short in [json!("42"), json!(7), json!({"a": ["x"]})] {
            assert_eq!(hidden(&short).shape("it was refused"), HIDDEN_TEXT, "{short}");
        }
        for nothing in [json!(""), json!(null), json!({"sure": true})] {
            assert_eq!(hidden(&nothing).shape("it was refused"), "it was refused", "{nothing}");
        }
        let hidden = HiddenValues::default();
        hidden.add_result(&json!({"id": "A-1", "card": "4111", "tries": 3}), &json!({"id": "A-1"}));
        assert_eq!(hidden.shape("status 503, tried 3 times"), "status 503, tried 3 times");
        assert_eq!(hidden.shape("echo: card 4111, tries 3"), HIDDEN_TEXT);
    }

    #[test]
    fn values_are_found_in_messages_and_removed_from_causes() {
        let hidden = HiddenValues::default();
        hidden.add_messages(&json!({"messages": [{"parts": [
            {"type": "tool_call", "id": "c", "name": "pay", "args": {"pin": "4711"},
             "shown": {"pin": SECRET}},
            {"type": "tool_result", "tool_call_id": "c", "name": "pay", "is_error": false,
             "value": {"card": "4111"}, "shown": null},
        ]}]}));
        let mut fault = Fault::new(ErrorCode("W0306"), "refused: 4711");
        let kind = |text: &str| Some(text.to_owned().into_boxed_str());
        let inner =
            Cause { code: None, kind: kind("of 4111"), message: "4111".to_owned(), cause: None };
        let cause =
            Cause { message: "pin 4711".to_owned(), cause: Some(Box::new(inner.clone())), ..inner };
        fault.cause = Some(Box::new(cause));
        fault.kind = kind("Error4711");
        hidden.shape_fault(&mut fault);
        let text = json!(fault).to_string();
        assert!(!text.contains("4711") && !text.contains("4111"), "{text}");
        let mut named = Fault::new(ErrorCode("W0109"), "no").of_kind("app.errors:ValueError-2");
        let before = named.clone();
        hidden.shape_fault(&mut named);
        assert_eq!(named, before);
        hidden.add_args(&json!({"pin": 7}), &json!({"pin": SECRET}));
        hidden.shape_fault(&mut named);
        assert_eq!((named.message.as_str(), named.kind), (HIDDEN_TEXT, before.kind));
    }
}
