//! Rows of checkpoints, as a store has them.

use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_engine::Plan;
use weftwork_engine::codec::{DeltaBase, Loader, encode};
use weftwork_engine::pregel::Machine;
use weftwork_types::CheckpointId;
use weftwork_types::canonical::Hash;

/// Rows of one thread and one build of its graph, each relative to the row before it.
#[derive(Default)]
pub(crate) struct Rows {
    rows: BTreeMap<CheckpointId, Vec<u8>>,
    blobs: BTreeMap<Hash, Vec<u8>>,
    delta_base: Option<DeltaBase>,
}

impl Rows {
    pub(crate) fn put(&mut self, machine: &Machine) {
        let id = CheckpointId(1 + self.rows.len() as u128);
        let encoded = encode(machine, id, self.delta_base.as_ref(), b"");
        let encoded = encoded.expect("it can be written");
        self.rows.insert(id, encoded.bytes);
        self.blobs.extend(encoded.blobs);
        self.delta_base = Some(encoded.delta_base);
    }

    /// The newest checkpoint, read by a build of the graph that may be another one than the
    /// `writer`.
    pub(crate) fn newest(&self, plan: &Arc<Plan>, writer: &Plan) -> Machine {
        let layout = writer.layout();
        let (id, row) = self.rows.last_key_value().expect("a row");
        let mut loader = Loader::new(plan, *id, row.clone(), layout).expect("it can be read");
        loop {
            let wants = loader.wants();
            if wants.is_empty() {
                return loader.finish().expect("it can be read").machine;
            }
            for id in wants.rows {
                loader.row(id, &self.rows[&id], layout).expect("it can be read");
            }
            for hash in wants.blobs {
                loader.blob(hash, self.blobs[&hash].clone());
            }
        }
    }
}
