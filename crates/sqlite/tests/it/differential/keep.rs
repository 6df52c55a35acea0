//! Operations on checkpoints, blobs and layouts.

use super::ops::{at, principal};
use proptest::prelude::*;
use weftwork_store::{
    CheckpointBatch, CheckpointNamespace, NewCheckpoint, NewPending, Pending, Store,
};
use weftwork_types::canonical::{self, Hash};
use weftwork_types::{CheckpointId, Principal};

const GRAPHS: [&str; 3] = ["", "a", "a|b:1"];

#[derive(Debug, Clone)]
pub(crate) struct KeepOp {
    org: u8,
    thread: u8,
    graph: u8,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Keep(CheckpointBatch),
    /// Rewrites with the existing newest checkpoint, or with another.
    Rewrite {
        newest: Option<u128>,
        batch: CheckpointBatch,
    },
    Copy {
        to: u8,
    },
    Delete,
    Collect,
    Look {
        id: Option<u128>,
    },
    Page {
        before: Option<u128>,
        limit: usize,
    },
    Bodies {
        ids: Vec<u128>,
    },
    Hashed(u8),
}

fn blob(n: u8) -> (Hash, Vec<u8>) {
    (canonical::hash_bytes(&[n]), vec![n; usize::from(n)])
}

fn blobs() -> impl Strategy<Value = Vec<Hash>> {
    let few = prop::collection::vec((0..6u8).prop_map(|n| blob(n).0), 1..3);
    prop_oneof![3 => Just(Vec::new()), 1 => few]
}

fn ns() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(0), 1 => 1..3usize].prop_map(|n| GRAPHS[n].to_owned())
}

fn id() -> impl Strategy<Value = u128> {
    prop_oneof![9 => 0..8u128, 1 => Just(u128::MAX)]
}

fn checkpoint() -> impl Strategy<Value = NewCheckpoint> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let of = prop_oneof![1 => Just(None), 1 => id().prop_map(Some), 3 => Just(Some(u128::MAX))];
    (ns(), id(), of, bytes(), bytes(), blobs()).prop_map(|(ns, id, of, tasks, body, blobs)| {
        // Usually the previous checkpoint, so that this one is its successor.
        let of = of.map(|of| if of == u128::MAX { id.saturating_sub(1) } else { of });
        let id = CheckpointId(id);
        let of = of.map(CheckpointId);
        NewCheckpoint { ns, id, of, tasks, body, blobs }
    })
}

fn pending() -> impl Strategy<Value = NewPending> {
    let what = prop::sample::select(vec![Pending::Outside, Pending::Tasks]);
    (ns(), id(), what, prop::collection::vec(any::<u8>(), 0..20), blobs()).prop_map(
        |(ns, of, what, body, blobs)| NewPending { ns, of: CheckpointId(of), what, body, blobs },
    )
}

/// Generates the batch of a commit or of an operation.
pub(crate) fn batch() -> impl Strategy<Value = CheckpointBatch> {
    (
        prop::collection::vec(checkpoint(), 0..3),
        prop::collection::vec(pending(), 0..3),
        prop::collection::vec((0..6u8).prop_map(blob), 0..2),
        prop::collection::vec((0..3u8).prop_map(blob), 0..2),
    )
        .prop_map(|(checkpoints, pending, blobs, layouts)| CheckpointBatch {
            checkpoints,
            pending,
            blobs,
            layouts,
        })
}

pub(crate) fn op() -> impl Strategy<Value = KeepOp> {
    let what = prop_oneof![
        8 => batch().prop_map(What::Keep),
        2 => (prop::option::weighted(0.2, id()), batch())
            .prop_map(|(newest, batch)| What::Rewrite { newest, batch }),
        1 => (0..2u8).prop_map(|to| What::Copy { to }),
        1 => Just(What::Delete),
        2 => Just(What::Collect),
        3 => prop::option::of(id()).prop_map(|id| What::Look { id }),
        2 => (prop::option::of(id()), 0..4usize)
            .prop_map(|(before, limit)| What::Page { before, limit }),
        1 => prop::collection::btree_set(id(), 0..4)
            .prop_map(|ids| What::Bodies { ids: ids.into_iter().collect() }),
        2 => (0..6u8).prop_map(What::Hashed),
    ];
    (0..2u8, 0..2u8, prop_oneof![3 => Just(0), 1 => 1..3u8], what)
        .prop_map(|(org, thread, graph, what)| KeepOp { org, thread, graph, what })
}

/// Applies the operation and formats its result.
pub(crate) async fn apply(store: &dyn Store, op: KeepOp) -> String {
    let who = principal(op.org);
    let shelf = CheckpointNamespace {
        thread: at(op.thread, 0).thread,
        ns: GRAPHS[op.graph as usize].to_owned(),
    };
    let thread = &shelf.thread;
    match op.what {
        What::Keep(batch) => format!("{:?}", store.put_checkpoints(&who, thread, batch).await),
        What::Rewrite { newest, batch } => {
            let there = newest_of(store, &who, &shelf).await;
            let newest = newest.map(CheckpointId).unwrap_or(there);
            format!("{:?}", store.rewrite(&who, &shelf, newest, batch).await)
        }
        What::Copy { to } => {
            format!("{:?}", store.copy_checkpoints(&who, thread, &at(to, 0).thread).await)
        }
        What::Delete => format!("{:?}", store.delete_checkpoints(&who, thread).await),
        What::Collect => format!("{:?}", store.collect_blobs(&who).await),
        What::Look { id } => {
            format!("{:?}", store.checkpoint(&who, &shelf, id.map(CheckpointId)).await)
        }
        What::Page { before, limit } => {
            format!("{:?}", store.page(&who, &shelf, before.map(CheckpointId), limit).await)
        }
        What::Bodies { ids } => {
            let ids = ids.into_iter().map(CheckpointId).collect();
            format!("{:?}", store.checkpoint_bytes(&who, &shelf, ids).await)
        }
        What::Hashed(n) => {
            let hash = blob(n).0;
            format!("{:?} {:?}", store.blob(&who, hash).await, store.layout(&who, hash).await)
        }
    }
}

async fn newest_of(
    store: &dyn Store,
    who: &Principal,
    shelf: &CheckpointNamespace,
) -> CheckpointId {
    let newest = store.checkpoint(who, shelf, None).await.expect("reads");
    newest.map_or(CheckpointId(0), |found| found.id)
}

/// Returns the final state, including threads without a row, and the existing blobs.
pub(crate) async fn dump(store: &dyn Store, principals: &[Principal]) -> Vec<String> {
    let mut lines = Vec::new();
    for who in principals {
        for thread in 0..2 {
            let thread = at(thread, 0).thread;
            let kept = weftwork_store_conformance::dump_checkpoints(store, who, &thread).await;
            lines.extend(kept.expect("reads"));
        }
        for n in 0..6 {
            lines.push(format!("blob {n} {:?}", store.blob(who, blob(n).0).await));
            lines.push(format!("layout {n} {:?}", store.layout(who, blob(n).0).await));
        }
    }
    lines
}
