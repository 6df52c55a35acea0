//! Values that streams and states have by reference.

use super::Service;
use crate::error::{ApiError, Result};
use crate::translate::time;
use serde_json::{Value, json};
use weftwork_store::artifact::{Artifact, artifact};
use weftwork_store::{StoreError, StoredEvent};
use weftwork_types::event::AiEvent;
use weftwork_types::run::RunRef;
use weftwork_types::{RunId, ThreadId, ToolCallId};

/// Number of events read at once.
const PAGE: usize = 256;

impl Service {
    /// Returns the shown form of the value of a reference: a thread and a key for a stored result, or
    /// a thread, a run and a call for arguments and a result that were cut for a stream.
    ///
    /// # Errors
    /// Status 404 if there is none, if it has expired, or if it is another principal's.
    pub(crate) async fn artifact(&self, id: &str) -> Result<Value> {
        let missing = || ApiError::missing("Artifact not found");
        let parts: Vec<_> = id.split('/').collect();
        let found = match parts.as_slice() {
            [_, _] => self.stored_artifact(id).await,
            [thread, run, call] => {
                match (ThreadId::from_key(thread), RunId::new(run), ToolCallId::from_key(call)) {
                    (Ok(thread), Ok(run), Ok(call)) => {
                        self.find_call(&RunRef { thread, run }, call.as_str()).await
                    }
                    _ => return Err(missing()),
                }
            }
            _ => return Err(missing()),
        };
        match found {
            Err(error) if error.is_missing() => Err(missing()),
            found => found,
        }
    }

    /// Returns the whole value of a stored result.
    ///
    /// # Errors
    /// Status 404 if there is none, as for the shown form; 422 for the reference of a call, of which
    /// only the shown form is stored.
    pub(crate) async fn whole_artifact(&self, id: &str) -> Result<Value> {
        if id.split('/').count() == 3 {
            return Err(ApiError::invalid(
                "a call has its shown form only; expected the reference of a stored result",
            ));
        }
        match self.read_artifact(id).await {
            Err(error) if error.is_missing() => Err(ApiError::missing("Artifact not found")),
            Err(error) => Err(error),
            Ok(found) => Ok(artifact_to_json(&found, "whole", &found.value)),
        }
    }

    async fn stored_artifact(&self, id: &str) -> Result<Value> {
        let found = self.read_artifact(id).await?;
        Ok(artifact_to_json(&found, "shown", found.shown()))
    }

    async fn read_artifact(&self, id: &str) -> Result<Artifact> {
        Ok(artifact(self.store().as_ref(), self.who(), id, self.now()).await?)
    }

    /// Returns the shown arguments and result of a call from the log of its run.
    async fn find_call(&self, at: &RunRef, call: &str) -> Result<Value> {
        let mut found = json!({"thread_id": at.thread, "run_id": at.run, "tool_call_id": call});
        let mut after = 0;
        let mut exists = false;
        loop {
            let page: Vec<StoredEvent> =
                match self.store().events(self.who(), at, after, PAGE).await {
                    Err(StoreError::Dropped { oldest, .. }) if oldest > after + 1 => {
                        after = oldest - 1;
                        continue;
                    }
                    page => page?,
                };
            let Some(last) = page.last() else { break };
            after = last.seq;
            for stored in page {
                exists |= add_call_event(&mut found, call, stored.event);
            }
        }
        if exists { Ok(found) } else { Err(ApiError::not_found()) }
    }
}

/// Returns a stored result with a form of its value.
fn artifact_to_json(found: &Artifact, form: &str, value: &Value) -> Value {
    json!({
        "id": found.id,
        "thread_id": found.thread,
        "run_id": found.run,
        "tool": found.tool,
        "bytes": found.bytes,
        "sha256": found.sha256,
        "stored_at": time::format_time(found.stored_at),
        "expires_at": time::format_time(found.expires_at),
        "form": form,
        "value": value,
    })
}

/// Adds what an event has of a call; `false` if it has nothing.
fn add_call_event(found: &mut Value, call: &str, event: AiEvent) -> bool {
    match event {
        AiEvent::ToolCallStart { tool_call_id, tool_name, args, .. }
            if tool_call_id.as_str() == call =>
        {
            found["tool"] = json!(tool_name);
            found["args"] = args;
        }
        AiEvent::ToolCallResult { tool_call_id, result, is_error, .. }
            if tool_call_id.as_str() == call =>
        {
            found["result"] = result;
            found["is_error"] = json!(is_error);
        }
        AiEvent::MessageFinal { message } => {
            let requested = message.tool_calls().find(|one| one.id.as_str() == call);
            let Some(requested) = requested.filter(|_| found.get("args").is_none()) else {
                return false;
            };
            found["tool"] = json!(requested.name);
            found["args"] = requested.args.clone();
        }
        _ => return false,
    }
    true
}
