//! Specs: a graph and a script. Members that the format does not name are remarks.

mod cursor;
mod graph;
mod op;
mod script;
#[cfg(test)]
mod tests;

pub(crate) use cursor::Cursor;
pub(crate) use graph::{
    BranchMap, BranchSpec, CacheSpec, FlowSpec, GraphSpec, NodeSpec, Persist, Policies, Reducer,
    RetrySpec, Source, StopsSpec, TimeoutSpec,
};
pub(crate) use op::{Fail, ListNamespaces, Op, Part, StoreOp};
pub(crate) use script::{Act, Begin, Entry, RunEntry, Update, Which};

use crate::SpecError;
use serde_json::Value as Json;
use weftwork_graph::Durability;

/// A graph and what is done with it, read and understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub(crate) body: Body,
    pub(crate) checkpointer: bool,
    pub(crate) recursion_limit: Option<u32>,
    pub(crate) script: Vec<Entry>,
}

/// The body of a spec: a graph, or tasks in the functional form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Graph(GraphSpec),
    Flow(FlowSpec),
}

/// `true` if one of these ops, or of their branches, is such a one.
fn any_op(ops: &[Op], wanted: fn(&Op) -> bool) -> bool {
    ops.iter().any(|op| match op {
        Op::If(_, yes, no) => any_op(yes, wanted) || any_op(no, wanted),
        op => wanted(op),
    })
}

impl Spec {
    /// Reads a spec from its text.
    ///
    /// # Errors
    /// [`SpecError`], with the place.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let json: Json = serde_json::from_str(text)
            .map_err(|error| SpecError::NotJson { reason: error.to_string() })?;
        Self::from_json(&json)
    }

    /// Reads a spec from JSON.
    ///
    /// # Errors
    /// [`SpecError`], with the place.
    pub fn from_json(json: &Json) -> Result<Self, SpecError> {
        let at = Cursor::root(json);
        at.object()?;
        let body = if at.get("entry").is_some() {
            Body::Flow(graph::flow(at)?)
        } else {
            Body::Graph(graph::graph(at)?)
        };
        Ok(Self {
            body,
            checkpointer: json.get("checkpointer").is_none_or(crate::python::truth),
            recursion_limit: at.maybe("recursion_limit", |limit| limit.small())?,
            script: at.member("script")?.each(script::entry)?,
        })
    }

    /// `true` if one of its runs stores checkpoints only at the end.
    pub(crate) fn keeps_at_exit(&self) -> bool {
        self.script.iter().any(|entry| match &entry.act {
            Act::Run(run) => run.durability == Some(Durability::Exit),
            _ => false,
        })
    }

    /// `true` if a subgraph stores its own state.
    pub(crate) fn has_own_graphs(&self) -> bool {
        match &self.body {
            Body::Graph(graph) => graph.has_own_graphs(),
            Body::Flow(flow) => flow.has_own_graphs(),
        }
    }

    /// Reason why frames of hosted runs differ from the events of runs in process; `None` if they do
    /// not.
    #[must_use]
    pub fn frames_differ(&self) -> Option<&'static str> {
        let Body::Graph(graph) = &self.body else {
            return Some("arguments of the tasks of a flow are not stored");
        };
        if self.has_untracked() {
            return Some("values of untracked channels are not stored");
        }
        if graph.any_node_spec(|node| node.persist == Persist::Never) {
            return Some("a subgraph stores no checkpoints");
        }
        if graph.any_node_spec(|node| node.call_sub.is_some()) {
            return Some("a graph that the code of a node calls is not declared");
        }
        if self.has_op(|op| matches!(op, Op::Drain)) {
            return Some("a node asks the run to stop, and the tasks that are due do not start");
        }
        None
    }

    /// `true` if a subgraph stops before or after nodes.
    pub(crate) fn has_inner_stops(&self) -> bool {
        match &self.body {
            Body::Graph(graph) => graph.has_inner_stops(),
            Body::Flow(_) => false,
        }
    }

    /// `true` if a node has such an op, itself or in a subgraph.
    pub(crate) fn has_op(&self, wanted: fn(&Op) -> bool) -> bool {
        self.any_node(|ops| any_op(ops, wanted))
    }

    /// `true` if a node both reads and writes the long-term store, so that it may do something else
    /// when it runs again.
    pub(crate) fn has_changing_nodes(&self) -> bool {
        let reads = |op: &Op| matches!(op, Op::Store(op) if !op.writes());
        let writes = |op: &Op| matches!(op, Op::Store(op) if op.writes());
        self.any_node(|ops| any_op(ops, reads) && any_op(ops, writes))
    }

    fn any_node(&self, wanted: impl Fn(&[Op]) -> bool + Copy) -> bool {
        match &self.body {
            Body::Graph(graph) => graph.any_node(&wanted),
            Body::Flow(flow) => flow.any_node(&wanted),
        }
    }

    /// `true` if it has channels whose values are not stored, itself or in a subgraph.
    pub(crate) fn has_untracked(&self) -> bool {
        self.has_reducer(|reducer| *reducer == Reducer::Untracked)
    }

    /// `true` if nodes may read how many supersteps are left.
    pub(crate) fn has_managed(&self) -> bool {
        self.has_reducer(|reducer| matches!(reducer, Reducer::LastStep | Reducer::Remaining))
    }

    /// `true` if it has channels that are stored as changes, itself or in a subgraph.
    pub(crate) fn has_delta(&self) -> bool {
        self.has_reducer(|reducer| matches!(reducer, Reducer::Delta(_)))
    }

    fn has_reducer(&self, wanted: fn(&Reducer) -> bool) -> bool {
        match &self.body {
            Body::Graph(graph) => graph.has_reducer(wanted),
            Body::Flow(_) => false,
        }
    }
}
