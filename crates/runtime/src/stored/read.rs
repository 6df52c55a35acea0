//! Reading checkpoints back.

use super::StoreSaver;
use super::row::{self, Kind, Reader};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_engine::packed::{Elsewhere, In, Layout, LayoutId, Loader, Named, open_row};
use weftwork_engine::pregel::Machine;
use weftwork_engine::{EngineError, NodeIdx, Plan};
use weftwork_graph::exec::{Checkpoint, Memo, Outside, Records, Saved, SaverError};
use weftwork_store::{CheckpointNamespace, FoundCheckpoint, StoreError};
use weftwork_types::CheckpointId;
use weftwork_types::canonical::{Hash, hash_bytes};

/// Reads checkpoints of one graph of one thread. Rows that several of them lead to are read once.
pub(super) struct Reading<'a> {
    saver: &'a StoreSaver,
    shelf: &'a CheckpointNamespace,
    plan: &'a Arc<Plan>,
    rows: BTreeMap<CheckpointId, Vec<u8>>,
}

/// The most rows that are kept for the checkpoints that are read next.
const ROWS_MAX: usize = 1_024;

impl StoreSaver {
    pub(super) fn reader<'a>(
        &'a self,
        shelf: &'a CheckpointNamespace,
        plan: &'a Arc<Plan>,
    ) -> Reading<'a> {
        Reading { saver: self, shelf, plan, rows: BTreeMap::new() }
    }
}

impl Reading<'_> {
    /// Keeps the row of a checkpoint at hand; one that is damaged is told of when it is read.
    pub(super) fn know(&mut self, found: &FoundCheckpoint) {
        if self.rows.len() < ROWS_MAX
            && let Some(body) = row::open(Kind::Checkpoint, &self.shelf.ns, found.id, &found.body)
        {
            self.rows.insert(found.id, body.to_vec());
        }
    }

    pub(super) async fn saved(
        &mut self,
        found: FoundCheckpoint,
        newest: bool,
    ) -> Result<Saved, SaverError> {
        let FoundCheckpoint { id, body, outside, tasks } = found;
        let body = match self.rows.get(&id) {
            Some(known) => known.clone(),
            None => self.open(Kind::Checkpoint, id, body)?,
        };
        let rest = open_row(&body).and_then(|(_, mut read)| read.bytes());
        let read = rest.and_then(row::read_metadata);
        let (metadata, parent) = read.map_err(|error| self.at(id, error))?;
        let (machine, memo) = match self.recent(id).filter(|_| newest) {
            Some(known) => known,
            None => self.load(id, body, newest).await?,
        };
        let mut records = Records::new();
        for row in tasks {
            self.tasks(id, row, &mut records).await?;
        }
        for (_, record) in records.iter_mut().filter(|(_, record)| record.is_input) {
            // Input that a new build does not take any more is for the next run to refuse.
            record.output = machine.start_output().ok();
            record.untrack(self.plan, NodeIdx::START);
        }
        let outside = match outside {
            Some(row) => self.outside(id, row).await?,
            None => Outside::default(),
        };
        let checkpoint = Checkpoint { id, parent, metadata, machine };
        Ok(Saved { checkpoint, tasks: records, outside, memo })
    }

    fn recent(&self, id: CheckpointId) -> Option<(Machine, Memo)> {
        let recent = self.saver.recent.as_ref().filter(|_| self.shelf.ns.is_empty())?;
        let key = (self.saver.who.org.clone(), self.shelf.thread.as_str().into());
        recent.get(&key, id, self.plan)
    }

    async fn load(
        &mut self,
        id: CheckpointId,
        body: Vec<u8>,
        newest: bool,
    ) -> Result<(Machine, Memo), SaverError> {
        let layout = self.layout_of(id, &body).await?;
        let loader = Loader::new(self.plan, id, body, &layout);
        let mut loader = loader.map_err(|error| self.at(id, error))?;
        self.feed(id, &mut loader).await?;
        let loaded = loader.finish().map_err(|error| self.at(id, error))?;
        Ok((loaded.machine, Memo { mark: Some(Arc::new(loaded.mark)), newest }))
    }

    /// Gives the loader what it takes.
    async fn feed(&mut self, id: CheckpointId, loader: &mut Loader) -> Result<(), SaverError> {
        loop {
            let wants = loader.wants();
            if wants.is_empty() {
                return Ok(());
            }
            let (store, who) = (&self.saver.store, &self.saver.who);
            let rows = &self.rows;
            if wants.rows.iter().any(|row| !rows.contains_key(row)) {
                let all = wants.rows.iter().copied().chain(loader.soon());
                let missing: BTreeSet<_> = all.filter(|row| !rows.contains_key(row)).collect();
                let missing = missing.into_iter().collect();
                if self.rows.len() > ROWS_MAX {
                    self.rows.retain(|row, _| wants.rows.contains(row));
                }
                for (row, body) in store.checkpoint_bytes(who, self.shelf, missing).await? {
                    let body = self.open(Kind::Checkpoint, row, body)?;
                    self.rows.insert(row, body);
                }
            }
            for row in wants.rows {
                let lost = || self.corrupt(row, "it is missing, though others lead to it");
                let body = self.rows.get(&row).ok_or_else(lost)?;
                let layout = self.layout_of(row, body).await?;
                loader.row(row, body, &layout).map_err(|error| self.at(row, error))?;
            }
            for hash in wants.blobs {
                loader.blob(hash, self.blob(id, hash).await?);
            }
        }
    }

    async fn blob(&self, id: CheckpointId, hash: Hash) -> Result<Vec<u8>, SaverError> {
        let found = self.saver.store.blob(&self.saver.who, hash).await?;
        let whole = found.filter(|bytes| hash_bytes(bytes) == hash);
        whole.ok_or_else(|| self.corrupt(id, &format!("its blob `{hash}` is missing or damaged")))
    }

    /// The names that a row leaves out.
    async fn layout_of(&self, id: CheckpointId, body: &[u8]) -> Result<Arc<Layout>, SaverError> {
        let (key, _) = open_row(body).map_err(|error| self.at(id, error))?;
        self.layout(id, key).await
    }

    async fn layout(&self, id: CheckpointId, key: LayoutId) -> Result<Arc<Layout>, SaverError> {
        let known = self.saver.layouts().get(&key).cloned();
        if let Some(layout) = known {
            return Ok(layout);
        }
        let found = self.saver.store.layout(&self.saver.who, key.key()).await?;
        let bytes = found.ok_or_else(|| self.corrupt(id, "the names of its build are missing"))?;
        let layout = Layout::read(key, &bytes).map_err(|error| self.at(id, error))?;
        let layout = Arc::new(layout);
        self.saver.layouts().insert(key, Arc::clone(&layout));
        Ok(layout)
    }

    async fn tasks(
        &self,
        id: CheckpointId,
        row: Vec<u8>,
        records: &mut Records,
    ) -> Result<(), SaverError> {
        let read = |reader: &Reader<'_>, read: &mut In<'_>| reader.tasks(read);
        for (key, record) in self.row(Kind::Tasks, id, row, read).await? {
            match records.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => known.merge(record),
                None => records.push((key, record)),
            }
        }
        Ok(())
    }

    async fn outside(&self, id: CheckpointId, row: Vec<u8>) -> Result<Outside, SaverError> {
        let read = |reader: &Reader<'_>, read: &mut In<'_>| reader.outside(read);
        self.row(Kind::Outside, id, row, read).await
    }

    async fn row<T>(
        &self,
        kind: Kind,
        id: CheckpointId,
        row: Vec<u8>,
        read: impl Fn(&Reader<'_>, &mut In<'_>) -> Result<T, EngineError>,
    ) -> Result<T, SaverError> {
        let row = self.open(kind, id, row)?;
        let (key, start) = row::open_as(kind, &row).map_err(|error| self.at(id, error))?;
        let layout = self.layout(id, key).await?;
        let mapped = layout.mapped(self.plan).map_err(|error| self.at(id, error))?;
        // Values that are elsewhere are found by reading without them.
        let named = {
            let named = RefCell::new(Named::default());
            let note = |place| {
                match place {
                    Elsewhere::Apart(hash) => named.borrow_mut().note(hash),
                    Elsewhere::There(there) => named.borrow_mut().note_part(there),
                }
                Some(b"null".to_vec())
            };
            let reader = Reader { plan: self.plan, mapped: &mapped, elsewhere: &note };
            let found = read(&reader, &mut start.clone());
            let named = named.into_inner();
            if named.is_empty() {
                return found.map_err(|error| self.at(id, error));
            }
            named
        };
        let mut blobs = BTreeMap::new();
        for hash in named.hashes() {
            blobs.insert(hash, self.blob(id, hash).await?);
        }
        let len = |hash: Hash| blobs.get(&hash).map_or(0, Vec::len);
        named.check(len).map_err(|error| self.at(id, error))?;
        let rows = self.others(id, named.rows()).await?;
        let known = |place| match place {
            Elsewhere::Apart(hash) => blobs.get(&hash).cloned(),
            Elsewhere::There(there) => there.of(rows.get(&there.off)?).map(<[u8]>::to_vec),
        };
        let reader = Reader { plan: self.plan, mapped: &mapped, elsewhere: &known };
        read(&reader, &mut start.clone()).map_err(|error| self.at(id, error))
    }

    /// The rows of checkpoints so far after one.
    async fn others(
        &self,
        id: CheckpointId,
        offs: impl Iterator<Item = u128>,
    ) -> Result<BTreeMap<u128, Vec<u8>>, SaverError> {
        let mut found = BTreeMap::new();
        let to = |off: u128| CheckpointId(id.0.wrapping_add(off));
        let mut missing = Vec::new();
        for off in offs {
            match self.rows.get(&to(off)) {
                Some(row) => drop(found.insert(off, row.clone())),
                None => missing.push(to(off)),
            }
        }
        if !missing.is_empty() {
            let (store, who) = (&self.saver.store, &self.saver.who);
            for (row, body) in store.checkpoint_bytes(who, self.shelf, missing).await? {
                let body = self.open(Kind::Checkpoint, row, body)?;
                found.insert(row.0.wrapping_sub(id.0), body);
            }
        }
        Ok(found)
    }

    /// The bytes of a row before its checksum.
    fn open(&self, kind: Kind, id: CheckpointId, mut row: Vec<u8>) -> Result<Vec<u8>, SaverError> {
        let Some(len) = row::open(kind, &self.shelf.ns, id, &row).map(<[u8]>::len) else {
            return Err(self.corrupt(id, "its checksum does not fit its bytes"));
        };
        row.truncate(len);
        Ok(row)
    }

    /// Says where something cannot be read. Another build of the graph is no damage.
    fn at(&self, id: CheckpointId, error: EngineError) -> SaverError {
        match error {
            EngineError::OtherBuild { .. } | EngineError::LostNode { .. } => error.into(),
            EngineError::NewerRecord { found, known } => {
                let place = self.place(id);
                StoreError::Newer { place, found: found.into(), known: known.into() }.into()
            }
            other => self.corrupt(id, &other.to_string()),
        }
    }

    fn corrupt(&self, id: CheckpointId, what: &str) -> SaverError {
        StoreError::Corrupt { place: self.place(id), what: what.to_owned() }.into()
    }

    fn place(&self, id: CheckpointId) -> String {
        let CheckpointNamespace { thread, ns } = self.shelf;
        let graph = if ns.is_empty() { String::new() } else { format!(", graph `{ns}`") };
        format!("checkpoint `{id}` of thread `{thread}`{graph}")
    }
}
