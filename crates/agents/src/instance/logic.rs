//! Logic over the services of an agent runtime, in nodes and outside of them.

use super::{AgentRuntime, Models};
use crate::calls::{ToolCallError, call_outside, own_call, result_of_call};
use crate::evaluate::PromptScope;
use futures_util::FutureExt;
use serde_json::Value as Json;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use weftwork_graph::{Ctx, NodeError, NodeResult};
use weftwork_models::{ChatModel, ChatRequest, ChatResponse, ModelCaller, ModelRegistry};
use weftwork_store::Store;
use weftwork_tools::{Policy, ToolRunner};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::instance::{AgentRuntimeError, AgentRuntimeErrorKind as Kind};
use weftwork_types::message::ToolResult;
use weftwork_types::port::CallContext;

impl AgentRuntime {
    /// Runs logic over the services outside of nodes, on behalf of the principal of this agent
    /// runtime. Its calls of models and tools belong to no run: they are not recorded, and have no
    /// budget and no deadline. [`Hosting::run`](super::Hosting::run) is the same for nodes.
    ///
    /// ```
    /// use serde_json::json;
    /// use weftwork_agents::{AgentRuntime, AgentRuntimeError};
    /// use weftwork_runtime::Runtime;
    /// use weftwork_tools::{ToolBox, tool};
    ///
    /// /// Returns the price of an article in cents.
    /// #[tool]
    /// fn price(article: String) -> u64 {
    ///     article.len() as u64 * 100
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::in_memory().open().await?;
    /// let agents = AgentRuntime::over(runtime).tools(ToolBox::new().with(price)).build()?;
    /// let lamp = json!({"article": "lamp"});
    /// let found = agents.run(async |logic| logic.call_tool("price", lamp).await).await?;
    /// assert_eq!(found.value, json!(400));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Hosting::run`](super::Hosting::run). A tool that needs a person is refused: a node of an
    /// activity can wait for the answer.
    ///
    /// # Cancel safety
    /// As that of the logic.
    pub async fn run<T, E, F>(&self, logic: F) -> Result<T, AgentRuntimeError>
    where
        F: AsyncFnOnce(Logic) -> Result<T, E>,
        E: Into<NodeError>,
    {
        let clock = Arc::clone(self.runtime().clock());
        let mut calls = CallContext::of_program(self.caller()?, clock);
        calls.principal = self.principal().clone();
        calls.budget = self.runtime().budget(self.principal(), calls.origin.caller());
        calls.ledger = self.runtime().ledger(self.principal(), calls.origin.caller().clone());
        let caller = LogicCaller::Program(Box::new(calls));
        Logic { agents: self.clone(), caller }.run(logic).await
    }
}

/// The services of the agent runtime, for logic in a node or outside of nodes.
#[derive(Debug, Clone)]
pub struct Logic {
    pub(super) agents: AgentRuntime,
    pub(super) caller: LogicCaller,
}

/// The caller of models and tools.
#[derive(Debug, Clone)]
pub(super) enum LogicCaller {
    Node(Ctx),
    Program(Box<CallContext>),
}

impl LogicCaller {
    fn calls(&self) -> &CallContext {
        match self {
            Self::Node(ctx) => ctx.calls(),
            Self::Program(calls) => calls,
        }
    }
}

impl Logic {
    /// Runs further logic over the same services, with the same caller.
    ///
    /// # Errors
    /// As [`Hosting::run`](super::Hosting::run): an error of the logic has one level of wrapping,
    /// however deep this method is nested.
    ///
    /// # Cancel safety
    /// As that of the logic.
    pub async fn run<T, E, F>(&self, logic: F) -> Result<T, AgentRuntimeError>
    where
        F: AsyncFnOnce(Self) -> Result<T, E>,
        E: Into<NodeError>,
    {
        let ended = AssertUnwindSafe(logic(self.clone())).catch_unwind().await;
        let error = match ended {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error.into(),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                let text = text.unwrap_or_else(|| "no message".to_owned());
                let cause = Fault::new(ErrorCode("W0110"), text);
                return Err(AgentRuntimeError::wrap(Kind::Panicked, "the logic panicked", cause));
            }
        };
        Err(match error.try_into_fault() {
            Ok(fault) => AgentRuntimeError::wrap(Kind::Logic, "the logic failed", fault),
            Err(_) => AgentRuntimeError::new(
                Kind::Logic,
                "the logic asked a person; ask in the node, before `run`",
            ),
        })
    }

    /// The agent runtime.
    #[must_use]
    pub fn agents(&self) -> &AgentRuntime {
        &self.agents
    }

    /// The models, by name.
    #[must_use]
    pub fn models(&self) -> &Models {
        self.agents.models()
    }

    /// The providers of models.
    #[must_use]
    pub fn providers(&self) -> &ModelRegistry {
        self.agents.providers()
    }

    /// The policy of tool calls.
    #[must_use]
    pub fn policies(&self) -> &Policy {
        self.agents.policies()
    }

    /// The tools, with the policy.
    #[must_use]
    pub fn tools(&self) -> &ToolRunner {
        self.agents.tools()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.agents.store()
    }

    /// Calls a model; in a node, as a recorded call of the node.
    ///
    /// # Errors
    /// [`NodeError`] if the call failed or the budget does not suffice.
    ///
    /// # Cancel safety
    /// As [`ModelCaller::call`].
    pub async fn call_model(
        &self,
        model: &dyn ChatModel,
        request: ChatRequest,
    ) -> NodeResult<ChatResponse> {
        let called = ModelCaller::default().call(model, request, self.caller.calls()).await;
        called.map_err(|error| error.fault().into())
    }

    /// Calls a tool of the agent runtime; in a node, as a recorded call of the node.
    ///
    /// # Errors
    /// [`ToolCallError`] as of [`Tools::call`](crate::Tools::call). Outside of nodes, also for a call
    /// that needs a person.
    ///
    /// # Cancel safety
    /// As [`ToolRunner::execute`].
    pub async fn call_tool(&self, name: &str, args: Json) -> Result<ToolResult, ToolCallError> {
        let runner = self.tools();
        match &self.caller {
            LogicCaller::Node(ctx) => {
                let call = own_call(ctx, runner, name, args);
                result_of_call(ctx, runner, &call, &PromptScope::none()).await
            }
            LogicCaller::Program(calls) => call_outside(runner, calls, name, args).await,
        }
    }
}
