//! Tasks: calls that clients follow by their ids.

use crate::call_runs::CallRuns;
use crate::error::{Kind, McpError, Result};
use crate::message::{Params, text_param};
use crate::peer::{Era, Peer, TASKS};
use crate::result::{Shown, cancelled, input_requests};
use crate::resume::{Answering, Outcome};
use crate::source::Source;
use serde_json::{Value, json};
use weftwork_server::MountedClient;
use weftwork_types::event::BegunCalls;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::RunOutcome;
use weftwork_types::{Right, Timestamp};

/// Time after which a client looks at a task again, in milliseconds.
const POLL_MS: u64 = 1_000;

/// Returns a task as both versions show it, with its state and the message of that.
fn task_of(call: &CallRuns, peer: &Peer, status: &str, message: Option<String>) -> Value {
    let mut task = json!({
        "taskId": call.id(),
        "status": status,
        "createdAt": timestamp(call.first().created_at),
        "lastUpdatedAt": timestamp(call.chain.changed_at()),
    });
    let (ttl, poll) = match peer.era {
        Era::Modern => ("ttlMs", "pollIntervalMs"),
        Era::Legacy => ("ttl", "pollInterval"),
    };
    task[ttl] = Value::Null;
    task[poll] = POLL_MS.into();
    if let Some(message) = message {
        task["statusMessage"] = message.into();
    }
    task
}

/// Returns a time in the form of the protocol.
fn timestamp(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.0).unwrap_or_default().to_string()
}

/// Returns the result that hands out a task in place of the result of a call.
pub(crate) fn created(call: &CallRuns, peer: &Peer) -> Value {
    let task = task_of(call, peer, "working", None);
    match peer.era {
        Era::Legacy => json!({"task": task}),
        Era::Modern => {
            let mut result = task;
            result["resultType"] = "task".into();
            result
        }
    }
}

/// A client that asks about tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tasks<'a> {
    pub(crate) source: &'a Source,
    pub(crate) client: &'a MountedClient,
    pub(crate) peer: &'a Peer,
}

impl Tasks<'_> {
    /// Finds the task of a request.
    ///
    /// # Errors
    /// One error for a task that does not exist, or is another principal's, and an error for a client of
    /// the newer version that has not said that it knows tasks.
    pub(crate) async fn find(&self, params: &Params) -> Result<CallRuns> {
        if self.peer.era == Era::Modern && !self.peer.takes_tasks {
            let text = format!("the client does not declare the extension `{TASKS}`");
            let needed = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
            return Err(McpError::bad_request(Kind::MissingCapability, text).with_data(needed));
        }
        let id = text_param(params, "taskId")?;
        CallRuns::find(self.source, self.client.principal(), id).await
    }

    pub(crate) async fn get(&self, params: &Params) -> Result<Value> {
        self.client.require(Right::Read)?;
        let call = self.find(params).await?;
        self.state(&call).await
    }

    async fn state(&self, call: &CallRuns) -> Result<Value> {
        let peer = self.peer;
        let who = self.client.principal();
        let task = |status: &str, message| task_of(call, peer, status, message);
        Ok(match call.outcome(self.source, who).await? {
            None => task("working", None),
            Some(RunOutcome::Interrupted { questions, .. }) => self.asking(call, questions),
            Some(RunOutcome::Cancelled { .. }) => {
                let begun = call.begun_calls(self.source, who).await?;
                task("cancelled", Some(cancelled(call, &begun)))
            }
            Some(outcome) => {
                let tool = self.source.tool(who, &call.first().agent)?;
                let result = Shown { tool: &tool, call, peer };
                let result = result.outcome(&outcome, &BegunCalls::default());
                match (peer.era, &result["isError"]) {
                    (Era::Modern, _) => {
                        let mut task = task("completed", None);
                        task["result"] = result;
                        task
                    }
                    (Era::Legacy, Value::Bool(true)) => {
                        let text = result.pointer("/content/0/text").and_then(Value::as_str);
                        task("failed", text.map(str::to_owned))
                    }
                    (Era::Legacy, _) => task("completed", None),
                }
            }
        })
    }

    fn asking(&self, call: &CallRuns, questions: Vec<Interrupt>) -> Value {
        let questions: Vec<_> = questions.into_iter().filter(Interrupt::asks).collect();
        let texts: Vec<_> = questions.iter().map(|question| question.ask.to_string()).collect();
        let message = Some(texts.join("\n\n")).filter(|text| !text.is_empty());
        let asks = !questions.is_empty() && self.peer.elicits;
        match (asks, self.peer.era) {
            // A timer asks nobody, and a client without forms is told in words.
            (false, _) => task_of(call, self.peer, "working", message),
            (true, Era::Legacy) => task_of(call, self.peer, "input_required", message),
            (true, Era::Modern) => {
                let mut task = task_of(call, self.peer, "input_required", message);
                task["inputRequests"] = input_requests(&questions).into();
                task
            }
        }
    }

    /// Answers questions of a task. Responses to other questions have no effect.
    pub(crate) async fn update(&self, params: &Params) -> Result<Value> {
        let call = self.find(params).await?;
        let Some(responses) = params.get("inputResponses").and_then(Value::as_object) else {
            return Err(McpError::invalid(
                "`params.inputResponses` is missing; expected an object",
            ));
        };
        let Self { source, client, .. } = *self;
        if let Some(RunOutcome::Interrupted { questions, .. }) =
            call.outcome(source, client.principal()).await?
        {
            let answering = Answering { source, client, call: &call };
            let given = answering.read_responses(&questions, responses)?;
            match answering.give(given, None).await? {
                Outcome::Continued | Outcome::Nothing | Outcome::Dismissed => {}
            }
        }
        Ok(json!({}))
    }

    pub(crate) async fn cancel(&self, params: &Params) -> Result<Value> {
        self.client.require(Right::Run)?;
        let call = self.find(params).await?;
        let who = self.client.principal();
        let outcome = call.outcome(self.source, who).await?;
        let has_ended =
            outcome.is_some_and(|outcome| !matches!(outcome, RunOutcome::Interrupted { .. }));
        let mut begun = BegunCalls::default();
        if !has_ended {
            if call.last().status.is_final() {
                // A call that was cancelled shows no log.
                begun = call.begun_calls(self.source, who).await?;
            }
            call.cancel(self.source, who).await?;
        }
        match self.peer.era {
            Era::Modern => Ok(json!({})),
            Era::Legacy if has_ended => {
                Err(McpError::invalid("the task has ended, and cannot be cancelled"))
            }
            Era::Legacy => {
                let call = call.reload(self.source, who).await?;
                if call.cancelled_at().is_none() {
                    begun = call.begun_calls(self.source, who).await?;
                }
                Ok(task_of(&call, self.peer, "cancelled", Some(cancelled(&call, &begun))))
            }
        }
    }
}
