//! Results of calls that wait for a person, which some front ends invent and send with a new message.

use super::Service;
use crate::error::{ApiError, Result};
use crate::input::Ignored;
use serde_json::Value;
use std::collections::BTreeMap;
use weftwork_store::StoreError;
use weftwork_types::ThreadId;
use weftwork_types::interrupt::Ask;
use weftwork_types::run::RunInput;

impl Service {
    /// Removes results of calls that wait for a decision from the input of a run. The calls were not
    /// made, and the runtime itself records that when the run leaves them behind: the model must not
    /// read that they succeeded.
    ///
    /// # Errors
    /// Status 422 if nothing else is left of the input.
    pub(super) async fn drop_invented_results(
        &self,
        thread: &ThreadId,
        input: RunInput,
        ignored: &mut Ignored,
    ) -> Result<RunInput> {
        let RunInput::Start { input: Value::Object(mut members) } = input else {
            return Ok(input);
        };
        let lists = members.iter().filter(|(_, value)| has_results(value));
        let names: Vec<String> = lists.map(|(name, _)| name.clone()).collect();
        let waiting = match names.is_empty() {
            true => BTreeMap::new(),
            false => self.waiting_calls(thread).await?,
        };
        for name in names.iter().filter(|_| !waiting.is_empty()) {
            let Some(messages) = members.get_mut(name).and_then(Value::as_array_mut) else {
                continue;
            };
            let mut index = 0;
            let mut of_tool = None;
            messages.retain(|message| {
                let tool = result_of(message).and_then(|call| waiting.get(call));
                if let Some(tool) = tool {
                    ignored.add(format!("{name}[{index}]"));
                    of_tool = Some(tool);
                }
                index += 1;
                tool.is_none()
            });
            if let Some(tool) = of_tool.filter(|_| messages.is_empty()) {
                return Err(ApiError::invalid(format!(
                    "`{name}` has only a result of a call of `{tool}`, which waits for approval and \
                     was not made; decide with `command.resume`, or send a message"
                )));
            }
        }
        Ok(RunInput::Start { input: Value::Object(members) })
    }

    /// Returns the tools of the calls of a thread that wait for a person, by the ids of the calls. A
    /// question that a model asks is none of them: its result is the answer of a person.
    async fn waiting_calls(&self, thread: &ThreadId) -> Result<BTreeMap<String, String>> {
        let asked = match self.asked_on(thread).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            rows => rows?,
        };
        let calls = asked.into_iter().filter_map(|row| match row.interrupt.ask {
            Ask::Approval(request) => Some((request.tool_call_id.to_string(), request.tool)),
            Ask::Question { tool: Some(tool), tool_call_id, .. } => {
                Some((tool_call_id.to_string(), tool))
            }
            _ => None,
        });
        Ok(calls.collect())
    }
}

fn has_results(messages: &Value) -> bool {
    messages.as_array().is_some_and(|all| all.iter().any(|one| result_of(one).is_some()))
}

/// Returns the id of the call whose result a message is.
fn result_of(message: &Value) -> Option<&str> {
    let part = message.get("parts")?.as_array()?.first()?;
    let is_result = part["type"] == "tool_result";
    part["tool_call_id"].as_str().filter(|_| is_result)
}
