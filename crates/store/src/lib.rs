//! The store interface: traits, records and rules that every store implementation shares.
//!
//! There is one small trait per table, split into reading and writing, so that the bounds of a
//! function state which tables it uses. [`Store`] combines all of them. A run exists if and only if
//! it is committed here. Every write of a worker carries its [`Claim`], and a store refuses a claim
//! that is not the newest.
//!
//! Data that a thread stores for use by other threads is in a table of its own, [`items`].
//!
//! Every call takes a [`Principal`](weftwork_types::Principal). Its organisation is the first
//! column of every key, and data of another organisation is reported as missing.
//!
//! # Cancel safety
//! Nothing happens before a future of a table is first polled. A future that is dropped later may
//! still take effect: a caller that drops a write has to read before it decides on the next step.

pub mod approval;
pub mod artifact;
mod bill;
mod checkpoint;
pub mod columns;
mod execution_order;
mod inbox;
pub mod invariants;
pub mod items;
mod limit;
pub mod mailbox;
pub mod memory;
mod orphan;
mod record;
pub mod remote;
mod retention;
pub mod rows;
pub mod sequence;
mod table;
pub mod thread;
mod transfer;

pub use bill::{
    BilledTo, InvalidBilledTo, MOVED_AT_ONCE, Period, QUARTER_MS, ReadBill, Receipt, ReceiptSource,
    ReceiptUnit, UsageGroup, UsageSum, UsageTotal, WriteBill, agent_of, erase_names,
    move_all_usage,
};
pub use checkpoint::{
    Body, CheckpointBatch, CheckpointNamespace, CheckpointStore, FoundCheckpoint, NewCheckpoint,
    NewPending, Pending, ReadCheckpoints, WriteCheckpoints,
};
pub use execution_order::by_execution;
pub use inbox::{AskingThread, asking_threads};
pub use items::{
    Filter, Indexing, Item, ItemQuery, ItemRef, ItemStore, ItemTable, MemoryItems, Namespace,
    NamespaceQuery, Pattern, Prefix, PutOptions, ReadItems, StoreItems, StoredItem, Ttl,
    WriteItems,
};
pub use limit::{
    LimitTable, LimitWindow, MINUTE_MS, NewStart, StartCheck, StartCounts, StartPlace,
    StartRefusal, StartRow, StartSpan, StartUnit, SubjectUsage,
};
pub use mailbox::ActivityCounts;
pub use memory::MemoryStore;
pub use orphan::{
    OrphanCursor, OrphanPage, cancel_orphan, end_asking, has_begun, open_questions, speaking,
    wakes_as_before,
};
pub use record::{
    Base, Claim, Commit, Committed, InterruptRow, NewRun, RunRow, StoredEvent, ThreadRow, UsageRow,
    WorkerRow,
};
pub use retention::{Retention, Untouched, Waiting, delete_all_untouched, drop_all_events};
pub use rows::{RowStore, Rows};
pub use sequence::{
    Change, Content, Sequence, SequenceQuery, SequenceRow, SequenceTable, SequenceWrite,
};
pub use table::{
    JournalRead, ReadEvents, ReadInterrupts, ReadRuns, ReadThreads, ReadUsage, Result, Store,
    Workers, WriteRuns, WriteThreads, WriteUsage,
};
pub use thread::{
    FoundThread, IfExists, Metadata, NewThread, SearchFrom, ThreadCursor, ThreadOrder, ThreadPage,
    ThreadQuery, ThreadStatus, UnfinishedRuns,
};
pub use transfer::{ExportThreads, ImportThreads, RunExport, ThreadExport};
pub use weftwork_types::StoreError;
