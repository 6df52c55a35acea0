//! Prompts in custom graphs: what nodes take from the prompt of their run.

use super::scope::{PromptRun, PromptScope};
use crate::calls::{CallError, outcome_of_call, own_call, result_of_call};
use crate::conversation::for_model;
use weftwork_graph::{BuildInfo, Ctx, Deps, FromTask, NodeError, NodeResult, Reads, TaskInput};
use weftwork_tools::tool_result;
use weftwork_types::message::{Message, ToolCall, ToolResult};

/// Fix for a graph without a declaration.
const DECLARE: &str =
    "declare by `Graph::with_run_scoped::<PromptRun>` that its runs have a prompt";

/// The tools of the prompt that the run evaluates, as an argument of the nodes of a custom graph.
/// Which tools there are depends on the enabled and opened sections.
#[derive(Debug, Clone)]
pub struct PromptTools {
    prompt: PromptScope,
    ctx: Ctx,
}

/// The model of the prompt that the run evaluates, with its options and the tools of the prompt, as
/// an argument of the nodes of a custom graph.
#[derive(Debug, Clone)]
pub struct PromptModel {
    prompt: PromptScope,
    ctx: Ctx,
}

impl PromptTools {
    /// Executes a tool call of a model, and returns its result. A failure is a result for the model.
    /// Events that the tool dispatches to the session are written with the node's own update.
    ///
    /// # Errors
    /// [`NodeError`] if the node has to stop, because a question is open or the budget is used up.
    ///
    /// # Cancel safety
    /// As [`ToolRunner::execute`](weftwork_tools::ToolRunner::execute).
    pub async fn execute(&self, call: &ToolCall) -> NodeResult<ToolResult> {
        let runner = self.prompt.runner()?.ok_or_else(no_prompt)?;
        Ok(tool_result(call, &outcome_of_call(&self.ctx, &runner, call, &self.prompt).await?))
    }

    /// Calls a tool by its canonical name, as a call that the node itself makes.
    ///
    /// # Errors
    /// [`CallError::Failed`] if the call failed or was refused, [`CallError::Stopped`] if the node
    /// has to stop.
    ///
    /// # Cancel safety
    /// As [`execute`](Self::execute).
    pub async fn call(&self, name: &str, args: serde_json::Value) -> Result<ToolResult, CallError> {
        let runner = self.prompt.runner().map_err(CallError::Stopped)?;
        let runner = runner.ok_or_else(|| CallError::Stopped(no_prompt()))?;
        let call = own_call(&self.ctx, &runner, name, args);
        result_of_call(&self.ctx, &runner, &call, &self.prompt).await
    }
}

impl PromptModel {
    /// Sends a conversation to the model, with the tools that the prompt offers now. An answer
    /// without tool calls fits the output type of the prompt.
    ///
    /// # Errors
    /// [`NodeError`] with the failure of the call.
    ///
    /// # Cancel safety
    /// As [`ModelCaller::call`](weftwork_models::ModelCaller::call).
    pub async fn ask<'a>(
        &self,
        messages: impl IntoIterator<Item = &'a Message>,
    ) -> NodeResult<Message> {
        let messages: Vec<&Message> = messages.into_iter().collect();
        let bound = self.prompt.model().ok_or_else(no_prompt)?;
        let runner = self.prompt.runner()?.ok_or_else(no_prompt)?;
        let messages = for_model(messages.into_iter(), &self.ctx.calls().hidden);
        bound.answer(messages, runner.specs(), &self.ctx).await
    }
}

fn no_prompt() -> NodeError {
    NodeError::message("the run evaluates no prompt; begin it with `Evaluator::evaluate`")
}

/// Returns the fix if the graph does not declare that its runs have a prompt.
fn check_argument(argument: &str, info: &BuildInfo<'_>) -> Option<(String, String)> {
    Deps::<PromptRun>::check(info).map(|_| (argument.to_owned(), DECLARE.to_owned()))
}

impl FromTask for PromptTools {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        Ok(Self { prompt: PromptScope::from_task(input)?, ctx: Ctx::from_task(input)? })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        check_argument("`PromptTools`", info)
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

impl FromTask for PromptModel {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        Ok(Self { prompt: PromptScope::from_task(input)?, ctx: Ctx::from_task(input)? })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        check_argument("`PromptModel`", info)
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}
