//! Conversations: what a client says is a run on its thread, or an answer to what the thread waits
//! for.

use super::Service;
use super::cards::Cards;
use super::graphs::Hosted;
use super::runs::{merge_metadata, own_thread};
use crate::body::RunBody;
use crate::chat::Doubt;
use crate::chat::answer;
use crate::chat::request::{ChatRequest, Replaces};
use crate::chat_stream;
use crate::error::{ApiError, Result};
use crate::input::NewIds;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_runtime::unversioned;
use weftwork_store::invariants::missing;
use weftwork_store::{Base, InterruptRow, RunRow, ThreadRow, by_execution};
use weftwork_types::interrupt::Ask;
use weftwork_types::message::{Message, Part, Role};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunRef, RunStatus};
use weftwork_types::{InterruptId, MessageId, RunId, ThreadId};

/// End of the id of a user's message, after the id of its run.
pub(crate) const USER_SUFFIX: &str = "-user";

/// The runs of one assistant's message, in order, with the answers that each begins with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MessageRuns {
    pub(crate) runs: Vec<(RunRef, BTreeMap<InterruptId, Value>)>,
    /// Id under which the client shows what the last run adds, if it is not that of the first run:
    /// a message of its own if the user typed the answer.
    pub(crate) id: Option<String>,
    /// Calls of earlier runs that the message has in the client.
    pub(crate) held: BTreeSet<String>,
}

/// A user's message, and the message that answers it.
#[derive(Debug)]
pub(crate) struct StoredTurn {
    /// Texts and files of the user's message.
    pub(crate) said: Vec<Part>,
    /// Position of the thread before it; `None` before a process has executed it.
    pub(crate) base: Option<Base>,
    /// Idempotency key of the request.
    pub(crate) key: Option<String>,
    pub(crate) runs: MessageRuns,
}

/// The input of a run on behalf of a chat.
#[derive(Debug)]
enum Turn {
    Says(Vec<Part>),
    Answers {
        answers: BTreeMap<InterruptId, Value>,
        is_typed: bool,
    },
    /// Goes on with the last answer, whose run was stopped or failed.
    Continues,
}

impl Service {
    /// Begins a run for what a client says, and returns the runs of the message that answers it. A
    /// message that was sent before with the same idempotency key has its first run.
    ///
    /// # Errors
    /// Status 409 if a run of the thread has not ended, or if the thread does not wait for the
    /// answers; 422 for input that does not fit; 429 if too many runs wait, or a limit of the account
    /// or key is reached.
    pub(crate) async fn chat(
        &self,
        agent: &str,
        request: &ChatRequest,
        key: Option<&str>,
    ) -> Result<MessageRuns> {
        self.check_load()?;
        let assistant = self.chosen(agent).await?;
        let hosted = self.hosted(assistant.record.graph())?;
        let thread = match &request.thread {
            Some(id) => self.thread_id(id).await?,
            None => own_thread(key),
        };
        let row = match self.row(&thread).await {
            Ok(row) => Some(row),
            Err(error) if error.is_missing() => None,
            Err(error) => return Err(error),
        };
        let earlier = self.find_earlier(&thread, key).await?;
        let repeated = match &earlier {
            Some(earlier) => self.repeated_turn(earlier, request).await?,
            None => None,
        };
        let turn = match (repeated, &row) {
            (Some(turn), _) => turn,
            (None, Some(row)) => self.read_turn(row, request).await?,
            (None, None) => Turn::Says(required_message(request)?),
        };
        let mut options = RunBody::default().options(&assistant, self.now())?;
        options.idempotency_key = key.map(str::to_owned);
        options.multitask = Multitask::Reject;
        options.run_model = match &request.model {
            Some(id) => self.offered_model(id)?,
            None if matches!(turn, Turn::Says(_)) => None,
            // The run continues with the model of the run before it.
            None => self.last_model(&thread).await?,
        };
        self.check_images(options.run_model.as_deref(), &turn)?;
        let is_repeated = earlier.is_some();
        if let Some(earlier) = earlier {
            // Its thread has changed since, by the run itself.
            options.metadata = earlier.new.options.metadata;
            options.multitask = earlier.new.options.multitask;
            options.roll_back = earlier.new.options.roll_back;
        } else {
            if let Some(row) = row.as_ref().filter(|_| request.replaces != Replaces::Nothing) {
                self.replace_message(row, request, &mut options).await?;
            }
            let of_thread = row.map(|row| row.metadata).unwrap_or_default();
            options.metadata = merge_metadata(&assistant, of_thread, Map::new());
        }
        let (input, is_typed) = match turn {
            Turn::Says(parts) => {
                let id = NewIds::of_request(&thread, key).make();
                (input_of_message(&hosted, id, parts)?, false)
            }
            Turn::Answers { answers, is_typed } => (RunInput::answers(answers), is_typed),
            Turn::Continues => (RunInput::Continue, false),
        };
        if !is_repeated {
            self.admit_run(&input).await?;
        }
        let begun = self.begin_run(&hosted, &thread, input, options).await?;
        // The run of a repeated request is in the log already.
        let run = match is_repeated {
            true => begun.run,
            false => self.log_run(begun, self.name_of(&hosted.id)).run,
        };
        let (id, held) = match is_typed {
            true => (Some(run.run.to_string()), BTreeSet::new()),
            false => (request.message.clone(), request.held.clone()),
        };
        let runs = self.message_runs(&run).await?;
        Ok(MessageRuns { id, held, ..runs })
    }

    /// Returns the model of a run that selects one; `None` for that of the graphs. A server that
    /// offers no choice ignores it, because some front ends always send a model of their own.
    ///
    /// # Errors
    /// Status 422 for a model that is not offered.
    fn offered_model(&self, id: &str) -> Result<Option<String>> {
        if self.models().len() < 2 {
            return Ok(None);
        }
        match self.models().iter().position(|offered| offered == id) {
            Some(0) => Ok(None),
            Some(_) => Ok(Some(id.to_owned())),
            None => Err(ApiError::invalid(format!(
                "`model` is `{}`, which this server does not offer; `GET /models` lists those it offers",
                id.chars().take(100).collect::<String>()
            ))),
        }
    }

    /// Refuses images for a selected model that takes none. Graphs check the media for their own model.
    ///
    /// # Errors
    /// Status 422.
    fn check_images(&self, model: Option<&str>, turn: &Turn) -> Result<()> {
        let (Some(model), Turn::Says(parts)) = (model, turn) else { return Ok(()) };
        let is_image = |part: &Part| matches!(part, Part::Media(media) if media.media_type.starts_with("image/"));
        if self.state.settings.without_images.contains(model) && parts.iter().any(is_image) {
            return Err(ApiError::invalid(format!(
                "the model `{model}` does not take images; remove them, or select another model"
            )));
        }
        Ok(())
    }

    /// Returns the model that the last message of a thread selected.
    async fn last_model(&self, thread: &ThreadId) -> Result<Option<String>> {
        let runs = self.live_runs(thread).await?;
        Ok(runs.last().and_then(|last| last.new.options.run_model.clone()))
    }

    /// Refuses requests for runs if too many runs wait for a slot of this process.
    pub(crate) fn check_load(&self) -> Result<()> {
        if self.runtime().load().waiting >= self.waiting_max() {
            let detail = "too many runs wait for this server; try again later";
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, detail));
        }
        Ok(())
    }

    pub(super) async fn begin_run(
        &self,
        hosted: &Hosted,
        thread: &ThreadId,
        input: RunInput,
        options: RunOptions,
    ) -> Result<RunHandle> {
        self.require_for(&input)?;
        let caller = self.caller();
        let opened = self.runtime().thread_for(self.who(), &hosted.id, thread.as_str())?;
        let opened = opened.with_principal(self.who().clone());
        let run = opened.start(input).options(self.within_trace(options)).caller(caller);
        // The run continues without a follower.
        Ok(run.begin().await?.into_handle())
    }

    /// Returns the meaning of a request whose key began a run before, without the state of the thread,
    /// which has changed since: its message, or its text or its results of calls as the answers to the
    /// questions that the run answered. `None` if it has none of them.
    async fn repeated_turn(&self, earlier: &RunRow, request: &ChatRequest) -> Result<Option<Turn>> {
        if earlier.new.input == RunInput::Continue {
            return Ok(Some(Turn::Continues));
        }
        let Some(answers) = earlier.new.input.answers_by_id() else {
            return required_message(request).map(Turn::Says).map(Some);
        };
        let thread = &earlier.new.at.thread;
        let rows = self.store().interrupts(self.who(), thread).await?;
        if request.said.is_none() {
            let asked = rows.iter().filter(|row| answers.contains_key(&row.interrupt.id));
            let asked: Vec<_> = asked.map(|row| &row.interrupt).collect();
            let cards = self.read_cards(thread, &rows, request).await?;
            let answers = cards.answers(&asked, request)?;
            let is_none = answers.is_empty();
            return Ok((!is_none).then_some(Turn::Answers { answers, is_typed: false }));
        }
        let text = request.text().filter(|_| answers.len() == 1);
        let (Some(text), Some(id)) = (text, answers.keys().next()) else { return Ok(None) };
        let asked = rows.iter().find(|row| row.interrupt.id == *id);
        let asked = asked.ok_or_else(|| missing("interrupt", id))?;
        let answers = BTreeMap::from([(*id, answer::of_text(&asked.interrupt, &text)?)]);
        Ok(Some(Turn::Answers { answers, is_typed: true }))
    }

    /// Returns the meaning of a request on a thread.
    async fn read_turn(&self, row: &ThreadRow, request: &ChatRequest) -> Result<Turn> {
        let rows = self.store().interrupts(self.who(), &row.id).await?;
        let cards = self.read_cards(&row.id, &rows, request).await?;
        if row.status.is_some_and(|status| !status.is_final()) {
            // An answer that was given already says more than that its run is busy.
            return Err(cards.answered(&rows, request).unwrap_or_else(ApiError::busy));
        }
        if request.continues {
            return self.check_cut(&row.id).await.map(|()| Turn::Continues);
        }
        if request.replaces != Replaces::Nothing {
            // The questions go with the answer that is replaced.
            return Ok(Turn::Says(required_message(request)?));
        }
        let asks = |row: &&InterruptRow| row.is_open() && row.interrupt.asks();
        let open: Vec<_> = rows.iter().filter(asks).map(|row| &row.interrupt).collect();
        let answers = cards.answers(&open, request)?;
        let Some(parts) = &request.said else {
            if answers.is_empty() {
                return Err(cards.answered(&rows, request).unwrap_or_else(nothing_new));
            }
            return Ok(Turn::Answers { answers, is_typed: false });
        };
        let rest: Vec<_> = open.iter().filter(|asked| !answers.contains_key(&asked.id)).collect();
        if answers.is_empty() && !rest.is_empty() && self.is_of_older_message(row, request).await? {
            return Ok(Turn::Says(parts.clone()));
        }
        match rest.as_slice() {
            [] if answers.is_empty() => Ok(Turn::Says(parts.clone())),
            [] => Err(ApiError::invalid(
                "the body has answers to all open questions and a text; send the text after them",
            )),
            [_] if parts.iter().any(|part| matches!(part, Part::Media(_))) => {
                Err(ApiError::invalid(
                    "a question is open, and a text answers it; send the files after its answer",
                ))
            }
            [asked] => {
                let text = request.text().unwrap_or_default();
                let mut answers = answers;
                answers.insert(asked.id, answer::of_text(asked, &text)?);
                Ok(Turn::Answers { answers, is_typed: true })
            }
            several => Err(ApiError::conflict(format!(
                "{} questions are open, and a text answers one; answer each by the result of its \
                 call, or by its id",
                several.len()
            ))),
        }
    }

    /// Refuses to continue an answer that was not cut off.
    ///
    /// # Errors
    /// Status 409.
    async fn check_cut(&self, thread: &ThreadId) -> Result<()> {
        let runs = self.live_runs(thread).await?;
        match runs.last().map(|last| last.status) {
            Some(RunStatus::Cancelled | RunStatus::Failed) => Ok(()),
            _ => Err(ApiError::conflict(
                "the last answer was neither stopped nor did it fail, so there is nothing to continue; \
                 say something new",
            )),
        }
    }

    /// Returns the calls that stand for the questions of the last message of a thread. Questions that
    /// models ask are calls with ids of models, which differ in frames if several are equal.
    async fn read_cards(
        &self,
        thread: &ThreadId,
        rows: &[InterruptRow],
        request: &ChatRequest,
    ) -> Result<Cards> {
        let is_of_model =
            |row: &InterruptRow| matches!(row.interrupt.ask, Ask::Question { tool: None, .. });
        if request.results.is_empty() || !rows.iter().any(is_of_model) {
            return Ok(Cards::default());
        }
        let mut runs = self.live_runs(thread).await?;
        runs.retain(|row| row.status.is_final());
        let Some(last) = runs.last() else { return Ok(Cards::default()) };
        let message = of_rows(message_of(&runs, &last.new.at));
        chat_stream::cards(self.clone(), message).await.map(Cards::from)
    }

    /// Returns `true` if a text was typed after an older message than the last one, so that it is no
    /// answer to the questions of that one.
    async fn is_of_older_message(&self, row: &ThreadRow, request: &ChatRequest) -> Result<bool> {
        let Some(follows) = &request.follows else { return Ok(false) };
        let runs = self.live_runs(&row.id).await?;
        let Some(last) = runs.last() else { return Ok(false) };
        let is = |row: &RunRow| row.new.at.run.as_str() == follows;
        let is_last = message_of(&runs, &last.new.at).into_iter().any(is);
        Ok(!is_last && runs.iter().any(is))
    }

    /// Makes a run replace a message of a thread and all later ones.
    ///
    /// # Errors
    /// Status 409 if the messages of the thread are of no run, such as the messages of a fork, or if the
    /// thread has several messages and the request does not name the replaced one.
    async fn replace_message(
        &self,
        row: &ThreadRow,
        request: &ChatRequest,
        options: &mut RunOptions,
    ) -> Result<()> {
        let all = self.store().runs(self.who(), &row.id).await?;
        let runs: Vec<RunRow> = all.iter().filter(|row| is_live(row)).cloned().collect();
        let Some(last) = runs.last() else {
            // Nothing was said yet: the text of the request is the first one.
            return if row.head.is_none() { Ok(()) } else { Err(no_run_to_replace()) };
        };
        let last = message_of(&runs, &last.new.at).first().map(|row| row.new.at.run.clone());
        options.roll_back = match (find_replaced(&all, &runs, request), request.replaces) {
            (Some(Replaced::From(run)), _) => Some(run),
            // The text was never said.
            (Some(Replaced::Nothing), _) => return Ok(()),
            (None, Replaces::Answer) => last,
            (None, _) if runs.first().map(|row| &row.new.at.run) == last.as_ref() => last,
            (None, _) => return Err(no_place()),
        };
        options.multitask = Multitask::Rollback;
        Ok(())
    }

    /// Returns the runs of the message to which a run belongs, up to that run.
    async fn message_runs(&self, last: &RunRef) -> Result<MessageRuns> {
        let runs = self.live_runs(&last.thread).await?;
        Ok(of_rows(message_of(&runs, last)))
    }

    /// Returns the runs of a thread that were not rolled back, oldest first, without changes of the
    /// state from outside, which are no messages.
    async fn live_runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>> {
        let mut runs = by_execution(self.store().runs(self.who(), thread).await?);
        runs.retain(is_live);
        Ok(runs)
    }

    /// Returns the runs of the message that a thread is producing; `None` if nothing runs.
    pub(crate) async fn current_message(
        &self,
        agent: &str,
        thread: &str,
    ) -> Result<Option<MessageRuns>> {
        let runs = self.runs_of_agent(agent, &self.thread_id(thread).await?).await?;
        let now = self.now();
        let active = |row: &&RunRow| !row.status.is_final() && !row.waits_for_time(now);
        let last = runs.iter().find(active);
        Ok(last.map(|last| of_rows(message_of(&runs, &last.new.at))))
    }

    /// Returns a thread with its turns. The last one has no runs while its message is being produced.
    pub(crate) async fn turns(
        &self,
        agent: &str,
        thread: &str,
    ) -> Result<(ThreadRow, Vec<StoredTurn>)> {
        let thread = self.row(&self.thread_id(thread).await?).await?;
        let runs = self.runs_of_agent(agent, &thread.id).await?;
        let mut turns: Vec<Vec<&RunRow>> = Vec::new();
        for row in &runs {
            match turns.last_mut() {
                Some(of) if continues_message(row) => of.push(row),
                _ => turns.push(vec![row]),
            }
        }
        let turn = |of: Vec<&RunRow>| self.turn_of(of.iter().copied());
        Ok((thread, turns.into_iter().map(turn).collect()))
    }

    /// Returns the turns of a thread that were replaced or rolled back, oldest first, each with the
    /// run that stands in its place.
    pub(crate) async fn replaced_turns(
        &self,
        agent: &str,
        thread: &str,
    ) -> Result<Vec<(StoredTurn, RunId)>> {
        let thread = self.row(&self.thread_id(thread).await?).await?;
        let graph = self.hosted(self.chosen(agent).await?.record.graph())?.id;
        let all = by_execution(self.store().runs(self.who(), &thread.id).await?);
        let mut turns: Vec<(Vec<&RunRow>, RunId)> = Vec::new();
        for row in all.iter().filter(|row| is_of(row, &graph) && !is_update(row)) {
            let Some(by) = find_replacing(&all, row) else { continue };
            match turns.last_mut() {
                Some((of, _)) if continues_message(row) => of.push(row),
                _ => turns.push((vec![row], by)),
            }
        }
        Ok(turns.into_iter().map(|(of, by)| (self.turn_of(of.iter().copied()), by)).collect())
    }

    /// Returns the turn that some runs made. It has no runs while the last one goes on.
    fn turn_of<'a>(&self, runs: impl Iterator<Item = &'a RunRow> + Clone) -> StoredTurn {
        let first = runs.clone().next();
        let is_over = runs.clone().last().is_none_or(|last| last.status.is_final());
        StoredTurn {
            said: first.and_then(|row| self.said_in(row)).unwrap_or_default(),
            base: first.and_then(|row| row.base),
            key: first.and_then(|row| row.new.options.idempotency_key.clone()),
            runs: of_rows(runs.filter(|_| is_over).collect()),
        }
    }

    /// Returns the doubt about text of a run that another process executes, or has executed before
    /// it was killed.
    pub(crate) async fn doubt(&self, run: &RunRef) -> Result<Option<Doubt>> {
        let row = self.store().run(self.who(), run).await?;
        let is_own = row.worker.as_ref() == Some(self.runtime().worker());
        let is_first = row.worker.is_none() || is_own && row.fence <= 1;
        let doubt = Doubt::new(self.now(), is_own.then_some(row.fence));
        Ok((!is_first).then_some(doubt))
    }

    async fn runs_of_agent(&self, agent: &str, thread: &ThreadId) -> Result<Vec<RunRow>> {
        let assistant = self.chosen(agent).await?;
        let hosted = self.hosted(assistant.record.graph())?;
        let mut runs = match self.live_runs(thread).await {
            Err(error) if error.is_missing() => Vec::new(),
            runs => runs?,
        };
        runs.retain(|row| is_of(row, &hosted.id));
        Ok(runs)
    }

    /// Returns the texts and files of the user's messages with which a run begins.
    fn said_in(&self, row: &RunRow) -> Option<Vec<Part>> {
        let RunInput::Start { input } = &row.new.input else { return None };
        let hosted = self.hosted(self.name_of(&row.new.graph)).ok()?;
        let messages = input.get(messages_channel(&hosted)?)?.as_array()?;
        let mut said = Vec::new();
        for message in messages {
            let Ok(message) = serde_json::from_value::<Message>(message.clone()) else { continue };
            if message.role == Role::User {
                said.extend(message.parts);
            }
        }
        Some(said)
    }
}

/// Returns `true` for a run of a graph, in any version.
fn is_of(row: &RunRow, graph: &str) -> bool {
    unversioned(&row.new.graph) == graph
}

/// Returns the name of the channel of messages of a graph.
pub(super) fn messages_channel(hosted: &Hosted) -> Option<&str> {
    let graph = &hosted.graph;
    graph.plan().channel_names().find(|name| graph.holds_messages(name))
}

/// Returns the input of a message of the user. Ids of clients are not used: a message with the id of
/// another one would replace it.
fn input_of_message(hosted: &Hosted, id: MessageId, parts: Vec<Part>) -> Result<RunInput> {
    let channel = messages_channel(hosted).ok_or_else(|| {
        ApiError::invalid(format!(
            "graph `{}` has no channel of messages, which a chat needs; start a run of it instead",
            hosted.id
        ))
    })?;
    let input = json!({channel: [Message::new(id, Role::User, parts)]});
    Ok(RunInput::Start { input })
}

fn required_message(request: &ChatRequest) -> Result<Vec<Part>> {
    request.said.clone().ok_or_else(nothing_new)
}

fn nothing_new() -> ApiError {
    ApiError::conflict(
        "the body has nothing new: its last message is not the user's, and the thread waits for \
         none of its results",
    )
}

/// The runs that a text replaces.
enum Replaced {
    /// The run and all later ones.
    From(RunId),
    Nothing,
}

/// Returns the runs that a text replaces, by the ids of messages in a request: that of the replaced
/// message, or that of the message before it. `None` if the thread has neither.
fn find_replaced(all: &[RunRow], live: &[RunRow], request: &ChatRequest) -> Option<Replaced> {
    let find = |id: &str| {
        let of = |id: &str| all.iter().find(|row| row.new.at.run.as_str() == id);
        let mut row = of(id)?;
        // A client may have the id of a message that was replaced before.
        while let Some(by) = &row.rolled_back_by {
            row = of(by.as_str())?;
        }
        live.iter().position(|live| live.new.at == row.new.at)
    };
    let named = request.replaced.as_deref();
    let named = named.and_then(|id| find(id.strip_suffix(USER_SUFFIX).unwrap_or(id)));
    if let Some(named) = named.and_then(|named| live.get(named)) {
        let message = message_of(live, &named.new.at);
        return message.first().map(|row| Replaced::From(row.new.at.run.clone()));
    }
    let before = find(request.follows.as_deref()?)?;
    let mut after = live.iter().skip(before + 1);
    let next = after.find(|row| !continues_message(row));
    Some(next.map_or(Replaced::Nothing, |row| Replaced::From(row.new.at.run.clone())))
}

/// Returns the run that stands in the place of a run that was replaced or rolled back.
fn find_replacing(all: &[RunRow], row: &RunRow) -> Option<RunId> {
    let mut by = row.rolled_back_by.as_ref()?;
    let of = |id: &RunId| all.iter().find(|row| row.new.at.run == *id)?.rolled_back_by.as_ref();
    while let Some(next) = of(by) {
        by = next;
    }
    Some(by.clone())
}

fn no_place() -> ApiError {
    ApiError::conflict(
        "the thread does not have the message that the text replaces, nor the one before it; send the \
         conversation up to it as the server listed it, or copy the thread at the checkpoint before it",
    )
}

fn no_run_to_replace() -> ApiError {
    ApiError::conflict(
        "the last answer of the thread cannot be replaced: it came with a copy of another thread, and \
         no run of this thread made it; say something new",
    )
}

/// Returns `true` for a run that was not rolled back, and is no change of the state from outside.
fn is_live(row: &RunRow) -> bool {
    row.rolled_back_by.is_none() && !is_update(row)
}

/// Returns `true` for a change of the state from outside.
pub(super) fn is_update(row: &RunRow) -> bool {
    matches!(row.new.input, RunInput::Update { .. })
}

/// Returns `true` for a run that continues the message of the run before it.
pub(super) fn continues_message(row: &RunRow) -> bool {
    row.answers.is_some() || row.new.input == RunInput::Continue
}

/// Returns the runs of the message to which a run belongs, up to that run.
fn message_of<'a>(runs: &'a [RunRow], last: &RunRef) -> Vec<&'a RunRow> {
    let end = runs.iter().position(|row| row.new.at == *last).map_or(0, |at| at + 1);
    let mut of: Vec<_> = Vec::new();
    for row in runs[..end].iter().rev() {
        of.push(row);
        if !continues_message(row) {
            break;
        }
    }
    of.reverse();
    of
}

fn of_rows(rows: Vec<&RunRow>) -> MessageRuns {
    let runs = rows.into_iter().map(|row| {
        let answers = row.new.input.answers_by_id().cloned().unwrap_or_default();
        (row.new.at.clone(), answers)
    });
    MessageRuns { runs: runs.collect(), id: None, held: BTreeSet::new() }
}
