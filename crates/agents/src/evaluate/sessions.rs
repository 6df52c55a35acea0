//! Sessions of an evaluator: opening, saving, and the children of a session.

use super::Evaluator;
use super::record::Record;
use crate::session::{InEvaluation, Save, Session, SessionError, UnconfirmedEvents, read_events};
use serde_json::{Value, json};
use weftwork_graph::RuntimeError;
use weftwork_runtime::{RolledBack, Thread};
use weftwork_store::thread::Direction;
use weftwork_store::{
    IfExists, Metadata, RunRow, SearchFrom, StoreError, ThreadOrder, ThreadQuery, has_begun,
    invariants,
};
use weftwork_types::ThreadId;
use weftwork_types::run::{RunInput, RunOutcome, RunStatus};
use weftwork_types::session::{SESSION_CHANNEL, SessionEvent};

/// Member of the metadata of a thread with the id of the session from which its own was made as a
/// child. Clients cannot set members with such names.
const PARENT: &str = "weft:session_parent";

impl Evaluator {
    /// Creates an empty session with a new id.
    #[must_use]
    pub fn new_session(&self) -> Session {
        Session::of(self.new_id())
    }

    /// Opens a session: with the state and the parent of its thread if there is one, otherwise empty.
    ///
    /// # Errors
    /// [`RuntimeError`] if the thread cannot be read, or is not one of this evaluator.
    pub async fn session(&self, id: &ThreadId) -> Result<Session, RuntimeError> {
        let Some(metadata) = if_exists(self.thread(id)?.metadata().await)? else {
            return Ok(Session::of(id.clone()));
        };
        let parent = metadata.get(PARENT).and_then(Value::as_str);
        let parent = parent.and_then(|parent| ThreadId::new(parent).ok());
        let events = self.stored_events(id).await?.unwrap_or_default();
        Ok(Session::with_events(id.clone(), events, Some(id.clone())).with_parent(parent))
    }

    /// Stores the events of a session that its thread does not have, without an evaluation, and reads
    /// those of other processes. The thread is created if it does not exist, with the parent of the
    /// session. Without new events, nothing is written.
    ///
    /// The events are a change of the thread's state, in one commit; it has a run of its own, without
    /// a step of the graph. If an evaluation waits for an answer, or can be resumed, it stays so, and
    /// sees the events when it continues. Other processes may save the session too: the events of
    /// each are stored once, in the order of the saves.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use weftwork_agents::{Evaluator, Session, Slice};
    /// # use weftwork_models::scripted::ScriptedModel;
    /// # use weftwork_runtime::Runtime;
    /// # #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    /// # struct Note(String);
    /// # impl Slice for Note {
    /// #     const NAME: &'static str = "notes";
    /// #     type Event = String;
    /// #     fn reduce(mut notes: Vec<Self>, event: String) -> Vec<Self> {
    /// #         notes.push(Self(event));
    /// #         notes
    /// #     }
    /// # }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Evaluator::builder(ScriptedModel::rules());
    /// let evaluator = builder.runtime(Runtime::in_memory()).open().await?;
    /// let session = Session::new("customer-7")?;
    /// session.dispatch::<Note>(&"buy lamps".to_owned())?;
    /// evaluator.save(&session).await?;
    ///
    /// let child = session.child("customer-7.gift".parse()?);
    /// evaluator.save(&child).await?;
    /// let opened = evaluator.session(child.id()).await?;
    /// assert_eq!(opened.parent(), Some(session.id()));
    /// assert_eq!(opened.query::<Note>()?.all(), [Note("buy lamps".to_owned())]);
    /// assert_eq!(evaluator.children(session.id(), 100).await?, [child.id().clone()]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `Busy` while a run of the thread is active, in this process or
    /// another, and with `Conflict` if the session is a child that is not stored and a thread of its
    /// id exists; an error with the code W0619 during an evaluation with this value, without a store,
    /// or if the graph stores no sessions; errors of the runtime. The events stay in the session,
    /// and the next save or evaluation sends them.
    ///
    /// # Cancel safety
    /// The events may have been stored. The next save or evaluation finds out, and does not store
    /// them again.
    pub async fn save(&self, session: &Session) -> Result<(), RuntimeError> {
        if !self.config.durable {
            return Err(of_session(SessionError::NoStore { session: session.id().clone() }));
        }
        if !self.stores_sessions() {
            let graph = self.config.graph.to_owned();
            return Err(of_session(SessionError::NoChannel { graph }));
        }
        self.settle(session).await?;
        loop {
            let Some(save) = session.begin_save(|| self.new_id()).map_err(of_session)? else {
                return Ok(());
            };
            self.write_save(session, &save).await?;
            if !save.is_repeated {
                return Ok(());
            }
        }
    }

    async fn write_save(&self, session: &Session, save: &Save) -> Result<(), RuntimeError> {
        let thread = self.thread(session.id())?;
        if save.is_first {
            create_thread(&thread, session, save).await?;
        }
        if !save.events.is_empty() {
            let writes = json!({SESSION_CHANNEL: save.events});
            let run = thread.update_as("__beside__", writes).idempotency_key(&save.key);
            // In a task of its own: a run that is stored is executed, although its caller has left.
            let started = match tokio::spawn(run.begin()).await {
                Ok(begun) => begun?,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return Err(RuntimeError::Stopping),
            };
            let ended = started.await;
            let fault = match ended.outcome() {
                RunOutcome::Completed { .. } => None,
                RunOutcome::Failed { fault } => Some(fault.clone()),
                _ => {
                    let session = session.id().clone();
                    Some(SessionError::Cancelled { session }.fault())
                }
            };
            let store = self.runtime.store().as_ref();
            if let Some(fault) = fault
                && !has_begun(store, &self.principal, ended.run()).await?
            {
                session.fail_save(save);
                return Err(RuntimeError::Node(fault));
            }
        }
        let events = self.stored_events(session.id()).await?;
        session.end_save(save, events.unwrap_or_default());
        Ok(())
    }

    /// Brings to its end what earlier saves and evaluations have begun with a session.
    async fn settle(&self, session: &Session) -> Result<(), RuntimeError> {
        self.take_over_saves(session.id()).await?;
        self.read_unconfirmed(session).await
    }

    /// Executes the save of a process that died. That of a living process is left to it.
    async fn take_over_saves(&self, id: &ThreadId) -> Result<(), RuntimeError> {
        let threads = self.runtime.threads().with_principal(self.principal.clone());
        let row = if_exists(threads.get(id).await)?;
        if row.and_then(|row| row.status).is_none_or(RunStatus::is_final) {
            return Ok(());
        }
        let runs = self.thread(id)?.runs(RolledBack::Omitted).await?;
        let changes = |run: &&RunRow| matches!(run.new.input, RunInput::Update { .. });
        for run in runs.iter().filter(|run| run.outcome.is_none()).filter(changes) {
            match self.runtime.take_over(&self.principal, &run.new.at).await {
                Ok(handle) => {
                    drop(handle.events);
                    // The state that follows has the events.
                    let _ended = handle.outcome.await;
                }
                Err(RuntimeError::Store(StoreError::Busy { .. } | StoreError::NotFound { .. })) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finds out if the events were stored that an evaluation sent before it was dropped: the session
    /// sends them again if not.
    async fn read_unconfirmed(&self, session: &Session) -> Result<(), RuntimeError> {
        let Some(unconfirmed) = session.unconfirmed() else { return Ok(()) };
        let runs = if_exists(self.thread(session.id())?.runs(RolledBack::Omitted).await)?;
        let runs = runs.unwrap_or_default();
        if let Some(run) = runs.iter().rev().find(|run| has_sent(run, &unconfirmed)) {
            if run.outcome.is_none() {
                return Err(invariants::busy(&run.new.at).into());
            }
            if has_begun(self.runtime.store().as_ref(), &self.principal, &run.new.at).await? {
                let events = self.stored_events(session.id()).await?;
                session.update(session.id(), events.unwrap_or_default(), unconfirmed.sent);
            }
        }
        session.clear_unconfirmed();
        Ok(())
    }

    /// Begins an evaluation with a session. Before it, a child that is not stored is saved, and a save
    /// whose end is not known is brought to its end.
    pub(super) async fn begin_with<'s>(
        &self,
        session: &'s Session,
    ) -> Result<InEvaluation<'s>, RuntimeError> {
        if !self.config.durable {
            return session.begin_evaluation().ok_or_else(|| of_session(session.in_use()));
        }
        self.settle(session).await?;
        if session.parent().is_some() && !session.is_stored() && self.stores_sessions() {
            self.save(session).await?;
        }
        loop {
            match session.begin_evaluation() {
                Some(begun) => return Ok(begun),
                None => self.save(session).await?,
            }
        }
    }

    /// Returns the ids of the stored children of a session, in the order of their creation, at most
    /// `limit`. A child is stored by its first save or evaluation; one whose thread was deleted is not
    /// listed, and a fork of a thread is no child. The session itself need not be stored.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn children(
        &self,
        session: &ThreadId,
        limit: usize,
    ) -> Result<Vec<ThreadId>, RuntimeError> {
        let metadata = Metadata::from_iter([(PARENT.to_owned(), json!(session))]);
        let order = ThreadOrder { direction: Direction::Ascending, ..ThreadOrder::default() };
        let from = SearchFrom::Start(order);
        let mut query = ThreadQuery { metadata, from, limit, ..ThreadQuery::default() };
        let threads = self.runtime.threads().with_principal(self.principal.clone());
        let mut children = Vec::new();
        loop {
            let page = threads.search(query.clone()).await?;
            children.extend(page.threads.into_iter().map(|found| found.row.id));
            match page.next {
                Some(next) if children.len() < limit => query.from = SearchFrom::After(next),
                _ => break,
            }
        }
        children.truncate(limit);
        Ok(children)
    }

    /// Returns the events that a thread stores; `None` if there is no such thread, or the graph
    /// stores no sessions.
    pub(super) async fn stored_events(
        &self,
        id: &ThreadId,
    ) -> Result<Option<Vec<SessionEvent>>, RuntimeError> {
        if !self.stores_sessions() {
            return Ok(None);
        }
        let Some(mut state) = if_exists(self.thread(id)?.state().await)? else { return Ok(None) };
        let Some(events) = state.values.get_mut(SESSION_CHANNEL) else { return Ok(None) };
        read_events(events.take()).map(Some).map_err(of_session)
    }

    /// `true` if the graph stores sessions.
    pub(super) fn stores_sessions(&self) -> bool {
        let mut graphs = self.runtime.graphs();
        let graph = graphs.find(|(id, _)| *id == self.config.graph);
        graph.is_some_and(|(_, graph)| graph.plan().channel_idx(SESSION_CHANNEL).is_some())
    }
}

/// Creates the thread of a session that is saved for the first time. That of a child must be new: the
/// state of its parent would be added to another one.
async fn create_thread(
    thread: &Thread,
    session: &Session,
    save: &Save,
) -> Result<(), RuntimeError> {
    let Some(parent) = session.parent() else {
        return thread.create(Metadata::new(), IfExists::Return).await.map(drop);
    };
    let metadata = Metadata::from_iter([(PARENT.to_owned(), json!(parent))]);
    let refused = match thread.create(metadata.clone(), IfExists::Refuse).await {
        Err(RuntimeError::Store(refused @ StoreError::Conflict { .. })) => refused,
        created => return created.map(drop),
    };
    let row = thread.create(Metadata::new(), IfExists::Return).await?;
    // An earlier save may have ended after the creation.
    let is_same = row.metadata.get(PARENT) == metadata.get(PARENT);
    if is_same && (row.head.is_none() || save.is_repeated) {
        return Ok(());
    }
    session.fail_save(save);
    Err(refused.into())
}

/// Returns `true` if a run was requested with these events.
fn has_sent(run: &RunRow, unconfirmed: &UnconfirmedEvents) -> bool {
    let record = Record::of(&run.new.options).and_then(Result::ok);
    let sent = match &run.new.input {
        RunInput::Start { input } => input.get(SESSION_CHANNEL),
        RunInput::Command(command) => {
            let mut update = command.update.iter();
            update.find(|(name, _)| name == SESSION_CHANNEL).map(|(_, events)| events)
        }
        RunInput::Update { .. } | RunInput::Continue => None,
    };
    record.is_some_and(|record| record.id == unconfirmed.evaluation)
        && sent.is_some_and(|sent| *sent == json!(unconfirmed.events))
}

/// Returns `None` for a thread that does not exist.
fn if_exists<T>(read: Result<T, RuntimeError>) -> Result<Option<T>, RuntimeError> {
    match read {
        Err(RuntimeError::Store(StoreError::NotFound { .. })) => Ok(None),
        read => read.map(Some),
    }
}

fn of_session(error: SessionError) -> RuntimeError {
    RuntimeError::Node(error.fault())
}
