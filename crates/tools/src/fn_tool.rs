//! Tools built from functions.

use crate::tool::{DEFAULT_TIMEOUT, Reconcile, Tool};
use crate::{IntoToolError, IntoToolOutput, Need, ToolContext, ToolError, ToolOutput, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use weftwork_types::BoxFuture;
use weftwork_types::tool::{Effect, ToolExample, ToolSpec, UnknownOutcome};

type Call =
    dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;
type Lookup = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<Option<Value>, ToolError>>
    + Send
    + Sync;

/// A tool built from a function or closure, for tools that are created at run time or have their
/// own state. The schemas are derived from the types.
///
/// ```
/// use weftwork_tools::{FnTool, ToolContext};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum { a: i64, b: i64 }
///
/// let add = FnTool::new("add", "Adds two numbers.", |sum: Sum, _: ToolContext| async move {
///     Ok::<_, String>(sum.a + sum.b)
/// });
/// # use weftwork_tools::Tool;
/// # assert_eq!(add.spec().shown.as_deref(), Some(&[".".to_owned()][..]));
/// ```
#[derive(Clone)]
pub struct FnTool {
    spec: ToolSpec,
    call: Arc<Call>,
    lookup: Option<Lookups>,
    timeout: Duration,
    needs: Vec<Need>,
}

#[derive(Clone)]
struct Lookups(Arc<Lookup>);

impl std::fmt::Debug for FnTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FnTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl FnTool {
    /// Creates a read-only tool. The members that its result type declares may be shown. A function
    /// that asks a person returns [`ToolOutput`].
    #[must_use]
    pub fn new<A, O, E, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: IntoToolOutput,
        E: IntoToolError,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
    {
        let output = schema::output_schema::<O::Value>();
        let call = move |args: Value, context: ToolContext| -> BoxFuture<'static, _> {
            let called = decode::<A>(args).map(|args| function(args, context));
            Box::pin(async move {
                let returned = called?.await.map_err(IntoToolError::into_tool_error)?;
                Ok(match returned.into_output() {
                    ToolOutput::Value(value) => ToolOutput::Value(encode(&value)?),
                    ToolOutput::WithContent { value, content } => {
                        ToolOutput::WithContent { value: encode(&value)?, content }
                    }
                    ToolOutput::Questions(questions) => ToolOutput::Questions(questions),
                    ToolOutput::Waits => ToolOutput::Waits,
                })
            })
        };
        Self {
            spec: ToolSpec {
                name: name.into(),
                description: description.into(),
                parameters: schema::args_schema::<A>(),
                shown: schema::shown_by_default(&output),
                output: Some(output),
                effect: Effect::ReadOnly,
                on_unknown: UnknownOutcome::Idempotent,
                examples: Vec::new(),
            },
            call: Arc::new(call),
            lookup: None,
            timeout: DEFAULT_TIMEOUT,
            needs: Vec::new(),
        }
    }

    /// Sets the effect of the tool. After a crash inside a tool with an effect a person is asked,
    /// unless a later [`FnTool::on_unknown`] or [`FnTool::reconcile`] changes that.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self.spec.on_unknown = match effect {
            Effect::ReadOnly => UnknownOutcome::Idempotent,
            Effect::StateChange | Effect::ExternalSideEffect => UnknownOutcome::Ask,
        };
        self
    }

    /// Sets the behaviour for calls of unknown outcome.
    #[must_use]
    pub fn on_unknown(mut self, on_unknown: UnknownOutcome) -> Self {
        self.spec.on_unknown = on_unknown;
        self
    }

    /// Sets a lookup of past calls by [`ToolContext::idempotency_key`], and declares that it
    /// determines unknown outcomes.
    #[must_use]
    pub fn reconcile<A, O, E, F, R>(mut self, function: F) -> Self
    where
        A: DeserializeOwned,
        O: Serialize,
        E: IntoToolError,
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<O>, E>> + Send + 'static,
    {
        let lookup = move |args: Value, context: ToolContext| -> BoxFuture<'static, _> {
            let called = decode::<A>(args).map(|args| function(args, context));
            Box::pin(async move {
                let found = called?.await.map_err(IntoToolError::into_tool_error)?;
                found.as_ref().map(encode).transpose()
            })
        };
        self.lookup = Some(Lookups(Arc::new(lookup)));
        self.on_unknown(UnknownOutcome::Reconcile)
    }

    /// Sets the members of the result that may be shown in streams and user interfaces. A single
    /// `.` stands for the whole result.
    #[must_use]
    pub fn shown<S: Into<String>>(mut self, members: impl IntoIterator<Item = S>) -> Self {
        self.spec.shown = Some(members.into_iter().map(Into::into).collect());
        self
    }

    /// Adds an example: a person's request and the resulting arguments.
    #[must_use]
    pub fn example(mut self, request: impl Into<String>, args: Value) -> Self {
        self.spec.examples.push(ToolExample { request: request.into(), args });
        self
    }

    /// Sets the time limit; the default is 60 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Declares a value that the program must provide, so that a missing one is reported before the
    /// first call.
    #[must_use]
    pub fn needs(mut self, needs: impl IntoIterator<Item = Need>) -> Self {
        self.needs.extend(needs);
        self
    }
}

fn decode<A: DeserializeOwned>(args: Value) -> Result<A, ToolError> {
    serde_json::from_value(args).map_err(ToolError::invalid_args)
}

fn encode<O: Serialize>(output: &O) -> Result<Value, ToolError> {
    serde_json::to_value(output)
        .map_err(|e| ToolError::failed(format_args!("the result cannot be written as JSON: {e}")))
}

impl Tool for FnTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        (self.call)(args, context)
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn needs(&self) -> Vec<Need> {
        self.needs.clone()
    }

    fn reconcile(&self) -> Option<&dyn Reconcile> {
        self.lookup.as_ref().map(|lookup| -> &dyn Reconcile { lookup })
    }
}

impl Reconcile for Lookups {
    fn lookup(
        &self,
        args: Value,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<Option<Value>, ToolError>> {
        (self.0)(args, context)
    }
}
