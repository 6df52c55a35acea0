//! The benchmark cases on graph-flow: tasks over a shared map.
//!
//! The library has no supersteps and no reducers: a task changes the map immediately, and the last
//! write wins. Therefore its branches return texts that the join collects, its messages are in its
//! own chat history, and its memory storage stores the session, not a state for each step. The work
//! is similar, not equal.

use async_trait::async_trait;
use graph_flow::{
    Context, ExecutionStatus, FanOutTask, FlowRunner, Graph, GraphBuilder, InMemorySessionStorage,
    NextAction, Session, SessionStorage, Task, TaskResult,
};
use peers_harness::{Case, Cell, Engine, Failure, Found, Saver, message, wide};
use std::sync::Arc;

type Done = graph_flow::Result<TaskResult>;

struct Count {
    id: String,
    next: NextAction,
}

#[async_trait]
impl Task for Count {
    fn id(&self) -> &str {
        &self.id
    }

    async fn run(&self, context: Context) -> Done {
        let n: u64 = context.get("n").unwrap_or_default();
        context.set("n", n + 1)?;
        Ok(TaskResult::new(None, self.next.clone()))
    }
}

fn chain(id: &str, go_on: &NextAction) -> Result<Graph, Failure> {
    let mut builder = GraphBuilder::new(id);
    for i in 0..10 {
        let next = if i == 9 { NextAction::End } else { go_on.clone() };
        builder = builder.add_task(Arc::new(Count { id: format!("n{i}"), next }));
        if i > 0 {
            builder = builder.add_edge(format!("n{}", i - 1), format!("n{i}"));
        }
    }
    Ok(builder.build()?)
}

struct Branch {
    id: String,
    item: u64,
}

#[async_trait]
impl Task for Branch {
    fn id(&self) -> &str {
        &self.id
    }

    async fn run(&self, _: Context) -> Done {
        Ok(TaskResult::new(Some(self.item.to_string()), NextAction::End))
    }
}

struct Join {
    keys: Vec<String>,
}

#[async_trait]
impl Task for Join {
    fn id(&self) -> &str {
        "join"
    }

    async fn run(&self, context: Context) -> Done {
        let answers = self.keys.iter().filter_map(|key| context.get::<String>(key));
        let items: Vec<u64> = answers.filter_map(|answer| answer.parse().ok()).collect();
        context.set("n", items.len())?;
        context.set("items", items)?;
        Ok(TaskResult::new(None, NextAction::End))
    }
}

fn fan(go_on: &NextAction) -> Result<Graph, Failure> {
    let branches = (0..100).map(|item| Branch { id: format!("w{item}"), item });
    let branches: Vec<Arc<dyn Task>> =
        branches.map(|branch| Arc::new(branch) as Arc<dyn Task>).collect();
    let keys = (0..100).map(|item| format!("fanout.w{item}.response")).collect();
    let builder = GraphBuilder::new("fan")
        .add_task(Arc::new(Count { id: "start".to_owned(), next: go_on.clone() }))
        .add_task(FanOutTask::new("work", branches).with_next_action(go_on.clone()))
        .add_task(Arc::new(Join { keys }))
        .add_edge("start", "work")
        .add_edge("work", "join");
    Ok(builder.build()?)
}

/// The agent or the tool, both of which append the next message.
struct Speak {
    id: &'static str,
    next: NextAction,
}

#[async_trait]
impl Task for Speak {
    fn id(&self) -> &str {
        self.id
    }

    async fn run(&self, context: Context) -> Done {
        let (role, content) = message(context.chat_history_len());
        let is_done = content == peers_harness::DONE;
        if role == "assistant" {
            context.add_assistant_message(content);
        } else {
            context.add_user_message(content);
        }
        let next = if is_done { NextAction::End } else { self.next.clone() };
        Ok(TaskResult::new(None, next))
    }
}

fn react(go_on: &NextAction) -> Result<Graph, Failure> {
    let builder = GraphBuilder::new("react")
        .add_task(Arc::new(Speak { id: "agent", next: go_on.clone() }))
        .add_task(Arc::new(Speak { id: "tool", next: go_on.clone() }))
        .add_edge("agent", "tool")
        .add_edge("tool", "agent");
    Ok(builder.build()?)
}

struct GraphFlow {
    graph: Arc<Graph>,
    first: &'static str,
    storage: Option<Arc<InMemorySessionStorage>>,
    is_wide: bool,
}

impl Engine for GraphFlow {
    type Input = Session;
    type Output = Context;

    async fn open(cell: &Cell) -> Result<Self, Failure> {
        let storage = match cell.checkpointer {
            Saver::None => None,
            Saver::Memory => Some(Arc::new(InMemorySessionStorage::new())),
            Saver::Sqlite => return Err(cell.no_such_saver()),
        };
        // With a storage, the call returns after each task, and the session is saved.
        let go_on =
            if storage.is_some() { NextAction::Continue } else { NextAction::ContinueAndExecute };
        let (graph, first) = match cell.case {
            Case::Seq10 | Case::Wide100 => (chain("chain", &go_on)?, "n0"),
            Case::Fan100 => (fan(&go_on)?, "start"),
            Case::React50 => (react(&go_on)?, "agent"),
        };
        let is_wide = cell.case == Case::Wide100;
        Ok(Self { graph: Arc::new(graph), first, storage, is_wide })
    }

    fn input(&self, run: u64) -> Result<Session, Failure> {
        let session = Session::new_from_task(format!("t{run}"), self.first);
        if self.is_wide {
            for (key, value) in wide() {
                session.context.set(key, value)?;
            }
        }
        Ok(session)
    }

    async fn run(&self, mut session: Session) -> Result<Context, Failure> {
        let Some(storage) = &self.storage else {
            self.graph.execute_session(&mut session).await?;
            return Ok(session.context);
        };
        let id = session.id.clone();
        let context = session.context.clone();
        storage.save(session).await?;
        let runner = FlowRunner::new(
            Arc::clone(&self.graph),
            Arc::clone(storage) as Arc<dyn SessionStorage>,
        );
        while !matches!(runner.run(&id).await?.status, ExecutionStatus::Completed) {}
        Ok(context)
    }

    fn found(output: &Context) -> Found {
        Found {
            n: output.get("n").unwrap_or_default(),
            items: output.get::<Vec<u64>>("items").map_or(0, |items| items.len()),
            messages: output.chat_history_len(),
            keys: wide().filter(|(key, _)| output.get::<String>(key).is_some()).count(),
        }
    }

    async fn stored(&self, run: u64) -> Result<Option<u64>, Failure> {
        let Some(storage) = &self.storage else { return Ok(None) };
        Ok(storage.get(&format!("t{run}")).await?.map(|session| session.version))
    }
}

fn main() -> Result<(), Failure> {
    peers_harness::main::<GraphFlow>(Cell::from_args()?)
}
