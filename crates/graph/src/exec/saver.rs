//! Where checkpoints are kept.

use super::event::Metadata;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_engine::pregel::{Machine, Path};
use weftwork_engine::{NodeIdx, Plan, TaskOutput};
use weftwork_store::StoreError;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::{BoxFuture, CheckpointId};

/// A thread, and the way to one of its graphs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The thread.
    pub thread: Arc<str>,
    /// The way to the graph; empty for the outermost one.
    pub ns: Arc<str>,
}

/// A checkpoint: a graph's state and what is due, with how it came about.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// Its id. Ids of one thread sort by age.
    pub id: CheckpointId,
    /// The checkpoint before it.
    pub parent: Option<CheckpointId>,
    /// How it came about.
    pub metadata: Metadata,
    /// State and what is due.
    pub machine: Machine,
}

/// A task, told apart from the others of its superstep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskKey {
    /// A task of a node.
    Node {
        /// The node.
        node: Arc<str>,
        /// How it came to run.
        path: Path,
    },
    /// A task called from the code of another.
    Call {
        /// Its name.
        name: Arc<str>,
        /// The other.
        of: Arc<TaskKey>,
        /// How many the other called before.
        index: u32,
    },
}

/// What is known of tasks: mostly of one.
pub type Records = SmallVec<[(TaskKey, TaskRecord); 1]>;

/// The answer of a saver: at once, where it need not wait.
pub enum Kept<'a> {
    /// At once.
    Now(Result<(), StoreError>),
    /// When it is done.
    Later(BoxFuture<'a, Result<(), StoreError>>),
}

impl Kept<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// What the store said.
    pub async fn done(self) -> Result<(), StoreError> {
        match self {
            Self::Now(result) => result,
            Self::Later(future) => future.await,
        }
    }
}

impl std::fmt::Debug for Kept<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(result) => f.debug_tuple("Now").field(result).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// What became of a task, as far as it is known.
///
/// Most tasks finish at their first attempt; what is known of the others lies apart and is read as
/// if it were here.
#[derive(Debug, Clone, Default)]
pub struct TaskRecord {
    /// What it left behind: when it finished, or failed after it had written.
    pub output: Option<Arc<TaskOutput>>,
    /// Whether its edges were followed: not when an error handler took over, nor when it failed
    /// before.
    pub edges: bool,
    rest: Option<Box<Rest>>,
}

/// What is known of a task that did not just finish.
#[derive(Debug, Clone)]
pub struct Rest {
    /// What it returned, for the task of a flow.
    pub returned: Option<serde_json::Value>,
    /// Why it failed.
    pub error: Option<Fault>,
    /// Whether an error handler takes over.
    pub handled: bool,
    /// What it asked last.
    pub interrupts: Vec<Interrupt>,
    /// Whether a graph within it stopped before or after a node.
    pub stopped: bool,
    /// The answers it got, in order.
    pub resume: Option<Vec<serde_json::Value>>,
}

impl Rest {
    const NOTHING: Self = Self {
        returned: None,
        error: None,
        handled: false,
        interrupts: Vec::new(),
        stopped: false,
        resume: None,
    };
}

impl Default for Rest {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl std::ops::Deref for TaskRecord {
    type Target = Rest;

    fn deref(&self) -> &Rest {
        static NOTHING: Rest = Rest::NOTHING;
        self.rest.as_deref().unwrap_or(&NOTHING)
    }
}

impl std::ops::DerefMut for TaskRecord {
    fn deref_mut(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }
}

impl From<Rest> for TaskRecord {
    fn from(rest: Rest) -> Self {
        Self { rest: Some(Box::new(rest)), ..Self::default() }
    }
}

impl TaskRecord {
    /// A task that finished.
    pub(super) fn finished(output: Arc<TaskOutput>) -> Self {
        Self { output: Some(output), edges: true, rest: None }
    }

    /// Whether the task finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.output.is_some() || self.returned.is_some()
    }

    /// Whether nothing is known.
    pub(super) fn is_blank(&self) -> bool {
        !self.is_finished() && self.error.is_none() && self.interrupts.is_empty()
    }

    /// Leaves out what is not stored. A task that left nothing else behind has not finished then.
    pub(super) fn untrack(&mut self, plan: &Plan, node: NodeIdx) {
        let Some(output) = &mut self.output else { return };
        if !output.writes.iter().any(|(index, _)| plan.is_untracked(*index)) {
            return;
        }
        Arc::make_mut(output).writes.retain(|(index, _)| !plan.is_untracked(*index));
        let edges = self.edges && plan.has_edges(node);
        if output.writes.is_empty() && output.goto.is_empty() && !edges {
            self.output = None;
        }
    }

    /// Adds what is newly known. An output that is on record stays.
    fn merge(&mut self, newer: Self) {
        if self.output.is_none() && newer.output.is_some() {
            self.output = newer.output;
            self.edges = newer.edges;
        }
        let Some(newer) = newer.rest else { return };
        let rest: &mut Rest = self;
        rest.returned = rest.returned.take().or(newer.returned);
        rest.error = newer.error.or_else(|| rest.error.take());
        rest.handled |= newer.handled;
        if !newer.interrupts.is_empty() {
            rest.interrupts = newer.interrupts;
        }
        rest.resume = newer.resume.or_else(|| rest.resume.take());
    }
}

/// Changes from outside to the superstep that starts at a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct Outside {
    /// Writes and targets, applied when the thread is loaded.
    pub output: TaskOutput,
    /// An answer that belongs to no task yet.
    pub resume: Option<serde_json::Value>,
}

/// A stored checkpoint, with what is known of the tasks that were due there.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The tasks of the superstep that starts there.
    pub tasks: Records,
    /// What came from outside.
    pub outside: Outside,
}

/// Keeps checkpoints of threads.
pub trait Saver: Send + Sync + std::fmt::Debug {
    /// The checkpoint of that id, or the newest one.
    ///
    /// # Errors
    /// What the store said. A checkpoint that cannot be read is an error, never absent.
    fn load<'a>(
        &'a self,
        at: &'a Place,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<Saved>, StoreError>>;

    /// The checkpoints before one (or all), newest first, at most `limit`.
    ///
    /// # Errors
    /// What the store said.
    fn list<'a>(
        &'a self,
        at: &'a Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Saved>, StoreError>>;

    /// Keeps a checkpoint, and what the tasks left behind that were due at its predecessor.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put<'a>(&'a self, at: &'a Place, put: Put) -> Kept<'a>;

    /// Keeps what became of tasks while their superstep is still open.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        of: CheckpointId,
        tasks: Records,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Keeps what came from outside, in place of what was kept before; an answer stays until
    /// another one comes.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put_outside<'a>(
        &'a self,
        at: &'a Place,
        of: CheckpointId,
        outside: Outside,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets a thread: all its checkpoints of all its graphs.
    ///
    /// # Errors
    /// What the store said.
    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Copies a thread with all its checkpoints under another name, replacing what is there.
    ///
    /// # Errors
    /// What the store said.
    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Forgets all checkpoints of a thread but the newest `keep` of each of its graphs.
    ///
    /// # Errors
    /// What the store said.
    fn prune<'a>(&'a self, thread: &'a str, keep: usize) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// A checkpoint to keep.
#[derive(Debug)]
pub struct Put {
    /// The checkpoint.
    pub checkpoint: Box<Checkpoint>,
    /// The checkpoint that the tasks were due at.
    pub of: CheckpointId,
    /// What became of them, as far as it was not kept before.
    pub tasks: Records,
}

/// Keeps checkpoints in memory, as they are: nothing is written as bytes.
#[derive(Debug, Default)]
pub struct MemorySaver(Mutex<Threads>);

#[derive(Debug, Default)]
struct Threads {
    places: BTreeMap<Place, usize>,
    graphs: Vec<Graph>,
    /// The place that was asked for last: a run asks for the same one again and again.
    last: Option<(Place, usize)>,
}

impl Threads {
    fn find(&mut self, at: &Place) -> Option<usize> {
        if let Some((last, index)) = &self.last
            && Arc::ptr_eq(&last.thread, &at.thread)
            && Arc::ptr_eq(&last.ns, &at.ns)
        {
            return Some(*index);
        }
        let index = *self.places.get(at)?;
        self.last = Some((at.clone(), index));
        Some(index)
    }

    fn get(&mut self, at: &Place) -> Option<&mut Graph> {
        let index = self.find(at)?;
        self.graphs.get_mut(index)
    }

    fn make(&mut self, at: &Place, graph: Graph) {
        self.last = None;
        match self.places.get(at).and_then(|index| self.graphs.get_mut(*index)) {
            Some(known) => *known = graph,
            None => {
                self.places.insert(at.clone(), self.graphs.len());
                self.graphs.push(graph);
            }
        }
    }

    /// The graphs of a thread.
    fn of<'a>(&'a self, thread: &'a str) -> impl Iterator<Item = (&'a Place, usize)> {
        let all = self.places.iter().map(|(place, index)| (place, *index));
        all.filter(move |(place, _)| &*place.thread == thread)
    }

    /// Forgets a thread. The room its checkpoints took is free; its number is not given again.
    fn delete(&mut self, thread: &str) {
        self.last = None;
        let gone: Vec<_> = self.of(thread).map(|(place, index)| (place.clone(), index)).collect();
        for (place, index) in gone {
            self.places.remove(&place);
            if let Some(graph) = self.graphs.get_mut(index) {
                *graph = Graph::default();
            }
        }
    }
}

/// The checkpoints of one graph of one thread, by age.
#[derive(Debug, Default)]
struct Graph(Vec<Entry>);

impl Graph {
    fn find(&self, id: CheckpointId) -> Result<usize, usize> {
        match self.0.last() {
            Some(last) if last.checkpoint.id < id => Err(self.0.len()),
            Some(last) if last.checkpoint.id == id => Ok(self.0.len() - 1),
            _ => self.0.binary_search_by_key(&id, |entry| entry.checkpoint.id),
        }
    }

    fn get(&self, id: CheckpointId) -> Option<&Entry> {
        self.find(id).ok().and_then(|index| self.0.get(index))
    }

    fn get_mut(&mut self, id: CheckpointId) -> Option<&mut Entry> {
        self.find(id).ok().and_then(|index| self.0.get_mut(index))
    }

    fn copied(&self) -> Self {
        let entries = self.0.iter().map(|entry| {
            let Saved { checkpoint, tasks, outside } = entry.saved();
            let (checkpoint, outside) = (Box::new(checkpoint), Some(Box::new(outside)));
            Entry { checkpoint, tasks, outside }
        });
        Self(entries.collect())
    }

    fn insert(&mut self, entry: Entry) {
        match self.find(entry.checkpoint.id) {
            Ok(index) => {
                if let Some(known) = self.0.get_mut(index) {
                    *known = entry;
                }
            }
            Err(index) => self.0.insert(index, entry),
        }
    }
}

#[derive(Debug)]
struct Entry {
    checkpoint: Box<Checkpoint>,
    tasks: Records,
    outside: Option<Box<Outside>>,
}

impl MemorySaver {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How many checkpoints there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().graphs.iter().map(|graph| graph.0.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: &Place, of: CheckpointId, tasks: Records) {
        let mut threads = self.lock();
        if let Some(entry) = threads.get(at).and_then(|graph| graph.get_mut(of)) {
            entry.add(tasks);
        }
    }
}

impl Entry {
    fn add(&mut self, tasks: Records) {
        if self.tasks.is_empty() {
            self.tasks = tasks;
            return;
        }
        for (key, record) in tasks {
            match self.tasks.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => known.merge(record),
                None => self.tasks.push((key, record)),
            }
        }
    }

    fn saved(&self) -> Saved {
        Saved {
            checkpoint: Checkpoint::clone(&self.checkpoint),
            tasks: self.tasks.clone(),
            outside: self.outside.as_deref().cloned().unwrap_or_default(),
        }
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Saver for MemorySaver {
    fn load<'a>(
        &'a self,
        at: &'a Place,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<Saved>, StoreError>> {
        let mut threads = self.lock();
        let found = threads.get(at).and_then(|graph| match id {
            Some(id) => graph.get(id),
            None => graph.0.last(),
        });
        ready(found.map(Entry::saved))
    }

    fn list<'a>(
        &'a self,
        at: &'a Place,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Saved>, StoreError>> {
        let mut threads = self.lock();
        let all = threads.get(at).into_iter().flat_map(|graph| graph.0.iter().rev());
        let older = all.filter(|e| before.is_none_or(|before| e.checkpoint.id < before));
        ready(older.take(limit).map(|entry| entry.saved()).collect())
    }

    fn put<'a>(&'a self, at: &'a Place, put: Put) -> Kept<'a> {
        let mut threads = self.lock();
        let checkpoint = put.checkpoint;
        let entry = Entry { checkpoint, tasks: Records::new(), outside: None };
        match threads.get(at) {
            Some(graph) => {
                if let Some(entry) = graph.get_mut(put.of) {
                    entry.add(put.tasks);
                }
                graph.insert(entry);
            }
            None => threads.make(at, Graph(vec![entry])),
        }
        Kept::Now(Ok(()))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        of: CheckpointId,
        tasks: Records,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.add(at, of, tasks);
        ready(())
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a Place,
        of: CheckpointId,
        outside: Outside,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut threads = self.lock();
        if let Some(entry) = threads.get(at).and_then(|graph| graph.get_mut(of)) {
            let before = entry.outside.take().and_then(|before| before.resume);
            let resume = outside.resume.or(before);
            entry.outside = Some(Box::new(Outside { resume, ..outside }));
        }
        ready(())
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.lock().delete(thread);
        ready(())
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut threads = self.lock();
        threads.delete(to);
        let thread: Arc<str> = to.into();
        let copies: Vec<_> = threads
            .of(from)
            .filter_map(|(place, index)| {
                let place = Place { thread: Arc::clone(&thread), ns: Arc::clone(&place.ns) };
                Some((place, threads.graphs.get(index)?.copied()))
            })
            .collect();
        for (place, graph) in copies {
            threads.make(&place, graph);
        }
        ready(())
    }

    fn prune<'a>(&'a self, thread: &'a str, keep: usize) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut threads = self.lock();
        let graphs: Vec<_> = threads.of(thread).map(|(_, index)| index).collect();
        for index in graphs {
            if let Some(graph) = threads.graphs.get_mut(index) {
                let older = graph.0.len().saturating_sub(keep);
                graph.0.drain(..older);
            }
        }
        ready(())
    }
}
