//! Calls of tools: a run that begins, or one that goes on with the answers of a client.

use crate::call_runs::{CallMetadata, CallRuns};
use crate::error::{McpError, Result};
use crate::message::Request;
use crate::peer::Peer;
use crate::question::answer_text;
use crate::result::{Shown, input_required, refusal};
use crate::resume::{Answering, Outcome, answered_before};
use crate::seal::{Of, Sealed, run_of};
use crate::source::Source;
use crate::tool::{Asked, CallParams, Tool};
use axum::http::HeaderMap;
use serde_json::{Value, json};
use uuid::Uuid;
use weftwork_server::{FaultKind, MountedClient};
use weftwork_types::code::Fault;
use weftwork_types::event::BegunCalls;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::{Says, TaskCaller, Turn, TurnRun};
use weftwork_types::run::RunOutcome;
use weftwork_types::{Principal, Right, canonical};

/// Code of a request in a conversation that waits for an answer.
const WAITING: &str = "W1038";
/// Code of a request in a conversation in which a run has not ended.
const BUSY: &str = "W0202";

/// A client that calls a tool.
#[derive(Debug, Clone)]
pub(crate) struct Calling {
    pub(crate) source: Source,
    pub(crate) client: MountedClient,
    pub(crate) peer: Peer,
    /// Id of the request.
    pub(crate) id: Value,
    pub(crate) tool: Tool,
    pub(crate) params: CallParams,
}

/// The effect of a call.
#[derive(Debug)]
pub(crate) enum Called {
    /// A call of which this many runs had ended before.
    Runs { call: CallRuns, done: usize },
    /// The result, without a further run.
    Result(Value),
}

impl Calling {
    /// Reads a call, and finds its tool.
    ///
    /// # Errors
    /// An error for parameters that do not fit, and for a tool that the client does not have.
    pub(crate) fn read(
        source: Source,
        client: MountedClient,
        peer: Peer,
        request: &Request,
    ) -> Result<Self> {
        let params = CallParams::read(&request.params)?;
        let tool = source.tool(client.principal(), &params.name)?;
        Ok(Self { source, client, peer, id: request.id.clone(), tool, params })
    }

    pub(crate) fn who(&self) -> &Principal {
        self.client.principal()
    }

    /// Begins or continues the call.
    ///
    /// # Errors
    /// An error without the right, for a state that is not that of this request, and those of the store.
    /// Nothing was begun.
    pub(crate) async fn call(&self, headers: &HeaderMap) -> Result<Called> {
        match &self.params.request_state {
            Some(state) => self.resume(state).await,
            None => self.begin(headers).await,
        }
    }

    /// Returns the caller, with the idempotency key: that of the client, or of a request of a session,
    /// whose ids are not used twice.
    fn caller(&self, headers: &HeaderMap) -> Result<TaskCaller> {
        let mut by = self.client.caller(headers)?;
        let CallParams { name, arguments, key, .. } = &self.params;
        let given = key.clone().or_else(|| by.idempotency_key.take());
        let names = match (given, &self.peer.session) {
            (Some(key), _) => json!(["mcp:key", key]),
            (None, Some(session)) => json!(["mcp:id", session, self.id, name, arguments]),
            (None, None) => return Ok(by),
        };
        let hash = canonical::hash(&json!([self.who().subject, self.tool.slug(), names]));
        by.idempotency_key = Some(format!("mcp-{hash}"));
        Ok(by)
    }

    async fn begin(&self, headers: &HeaderMap) -> Result<Called> {
        self.client.require(Right::Run)?;
        let Asked { conversation, says } = match self.tool.read_arguments(&self.params.arguments) {
            Ok(asked) => asked,
            Err(problem) => return Ok(Called::Result(refusal(&problem))),
        };
        let by = self.caller(headers)?;
        let slug = self.tool.slug();
        let earlier = self.client.admit_turn(&by, slug, conversation.as_deref()).await?;
        if let Some(earlier) = earlier.filter(|earlier| earlier.answers.is_some()) {
            // The request answered a question in the conversation before.
            let of_run = CallRuns::containing(&self.source, self.who(), &earlier.at.run).await;
            let (call, done) = of_run?;
            return Ok(Called::Runs { call, done });
        }
        // A call that is sent again has the same seal as before, because it is a part of the request.
        let seal = match &by.idempotency_key {
            Some(key) => canonical::hash(&json!(["mcp:seal", key])).to_string(),
            None => Uuid::new_v4().simple().to_string(),
        };
        let turn = Turn {
            agent: slug.to_owned(),
            mode: self.tool.mode(),
            conversation: conversation.clone(),
            says,
            after: None,
            metadata: CallMetadata { seal, answers: None }.to_map(),
        };
        match self.source.turns.platform.begin(by.clone(), turn).await {
            Ok(handle) => {
                let run = handle.run.run;
                let call = CallRuns::find(&self.source, self.who(), run.as_str()).await?;
                Ok(Called::Runs { call, done: 0 })
            }
            Err(fault) if fault.code == WAITING => {
                self.answer_in_conversation(conversation, by, fault).await
            }
            Err(fault) => refused_begin(&fault).map(Called::Result),
        }
    }

    /// Answers the only question of the conversation, if a text does, for clients that put no forms to a
    /// person. What a person has to decide, no text of a model does.
    async fn answer_in_conversation(
        &self,
        conversation: Option<String>,
        by: TaskCaller,
        waiting: Fault,
    ) -> Result<Called> {
        let message = self.params.arguments.get("message").and_then(Value::as_str);
        let refused = Ok(Called::Result(refusal(&waiting.message)));
        let (Some(conversation), Some(message)) = (conversation, message) else { return refused };
        let turns = self.source.turns.platform.turns(self.who(), &conversation).await;
        let turns = turns.map_err(|fault| McpError::of_fault(&fault))?;
        let Some(last) = turns.iter().rev().find(|turn| turn.rolled_back_at.is_none()) else {
            return refused;
        };
        let Ok((call, _)) = CallRuns::containing(&self.source, self.who(), &last.at.run).await
        else {
            return refused;
        };
        let asks = call.outcome(&self.source, self.who()).await?;
        let Some(RunOutcome::Interrupted { questions, .. }) = asks else { return refused };
        let [question] = questions.as_slice() else { return refused };
        let answer = answer_text(question, message);
        let Some(answer) = answer.filter(|_| call.first().agent == self.tool.slug()) else {
            return refused;
        };
        self.client.require(Right::Approve)?;
        let turn = Turn {
            agent: self.tool.slug().to_owned(),
            mode: None,
            conversation: Some(conversation),
            says: Says::Answers(vec![answer]),
            after: None,
            metadata: CallMetadata { seal: call.seal(), answers: None }.to_map(),
        };
        let done = call.chain.count();
        match self.source.turns.platform.begin(by, turn).await {
            Ok(_) => {
                self.source.turns.changed.notify_waiters();
                let call = call.reload(&self.source, self.who()).await?;
                Ok(Called::Runs { call, done })
            }
            Err(fault) => refused_begin(&fault).map(Called::Result),
        }
    }

    /// Continues a call whose client has the state of an earlier result.
    async fn resume(&self, state: &str) -> Result<Called> {
        let who = self.who();
        let run = run_of(state).ok_or_else(McpError::state_refused)?;
        let found = CallRuns::containing(&self.source, who, &run).await;
        let (call, place) = found.map_err(|_| McpError::state_refused())?;
        let is_own = self.sealed(&run).is_signed_by(state, &call.seal());
        if !is_own || call.first().agent != self.tool.slug() {
            return Err(McpError::state_refused());
        }
        let responses = Value::Object(self.params.responses.clone());
        let hash = canonical::hash(&json!([state, responses])).to_string();
        let done = place + 1;
        if let Some(next) = call.chain.get(done) {
            // The same request may come again. A person may also have answered elsewhere.
            let answers = CallMetadata::of(next).and_then(|of| of.answers);
            return match answers.is_none_or(|answers| answers == hash) {
                true => Ok(Called::Runs { call, done }),
                false => Err(answered_before()),
            };
        }
        let outcome = call.outcome(&self.source, who).await?;
        let questions = match outcome {
            Some(RunOutcome::Interrupted { questions, .. }) => questions,
            Some(outcome) => {
                let begun = call.begun_calls(&self.source, who).await?;
                return Ok(Called::Result(self.shown(&call).outcome(&outcome, &begun)));
            }
            None => return Ok(Called::Runs { call, done }),
        };
        let answering = Answering { source: &self.source, client: &self.client, call: &call };
        let given = answering.read_responses(&questions, &self.params.responses)?;
        // A call that was cancelled shows no log.
        let begun = match given.is_dismissed {
            true => call.begun_calls(&self.source, who).await?,
            false => BegunCalls::default(),
        };
        match answering.give(given, Some(hash)).await? {
            Outcome::Continued => {
                let call = call.reload(&self.source, who).await?;
                Ok(Called::Runs { call, done })
            }
            Outcome::Nothing => {
                Ok(Called::Result(self.ask(&call, call.last(), &asking(questions))))
            }
            Outcome::Dismissed => Ok(Called::Result(self.shown(&call).dismissed(&begun))),
        }
    }

    fn sealed<'a>(&'a self, run: &'a weftwork_types::RunId) -> Sealed<'a> {
        let CallParams { arguments, .. } = &self.params;
        let of = Of::Call { tool: self.tool.slug(), arguments };
        Sealed { who: self.who(), run, of }
    }

    pub(crate) fn shown<'a>(&'a self, call: &'a CallRuns) -> Shown<'a> {
        Shown { tool: &self.tool, call, peer: &self.peer }
    }

    /// Returns the result that asks the client: by forms, or in words.
    pub(crate) fn ask(&self, call: &CallRuns, run: &TurnRun, questions: &[Interrupt]) -> Value {
        match self.peer.elicits {
            true => {
                let state = self.sealed(&run.at.run).sign(&call.seal());
                input_required(run, questions, &state)
            }
            false => self.shown(call).asks_in_text(questions),
        }
    }
}

fn asking(questions: Vec<Interrupt>) -> Vec<Interrupt> {
    questions.into_iter().filter(Interrupt::asks).collect()
}

/// Returns the result of a call that began nothing, for the model that made it.
///
/// # Errors
/// An error for what no model can mend.
fn refused_begin(fault: &Fault) -> Result<Value> {
    match FaultKind::of(fault) {
        FaultKind::Conflict if fault.code == BUSY => {
            Ok(refusal(&format!("{}; try again once it has ended", fault.message)))
        }
        FaultKind::RunMissing | FaultKind::Invalid => Ok(refusal(&fault.message)),
        FaultKind::AgentMissing
        | FaultKind::Conflict
        | FaultKind::KeyReused
        | FaultKind::Unavailable
        | FaultKind::Internal => Err(McpError::of_fault(fault)),
    }
}
