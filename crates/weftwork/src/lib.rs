//! A durable runtime for LLM agents that are modelled as graphs.
//!
//! An agent is a graph: a model, tools, and rules for calls that need a person's approval. Its runs
//! survive a kill of the process: a recorded model answer is not requested again, and a recorded
//! tool call is not executed again. [`App`] wires store, model and agents together from a
//! configuration. The lower layers are public as well: [`agents`], [`graph`], [`runtime`],
//! [`models`], [`tools`], [`store`] and [`types`].
//!
//! ```
//! use weftwork::prelude::*;
//!
//! /// Converts miles to kilometres.
//! #[tool(example(request = "How many kilometres are 10 miles?", args = {"miles": 10}))]
//! fn miles_to_kilometres(miles: f64) -> f64 {
//!     miles * 1.609344
//! }
//!
//! # #[tokio::main(flavor = "multi_thread", worker_threads = 1)]
//! # async fn main() -> Result<(), weftwork::Error> {
//! let app = App::builder()
//!     .config(Config::in_memory())
//!     .model("scripted")
//!     .agent("runner", |model| {
//!         ReactAgent::new("runner", model).tools(ToolBox::new().with(miles_to_kilometres))
//!     })
//!     .open()
//!     .await?;
//! let ended = app.ask("my-thread", "How many kilometres are 26.2 miles?").await?;
//! assert_eq!(ended.to_string(), "[scripted model] Miles to kilometres: 42.1648128.");
//! # Ok(())
//! # }
//! ```

mod agent_def;
mod app;
pub mod config;
#[cfg(feature = "platform")]
mod definitions;
#[cfg(feature = "local")]
mod embedded;
mod error;
mod label;
mod run_dependencies;
mod stores;
pub mod upkeep;
mod wiring;

pub use agent_def::{AgentDef, find_agent};
pub use app::{App, AppBuilder};
pub use config::Config;
#[cfg(feature = "local")]
pub use embedded::Weights;
pub use error::Error;
pub use label::tag;
pub use stores::OpenRuntime;
pub use weftwork_egress as egress;
pub use weftwork_folder as folder;
/// # Example
/// ```
/// use weftwork::prelude::*;
///
/// #[derive(Routes)]
/// enum Decision {
///     Pack,
///     #[route("ask_a_person")]
///     Ask,
///     End,
/// }
///
/// assert_eq!(Decision::TARGETS, ["pack", "ask_a_person", "END"]);
/// # let _ = [Decision::Pack, Decision::Ask, Decision::End];
/// ```
pub use weftwork_macros::FacadeRoutes as Routes;
/// # Example
/// ```
/// use serde_json::json;
/// use weftwork::prelude::*;
///
/// #[derive(State)]
/// struct Order {
///     customer: String,
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pack = async |order: State<Order>| {
///     let customer = order.customer().cloned().unwrap_or_default();
///     OrderUpdate::new().log([format!("packed for {customer}")])
/// };
/// let graph = Graph::<Order>::new("order").node("pack", pack).edge(START, "pack").build()?;
/// let ended = graph.invoke(json!({"customer": "Ada"})).await?;
/// assert_eq!(ended.output()?["log"], json!(["packed for Ada"]));
/// # Ok(())
/// # }
/// ```
pub use weftwork_macros::FacadeState as State;
/// # Example
/// ```
/// use weftwork::{App, build_version};
///
/// let builder = App::builder().build_version(build_version!());
/// # drop(builder);
/// ```
pub use weftwork_macros::build_version;
/// # Example
/// ```
/// use weftwork::prelude::*;
///
/// /// Looks up an order.
/// #[tool(example(request = "Where is order A1?", args = {"order": "A1"}))]
/// async fn look_up(
///     /// Number of the order, such as `A1`.
///     order: String,
/// ) -> Result<String, ToolError> {
///     match order.as_str() {
///         "A1" => Ok("arrives tomorrow".to_owned()),
///         _ => Err(ToolError::failed(format!("there is no order {order}"))),
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), ToolError> {
/// let tools = ToolBox::new().with(look_up);
/// assert_eq!(look_up::run("A1".to_owned()).await?, "arrives tomorrow");
/// # drop(tools);
/// # Ok(())
/// # }
/// ```
pub use weftwork_macros::facade_tool as tool;

/// Traces and metrics of runs, sent to a collector over OTLP.
#[cfg(feature = "otel")]
pub mod telemetry {
    pub use weftwork_telemetry::*;
}

/// Agents: prompts and their evaluation, sessions, and prebuilt graphs.
pub mod agents {
    pub use weftwork_agents::*;
}

/// Chat models, their providers, and `ModelCaller`, through which every model call passes.
pub mod models {
    pub use weftwork_models::{
        Additions, Capability, ChatEvent, ChatModel, ChatRequest, ChatResponse, ChatStream,
        FallbackOn, FinishReason, HttpModel, IntoModel, ModelCallError, ModelCaller, ModelChoice,
        ModelError, ModelFacts, ModelInfo, ModelPrices, ModelProvider, ModelRegistry,
        ModelSettings, Price, PriceTable, Protocol, ProviderOverride, ProviderRow, ProviderTable,
        Quirk, Quirks, Recorder, RefusalKind, ReplayModel, ReplayProvider, RequestExtras,
        RetryPolicy, RunModel, Secret, ServerConfig, SettingsTable, TokenLimits, ToolChoice,
        TranscriptFolder, cache, check_media,
    };
}

/// Graphs: the builder, the arguments and results of nodes, and runs within a program.
pub mod graph {
    pub use crate::graph_names::{Routes, State};
    #[doc(hidden)]
    pub use weftwork_graph::__private;
    pub use weftwork_graph::run_loop::{
        CheckpointRef, Checkpointer, Finished, Host, InMemoryCheckpointer, Run, RunStream,
        SnapshotRun, Source, Start, StateForm, StateQuery, StreamItem, SubState, TaskResult,
        TaskSnapshot, Written,
    };
    pub use weftwork_graph::{
        Answers, Arg, BuildError, BuildInfo, Cache, ChannelDef, Command, CompiledGraph,
        Conversation, Ctx, Deps, Durability, DynUpdate, DynView, Dynamic, END, Ended, Failure,
        Field, FieldKey, Finish, Flow, FromTask, Graph, GraphSchemas, Handler, HasValue,
        HistoryFilter, Input, IntoGraph, IntoInput, IntoOutput, IntoRoute, InvalidGraph, List,
        MessagePart, Modes, NODE_FAILED, Next, NodeError, NodeResult, NotResumable, OUTPUT, Once,
        Question, Reads, Retry, RouteHandler, RunOutcome, RuntimeError, START, Semantics, SendTo,
        Snapshot, StateSpec, Stops, StreamEvent, SubgraphState, SystemClock, TaskDef, TaskInput,
        TaskPath, Timeout, Value, Write, channel,
    };
}

/// The names of `weftwork_graph`, with derives that expand to paths of this crate in place of its
/// own.
mod graph_names {
    pub use weftwork_graph::*;
    pub use weftwork_macros::{FacadeRoutes as Routes, FacadeState as State};
}

/// Durable runs: threads and runs over a store.
pub mod runtime {
    pub use weftwork_runtime::*;
}

/// Stores: their traits, records and queries, and what is built on them.
pub mod store {
    pub use weftwork_store::{
        ActivityCounts, AskingThread, Base, BilledTo, Body, Change, CheckpointBatch,
        CheckpointNamespace, CheckpointStore, Claim, Commit, Committed, Content, ExportThreads,
        Filter, FoundCheckpoint, FoundThread, IfExists, ImportThreads, Indexing, InterruptRow,
        InvalidBilledTo, Item, ItemQuery, ItemRef, ItemStore, ItemTable, JournalRead, LimitTable,
        LimitWindow, MINUTE_MS, MemoryItems, MemoryStore, Metadata, Namespace, NamespaceQuery,
        NewCheckpoint, NewPending, NewRun, NewStart, NewThread, OrphanCursor, OrphanPage, Pattern,
        Pending, Period, Prefix, PutOptions, QUARTER_MS, ReadBill, ReadCheckpoints, ReadEvents,
        ReadInterrupts, ReadItems, ReadRuns, ReadThreads, ReadUsage, Receipt, ReceiptSource,
        ReceiptUnit, Result, Retention, RowStore, Rows, RunExport, RunRow, SearchFrom, Sequence,
        SequenceQuery, SequenceRow, SequenceTable, SequenceWrite, StartCheck, StartCounts,
        StartPlace, StartRefusal, StartRow, StartSpan, StartUnit, Store, StoreError, StoreItems,
        StoredEvent, StoredItem, SubjectUsage, ThreadCursor, ThreadExport, ThreadOrder, ThreadPage,
        ThreadQuery, ThreadRow, ThreadStatus, Ttl, UnfinishedRuns, Untouched, UsageGroup, UsageRow,
        UsageSum, UsageTotal, Waiting, WorkerRow, Workers, WriteBill, WriteCheckpoints, WriteItems,
        WriteRuns, WriteThreads, WriteUsage, approval, artifact, asking_threads, by_execution,
        cancel_orphan, delete_all_untouched, drop_all_events, end_asking, erase_names, has_begun,
        invariants, items, mailbox, move_all_usage, open_questions, rows, sequence, speaking,
        thread, wakes_as_before,
    };
}

/// Tools and `ToolRunner`, which executes them.
pub mod tools {
    pub use weftwork_macros::facade_tool as tool;
    pub use weftwork_tools::*;
}

/// Records that are stored or sent, ids, and the ports of the runtime.
pub mod types {
    pub use weftwork_types::id::InvalidId;
    pub use weftwork_types::principal::InvalidRights;
    pub use weftwork_types::schema;
    pub use weftwork_types::store_error::{FileChange, RefusedByInstance};
    pub use weftwork_types::{
        BillingAccountId, BoxFuture, BoxStream, CallChain, CheckpointId, ErrorCode, InstanceId,
        InterruptId, InvocationId, MessageId, OrgId, Principal, RequestId, Right, Rights, RunId,
        StoreError, TaskId, ThreadId, Timestamp, ToolCallId, TraceId, VirtualKeyId, WorkerId,
        approval, caller, canonical, code, event, exposure, instance, interrupt, json, peer, port,
        run, sequence, shown, sse, task, telemetry, tool, usage,
    };

    /// Messages and their parts.
    pub mod message {
        pub use weftwork_types::message::{
            Media, Message, MessageExtra, Messages, Part, Role, ToolCall, ToolResult, content_text,
        };
    }
}

/// Models and clocks for tests of agents and graphs.
pub mod testing {
    #[doc(no_inline)]
    pub use crate::types::port::ManualClock;
    pub use weftwork_models::scripted::{ScriptedModel, ScriptedProvider, Step};
}

/// Tools of MCP servers.
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use weftwork_mcp::*;
}

/// Agents that are defined in files.
#[cfg(feature = "platform")]
pub mod platform {
    pub use weftwork_platform::*;
}

/// Assistants of Agent Servers as nodes and agents.
#[cfg(feature = "remote")]
pub mod remote {
    pub use weftwork_remote::*;
}

/// The embedded model and its weights.
#[cfg(feature = "local")]
pub mod local {
    pub use weftwork_local::*;
}

/// The SQLite store.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use weftwork_sqlite::*;
}

/// The Postgres store.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use weftwork_postgres::*;
}

/// Items that most programs need.
pub mod prelude {
    pub use crate::agents::{
        Chat, ChatUpdate, Evaluated, Evaluator, EventBus, Model, Prompt, PromptContext, ReactAgent,
        Section, Session, Slice, ToolCallError, Tools, WithModel,
    };
    pub use crate::graph::{
        Arg, Command, CompiledGraph, Ctx, Deps, END, Graph, List, Next, NodeResult, Routes, START,
        SendTo, State,
    };
    pub use crate::runtime::{EndedRun, Runtime, Thread};
    pub use crate::tools::{
        Policy, Questions, Replies, ToolBox, ToolContext, ToolError, ToolOutput, ToolRunner,
        question, tool,
    };
    pub use crate::types::message::{Message, Role};
    pub use crate::types::run::{RunOutcome, RunStatus};
    pub use crate::{App, Config, OpenRuntime};
}

/// The programs of the guide, compiled and run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/agents.md")]
#[doc = include_str!("../../../docs/guide/graphs.md")]
#[doc = include_str!("../../../docs/guide/models.md")]
#[doc = include_str!("../../../docs/guide/running.md")]
#[doc = include_str!("../../../docs/guide/runtime.md")]
#[doc = include_str!("../../../docs/guide/stores.md")]
#[doc = include_str!("../../../docs/guide/streaming.md")]
#[doc = include_str!("../../../docs/guide/testing.md")]
#[doc = include_str!("../../../docs/guide/tools.md")]
#[cfg_attr(feature = "mcp", doc = include_str!("../../../docs/guide/mcp.md"))]
#[cfg_attr(feature = "remote", doc = include_str!("../../../docs/guide/remote.md"))]
struct Guide;
