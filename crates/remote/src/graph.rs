//! An assistant as a node of a graph, and as a graph of its own.

use crate::call::{Call, End, Ended, Input};
use crate::server::RemoteServer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::channel::{LastValue, Messages};
use weftwork_graph::{
    BuildError, ChannelDef, CompiledGraph, Ctx, DynUpdate, Graph, NodeResult, Once, Question, START,
};
use weftwork_schema::Checker;
use weftwork_types::canonical::hash;
use weftwork_types::message::langchain;
use weftwork_types::port::{Demand, RemoteUse, Reservation};
use weftwork_types::usage::Usage;

/// Channel with the messages of a conversation.
const MESSAGES: &str = "messages";
/// Node of the graph of an agent.
const NODE: &str = "remote";

/// The thread on the server for the runs of a remote graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteThread {
    /// Each task that runs the graph has a thread of its own.
    #[default]
    PerTask,
    /// All tasks of a local thread share one, so that the remote graph remembers earlier runs. Tasks
    /// of one superstep cannot use it side by side.
    PerThread,
}

/// An assistant of an Agent Server, which runs as a node of local graphs.
///
/// The run is started once: a process that executes the node again, after a crash or a question,
/// joins the run that it or another process started. Frames of the run appear as frames of a
/// subgraph of the node, in the modes `values`, `updates`, `custom` and, for partial text,
/// `messages`. After a crash they are emitted again from the first one on.
///
/// Questions of the run are asked one after the other as questions of the local run, and the answers
/// are sent together. When the local run is cancelled, or its deadline passes, the remote run is
/// cancelled. When a remote run failed or was cancelled and the node is executed again, the thread
/// continues there where it stopped. The step limit that was given to the local run is that of the
/// remote run too.
///
/// # Example
/// ```no_run
/// use std::sync::Arc;
/// use weftwork_graph::channel::LastValue;
/// use weftwork_graph::{ChannelDef, Ctx, Graph, Input, START};
/// use weftwork_remote::{RemoteGraph, RemoteServer};
/// use weftwork_types::port::Egress;
///
/// fn graph(egress: Arc<dyn Egress>) -> Result<(), Box<dyn std::error::Error>> {
///     let server = RemoteServer::new("helper", "https://agents.example", egress)?;
///     let helper = RemoteGraph::new(server, "support");
///     let channels = ["question", "answer"];
///     let channels = channels.map(|name| ChannelDef::new(name, LastValue::<serde_json::Value>::new()));
///     let graph = Graph::dynamic("desk", channels.into())
///         .node("helper", move |Input(input): Input, ctx: Ctx| {
///             let helper = helper.clone();
///             async move { helper.run(&ctx, input).await }
///         })
///         .edge(START, "helper")
///         .build()?;
///     # drop(graph);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct RemoteGraph {
    server: RemoteServer,
    assistant: Arc<str>,
    thread: RemoteThread,
    accounting: Accounting,
}

/// Treatment of a run by budgets, which cannot count what it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accounting {
    /// A budget with limits refuses them.
    Counted,
    /// They are made beside the budget.
    Uncounted,
}

impl RemoteGraph {
    /// An assistant by its id, or by the name of its graph.
    #[must_use]
    pub fn new(server: RemoteServer, assistant: &str) -> Self {
        let thread = RemoteThread::default();
        Self { server, assistant: assistant.into(), thread, accounting: Accounting::Counted }
    }

    /// Sets the thread that runs use.
    #[must_use]
    pub fn thread(self, thread: RemoteThread) -> Self {
        Self { thread, ..self }
    }

    /// Makes the runs also if the local run has a budget. Servers report no usage, so that a budget
    /// with limits refuses remote runs otherwise.
    #[must_use]
    pub fn uncounted(self) -> Self {
        Self { accounting: Accounting::Uncounted, ..self }
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &RemoteServer {
        &self.server
    }

    /// The assistant.
    #[must_use]
    pub fn assistant(&self) -> &str {
        &self.assistant
    }

    /// Runs the assistant as the node of `ctx`, and returns the values of the channels that the graph
    /// of the node has. Messages are converted from and to the form of the protocol.
    ///
    /// # Errors
    /// Faults W0651 to W0658 of [`RemoteError`](crate::RemoteError); W0659 if the local run has a
    /// budget that cannot count the run; the error that stops the node
    /// while a question has no answer. Return it with `?`.
    ///
    /// # Cancel safety
    /// As [`call`](Self::call).
    pub async fn run(&self, ctx: &Ctx, input: Value) -> NodeResult<DynUpdate> {
        let values = self.call(ctx, input).await?;
        let Value::Object(values) = values else {
            let reason = format!("expected an object of channels, found `{values}`");
            return Err(self.server.malformed("the values of a graph", reason).into_node_error());
        };
        let plan = ctx.graph().plan();
        let mut update = DynUpdate::new();
        for (name, value) in values {
            if plan.channel_idx(&name).is_none() {
                continue;
            }
            let value = if ctx.graph().holds_messages(&name) {
                self.read_messages(ctx, value)?
            } else {
                value
            };
            update = update.write(name, value);
        }
        Ok(update)
    }

    /// Runs the assistant within a node, and returns its values as the server sends them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// When the future is dropped because the local run was cancelled or its deadline passed, a
    /// request to cancel the remote run is sent in the background. Otherwise the remote run
    /// continues, and is joined when the node is executed again.
    pub async fn call(&self, ctx: &Ctx, input: Value) -> NodeResult<Value> {
        let thread = self.thread_id(ctx).await?;
        let input = Input::Start(langchain::into_shown(input));
        let mut ended = self.once(ctx, &thread, &input).await?;
        loop {
            let questions = match ended.end {
                End::Completed { values } => return Ok(values),
                End::Asks { questions } => questions,
            };
            let mut answers = BTreeMap::new();
            for asked in questions {
                let mut question = Question::value(asked.value);
                // The server checks answers too. A schema that cannot be read checks nothing here.
                if let Some(schema) = asked.response_schema.filter(is_schema) {
                    question = question.answer_schema(schema);
                }
                answers.insert(asked.id, ctx.ask_question(question)?.value);
            }
            ended = self.once(ctx, &thread, &Input::Answers(answers)).await?;
        }
    }

    /// Makes a run, or returns its recorded end.
    async fn once(&self, ctx: &Ctx, thread: &str, input: &Input) -> NodeResult<Ended> {
        let Self { server, assistant, .. } = self;
        // With the thread: a copy of the local thread has another one, and joins no run of the
        // original.
        let what = json!({"assistant": &**assistant, "thread": thread, "input": input});
        // The server finds the run by the key, so that it may be requested again.
        let once = Once::new(format!("remote:{}", server.name())).with(what).idempotent();
        ctx.once(once, async |key| {
            let thread = thread.to_owned();
            let call = Call { server, assistant, ctx, thread, key: key.to_string() };
            let reserved = self.reserve(ctx).await?;
            let ended = call.to_end(input).await;
            if let Some(reserved) = reserved {
                reserved.settle(Usage::default()).await;
            }
            ended.map_err(crate::RemoteError::into_node_error)
        })
        .await
    }

    /// Asks the budget for a run; `None` if it is made beside the budget.
    async fn reserve(&self, ctx: &Ctx) -> NodeResult<Option<Reservation>> {
        if self.accounting == Accounting::Uncounted {
            return Ok(None);
        }
        let demand = Demand::RemoteRun { remote: self.server.name().to_owned() };
        match ctx.calls().budget.reserve(&demand).await {
            Ok(reserved) => Ok(Some(reserved)),
            Err(error) => Err(error.fault().into()),
        }
    }

    /// Returns the id of the thread: drawn at random by the first process that executes the node, and
    /// recorded with the local thread.
    async fn thread_id(&self, ctx: &Ctx) -> NodeResult<String> {
        let calls = ctx.calls();
        let task = match self.thread {
            RemoteThread::PerTask => {
                Some(ctx.tool_call_id(&format!("remote:{}", self.server.name())))
            }
            RemoteThread::PerThread => None,
        };
        let name = hash(&json!({
            "server": self.server.address(),
            "assistant": &*self.assistant,
            "thread": calls.thread,
            "graph": calls.origin.run().map(|run| &run.graph),
            "task": task,
        }));
        let of = RemoteUse { server: self.server.remote_address(), name };
        let recorded = calls.journal.remote_thread(of).await?;
        // Without a journal the node is never executed again.
        Ok(recorded.unwrap_or_else(|| uuid::Uuid::from_u128(ctx.clock().unique()).to_string()))
    }

    /// Reads messages of the protocol. Blocks of content that are unknown here are left out.
    fn read_messages(&self, ctx: &Ctx, mut value: Value) -> NodeResult<Value> {
        leave_out_unknown_blocks(&mut value);
        langchain::read(value, &mut || ctx.message_id())
            .map_err(|reason| self.server.malformed("a message", reason).into_node_error())
    }

    /// Builds a graph of one node that runs the assistant, for runs of its own. Its state has the
    /// channel `messages`, and these others. All runs of a thread share a thread on the server.
    ///
    /// # Errors
    /// [`BuildError`] for names of channels that are reserved or given twice.
    pub fn agent(&self, channels: &[String]) -> Result<CompiledGraph, BuildError> {
        let remote = self.clone().thread(RemoteThread::PerThread);
        let others = channels.iter().filter(|name| *name != MESSAGES);
        let others = others.map(|name| ChannelDef::new(name.clone(), LastValue::<Value>::new()));
        let messages = ChannelDef::new(MESSAGES, Messages);
        let name = format!("remote:{}", self.server.name());
        Graph::dynamic(name, std::iter::once(messages).chain(others).collect())
            .version(format!("remote:{}", self.assistant))
            .node(NODE, move |weftwork_graph::Input(input): weftwork_graph::Input, ctx: Ctx| {
                let remote = remote.clone();
                async move { remote.run(&ctx, input).await }
            })
            .edge(START, NODE)
            .build()
    }
}

fn is_schema(schema: &Value) -> bool {
    schema.is_object() && Checker::compile(schema).is_ok()
}

/// Leaves out the blocks of messages that are neither text nor an image.
fn leave_out_unknown_blocks(value: &mut Value) {
    match value {
        Value::Array(messages) => messages.iter_mut().for_each(leave_out_unknown_blocks),
        Value::Object(message) => {
            if let Some(Value::Array(blocks)) = message.get_mut("content") {
                blocks.retain(|block| {
                    block.is_string() || matches!(kind(block), Some("text" | "image_url"))
                });
            }
        }
        _ => {}
    }
}

fn kind(block: &Value) -> Option<&str> {
    block.get("type").and_then(Value::as_str)
}
