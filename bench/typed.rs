//! The benchmarks' work written by hand over a typed state, without any engine: what a task over
//! states like ours cannot cost less than.
//!
//! As in `inline.rs`, nodes are boxed async closures that are handed the state, borrow nothing and
//! return what to write; they are awaited in place and their writes merged after each step. State
//! and writes are structs here, not maps of JSON values.

use crate::inline::{BRANCHES, DONE, Work, message, wide};
use std::pin::Pin;
use std::sync::Arc;

/// A state.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    n: u64,
    items: Vec<u64>,
    messages: Vec<Said>,
    /// The values of the further keys of the wide state.
    further: Vec<Option<String>>,
}

#[derive(Debug, Clone)]
struct Said {
    #[expect(dead_code, reason = "a message has a role, whether anybody looks at it or not")]
    role: String,
    content: String,
}

/// Writes of a node: a value that replaces the one before, and items to append to lists.
#[derive(Debug, Default)]
struct Update {
    n: Option<u64>,
    items: Vec<u64>,
    messages: Vec<Said>,
}

type Boxed = Pin<Box<dyn Future<Output = Update> + Send>>;
type Node = Box<dyn Fn(Arc<State>) -> Boxed + Send + Sync>;
type Branch = Box<dyn Fn(u64) -> Boxed + Send + Sync>;

/// The nodes of one kind of work.
pub(crate) struct Typed {
    work: Work,
    nodes: Vec<Node>,
    branch: Branch,
}

impl Typed {
    pub(crate) fn new(work: Work) -> Self {
        let nodes = match work {
            Work::Seq10 | Work::Wide100 => (0..10).map(|_| count(|state| state.n + 1)).collect(),
            Work::Fan100 => vec![count(|_| 1), count(|state| state.items.len() as u64)],
            Work::React50 => vec![speak(), speak()],
        };
        let branch: Branch =
            Box::new(|i| Box::pin(async move { Update { items: vec![i], ..Update::default() } }));
        Self { work, nodes, branch }
    }

    /// Returns the initial state of a run.
    pub(crate) fn input(&self) -> State {
        let further = (self.work == Work::Wide100)
            .then(|| wide().map(|(_, value)| value.as_str().map(str::to_owned)).collect());
        State { further: further.unwrap_or_default(), ..State::default() }
    }

    /// Runs the work from start to end.
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
                if state.messages.last().is_some_and(|said| said.content == DONE) {
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

    /// Returns `true` if a state is the expected final state of this work.
    pub(crate) fn is_right(&self, end: &State) -> bool {
        let lens = (end.items.len(), end.messages.len(), end.further.iter().flatten().count());
        (end.n, lens)
            == match self.work {
                Work::Seq10 => (10, (0, 0, 0)),
                Work::Fan100 => (100, (100, 0, 0)),
                Work::React50 => (0, (0, 101, 0)),
                Work::Wide100 => (10, (0, 0, 100)),
            }
    }
}

/// Runs a single node, alone in its step.
async fn step(state: &mut Arc<State>, node: &Node) {
    let update = node(Arc::clone(state)).await;
    apply(state, update);
}

/// A node that writes `n`.
fn count(of: fn(&State) -> u64) -> Node {
    Box::new(move |state| {
        Box::pin(async move { Update { n: Some(of(&state)), ..Update::default() } })
    })
}

/// The agent or the tool: both say what comes next.
fn speak() -> Node {
    Box::new(|state| {
        Box::pin(async move {
            let (role, content) = message(state.messages.len());
            let said = Said { role: role.to_owned(), content };
            Update { messages: vec![said], ..Update::default() }
        })
    })
}

/// Merges what one node wrote.
fn apply(state: &mut Arc<State>, update: Update) {
    let state = Arc::make_mut(state);
    if let Some(n) = update.n {
        state.n = n;
    }
    state.items.extend(update.items);
    state.messages.extend(update.messages);
}
