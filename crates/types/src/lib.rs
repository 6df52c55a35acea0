//! Shared types of all crates: ids, messages, tools, events, errors and the ports.
//!
//! This crate is passive: it opens nothing, reads no clock and spawns no task. It holds the records
//! that are stored or sent, and the traits ([`port`]) through which the other crates reach the
//! outside.

pub mod approval;
pub mod call_chain;
pub mod caller;
pub mod canonical;
pub mod code;
pub mod event;
pub mod exposure;
pub mod id;
pub mod instance;
pub mod interrupt;
pub mod item;
pub mod json;
pub mod message;
pub mod peer;
pub mod port;
pub mod principal;
pub mod retry;
pub mod run;
#[cfg(feature = "schema")]
pub mod schema;
pub mod secret;
pub mod sequence;
pub mod session;
pub mod shown;
pub mod sse;
pub mod store_error;
pub mod task;
pub mod telemetry;
pub mod time;
pub mod tool;
pub mod usage;

pub use call_chain::CallChain;
pub use code::ErrorCode;
pub use id::{
    BillingAccountId, CheckpointId, InstanceId, InterruptId, InvocationId, MessageId, OrgId,
    RequestId, RunId, TaskId, ThreadId, ToolCallId, TraceId, VirtualKeyId, WorkerId, random_token,
};
pub use principal::{Principal, Right, Rights};
pub use store_error::StoreError;
pub use time::Timestamp;

/// A future that can be stored behind a trait object.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A stream that can be stored behind a trait object.
pub type BoxStream<'a, T> = std::pin::Pin<Box<dyn futures_core::Stream<Item = T> + Send + 'a>>;
