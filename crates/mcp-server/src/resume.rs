//! Answers to the questions of a call.

use crate::call_runs::{CallMetadata, CallRuns};
use crate::error::{McpError, Result};
use crate::message::Params;
use crate::question::{Response, read_response};
use crate::seal::{Of, Sealed, read_question_id, run_of};
use crate::source::Source;
use serde_json::{Value, json};
use weftwork_server::MountedClient;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::{Says, Turn};
use weftwork_types::run::{AnswerTo, RunOutcome};
use weftwork_types::{Right, canonical};

/// A client that answers the questions of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answering<'a> {
    pub(crate) source: &'a Source,
    pub(crate) client: &'a MountedClient,
    pub(crate) call: &'a CallRuns,
}

/// The responses of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    answers: Vec<AnswerTo>,
    pub(crate) is_dismissed: bool,
}

/// The effect of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answers began a run.
    Continued,
    /// No response was to an open question.
    Nothing,
    /// A question was dismissed: the call is cancelled.
    Dismissed,
}

impl Answering<'_> {
    /// Reads the responses to open questions, by the ids of these.
    ///
    /// # Errors
    /// An error for a response that is none.
    pub(crate) fn read_responses(
        &self,
        questions: &[Interrupt],
        responses: &Params,
    ) -> Result<Given> {
        let mut given = Given { answers: Vec::new(), is_dismissed: false };
        for question in questions.iter().filter(|question| question.asks()) {
            if let Some(response) = responses.get(&question.id.to_string()) {
                match read_response(question, response)? {
                    Response::Answer(answer) => given.answers.push(answer),
                    Response::Dismissed => given.is_dismissed = true,
                }
            }
        }
        Ok(given)
    }

    /// Begins the run of answers, or cancels the call if a question was dismissed. `hash` is that of
    /// responses that are known by it when they come again.
    ///
    /// # Errors
    /// An error without the right, for an answer that does not fit, and for a question that was answered
    /// before.
    pub(crate) async fn give(&self, given: Given, hash: Option<String>) -> Result<Outcome> {
        let Self { source, client, call } = *self;
        client.require(Right::Approve)?;
        if given.is_dismissed {
            call.cancel(source, client.principal()).await?;
            return Ok(Outcome::Dismissed);
        }
        if given.answers.is_empty() {
            return Ok(Outcome::Nothing);
        }
        let mut by = client.caller(&axum::http::HeaderMap::new())?;
        by.idempotency_key = hash.as_ref().map(|hash| format!("mcp-{hash}"));
        client.admit_turn(&by, &call.first().agent, Some(call.conversation())).await?;
        let metadata = CallMetadata { seal: call.seal(), answers: hash };
        let turn = Turn {
            agent: call.first().agent.clone(),
            mode: None,
            conversation: Some(call.conversation().to_owned()),
            says: Says::Answers(given.answers),
            after: None,
            metadata: metadata.to_map(),
        };
        let begun = source.turns.platform.begin(by, turn).await;
        begun.map_err(|fault| McpError::of_fault(&fault))?;
        source.turns.changed.notify_waiters();
        Ok(Outcome::Continued)
    }
}

/// The error of another answer to a question that has one.
pub(crate) fn answered_before() -> McpError {
    McpError::invalid("the question was answered before, and the first answer counts")
}

/// Takes the response of an older client to a request for input.
///
/// # Errors
/// One error for a request that this server did not make to this principal, and as
/// [`give`](Answering::give).
pub(crate) async fn take_response(
    source: &Source,
    client: &MountedClient,
    id: &str,
    response: &Value,
) -> Result<()> {
    let who = client.principal();
    let unknown = || McpError::invalid("the response is to no request of this server to you");
    let (question, sealed) = read_question_id(id).ok_or_else(unknown)?;
    let run = run_of(sealed).ok_or_else(unknown)?;
    let found = CallRuns::containing(source, who, &run).await;
    let (call, place) = found.map_err(|_| unknown())?;
    let signed = Sealed { who, run: &run, of: Of::Question(question) };
    if !signed.is_signed_by(sealed, &call.seal()) {
        return Err(unknown());
    }
    let hash = canonical::hash(&json!([id, response])).to_string();
    if let Some(next) = call.chain.get(place + 1) {
        // The response may come again.
        let is_same = CallMetadata::of(next).is_some_and(|of| of.answers.as_ref() == Some(&hash));
        return if is_same { Ok(()) } else { Err(answered_before()) };
    }
    if call.cancelled_at().is_some() {
        return Err(answered_before());
    }
    let Some(RunOutcome::Interrupted { questions, .. }) = call.outcome(source, who).await? else {
        return Err(unknown());
    };
    let answering = Answering { source, client, call: &call };
    let responses = Params::from_iter([(question.to_string(), response.clone())]);
    let given = answering.read_responses(&questions, &responses)?;
    match answering.give(given, Some(hash)).await? {
        Outcome::Continued | Outcome::Dismissed => Ok(()),
        Outcome::Nothing => Err(unknown()),
    }
}
