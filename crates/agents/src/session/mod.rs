//! Sessions: typed state beside a conversation, as events with pure reducers.

mod error;
mod query;
mod save;

pub use error::SessionError;
pub use query::Query;

pub(crate) use query::fold_slices;
pub(crate) use save::{InEvaluation, Save, UnconfirmedEvents};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_graph::ChannelDef;
use weftwork_graph::channel::Append;
use weftwork_runtime::StoreCheckpointer;
use weftwork_store::CheckpointStore;
use weftwork_types::id::InvalidId;
use weftwork_types::session::{SESSION_CHANNEL, SessionEvent};
use weftwork_types::{Principal, ThreadId};

/// Slice of the events that replace the whole state.
const RESTORED: &str = "$restored";

/// A part of the state of a session: a list of items, and the events that change it.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use weftwork_agents::{Session, Slice};
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
/// struct Step {
///     text: String,
///     done: bool,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// enum Plan {
///     Add(String),
///     Finish(String),
/// }
///
/// impl Slice for Step {
///     const NAME: &'static str = "plan";
///     type Event = Plan;
///
///     fn reduce(mut steps: Vec<Self>, event: Plan) -> Vec<Self> {
///         match event {
///             Plan::Add(text) => steps.push(Self { text, done: false }),
///             Plan::Finish(text) => {
///                 steps.iter_mut().filter(|step| step.text == text).for_each(|step| step.done = true);
///             }
///         }
///         steps
///     }
/// }
///
/// let session = Session::new("s-1")?;
/// session.dispatch::<Step>(&Plan::Add("pack".to_owned()))?;
/// session.dispatch::<Step>(&Plan::Add("leave".to_owned()))?;
/// session.dispatch::<Step>(&Plan::Finish("pack".to_owned()))?;
/// let steps = session.query::<Step>()?;
/// assert_eq!(steps.latest().map(|step| step.text.as_str()), Some("leave"));
/// assert_eq!(steps.filter(|step| step.done).count(), 1);
///
/// let before = session.snapshot();
/// session.dispatch::<Step>(&Plan::Finish("leave".to_owned()))?;
/// session.restore(&before)?;
/// assert_eq!(session.query::<Step>()?.all(), steps.all());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Slice: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Name of the slice, unique in a program. It is stored.
    const NAME: &'static str;

    /// An event of the slice. It is stored as JSON.
    type Event: Serialize + DeserializeOwned;

    /// Returns the items after an event. It must be pure: the state of a session is computed from
    /// its events whenever it is read, in any process.
    #[must_use]
    fn reduce(items: Vec<Self>, event: Self::Event) -> Vec<Self>;
}

/// The state that evaluations of prompts share: slices that tools and the program change by events.
///
/// A session is stored as a channel of its thread, whose id is that of the session
/// (`docs/adr/0045-sessions-are-channels.md`). This value is a copy of it in memory: evaluations and
/// [`Evaluator::save`](crate::Evaluator::save) send it the events that the program dispatched since,
/// and update it when they end. Events that tools dispatch are applied with the results of their
/// calls, in the order of the calls.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use weftwork_agents::{Evaluator, Slice};
/// use weftwork_models::scripted::ScriptedModel;
///
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
/// struct Note(String);
///
/// impl Slice for Note {
///     const NAME: &'static str = "notes";
///     type Event = String;
///
///     fn reduce(mut notes: Vec<Self>, event: String) -> Vec<Self> {
///         notes.push(Self(event));
///         notes
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let evaluator = Evaluator::builder(ScriptedModel::rules()).open().await?;
/// let session = evaluator.new_session();
/// session.dispatch::<Note>(&"buy lamps".to_owned())?;
/// assert_eq!(session.query::<Note>()?.all(), [Note("buy lamps".to_owned())]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    id: ThreadId,
    parent: Option<ThreadId>,
    log: Mutex<Log>,
}

/// The events of a session, oldest first.
#[derive(Debug, Default)]
struct Log {
    events: Vec<SessionEvent>,
    /// Number of the first events that threads have. Without a checkpointer, each evaluation has a
    /// thread of its own.
    stored: BTreeMap<ThreadId, usize>,
    /// The save that was begun last, until its end is known.
    saving: Option<save::Saving>,
    /// Number of evaluations that were begun and have not ended.
    evaluating: usize,
    /// The events that an evaluation sent to the session's thread before it was dropped or refused.
    unconfirmed: Option<save::UnconfirmedEvents>,
}

impl Log {
    /// Takes over the events of a thread that was sent all up to a number; later ones follow.
    fn take_over(&mut self, thread: &ThreadId, events: Vec<SessionEvent>, sent: usize) {
        let known = sent.min(self.events.len());
        let later = self.events.split_off(known);
        // Other threads have no events of this one beyond those that it was sent.
        self.stored.values_mut().for_each(|stored| *stored = known.min(*stored));
        self.stored.insert(thread.clone(), events.len());
        self.events = events;
        self.events.extend(later);
    }
}

/// The state of a session at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionSnapshot {
    /// Version of the format.
    v: u32,
    events: Vec<SessionEvent>,
}

impl<'de> Deserialize<'de> for SessionSnapshot {
    /// Reads a snapshot. One of another version is read without its events, and
    /// [`Session::restore`] refuses it.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Stored {
            v: u32,
            events: Vec<SessionEvent>,
        }
        let stored = Value::deserialize(from)?;
        let version = stored["v"].as_u64().and_then(|v| u32::try_from(v).ok());
        if let Some(v) = version.filter(|v| *v != SNAPSHOT_VERSION) {
            return Ok(Self { v, events: Vec::new() });
        }
        let Stored { v, events } = Stored::deserialize(stored).map_err(D::Error::custom)?;
        Ok(Self { v, events })
    }
}

/// Version of the format of snapshots.
const SNAPSHOT_VERSION: u32 = 1;

impl Session {
    /// Creates an empty session with an id of the caller's choice. For a session whose thread may be
    /// stored already, see [`Evaluator::session`](crate::Evaluator::session).
    ///
    /// # Errors
    /// [`InvalidId`] if the text is no valid id of a thread.
    pub fn new(id: impl AsRef<str>) -> Result<Self, InvalidId> {
        Ok(Self::of(ThreadId::new(id)?))
    }

    pub(crate) fn of(id: ThreadId) -> Self {
        Self { id, parent: None, log: Mutex::default() }
    }

    /// The id, which is that of the session's thread.
    #[must_use]
    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// The session from which this one was made as a child. It is stored with the child.
    #[must_use]
    pub fn parent(&self) -> Option<&ThreadId> {
        self.parent.as_ref()
    }

    /// Dispatches an event to a slice. It is stored with the next evaluation, or with the next
    /// [`Evaluator::save`](crate::Evaluator::save).
    ///
    /// # Errors
    /// [`SessionError`] if the event cannot be written as JSON.
    pub fn dispatch<S: Slice>(&self, event: &S::Event) -> Result<(), SessionError> {
        let event = session_event::<S>(event)?;
        self.lock_log().events.push(event);
        Ok(())
    }

    /// Returns the items of a slice.
    ///
    /// # Errors
    /// [`SessionError`] if a stored event is not one of the slice.
    pub fn query<S: Slice>(&self) -> Result<Query<S>, SessionError> {
        fold_slices(&self.lock_log().events)
    }

    /// Returns the present state: the events since the last [`restore`](Self::restore), with those
    /// of the snapshot that it restored.
    #[must_use]
    pub fn snapshot(&self) -> SessionSnapshot {
        let mut events = Vec::new();
        add_effective(&mut events, &self.lock_log().events);
        SessionSnapshot { v: SNAPSHOT_VERSION, events }
    }

    /// Replaces the state by that of a snapshot, also one of another session. The replacement is an
    /// event itself: it is stored as those that are dispatched, and earlier checkpoints keep their
    /// state.
    ///
    /// # Errors
    /// [`SessionError`] if the snapshot has an unknown version.
    pub fn restore(&self, snapshot: &SessionSnapshot) -> Result<(), SessionError> {
        if snapshot.v != SNAPSHOT_VERSION {
            return Err(SessionError::Version { found: snapshot.v, expected: SNAPSHOT_VERSION });
        }
        let event = json!(snapshot.events);
        self.lock_log().events.push(SessionEvent { slice: RESTORED.to_owned(), event });
        Ok(())
    }

    /// Creates a session with the same state, which nothing connects to this one.
    #[must_use]
    pub fn copy(&self, id: ThreadId) -> Self {
        Self::with_events(id, self.lock_log().events.clone(), None)
    }

    /// Creates a session with the same state and this one as its parent. Events of the child do not
    /// change the parent. Its first save or evaluation stores it, and is refused if its thread exists;
    /// [`Evaluator::session`](crate::Evaluator::session) opens a child that is stored, and
    /// [`Evaluator::children`](crate::Evaluator::children) lists them.
    #[must_use]
    pub fn child(&self, id: ThreadId) -> Self {
        self.copy(id).with_parent(Some(self.id.clone()))
    }

    /// Returns a checkpointer for graphs that the program runs by hand: their threads belong to this
    /// session. Sessions do not share threads of equal names, and no thread is that of the session
    /// itself, which evaluations use. Two runs of a thread at the same time are not refused; see
    /// [`StoreCheckpointer`].
    ///
    /// A copy or child of the session has no threads. Deleting the thread of the session leaves them;
    /// `Checkpointer::delete` deletes one by its name.
    #[must_use]
    pub fn checkpointer(
        &self,
        store: Arc<dyn CheckpointStore>,
        who: Principal,
    ) -> Arc<StoreCheckpointer> {
        StoreCheckpointer::owned_by(self.id.clone(), store, who)
    }

    /// The channel of a graph that stores sessions, for custom graphs:
    /// [`Graph::channel`](weftwork_graph::Graph::channel).
    #[must_use]
    pub fn channel() -> ChannelDef {
        ChannelDef::new(SESSION_CHANNEL, Append::<SessionEvent>::new())
    }

    /// Returns the events that a thread does not have, and the number of all events.
    pub(crate) fn pending(&self, thread: &ThreadId) -> (Vec<SessionEvent>, usize) {
        let log = self.lock_log();
        let stored = log.stored.get(thread).copied().unwrap_or_default();
        (log.events.get(stored..).unwrap_or_default().to_vec(), log.events.len())
    }

    /// All events.
    pub(crate) fn events(&self) -> Vec<SessionEvent> {
        self.lock_log().events.clone()
    }

    /// Takes over the events of the thread; those that the program dispatched while it ran follow.
    /// A thread with fewer events than it was sent did not take them.
    pub(crate) fn update(&self, thread: &ThreadId, events: Vec<SessionEvent>, sent: usize) {
        if events.len() >= sent {
            self.lock_log().take_over(thread, events, sent);
        }
    }

    /// Adds events that are stored elsewhere.
    pub(crate) fn extend(&self, events: Vec<SessionEvent>) {
        self.lock_log().events.extend(events);
    }

    /// Records that a thread was deleted: the next one gets all events.
    pub(crate) fn forget_thread(&self, thread: &ThreadId) {
        self.lock_log().stored.remove(thread);
    }

    /// Creates a session with events, which a thread may store already.
    pub(crate) fn with_events(
        id: ThreadId,
        events: Vec<SessionEvent>,
        thread: Option<ThreadId>,
    ) -> Self {
        let stored = thread.map(|thread| (thread, events.len())).into_iter().collect();
        Self { id, parent: None, log: Mutex::new(Log { events, stored, ..Log::default() }) }
    }

    pub(crate) fn with_parent(self, parent: Option<ThreadId>) -> Self {
        Self { parent, ..self }
    }

    fn lock_log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the events that make up a state: without those before the last restored snapshot, which is
/// replaced by its own events.
fn add_effective(to: &mut Vec<SessionEvent>, events: &[SessionEvent]) {
    let restored = events.iter().rposition(|event| event.slice == RESTORED);
    let Some(at) = restored else { return to.extend_from_slice(events) };
    let (earlier, later) = events.split_at(at + 1);
    if let Some(restored) = earlier.last() {
        match Vec::<SessionEvent>::deserialize(&restored.event) {
            Ok(events) => add_effective(to, &events),
            // Queries report the problem.
            Err(_) => to.push(restored.clone()),
        }
    }
    to.extend_from_slice(later);
}

/// Returns the stored form of an event.
pub(crate) fn session_event<S: Slice>(event: &S::Event) -> Result<SessionEvent, SessionError> {
    let event = serde_json::to_value(event).map_err(|error| SessionError::Unwritable {
        slice: S::NAME.to_owned(),
        problem: error.to_string(),
    })?;
    Ok(SessionEvent { slice: S::NAME.to_owned(), event })
}

/// Reads the events of a session from the value of its channel.
pub(crate) fn read_events(value: Value) -> Result<Vec<SessionEvent>, SessionError> {
    serde_json::from_value(value).map_err(|error| SessionError::Unreadable {
        slice: SESSION_CHANNEL.to_owned(),
        problem: error.to_string(),
    })
}
