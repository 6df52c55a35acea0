//! The runs that made the checkpoints of a thread.
//!
//! Checkpoints do not name their runs. Ids of checkpoints ascend over the runs of a thread, and each
//! run stores the newest checkpoint before it and at its end, so the run of a checkpoint of the
//! outermost graph is the last one that began below its id.

use std::collections::BTreeMap;
use weftwork_graph::run_loop::{HistoryFilter, Host, Snapshot, SnapshotRun, Source, StateQuery};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_store::thread::contains;
use weftwork_store::{Base, CheckpointNamespace, RunRow, Store, StoreError, by_execution};
use weftwork_types::event::AiEvent;
use weftwork_types::run::RunRef;
use weftwork_types::{CheckpointId, Principal, RunId, ThreadId, Timestamp};

/// Maximum number of events read at once.
const EVENTS_AT_ONCE: usize = 256;
/// Maximum number of checkpoints whose ids are read at once.
const CHECKPOINTS_AT_ONCE: usize = 64;

/// The runs of a thread, each with the greatest id of a checkpoint before it.
#[derive(Debug)]
pub(crate) struct Origins<'a> {
    store: &'a dyn Store,
    who: &'a Principal,
    runs: Vec<(u128, RunRow)>,
}

/// Times of the commits of a run.
#[derive(Debug, Default)]
struct Times {
    begun: Option<Timestamp>,
    checkpoints: BTreeMap<CheckpointId, Timestamp>,
    /// Times of supersteps, in logs of earlier versions.
    steps: BTreeMap<i64, Timestamp>,
}

impl<'a> Origins<'a> {
    /// Reads the runs of a thread. A thread that does not exist has none.
    pub(crate) async fn of(
        store: &'a dyn Store,
        who: &'a Principal,
        thread: &ThreadId,
    ) -> Result<Self, RuntimeError> {
        let rows = match store.runs(who, thread).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            rows => by_execution(rows?),
        };
        let mut runs = Vec::new();
        let mut newest = 0;
        // A run that was not claimed made nothing.
        for row in rows.into_iter().filter(|row| row.fence > 0) {
            if let Some(Base::At(id)) = row.base {
                newest = newest.max(id.0);
            }
            let last = row.last_checkpoint;
            runs.push((newest, row));
            newest = newest.max(last.map_or(0, |id| id.0));
        }
        Ok(Self { store, who, runs })
    }

    /// Returns `true` unless runs of several graphs made checkpoints.
    fn are_of_one_graph(&self) -> bool {
        let mut graphs = self.runs.iter().map(|(_, row)| &row.new.graph);
        let first = graphs.next();
        graphs.all(|graph| Some(graph) == first)
    }

    /// Returns the id of the graph whose run made a checkpoint.
    pub(crate) fn graph_of(&self, id: CheckpointId) -> Option<&str> {
        self.run_of(id).map(|row| row.new.graph.as_str())
    }

    fn run_of(&self, id: CheckpointId) -> Option<&RunRow> {
        let after = self.runs.partition_point(|(before, _)| *before < id.0);
        after.checked_sub(1).and_then(|index| self.runs.get(index)).map(|(_, row)| row)
    }

    /// Adds the runs of snapshots of the outermost graph, and the times of their commits.
    pub(crate) async fn add(&self, snapshots: &mut [Snapshot]) -> Result<(), RuntimeError> {
        let mut times: BTreeMap<RunId, Times> = BTreeMap::new();
        for snapshot in snapshots {
            let id = snapshot.config.as_ref().filter(|config| config.ns.is_empty());
            let is_stored = snapshot.metadata.is_some() || snapshot.error.is_some();
            let id = id.and_then(|config| config.id).filter(|_| is_stored);
            let Some(row) = id.and_then(|id| self.run_of(id)) else { continue };
            let run = &row.new.at;
            // The last checkpoint of a run is committed with its end.
            let ended_at = row.ended_at.filter(|_| row.last_checkpoint == id);
            if ended_at.is_none() && !times.contains_key(&run.run) {
                times.insert(run.run.clone(), self.read_times(run).await?);
            }
            let times = times.get(&run.run).zip(snapshot.metadata.as_ref().zip(id));
            let read = times.and_then(|(times, (metadata, id))| {
                let exact = times.checkpoints.get(&id).copied();
                exact.or_else(|| match metadata.source {
                    Source::Loop => times.steps.get(&metadata.step).copied(),
                    Source::Update | Source::Fork => row.ended_at.or(times.begun),
                    Source::Input | Source::Nothing => times.begun,
                })
            });
            let committed_at = ended_at.or(read);
            let metadata = row.new.options.metadata.clone();
            snapshot.run = Some(SnapshotRun { id: run.run.clone(), committed_at, metadata });
        }
        Ok(())
    }

    /// Reads the times from the log of a run.
    async fn read_times(&self, run: &RunRef) -> Result<Times, RuntimeError> {
        let mut times = Times::default();
        let mut after = 0;
        loop {
            let store = self.store;
            let page = match store.events(self.who, run, after, EVENTS_AT_ONCE).await {
                Err(StoreError::Dropped { oldest, .. }) => {
                    store.events(self.who, run, oldest - 1, EVENTS_AT_ONCE).await?
                }
                page => page?,
            };
            let Some(last) = page.last() else { return Ok(times) };
            after = last.seq;
            for told in page {
                match told.event {
                    AiEvent::Checkpoint(stored) => {
                        times.checkpoints.insert(stored.id, told.at);
                    }
                    AiEvent::Step { step, .. } => {
                        times.steps.insert(step, told.at);
                    }
                    AiEvent::RunStarted { .. } => times.begun = times.begun.or(Some(told.at)),
                    _ => {}
                }
            }
        }
    }

    /// Keeps the snapshots that the run and the metadata of the filter select.
    fn select(&self, filter: &HistoryFilter, snapshots: &mut Vec<Snapshot>) {
        snapshots.retain(|snapshot| {
            let id = snapshot.checkpoint();
            id.is_none_or(|id| self.selects(filter, id))
        });
        snapshots.truncate(filter.limit);
    }

    /// Returns `true` if the run and the metadata of a filter select a checkpoint.
    fn selects(&self, filter: &HistoryFilter, id: CheckpointId) -> bool {
        let row = self.run_of(id);
        let is_run = |run: &RunId| row.is_some_and(|row| row.new.at.run == *run);
        filter.run.as_ref().is_none_or(is_run)
            && (filter.metadata.is_empty() || row.is_some_and(|row| has_metadata(row, filter)))
    }
}

/// The graphs that made the checkpoints of a thread, and the store with them.
pub(crate) struct HistoryReader<'a> {
    /// Graph of the last run.
    pub(crate) graph: &'a CompiledGraph,
    pub(crate) host: &'a Host,
    pub(crate) store: &'a dyn Store,
    pub(crate) who: &'a Principal,
    /// Returns the graph of an id, for checkpoints of runs of other graphs.
    pub(crate) find: &'a (dyn Fn(&str) -> Result<CompiledGraph, RuntimeError> + Sync),
}

impl HistoryReader<'_> {
    /// Reads the checkpoints that a filter selects, with their runs. Each is read by the graph of the
    /// run that made it; one that cannot be read has the reason instead of its values.
    pub(crate) async fn read(
        &self,
        at: &StateQuery,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        let origins = Origins::of(self.store, self.who, &ThreadId::new(&*at.thread)?).await?;
        if origins.are_of_one_graph() {
            match self.graph.history_of(self.host, at, &without_runs(filter)).await {
                // One of the checkpoints does not fit this build of the graph.
                Err(error) if error.is_unreadable() => {}
                found => {
                    let mut found = found?;
                    origins.select(filter, &mut found);
                    origins.add(&mut found).await?;
                    return Ok(found);
                }
            }
        }
        self.read_each(&origins, at, filter).await
    }

    /// Reads the checkpoints one at a time.
    async fn read_each(
        &self,
        origins: &Origins<'_>,
        at: &StateQuery,
        filter: &HistoryFilter,
    ) -> Result<Vec<Snapshot>, RuntimeError> {
        let thread = ThreadId::new(&*at.thread)?;
        let place = CheckpointNamespace { thread, ns: at.ns.to_string() };
        let mut found = Vec::new();
        let mut before = filter.before;
        while found.len() < filter.limit {
            let page = self.store.page(self.who, &place, before, CHECKPOINTS_AT_ONCE).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            for id in page.iter().map(|row| row.id).filter(|id| origins.selects(filter, *id)) {
                let snapshot = self.read_one(origins, at, id).await?;
                if found.len() < filter.limit && is_selected(filter, &snapshot) {
                    found.push(snapshot);
                }
            }
        }
        origins.add(&mut found).await?;
        Ok(found)
    }

    async fn read_one(
        &self,
        origins: &Origins<'_>,
        at: &StateQuery,
        id: CheckpointId,
    ) -> Result<Snapshot, RuntimeError> {
        let only = HistoryFilter {
            before: Some(CheckpointId(id.0.saturating_add(1))),
            limit: 1,
            ..HistoryFilter::default()
        };
        let read = async {
            let graph = match origins.run_of(id) {
                Some(run) => (self.find)(&run.new.graph)?,
                None => self.graph.clone(),
            };
            graph.history_of(self.host, at, &only).await
        };
        match read.await {
            Ok(mut found) => found.pop().ok_or_else(|| {
                let thread = at.thread.to_string();
                RuntimeError::UnknownCheckpoint { thread, ns: at.ns.to_string(), checkpoint: id }
            }),
            Err(error) if error.is_unreadable() => {
                Ok(Snapshot::unreadable(&at.ns, id, error.fault()))
            }
            Err(error) => Err(error),
        }
    }
}

fn is_selected(filter: &HistoryFilter, snapshot: &Snapshot) -> bool {
    let metadata = snapshot.metadata.as_ref();
    filter.source.is_none_or(|source| metadata.is_some_and(|found| found.source == source))
        && filter.step.is_none_or(|step| metadata.is_some_and(|found| found.step == step))
}

/// Returns `true` if the metadata of a run has the members of the filter.
fn has_metadata(row: &RunRow, filter: &HistoryFilter) -> bool {
    let known = &row.new.options.metadata;
    let mut wanted = filter.metadata.iter();
    wanted.all(|(name, value)| known.get(name).is_some_and(|found| contains(found, value)))
}

/// Returns the filter with which all checkpoints are read that a filter may select.
fn without_runs(filter: &HistoryFilter) -> HistoryFilter {
    let mut wider = filter.clone();
    if filter.run.is_some() || !filter.metadata.is_empty() {
        wider.limit = usize::MAX;
    }
    (wider.run, wider.metadata) = (None, serde_json::Map::new());
    wider
}
