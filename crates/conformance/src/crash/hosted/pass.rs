//! The tables of a store that a [`Cutting`] one passes on as they are.

use super::cut::Cutting;
use weftwork_store::Result;
use weftwork_store::*;
use weftwork_types::canonical::Hash;
use weftwork_types::event::{Piece, Position};
use weftwork_types::port::{CallKey, CallRecord};
use weftwork_types::run::RunRef;
use weftwork_types::{
    BoxFuture, CheckpointId, InvocationId, OrgId, Principal, RunId, ThreadId, Timestamp, WorkerId,
};

macro_rules! passed_on {
    ($($table:ident {
        $(fn $name:ident<$life:lifetime>($($arg:ident: $type:ty),*) -> $result:ty;)*
    })*) => { $(
        impl $table for Cutting {
            $(fn $name<$life>(&$life self, $($arg: $type),*) -> BoxFuture<$life, Result<$result>> {
                self.inner.$name($($arg),*)
            })*
        }
    )* };
}

passed_on! {
ReadThreads {
    fn thread<'a>(who: &'a Principal, id: &'a ThreadId) -> ThreadRow;
    fn threads<'a>(who: &'a Principal, offset: usize, limit: usize) -> Vec<ThreadRow>;
    fn search_threads<'a>(who: &'a Principal, query: ThreadQuery) -> ThreadPage;
}
WriteThreads {
    fn create_thread<'a>(who: &'a Principal, new: NewThread) -> ThreadRow;
    fn update_metadata<'a>(who: &'a Principal, id: &'a ThreadId, metadata: Metadata, now: Timestamp) -> ThreadRow;
    fn delete_thread<'a>(who: &'a Principal, id: &'a ThreadId) -> ();
}
ReadRuns {
    fn run<'a>(who: &'a Principal, at: &'a RunRef) -> RunRow;
    fn runs<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<RunRow>;
    fn unfinished_runs<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<RunRow>;
    fn last_ended<'a>(who: &'a Principal, thread: &'a ThreadId) -> Option<RunRow>;
    fn find_run<'a>(who: &'a Principal, id: &'a RunId) -> RunRow;
    fn due<'a>(now: Timestamp, graphs: Vec<String>, limit: usize) -> Vec<(Principal, RunRow)>;
    fn orphan_page<'a>(now: Timestamp, page: OrphanPage) -> Vec<(Principal, RunRow)>;
    fn next_run<'a>(who: &'a Principal, thread: &'a ThreadId, now: Timestamp) -> Option<(Principal, RunRow)>;
    fn count_activities<'a>(who: &'a Principal, thread: &'a ThreadId) -> ActivityCounts;
    fn to_stop<'a>(who: &'a WorkerId) -> Vec<(OrgId, RunRef)>;
}
Retention {
    fn untouched<'a>(who: &'a Principal, which: Untouched) -> Vec<ThreadRow>;
    fn delete_untouched<'a>(who: &'a Principal, which: Untouched) -> Vec<ThreadId>;
    fn drop_events<'a>(who: &'a Principal, before: Timestamp, limit: usize) -> u64;
}
ReadEvents {
    fn events<'a>(who: &'a Principal, at: &'a RunRef, after: u64, limit: usize) -> Vec<StoredEvent>;
    fn pieces<'a>(who: &'a Principal, at: &'a RunRef, after: Position, limit: usize) -> Vec<Piece>;
}
ReadInterrupts {
    fn interrupts<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<InterruptRow>;
}
JournalRead {
    fn calls<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<CallRecord>;
    fn call<'a>(who: &'a Principal, thread: &'a ThreadId, key: CallKey) -> Option<CallRecord>;
    fn call_since<'a>(who: &'a Principal, thread: &'a ThreadId, key: CallKey, since: CheckpointId) -> Option<CallRecord>;
}
ReadUsage {
    fn usage_of_thread<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<UsageRow>;
    fn usage_of_run<'a>(who: &'a Principal, run: &'a RunId) -> Vec<UsageRow>;
}
SequenceTable {
    fn sequence_rows<'a>(who: &'a Principal, query: SequenceQuery) -> Vec<SequenceRow>;
    fn effect_version<'a>(who: &'a Principal, sequence: &'a Sequence) -> u64;
    fn write_sequences<'a>(who: &'a Principal, writes: Vec<SequenceWrite>, at: Timestamp) -> ();
}
ExportThreads {
    fn export_thread<'a>(who: &'a Principal, id: &'a ThreadId) -> ThreadExport;
}
ImportThreads {
    fn import_thread<'a>(who: &'a Principal, whole: ThreadExport) -> ();
}
WriteUsage {
    fn record_usage<'a>(who: &'a Principal, usage: UsageRow) -> ();
}
WriteBill {
    fn move_usage<'a>(limit: usize) -> usize;
    fn erase_names<'a>(who: &'a Principal, payer: &'a BilledTo) -> usize;
}
ReadBill {
    fn model_calls<'a>(who: &'a Principal, subject: &'a str) -> Vec<UsageRow>;
    fn receipts<'a>(who: &'a Principal, subject: &'a str) -> Vec<Receipt>;
    fn usage_totals<'a>(who: &'a Principal, period: Period) -> Vec<UsageTotal>;
}
LimitTable {
    fn subject_usage<'a>(subject: &'a BilledTo, from: Timestamp, except: &'a [InvocationId]) -> SubjectUsage;
    fn billed<'a>(who: &'a Principal, attempts: &'a [InvocationId]) -> Vec<InvocationId>;
    fn count_start<'a>(start: &'a NewStart) -> Option<StartRefusal>;
    fn starts<'a>(subject: &'a BilledTo, window: LimitWindow, from: Timestamp) -> StartCounts;
}
Workers {
    fn keep_alive<'a>(worker: WorkerRow) -> ();
    fn retire<'a>(worker: &'a WorkerId) -> ();
}
ReadCheckpoints {
    fn checkpoint<'a>(who: &'a Principal, at: &'a CheckpointNamespace, id: Option<CheckpointId>) -> Option<FoundCheckpoint>;
    fn checkpoint_bytes<'a>(who: &'a Principal, at: &'a CheckpointNamespace, ids: Vec<CheckpointId>) -> Vec<Body>;
    fn page<'a>(who: &'a Principal, at: &'a CheckpointNamespace, before: Option<CheckpointId>, limit: usize) -> Vec<FoundCheckpoint>;
    fn checkpoint_namespaces<'a>(who: &'a Principal, thread: &'a ThreadId) -> Vec<CheckpointNamespace>;
    fn newest_id<'a>(who: &'a Principal, thread: &'a ThreadId) -> Option<CheckpointId>;
    fn blob<'a>(who: &'a Principal, hash: Hash) -> Option<Vec<u8>>;
    fn layout<'a>(who: &'a Principal, hash: Hash) -> Option<Vec<u8>>;
}
WriteCheckpoints {
    fn put_checkpoints<'a>(who: &'a Principal, thread: &'a ThreadId, batch: CheckpointBatch) -> ();
    fn rewrite<'a>(who: &'a Principal, at: &'a CheckpointNamespace, newest: CheckpointId, batch: CheckpointBatch) -> ();
    fn copy_checkpoints<'a>(who: &'a Principal, from: &'a ThreadId, to: &'a ThreadId) -> ();
    fn delete_checkpoints<'a>(who: &'a Principal, thread: &'a ThreadId) -> ();
    fn collect_blobs<'a>(who: &'a Principal) -> u64;
}
ItemTable {
    fn item<'a>(who: &'a Principal, at: &'a ItemRef, ttl: Ttl, now: Timestamp) -> Option<Item>;
    fn search_items<'a>(who: &'a Principal, within: &'a Prefix, query: &'a ItemQuery, now: Timestamp) -> Vec<Item>;
    fn item_namespaces<'a>(who: &'a Principal, query: &'a NamespaceQuery, now: Timestamp) -> Vec<Namespace>;
    fn put_item<'a>(who: &'a Principal, at: &'a ItemRef, value: serde_json::Value, options: PutOptions, now: Timestamp) -> ();
    fn delete_item<'a>(who: &'a Principal, at: &'a ItemRef, now: Timestamp) -> bool;
    fn clear_items<'a>(who: &'a Principal, within: &'a Prefix, now: Timestamp) -> usize;
    fn sweep_items<'a>(limit: usize, now: Timestamp) -> usize;
    fn stored_items<'a>(who: &'a Principal, now: Timestamp) -> Vec<StoredItem>;
    fn put_stored_items<'a>(who: &'a Principal, items: Vec<StoredItem>, now: Timestamp) -> usize;
}}

impl Store for Cutting {
    fn location(&self) -> &str {
        self.inner.location()
    }
}
