//! Where checkpoints are kept.

use super::event::Metadata;
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
    pub metadata: Arc<Metadata>,
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

/// What became of a task, as far as it is known.
#[derive(Debug, Clone, Default)]
pub struct TaskRecord {
    /// What it left behind: when it finished, or failed after it had written.
    pub output: Option<Arc<TaskOutput>>,
    /// Whether its edges were followed: not when an error handler took over, nor when it failed
    /// before.
    pub edges: bool,
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

impl TaskRecord {
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
        self.returned = self.returned.take().or(newer.returned);
        self.error = newer.error.or_else(|| self.error.take());
        self.handled |= newer.handled;
        if !newer.interrupts.is_empty() {
            self.interrupts = newer.interrupts;
        }
        self.resume = newer.resume.or_else(|| self.resume.take());
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
    pub tasks: Vec<(TaskKey, TaskRecord)>,
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
    fn put<'a>(&'a self, at: &'a Place, put: Put) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Keeps what became of tasks while their superstep is still open.
    ///
    /// # Errors
    /// What the store said; nothing was kept then.
    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        of: CheckpointId,
        tasks: Vec<(TaskKey, TaskRecord)>,
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
    pub tasks: Vec<(TaskKey, TaskRecord)>,
}

/// Keeps checkpoints in memory, as they are: nothing is written as bytes.
#[derive(Debug, Default)]
pub struct MemorySaver(Mutex<BTreeMap<Place, Graph>>);

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
    tasks: Vec<(TaskKey, TaskRecord)>,
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
        self.lock().values().map(|graph| graph.0.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Graph>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: &Place, of: CheckpointId, tasks: Vec<(TaskKey, TaskRecord)>) {
        let mut places = self.lock();
        if let Some(entry) = places.get_mut(at).and_then(|graph| graph.get_mut(of)) {
            entry.add(tasks);
        }
    }
}

impl Entry {
    fn add(&mut self, tasks: Vec<(TaskKey, TaskRecord)>) {
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
        let places = self.lock();
        let found = places.get(at).and_then(|graph| match id {
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
        let places = self.lock();
        let all = places.get(at).into_iter().flat_map(|graph| graph.0.iter().rev());
        let older = all.filter(|e| before.is_none_or(|before| e.checkpoint.id < before));
        ready(older.take(limit).map(|entry| entry.saved()).collect())
    }

    fn put<'a>(&'a self, at: &'a Place, put: Put) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut places = self.lock();
        let checkpoint = put.checkpoint;
        let entry = Entry { checkpoint, tasks: Vec::new(), outside: None };
        match places.get_mut(at) {
            Some(graph) => {
                if let Some(entry) = graph.get_mut(put.of) {
                    entry.add(put.tasks);
                }
                graph.insert(entry);
            }
            None => {
                places.insert(at.clone(), Graph(vec![entry]));
            }
        }
        ready(())
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a Place,
        of: CheckpointId,
        tasks: Vec<(TaskKey, TaskRecord)>,
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
        let mut places = self.lock();
        if let Some(entry) = places.get_mut(at).and_then(|graph| graph.get_mut(of)) {
            let before = entry.outside.take().and_then(|before| before.resume);
            let resume = outside.resume.or(before);
            entry.outside = Some(Box::new(Outside { resume, ..outside }));
        }
        ready(())
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.lock().retain(|place, _| &*place.thread != thread);
        ready(())
    }

    fn copy<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut places = self.lock();
        places.retain(|place, _| &*place.thread != to);
        let thread: Arc<str> = to.into();
        let copies: Vec<_> = places
            .iter()
            .filter(|(place, _)| &*place.thread == from)
            .map(|(place, graph)| {
                let place = Place { thread: Arc::clone(&thread), ns: Arc::clone(&place.ns) };
                let entries = graph.0.iter().map(|entry| {
                    let Saved { checkpoint, tasks, outside } = entry.saved();
                    let (checkpoint, outside) = (Box::new(checkpoint), Some(Box::new(outside)));
                    Entry { checkpoint, tasks, outside }
                });
                (place, Graph(entries.collect()))
            })
            .collect();
        places.extend(copies);
        ready(())
    }

    fn prune<'a>(&'a self, thread: &'a str, keep: usize) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut places = self.lock();
        for (_, graph) in places.iter_mut().filter(|(place, _)| &*place.thread == thread) {
            let older = graph.0.len().saturating_sub(keep);
            graph.0.drain(..older);
        }
        ready(())
    }
}
