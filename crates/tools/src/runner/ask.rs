//! Calls in which the tool asks a person.

use super::ToolRunner;
use super::announce::Announced;
use super::execute::{Executed, RunCall};
use super::spans::record_call_end;
use crate::Replies;
use crate::check::bytes_over;
use crate::error::{RunToolError, code, cut};
use serde_json::{Value, json};
use tracing::Instrument as _;
use weftwork_schema::{Checker, Quotes};
use weftwork_types::Timestamp;
use weftwork_types::canonical::can_be_read_back;
use weftwork_types::interrupt::Ask;
use weftwork_types::port::CallKey;
use weftwork_types::tool::{
    Questions, Reply, ToolErrorKind, ToolFailure, ToolOutcome, ToolQuestion, ToolRecord,
};

/// Maximum number of rounds of questions in a call.
pub const ROUNDS_MAX: usize = 8;
/// Maximum number of questions in a round.
pub const QUESTIONS_MAX: usize = 8;
/// Maximum size of a question with its schema and default, in bytes of JSON.
pub const QUESTION_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of the state that a tool returns with its questions, in bytes of JSON.
pub const STATE_BYTES_MAX: usize = 64 * 1024;

/// Maximum length in characters of a problem in a message.
const PROBLEM_CHARS_MAX: usize = 240;

/// The rounds of questions of a call before the present one.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Replies of each round. They are part of the input of the next one.
    replies: Vec<Vec<Reply>>,
    /// Key of the first round, which identifies the call; `None` in the first round.
    first: Option<CallKey>,
    /// State that the tool returned with the last questions.
    state: Value,
    /// `true` if the tool declared that it has taken an effect.
    acted: bool,
}

impl Rounds {
    pub(super) fn is_first(&self) -> bool {
        self.replies.is_empty()
    }

    pub(super) fn have_acted(&self) -> bool {
        self.acted
    }

    /// The key that identifies the call, given that of the present round.
    pub(super) fn call_key(&self, round: CallKey) -> CallKey {
        self.first.unwrap_or(round)
    }

    /// The input of the present round.
    pub(super) fn input(&self, args: &Value) -> Option<Value> {
        (!self.is_first()).then(|| json!({"args": args, "replies": self.replies}))
    }

    /// Replies of the last round for the tool, with its state.
    pub(super) fn for_tool(&self) -> Option<Replies> {
        let replies = self.replies.last()?.clone();
        let round = u32::try_from(self.replies.len()).unwrap_or(u32::MAX);
        Some(Replies { round, state: self.state.clone(), replies })
    }
}

/// A call whose tool asks a person. Its questions are recorded, and the tool is not running.
#[derive(Debug)]
#[must_use = "put the questions to a person, then `ToolRunner::reply`"]
pub struct AskingCall {
    call: Box<RunCall>,
    round: CallKey,
    asked: Questions,
    is_recorded: bool,
}

impl AskingCall {
    /// Returns `true` if the round comes from the journal: the tool was not called for it now.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// The questions; none if the tool waits for answers to questions that were asked elsewhere
    /// ([`ToolOutput::Waits`](crate::ToolOutput::Waits)).
    #[must_use]
    pub fn questions(&self) -> &[ToolQuestion] {
        &self.asked.questions
    }

    /// A question for the interrupt.
    #[must_use]
    pub fn ask(&self, question: &ToolQuestion) -> Ask {
        Ask::Question {
            question: question.question.clone(),
            tool_call_id: self.call.head.tool_call_id.clone(),
            tool: Some(self.call.name().to_owned()),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.call.name()
    }

    /// Returns `true` if the tool declared that it has taken an effect.
    pub(super) fn has_acted(&self) -> bool {
        self.call.rounds.acted || self.asked.acted
    }

    /// The next round of the call.
    pub(super) fn replied(self, replies: impl IntoIterator<Item = Reply>) -> RunCall {
        let Self { mut call, round, asked, .. } = self;
        let mut given = replies.into_iter();
        let replies = asked.questions.iter().map(|question| {
            let reply = given.next().filter(|reply| fits(question, reply));
            reply.unwrap_or(Reply::Cancel)
        });
        let rounds = &mut call.rounds;
        rounds.first = Some(rounds.call_key(round));
        rounds.replies.push(replies.collect());
        rounds.state = asked.state;
        rounds.acted |= asked.acted;
        *call
    }

    /// JSON Schema of the answer to a question, a [`Reply`].
    #[must_use]
    pub fn answer_schema(&self, question: &ToolQuestion) -> Value {
        Reply::schema(question.schema.clone())
    }

    /// The time at which a question expires, and the answer that it takes then.
    #[must_use]
    pub fn expiry(&self, question: &ToolQuestion) -> Option<(Timestamp, Value)> {
        question.expires_at.map(|at| (at, json!(question.lapse())))
    }
}

impl ToolRunner {
    /// Goes on with a call whose tool asked, given one reply for each question. Missing replies
    /// count as cancelled, and so does content that breaks the schema of its question.
    ///
    /// The tool is called again with the same arguments, the recorded state and the replies. This
    /// round is made at most once, as [`ToolRunner::execute`] makes the first; with other replies
    /// it is another round.
    ///
    /// # Errors
    /// See [`ToolRunner::execute`].
    ///
    /// # Cancel safety
    /// See [`ToolRunner::execute`].
    pub async fn reply(
        &self,
        asking: AskingCall,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Result<Executed, RunToolError> {
        let call = asking.replied(replies);
        let span = self.call_span(&call.head);
        let ended = self.begin_round(call).instrument(span.clone()).await;
        record_call_end(&span, &ended);
        ended
    }

    async fn begin_round(&self, mut call: RunCall) -> Result<Executed, RunToolError> {
        match self.take_slot(&call).await {
            Ok(slot) => call.slot = slot,
            Err(late) => return Ok(call.done(ToolOutcome::Failed(late))),
        }
        self.begin(call).await
    }

    /// Records the questions of a round, after which the call waits.
    pub(super) async fn asked(
        &self,
        mut call: RunCall,
        round: CallKey,
        announced: Announced,
        asked: Questions,
    ) -> Result<Executed, RunToolError> {
        call.record(round, json!(ToolRecord::Asked(asked.clone()))).await?;
        announced.keep_open();
        call.slot = None;
        Ok(call.asking(round, asked, false))
    }

    /// Checks the questions of a tool, and removes secret arguments from their texts.
    pub(super) fn check_questions(
        &self,
        call: &RunCall,
        mut asked: Questions,
    ) -> Result<Questions, ToolFailure> {
        for question in &mut asked.questions {
            question.question = call.head.shape(&question.question);
        }
        let problem = problem(&asked).or_else(|| {
            let rounds = call.rounds.replies.len();
            (rounds >= ROUNDS_MAX).then(|| format!("it asked again after {rounds} rounds"))
        });
        let Some(problem) = problem else { return Ok(asked) };
        let acted = call.rounds.acted || asked.acted;
        let acted = if acted { "; it may have taken effect" } else { "" };
        Err(ToolFailure::new(
            ToolErrorKind::Execution,
            code::QUESTIONS_REFUSED,
            format!(
                "tool `{}` asked a person, which was refused: {}{acted}",
                call.name(),
                cut(&problem, PROBLEM_CHARS_MAX)
            ),
        ))
    }
}

impl RunCall {
    pub(super) fn asking(self, round: CallKey, asked: Questions, is_recorded: bool) -> Executed {
        Executed::Asks(AskingCall { call: Box::new(self), round, asked, is_recorded })
    }

    /// The call with the questions of a recorded round.
    pub(super) fn asked(self, round: CallKey, asked: Questions) -> AskingCall {
        AskingCall { call: Box::new(self), round, asked, is_recorded: true }
    }
}

fn fits(question: &ToolQuestion, reply: &Reply) -> bool {
    let Reply::Accept { content } = reply else { return true };
    // The default was checked when the question was asked.
    question.default.as_ref() == Some(content) || check(question, content).is_ok()
}

fn check(question: &ToolQuestion, content: &Value) -> Result<(), String> {
    Checker::compile(&question.schema)?.check(content, Quotes::Nothing)
}

/// Returns what is wrong with the questions of a tool.
fn problem(asked: &Questions) -> Option<String> {
    let count = asked.questions.len();
    if count == 0 || count > QUESTIONS_MAX {
        return Some(format!("expected 1 to {QUESTIONS_MAX} questions, found {count}"));
    }
    if let Some(bytes) = bytes_over(&asked.state, STATE_BYTES_MAX) {
        return Some(format!(
            "its state has {bytes} bytes of JSON; expected at most {STATE_BYTES_MAX}"
        ));
    }
    if !can_be_read_back(&asked.state) {
        return Some("its state is nested too deeply".to_owned());
    }
    asked.questions.iter().enumerate().find_map(|(at, question)| {
        problem_of(question).map(|problem| format!("question {}: {problem}", at + 1))
    })
}

fn problem_of(question: &ToolQuestion) -> Option<String> {
    if question.question.trim().is_empty() {
        return Some("it has no text".to_owned());
    }
    let whole = json!(question);
    if let Some(bytes) = bytes_over(&whole, QUESTION_BYTES_MAX) {
        return Some(format!(
            "it has {bytes} bytes of JSON; expected at most {QUESTION_BYTES_MAX}"
        ));
    }
    if !can_be_read_back(&json!([[[whole]]])) {
        return Some("its schema is nested too deeply".to_owned());
    }
    if let Err(error) = Checker::compile(&question.schema) {
        return Some(format!("its schema cannot be used: {error}"));
    }
    let default = question.default.as_ref()?;
    check(question, default)
        .err()
        .map(|problem| format!("its default breaks its schema: {problem}"))
}
