//! Threads in memory.

use super::scope::{Need, Part, Scope};
use super::{Backend, TableStore, Tables, Thread, partial_scope};
use crate::record::ThreadRow;
use crate::table::{ReadThreads, Result, WriteThreads};
use crate::thread::{
    Direction, FoundThread, IfExists, Metadata, NewThread, ThreadKey, ThreadPage, ThreadQuery,
    ThreadStatus, merge_metadata,
};
use crate::{invariants, mailbox};
use std::cmp::Reverse;
use weftwork_types::{BoxFuture, Principal, ThreadId, Timestamp};

impl<B: Backend> ReadThreads for TableStore<B> {
    fn thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, id));
        self.backend.read(scope, move |tables| Ok(tables.thread(who, id)?.row.clone()))
    }

    fn threads<'a>(
        &'a self,
        who: &'a Principal,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ThreadRow>>> {
        let scope = partial_scope::<B>(|| Scope::of(Need::Threads(who.org.clone())));
        self.backend.read(scope, move |tables| {
            let mut rows: Vec<_> = of(tables, who).map(|thread| &thread.row).collect();
            rows.sort_unstable_by_key(|row| Reverse((row.updated_at, &row.id)));
            Ok(rows.into_iter().skip(offset).take(limit).cloned().collect())
        })
    }

    fn search_threads<'a>(
        &'a self,
        who: &'a Principal,
        query: ThreadQuery,
    ) -> BoxFuture<'a, Result<ThreadPage>> {
        let scope = partial_scope::<B>(|| match &query.ids {
            Some(ids) => ids.iter().map(|id| Need::thread(&who.org, id)).collect(),
            None => Scope::of(Need::Threads(who.org.clone())),
        });
        self.backend.read(scope, move |tables| Ok(search(tables, who, &query)))
    }
}

impl<B: Backend> WriteThreads for TableStore<B> {
    fn create_thread<'a>(
        &'a self,
        who: &'a Principal,
        new: NewThread,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, &new.id));
        self.backend.write(scope, move |tables| {
            let row = new.row()?;
            let key = (who.org.clone(), new.id);
            match (tables.threads.get(&key), new.if_exists) {
                (Some(known), IfExists::Return) => Ok(known.row.clone()),
                (Some(_), IfExists::Refuse) => Err(invariants::thread_id_taken(&key.1)),
                (None, _) => {
                    tables.threads.insert(key, Thread::new(row.clone()));
                    Ok(row)
                }
            }
        })
    }

    fn update_metadata<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
        metadata: Metadata,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<ThreadRow>> {
        let scope = partial_scope::<B>(|| Scope::thread(&who.org, id));
        self.backend.write(scope, move |tables| {
            let key = (who.org.clone(), id.clone());
            let missing = || invariants::missing("thread", id);
            let row = &mut tables.threads.get_mut(&key).ok_or_else(missing)?.row;
            merge_metadata(id, &mut row.metadata, &metadata)?;
            row.updated_at = row.updated_at.max(now);
            Ok(row.clone())
        })
    }

    fn delete_thread<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a ThreadId,
    ) -> BoxFuture<'a, Result<()>> {
        let scope = partial_scope::<B>(|| Scope::part(&who.org, id, Part::Everything));
        self.backend.write(scope, move |tables| {
            let thread = tables.thread(who, id)?;
            mailbox::check_deletion(id, &thread.row.metadata)?;
            if let Some(run) = thread.open_run() {
                return Err(invariants::busy(&run.row.new.at));
            }
            tables.delete(&who.org, id);
            Ok(())
        })
    }
}

fn of<'t>(tables: &'t Tables, who: &Principal) -> impl Iterator<Item = &'t Thread> {
    tables.threads.iter().filter(|((org, _), _)| *org == who.org).map(|(_, thread)| thread)
}

fn search(tables: &Tables, who: &Principal, query: &ThreadQuery) -> ThreadPage {
    let found = of(tables, who).map(|thread| FoundThread {
        row: thread.row.clone(),
        status: ThreadStatus::of(thread.row.status, thread.unfinished_runs(), thread.asks()),
        damage: None,
    });
    let mut found: Vec<_> = found.filter(|found| query.has(&found.row, found.status)).collect();
    let order = query.order();
    found.sort_unstable_by(|a, b| match order.by {
        ThreadKey::CreatedAt => (a.row.created_at, &a.row.id).cmp(&(b.row.created_at, &b.row.id)),
        ThreadKey::UpdatedAt => (a.row.updated_at, &a.row.id).cmp(&(b.row.updated_at, &b.row.id)),
        ThreadKey::Id => a.row.id.cmp(&b.row.id),
    });
    if order.direction == Direction::Descending {
        found.reverse();
    }
    found.truncate(query.reads());
    query.page(found)
}
