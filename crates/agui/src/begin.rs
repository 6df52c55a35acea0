//! The run of a request: a new one, or the one that the same id began.

use crate::answers;
use crate::error::{AguiError, Result};
use crate::input::{RunInput, UserMessage};
use axum::http::HeaderMap;
use serde_json::{Map, Value, json};
use weftwork_server::MountedClient;
use weftwork_types::code::Fault;
use weftwork_types::message::Message;
use weftwork_types::port::{AgentSummary, Platform, RunHandle, Says, Turn, TurnRun};
use weftwork_types::run::{RunOutcome, RunStatus};
use weftwork_types::task::Mode;
use weftwork_types::{Principal, Right, canonical};

/// Member of the metadata of runs that this protocol began.
const METADATA: &str = "agui";
/// Maximum number of messages with which a run begins.
const NEW_MESSAGES_MAX: usize = 100;
/// Code of a request in a conversation that waits for an answer.
const WAITING: &str = "W1038";

/// The run of a request.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) handle: RunHandle,
    pub(crate) turn: TurnRun,
    /// Earlier runs of the conversation, oldest first, without those that were rolled back.
    pub(crate) earlier: Vec<TurnRun>,
    /// `true` if the client may lack messages of the conversation, or have parts of others.
    pub(crate) needs_messages: bool,
}

/// A request to an agent.
#[derive(Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) client: &'a MountedClient,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) agent: &'a AgentSummary,
    pub(crate) input: &'a RunInput,
}

/// A turn that is to begin.
#[derive(Debug)]
struct NewTurn<'a> {
    mode: Option<Mode>,
    says: Says,
    /// Ids of its messages, as the client has them.
    ids: Vec<&'a str>,
}

/// The error of a turn that did not begin.
#[derive(Debug)]
enum BeginError {
    /// It was refused before.
    Refused(AguiError),
    Fault(Fault),
}

impl From<AguiError> for BeginError {
    fn from(error: AguiError) -> Self {
        Self::Refused(error)
    }
}

impl From<BeginError> for AguiError {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Refused(error) => error,
            BeginError::Fault(fault) => Self::refused(fault),
        }
    }
}

/// Returns the id that a client gave to a run.
fn run_id(turn: &TurnRun) -> Option<&str> {
    turn.metadata.get(METADATA)?.get("run")?.as_str()
}

/// Returns the run of a conversation with the id of a client.
pub(crate) fn find<'t>(turns: &'t [TurnRun], run: &str) -> Option<&'t TurnRun> {
    turns.iter().find(|turn| run_id(turn) == Some(run))
}

/// Returns the id of a message with which a run began: that of the client, or one that follows from the
/// run.
pub(crate) fn message_id(turn: &TurnRun, index: usize) -> String {
    let own = turn.metadata.get(METADATA).and_then(|own| own["messages"][index].as_str());
    own.map_or_else(|| format!("{}-{index}", turn.at.run), str::to_owned)
}

/// Returns `true` for a message with which a run began.
fn began_with(turn: &TurnRun, id: &str) -> bool {
    let own = turn.metadata.get(METADATA).and_then(|own| own["messages"].as_array());
    match own {
        Some(own) => own.iter().any(|of| of == id),
        None => id.strip_prefix(turn.at.run.as_str()).is_some_and(|rest| rest.starts_with('-')),
    }
}

impl Asking<'_> {
    fn platform(&self) -> Result<&dyn Platform> {
        Ok(self.client.platform()?)
    }

    fn who(&self) -> &Principal {
        self.client.principal()
    }

    /// Begins the run of the request, or finds the one that the same id began before.
    ///
    /// # Errors
    /// Status 403 without the right, 409 for an id that began another request and for a conversation in
    /// which a run has not ended, 429 if too many runs wait, 400 for what does not fit; an error of the
    /// stream for answers that do not fit the open interrupts.
    pub(crate) async fn begin(&self) -> Result<Begun> {
        let platform = self.platform()?;
        let turns = platform.turns(self.who(), &self.input.thread).await;
        let mut turns = turns.map_err(AguiError::refused)?;
        if let Some(turn) = find(&turns, &self.input.run).cloned() {
            turns.retain(|earlier| earlier.rolled_back_at.is_none());
            turns.truncate(turns.iter().position(|of| of.at == turn.at).unwrap_or_default());
            return self.follow(turn, turns).await;
        }
        turns.retain(|earlier| earlier.rolled_back_at.is_none());
        if self.input.resume.is_empty() && self.unknown_messages(&turns).is_empty() {
            let asks = |turn: &mut TurnRun| {
                turn.status == RunStatus::Interrupted && turn.agent == self.agent.slug
            };
            if let Some(turn) = turns.pop_if(asks) {
                self.client.require(Right::Run)?;
                return self.open(turn, turns).await;
            }
        }
        let handle = match self.input.resume.is_empty() {
            true => self.say(&turns).await?,
            false => self.answer(&turns).await?,
        };
        let turn = platform.turn(self.who(), &handle.run.run).await.map_err(AguiError::refused)?;
        let lacks = |turn: &TurnRun| turn.answers.is_none() && !self.has_messages_of(turn);
        let needs_messages = turns.iter().any(lacks);
        Ok(Begun { handle, turn, earlier: turns, needs_messages })
    }

    /// Follows the run that the same id began.
    async fn follow(&self, turn: TurnRun, earlier: Vec<TurnRun>) -> Result<Begun> {
        let own = turn.metadata.get(METADATA).cloned().unwrap_or_default();
        if turn.agent != self.agent.slug {
            return Err(AguiError::run_reused("agent"));
        }
        let last = self.input.users.last().map(|user| user.id.as_str());
        if let (Some(last), Some(began)) = (last, own["last"].as_str())
            && last != began
        {
            return Err(AguiError::run_reused("message"));
        }
        if let Some(answers) = self.input.answers_hash()
            && own["resume"] != json!(answers)
        {
            return Err(AguiError::run_reused("answer"));
        }
        self.open(turn, earlier).await
    }

    /// Follows a run from its beginning. One that waits ends with its interrupts, for a client that has
    /// none of them.
    async fn open(&self, turn: TurnRun, earlier: Vec<TurnRun>) -> Result<Begun> {
        let handle = self.platform()?.follow(self.who(), &turn.at.run).await;
        let handle = handle.map_err(|_| AguiError::run_missing())?;
        Ok(Begun { handle, turn, earlier, needs_messages: true })
    }

    /// Begins the run of the messages that are new in the conversation.
    async fn say(&self, turns: &[TurnRun]) -> Result<RunHandle> {
        self.client.require(Right::Run)?;
        let new = self.new_messages(turns).await?;
        let text = |user: &UserMessage| {
            let mut message = Message::user("");
            message.parts.clone_from(&user.parts);
            message
        };
        let messages: Vec<_> = new.iter().map(|user| text(user)).collect();
        let ids: Vec<_> = new.iter().map(|user| user.id.as_str()).collect();
        let wish = &self.input.wish;
        let input = wish.input.clone().or_else(|| self.input_in(messages.last()?));
        let says = Says::Messages { messages, input };
        match self.start(NewTurn { mode: wish.mode, says, ids }).await {
            Err(BeginError::Fault(fault)) if fault.code == WAITING => {
                Err(self.waiting(turns, &fault.message).await?)
            }
            begun => Ok(begun?),
        }
    }

    /// Returns the error of a new message in a conversation that waits, with its open interrupts.
    async fn waiting(&self, turns: &[TurnRun], message: &str) -> Result<AguiError> {
        let asked = turns.last().filter(|turn| turn.agent == self.agent.slug);
        let Some(asked) = asked else { return Ok(AguiError::resume(WAITING, message)) };
        let outcome = self.outcome_of(asked).await?;
        let asking = outcome.questions().iter().filter(|question| question.asks());
        let interrupts: Vec<_> = asking.map(|question| answers::shown(question, None)).collect();
        let message = format!(
            "{message}; its interrupts are in `rawEvent`, and a run without a new message ends with them"
        );
        Ok(AguiError::resume(WAITING, message).with_interrupts(interrupts))
    }

    /// Returns the messages of the user that the conversation does not have. The last one is said again
    /// after a run that did not answer it.
    async fn new_messages(&self, turns: &[TurnRun]) -> Result<Vec<&UserMessage>> {
        let users = &self.input.users;
        let mut new = self.unknown_messages(turns);
        if new.len() > NEW_MESSAGES_MAX {
            let found = new.len();
            return Err(AguiError::invalid(format!(
                "`messages` has {found} messages of the user that the conversation does not have; \
                 expected at most {NEW_MESSAGES_MAX}"
            )));
        }
        if !new.is_empty() {
            return Ok(new);
        }
        let last = match turns.last() {
            Some(turn) => Some(self.outcome_of(turn).await?),
            None => None,
        };
        match last {
            Some(RunOutcome::Interrupted { .. }) => Err(AguiError::resume(
                WAITING,
                "the conversation waits for an answer to another agent; a request to that one answers it",
            )),
            Some(
                RunOutcome::Failed { .. }
                | RunOutcome::Cancelled { .. }
                | RunOutcome::LimitReached { .. },
            ) if !users.is_empty() => {
                new.extend(users.last());
                Ok(new)
            }
            _ => Err(AguiError::invalid(
                "`messages` has no message of the user that the conversation does not have; add one, or \
                 send the `runId` of a run to follow it again",
            )),
        }
    }

    /// Returns the messages of the user with which no run began.
    fn unknown_messages(&self, turns: &[TurnRun]) -> Vec<&UserMessage> {
        let is_known = |user: &UserMessage| turns.iter().any(|turn| began_with(turn, &user.id));
        self.input.users.iter().filter(|user| !is_known(user)).collect()
    }

    /// Returns the outcome of a run, once it has ended.
    async fn outcome_of(&self, turn: &TurnRun) -> Result<RunOutcome> {
        let handle = self.platform()?.follow(self.who(), &turn.at.run).await;
        Ok(handle.map_err(AguiError::refused)?.outcome.await)
    }

    /// Returns the input in a text: that of an agent with a declared input may be a JSON object.
    fn input_in(&self, message: &Message) -> Option<Value> {
        self.agent.input_schema.as_ref()?;
        serde_json::from_str(&message.joined_text()).ok().filter(Value::is_object)
    }

    /// Begins the run of the answers.
    async fn answer(&self, turns: &[TurnRun]) -> Result<RunHandle> {
        self.client.require(Right::Approve)?;
        let resume = &self.input.resume;
        let asked = turns.last().filter(|turn| turn.status == RunStatus::Interrupted);
        let asked = asked.filter(|turn| turn.agent == self.agent.slug);
        let Some(asked) = asked else {
            let first = resume.first().map(|entry| entry.interrupt.as_str());
            return Err(answers::not_open(first.unwrap_or_default()));
        };
        if !self.unknown_messages(turns).is_empty() {
            return Err(AguiError::invalid(
                "`messages` has a new message of the user beside the answers in `resume`; send it after \
                 the run of the answers",
            ));
        }
        let outcome = self.outcome_of(asked).await?;
        let answers = answers::answers_to(outcome.questions(), resume)?;
        let turn = NewTurn { mode: None, says: Says::Answers(answers), ids: Vec::new() };
        match self.start(turn).await {
            Err(BeginError::Fault(fault)) => Err(AguiError::unanswered(fault)),
            begun => Ok(begun?),
        }
    }

    /// Begins the run of a turn. A request that is sent again has the run of the first one.
    async fn start(&self, turn: NewTurn<'_>) -> Result<RunHandle, BeginError> {
        let Self { client, headers, agent, input } = self;
        let mut by = client.caller(headers).map_err(AguiError::from)?;
        let names = json!(["agui:run", self.who().subject, input.thread, input.run]);
        by.idempotency_key = Some(format!("agui-{}", canonical::hash(&names)));
        let admitted = client.admit_turn(&by, &agent.slug, Some(&input.thread)).await;
        admitted.map_err(AguiError::from)?;
        let mut own = json!({"run": input.run, "messages": turn.ids});
        if let Some(last) = input.users.last() {
            own["last"] = json!(last.id);
        }
        if let Some(answers) = input.answers_hash() {
            own["resume"] = json!(answers);
        }
        let turn = Turn {
            agent: agent.slug.clone(),
            mode: turn.mode,
            conversation: Some(input.thread.clone()),
            says: turn.says,
            after: None,
            metadata: Map::from_iter([(METADATA.to_owned(), own)]),
        };
        self.platform()?.begin(by, turn).await.map_err(BeginError::Fault)
    }

    fn has_messages_of(&self, turn: &TurnRun) -> bool {
        let own = turn.metadata.get(METADATA).and_then(|own| own["messages"].as_array());
        let count = own.map_or(1, Vec::len);
        (0..count).all(|index| self.input.ids.contains(&message_id(turn, index)))
    }
}
