//! Decoding of stored checkpoints.

use super::row::{self, Kind, RowReader};
use super::{RecentUse, StoreCheckpointer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weftwork_engine::codec::{
    ExternalRefs, Layout, LayoutId, Loader, Reader, ValueLocation, open_row,
};
use weftwork_engine::pregel::Machine;
use weftwork_engine::{EngineError, NodeIdx, Plan};
use weftwork_graph::run_loop::{
    Checkpoint, CheckpointerError, ExternalInput, StoredCheckpoint, TaskRecords, TaskWrites,
    WriteHint,
};
use weftwork_store::{CheckpointNamespace, FoundCheckpoint, StoreError};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::{CheckpointId, OrgId};

/// Reads checkpoints of one graph of one thread. Rows that several of them refer to are read once.
pub(super) struct Reading<'a> {
    checkpointer: &'a StoreCheckpointer,
    shelf: &'a CheckpointNamespace,
    plan: &'a Arc<Plan>,
    rows: BTreeMap<CheckpointId, Vec<u8>>,
}

/// Maximum number of rows cached for the checkpoints that are read next.
const ROWS_MAX: usize = 1_024;

impl StoreCheckpointer {
    pub(super) fn reader<'a>(
        &'a self,
        shelf: &'a CheckpointNamespace,
        plan: &'a Arc<Plan>,
    ) -> Reading<'a> {
        Reading { checkpointer: self, shelf, plan, rows: BTreeMap::new() }
    }
}

impl Reading<'_> {
    /// Caches the row of a checkpoint. Damage is not reported here, but when the row is read.
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
    ) -> Result<StoredCheckpoint, CheckpointerError> {
        let FoundCheckpoint { id, body, outside, tasks } = found;
        let body = match self.rows.get(&id) {
            Some(known) => known.clone(),
            None => self.open(Kind::Checkpoint, id, body)?,
        };
        let rest = open_row(&body).and_then(|(_, mut read)| read.bytes());
        let read = rest.and_then(row::read_metadata);
        let (metadata, parent) = read.map_err(|error| self.at(id, error))?;
        let (machine, hint) = match self.recent(id).filter(|_| newest) {
            Some(known) => known,
            None => self.load(id, body, newest).await?,
        };
        if newest {
            self.add_recent(id, &machine, &hint);
        }
        let mut records = TaskRecords::new();
        for row in tasks {
            self.tasks(id, row, &mut records).await?;
        }
        let inputs = records.iter_mut().map(|(_, record)| record);
        for record in inputs.filter(|record| matches!(record.writes, TaskWrites::Input(_))) {
            // Input that a new build no longer accepts is refused by the next run.
            record.writes = match machine.start_output() {
                Ok(output) => TaskWrites::Input(output),
                Err(_) => TaskWrites::None,
            };
            record.untrack(self.plan, NodeIdx::START);
        }
        let outside = match outside {
            Some(row) => self.outside(id, row).await?,
            None => ExternalInput::default(),
        };
        let checkpoint = Checkpoint { id, parent, metadata, machine };
        Ok(StoredCheckpoint { checkpoint, tasks: records, outside, hint })
    }

    fn recent(&self, id: CheckpointId) -> Option<(Machine, WriteHint)> {
        match &self.checkpointer.recent {
            RecentUse::Full(recent) if self.shelf.ns.is_empty() => {
                recent.get(&self.recent_key(), id, self.plan)
            }
            _ => None,
        }
    }

    fn add_recent(&self, id: CheckpointId, machine: &Machine, hint: &WriteHint) {
        if let RecentUse::Fill(recent) = &self.checkpointer.recent
            && self.shelf.ns.is_empty()
        {
            recent.insert(self.recent_key(), id, machine.clone(), hint.clone());
        }
    }

    fn recent_key(&self) -> (OrgId, Arc<str>) {
        (self.checkpointer.who.org.clone(), self.shelf.thread.as_str().into())
    }

    async fn load(
        &mut self,
        id: CheckpointId,
        body: Vec<u8>,
        newest: bool,
    ) -> Result<(Machine, WriteHint), CheckpointerError> {
        let layout = self.layout_of(id, &body).await?;
        let loader = Loader::new(self.plan, id, body, &layout);
        let mut loader = loader.map_err(|error| self.at(id, error))?;
        self.feed(id, &mut loader).await?;
        let loaded = loader.finish().map_err(|error| self.at(id, error))?;
        Ok((loaded.machine, WriteHint { mark: Some(Arc::new(loaded.delta_base)), newest }))
    }

    /// Supplies the loader with the data it requests.
    async fn feed(
        &mut self,
        id: CheckpointId,
        loader: &mut Loader,
    ) -> Result<(), CheckpointerError> {
        loop {
            let wants = loader.wants();
            if wants.is_empty() {
                return Ok(());
            }
            let store = &self.checkpointer.store;
            let who = &self.checkpointer.who;
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

    async fn blob(&self, id: CheckpointId, hash: Hash) -> Result<Vec<u8>, CheckpointerError> {
        let found = self.checkpointer.store.blob(&self.checkpointer.who, hash).await?;
        let whole = found.filter(|bytes| hash_bytes(bytes) == hash);
        whole.ok_or_else(|| self.corrupt(id, &format!("its blob `{hash}` is missing or damaged")))
    }

    /// Returns the names that a row leaves out.
    async fn layout_of(
        &self,
        id: CheckpointId,
        body: &[u8],
    ) -> Result<Arc<Layout>, CheckpointerError> {
        let (key, _) = open_row(body).map_err(|error| self.at(id, error))?;
        self.layout(id, key).await
    }

    async fn layout(
        &self,
        id: CheckpointId,
        key: LayoutId,
    ) -> Result<Arc<Layout>, CheckpointerError> {
        let known = self.checkpointer.lock_layouts().get(&key).cloned();
        if let Some(layout) = known {
            return Ok(layout);
        }
        let found = self.checkpointer.store.layout(&self.checkpointer.who, key.key()).await?;
        let bytes = found.ok_or_else(|| self.corrupt(id, "the names of its build are missing"))?;
        let layout = Layout::read(key, &bytes).map_err(|error| self.at(id, error))?;
        let layout = Arc::new(layout);
        self.checkpointer.lock_layouts().insert(key, Arc::clone(&layout));
        Ok(layout)
    }

    async fn tasks(
        &self,
        id: CheckpointId,
        row: Vec<u8>,
        records: &mut TaskRecords,
    ) -> Result<(), CheckpointerError> {
        let read = |reader: &RowReader<'_>, read: &mut Reader<'_>| reader.tasks(read);
        for (key, record) in self.row(Kind::Tasks, id, row, read).await? {
            match records.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => known.merge(record),
                None => records.push((key, record)),
            }
        }
        Ok(())
    }

    async fn outside(
        &self,
        id: CheckpointId,
        row: Vec<u8>,
    ) -> Result<ExternalInput, CheckpointerError> {
        let read = |reader: &RowReader<'_>, read: &mut Reader<'_>| reader.outside(read);
        self.row(Kind::Outside, id, row, read).await
    }

    async fn row<T>(
        &self,
        kind: Kind,
        id: CheckpointId,
        row: Vec<u8>,
        read: impl Fn(&RowReader<'_>, &mut Reader<'_>) -> Result<T, EngineError>,
    ) -> Result<T, CheckpointerError> {
        let row = self.open(kind, id, row)?;
        let (key, start) = row::open_as(kind, &row).map_err(|error| self.at(id, error))?;
        let layout = self.layout(id, key).await?;
        let mapped = layout.mapped(self.plan).map_err(|error| self.at(id, error))?;
        // A first read without external values determines which ones are needed.
        let named = {
            let named = RefCell::new(ExternalRefs::default());
            let note = |place| {
                match place {
                    ValueLocation::Blob(hash) => named.borrow_mut().note(hash),
                    ValueLocation::RowSlice(there) => named.borrow_mut().note_part(there),
                }
                Some(b"null".to_vec())
            };
            let reader = RowReader { plan: self.plan, mapped: &mapped, elsewhere: &note };
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
            ValueLocation::Blob(hash) => blobs.get(&hash).cloned(),
            ValueLocation::RowSlice(there) => there.of(rows.get(&there.off)?).map(<[u8]>::to_vec),
        };
        let reader = RowReader { plan: self.plan, mapped: &mapped, elsewhere: &known };
        read(&reader, &mut start.clone()).map_err(|error| self.at(id, error))
    }

    /// Returns the rows of the checkpoints at these offsets from a checkpoint.
    async fn others(
        &self,
        id: CheckpointId,
        offs: impl Iterator<Item = u128>,
    ) -> Result<BTreeMap<u128, Vec<u8>>, CheckpointerError> {
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
            let store = &self.checkpointer.store;
            let who = &self.checkpointer.who;
            for (row, body) in store.checkpoint_bytes(who, self.shelf, missing).await? {
                let body = self.open(Kind::Checkpoint, row, body)?;
                found.insert(row.0.wrapping_sub(id.0), body);
            }
        }
        Ok(found)
    }

    /// Returns the bytes of a row before its checksum.
    fn open(
        &self,
        kind: Kind,
        id: CheckpointId,
        mut row: Vec<u8>,
    ) -> Result<Vec<u8>, CheckpointerError> {
        let Some(len) = row::open(kind, &self.shelf.ns, id, &row).map(<[u8]>::len) else {
            return Err(self.corrupt(id, "its checksum does not fit its bytes"));
        };
        row.truncate(len);
        Ok(row)
    }

    /// Adds the place to a read error. Another build of the graph is not reported as damage.
    fn at(&self, id: CheckpointId, error: EngineError) -> CheckpointerError {
        match error {
            EngineError::OtherBuild { .. } | EngineError::LostNode { .. } => error.into(),
            EngineError::NewerRecord { found, known } => {
                let location = self.describe(id);
                StoreError::Newer { location, found: found.into(), known: known.into() }.into()
            }
            other => self.corrupt(id, &other.to_string()),
        }
    }

    fn corrupt(&self, id: CheckpointId, what: &str) -> CheckpointerError {
        StoreError::Corrupt { location: self.describe(id), what: what.to_owned() }.into()
    }

    fn describe(&self, id: CheckpointId) -> String {
        let CheckpointNamespace { thread, ns } = self.shelf;
        let graph = if ns.is_empty() { String::new() } else { format!(", graph `{ns}`") };
        format!("checkpoint `{id}` of thread `{thread}`{graph}")
    }
}
