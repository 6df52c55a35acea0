//! Reads the rows of an operation into tables.

use super::encode::{
    self, corrupt, decode, guard, kind, of_hash, of_org, of_place, of_sequence, of_start,
    of_subject, of_thread,
};
use super::{Key, KeyRange, Order, Rows, Value};
use crate::StoreError;
use crate::bill::BilledTo;
use crate::limit::{StartPlace, StartSpan};
use crate::memory::bill::Place;
use crate::memory::scope::{Need, Scope};
use crate::memory::{Tables, Thread};
use crate::sequence::{Sequence, SequenceQuery};
use crate::table::Result;
use std::collections::BTreeMap;
use weftwork_types::run::RunRef;
use weftwork_types::{InvocationId, OrgId, RunId, ThreadId};

/// Number of rows that one call reads.
const PAGE_ROWS: usize = 1_000;

/// The tables of an operation, and the rows on which it depends.
#[derive(Debug)]
pub(super) struct Loader<'r, R> {
    rows: &'r R,
    pub(super) tables: Tables,
    /// Rows on which the operation depends, as they were read.
    pub(super) expected: BTreeMap<Key, Option<Value>>,
    /// Number of calls that read rows.
    pub(super) calls: usize,
}

impl<'r, R: Rows> Loader<'r, R> {
    pub(super) fn new(rows: &'r R) -> Self {
        Self { rows, tables: Tables::default(), expected: BTreeMap::new(), calls: 0 }
    }

    pub(super) async fn load(&mut self, scope: &Scope) -> Result<()> {
        for need in &scope.0 {
            self.load_need(need).await?;
        }
        // Runs are numbered by age within their thread, and by thread.
        let mut count = 0;
        for thread in self.tables.threads.values_mut() {
            for run in &mut thread.runs {
                count += 1;
                run.number = count;
            }
        }
        self.tables.run_count = count;
        Ok(())
    }

    async fn load_need(&mut self, need: &Need) -> Result<()> {
        match need {
            Need::Thread(org, id, parts) => {
                self.load_thread(org, id).await?;
                for part in parts {
                    self.load_part(org, id, part).await?;
                }
                Ok(())
            }
            Need::Threads(org) => self.load_threads(org).await,
            Need::Active => self.load_active().await,
            Need::Run(org, run) => {
                let key = of_org(kind::RUN_ID, org).text(run);
                let Some(thread) = self.expect(key.clone()).await? else { return Ok(()) };
                let thread: ThreadId = encode::read_json(&key, &thread)?;
                self.load_thread(org, &thread).await
            }
            Need::RequestKey(org, name) => {
                let key = of_org(kind::REQUEST_KEY, org).text(name);
                let Some(at) = self.expect(key.clone()).await? else { return Ok(()) };
                let at: RunRef = encode::read_json(&key, &at)?;
                self.load_thread(org, &at.thread).await
            }
            Need::Untouched { org, which } => {
                let mut listed = Loader::new(self.rows);
                listed.load_threads(org).await?;
                self.calls += listed.calls;
                for row in listed.tables.untouched(org, *which) {
                    self.load_thread(org, &row.id).await?;
                    self.load_everything(org, &row.id).await?;
                }
                Ok(())
            }
            Need::EndedBefore { org, at } => {
                let mut listed = Loader::new(self.rows);
                listed.load_threads(org).await?;
                self.calls += listed.calls;
                let ended = |thread: &&Thread| {
                    let mut ends = thread.runs.iter().filter_map(|run| run.row.ended_at);
                    ends.any(|end| end < *at)
                };
                for thread in listed.tables.threads.values().filter(ended) {
                    self.load_thread(org, &thread.row.id).await?;
                    self.load_prefix(of_thread(kind::EVENT, org, &thread.row.id)).await?;
                }
                Ok(())
            }
            Need::Workers => self.load_prefix(Key::kind(kind::WORKER)).await,
            Need::Worker(id) => self.load_expected(Key::kind(kind::WORKER).text(id)).await,
            Need::Usage(org, invocation) => {
                self.load_expected(of_org(kind::USAGE, org).text(invocation)).await
            }
            Need::UsageOfRun { org, run } => self.load_usage(org, run).await,
            Need::Unmoved { limit } => self.load_unmoved(*limit).await,
            Need::Bill { org, subject } => {
                for kind in [kind::MODEL_CALL, kind::RECEIPT] {
                    let start = match subject {
                        Some(subject) => of_subject(kind, org, subject),
                        None => of_org(kind, org),
                    };
                    self.load_prefix(start).await?;
                }
                Ok(())
            }
            Need::AllUsage { org, of } => self.load_all_usage(org, of).await,
            Need::Bills => self.load_prefix(Key::kind(kind::MODEL_CALL)).await,
            Need::Starts(places) => {
                for place in places {
                    self.load_expected(of_start(place)).await?;
                }
                Ok(())
            }
            Need::Blob { org, hash } => self.load_keys(vec![of_hash(kind::BLOB, org, hash)]).await,
            Need::Layout { org, hash } => {
                self.load_keys(vec![of_hash(kind::LAYOUT, org, hash)]).await
            }
            Need::Records { org, query } => self.load_records(org, query).await,
            Need::Sequence { org, sequence, up_to } => {
                self.load_sequence(org, sequence, *up_to).await
            }
            Need::Item(org, at) => {
                self.expect(of_org(kind::ITEMS, org)).await?;
                let key = of_org(kind::ITEM, org).text(at.namespace().path()).text(at.key());
                self.load_keys(vec![key]).await
            }
            Need::Items(org) => {
                self.expect(of_org(kind::ITEMS, org)).await?;
                self.load_prefix(of_org(kind::ITEM, org)).await
            }
            Need::AllItems => {
                for (key, value) in self.scan_all(Key::kind(kind::ITEMS).range()).await? {
                    self.expected.insert(key, Some(value));
                }
                self.load_prefix(Key::kind(kind::ITEM)).await
            }
        }
    }

    /// Loads a thread with its runs and questions.
    pub(super) async fn load_thread(&mut self, org: &OrgId, id: &ThreadId) -> Result<()> {
        let guard = guard(org, id);
        if self.expected.contains_key(&guard) {
            return Ok(());
        }
        let rows = self.scan_all(of_thread(kind::THREAD, org, id).range()).await?;
        let found = rows.iter().find(|(key, _)| *key == guard).map(|(_, value)| value.clone());
        self.expected.insert(guard, found);
        self.decode(&rows)
    }

    /// Loads the threads of an organisation with their runs and questions, each as of one moment.
    async fn load_threads(&mut self, org: &OrgId) -> Result<()> {
        let KeyRange { mut first, end } = of_org(kind::THREAD, org).range();
        loop {
            let range = KeyRange { first: first.clone(), end: end.clone() };
            let mut rows = self.scan(range, Order::Ascending, PAGE_ROWS).await?;
            let last = rows.last().filter(|_| rows.len() == PAGE_ROWS);
            let Some(last) = last.and_then(|(key, _)| thread_of(key)) else {
                return self.decode(&rows);
            };
            // The last thread may have more rows.
            let KeyRange { first: cut, end: next } = of_thread(kind::THREAD, org, &last).range();
            rows.retain(|(key, _)| *key < cut);
            self.decode(&rows)?;
            self.load_alone(org, &last).await?;
            first = next;
        }
    }

    async fn load_active(&mut self) -> Result<()> {
        for (key, _) in self.scan_all(Key::kind(kind::ACTIVE).range()).await? {
            let (_, mut parts) = key.parts();
            let org = parts.id::<OrgId>().ok_or_else(|| corrupt(&key, "it names no thread"))?;
            let id = parts.id::<ThreadId>().ok_or_else(|| corrupt(&key, "it names no thread"))?;
            match self.load_alone(&org, &id).await {
                // A thread that cannot be read does not stop workers.
                Err(StoreError::Corrupt { .. } | StoreError::Newer { .. }) => {
                    self.tables.threads.remove(&(org, id));
                }
                loaded => loaded?,
            }
        }
        Ok(())
    }

    /// Loads a thread that the operation does not change, as of one moment.
    async fn load_alone(&mut self, org: &OrgId, id: &ThreadId) -> Result<()> {
        for _ in 0..super::ATTEMPTS_MAX {
            let mut alone = Loader::new(self.rows);
            let loaded = alone.load_thread(org, id).await;
            let is_current = alone.is_current().await?;
            self.calls += alone.calls;
            if is_current {
                loaded?;
                self.tables.threads.extend(alone.tables.threads);
                self.tables.runs.extend(alone.tables.runs);
                self.tables.keys.extend(alone.tables.keys);
                return Ok(());
            }
        }
        Err(super::backend::contended(self.rows.location()))
    }

    pub(super) async fn load_usage(&mut self, org: &OrgId, run: &RunId) -> Result<()> {
        let index = self.scan_all(of_org(kind::USAGE_OF_RUN, org).text(run).range()).await?;
        let mut keys = Vec::new();
        for (key, _) in index {
            let (_, mut parts) = key.parts();
            parts.text().zip(parts.text());
            let invocation = parts.id::<InvocationId>();
            let invocation = invocation.ok_or_else(|| corrupt(&key, "it names no invocation"))?;
            keys.push(of_org(kind::USAGE, org).text(invocation));
        }
        self.load_keys(keys).await
    }

    /// Loads the usage facts of an organisation, its rows in the bill, and the starts of an account or
    /// key, which are to be changed.
    async fn load_all_usage(&mut self, org: &OrgId, of: &BilledTo) -> Result<()> {
        for span in [StartSpan::Moment, StartSpan::Quarter] {
            let place = StartPlace { subject: of.clone(), span };
            self.load_expected(of_start(&place)).await?;
        }
        for kind in [kind::USAGE, kind::MODEL_CALL, kind::RECEIPT] {
            let rows = self.scan_all(of_org(kind, org).range()).await?;
            self.decode(&rows)?;
            self.expected.extend(rows.into_iter().map(|(key, value)| (key, Some(value))));
        }
        Ok(())
    }

    /// Loads the oldest facts that are not yet moved, and their rows in the bill, on which the
    /// operation depends: another one may move them meanwhile.
    async fn load_unmoved(&mut self, limit: usize) -> Result<()> {
        let queue = self.scan_some(Key::kind(kind::UNMOVED).range(), limit).await?;
        self.decode(&queue)?;
        self.expected.extend(queue.into_iter().map(|(key, value)| (key, Some(value))));
        let facts = self.tables.bill.unmoved.iter();
        let facts = facts.map(|of| of_org(kind::USAGE, &of.org).text(&of.invocation)).collect();
        self.load_keys(facts).await?;
        let places: Vec<_> =
            self.tables.usage.iter().map(|((org, _), row)| Place::of(org, row)).collect();
        for kind in [kind::MODEL_CALL, kind::RECEIPT] {
            for place in &places {
                self.load_expected(of_place(kind, place)).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn load_sequence(
        &mut self,
        org: &OrgId,
        sequence: &Sequence,
        up_to: u64,
    ) -> Result<()> {
        self.load_expected(of_sequence(kind::SEQUENCE, org, sequence)).await?;
        if up_to == 0 {
            return Ok(());
        }
        let start = of_sequence(kind::RECORD, org, sequence);
        let KeyRange { first, end } = start.clone().range();
        let end = up_to.checked_add(1).map_or(end, |after| start.number(after));
        self.load_some(KeyRange { first, end }, usize::MAX).await
    }

    async fn load_records(&mut self, org: &OrgId, query: &SequenceQuery) -> Result<()> {
        let start = of_org(kind::RECORD, org).text(&query.kind);
        let KeyRange { end, .. } = match &query.last {
            Some(last) => start.clone().text(last).range(),
            None => start.clone().range(),
        };
        let of_first = start.text(&query.first);
        let first = match query.after.checked_add(1) {
            Some(after) => of_first.number(after),
            None => of_first.range().end,
        };
        self.load_some(KeyRange { first, end }, query.reads()).await
    }

    pub(super) async fn load_prefix(&mut self, start: Key) -> Result<()> {
        self.load_some(start.range(), usize::MAX).await
    }

    /// Loads the last row whose key begins with `start`.
    pub(super) async fn load_last(&mut self, start: Key) -> Result<()> {
        let found = self.scan(start.range(), Order::Descending, 1).await?;
        self.decode(&found)
    }

    pub(super) async fn load_some(&mut self, range: KeyRange, limit: usize) -> Result<()> {
        let rows = self.scan_some(range, limit).await?;
        self.decode(&rows)
    }

    pub(super) async fn load_keys(&mut self, keys: Vec<Key>) -> Result<()> {
        for (key, value) in self.get(keys).await? {
            if let Some(value) = value {
                decode(&mut self.tables, &key, &value)?;
            }
        }
        Ok(())
    }

    /// Loads a row on which the operation depends.
    pub(super) async fn load_expected(&mut self, key: Key) -> Result<()> {
        if let Some(value) = self.expect(key.clone()).await? {
            decode(&mut self.tables, &key, &value)?;
        }
        Ok(())
    }

    /// Returns a row on which the operation depends.
    async fn expect(&mut self, key: Key) -> Result<Option<Value>> {
        if !self.expected.contains_key(&key) {
            self.expect_all([key.clone()].into_iter()).await?;
        }
        Ok(self.expected.get(&key).cloned().flatten())
    }

    pub(super) async fn expect_all(
        &mut self,
        keys: impl Iterator<Item = Key> + Send,
    ) -> Result<()> {
        let keys: Vec<_> = keys.filter(|key| !self.expected.contains_key(key)).collect();
        let found = self.get(keys).await?;
        self.expected.extend(found);
        Ok(())
    }

    pub(super) fn decode(&mut self, rows: &[(Key, Value)]) -> Result<()> {
        rows.iter().try_for_each(|(key, value)| decode(&mut self.tables, key, value))
    }

    async fn get(&mut self, keys: Vec<Key>) -> Result<Vec<(Key, Option<Value>)>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.calls += 1;
        let found = self.rows.get(keys.clone()).await?;
        Ok(keys.into_iter().zip(found).collect())
    }

    pub(super) async fn scan_all(&mut self, range: KeyRange) -> Result<Vec<(Key, Value)>> {
        self.scan_some(range, usize::MAX).await
    }

    async fn scan_some(&mut self, range: KeyRange, limit: usize) -> Result<Vec<(Key, Value)>> {
        let KeyRange { mut first, end } = range;
        let mut all = Vec::new();
        while all.len() < limit {
            let wanted = PAGE_ROWS.min(limit - all.len());
            let rest = KeyRange { first, end: end.clone() };
            let page = self.scan(rest, Order::Ascending, wanted).await?;
            let is_last = page.len() < wanted;
            let after = page.last().map(|(key, _)| key.clone().byte(0));
            all.extend(page);
            match after {
                Some(after) if !is_last => first = after,
                _ => break,
            }
        }
        Ok(all)
    }

    pub(super) async fn scan(
        &mut self,
        range: KeyRange,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        if range.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        self.calls += 1;
        self.rows.scan(range, order, limit).await
    }

    /// Returns `true` if the rows on which the operation depends have not changed since they were read.
    pub(super) async fn is_current(&self) -> Result<bool> {
        if self.calls <= 1 || self.expected.is_empty() {
            return Ok(true);
        }
        let found = self.rows.get(self.expected.keys().cloned().collect()).await?;
        Ok(self.expected.values().eq(&found))
    }
}

/// Returns the thread of a row.
fn thread_of(key: &Key) -> Option<ThreadId> {
    let (_, mut parts) = key.parts();
    parts.text()?;
    parts.id()
}
