//! Routes: plain functions over the state that select the next nodes.

use crate::error::NodeError;
use crate::node::SendTo;
use crate::output::NodeResult;
use crate::state::{Seen, State, StateSpec};
use weftwork_engine::Goto;
use weftwork_engine::plan::END;
use weftwork_types::run::Target;

/// The target of a route, with names only known when it runs.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{END, Graph, Next, START, State};
///
/// #[derive(State)]
/// struct Count {
///     #[channel(reduce = |sum, n| sum + n)]
///     n: u32,
/// }
///
/// fn until_three(count: State<Count>) -> Next {
///     if *count.n() < 3 { Next::node("add") } else { Next::End }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let add = async |_: State<Count>| CountUpdate::new().n(1);
/// let graph = Graph::<Count>::new("count").node("add", add).edge(START, "add");
/// let graph = graph.route_to("add", ["add", END], until_three);
/// let ended = graph.build()?.invoke(json!({})).await?;
/// assert_eq!(ended.output()?["n"], json!(3));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub enum Next {
    /// To a node.
    Node(String),
    /// To a task of its own.
    Send(SendTo),
    /// Nowhere: this branch of the run is over.
    End,
}

impl Next {
    /// To a node.
    #[must_use]
    pub fn node(name: impl Into<String>) -> Self {
        Self::Node(name.into())
    }

    pub(crate) fn into_goto(self) -> NodeResult<Goto> {
        match self {
            Self::Node(name) => Ok(goto_named(&name)),
            Self::Send(send) => send.0,
            Self::End => Ok(Goto::End),
        }
    }
}

/// To a node by its name, or nowhere.
fn goto_named(name: &str) -> Goto {
    if name == END { Goto::End } else { Goto::Node(name.into()) }
}

impl From<Target> for Next {
    fn from(target: Target) -> Self {
        match target {
            Target::Node(node) => Self::Node(node),
            Target::Send { node, arg } => Self::Send(SendTo::to(node, arg)),
        }
    }
}

impl From<SendTo> for Next {
    fn from(send: SendTo) -> Self {
        Self::Send(send)
    }
}

/// A set of targets known when the graph is built: an enum with `#[derive(Routes)]`.
///
/// ```
/// use weftwork_graph::Routes;
///
/// #[derive(Routes)]
/// enum Decision {
///     PackIt,
///     #[route("ask_a_person")]
///     Ask,
///     End,
/// }
///
/// assert_eq!(Decision::TARGETS, ["pack_it", "ask_a_person", "END"]);
/// assert_eq!(Decision::Ask.target(), "ask_a_person");
/// # let _ = [Decision::PackIt, Decision::End];
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a route",
    label = "not a target",
    note = "routes return an enum with `#[derive(Routes)]`, a `Next`, a `Vec` of those, or a `Result` of one of them"
)]
pub trait Routes: Sized {
    /// The names it may choose, `END` included.
    const TARGETS: &'static [&'static str];

    /// The name it chose.
    fn target(&self) -> &'static str;
}

/// Types that a route may return: an enum of [`Routes`], a [`Next`], or a list of those.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a route",
    note = "routes return an enum with `#[derive(Routes)]`, a `Next`, a `Vec` of those, or a `Result` of one of them"
)]
pub trait IntoRoute {
    /// The targets it may choose, as far as its type lists them.
    fn targets() -> &'static [&'static str];

    /// Adds where it leads.
    ///
    /// # Errors
    /// The route's own error, or a value that cannot be sent.
    fn lead(self, to: &mut Vec<Goto>) -> NodeResult<()>;
}

impl<R: Routes> IntoRoute for R {
    fn targets() -> &'static [&'static str] {
        R::TARGETS
    }

    fn lead(self, to: &mut Vec<Goto>) -> NodeResult<()> {
        to.push(goto_named(self.target()));
        Ok(())
    }
}

impl IntoRoute for Next {
    fn targets() -> &'static [&'static str] {
        &[]
    }

    fn lead(self, to: &mut Vec<Goto>) -> NodeResult<()> {
        to.push(self.into_goto()?);
        Ok(())
    }
}

impl<R: IntoRoute> IntoRoute for Vec<R> {
    fn targets() -> &'static [&'static str] {
        R::targets()
    }

    fn lead(self, to: &mut Vec<Goto>) -> NodeResult<()> {
        to.reserve_exact(self.len());
        self.into_iter().try_for_each(|one| one.lead(to))
    }
}

impl<R: IntoRoute, E: Into<NodeError>> IntoRoute for Result<R, E> {
    fn targets() -> &'static [&'static str] {
        R::targets()
    }

    fn lead(self, to: &mut Vec<Goto>) -> NodeResult<()> {
        self.map_err(Into::into)?.lead(to)
    }
}

/// A function that can be a route: it reads the state as the finished node left it (the state at
/// the start of the step with the node's own writes), and waits for nothing.
pub trait RouteHandler<S: StateSpec, R>: std::marker::Send + Sync + 'static {
    /// Asks it.
    ///
    /// # Errors
    /// The route's own error.
    fn choose(&self, seen: Seen<'_>) -> NodeResult<Vec<Goto>>;
}

impl<S, R, F> RouteHandler<S, R> for F
where
    S: StateSpec,
    R: IntoRoute,
    F: Fn(State<S>) -> R + std::marker::Send + Sync + 'static,
{
    fn choose(&self, seen: Seen<'_>) -> NodeResult<Vec<Goto>> {
        let mut to = Vec::new();
        self(State::over(seen)).lead(&mut to)?;
        Ok(to)
    }
}
