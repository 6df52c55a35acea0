//! The model of a run, as an argument of nodes.

use crate::bound::{BoundModel, ModelConfig};
use crate::conversation::for_model;
use crate::evaluate::PromptScope;
use crate::output::OutputSpec;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use weftwork_graph::{
    BuildInfo, Ctx, Deps, FromTask, Graph, List, NodeError, NodeResult, Reads, StateSpec, TaskInput,
};
use weftwork_models::{ChatModel, FinishReason, IntoModel, ModelCaller, ToolChoice};
use weftwork_types::event::AiEvent;
use weftwork_types::message::{Message, Messages, Role};
use weftwork_types::port::{CallContext, Emit};

/// The model that the nodes of a graph take as [`Model`].
#[derive(Debug)]
struct ModelOfGraph(Arc<dyn ChatModel>);

/// Gives a graph the model that its nodes take as [`Model`].
///
/// ```
/// use serde_json::json;
/// use weftwork_agents::{Model, WithModel};
/// use weftwork_graph::{Graph, List, NodeResult, START, State};
/// use weftwork_models::scripted::ScriptedModel;
/// use weftwork_models::scripted::Step;
///
/// #[derive(State)]
/// struct Note {
///     #[channel(append)]
///     lines: List<String>,
/// }
///
/// async fn write(model: Model) -> NodeResult<NoteUpdate> {
///     Ok(NoteUpdate::new().lines([model.ask("Write a line.").await?.joined_text()]))
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::from_steps([Step::text("It rains.")]);
/// let graph = Graph::<Note>::new("note").model(model).node("write", write).edge(START, "write");
/// let ended = graph.build()?.invoke(json!({})).await?;
/// assert_eq!(ended.output()?["lines"], json!(["It rains."]));
/// # Ok(())
/// # }
/// ```
pub trait WithModel {
    /// Sets the model of the nodes, replacing an earlier one.
    #[must_use]
    fn model(self, model: impl IntoModel) -> Self;
}

impl<S: StateSpec> WithModel for Graph<S> {
    fn model(self, model: impl IntoModel) -> Self {
        self.with(ModelOfGraph(model.into_model()))
    }
}

/// The model of a run, as an argument of nodes.
///
/// In the run of an evaluation it is the model of the prompt, with its options, the tools that the
/// prompt offers now, and its output type. Otherwise it is the model of the graph
/// ([`WithModel::model`]); a graph without one does not build. Calls are journaled: an answer that is
/// on record is not paid again. They take from the budget of the run, and their text is streamed while
/// it arrives, unless [`quiet`](Self::quiet).
///
/// ```
/// use serde_json::json;
/// use weftwork_agents::{Model, WithModel};
/// use weftwork_graph::run_loop::{Host, Start};
/// use weftwork_graph::{Graph, NodeResult, RunOutcome, START, State};
/// use weftwork_models::scripted::ScriptedModel;
/// use weftwork_models::scripted::Step;
///
/// #[derive(State)]
/// struct Note {
///     #[channel(default)]
///     text: String,
/// }
///
/// async fn shorten(note: State<Note>, model: Model) -> NodeResult<NoteUpdate> {
///     let short = model.ask(format!("In three words: {}", note.text())).await?;
///     Ok(NoteUpdate::new().text(short.joined_text()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<Note>::new("note")
///     .model(ScriptedModel::from_steps([Step::text("It was cold.")]))
///     .node("shorten", shorten)
///     .edge(START, "shorten")
///     .build()?;
/// let run = graph.run(&Host::new(), Start::from(json!({"text": "It was minus ten."}))).finish().await?;
/// let RunOutcome::Completed { output } = run.outcome() else { panic!("the run did not complete") };
/// assert_eq!(output["text"], "It was cold.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Model {
    bound: BoundModel,
    prompt: PromptScope,
    ctx: Ctx,
    quiet: bool,
}

impl Model {
    /// A model of the node's choice, for a graph whose nodes call several.
    pub fn new(model: impl IntoModel, ctx: &Ctx) -> Self {
        Self {
            bound: BoundModel::new(model.into_model()),
            prompt: PromptScope::none(),
            ctx: ctx.clone(),
            quiet: false,
        }
    }

    /// Sets the caller, which defines the retries.
    #[must_use]
    pub fn caller(mut self, caller: ModelCaller) -> Self {
        self.bound.caller = caller;
        self
    }

    /// Sets the options of the calls.
    #[must_use]
    pub fn config(mut self, config: ModelConfig) -> Self {
        self.bound.config = config;
        self
    }

    /// Keeps the partial text of the answers from the streams of the run: for drafts, checks and other
    /// answers that nobody should read while they arrive. Usage is reported as always.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Sends a conversation to the model, and returns its answer.
    ///
    /// # Errors
    /// [`NodeError`] with the failure of the call.
    ///
    /// # Cancel safety
    /// As [`ModelCaller::call`].
    pub async fn ask(&self, conversation: impl IntoConversation) -> NodeResult<Message> {
        let tools = self.prompt.runner()?.map(|runner| runner.specs()).unwrap_or_default();
        let messages = self.read(conversation);
        self.bound.answer_within(messages, tools, &self.ctx, &self.calls()).await
    }

    /// Sends a conversation to the model, without tools, and returns its answer as a value: the model
    /// gets the JSON Schema of the type, and an answer that does not fit goes back to it, at most
    /// twice.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::Deserialize;
    /// # use weftwork_agents::Model;
    /// # use weftwork_graph::NodeResult;
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Verdict {
    ///     good: bool,
    ///     reason: String,
    /// }
    ///
    /// async fn judge(text: &str, model: Model) -> NodeResult<bool> {
    ///     let verdict: Verdict = model.ask_as(format!("Is this good? {text}")).await?;
    ///     Ok(verdict.good)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`NodeError`] with the failure of the call; W0615 to W0618 if no answer fits the type; a type
    /// that is neither an object, a list nor an enum with data is refused before the call.
    ///
    /// # Cancel safety
    /// As [`ModelCaller::call`].
    pub async fn ask_as<T: DeserializeOwned + JsonSchema>(
        &self,
        conversation: impl IntoConversation,
    ) -> NodeResult<T> {
        let output = OutputSpec::of::<T>();
        if let Some(problem) = output.problem() {
            let name = std::any::type_name::<T>();
            return Err(NodeError::message(format!("`ask_as` takes no `{name}`: {problem}")));
        }
        Ok(serde_json::from_value(self.answer_as(output, conversation).await?)?)
    }

    /// As [`ask_as`](Self::ask_as), with a JSON Schema of an object, a list, or a union of them.
    ///
    /// # Errors
    /// As [`ask_as`](Self::ask_as); another schema is refused before the call.
    ///
    /// # Cancel safety
    /// As [`ModelCaller::call`].
    pub async fn ask_value(
        &self,
        schema: &Value,
        conversation: impl IntoConversation,
    ) -> NodeResult<Value> {
        self.answer_as(spec_of("ask_value", schema)?, conversation).await
    }

    /// Sends a conversation with the JSON Schema of its answer to the model, and returns the answer as it
    /// is: for callers that check it themselves, and show what does not fit.
    ///
    /// # Errors
    /// [`NodeError`] with the failure of the call; a schema of neither an object, a list nor a union is
    /// refused before the call.
    ///
    /// # Cancel safety
    /// As [`ModelCaller::call`].
    pub async fn ask_unchecked(
        &self,
        schema: &Value,
        conversation: impl IntoConversation,
    ) -> NodeResult<Message> {
        let output = spec_of("ask_unchecked", schema)?;
        let bound = self.bound_to(output);
        let messages = self.read(conversation);
        bound.answer_unchecked(messages, &self.ctx, &self.calls()).await
    }

    async fn answer_as(
        &self,
        output: OutputSpec,
        conversation: impl IntoConversation,
    ) -> NodeResult<Value> {
        let bound = self.bound_to(output.clone());
        let messages = self.read(conversation);
        let answer = bound.answer_within(messages, Vec::new(), &self.ctx, &self.calls()).await?;
        // A model that calls a tool although it has none gave no value.
        let value = output.read(&answer.joined_text(), FinishReason::Stop);
        Ok(value.map_err(|error| error.fault())?)
    }

    /// Returns the model with an output type, and without tools to call.
    fn bound_to(&self, output: OutputSpec) -> BoundModel {
        let mut bound = BoundModel { output: Some(output), ..self.bound.clone() };
        bound.config.tool_choice = ToolChoice::Auto;
        bound
    }

    fn read(&self, conversation: impl IntoConversation) -> Vec<Message> {
        let messages = conversation.into_conversation(&self.ctx);
        for_model(messages.iter(), &self.ctx.calls().hidden)
    }

    fn calls(&self) -> CallContext {
        let calls = self.ctx.calls().clone();
        match self.quiet {
            true => CallContext { emit: Arc::new(WithoutText(calls.emit)), ..calls },
            false => calls,
        }
    }
}

/// Reads a schema of answers, for the method of this name.
fn spec_of(method: &str, schema: &Value) -> NodeResult<OutputSpec> {
    let output = OutputSpec::of_schema(schema);
    match output.problem() {
        None => Ok(output),
        Some(problem) => {
            Err(NodeError::message(format!("`{method}` does not take this schema: {problem}")))
        }
    }
}

impl FromTask for Model {
    fn from_task(input: &TaskInput<'_>) -> Result<Self, NodeError> {
        let prompt = PromptScope::from_task(input)?;
        let ctx = Ctx::from_task(input)?;
        let bound = match prompt.model() {
            Some(bound) => bound.clone(),
            None => BoundModel::new(Arc::clone(&Deps::<ModelOfGraph>::from_task(input)?.0.0)),
        };
        Ok(Self { bound, prompt, ctx, quiet: false })
    }

    fn check(info: &BuildInfo<'_>) -> Option<(String, String)> {
        let fix = "give it one by `Graph::model` (trait `WithModel`), or declare by `Graph::with_run_scoped::<PromptRun>` that its runs evaluate prompts";
        no_source::<ModelOfGraph>(info)
            .then(|| ("`Model`, and the graph has no model".to_owned(), fix.to_owned()))
    }

    fn reads() -> Reads {
        Reads::Nothing
    }
}

/// Returns `true` if a graph has neither the value nor runs of prompts.
pub(crate) fn no_source<T: Send + Sync + 'static>(info: &BuildInfo<'_>) -> bool {
    Deps::<T>::check(info).is_some() && Deps::<crate::PromptRun>::check(info).is_some()
}

/// Input of a [`Model`]: a text of the user, a message, or several of them.
#[diagnostic::on_unimplemented(
    message = "a model cannot be asked a `{Self}`",
    label = "neither a text nor messages",
    note = "ask a text (`&str`, `String`), a `Message`, or several (`[Message; N]`, `Vec<Message>`, `&List<Message>`); collect an iterator into a `Vec<Message>`"
)]
pub trait IntoConversation {
    /// The messages, oldest first. New ones get ids of the task.
    fn into_conversation(self, ctx: &Ctx) -> Vec<Message>;
}

impl IntoConversation for &str {
    fn into_conversation(self, ctx: &Ctx) -> Vec<Message> {
        vec![Message::text(ctx.message_id(), Role::User, self)]
    }
}

impl IntoConversation for String {
    fn into_conversation(self, ctx: &Ctx) -> Vec<Message> {
        self.as_str().into_conversation(ctx)
    }
}

impl IntoConversation for &String {
    fn into_conversation(self, ctx: &Ctx) -> Vec<Message> {
        self.as_str().into_conversation(ctx)
    }
}

impl IntoConversation for Message {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        vec![self]
    }
}

impl IntoConversation for Vec<Message> {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        self
    }
}

impl<const COUNT: usize> IntoConversation for [Message; COUNT] {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        self.into()
    }
}

impl IntoConversation for &[Message] {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        self.to_vec()
    }
}

impl IntoConversation for &Vec<Message> {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        self.clone()
    }
}

impl IntoConversation for &Messages {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        self.to_vec()
    }
}

impl IntoConversation for &List<Message> {
    fn into_conversation(self, _: &Ctx) -> Vec<Message> {
        self.iter().cloned().collect()
    }
}

/// A sink for everything but partial text.
#[derive(Debug)]
struct WithoutText(Arc<dyn Emit>);

impl Emit for WithoutText {
    fn emit(&self, event: AiEvent) {
        if !is_partial(&event) {
            self.0.emit(event);
        }
    }

    fn emit_of(&self, message: &weftwork_types::MessageId, event: AiEvent) {
        if !is_partial(&event) {
            self.0.emit_of(message, event);
        }
    }
}

fn is_partial(event: &AiEvent) -> bool {
    matches!(
        event,
        AiEvent::TextDelta { .. }
            | AiEvent::ReasoningDelta { .. }
            | AiEvent::ToolCallDelta { .. }
            | AiEvent::AttemptReset(_)
    )
}
