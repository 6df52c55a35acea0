//! Agents that are asked in the form of definitions: a request, and its answer when its run has ended.

use super::ask::{Asked, Numbered, PeerLocation};
use super::error::{FailedAttempt, PeerError, shorten};
use super::peer::{ANSWER_BYTES_MAX, Peer, PeerRequest, Reading, Repetition, Verdict};
use super::question::PeerQuestion;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::{Ctx, NodeResult, Once};
use weftwork_types::code::{Fault, FaultDetails};
use weftwork_types::message::Message;
use weftwork_types::port::Method;
use weftwork_types::task::{AgentFailure, Mode};
use weftwork_types::{BoxFuture, CallChain};

/// Most failures of other agents that are taken over from an answer.
const FAILURES_MAX: usize = 50;

/// The answer of a server. `content` and `metadata` may also stand in `payload`.
#[derive(Debug, Clone, Deserialize)]
struct TaskAnswer {
    success: bool,
    mode: String,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    metadata: Map<String, Value>,
    #[serde(default)]
    payload: Option<Inner>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Inner {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

impl TaskAnswer {
    fn content(&self) -> Value {
        let inner = self.payload.as_ref().and_then(|of| of.content.clone());
        self.content.clone().or(inner).unwrap_or_default()
    }

    fn known(&self, name: &str) -> Option<&Value> {
        let inner = self.payload.as_ref().and_then(|of| of.metadata.get(name));
        self.metadata.get(name).or(inner)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.known(name).and_then(Value::as_str)
    }

    /// Approval that the answer waits for.
    fn approval(&self) -> Option<&str> {
        let waits = matches!(self.text("status"), Some("input_required" | "paused"));
        self.text("approvalId").filter(|_| waits)
    }

    /// Call that an approval is about, as the question with its id has it.
    fn call(&self, approval: &str) -> Option<Value> {
        let questions = self.known("questions")?.as_array()?;
        let ask = &questions.iter().find(|question| question["id"] == approval)?["ask"];
        Some(json!({"tool": ask["tool"].as_str()?, "arguments": ask["args"]}))
    }
}

impl Peer {
    pub(super) async fn ask_task(
        self: &Arc<Self>,
        asked: Asked<'_>,
        location: &mut PeerLocation,
        ctx: &Ctx,
    ) -> NodeResult<Value> {
        let conversation = match &asked.context {
            Some(known) => known.clone(),
            None => self.new_conversation(ctx).await?,
        };
        location.set_context(conversation.clone());
        let mut body = self.first_request(&asked, &conversation);
        let mut number = 0;
        // Failure of the request with a decision.
        let mut refused = None;
        loop {
            number += 1;
            let value = self.send_task(body.clone(), number, &asked.chain, ctx).await?;
            let answer = match self.read_answer(value) {
                Ok(answer) => answer,
                Err(error) => return Err(error.fault().into()),
            };
            let conversation = answer.text("conversationId").unwrap_or(&conversation).to_owned();
            location.set_context(conversation.clone());
            location.task = answer.text("run").map(str::to_owned).or(location.task.take());
            if !answer.success {
                let failure = refused.unwrap_or_else(|| self.failure_of(&answer));
                // Somebody may have decided there: then the request without a decision gets what came of it.
                if body["payload"].as_object_mut().and_then(|of| of.remove("decision")).is_none() {
                    return Err(failure.into());
                }
                refused = Some(failure);
                continue;
            }
            location.is_late |= refused.take().is_some();
            let Some(approval) = answer.approval().map(str::to_owned) else {
                if answer.text("status").is_some_and(|status| status == "input_required") {
                    let reason = "it asks something that this form of requests cannot answer; ask the agent by A2A, or answer there";
                    return Err(self.invalid("an answer", reason).fault().into());
                }
                return Ok(answer.content());
            };
            let text = match answer.content() {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let question = PeerQuestion {
                call: answer.call(&approval),
                schema: Some(json!({"enum": ["approve", "reject"]})),
                ..PeerQuestion::of_text(text)
            };
            let name = self.transport.agent.as_deref();
            let decision = self.ask_all(&[question], name, ctx)?.pop().unwrap_or_default();
            body = json!({
                "mode": answer.mode,
                "userMessage": "",
                "conversationId": conversation,
                "payload": {
                    "orchestrationAction": "human-response",
                    "approvalId": approval,
                    "decision": decision,
                },
            });
            self.name_agent(&mut body);
        }
    }

    /// Returns the id of a new conversation at the server: random, and recorded before it is sent, so that
    /// no conversation of another store has it.
    async fn new_conversation(&self, ctx: &Ctx) -> NodeResult<String> {
        let once = Once::new(format!("external:{}/conversation", self.slug)).idempotent();
        let draw = async |_| Ok(uuid::Uuid::from_u128(ctx.clock().unique()).to_string());
        ctx.once(once, draw).await
    }

    fn first_request(&self, asked: &Asked<'_>, conversation: &str) -> Value {
        let mut payload = Map::new();
        let of = asked.payload;
        payload.extend(of.title.as_ref().map(|title| ("title".to_owned(), json!(title))));
        payload.extend(of.tool.as_ref().map(|tool| ("tool".to_owned(), json!(tool))));
        let arguments = of.arguments.as_ref();
        payload.extend(arguments.map(|of| ("arguments".to_owned(), json!(of))));
        if !of.tools.is_empty() {
            payload.insert("tools".to_owned(), json!(of.tools));
        }
        let mut body = json!({
            "mode": Mode::Build,
            "userMessage": asked.message.map(Message::joined_text).unwrap_or_default(),
            "conversationId": conversation,
            "payload": payload,
        });
        if let Some(input) = asked.input {
            body["input"] = input.clone();
        }
        self.name_agent(&mut body);
        body
    }

    fn name_agent(&self, body: &mut Value) {
        if let Some(agent) = &self.transport.agent {
            body["agent"] = json!(agent);
        }
    }

    /// Sends a request once, and returns the answer as it came.
    async fn send_task(
        &self,
        body: Value,
        number: u32,
        chain: &CallChain,
        ctx: &Ctx,
    ) -> NodeResult<Value> {
        let of = Numbered { number, content: body.clone() };
        let clock = &**ctx.clock();
        let work = |key: String| {
            let request = self.task_request(&body, key, chain);
            let sent = async move {
                let answered = self.fetch(&request, clock).await?;
                // The server has the request, whatever its answer is.
                let taken = |error: PeerError| FailedAttempt::from(error).of_taken();
                let value = answered.json();
                let value = value.map_err(|reason| taken(self.invalid("an answer", reason)))?;
                self.check_answer(&value).map_err(taken)?;
                Ok(value)
            };
            Box::pin(sent) as BoxFuture<'_, _>
        };
        self.once(of, ctx, &work).await
    }

    fn task_request(&self, body: &Value, key: String, chain: &CallChain) -> PeerRequest {
        PeerRequest {
            method: Method::Post,
            url: self.endpoint.clone(),
            headers: vec![
                ("accept", "application/json".to_owned()),
                ("content-type", "application/json".to_owned()),
                ("idempotency-key", key),
                (CallChain::HEADER, json!(chain).to_string()),
            ],
            body: body.to_string().into(),
            reading: Reading::Whole { bytes_max: ANSWER_BYTES_MAX },
            repetition: match self.is_recognised() {
                true => Repetition::Harmless,
                false => Repetition::IfUndone,
            },
            // A run that failed has an answer, too.
            verdict: Verdict::Body,
        }
    }

    /// Reads a recorded answer. A person may have answered in place of the agent, with any value.
    fn read_answer(&self, value: Value) -> Result<TaskAnswer, PeerError> {
        if value.get("success").is_none() {
            return Ok(TaskAnswer {
                success: true,
                mode: Mode::Build.name().to_owned(),
                content: Some(value),
                metadata: Map::new(),
                payload: None,
                error: None,
            });
        }
        self.check_answer(&value)
    }

    /// Reads an answer of the server.
    fn check_answer(&self, value: &Value) -> Result<TaskAnswer, PeerError> {
        let read = TaskAnswer::deserialize(value);
        read.map_err(|error| {
            let reason = format!("expected `success`, `mode`, `content` and `metadata` ({error})");
            self.invalid("an answer", reason)
        })
    }

    /// The failure in an answer, with those of other agents that led to it.
    fn failure_of(&self, answer: &TaskAnswer) -> Fault {
        let text = match &answer.error {
            Some(Value::String(text)) => text.clone(),
            Some(other) => {
                let message = other.get("message").and_then(Value::as_str);
                message.map_or_else(|| other.to_string(), str::to_owned)
            }
            None => String::new(),
        };
        let mut fault = self.failed("failed", &text).fault();
        fault.retriable = answer.known("retriable").is_some_and(|of| *of == true);
        fault.kind = answer.text("code").map(|code| shorten(code).into());
        let failures = answer.known("failures").cloned().unwrap_or_default();
        let failures: Vec<AgentFailure> = serde_json::from_value(failures).unwrap_or_default();
        if !failures.is_empty() {
            let agent_failures = failures.into_iter().take(FAILURES_MAX).collect();
            fault.details =
                Some(Box::new(FaultDetails { agent_failures, ..FaultDetails::default() }));
        }
        fault
    }
}
