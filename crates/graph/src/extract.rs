//! Types that a node may take as arguments.

use crate::error::NodeError;
use crate::run_loop::values::read_json;
use std::any::{Any, TypeId};
use std::ops::Deref;
use std::sync::Arc;
use weftwork_engine::ids::cut;
use weftwork_engine::{NodeIdx, Plan, Slots};
use weftwork_types::code::Fault;
use weftwork_types::port::{Dependencies, Deps};

/// Source of the parts of a task's input that are created on demand.
pub(crate) trait CtxSource {
    /// Context of the task: a [`Ctx`](crate::Ctx).
    fn ctx(&self) -> &dyn Any;

    /// Values of the run, which take precedence, and of the graph.
    fn dependencies(&self) -> [&Dependencies; 2];

    /// Failure that the error handler handles.
    fn failure(&self) -> Option<&Fault>;
}

/// Input of a task, from which the arguments of its node are extracted.
pub struct TaskInput<'a> {
    pub(crate) slots: &'a Slots,
    pub(crate) plan: &'a Arc<Plan>,
    pub(crate) node: NodeIdx,
    pub(crate) arg: Option<&'a weftwork_engine::task::Arg>,
    /// The run, made when an argument asks for it.
    pub(crate) source: &'a dyn CtxSource,
}

impl TaskInput<'_> {
    fn node_name(&self) -> &str {
        self.plan.node_name(self.node)
    }

    /// Returns the value of a channel at the start of the superstep; `None` if the graph has no such
    /// channel, it has no value, or the value is no `T`.
    #[must_use]
    pub fn channel<T: 'static>(&self, name: &str) -> Option<&T> {
        let index = self.plan.channel_idx(name)?;
        self.slots.get(index.0).and_then(|value| value.get())
    }

    /// Returns `true` if the graph was built with a value of this type, or declares that each run has
    /// one. A run has values that subgraphs do not declare.
    #[must_use]
    pub fn declares<T: 'static>(&self) -> bool {
        let [_, graph] = self.source.dependencies();
        graph.declares(TypeId::of::<T>())
    }

    /// Returns the node's input as JSON: the value sent to it, else an object of the readable
    /// channels that have a value.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self.arg {
            Some(arg) => arg.json.clone(),
            None => read_json(self.plan, self.slots, self.node),
        }
    }
}

impl std::fmt::Debug for TaskInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskInput").field("node", &self.node_name()).finish_non_exhaustive()
    }
}

/// A node's input as JSON: the value sent to it, else an object of the readable channels that have
/// a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Input(pub serde_json::Value);

impl FromTask for Input {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        Ok(Self(input.json()))
    }
}

/// Facts about a graph at build time, for arguments that check themselves.
#[derive(Debug)]
pub struct BuildInfo<'a> {
    pub(crate) state: TypeId,
    pub(crate) state_name: &'static str,
    pub(crate) deps: &'a Dependencies,
    pub(crate) role: Role,
    /// The edge or join that leads to the node.
    pub(crate) led_to: Option<String>,
}

/// Role of a function in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Node,
    /// It takes over when the node failed.
    Handler,
    /// It closes tasks of the node that are left open.
    Closer,
}

/// The part of the state that an argument of a node reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// Any of it.
    All,
    /// A single channel.
    Channel(&'static str),
}

/// The channels that arguments read together; none when one of them may read any, or when none
/// names one.
pub(crate) fn channels_read(arguments: &[Reads]) -> Option<Vec<&'static str>> {
    let mut channels = Vec::new();
    for reads in arguments {
        match reads {
            Reads::Nothing => {}
            Reads::All => return None,
            Reads::Channel(name) => channels.push(*name),
        }
    }
    Some(channels).filter(|channels| !channels.is_empty())
}

/// An argument of a node.
///
/// [`State`](struct@crate::State): the state. [`Field`](crate::Field): one field of it. [`Input`]: what
/// the node reads, as JSON. [`Arg`]: what a send carried. [`Deps`]: a value of the run
/// or of the graph. [`Ctx`](crate::Ctx): the run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a node",
    label = "not something a task can give",
    note = "extractors are `State<S>`, `Field<K>`, `Input`, `Arg<T>`, `Deps<T>`, `Ctx` and, of agents, `Model`, `Tools`, `Hosting` and `ActivityPayload<T>`; error handlers also take `Failure`"
)]
pub trait FromTask: Sized {
    /// Takes the argument from a task.
    ///
    /// # Errors
    /// [`NodeError`] when the task does not have it, or has it in another type.
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError>;

    /// Returns what the graph lacks for this argument and the fix; `None` if it lacks nothing.
    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let _ = info;
        None
    }

    /// Returns the part of the state that the argument reads; all of it by default.
    fn reads() -> Reads {
        Reads::All
    }
}

/// The failure of the node whose error handler this is.
#[derive(Debug, Clone)]
pub struct Failure(pub Fault);

impl FromTask for Failure {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        input.source.failure().cloned().map(Self).ok_or_else(|| {
            NodeError::message(format!(
                "node `{}` takes a `Failure`, which only error handlers get; give it by `on_error`",
                input.node_name()
            ))
        })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let fix = "only error handlers get one: give the function by `on_error`";
        (info.role != Role::Handler).then(|| ("`Failure`".to_owned(), fix.to_owned()))
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

/// The value that a [`SendTo`](crate::SendTo) carried to this task.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Arg, Graph, List, Next, START, SendTo, State};
///
/// #[derive(State)]
/// struct Words {
///     #[channel(append)]
///     lengths: List<usize>,
/// }
///
/// fn split(_: State<Words>) -> Vec<Next> {
///     ["one", "three"].map(|word| SendTo::to("measure", word.to_owned()).into()).into()
/// }
///
/// async fn measure(word: Arg<String>) -> WordsUpdate {
///     WordsUpdate::new().lengths([word.len()])
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<Words>::new("words").node("measure", measure);
/// let graph = graph.route_to(START, ["measure"], split).build()?;
/// let ended = graph.invoke(json!({})).await?;
/// assert_eq!(ended.output()?["lengths"], json!([3, 5]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Arg<T>(pub T);

impl<T> Deref for Arg<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> FromTask for Arg<T>
where
    T: serde::de::DeserializeOwned + Clone + Send + Sync + 'static,
{
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let Some(arg) = input.arg else {
            return Err(NodeError::message(format!(
                "node `{}` takes an `Arg<{}>`, but a route or a command led to it; reach it by `SendTo::to` only",
                input.node_name(),
                std::any::type_name::<T>()
            )));
        };
        if let Some(value) = arg.typed.as_ref().and_then(|v| v.get::<T>()) {
            return Ok(Self(value.clone()));
        }
        T::deserialize(&arg.json).map(Self).map_err(|e| {
            NodeError::message(format!(
                "node `{}` takes an `Arg<{}>` and was sent {}: {e}; send it a `{}`",
                input.node_name(),
                std::any::type_name::<T>(),
                cut(&arg.json.to_string()),
                std::any::type_name::<T>(),
            ))
        })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let edge = info.led_to.as_ref()?;
        let what = format!("`Arg<{}>`", std::any::type_name::<T>());
        Some((what, format!("only a `Send` brings one, and {edge} leads to the node")))
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

/// Fix for a missing dependency.
const NO_DEPENDENCY: &str = "give the graph one by `Graph::with`, or declare by `Graph::with_run_scoped` that each run has one";

impl<T: Send + Sync + 'static> FromTask for Deps<T> {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let found = input.source.dependencies().into_iter().find_map(Dependencies::get::<T>);
        found.map(Self).ok_or_else(|| {
            NodeError::message(format!(
                "node `{}` takes a `Deps<{}>`, and no `{1}` was given; {NO_DEPENDENCY}",
                input.node_name(),
                std::any::type_name::<T>(),
            ))
        })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let name = std::any::type_name::<T>();
        let missing = !info.deps.declares(TypeId::of::<T>());
        missing.then(|| (format!("`Deps<{name}>`"), NO_DEPENDENCY.to_owned()))
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}
