//! Checkpoints in memory.

use super::{
    CheckpointAddress, CheckpointWrite, CheckpointWrites, Checkpointer, CheckpointerError,
    ExternalInput, StoredCheckpoint, TaskRecords, WriteHint, WriteResult,
};
use crate::run_loop::namespace::nowhere;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_engine::Plan;
use weftwork_types::{BoxFuture, CheckpointId};

/// Stores checkpoints in memory, as they are: nothing is encoded as bytes.
#[derive(Debug, Default)]
pub struct InMemoryCheckpointer(Mutex<Threads>);

#[derive(Debug, Default)]
struct Threads {
    places: BTreeMap<CheckpointAddress, usize>,
    graphs: Vec<Graph>,
    /// The address of the last lookup: a run looks up the same one again and again.
    last: Option<(CheckpointAddress, usize)>,
}

impl Threads {
    fn find(&mut self, at: &CheckpointAddress) -> Option<usize> {
        if let Some((last, index)) = &self.last
            // The addresses of a loop share their texts; another one with equal texts is looked up.
            && Arc::ptr_eq(&last.thread, &at.thread)
            && Arc::ptr_eq(&last.ns, &at.ns)
        {
            return Some(*index);
        }
        let index = *self.places.get(at)?;
        self.last = Some((at.clone(), index));
        Some(index)
    }

    fn get(&mut self, at: &CheckpointAddress) -> Option<&mut Graph> {
        let index = self.find(at)?;
        self.graphs.get_mut(index)
    }

    fn put(&mut self, at: &CheckpointAddress, mut put: Box<CheckpointWrite>) {
        let tasks = std::mem::take(&mut put.tasks);
        match self.get(at) {
            Some(graph) => {
                // Outcomes belong to the checkpoint at which their tasks were due, not to the one
                // that closes their superstep.
                if let Some(entry) = put.of.and_then(|of| graph.get_mut(of)) {
                    entry.add(tasks);
                }
                graph.insert(Entry { put, outside: None });
            }
            None => {
                // A run has a few supersteps at least.
                let mut entries = Vec::with_capacity(12);
                entries.push(Entry { put, outside: None });
                self.make(at, Graph(entries));
            }
        }
    }

    fn make(&mut self, at: &CheckpointAddress, graph: Graph) {
        let found = self.places.get(at).copied();
        let index = found.unwrap_or(self.graphs.len());
        match self.graphs.get_mut(index) {
            Some(known) => *known = graph,
            None => {
                self.places.insert(at.clone(), index);
                self.graphs.push(graph);
            }
        }
        self.last = Some((at.clone(), index));
    }

    /// The graphs of a thread.
    fn of<'a>(&'a self, thread: &'a str) -> impl Iterator<Item = (&'a CheckpointAddress, usize)> {
        // The empty namespace, that of the outermost graph, is the least.
        let first = CheckpointAddress { thread: thread.into(), ns: nowhere() };
        let all = self.places.range(first..).map(|(place, index)| (place, *index));
        all.take_while(move |(place, _)| &*place.thread == thread)
    }

    /// Deletes a thread. The space of its checkpoints is free; its number is not assigned again.
    fn delete(&mut self, thread: &str) {
        // It may be the address of a deleted graph.
        self.last = None;
        let gone: Vec<_> = self.of(thread).map(|(place, index)| (place.clone(), index)).collect();
        for (place, index) in gone {
            self.places.remove(&place);
            if let Some(graph) = self.graphs.get_mut(index) {
                // Not removed: `places` has the indices of the graphs behind it.
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
        // Ids grow along a thread: most lookups and additions are at its end.
        match self.0.last() {
            Some(last) if last.id() < id => Err(self.0.len()),
            Some(last) if last.id() == id => Ok(self.0.len() - 1),
            _ => self.0.binary_search_by_key(&id, Entry::id),
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
            let StoredCheckpoint { checkpoint, tasks, outside, .. } = entry.saved();
            let put = CheckpointWrite { checkpoint, of: None, tasks, ended: Vec::new(), due: None };
            Entry { put: Box::new(put), outside: Some(Box::new(outside)) }
        });
        Self(entries.collect())
    }

    fn insert(&mut self, entry: Entry) {
        match self.find(entry.id()) {
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
    /// As it came, but for its tasks: here they are those that were due at the checkpoint itself.
    put: Box<CheckpointWrite>,
    outside: Option<Box<ExternalInput>>,
}

impl InMemoryCheckpointer {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the number of checkpoints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().graphs.iter().map(|graph| graph.0.len()).sum()
    }

    /// Returns `true` if there are no checkpoints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, at: &CheckpointAddress, of: CheckpointId, tasks: TaskRecords) {
        let mut threads = self.lock();
        if let Some(entry) = threads.get(at).and_then(|graph| graph.get_mut(of)) {
            entry.add(tasks);
        }
    }
}

impl Entry {
    fn id(&self) -> CheckpointId {
        self.put.checkpoint.id
    }

    fn add(&mut self, tasks: TaskRecords) {
        let all = &mut self.put.tasks;
        if all.is_empty() {
            *all = tasks;
            return;
        }
        for (key, record) in tasks {
            match all.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => known.merge(record),
                None => all.push((key, record)),
            }
        }
    }

    fn saved(&self) -> StoredCheckpoint {
        StoredCheckpoint {
            checkpoint: self.put.checkpoint.clone(),
            tasks: self.put.tasks.clone(),
            outside: self.outside.as_deref().cloned().unwrap_or_default(),
            hint: WriteHint::default(),
        }
    }
}

fn ready_future<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, CheckpointerError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Checkpointer for InMemoryCheckpointer {
    fn load<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        _plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<StoredCheckpoint>, CheckpointerError>> {
        let mut threads = self.lock();
        let found = threads.get(at).and_then(|graph| match id {
            Some(id) => graph.get(id),
            None => graph.0.last(),
        });
        ready_future(found.map(Entry::saved))
    }

    fn newest<'a>(
        &'a self,
        at: &'a CheckpointAddress,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>> {
        let mut threads = self.lock();
        let newest = threads.get(at).and_then(|graph| graph.0.last());
        ready_future(newest.map(Entry::id))
    }

    fn newest_of_all<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>> {
        let threads = self.lock();
        let graphs = threads.of(thread).filter_map(|(_, index)| threads.graphs.get(index));
        ready_future(graphs.filter_map(|graph| graph.0.last().map(Entry::id)).max())
    }

    fn list<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        _plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredCheckpoint>, CheckpointerError>> {
        let mut threads = self.lock();
        let Some(graph) = threads.get(at) else { return ready_future(Vec::new()) };
        // A checkpoint that was pruned still bounds the page, at the place where it was.
        let end = before.map(|before| graph.find(before).unwrap_or_else(|at| at));
        let older = graph.0.iter().take(end.unwrap_or(usize::MAX)).rev();
        ready_future(older.take(limit).map(|entry| entry.saved()).collect())
    }

    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        _memo: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a> {
        let mut threads = self.lock();
        // Under one lock: readers find all checkpoints of the write or none.
        for put in puts {
            threads.put(at, put);
        }
        WriteResult::Now(Ok(WriteHint::default()))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        _plan: &'a Arc<Plan>,
        of: CheckpointId,
        tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.add(at, of, tasks);
        ready_future(())
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        _plan: &'a Arc<Plan>,
        of: CheckpointId,
        outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let mut threads = self.lock();
        if let Some(entry) = threads.get(at).and_then(|graph| graph.get_mut(of)) {
            // A command without an answer must not remove one that no question has taken yet.
            let before = entry.outside.take().and_then(|before| before.resume);
            let resume = outside.resume.or(before);
            entry.outside = Some(Box::new(ExternalInput { resume, ..outside }));
        }
        ready_future(())
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        self.lock().delete(thread);
        ready_future(())
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        let mut threads = self.lock();
        threads.delete(to);
        let thread: Arc<str> = to.into();
        let copies: Vec<_> = threads
            .of(from)
            .filter_map(|(place, index)| {
                let place =
                    CheckpointAddress { thread: Arc::clone(&thread), ns: Arc::clone(&place.ns) };
                Some((place, threads.graphs.get(index)?.copied()))
            })
            .collect();
        for (place, graph) in copies {
            threads.make(&place, graph);
        }
        ready_future(())
    }

    fn graphs<'a>(
        &'a self,
        thread: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<str>>, CheckpointerError>> {
        let threads = self.lock();
        let graphs = threads.of(thread).map(|(place, _)| Arc::clone(&place.ns)).collect();
        ready_future(graphs)
    }

    fn prune<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        _plan: &'a Arc<Plan>,
        keep: usize,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        if let Some(graph) = self.lock().get(at) {
            let older = graph.0.len().saturating_sub(keep);
            graph.0.drain(..older);
        }
        ready_future(())
    }
}
