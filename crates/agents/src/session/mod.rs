//! Sessions: typed state beside a conversation, as events with pure reducers.

mod error;
mod query;

pub use error::SessionError;
pub use query::Query;

use query::fold;
pub(crate) use query::fold_with;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weftwork_graph::ChannelDef;
use weftwork_graph::channel::Append;
use weftwork_types::ThreadId;
use weftwork_types::id::InvalidId;
use weftwork_types::session::{SESSION_CHANNEL, SessionEvent};

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
/// (`docs/adr/0045-sessions-are-channels.md`). This value is a copy of it in memory: evaluations
/// send it the events that the program dispatched since, and update it when they end. Events that
/// tools dispatch are applied with the results of their calls, in the order of the calls.
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
    /// Number of events that the thread has.
    stored: usize,
}

/// The state of a session at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSnapshot {
    /// Version of the format.
    v: u32,
    events: Vec<SessionEvent>,
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

    /// The session from which this one was made as a child.
    #[must_use]
    pub fn parent(&self) -> Option<&ThreadId> {
        self.parent.as_ref()
    }

    /// Dispatches an event to a slice.
    ///
    /// # Errors
    /// [`SessionError`] if the event cannot be written as JSON.
    pub fn dispatch<S: Slice>(&self, event: &S::Event) -> Result<(), SessionError> {
        let event = session_event::<S>(event)?;
        self.log().events.push(event);
        Ok(())
    }

    /// Returns the items of a slice.
    ///
    /// # Errors
    /// [`SessionError`] if a stored event is not one of the slice.
    pub fn query<S: Slice>(&self) -> Result<Query<S>, SessionError> {
        fold(&self.log().events)
    }

    /// Returns the present state.
    #[must_use]
    pub fn snapshot(&self) -> SessionSnapshot {
        SessionSnapshot { v: SNAPSHOT_VERSION, events: self.log().events.clone() }
    }

    /// Replaces the state by that of a snapshot, also one of another session. The replacement is an
    /// event itself: it is stored with the next evaluation, and earlier checkpoints keep their state.
    ///
    /// # Errors
    /// [`SessionError`] if the snapshot has an unknown version.
    pub fn restore(&self, snapshot: &SessionSnapshot) -> Result<(), SessionError> {
        if snapshot.v != SNAPSHOT_VERSION {
            return Err(SessionError::Version { found: snapshot.v, expected: SNAPSHOT_VERSION });
        }
        let event = json!(snapshot.events);
        self.log().events.push(SessionEvent { slice: RESTORED.to_owned(), event });
        Ok(())
    }

    /// Creates a session with the same state, which nothing connects to this one.
    #[must_use]
    pub fn copy(&self, id: ThreadId) -> Self {
        let log = Log { events: self.log().events.clone(), stored: 0 };
        Self { id, parent: None, log: Mutex::new(log) }
    }

    /// Creates a session with the same state that knows this one as its parent. What happens in it
    /// does not change the parent.
    #[must_use]
    pub fn child(&self, id: ThreadId) -> Self {
        Self { parent: Some(self.id.clone()), ..self.copy(id) }
    }

    /// The channel of a graph that stores sessions, for custom graphs:
    /// [`Graph::channel`](weftwork_graph::Graph::channel).
    #[must_use]
    pub fn channel() -> ChannelDef {
        channel()
    }

    /// Events that the thread does not have.
    pub(crate) fn pending(&self) -> Vec<SessionEvent> {
        let log = self.log();
        log.events.get(log.stored..).unwrap_or_default().to_vec()
    }

    /// All events.
    pub(crate) fn events(&self) -> Vec<SessionEvent> {
        self.log().events.clone()
    }

    /// Takes over the events of the thread; those that the program dispatched while it ran follow.
    /// A thread with fewer events than it was sent did not take them.
    pub(crate) fn update(&self, thread: Vec<SessionEvent>, sent: usize) {
        let mut log = self.log();
        if thread.len() < sent {
            return;
        }
        let known = sent.min(log.events.len());
        let later = log.events.split_off(known);
        log.stored = thread.len();
        log.events = thread;
        log.events.extend(later);
    }

    /// Records that the thread is gone: the next one gets all events.
    pub(crate) fn forget_thread(&self) {
        self.log().stored = 0;
    }

    pub(crate) fn with_events(id: ThreadId, events: Vec<SessionEvent>, stored: usize) -> Self {
        Self { id, parent: None, log: Mutex::new(Log { events, stored }) }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The channel that stores the events of a session.
pub(crate) fn channel() -> ChannelDef {
    ChannelDef::new(SESSION_CHANNEL, Append::<SessionEvent>::new())
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
pub(crate) fn read_events(value: &Value) -> Result<Vec<SessionEvent>, SessionError> {
    serde_json::from_value(value.clone()).map_err(|error| SessionError::Unreadable {
        slice: SESSION_CHANNEL.to_owned(),
        problem: error.to_string(),
    })
}
