//! Code of users, with its panics caught.

use crate::compiled::RouteFn;
use crate::error::{NodeError, RuntimeError, Stop};
use crate::state::Seen;
use std::panic::AssertUnwindSafe;
use weftwork_engine::{Goto, NodeIdx};
use weftwork_types::code::Fault;

/// A fault of a node that panicked, or of its error handler.
pub(crate) fn node_panicked(name: &str, panic: &(dyn std::any::Any + Send)) -> Fault {
    match name.strip_prefix("__error_handler__") {
        Some(node) => panic_fault(&format!("the error handler of node `{node}`"), panic),
        None => panic_fault(&format!("node `{name}`"), panic),
    }
}

/// A fault of code that panicked.
pub(crate) fn panic_fault(what: &str, panic: &(dyn std::any::Any + Send)) -> Fault {
    let text = text_of(panic);
    Fault::new(crate::error::NODE_PANICKED, format!("{what} panicked: {text}"))
}

/// A panic of the run's types where no node runs: a value that is written, read or dropped.
#[must_use]
pub fn out_of_node(panic: &(dyn std::any::Any + Send)) -> RuntimeError {
    let text = format!("a type of the graph panicked between its nodes: {}", text_of(panic));
    RuntimeError::Node(Fault::new(crate::error::NODE_PANICKED, text))
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}

/// Asks a route, with its panics caught.
pub(crate) fn choose_targets(route: &RouteFn, seen: Seen<'_>) -> Result<Vec<Goto>, Fault> {
    let plan = seen.plan;
    let node = seen.node;
    let of = || match node {
        NodeIdx::START => "a route from START".to_owned(),
        node => format!("a route of node `{}`", plan.node_name(node)),
    };
    // Unwind safe: the route reads a copy of the state, which is dropped with the panic.
    let chosen = std::panic::catch_unwind(AssertUnwindSafe(|| route.choose(seen)));
    match chosen {
        Ok(Ok(goto)) => Ok(goto),
        Ok(Err(NodeError(Stop::Failed(fault)))) => Err(fault),
        Ok(Err(NodeError(_))) => Err(Fault::new(
            crate::error::NODE_FAILED,
            format!("{} stopped to ask or to wait, which only nodes can; do it in a node", of()),
        )),
        Err(panic) => Err(panic_fault(&of(), panic.as_ref())),
    }
}
