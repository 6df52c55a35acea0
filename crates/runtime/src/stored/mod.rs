//! Checkpoints in a store, as bytes.

mod calls;
mod check;
mod commit;
mod event;
mod read;
mod recent;
mod row;

pub use check::{CheckedRows, check_names, check_rows};
pub(crate) use commit::{CheckpointReport, Claimed};
use event::{checkpoint_event, new_messages};
pub(crate) use recent::Recent;
use row::Kind;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_engine::codec::{Layout, LayoutId, ReferenceRow, Text, encode};
use weftwork_engine::{EngineError, Plan};
use weftwork_graph::run_loop::{
    CheckpointAddress, CheckpointWrite, CheckpointWrites, Checkpointer, CheckpointerError,
    ExternalInput, Source, StoredCheckpoint, TaskRecords, WriteHint, WriteResult,
};
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, CheckpointStore, NewCheckpoint, NewPending, Pending,
    StoreError,
};
use weftwork_types::canonical::{Hash, first_128};
use weftwork_types::event::AiEvent;
use weftwork_types::sequence::SequenceWrite;
use weftwork_types::{BoxFuture, CheckpointId, Principal, ThreadId};

/// A checkpointer over a store: one row for each superstep, written in one transaction. Clones
/// share it.
///
/// It claims nothing: execute only one run of a thread at a time, and none on a thread of a
/// [`Runtime`](crate::Runtime). Two concurrent runs both continue from where each began, both
/// perform the side effects of their nodes, and the thread has the state that was written last. A
/// [`Runtime`](crate::Runtime) refuses the second run, in any process.
#[derive(Debug, Clone)]
pub struct StoreCheckpointer {
    store: Arc<dyn CheckpointStore>,
    who: Principal,
    /// Owner of the threads; `None` if they have the ids that they are named by.
    owner: Option<ThreadId>,
    layouts: Arc<Mutex<BTreeMap<LayoutId, Arc<Layout>>>>,
    /// Writes for a run that a worker has claimed.
    claimed: Option<Arc<dyn Claimed>>,
    recent: RecentUse,
}

/// Use of the cache of newest checkpoints.
#[derive(Debug, Clone)]
enum RecentUse {
    None,
    /// Decoded checkpoints are added, and all are read from the store: a damaged row is found.
    Fill(Arc<Recent>),
    /// Written checkpoints are added, and the newest is taken from the cache if it is there.
    Full(Arc<Recent>),
}

/// Rows to store, and the base for the next checkpoint.
struct Bundle {
    batch: CheckpointBatch,
    hint: WriteHint,
    report: CheckpointReport,
}

impl StoreCheckpointer {
    /// Creates a checkpointer over `store` for the organisation of `who`.
    #[must_use]
    pub fn new(store: Arc<dyn CheckpointStore>, who: Principal) -> Arc<Self> {
        Arc::new(Self::new_unclaimed(store, who, None))
    }

    /// Creates a checkpointer for threads that belong to another one, such as that of a session.
    /// Their ids are derived from the id of the owner and their names, so that owners do not share
    /// threads of equal names.
    #[must_use]
    pub fn owned_by(owner: ThreadId, store: Arc<dyn CheckpointStore>, who: Principal) -> Arc<Self> {
        Arc::new(Self::new_unclaimed(store, who, Some(owner)))
    }

    fn new_unclaimed(
        store: Arc<dyn CheckpointStore>,
        who: Principal,
        owner: Option<ThreadId>,
    ) -> Self {
        Self { store, who, owner, layouts: Arc::default(), claimed: None, recent: RecentUse::None }
    }

    /// Creates a checkpointer for a run that a worker has claimed, with writes in that run's
    /// commits.
    pub(crate) fn claimed(
        store: Arc<dyn CheckpointStore>,
        who: Principal,
        run: Arc<dyn Claimed>,
        recent: Arc<Recent>,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            who,
            owner: None,
            layouts: Arc::default(),
            claimed: Some(run),
            recent: RecentUse::Full(recent),
        })
    }

    /// Creates a checkpointer that reads the threads of runs which are about to begin.
    pub(crate) fn admitting(
        store: Arc<dyn CheckpointStore>,
        who: Principal,
        recent: Arc<Recent>,
    ) -> Arc<Self> {
        Arc::new(Self { recent: RecentUse::Fill(recent), ..Self::new_unclaimed(store, who, None) })
    }

    /// Encodes checkpoints as rows.
    fn bundle_rows(
        &self,
        at: &CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> Result<Bundle, EngineError> {
        let mut bundle = Bundle {
            batch: CheckpointBatch::default(),
            hint: hint.clone(),
            report: CheckpointReport::default(),
        };
        for put in puts {
            self.add_checkpoint(at, *put, &mut bundle)?;
        }
        Ok(bundle)
    }

    fn add_checkpoint(
        &self,
        at: &CheckpointAddress,
        put: CheckpointWrite,
        bundle: &mut Bundle,
    ) -> Result<(), EngineError> {
        let CheckpointWrite { checkpoint, of, mut tasks, ended, due } = put;
        bundle.report.records.extend(take_records(&mut tasks));
        let id = checkpoint.id;
        let plan = checkpoint.machine.plan();
        let rest = row::write_metadata(&checkpoint.metadata, checkpoint.parent);
        let since = bundle.hint.mark.take();
        if self.claimed.is_some() && at.ns.is_empty() {
            let report = &mut bundle.report;
            report.begins_branch |= checkpoint.metadata.branch == Some(id);
            report.is_last = checkpoint.machine.is_done()?;
            if checkpoint.metadata.source != Source::Input {
                report.messages.extend(new_messages(&checkpoint.machine, since.as_deref(), &ended));
            }
        }
        if self.claimed.is_some() {
            bundle.report.events.push(checkpoint_event(&at.ns, &checkpoint, ended, due)?);
        }
        let encoded = encode(&checkpoint.machine, id, since.as_deref(), &rest)?;
        let mut body = encoded.bytes;
        // The tasks of the newest checkpoint are in the row after it; others had one before.
        let in_row = bundle.hint.newest && !tasks.is_empty();
        let text = if in_row { Text::of(&body) } else { None };
        row::seal(Kind::Checkpoint, &at.ns, id, &mut body);
        let mut new = NewCheckpoint {
            ns: at.ns.to_string(),
            id,
            of: None,
            tasks: Vec::new(),
            body,
            blobs: encoded.blobs.iter().map(|(hash, _)| *hash).collect(),
        };
        bundle.batch.blobs.extend(encoded.blobs);
        if let Some(of) = of.filter(|_| !tasks.is_empty()) {
            if in_row {
                let known = text.map(|text| ReferenceRow { off: id.0.wrapping_sub(of.0), text });
                let (tasks, blobs) = tasks_row(plan, at, of, &tasks, known)?;
                (new.of, new.tasks) = (Some(of), tasks);
                new.blobs.extend(blobs.iter().map(|(hash, _)| *hash));
                bundle.batch.blobs.extend(blobs);
            } else {
                self.add_pending(plan, at, of, &tasks, &mut bundle.batch)?;
            }
        }
        bundle.batch.checkpoints.push(new);
        self.add_layout(plan, &mut bundle.batch);
        bundle.hint = WriteHint { mark: Some(Arc::new(encoded.delta_base)), newest: true };
        if let RecentUse::Full(recent) = &self.recent
            && at.ns.is_empty()
        {
            let key = (self.who.org.clone(), Arc::clone(&at.thread));
            recent.insert(key, id, checkpoint.machine, bundle.hint.clone());
        }
        Ok(())
    }

    fn add_pending(
        &self,
        plan: &Plan,
        at: &CheckpointAddress,
        of: CheckpointId,
        tasks: &TaskRecords,
        batch: &mut CheckpointBatch,
    ) -> Result<(), EngineError> {
        let (body, blobs) = tasks_row(plan, at, of, tasks, None)?;
        let hashes = blobs.iter().map(|(hash, _)| *hash).collect();
        let ns = at.ns.to_string();
        let what = Pending::Tasks;
        batch.pending.push(NewPending { ns, of, what, body, blobs: hashes });
        batch.blobs.extend(blobs);
        self.add_layout(plan, batch);
        Ok(())
    }

    /// Adds the names that rows leave out, unless the store has them.
    fn add_layout(&self, plan: &Plan, batch: &mut CheckpointBatch) {
        let layout = plan.layout();
        let known = self.lock_layouts().contains_key(&layout.id());
        let key = layout.id().key();
        if !known && batch.layouts.iter().all(|(other, _)| *other != key) {
            batch.layouts.push((key, layout.bytes().to_vec()));
        }
    }

    fn lock_layouts(&self) -> std::sync::MutexGuard<'_, BTreeMap<LayoutId, Arc<Layout>>> {
        self.layouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts the name of a thread into its id in the store.
    fn thread_id(&self, name: &str) -> Result<ThreadId, CheckpointerError> {
        if let Some(owner) = &self.owner {
            let bits = first_128(&format!("{owner}\u{0}{name}"));
            return Ok(ThreadId::from_uuid(uuid::Uuid::from_u128(bits)));
        }
        ThreadId::new(name).map_err(|error| {
            let location = "the thread of a checkpoint".to_owned();
            let expected = "a valid name".to_owned();
            StoreError::Conflict { location, expected, found: error.to_string() }.into()
        })
    }

    fn checkpoint_namespace(
        &self,
        at: &CheckpointAddress,
    ) -> Result<CheckpointNamespace, CheckpointerError> {
        Ok(CheckpointNamespace { thread: self.thread_id(&at.thread)?, ns: at.ns.to_string() })
    }

    /// Makes the checkpoints at this address readable.
    async fn show(&self, at: &CheckpointAddress) -> Result<(), CheckpointerError> {
        match self.claimed.as_ref().and_then(|run| run.show(&at.ns)) {
            Some(shown) => Ok(shown.await?),
            None => Ok(()),
        }
    }

    async fn store_batch(
        &self,
        at: &CheckpointAddress,
        plan: &Plan,
        batch: CheckpointBatch,
        report: CheckpointReport,
    ) -> Result<(), CheckpointerError> {
        let layouts = !batch.layouts.is_empty();
        match &self.claimed {
            Some(run) => run.commit_batch(batch, report).await?,
            None => {
                self.store.put_checkpoints(&self.who, &self.thread_id(&at.thread)?, batch).await?
            }
        }
        if layouts {
            let layout = plan.layout();
            self.lock_layouts().insert(layout.id(), Arc::new(layout.clone()));
        }
        Ok(())
    }
}

/// Takes the writes of records by tasks, in the order of the tasks.
fn take_records(tasks: &mut TaskRecords) -> impl Iterator<Item = SequenceWrite> {
    tasks.iter_mut().flat_map(|(_, record)| std::mem::take(&mut record.records))
}

fn tasks_row(
    plan: &Plan,
    at: &CheckpointAddress,
    of: CheckpointId,
    tasks: &TaskRecords,
    known: Option<ReferenceRow>,
) -> Result<row::Written, EngineError> {
    let (mut body, blobs) = row::write_tasks(plan, tasks, known)?;
    row::seal(Kind::Tasks, &at.ns, of, &mut body);
    Ok((body, blobs))
}

impl Checkpointer for StoreCheckpointer {
    fn load<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        id: Option<CheckpointId>,
    ) -> BoxFuture<'a, Result<Option<StoredCheckpoint>, CheckpointerError>> {
        Box::pin(async move {
            self.show(at).await?;
            let shelf = self.checkpoint_namespace(at)?;
            let Some(found) = self.store.checkpoint(&self.who, &shelf, id).await? else {
                return Ok(None);
            };
            let newest = id.is_none();
            self.reader(&shelf, plan).saved(found, newest).await.map(Some)
        })
    }

    fn newest<'a>(
        &'a self,
        at: &'a CheckpointAddress,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>> {
        Box::pin(async move {
            self.show(at).await?;
            let found =
                self.store.checkpoint(&self.who, &self.checkpoint_namespace(at)?, None).await?;
            Ok(found.map(|found| found.id))
        })
    }

    fn newest_of_all<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<CheckpointId>, CheckpointerError>> {
        Box::pin(async move { Ok(self.store.newest_id(&self.who, &self.thread_id(name)?).await?) })
    }

    fn list<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        before: Option<CheckpointId>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredCheckpoint>, CheckpointerError>> {
        Box::pin(async move {
            self.show(at).await?;
            let shelf = self.checkpoint_namespace(at)?;
            let page = self.store.page(&self.who, &shelf, before, limit).await?;
            let mut reader = self.reader(&shelf, plan);
            // Outcomes of the tasks of a checkpoint refer to the row of the next one.
            page.iter().for_each(|found| reader.know(found));
            let mut all = Vec::with_capacity(page.len());
            for found in page {
                all.push(reader.saved(found, false).await?);
            }
            Ok(all)
        })
    }

    fn put<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        hint: &WriteHint,
        puts: CheckpointWrites,
    ) -> WriteResult<'a> {
        let plans: SmallVec<[Arc<Plan>; 1]> =
            puts.first().map(|put| Arc::clone(put.checkpoint.machine.plan())).into_iter().collect();
        let Bundle { batch, hint, report } = match self.bundle_rows(at, hint, puts) {
            Ok(bundle) => bundle,
            Err(error) => return WriteResult::Now(Err(error.into())),
        };
        WriteResult::Later(Box::pin(async move {
            if let Some(plan) = plans.first() {
                self.store_batch(at, plan, batch, report).await?;
            }
            Ok(hint)
        }))
    }

    fn put_tasks<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        mut tasks: TaskRecords,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        Box::pin(async move {
            let mut batch = CheckpointBatch::default();
            self.add_pending(plan, at, of, &tasks, &mut batch)?;
            let records = take_records(&mut tasks).collect();
            let ended = tasks.into_iter().filter_map(|(_, record)| record.ended.map(|end| *end));
            let ended: Vec<_> = ended.collect();
            let mut report = CheckpointReport { records, ..CheckpointReport::default() };
            if !ended.is_empty() {
                let ns = at.ns.to_string();
                let checkpoint = of;
                report.events.push(AiEvent::TasksEnded { ns, checkpoint, ended });
            }
            self.store_batch(at, plan, batch, report).await
        })
    }

    fn put_outside<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        of: CheckpointId,
        mut outside: ExternalInput,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        Box::pin(async move {
            if outside.resume.is_none() {
                let before = self.load(at, plan, Some(of)).await?;
                outside.resume = before.and_then(|saved| saved.outside.resume);
            }
            let (mut body, blobs) = row::write_outside(plan, &outside)?;
            row::seal(Kind::Outside, &at.ns, of, &mut body);
            let hashes: Vec<Hash> = blobs.iter().map(|(hash, _)| *hash).collect();
            let ns = at.ns.to_string();
            let what = Pending::Outside;
            let pending = vec![NewPending { ns, of, what, body, blobs: hashes }];
            let mut batch = CheckpointBatch { pending, blobs, ..CheckpointBatch::default() };
            self.add_layout(plan, &mut batch);
            self.store_batch(at, plan, batch, CheckpointReport::default()).await
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        Box::pin(async move {
            Ok(self.store.delete_checkpoints(&self.who, &self.thread_id(name)?).await?)
        })
    }

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        Box::pin(async move {
            let from = self.thread_id(from)?;
            let to = self.thread_id(to)?;
            Ok(self.store.copy_checkpoints(&self.who, &from, &to).await?)
        })
    }

    fn graphs<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Arc<str>>, CheckpointerError>> {
        Box::pin(async move {
            let shelves =
                self.store.checkpoint_namespaces(&self.who, &self.thread_id(name)?).await?;
            Ok(shelves.into_iter().map(|shelf| shelf.ns.into()).collect())
        })
    }

    fn prune<'a>(
        &'a self,
        at: &'a CheckpointAddress,
        plan: &'a Arc<Plan>,
        batch: usize,
    ) -> BoxFuture<'a, Result<(), CheckpointerError>> {
        Box::pin(async move { self.prune_to(at, plan, batch).await })
    }
}

impl StoreCheckpointer {
    /// Rewrites the retained checkpoints, so that they refer to none of the deleted ones.
    async fn prune_to(
        &self,
        at: &CheckpointAddress,
        plan: &Arc<Plan>,
        batch: usize,
    ) -> Result<(), CheckpointerError> {
        let mut kept = self.list(at, plan, None, batch).await?;
        let Some(newest) = kept.first().map(|saved| saved.checkpoint.id) else { return Ok(()) };
        kept.reverse();
        let mut rows = Bundle {
            batch: CheckpointBatch::default(),
            hint: WriteHint::default(),
            report: CheckpointReport::default(),
        };
        for saved in kept {
            let StoredCheckpoint { checkpoint, tasks, outside, .. } = saved;
            let of = checkpoint.id;
            self.add_checkpoint(
                at,
                CheckpointWrite {
                    checkpoint,
                    of: None,
                    tasks: TaskRecords::new(),
                    ended: Vec::new(),
                    due: None,
                },
                &mut rows,
            )?;
            // The pending rows of the newest checkpoint stay in the store unchanged.
            if of == newest {
                continue;
            }
            if !tasks.is_empty() {
                self.add_pending(plan, at, of, &tasks, &mut rows.batch)?;
            }
            let output = &outside.output;
            let wrote = !(output.writes.is_empty() && output.goto.is_empty());
            if wrote || !output.named.is_empty() || outside.resume.is_some() {
                let (mut body, blobs) = row::write_outside(plan, &outside)?;
                row::seal(Kind::Outside, &at.ns, of, &mut body);
                let hashes = blobs.iter().map(|(hash, _)| *hash).collect();
                let ns = at.ns.to_string();
                let what = Pending::Outside;
                rows.batch.pending.push(NewPending { ns, of, what, body, blobs: hashes });
                rows.batch.blobs.extend(blobs);
            }
        }
        Ok(self
            .store
            .rewrite(&self.who, &self.checkpoint_namespace(at)?, newest, rows.batch)
            .await?)
    }
}
