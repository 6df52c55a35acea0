//! Typed graphs: write nodes as plain async functions, connect them, run them durably.
//!
//! A state is a struct with `#[derive(State)]`; each field is a channel. Or it is [`Dynamic`]: then
//! channels are named while the program runs. Nodes are async functions whose arguments declare
//! what they need ([`State`](struct@State), [`Field`], [`Input`], [`Arg`], [`Deps`], [`Ctx`]) and
//! whose result declares what they write. [`Graph::build`] reports every problem of a graph at
//! once. A [`Flow`] is plain code as a graph. The guide, `docs/guide/graphs.md`, shows all of it.
//!
//! [`run_loop`] runs a graph within a program, or in the [environment] of a worker, which crate
//! `weftwork-runtime` provides (`docs/adr/0009-the-loop-moves.md`).
//!
//! [environment]: run_loop::RunEnvironment

mod builder;
mod clock;
mod compiled;
mod context;
mod conversation;
mod draw;
mod dynamic;
mod ended;
mod error;
mod extract;
mod field;
mod flow;
mod input;
mod into_graph;
mod journal;
mod node;
mod once;
mod output;
mod policy;
mod question;
mod remote;
mod route;
pub mod run_loop;
mod schema;
mod semantics;
mod state;
mod subgraph;

pub use builder::Graph;
pub use clock::SystemClock;
pub use compiled::CompiledGraph;
pub use context::Ctx;
pub use conversation::Conversation;
pub use dynamic::{DynUpdate, DynView, Dynamic};
pub use ended::{Ended, OUTPUT};
pub use error::{
    BuildError, InvalidGraph, NODE_FAILED, NodeError, NotResumable, RECORDS_NOT_STORED,
    RuntimeError,
};
pub use extract::{Arg, BuildInfo, Failure, FromTask, Input, Reads, TaskInput};
pub use field::{Field, FieldKey, HasValue};
pub use flow::{Finish, Flow, TaskDef};
pub use input::IntoInput;
pub use into_graph::IntoGraph;
pub use node::{Command, Handler, SendTo};
pub use once::Once;
pub use output::{IntoOutput, NodeResult};
pub use policy::{Cache, Retry, Timeout};
pub use question::Question;
pub use route::{IntoRoute, Next, RouteHandler, Routes};
pub use run_loop::{
    Answers, Durability, HistoryFilter, MessagePart, Modes, RunOutcome, Snapshot, Stops,
    StreamEvent,
};
pub use schema::GraphSchemas;
pub use semantics::{Semantics, SubgraphState};
pub use state::{ChannelDef, State, StateSpec};
pub use weftwork_engine::plan::{END, START};
pub use weftwork_engine::pregel::Path as TaskPath;
pub use weftwork_engine::{List, Value, Write, channel};
pub use weftwork_macros::{Routes, State};
pub use weftwork_types::port::Deps;

/// Items that the derive macros expand to. Not part of this crate's public API.
#[doc(hidden)]
pub mod __private {
    pub use crate::schema::{NoSchema, SchemaOf, TypeSchema};
    pub use weftwork_engine::channel::{
        Append, Ephemeral, Items, LastValue, MessageWrite, Messages, Reduce, Topic, Untracked,
    };
    pub use weftwork_engine::{ChannelIdx, List, Plan, Slots, TaskOutput, Write};
    pub use weftwork_types::message::Message;

    /// The value of a channel that has one from the start.
    #[must_use]
    pub fn present<T: 'static>(slots: &Slots, index: usize) -> &T {
        #[expect(clippy::expect_used, reason = "channels with a first value always have one")]
        slots.get(index).and_then(|value| value.get::<T>()).expect("a channel has its first value")
    }
}
