//! Services for the code of function agents.

mod agents;
mod args;
mod items;

use self::args::{Args, wrong};
use crate::agent::Agent;
use crate::call::{ReadyCall, ToolCalled, call_one};
use crate::definition::Grant;
use crate::mode::RequestError;
use crate::records::{RecordId, RecordKind, RecordRef, Records};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use weftwork_agents::Tools;
use weftwork_graph::{Ctx, NodeError, NodeResult, Once};
use weftwork_sandbox::{Host, HostError};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, Role};
use weftwork_types::task::AgentFailure;
use weftwork_types::{BoxFuture, CallChain};

/// Most characters of a line in the log of the operator.
const LINE_CHARS_MAX: usize = 2_000;

/// Most calls of tools in an answer.
const CALLS_SHOWN: usize = 100;

/// The grants of code, and where it runs.
#[derive(Debug)]
pub(crate) struct HostRequest<'n> {
    pub(crate) grants: &'n [Grant],
    /// Number of agents that asked one another before the one of the code.
    pub(crate) chain: CallChain,
}

/// The services of a node, as its code may ask for them.
pub(crate) struct FunctionHost<'n> {
    agent: &'n Agent,
    tools: &'n Tools,
    ctx: &'n Ctx,
    grants: &'n [Grant],
    /// Number of agents that asked one another before this one.
    chain: CallChain,
    called: Mutex<Vec<ToolCalled>>,
    /// Failures of agents that the code asked.
    failures: Mutex<Vec<AgentFailure>>,
    /// The reason why the node has to stop, such as an open question.
    stopped: Mutex<Option<NodeError>>,
    /// Number of calls that have begun and not ended, of those that may have to stop the node.
    under_way: AtomicUsize,
    has_changed: Notify,
    /// Number of calls, which tells their records apart.
    asked: AtomicUsize,
}

/// A request of code to a model.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ModelRequest {
    Text(String),
    Whole(WholeRequest),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeRequest {
    messages: Vec<ModelMessage>,
    /// JSON Schema of the answer, which is a value then.
    schema: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelMessage {
    role: ModelRole,
    content: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModelRole {
    System,
    User,
    Assistant,
}

type Answer<'a> = BoxFuture<'a, Result<Value, HostError>>;

impl<'n> FunctionHost<'n> {
    pub(crate) fn new(
        agent: &'n Agent,
        tools: &'n Tools,
        ctx: &'n Ctx,
        request: HostRequest<'n>,
    ) -> Self {
        let HostRequest { grants, chain } = request;
        Self {
            agent,
            tools,
            ctx,
            grants,
            chain,
            called: Mutex::default(),
            failures: Mutex::default(),
            stopped: Mutex::default(),
            under_way: AtomicUsize::new(0),
            has_changed: Notify::new(),
            asked: AtomicUsize::new(0),
        }
    }

    /// Waits until the node has to stop, and no such call is under way. Ends once.
    pub(crate) async fn until_stopped(&self) -> NodeError {
        loop {
            self.has_changed.notified().await;
            let is_quiet = self.under_way.load(Ordering::SeqCst) == 0;
            if let Some(error) = self.stopped().take_if(|_| is_quiet) {
                return error;
            }
        }
    }

    fn stopped(&self) -> MutexGuard<'_, Option<NodeError>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Failures of agents that the code asked, in their order.
    pub(crate) fn failures(&self) -> MutexGuard<'_, Vec<AgentFailure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the calls of tools that ended, in the order of their ends; of many, the first ones and
    /// the number of the others.
    pub(crate) fn called(&self) -> Vec<Value> {
        let called = self.called.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shown: Vec<_> = called.iter().take(CALLS_SHOWN).map(ToolCalled::shown).collect();
        if let more @ 1.. = called.len().saturating_sub(CALLS_SHOWN) {
            shown.push(json!({"more": more}));
        }
        shown
    }

    fn is_granted(&self, member: &str) -> bool {
        let grant = match member {
            "model" => Grant::Model,
            "tools" => Grant::Tools,
            "deliverables.list" | "deliverables.read" => Grant::Deliverables,
            "store.get" | "store.put" | "store.delete" | "store.search" => Grant::Store,
            "agents.call" => Grant::Agents,
            "agents.draft" => Grant::Drafts,
            "emit" => Grant::Emit,
            "log" => Grant::Log,
            _ => return false,
        };
        self.grants.contains(&grant)
    }

    /// Stops the node for what it has to stop for; anything else is an error that the code can catch.
    fn answered<T>(&self, result: NodeResult<T>) -> Option<Result<T, HostError>> {
        let error = match result {
            Ok(value) => return Some(Ok(value)),
            Err(error) => error,
        };
        match error.try_into_fault() {
            Ok(fault) => Some(Err(error_of(fault))),
            Err(stopped) => {
                self.stopped().get_or_insert(stopped);
                None
            }
        }
    }

    /// Does work that may have to stop the node, such as one that asks a person. It counts as under way
    /// from here on.
    fn stopping<'a, T: Send + 'a>(
        &'a self,
        work: impl Future<Output = NodeResult<T>> + Send + 'a,
    ) -> impl Future<Output = Result<T, HostError>> + Send + 'a {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        async move {
            let ended = self.answered(work.await);
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            self.has_changed.notify_one();
            match ended {
                Some(ended) => ended,
                None => std::future::pending().await,
            }
        }
    }

    /// Records what the code sees of a service, errors too: it sees the same when it runs again.
    async fn seen(
        &self,
        what: Once,
        work: impl Future<Output = NodeResult<Value>> + Send,
    ) -> Result<Value, HostError> {
        let seen = self.ctx.once(what, async |_| match work.await {
            Ok(value) => Ok(Seen::Answer(value)),
            Err(error) => Ok(Seen::Error(error_of(error.try_into_fault()?))),
        });
        match self.stopping(seen).await? {
            Seen::Answer(value) => Ok(value),
            Seen::Error(error) => Err(error),
        }
    }

    fn call_tool(&self, mut args: Args) -> Answer<'_> {
        let call = (|| {
            let tool = args.text("ctx.tools", "the name of a tool")?;
            let arguments = args.object("ctx.tools", "the arguments of the tool")?;
            let known = &self.agent.tools;
            if !known.contains(&tool) {
                let known = known.join(", ");
                let unknown = RequestError::Tool { agent: self.agent.slug.clone(), tool, known };
                return Err(error_of(unknown.fault()));
            }
            Ok(ReadyCall { tool, arguments: Value::Object(arguments) })
        })();
        // Nothing further begins once a person has to be asked.
        if self.stopped().is_some() {
            return Box::pin(std::future::pending());
        }
        let call = match call {
            Ok(call) => call,
            Err(error) => return at_once(Err(error)),
        };
        // It gets its number here, in the order of the code, and not when it is polled.
        let made = self.stopping(call_one(self.tools, &call));
        Box::pin(async move {
            let called = made.await?;
            let result = called.result.clone().map_err(error_of);
            self.called.lock().unwrap_or_else(PoisonError::into_inner).push(called);
            result
        })
    }

    async fn ask_model(&self, what: Once, args: Args) -> Result<Value, HostError> {
        let expected = "a text, or `{messages: [{role, content}], schema}`";
        let request: ModelRequest = args.read("ctx.model", expected)?;
        let request = match request {
            ModelRequest::Whole(request) => request,
            ModelRequest::Text(content) => {
                let message = ModelMessage { role: ModelRole::User, content };
                WholeRequest { messages: vec![message], schema: None }
            }
        };
        let message = |ModelMessage { role, content }| {
            let role = match role {
                ModelRole::System => Role::System,
                ModelRole::User => Role::User,
                ModelRole::Assistant => Role::Assistant,
            };
            Message::text(self.ctx.message_id(), role, content)
        };
        let messages: Vec<Message> = request.messages.into_iter().map(message).collect();
        let answer = async {
            match &request.schema {
                Some(schema) => self.agent.ask_value(messages, schema, self.ctx).await,
                None => {
                    let answer = self.agent.ask_quietly(messages, self.ctx).await?;
                    Ok(Value::String(answer.joined_text()))
                }
            }
        };
        self.seen(what.reads(), Box::pin(answer)).await
    }

    async fn read_deliverables(&self, what: Once, id: Option<String>) -> Result<Value, HostError> {
        let read = async {
            let owner = self.agent.owner(self.ctx).await?;
            let records = Records::new(&*self.agent.store, &owner, self.ctx.clock().now());
            let kind = RecordKind::Deliverable;
            let thread = self.ctx.thread().clone();
            let Some(id) = id else {
                let all = records.list(kind, &thread).await.map_err(|error| error.fault())?;
                return Ok(all.iter().map(|record| json!(record)).collect());
            };
            let at = RecordRef { kind, thread, id: RecordId::new(&id)? };
            let record = records.read(&at).await.map_err(|error| error.fault())?;
            let found = records.content(&record, None).await.map_err(|error| error.fault())?;
            Ok(json!({"record": record, "content": found.content}))
        };
        self.seen(what.reads(), read).await
    }
}

/// An end of a call as the code sees it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Seen {
    Answer(Value),
    Error(HostError),
}

impl Host for FunctionHost<'_> {
    fn call(&self, member: String, args: Value) -> Answer<'_> {
        let mut args = Args::of(args);
        if !self.is_granted(&member) {
            let message = format!(
                "`ctx.{member}` is not granted; `transport.function.grants` of the definition names what is"
            );
            let error = HostError { code: "W1055".to_owned(), message };
            return at_once(Err(error));
        }
        // In the order of the code, which is the same when it runs again.
        let number = self.asked.fetch_add(1, Ordering::SeqCst).to_string();
        let what = Once::new(format!("ctx.{member}")).id(&number);
        match member.as_str() {
            "tools" => self.call_tool(args),
            "model" => Box::pin(self.ask_model(what, args)),
            "emit" => {
                self.ctx.emit(args.take());
                at_once(Ok(Value::Null))
            }
            "log" => {
                let line = match args.take() {
                    Value::String(line) => line,
                    other => other.to_string(),
                };
                let line = self.ctx.calls().hidden.shape(&line);
                let line: String = line.chars().take(LINE_CHARS_MAX).collect();
                tracing::info!(agent = self.agent.slug, line, "a function agent logs");
                at_once(Ok(Value::Null))
            }
            "agents.call" => self.call_agent(&number, args),
            "agents.draft" => Box::pin(self.draft_agent(what, args)),
            "store.get" => Box::pin(self.get_item(what, args)),
            "store.put" => Box::pin(self.put_item(what, args)),
            "store.delete" => Box::pin(self.delete_item(what, args)),
            "store.search" => Box::pin(self.search_items(what, args)),
            "deliverables.list" => Box::pin(self.read_deliverables(what, None)),
            _ => match args.text("ctx.deliverables.read", "the id of a deliverable") {
                Ok(id) => Box::pin(self.read_deliverables(what, Some(id))),
                Err(error) => at_once(Err(error)),
            },
        }
    }
}

/// An answer without a wait.
fn at_once<'a>(answer: Result<Value, HostError>) -> Answer<'a> {
    Box::pin(std::future::ready(answer))
}

fn error_of(Fault { code, message, .. }: Fault) -> HostError {
    HostError { code, message }
}
