//! The rules that choose the next step.

use super::steps::Step;
use super::{MARK, plan, sentences};
use crate::chat::{ChatRequest, ToolChoice};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_types::message::{Message, Role, ToolResult};
use weftwork_types::tool::ToolSpec;
use weftwork_types::usage::Tokens;

/// Name of the tool that asks the user.
const ASK: &str = "ask_human";
/// Maximum number of questions about one request.
const ASKS_MAX: usize = 3;
/// Number of characters of a message that the rules read. They compare its words with those of every
/// tool.
const READ_CHARS_MAX: usize = 20_000;

/// Returns the step that answers a request.
pub(super) fn answer(request: &ChatRequest) -> Step {
    let turn = CurrentTurn::of(request);
    let calls = match request.tool_choice {
        ToolChoice::None => Vec::new(),
        _ => turn.calls(request),
    };
    let said: usize = request.messages.iter().map(|message| message.joined_text().len()).sum();
    let output = match calls.is_empty() {
        true => MARK.to_owned() + before_stop(&turn.text(&request.tools), &request.stop),
        false => String::new(),
    };
    let output_bytes = output.len() + json!(calls).to_string().len();
    let tokens = Tokens::estimated(said as u64 / 4, output_bytes as u64 / 4);
    let step = if calls.is_empty() { Step::text(output) } else { Step::calls(calls) };
    step.using(tokens)
}

/// The part of a text before the first of the texts that end it.
fn before_stop<'a>(text: &'a str, stop: &[String]) -> &'a str {
    let end = stop.iter().filter_map(|stop| text.find(stop.as_str())).min();
    &text[..end.unwrap_or(text.len())]
}

/// The conversation since the user's last message.
struct CurrentTurn<'a> {
    /// The text of the user's message.
    request: String,
    results: Vec<&'a ToolResult>,
    made: Vec<(&'a str, &'a Value)>,
    /// Arguments of earlier calls, the latest for each name.
    known: BTreeMap<String, Value>,
}

impl<'a> CurrentTurn<'a> {
    fn of(request: &'a ChatRequest) -> Self {
        let messages = &request.messages;
        let start = messages.iter().rposition(|message| message.role == Role::User);
        let (before, since) = messages.split_at(start.map_or(messages.len(), |at| at + 1));
        let known = before.iter().flat_map(Message::tool_calls);
        let known = known.filter_map(|call| call.args.as_object()).flatten();
        let said = before.last().map(Message::joined_text).unwrap_or_default();
        Self {
            request: said.chars().take(READ_CHARS_MAX).collect(),
            results: since.iter().flat_map(Message::tool_results).collect(),
            made: since
                .iter()
                .flat_map(Message::tool_calls)
                .map(|call| (call.name.as_str(), &call.args))
                .collect(),
            known: known.map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }

    /// The requested calls that were not made yet.
    fn calls(&self, request: &ChatRequest) -> Vec<(String, Value)> {
        let ask = request.tools.iter().find(|tool| tool.name == ASK);
        let tools: Vec<ToolSpec> = match &request.tool_choice {
            ToolChoice::Named(name) => {
                request.tools.iter().filter(|tool| tool.wire_name() == *name).cloned().collect()
            }
            _ => request.tools.clone(),
        };
        let answers: Vec<String> =
            self.results_of(ASK).map(|result| words(&result.value)).collect();
        let mut wishes = plan::wishes(&tools, &self.request, &answers, self.known.clone());
        let must = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        if must && wishes.is_empty() {
            wishes.extend(plan::forced(&tools, &self.request, &self.known));
        }
        let mut calls: Vec<(String, Value)> = Vec::new();
        for wish in wishes {
            let name = wish.tool.wire_name();
            let call = match (wish.found.missing.first(), ask) {
                (None, _) => (name, Value::Object(wish.found.args)),
                (Some(missing), Some(ask)) if self.may_ask() => {
                    (ask.wire_name(), json!({ "question": question(&name, missing) }))
                }
                (Some(_), _) if must => (name, Value::Object(wish.found.args)),
                (Some(_), _) => continue,
            };
            let made = self.made.iter().any(|(name, args)| *name == call.0 && **args == call.1);
            let asks_twice = call.0 == ASK && calls.iter().any(|(name, _)| name == ASK);
            if !made && !asks_twice && !calls.contains(&call) {
                calls.push(call);
            }
        }
        if request.parallel_tool_calls == Some(false) {
            calls.truncate(1);
        }
        calls
    }

    fn may_ask(&self) -> bool {
        self.made.iter().filter(|(name, _)| *name == ASK).count() < ASKS_MAX
    }

    fn results_of(&self, name: &'static str) -> impl Iterator<Item = &&'a ToolResult> {
        self.results.iter().filter(move |result| result.name == name && !result.is_error)
    }

    /// The text of the answer.
    fn text(&self, tools: &[ToolSpec]) -> String {
        let results: Vec<&&ToolResult> =
            self.results.iter().filter(|result| result.name != ASK).collect();
        if !results.is_empty() {
            let texts = results.iter().map(|result| sentences::sentence(result));
            return texts.collect::<Vec<_>>().join(" ");
        }
        let wishes = plan::wishes(tools, &self.request, &[], self.known.clone());
        if let Some(wish) = wishes.iter().find(|wish| !wish.found.missing.is_empty()) {
            let missing = wish.found.missing.join(", ");
            return format!("To use {} I need: {missing}.", wish.tool.wire_name());
        }
        match self.results.last() {
            Some(result) => sentences::sentence(result),
            None => sentences::help(tools),
        }
    }
}

fn question(tool: &str, missing: &str) -> String {
    format!("Which {} should I use for {}?", sentences::plain(missing), sentences::plain(tool))
}

/// The text of a user's answer, which tools return as a string or as an object with one string.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(map) => map.values().map(words).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
