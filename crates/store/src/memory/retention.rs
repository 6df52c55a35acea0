//! Deletion of old data.

use super::scope::{Need, Scope};
use super::{Backend, TableStore, Tables, partial_scope};
use crate::record::ThreadRow;
use crate::retention::{Retention, Untouched};
use crate::table::Result;
use weftwork_types::run::RunStatus;
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

impl Tables {
    /// Deletes a thread with everything it owns.
    pub(super) fn delete(&mut self, of: &OrgId, id: &ThreadId) {
        self.threads.remove(&(of.clone(), id.clone()));
        self.checkpoints.delete(of, id);
        self.sequences.delete_of(of, id);
        self.runs.retain(|(org, _), thread| org != of || thread != id);
        self.keys.retain(|(org, _), at| org != of || at.thread != *id);
    }

    pub(crate) fn untouched(&self, of: &OrgId, which: Untouched) -> Vec<ThreadRow> {
        let ours = self.threads.iter().filter(|((org, _), _)| org == of);
        let mut found: Vec<_> = ours
            .map(|(_, thread)| thread)
            .filter(|thread| thread.is_at_rest() && which.has(&thread.row, thread.asks()))
            .map(|thread| &thread.row)
            .collect();
        found.sort_unstable_by_key(|row| (row.updated_at, &row.id));
        found.into_iter().take(which.limit).cloned().collect()
    }

    fn drop_events(&mut self, who: &Principal, ended_before: Timestamp, limit: usize) -> u64 {
        let mut old = Vec::new();
        for ((org, _), thread) in self.threads.iter_mut().filter(|((org, _), _)| *org == who.org) {
            let count = thread.runs.len();
            for (n, run) in thread.runs.iter_mut().enumerate() {
                let pinned = run.row.status == RunStatus::Failed && n + 1 == count;
                let ended_at = run.row.ended_at.filter(|at| *at < ended_before && !pinned);
                if let Some(at) = ended_at.filter(|_| run.events.len() > 1) {
                    old.push((at, org.clone(), run));
                }
            }
        }
        old.sort_unstable_by(|(a, _, first), (b, _, second)| {
            (a, &first.row.new.at.run).cmp(&(b, &second.row.new.at.run))
        });
        let dropped = old.into_iter().take(limit);
        dropped.map(|(_, _, run)| drop(run.events.drain(..run.events.len() - 1))).count() as u64
    }
}

impl<B: Backend> Retention for TableStore<B> {
    fn untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Threads(who.org.clone())));
        self.backend.read(scope, move |tables| Ok(tables.untouched(&who.org, which)))
    }

    fn delete_untouched<'a>(
        &'a self,
        who: &'a Principal,
        which: Untouched,
    ) -> BoxFuture<'a, Result<Vec<ThreadId>>> {
        let scope =
            partial_scope::<B>(|| Scope::of(Need::Untouched { org: who.org.clone(), which }));
        self.backend.write(scope, move |tables| {
            let found = tables.untouched(&who.org, which);
            let ids: Vec<_> = found.into_iter().map(|row| row.id).collect();
            ids.iter().for_each(|id| tables.delete(&who.org, id));
            Ok(ids)
        })
    }

    fn drop_events<'a>(
        &'a self,
        who: &'a Principal,
        ended_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<u64>> {
        let org = || who.org.clone();
        let scope =
            partial_scope::<B>(|| Scope::of(Need::EndedBefore { org: org(), at: ended_before }));
        self.backend.write(scope, move |tables| Ok(tables.drop_events(who, ended_before, limit)))
    }
}
