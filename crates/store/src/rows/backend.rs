//! Operations on rows: read, apply, write under conditions, and repeat after conflicts.

use super::encode::{encode, frame, guard_of, kind, of_hash, of_org, references};
use super::load::Loader;
use super::{ATTEMPTS_MAX, Batch, Key, Order, Rows, Value, Written};
use crate::StoreError;
use crate::memory::scope::Scope;
use crate::memory::{Backend, Tables};
use crate::table::Result;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::{BoxFuture, OrgId};

/// Number of checkpoints that a collection of blobs reads at once.
const CHECKPOINT_ROWS: usize = 50;

/// Executes the operations of a [`RowStore`](super::RowStore).
#[derive(Debug)]
pub struct RowBackend<R> {
    rows: R,
}

impl<R: Rows> RowBackend<R> {
    pub(super) fn new(rows: R) -> Self {
        Self { rows }
    }

    async fn loaded(&self, scope: &Scope) -> Result<Loader<'_, R>> {
        let mut loader = Loader::new(&self.rows);
        let mut loaded = loader.load(scope).await;
        // The rows may be those of several moments.
        if matches!(loaded, Err(StoreError::Corrupt { .. })) && !loader.is_current().await? {
            loader = Loader::new(&self.rows);
            loaded = loader.load(scope).await;
        }
        loaded.map(|()| loader)
    }

    /// Writes a batch. If the database does not know whether it was written, the guards of the batch
    /// tell: no other batch gives them the same contents.
    async fn write_batch(&self, batch: Batch) -> Result<Written> {
        let is_guard = |key: &Key| guard_of(key).as_ref() == Some(key);
        let guards = batch.writes.iter().filter(|(key, _)| is_guard(key));
        let guards: BTreeMap<Key, Option<Value>> = guards.cloned().collect();
        let written = self.rows.write(batch).await;
        if guards.is_empty() || !written.as_ref().is_err_and(StoreError::is_retriable) {
            return written;
        }
        match self.rows.get(guards.keys().cloned().collect()).await {
            Ok(found) if guards.values().eq(&found) => Ok(Written::Done),
            _ => written,
        }
    }

    /// Deletes unused blobs once. Returns `None` if some of them may be in use again.
    async fn collect_once(&self, org: &OrgId) -> Result<Option<u64>> {
        // The stamps are read before the references: each batch that adds a reference afterwards
        // changes the stamp of its blob. The number of collections detects stamps that were deleted
        // and written again in between.
        let collection = of_org(kind::COLLECTION, org);
        let before = self.rows.get(vec![collection.clone()]).await?.pop().flatten();
        let mut loader = Loader::new(&self.rows);
        let mut unused: BTreeMap<Key, Value> =
            loader.scan_all(of_org(kind::STAMP, org).range()).await?.into_iter().collect();
        for kind in [kind::CHECKPOINT, kind::OPEN] {
            let mut range = of_org(kind, org).range();
            loop {
                let found =
                    self.rows.scan(range.clone(), Order::Ascending, CHECKPOINT_ROWS).await?;
                let Some((last, _)) = found.last() else { break };
                range.first = last.clone().byte(0);
                for (key, value) in found {
                    for hash in references(&key, &value)? {
                        unused.remove(&of_hash(kind::STAMP, org, &hash));
                    }
                }
            }
        }
        if unused.is_empty() {
            return Ok(Some(0));
        }
        let count = unused.len() as u64;
        let number = frame(&[&digest(before.as_deref(), &BTreeMap::new())]);
        let blobs = unused.keys().map(|stamp| stamp.clone().with_kind(kind::BLOB));
        let gone = unused.keys().cloned().chain(blobs).map(|key| (key, None));
        let writes = gone.chain([(collection.clone(), Some(number))]).collect();
        let unused = unused.into_iter().map(|(key, stamp)| (key, Some(stamp)));
        let expected = unused.chain([(collection, before)]).collect();
        let written = self.rows.write(Batch { expected, writes }).await?;
        Ok((written == Written::Done).then_some(count))
    }
}

impl<R: Rows> Backend for RowBackend<R> {
    const IS_PARTIAL: bool = true;

    fn location(&self) -> &str {
        self.rows.location()
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        scope: Scope,
        work: impl FnOnce(&mut Tables) -> Result<T> + Clone + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS_MAX {
                let mut loader = self.loaded(&scope).await?;
                let result = work.clone()(&mut loader.tables);
                if loader.is_current().await? {
                    return result;
                }
            }
            Err(contended(self.rows.location()))
        })
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        scope: Scope,
        work: impl FnOnce(&mut Tables) -> Result<T> + Clone + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS_MAX {
                let mut loader = self.loaded(&scope).await?;
                let before = encode(&loader.tables)?;
                let result = work.clone()(&mut loader.tables);
                let batch = match &result {
                    Ok(_) => batch(&loader, &before)?,
                    Err(_) => None,
                };
                let is_done = match batch {
                    Some(batch) => self.write_batch(batch).await? == Written::Done,
                    None => loader.is_current().await?,
                };
                if is_done {
                    return result;
                }
            }
            Err(contended(self.rows.location()))
        })
    }

    fn collect_blobs<'a>(&'a self, org: &'a OrgId) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS_MAX {
                if let Some(count) = self.collect_once(org).await? {
                    return Ok(count);
                }
            }
            Err(contended(self.rows.location()))
        })
    }
}

/// Creates the error for an operation whose rows were changed by others in each attempt.
pub(super) fn contended(location: &str) -> StoreError {
    StoreError::Unavailable {
        location: location.to_owned(),
        reason: format!("others changed the same rows in each of {ATTEMPTS_MAX} attempts"),
        retriable: true,
    }
}

/// Returns the changes of an operation, given the rows of the tables before it; `None` if there are
/// none.
fn batch<R: Rows>(loader: &Loader<'_, R>, before: &BTreeMap<Key, Value>) -> Result<Option<Batch>> {
    let after = encode(&loader.tables)?;
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let mut writes: BTreeMap<Key, Option<Value>> =
        changed.map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    writes.extend(gone.map(|key| (key.clone(), None)));
    let bodies = &loader.tables.checkpoints.blobs;
    let bodies: BTreeMap<Key, &Vec<u8>> =
        bodies.iter().map(|((org, hash), body)| (of_hash(kind::STAMP, org, hash), body)).collect();
    let is_new = |key: &&Key| loader.expected.get(*key).is_some_and(Option::is_none);
    if writes.is_empty() && !bodies.keys().any(|key| is_new(&key)) {
        return Ok(None);
    }
    let changes = digest(None, &writes);
    let stamps = loader.expected.iter().filter(|(key, _)| key.parts().0 == kind::STAMP);
    for (key, stamp) in stamps {
        if stamp.is_none() {
            let Some(body) = bodies.get(key) else { continue };
            writes.insert(key.clone().with_kind(kind::BLOB), Some(frame(&[body])));
        }
        let next = chain(&changes, key, loader.expected.values().flatten());
        writes.insert(key.clone(), Some(next));
    }
    let guards: BTreeSet<Key> = writes.keys().filter_map(guard_of).collect();
    let kept: BTreeSet<Key> = after.keys().filter_map(guard_of).collect();
    let mut expected = loader.expected.clone();
    for guard in guards {
        let known = expected.entry(guard.clone()).or_default();
        let next = kept.contains(&guard).then(|| chain(&changes, &guard, known.iter()));
        writes.insert(guard, next);
    }
    let expected = expected.into_iter().collect();
    Ok(Some(Batch { expected, writes: writes.into_iter().collect() }))
}

/// Returns the next content of a row that must differ from all contents that it ever had, unless the
/// rows that it stands for are the same as then.
fn chain<'v>(changes: &[u8; 32], key: &Key, before: impl Iterator<Item = &'v Value>) -> Value {
    let mut bytes = changes.to_vec();
    bytes.extend(key.as_bytes());
    before.for_each(|value| bytes.extend(value));
    frame(&[&hash_bytes(&bytes).0])
}

fn digest(before: Option<&[u8]>, writes: &BTreeMap<Key, Option<Value>>) -> [u8; 32] {
    let mut bytes = before.unwrap_or_default().to_vec();
    for (key, value) in writes {
        let value = value.as_deref();
        let Hash(hash) = hash_bytes(value.unwrap_or_default());
        bytes.extend(key.as_bytes());
        bytes.push(u8::from(value.is_some()));
        bytes.extend(hash);
    }
    hash_bytes(&bytes).0
}
