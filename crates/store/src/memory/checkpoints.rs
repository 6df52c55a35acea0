//! Checkpoints in memory.

use super::scope::{Need, Part, Scope};
use super::{Backend, TableStore, Tables, partial_scope};
use crate::checkpoint::{
    Body, CheckpointBatch, CheckpointNamespace, FoundCheckpoint, NewCheckpoint, NewPending,
    Pending, ReadCheckpoints, WriteCheckpoints,
};
use crate::invariants;
use crate::table::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use weftwork_types::canonical::Hash;
use weftwork_types::{BoxFuture, CheckpointId, OrgId, Principal, ThreadId};

/// The checkpoints of all organisations.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    pub(crate) threads: BTreeMap<(OrgId, ThreadId), Graphs>,
    pub(crate) blobs: BTreeMap<(OrgId, Hash), Vec<u8>>,
    pub(crate) layouts: BTreeMap<(OrgId, Hash), Vec<u8>>,
}

/// The graphs of one thread, by namespace.
pub(crate) type Graphs = BTreeMap<String, Graph>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    pub(crate) checkpoints: BTreeMap<CheckpointId, NewCheckpoint>,
    pub(crate) open: BTreeMap<CheckpointId, Open>,
}

/// The stored parts of an open superstep.
#[derive(Debug, Clone, Default)]
pub(crate) struct Open {
    pub(crate) outside: Option<NewPending>,
    /// Parts by number, in the order in which they were stored.
    pub(crate) tasks: BTreeMap<u64, NewPending>,
}

impl Open {
    fn parts(&self) -> impl Iterator<Item = &NewPending> {
        self.outside.iter().chain(self.tasks.values())
    }
}

impl Checkpoints {
    /// Stores a batch and returns the last checkpoint of the root graph.
    pub(super) fn put_batch(
        &mut self,
        org: &OrgId,
        thread: &ThreadId,
        batch: CheckpointBatch,
    ) -> Option<CheckpointId> {
        for (hash, body) in batch.blobs {
            self.blobs.entry((org.clone(), hash)).or_insert(body);
        }
        for (hash, body) in batch.layouts {
            self.layouts.entry((org.clone(), hash)).or_insert(body);
        }
        let mut head = None;
        if batch.checkpoints.is_empty() && batch.pending.is_empty() {
            return head;
        }
        let graphs = self.threads.entry((org.clone(), thread.clone())).or_default();
        for new in batch.checkpoints {
            if new.ns.is_empty() {
                head = Some(new.id);
            }
            let graph = graphs.entry(new.ns.clone()).or_default();
            graph.checkpoints.insert(new.id, new);
        }
        for part in batch.pending {
            let graph = graphs.entry(part.ns.clone()).or_default();
            let open = graph.open.entry(part.of).or_default();
            match part.what {
                Pending::Outside => open.outside = Some(part),
                Pending::Tasks => {
                    let number = open.tasks.keys().next_back().map_or(0, |last| last + 1);
                    open.tasks.insert(number, part);
                }
            }
        }
        head
    }

    /// Returns `true` if a thread has any checkpoint or part of an open superstep.
    pub(super) fn has_any(&self, org: &OrgId, thread: &ThreadId) -> bool {
        let graphs = self.threads.get(&(org.clone(), thread.clone()));
        graphs.is_some_and(|graphs| {
            graphs.values().any(|graph| !graph.checkpoints.is_empty() || !graph.open.is_empty())
        })
    }

    /// Returns all checkpoints and parts of a thread, with the blobs they refer to.
    pub(super) fn all_of(&self, org: &OrgId, thread: &ThreadId) -> CheckpointBatch {
        let mut all = CheckpointBatch::default();
        for graph in self.threads.get(&(org.clone(), thread.clone())).into_iter().flatten() {
            let (_, Graph { checkpoints, open }) = graph;
            all.checkpoints.extend(checkpoints.values().cloned());
            let parts = open.values().flat_map(Open::parts);
            all.pending.extend(parts.cloned());
            let spoken = graph
                .1
                .blobs()
                .filter_map(|hash| Some((hash, self.blobs.get(&(org.clone(), hash))?.clone())));
            all.blobs.extend(spoken);
        }
        all
    }

    /// Returns the newest checkpoint of the root graph.
    pub(super) fn newest(&self, org: &OrgId, thread: &ThreadId) -> Option<CheckpointId> {
        let graphs = self.threads.get(&(org.clone(), thread.clone()))?;
        graphs.get("")?.checkpoints.keys().next_back().copied()
    }

    pub(super) fn delete(&mut self, org: &OrgId, thread: &ThreadId) {
        self.threads.remove(&(org.clone(), thread.clone()));
    }

    fn graph(&self, org: &OrgId, at: &CheckpointNamespace) -> Option<&Graph> {
        self.threads.get(&(org.clone(), at.thread.clone()))?.get(&at.ns)
    }

    fn rewrite(
        &mut self,
        org: &OrgId,
        at: &CheckpointNamespace,
        newest: CheckpointId,
        batch: CheckpointBatch,
    ) -> Result<()> {
        let graph = self.threads.get_mut(&(org.clone(), at.thread.clone()));
        let graph = graph.and_then(|graphs| graphs.get_mut(&at.ns));
        let found = graph.as_ref().and_then(|graph| graph.checkpoints.keys().next_back().copied());
        invariants::check_newest(at, newest, found)?;
        if let Some(graph) = graph {
            let stays = invariants::stays(at, newest, &batch);
            graph.checkpoints.clear();
            graph.open.retain(|of, _| stays && *of == newest);
        }
        self.put_batch(org, &at.thread, batch);
        Ok(())
    }

    fn copy(&mut self, org: &OrgId, from: &ThreadId, to: &ThreadId) {
        let copied = self.threads.get(&(org.clone(), from.clone())).cloned();
        self.delete(org, to);
        if let Some(graphs) = copied {
            self.threads.insert((org.clone(), to.clone()), graphs);
        }
    }

    pub(super) fn collect(&mut self, org: &OrgId) -> u64 {
        let ours = self.threads.iter().filter(|((owner, _), _)| owner == org);
        let graphs = ours.flat_map(|(_, graphs)| graphs.values());
        let spoken: BTreeSet<Hash> = graphs.flat_map(Graph::blobs).collect();
        let before = self.blobs.len();
        self.blobs.retain(|(owner, hash), _| owner != org || spoken.contains(hash));
        (before - self.blobs.len()) as u64
    }
}

impl Tables {
    /// Sets the head of a thread to its newest checkpoint.
    fn move_head(&mut self, org: &OrgId, thread: &ThreadId) {
        let key = (org.clone(), thread.clone());
        let root = self.checkpoints.threads.get(&key).and_then(|graphs| graphs.get(""));
        let newest = root.and_then(|graph| graph.checkpoints.keys().next_back().copied());
        if let Some(found) = self.threads.get_mut(&key) {
            found.row.head = newest;
        }
    }
}

impl Graph {
    fn found(&self, checkpoint: &NewCheckpoint) -> FoundCheckpoint {
        let id = checkpoint.id;
        let open = self.open.get(&id);
        let outside = open.and_then(|open| open.outside.as_ref()).map(|part| part.body.clone());
        let tasks = open.into_iter().flat_map(|open| open.tasks.values());
        let mut tasks: Vec<_> = tasks.map(|part| part.body.clone()).collect();
        let next = self.checkpoints.range((Bound::Excluded(id), Bound::Unbounded)).next();
        tasks.extend(
            next.filter(|(_, next)| next.of == Some(id)).map(|(_, next)| next.tasks.clone()),
        );
        FoundCheckpoint { id, body: checkpoint.body.clone(), outside, tasks }
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = Hash> {
        let parts = self.open.values().flat_map(Open::parts);
        let spoken = self.checkpoints.values().map(|checkpoint| &checkpoint.blobs);
        spoken.chain(parts.map(|part| &part.blobs)).flatten().copied()
    }
}

impl<B: Backend> ReadCheckpoints for TableStore<B> {
    fn checkpoint<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<FoundCheckpoint>>> {
        let scope =
            partial_scope::<B>(|| Scope::part(&who.org, &at.thread, Part::checkpoint(&at.ns, id)));
        self.backend.read(scope, move |tables| {
            let found = tables.checkpoints.graph(&who.org, at).and_then(|graph| {
                let checkpoint = match id {
                    Some(id) => graph.checkpoints.get(&id),
                    None => graph.checkpoints.values().next_back(),
                };
                checkpoint.map(|checkpoint| graph.found(checkpoint))
            });
            Ok(found)
        })
    }

    fn checkpoint_bytes<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        ids: Vec<CheckpointId>,
    ) -> BoxFuture<'a, Result<Vec<Body>>> {
        let part = || Part::Bodies { ns: at.ns.clone(), ids: ids.clone() };
        let scope = partial_scope::<B>(|| Scope::part(&who.org, &at.thread, part()));
        self.backend.read(scope, move |tables| {
            let graph = tables.checkpoints.graph(&who.org, at);
            let found = ids.into_iter().filter_map(|id| graph?.checkpoints.get(&id));
            Ok(found.map(|checkpoint| (checkpoint.id, checkpoint.body.clone())).collect())
        })
    }

    fn page<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<FoundCheckpoint>>> {
        let part = || Part::Page { ns: at.ns.clone(), before, limit };
        let scope = partial_scope::<B>(|| Scope::part(&who.org, &at.thread, part()));
        self.backend.read(scope, move |tables| {
            let Some(graph) = tables.checkpoints.graph(&who.org, at) else { return Ok(Vec::new()) };
            let end = before.map_or(Bound::Unbounded, Bound::Excluded);
            let older = graph.checkpoints.range((Bound::Unbounded, end)).rev();
            Ok(older.take(limit).map(|(_, checkpoint)| graph.found(checkpoint)).collect())
        })
    }

    fn checkpoint_namespaces<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CheckpointNamespace>>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::Namespaces));
        self.backend.read(scope, move |tables| {
            let graphs = tables.checkpoints.threads.get(&(who.org.clone(), thread.clone()));
            let filled = graphs.into_iter().flatten().filter(|(_, g)| !g.checkpoints.is_empty());
            let shelf =
                |ns: &String| CheckpointNamespace { thread: thread.clone(), ns: ns.clone() };
            Ok(filled.map(|(ns, _)| shelf(ns)).collect())
        })
    }

    fn newest_id<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::Namespaces));
        self.backend.read(scope, move |tables| {
            let graphs = tables.checkpoints.threads.get(&(who.org.clone(), thread.clone()));
            let graphs = graphs.into_iter().flat_map(BTreeMap::values);
            Ok(graphs.filter_map(|graph| graph.checkpoints.keys().next_back()).max().copied())
        })
    }

    fn blob<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Blob { org: who.org.clone(), hash }));
        self.backend.read(scope, move |tables| {
            Ok(tables.checkpoints.blobs.get(&(who.org.clone(), hash)).cloned())
        })
    }

    fn layout<'a>(
        &'a self,
        who: &'a Principal,
        hash: Hash,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Layout { org: who.org.clone(), hash }));
        self.backend.read(scope, move |tables| {
            Ok(tables.checkpoints.layouts.get(&(who.org.clone(), hash)).cloned())
        })
    }
}

impl<B: Backend> WriteCheckpoints for TableStore<B> {
    fn put_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::batch(&batch)));
        self.backend.write(scope, move |tables| {
            tables.checkpoints.put_batch(&who.org, thread, batch);
            Ok(())
        })
    }

    fn rewrite<'a>(
        &'a self,
        who: &'a Principal,
        at: &'a CheckpointNamespace,
        newest: CheckpointId,
        batch: CheckpointBatch,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| {
            let mut scope = Scope::part(&who.org, &at.thread, Part::Checkpoints);
            scope.add_part(Part::batch(&batch));
            scope
        });
        self.backend.write(scope, move |tables| {
            tables.checkpoints.rewrite(&who.org, at, newest, batch)?;
            tables.move_head(&who.org, &at.thread);
            Ok(())
        })
    }

    fn copy_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        from: &'a ThreadId,
        to: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| {
            let mut scope = Scope::part(&who.org, from, Part::Checkpoints);
            scope.add_part(Part::References);
            scope.add(Need::Thread(who.org.clone(), to.clone(), vec![Part::Checkpoints]));
            scope
        });
        self.backend.write(scope, move |tables| {
            if from != to {
                tables.checkpoints.copy(&who.org, from, to);
                tables.move_head(&who.org, to);
            }
            Ok(())
        })
    }

    fn delete_checkpoints<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, thread, Part::Checkpoints));
        self.backend.write(scope, move |tables| {
            tables.checkpoints.delete(&who.org, thread);
            tables.move_head(&who.org, thread);
            Ok(())
        })
    }

    fn collect_blobs<'a>(&'a self, who: &'a Principal) -> BoxFuture<'a, Result<u64>> {
        self.backend.collect_blobs(&who.org)
    }
}
