//! Calls with effects of the thread of a run that are recorded under the keys of other positions.

use crate::fork::{ForkOrigins, fork_origins};
use crate::patience::Patience;
use crate::stored::StoreCheckpointer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::OnceCell;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{
    AskedInput, CheckpointAddress, Checkpointer, CheckpointerError, MadeElsewhere, Plan,
    RecordedCalls,
};
use weftwork_store::approval::{ApprovalQuery, ApprovalRow, approvals};
use weftwork_store::sequence::SEQUENCE_ROWS_MAX;
use weftwork_store::{Store, StoreError};
use weftwork_types::approval::{ApprovalOutcome, Verdict};
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::port::Clock;
use weftwork_types::run::{RunInput, RunRef};
use weftwork_types::tool::Effect;
use weftwork_types::{CheckpointId, Principal, ThreadId};

/// Reads the calls that were recorded on branches of the thread that were rolled back, and on the
/// threads from which the thread was forked.
#[derive(Debug)]
pub(crate) struct ReadElsewhere {
    pub(super) store: Arc<dyn Store>,
    pub(super) checkpointer: Arc<StoreCheckpointer>,
    pub(super) plan: Arc<Plan>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) who: Principal,
    pub(super) run: RunRef,
    /// Id of the graph of the run.
    pub(super) graph: String,
    /// Checkpoint that the request names: its tasks are executed again.
    pub(super) at: Option<CheckpointId>,
    /// Newest checkpoint of the thread when the run began.
    pub(super) base: Option<CheckpointId>,
    pub(super) found: OnceCell<Arc<MadeElsewhere>>,
}

impl ReadElsewhere {
    /// Returns the calls; a temporarily unreachable store pauses the caller.
    pub(super) async fn calls(&self) -> Result<Arc<MadeElsewhere>, RuntimeError> {
        let found = self.found.get_or_try_init(|| async {
            let mut patience = Patience::new();
            loop {
                match self.read_calls().await {
                    Err(RuntimeError::Store(error)) => {
                        patience.after(error, self.clock.as_ref(), &self.run, None).await?;
                    }
                    found => return found.map(Arc::new),
                }
            }
        });
        found.await.map(Arc::clone)
    }

    async fn read_calls(&self) -> Result<MadeElsewhere, RuntimeError> {
        let thread = &self.run.thread;
        let mut found = MadeElsewhere::default();
        let runs = self.store.runs(&self.who, thread).await?;
        if self.at.is_none() && runs.iter().any(|row| row.rolled_back_by.is_some()) {
            found.rolled_back = self.calls_on(thread).await?;
        }
        let row = self.store.thread(&self.who, thread).await?;
        // Only tasks that are due at a copied checkpoint may have run on the other thread.
        let begins_at = self.at.or(self.base);
        let origins = fork_origins(self.store.as_ref(), &self.who, row, begins_at).await?;
        let ForkOrigins { threads, is_complete } = origins;
        found.is_incomplete = !is_complete;
        for origin in threads {
            found.of_origins.push(self.calls_on(&origin).await?);
        }
        Ok(found)
    }

    /// Returns the calls of a thread, with the branches on which they may have been recorded.
    async fn calls_on(&self, thread: &ThreadId) -> Result<RecordedCalls, RuntimeError> {
        let mut recorded = RecordedCalls::default();
        let mut ids = BTreeSet::new();
        for row in self.store.runs(&self.who, thread).await? {
            // The plan of this graph decodes no checkpoint of another one.
            if row.new.graph == self.graph {
                ids.extend(row.last_checkpoint);
            }
            // A copy of a checkpoint takes a superstep of its own.
            let copies = matches!(row.new.input, RunInput::Update { .. });
            recorded.supersteps += i64::from(copies);
        }
        let mut branches = BTreeSet::new();
        for id in ids {
            branches.extend(self.branch_of(thread, id).await?);
        }
        recorded.branches = branches.into_iter().collect();
        for call in self.store.calls(&self.who, thread).await? {
            // A call that changes nothing can be made again.
            if call.effect != Effect::ReadOnly {
                recorded.calls.insert(call.key, Arc::new(call));
            }
        }
        recorded.edited = self.edited_on(thread).await?;
        Ok(recorded)
    }

    /// Returns the inputs with which persons have approved calls of a thread in place of those of the
    /// model or node. Calls with secret arguments cannot be edited, so that the ones that were shown are
    /// the whole ones.
    async fn edited_on(
        &self,
        thread: &ThreadId,
    ) -> Result<BTreeMap<AskedInput, Vec<Hash>>, StoreError> {
        let mut edited: BTreeMap<AskedInput, Vec<Hash>> = BTreeMap::new();
        let thread = Some(thread.clone());
        let mut query = ApprovalQuery { thread, after: None, limit: SEQUENCE_ROWS_MAX };
        loop {
            let page = approvals(self.store.as_ref(), &self.who, query.clone()).await?;
            for ApprovalRow { record, .. } in page.rows {
                if let ApprovalOutcome::Decided(decision) = record.outcome
                    && let Verdict::Edit { args } = decision.verdict
                {
                    let input = hash(&record.request.args);
                    let asked = AskedInput { tool: record.request.tool, input };
                    edited.entry(asked).or_default().push(hash(&args));
                }
            }
            if page.next.is_none() {
                return Ok(edited);
            }
            query.after = page.next;
        }
    }

    /// Returns the branch of a checkpoint; `None` if the checkpoint is no longer stored.
    async fn branch_of(
        &self,
        thread: &ThreadId,
        id: CheckpointId,
    ) -> Result<Option<Option<CheckpointId>>, CheckpointerError> {
        let at = CheckpointAddress { thread: thread.as_str().into(), ns: "".into() };
        let stored = self.checkpointer.load(&at, &self.plan, Some(id)).await?;
        Ok(stored.map(|stored| stored.checkpoint.metadata.branch))
    }
}
