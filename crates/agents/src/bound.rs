//! A model with the options of its calls.

use crate::output::{OutputError, OutputSpec};
use serde_json::Value;
use std::sync::Arc;
use weftwork_graph::{Ctx, NodeResult};
use weftwork_models::{
    Capability, ChatModel, ChatRequest, ChatResponse, FinishReason, ModelCaller, RunModel,
    ToolChoice,
};
use weftwork_types::MessageId;
use weftwork_types::event::{AiEvent, AttemptReset};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::CallContext;
use weftwork_types::tool::ToolSpec;

/// Number of times that an answer which does not fit the output type goes back to the model.
const OUTPUT_REPAIRS_MAX: u32 = 2;

/// Options of the calls of a model. An option that the model does not have, and a value that it does
/// not take, is refused by name before the call (W0310).
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use]
pub struct ModelConfig {
    /// Sampling temperature of at least 0; `None` leaves it to the provider.
    pub temperature: Option<f32>,
    /// Share of the probability from which tokens are sampled, above 0 and at most 1; `None` leaves
    /// it to the provider.
    pub top_p: Option<f32>,
    /// Texts that end an answer before them, each of one character or more. With an output type,
    /// choose texts that its JSON does not have.
    pub stop: Vec<String>,
    /// Seed of the sampling, by which a provider repeats an answer as far as it can; `None` leaves it
    /// to the provider.
    pub seed: Option<i64>,
    /// Maximum number of tokens of an answer; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Permission to call several tools at once. `None` permits it in evaluations of prompts where
    /// the model has the option, and leaves it to the provider in a [`ReactAgent`](crate::ReactAgent).
    pub parallel_tool_calls: Option<bool>,
    /// Constraint on the tool calls of the first answer. After a tool result the model decides:
    /// otherwise an answer could never be final. `None` holds for all answers.
    pub tool_choice: ToolChoice,
}

/// A model with its options and the output type of its final answer.
#[derive(Debug, Clone)]
pub(crate) struct BoundModel {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) caller: ModelCaller,
    pub(crate) config: ModelConfig,
    pub(crate) output: Option<OutputSpec>,
    /// `true` if parallel calls are permitted by default.
    pub(crate) parallel_by_default: bool,
}

impl BoundModel {
    /// Creates a model with the default options of its calls.
    pub(crate) fn new(model: Arc<dyn ChatModel>) -> Self {
        Self {
            model,
            caller: ModelCaller::default(),
            config: ModelConfig::default(),
            output: None,
            parallel_by_default: false,
        }
    }

    /// Sends a conversation to the model, and returns its answer. A final answer fits the output
    /// type, if there is one.
    pub(crate) async fn answer(
        &self,
        messages: Vec<Message>,
        tools: Vec<ToolSpec>,
        ctx: &Ctx,
    ) -> NodeResult<Message> {
        self.answer_within(messages, tools, ctx, ctx.calls()).await
    }

    /// The same with a context of the calls that differs from that of the node.
    pub(crate) async fn answer_within(
        &self,
        messages: Vec<Message>,
        tools: Vec<ToolSpec>,
        ctx: &Ctx,
        calls: &CallContext,
    ) -> NodeResult<Message> {
        if self.output.is_none() {
            return self.call_once(self.request_of(messages, tools, ctx), calls).await;
        }
        let mut request = self.request_of(messages, tools, ctx);
        let mut repairs = 0;
        loop {
            let answer = self.caller.call(self.model.as_ref(), request.clone(), calls).await;
            let answer = answer.map_err(|error| error.fault())?;
            let Some(problem) = self.problem_of(&answer) else { return Ok(answer.message) };
            if repairs == OUTPUT_REPAIRS_MAX || problem == OutputError::Truncated {
                return Err(problem.fault().at_attempt(repairs + 1).into());
            }
            repairs += 1;
            let reset = AiEvent::AttemptReset(AttemptReset::of_node(ctx.node()));
            calls.emit.emit_of(&answer.message.id, reset);
            let text =
                format!("{problem}. Answer again, with one JSON value that fits the schema.");
            request.messages.push(answer.message);
            request.messages.push(Message::text(ctx.message_id(), Role::User, text));
        }
    }

    /// The same without tools and without a check of the answer.
    pub(crate) async fn answer_unchecked(
        &self,
        messages: Vec<Message>,
        ctx: &Ctx,
        calls: &CallContext,
    ) -> NodeResult<Message> {
        self.call_once(self.request_of(messages, Vec::new(), ctx), calls).await
    }

    async fn call_once(&self, request: ChatRequest, calls: &CallContext) -> NodeResult<Message> {
        let answer = self.caller.call(self.model.as_ref(), request, calls).await;
        Ok(answer.map_err(|error| error.fault())?.message)
    }

    /// Returns the reason for which a final answer does not fit the output type.
    fn problem_of(&self, answer: &ChatResponse) -> Option<OutputError> {
        let output = self.output.as_ref()?;
        if answer.message.tool_calls().next().is_some() {
            return None;
        }
        output.read(&answer.message.joined_text(), answer.finish).err()
    }

    /// Returns the value of a final answer; `None` without an output type, and for an answer that
    /// calls tools.
    pub(crate) fn final_value(&self, answer: &Message) -> NodeResult<Option<Value>> {
        let Some(output) = &self.output else { return Ok(None) };
        if answer.tool_calls().next().is_some() {
            return Ok(None);
        }
        // It was checked when it arrived.
        let value = output.read(&answer.joined_text(), FinishReason::Stop);
        Ok(Some(value.map_err(|error| error.fault())?))
    }

    fn request_of(&self, messages: Vec<Message>, tools: Vec<ToolSpec>, ctx: &Ctx) -> ChatRequest {
        let config = self.config.clone();
        let after_result = messages.last().is_some_and(|last| last.role == Role::Tool);
        let tool_choice = match config.tool_choice {
            ToolChoice::Required | ToolChoice::Named(_) if after_result => ToolChoice::Auto,
            // Nothing to choose from: a section with the tools may be closed.
            ToolChoice::Required if tools.is_empty() => ToolChoice::Auto,
            other => other,
        };
        let can_be_parallel = self.parallel_by_default
            && !tools.is_empty()
            && !self.lacks(Capability::ParallelToolCalls, ctx);
        let schema = self.output.as_ref().map(OutputSpec::schema);
        let (messages, response_schema) = match schema {
            Some(schema) if self.lacks(Capability::ResponseSchema, ctx) => {
                (with_schema(messages, schema), None)
            }
            schema => (messages, schema.cloned()),
        };
        ChatRequest {
            messages,
            tools,
            tool_choice,
            temperature: config.temperature,
            top_p: config.top_p,
            stop: config.stop,
            seed: config.seed,
            max_tokens: config.max_tokens,
            parallel_tool_calls: config.parallel_tool_calls.or(can_be_parallel.then_some(true)),
            response_schema,
        }
    }

    /// A run may have a model of its own in place of this one.
    fn lacks(&self, capability: Capability, ctx: &Ctx) -> bool {
        let own = ctx.calls().dependencies.get::<RunModel>();
        let own = own.as_ref().filter(|own| own.instead_of == self.model.info().id());
        let model = own.map_or(&self.model, |own| &own.model);
        model.lacks().contains(&capability)
    }
}

/// Adds the schema of the answer to the instructions, for a model that takes none. The answer is
/// checked as any other.
fn with_schema(mut messages: Vec<Message>, schema: &serde_json::Value) -> Vec<Message> {
    let at = messages.iter().take_while(|message| message.role == Role::System).count();
    let text = format!("Answer with JSON only, and satisfy this JSON Schema: {schema}");
    #[expect(clippy::expect_used, reason = "the text is valid as an id")]
    let id = MessageId::new("answer-schema").expect("a message id");
    messages.insert(at, Message::text(id, Role::System, text));
    messages
}
