//! The benchmarks' work written by hand without an engine: the lower bound for the cost of a task
//! over JSON. `typed.rs` is the same over a typed state.
//!
//! Nodes have the usual form in graph engines over JSON: boxed async closures that receive the
//! state, a map of JSON values, and return the keys to write. They borrow nothing, so an engine
//! could run them on any thread. Here they are awaited in place, and their writes are merged after
//! each step: values are replaced, lists are extended. This file is included by
//! `crates/runtime/benches` and by `bench/peers`, so that both compare with the same loop.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

/// A state: channel values by name.
pub(crate) type State = HashMap<String, Value>;
/// The writes of a node: values by key; lists contain the items to append.
type Update = HashMap<String, Value>;
type Boxed = Pin<Box<dyn Future<Output = Update> + Send>>;
type Node = Box<dyn Fn(Arc<State>) -> Boxed + Send + Sync>;
type Branch = Box<dyn Fn(u64) -> Boxed + Send + Sync>;

/// Branches of the fan-out.
pub(crate) const BRANCHES: u64 = 100;
/// Tool calls before the agent answers.
const TURNS: usize = 50;
/// Number of additional keys of the wide state, and bytes in each.
const WIDE: (usize, usize) = (100, 100);

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Ten nodes in a chain, each reads `n` and writes `n + 1`.
    Seq10,
    /// A start, a hundred branches that append one item each, and a join that counts them.
    Fan100,
    /// An agent that calls a tool fifty times and then answers, with a message at each step.
    React50,
    /// `Seq10` with a hundred additional keys of a hundred bytes.
    Wide100,
}

impl Work {
    /// Number of executed nodes.
    pub(crate) fn tasks(self) -> u32 {
        match self {
            Self::Seq10 | Self::Wide100 => 10,
            Self::Fan100 => 102,
            Self::React50 => 101,
        }
    }
}

/// The nodes of one kind of work.
pub(crate) struct Inline {
    work: Work,
    nodes: Vec<Node>,
    branch: Branch,
}

impl Inline {
    pub(crate) fn new(work: Work) -> Self {
        let nodes: Vec<Node> = match work {
            Work::Seq10 | Work::Wide100 => (0..10).map(|_| count()).collect(),
            Work::Fan100 => vec![
                Box::new(|_| Box::pin(async { update("n", json!(1)) })),
                Box::new(|state| {
                    Box::pin(async move { update("n", json!(list(&state, "items").len())) })
                }),
            ],
            Work::React50 => vec![speak(), speak()],
        };
        let branch: Branch = Box::new(|i| Box::pin(async move { update("items", json!([i])) }));
        Self { work, nodes, branch }
    }

    /// The input of a run.
    pub(crate) fn input(&self) -> State {
        if self.work == Work::Wide100 { wide().collect() } else { State::new() }
    }

    /// Runs the work once from start to end.
    pub(crate) async fn run(&self, input: State) -> State {
        let mut state = Arc::new(input);
        match (self.work, self.nodes.as_slice()) {
            (Work::Fan100, [start, join]) => {
                step(&mut state, start).await;
                let mut all = Vec::with_capacity(BRANCHES as usize);
                for i in 0..BRANCHES {
                    all.push((self.branch)(i).await);
                }
                for update in all {
                    apply(&mut state, update);
                }
                step(&mut state, join).await;
            }
            (Work::React50, [agent, tool]) => loop {
                step(&mut state, agent).await;
                if is_done(&state) {
                    break;
                }
                step(&mut state, tool).await;
            },
            (_, chain) => {
                for node in chain {
                    step(&mut state, node).await;
                }
            }
        }
        Arc::unwrap_or_clone(state)
    }
}

/// Runs a step with a single node.
async fn step(state: &mut Arc<State>, node: &Node) {
    let update = node(Arc::clone(state)).await;
    apply(state, update);
}

/// A node of the chain.
fn count() -> Node {
    Box::new(|state| {
        Box::pin(async move {
            let n = state.get("n").and_then(Value::as_u64).unwrap_or_default();
            update("n", json!(n + 1))
        })
    })
}

/// The agent or the tool, both of which append the next message.
fn speak() -> Node {
    Box::new(|state| {
        Box::pin(async move {
            let (role, content) = message(list(&state, "messages").len());
            update("messages", json!([{ "role": role, "content": content }]))
        })
    })
}

fn is_done(state: &State) -> bool {
    list(state, "messages").last().is_some_and(|message| message["content"] == DONE)
}

fn list<'a>(state: &'a State, key: &str) -> &'a [Value] {
    state.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn update(key: &str, value: Value) -> Update {
    HashMap::from([(key.to_owned(), value)])
}

/// Merges the writes of a node.
#[expect(clippy::iter_over_hash_type, reason = "each key is merged by itself")]
fn apply(state: &mut Arc<State>, update: Update) {
    let state = Arc::make_mut(state);
    for (key, value) in update {
        match (state.get_mut(&key), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (Some(held), value) => *held = value,
            (None, value) => {
                state.insert(key, value);
            }
        }
    }
}

/// The agent's final message.
pub(crate) const DONE: &str = "done";

/// Role and text of the message after `len` messages.
pub(crate) fn message(len: usize) -> (&'static str, String) {
    if len >= 2 * TURNS {
        ("assistant", DONE.to_owned())
    } else if len.is_multiple_of(2) {
        ("assistant", format!("call {len}"))
    } else {
        ("tool", format!("result {len}"))
    }
}

/// The additional keys of the wide state and their values.
pub(crate) fn wide() -> impl Iterator<Item = (String, Value)> {
    (0..WIDE.0).map(|i| (format!("k{i:03}"), Value::String("x".repeat(WIDE.1))))
}
