//! Reads the parts of threads.

use super::encode::{corrupt, kind, of_graph, of_hash, of_org, of_run, of_thread};
use super::load::Loader;
use super::{Key, KeyRange, Order, Rows};
use crate::memory::scope::Part;
use crate::record::RunRow;
use crate::remote::{REMOTE_DELETIONS, REMOTE_THREADS, deletion_key};
use crate::sequence::{EXPORTED_KINDS, KINDS_OF_THREADS, Sequence, of_thread as keys_of_thread};
use crate::table::Result;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::canonical::Hash;
use weftwork_types::run::RunRef;
use weftwork_types::{CheckpointId, OrgId, Principal, RunId, ThreadId};

impl<R: Rows> Loader<'_, R> {
    pub(super) async fn load_part(
        &mut self,
        org: &OrgId,
        thread: &ThreadId,
        part: &Part,
    ) -> Result<()> {
        let at = |run: &RunId| RunRef { thread: thread.clone(), run: run.clone() };
        match part {
            Part::Everything => self.load_everything(org, thread).await,
            Part::Export => {
                self.load_prefix(of_thread(kind::EVENT, org, thread)).await?;
                self.load_prefix(of_thread(kind::CALL, org, thread)).await?;
                self.load_checkpoints(org, thread).await?;
                let blobs = self.references(org, thread);
                let keys = blobs.iter().map(|hash| of_hash(kind::BLOB, org, hash));
                self.load_keys(keys.collect()).await?;
                for name in EXPORTED_KINDS {
                    self.load_sequences(org, thread, name).await?;
                }
                self.load_usage_of_thread(org, thread).await
            }
            Part::Events { run, after, limit } => {
                let start = of_run(kind::EVENT, org, &at(run));
                let KeyRange { end, .. } = start.clone().range();
                // There is no event after the last number.
                let first = match after.checked_add(1) {
                    Some(first) => start.number(first),
                    None => end.clone(),
                };
                self.load_some(KeyRange { first, end }, *limit).await
            }
            Part::LastEvent(run) => self.load_last(of_run(kind::EVENT, org, &at(run))).await,
            Part::Pieces(run) => self.load_prefix(of_run(kind::PIECES, org, &at(run))).await,
            Part::AllCalls => self.load_prefix(of_thread(kind::CALL, org, thread)).await,
            Part::Calls(keys) => {
                let start = of_thread(kind::CALL, org, thread);
                let keys: BTreeSet<_> =
                    keys.iter().map(|key| start.clone().bytes(&key.0.0)).collect();
                self.load_keys(keys.into_iter().collect()).await
            }
            Part::Usage => self.load_usage_of_thread(org, thread).await,
            Part::Claim(run) => {
                let found = self.tables.threads.get(&(org.clone(), thread.clone()));
                let runs = found.into_iter().flat_map(|thread| &thread.runs);
                let row = runs.map(|run| &run.row).find(|row| row.new.at.run == *run);
                let clears = row.is_some_and(RunRow::clears);
                if let Some(worker) = row.and_then(|row| row.worker.clone()) {
                    self.load_expected(Key::kind(kind::WORKER).text(worker)).await?;
                }
                if clears {
                    return self.load_checkpoints(org, thread).await;
                }
                self.load_last(of_graph(kind::CHECKPOINT, org, thread, "")).await
            }
            Part::Newest => self.load_last(of_graph(kind::CHECKPOINT, org, thread, "")).await,
            Part::Checkpoints => self.load_checkpoints(org, thread).await,
            Part::Checkpoint { ns, id } => self.load_checkpoint(org, thread, ns, *id).await,
            Part::Bodies { ns, ids } => {
                let start = of_graph(kind::CHECKPOINT, org, thread, ns);
                let keys: BTreeSet<_> = ids.iter().map(|id| start.clone().wide(id.0)).collect();
                self.load_keys(keys.into_iter().collect()).await
            }
            Part::Page { ns, before, limit } => {
                let start = of_graph(kind::CHECKPOINT, org, thread, ns);
                let KeyRange { first, end } = start.clone().range();
                let before = before.map_or(end.clone(), |id| start.wide(id.0));
                // The next one has the results of the first one of the page.
                self.load_some(KeyRange { first: before.clone(), end }, 1).await?;
                let older = KeyRange { first, end: before };
                let found = self.scan(older, Order::Descending, *limit).await?;
                let (Some((newest, _)), Some((oldest, _))) = (found.first(), found.last()) else {
                    return Ok(());
                };
                let first = oldest.clone().with_kind(kind::OPEN);
                let KeyRange { end, .. } = newest.clone().with_kind(kind::OPEN).range();
                self.decode(&found)?;
                self.load_some(KeyRange { first, end }, usize::MAX).await
            }
            Part::Namespaces => self.load_namespaces(org, thread).await,
            Part::References => {
                let blobs = self.references(org, thread);
                self.expect_all(blobs.iter().map(|hash| of_hash(kind::STAMP, org, hash))).await
            }
            Part::Batch { tails, blobs, layouts } => {
                for (ns, of) in tails {
                    let start = of_graph(kind::OPEN, org, thread, ns).wide(of.0);
                    self.load_last(start).await?;
                }
                self.expect_all(blobs.iter().map(|hash| of_hash(kind::STAMP, org, hash))).await?;
                let keys = layouts.iter().map(|hash| of_hash(kind::LAYOUT, org, hash));
                self.load_keys(keys.collect()).await
            }
        }
    }

    /// Loads all that is deleted with a thread, except its usage.
    pub(super) async fn load_everything(&mut self, org: &OrgId, thread: &ThreadId) -> Result<()> {
        for kind in [kind::EVENT, kind::PIECES, kind::CALL] {
            self.load_prefix(of_thread(kind, org, thread)).await?;
        }
        self.load_checkpoints(org, thread).await?;
        for name in KINDS_OF_THREADS {
            self.load_sequences(org, thread, name).await?;
        }
        let workers = Principal::of_workers().org;
        for remote in self.load_sequences(org, thread, REMOTE_THREADS).await? {
            let moved = Sequence::new(REMOTE_DELETIONS, deletion_key(&remote.key));
            self.load_sequence(&workers, &moved, u64::MAX).await?;
        }
        Ok(())
    }

    /// Loads the sequences of a kind of a thread with their records, and returns their names.
    async fn load_sequences(
        &mut self,
        org: &OrgId,
        thread: &ThreadId,
        name: &str,
    ) -> Result<Vec<Sequence>> {
        let (first, last) = keys_of_thread(thread);
        let start = of_org(kind::SEQUENCE, org).text(name);
        let KeyRange { first: from, .. } = start.clone().text(&first).range();
        let KeyRange { end, .. } = start.text(&last).range();
        let mut loaded = Vec::new();
        for (key, value) in self.scan_all(KeyRange { first: from, end }).await? {
            let (_, mut parts) = key.parts();
            let found = (parts.text(), parts.text(), parts.text());
            let (_, _, Some(name_of_key)) = found else {
                return Err(corrupt(&key, "it names no sequence"));
            };
            self.expected.insert(key, Some(value));
            let sequence = Sequence::new(name, name_of_key);
            self.load_sequence(org, &sequence, u64::MAX).await?;
            loaded.push(sequence);
        }
        Ok(loaded)
    }

    async fn load_checkpoints(&mut self, org: &OrgId, thread: &ThreadId) -> Result<()> {
        self.load_prefix(of_thread(kind::CHECKPOINT, org, thread)).await?;
        self.load_prefix(of_thread(kind::OPEN, org, thread)).await
    }

    async fn load_checkpoint(
        &mut self,
        org: &OrgId,
        thread: &ThreadId,
        ns: &str,
        id: Option<CheckpointId>,
    ) -> Result<()> {
        let start = of_graph(kind::CHECKPOINT, org, thread, ns);
        let id = match id {
            Some(id) => {
                let KeyRange { end, .. } = start.clone().range();
                // With the next one, which has results of this one.
                self.load_some(KeyRange { first: start.wide(id.0), end }, 2).await?;
                id
            }
            None => {
                self.load_last(start).await?;
                let graphs = self.tables.checkpoints.threads.get(&(org.clone(), thread.clone()));
                let graph = graphs.and_then(|graphs| graphs.get(ns));
                let newest = graph.and_then(|graph| graph.checkpoints.keys().next_back());
                let Some(newest) = newest else { return Ok(()) };
                *newest
            }
        };
        self.load_prefix(of_graph(kind::OPEN, org, thread, ns).wide(id.0)).await
    }

    async fn load_namespaces(&mut self, org: &OrgId, thread: &ThreadId) -> Result<()> {
        let KeyRange { mut first, end } = of_thread(kind::CHECKPOINT, org, thread).range();
        loop {
            let rest = KeyRange { first, end: end.clone() };
            let found = self.scan(rest, Order::Ascending, 1).await?;
            let Some((key, _)) = found.first() else { return Ok(()) };
            let (_, mut parts) = key.parts();
            let names = (parts.text(), parts.text(), parts.text());
            let (_, _, Some(ns)) = names else { return Err(corrupt(key, "it names no graph")) };
            let graph = of_graph(kind::CHECKPOINT, org, thread, &ns);
            self.load_last(graph.clone()).await?;
            KeyRange { end: first, .. } = graph.range();
        }
    }

    /// Returns the blobs to which the loaded checkpoints of a thread refer.
    fn references(&self, org: &OrgId, thread: &ThreadId) -> BTreeSet<Hash> {
        let graphs = self.tables.checkpoints.threads.get(&(org.clone(), thread.clone()));
        graphs.into_iter().flat_map(BTreeMap::values).flat_map(|graph| graph.blobs()).collect()
    }

    async fn load_usage_of_thread(&mut self, org: &OrgId, thread: &ThreadId) -> Result<()> {
        let found = self.tables.threads.get(&(org.clone(), thread.clone()));
        let runs = found.into_iter().flat_map(|thread| &thread.runs);
        let runs: Vec<_> = runs.map(|run| run.row.new.at.run.clone()).collect();
        for run in &runs {
            self.load_usage(org, run).await?;
        }
        Ok(())
    }
}
