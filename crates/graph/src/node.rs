//! Nodes: async functions over extractors.

use crate::error::{NodeError, Stop};
use crate::extract::{BuildInfo, FromTask, TaskInput};
use crate::output::{IntoOutput, NodeResult};
use crate::state::StateSpec;
use serde::Serialize;
use std::sync::Arc;
use weftwork_engine::task::Arg;
use weftwork_engine::{Goto, TaskOutput, Value};
use weftwork_types::BoxFuture;

/// An update and the next nodes. Edges of the node are followed as well.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Command, Graph, List, START, State};
///
/// #[derive(State)]
/// struct Order {
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// async fn check(_: State<Order>) -> Command<Order> {
///     Command::update(OrderUpdate::new().log(["checked"])).goto("pack")
/// }
///
/// async fn pack(_: State<Order>) -> OrderUpdate {
///     OrderUpdate::new().log(["packed"])
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<Order>::new("order").node("check", check).node("pack", pack);
/// let graph = graph.edge(START, "check").ends("check", ["pack"]);
/// let ended = graph.build()?.invoke(json!({})).await?;
/// assert_eq!(ended.output()?["log"], json!(["checked", "packed"]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Command<S: StateSpec> {
    update: S::Update,
    goto: Vec<NodeResult<Goto>>,
    parent: bool,
}

impl<S: StateSpec> Command<S> {
    /// A command that writes an update.
    pub fn update(update: S::Update) -> Self {
        Self { update, goto: Vec::new(), parent: false }
    }

    /// A command for the graph around this one, whose state is `S`: it counts as the result of
    /// the node that runs this graph, and this graph's superstep is given up.
    pub fn parent(update: S::Update) -> Self {
        Self { update, goto: Vec::new(), parent: true }
    }

    /// Goes on at a node too.
    pub fn goto(mut self, node: impl AsRef<str>) -> Self {
        self.goto.push(Ok(Goto::Node(node.as_ref().into())));
        self
    }

    /// Starts a task of its own too.
    pub fn send(mut self, send: SendTo) -> Self {
        self.goto.push(send.0);
        self
    }
}

impl<S: StateSpec> IntoOutput for Command<S> {
    fn into_output(self) -> NodeResult<TaskOutput> {
        let mut output = self.update.into_output()?;
        output.goto.extend(self.goto.into_iter().collect::<NodeResult<Vec<_>>>()?);
        if self.parent {
            return Err(NodeError(Stop::Parent(Box::new(output))));
        }
        Ok(output)
    }
}

/// A task of its own for a node, with an argument that the node takes as
/// [`Arg`](crate::Arg).
///
/// ```
/// use weftwork_graph::{Next, SendTo};
///
/// let each: Vec<Next> =
///     ["a.txt", "b.txt"].map(|file| SendTo::to("read", file.to_owned()).into()).into();
/// assert_eq!(each.len(), 2);
/// ```
///
/// A program with its node is at [`Arg`](crate::Arg).
#[derive(Debug)]
#[must_use]
pub struct SendTo(pub(crate) NodeResult<Goto>);

impl SendTo {
    /// Sends a value to a node. A value that cannot be written as JSON fails the task.
    pub fn to<T>(node: impl AsRef<str>, value: T) -> Self
    where
        T: Serialize + std::marker::Send + Sync + 'static,
    {
        let node = node.as_ref();
        let json = serde_json::to_value(&value).map_err(|e| {
            NodeError::message(format!("the value sent to `{node}` cannot be written as JSON: {e}"))
        });
        Self(json.map(|json| {
            // A number is as quickly read from its JSON.
            let typed = (!json.is_number()).then(|| Value::new(value));
            Goto::Send { node: node.into(), arg: Arc::new(Arg { typed, json }) }
        }))
    }
}

/// A function that can be a node: async, one to six arguments that each implement [`FromTask`], a
/// result that implements [`IntoOutput`]. `M` is the tuple of its arguments.
#[diagnostic::on_unimplemented(
    message = "this function cannot be a node",
    label = "not a node",
    note = "a node is an `async fn` of one to six extractors that returns an update, a `Command`, `()`, or a `Result` of one of them",
    note = "extractors are `State<S>`, `Field<K>`, `Input`, `Arg<T>`, `Deps<T>`, `Ctx` and, of agents, `Model`, `Tools`, `Hosting` and `ActivityPayload<T>`; error handlers also take `Failure`"
)]
pub trait Handler<M>: std::marker::Send + Sync + 'static {
    /// Runs it.
    fn call(&self, input: &TaskInput<'_>) -> BoxFuture<'static, NodeResult<TaskOutput>>;

    /// Returns the mismatches between the node's types and the graph: the argument or result, and
    /// the fix.
    fn check(&self, info: &BuildInfo<'_>) -> Vec<(String, String)>;

    /// The channels it reads, if its arguments declare them: those of its [`Field`](crate::Field)s,
    /// unless another argument reads the whole state.
    fn reads(&self) -> Option<Vec<&'static str>>;
}

/// An async function of one to six arguments. It has no bounds on arguments and result, which are
/// bounds of [`Handler`] instead: so the compiler names the one that does not fit.
pub(crate) trait NodeFn<A> {
    type Future: Future;

    fn call(&self, arguments: A) -> Self::Future;
}

/// The arguments of a node.
pub(crate) trait NodeArguments: Sized {
    fn from_task(input: &TaskInput<'_>) -> NodeResult<Self>;
    fn check(info: &BuildInfo<'_>) -> Vec<(String, String)>;
    fn reads() -> Option<Vec<&'static str>>;
}

impl<F, A> Handler<A> for F
where
    F: NodeFn<A> + std::marker::Send + Sync + 'static,
    F::Future: std::marker::Send + 'static,
    <F::Future as Future>::Output: IntoOutput,
    A: NodeArguments,
{
    fn call(&self, input: &TaskInput<'_>) -> BoxFuture<'static, NodeResult<TaskOutput>> {
        match A::from_task(input) {
            Ok(arguments) => {
                let future = NodeFn::call(self, arguments);
                Box::pin(async move { future.await.into_output() })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn check(&self, info: &BuildInfo<'_>) -> Vec<(String, String)> {
        let takes = A::check(info).into_iter();
        let takes = takes.map(|(what, fix)| (format!("takes {what}"), fix));
        let returns = <F::Future as Future>::Output::check(info);
        let returns = returns.map(|(what, fix)| (format!("returns {what}"), fix));
        takes.chain(returns).collect()
    }

    fn reads(&self) -> Option<Vec<&'static str>> {
        A::reads()
    }
}

macro_rules! arities {
    ($(($($arg:ident),*);)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<F, Fut, $($arg),*> NodeFn<($($arg,)*)> for F
        where
            F: Fn($($arg),*) -> Fut,
            Fut: Future,
        {
            type Future = Fut;

            #[expect(non_snake_case, reason = "type names double as names of values")]
            fn call(&self, arguments: ($($arg,)*)) -> Fut {
                let ($($arg,)*) = arguments;
                self($($arg),*)
            }
        }

        impl<$($arg: FromTask),*> NodeArguments for ($($arg,)*) {
            fn from_task(input: &TaskInput<'_>) -> NodeResult<Self> {
                Ok(($($arg::from_task(input)?,)*))
            }

            fn check(info: &BuildInfo<'_>) -> Vec<(String, String)> {
                [$($arg::check(info)),*].into_iter().flatten().collect()
            }

            fn reads() -> Option<Vec<&'static str>> {
                crate::extract::channels_read(&[$($arg::reads()),*])
            }
        }
    )*};
}

arities! {
    (A1);
    (A1, A2);
    (A1, A2, A3);
    (A1, A2, A3, A4);
    (A1, A2, A3, A4, A5);
    (A1, A2, A3, A4, A5, A6);
}
