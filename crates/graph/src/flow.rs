//! Flows: plain code as a graph of one node, whose tasks are recorded.

use crate::builder::Graph;
use crate::compiled::{CompiledGraph, NodeFn, Thread};
use crate::dynamic::Dynamic;
use crate::error::BuildError;
use crate::node::Handler;
use crate::output::{IntoOutput, NodeResult};
use crate::policy::{Cache, Retry, Timeout};
use crate::semantics::Semantics;
use crate::state::ChannelDef;
use serde_json::Value as Json;
use std::sync::Arc;
use weftwork_engine::channel::LastValue;
use weftwork_engine::{ChannelIdx, TaskOutput, Write};

/// A graph of one node: plain code that takes an input and returns a result, calls tasks with
/// [`Ctx::task`](crate::Ctx::task), and finds what its last turn on the thread saved with
/// [`Ctx::previous`](crate::Ctx::previous).
///
/// # Example
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Ctx, Finish, Flow, Input, NodeResult, TaskDef};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let double = TaskDef::new("double", async |Input(n): Input| -> NodeResult<_> {
///     Ok(Finish::value(json!(n.as_i64().unwrap_or_default() * 2)))
/// });
/// let flow = Flow::new("main", move |Input(n): Input, ctx: Ctx| {
///     let double = double.clone();
///     async move { ctx.task(&double, n).await.map(Finish::value) }
/// });
/// let ended = flow.build()?.invoke(json!(21)).await?;
/// assert_eq!(*ended.output()?, json!(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Flow(Graph<Dynamic>);

impl Flow {
    /// A flow whose code is `handler`, a function that can be a node and returns a [`Finish`].
    pub fn new<M: 'static>(name: impl Into<String>, handler: impl Handler<M>) -> Self {
        let channels = ["__end__", "__previous__"];
        let channels = channels.map(|name| ChannelDef::new(name, LastValue::<Json>::new()));
        let name = name.into();
        let graph = Graph::over(name.clone(), channels.into());
        Self(graph.single().node(name, handler))
    }

    /// Chooses how the flow behaves where the reference and we differ.
    pub fn semantics(self, semantics: Semantics) -> Self {
        Self(self.0.semantics(semantics))
    }

    /// Validates the flow.
    ///
    /// # Errors
    /// [`BuildError`] with every problem there is.
    pub fn build(self) -> Result<CompiledGraph, BuildError> {
        self.0.build()
    }
}

/// The result of a flow or of one of its tasks.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Finish {
    value: Json,
    saved: Json,
}

impl Finish {
    /// Returns a value, which the next turn finds as well.
    pub fn value(value: Json) -> Self {
        Self { saved: value.clone(), value }
    }

    /// Returns a value, and saves another for the next turn.
    pub fn saving(value: Json, saved: Json) -> Self {
        Self { value, saved }
    }
}

impl IntoOutput for Finish {
    fn into_output(self) -> NodeResult<TaskOutput> {
        let writes = vec![
            (ChannelIdx(0), Write::json(self.value.clone())),
            (ChannelIdx(1), Write::json(self.saved)),
        ];
        let named = vec![("__return__".to_owned(), Write::json(self.value))];
        Ok(TaskOutput { writes: writes.into(), named, goto: Vec::new() })
    }
}

/// A task that a flow or a node calls with [`Ctx::task`](crate::Ctx::task): its result is recorded,
/// and when the run continues after a failure or a question the task is not run again.
#[derive(Debug, Clone)]
pub struct TaskDef {
    name: Arc<str>,
    node: NodeFn,
}

impl TaskDef {
    /// A task whose code is `handler`, a function that can be a node and returns a [`Finish`].
    pub fn new<M: 'static>(name: impl Into<Arc<str>>, handler: impl Handler<M>) -> Self {
        Self { name: name.into(), node: NodeFn::new(handler) }
    }

    /// Tries again when the task fails.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        Arc::make_mut(&mut self.node.options).retry = Some(retry);
        self
    }

    /// Limits how long an attempt may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Timeout) -> Self {
        Arc::make_mut(&mut self.node.options).timeout = timeout;
        self
    }

    /// Runs the task on a thread for code that blocks; see
    /// [`Graph::blocking`](crate::Graph::blocking).
    #[must_use]
    pub fn blocking(mut self) -> Self {
        Arc::make_mut(&mut self.node.options).thread = Thread::Blocking;
        self
    }

    /// Runs the task on any thread of the runtime, side by side with other tasks; see
    /// [`Graph::parallel`](crate::Graph::parallel).
    #[must_use]
    pub fn parallel(mut self) -> Self {
        Arc::make_mut(&mut self.node.options).thread = Thread::Parallel;
        self
    }

    /// Uses the result again for the same argument.
    #[must_use]
    pub fn with_cache(mut self, cache: Cache) -> Self {
        Arc::make_mut(&mut self.node.options).cache = Some(cache);
        self
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn node(&self) -> &NodeFn {
        &self.node
    }

    pub(crate) fn cache(&self) -> Option<Cache> {
        self.node.options.cache
    }
}
