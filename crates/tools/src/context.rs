//! The context of a tool call.

use crate::{Replies, ToolError};
use serde_json::Value;
use std::any::{TypeId, type_name};
use std::sync::Arc;
use weftwork_types::event::AiEvent;
use weftwork_types::item::ItemStore;
use weftwork_types::port::{CallContext, Clock, Dependencies, Deps, Limits};
use weftwork_types::{Principal, RunId, ThreadId, Timestamp, ToolCallId};

/// The context of a tool call, passed beside its arguments. Cheap to clone.
///
/// ```
/// use serde_json::json;
/// use weftwork_tools::{ToolContext, ToolError, tool};
/// use weftwork_types::item::{ItemRef, Namespace, PutOptions};
///
/// /// Notes a wish of the person for later conversations.
/// #[tool(effect = state_change, on_unknown = idempotent)]
/// async fn note_wish(wish: String, context: ToolContext) -> Result<String, ToolError> {
///     let Some(items) = context.items() else {
///         return Err(ToolError::unavailable("wishes cannot be noted here"));
///     };
///     let at = ItemRef::new(Namespace::new(["wishes"])?, context.thread().as_str())?;
///     let run = context.run().map(ToString::to_string);
///     let wish = json!({"wish": wish, "noted_by": context.principal().subject, "run": run});
///     items.put(context.principal(), &at, wish, PutOptions::default()).await?;
///     Ok("noted".to_owned())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The run the call belongs to.
    pub(crate) call: CallContext,
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// Equal for all repetitions of this call, and different for every other call. Send it to
    /// services that detect repeated requests.
    pub idempotency_key: String,
    /// The time at which the tool is stopped.
    pub deadline: Timestamp,
    /// Replies to the questions that the tool asked before in this call; `None` in the first round.
    pub replies: Option<Replies>,
    pub(crate) provided: Dependencies,
}

impl ToolContext {
    /// The principal of the run, for which the tool reads and writes.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.call.principal
    }

    /// The thread of the run; outside of runs, a name of the call's own.
    #[must_use]
    pub fn thread(&self) -> &ThreadId {
        &self.call.thread
    }

    /// The run; `None` if a program makes the call outside of graphs.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.call.origin.run().map(|caller| &caller.run)
    }

    /// The long-term store of the host, if it has one: the one that nodes get with their context.
    /// In hosted runs, the items of the runtime's store. A tool reads and writes for the organisation
    /// of its [`principal`](Self::principal).
    #[must_use]
    pub fn items(&self) -> Option<&Arc<dyn ItemStore>> {
        self.call.items.as_ref()
    }

    /// Time, which tests control.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.call.clock
    }

    /// Returns what is left of the budget of the run now, without what is reserved: the call of this
    /// tool is. A member is `None` without a limit. It informs, and sets nothing aside: other calls may
    /// take what is left, and an attempt is made only if it is reserved
    /// ([`Budget::reserve`](weftwork_types::port::Budget::reserve), by `calls().budget`).
    #[must_use]
    pub fn budget_left(&self) -> Limits {
        self.call.budget_left()
    }

    /// Returns what calls of models and of other tools need from the run: its budget, journal,
    /// deadline and events.
    #[must_use]
    pub fn calls(&self) -> &CallContext {
        &self.call
    }

    /// Reports the progress of the tool: a value for the events of the run and for stream mode
    /// `custom`, live and stored. Clients see the value as it is, and later reports do not replace
    /// earlier ones. After the end of the call, reports have no effect.
    pub fn progress(&self, value: impl Into<Value>) {
        self.call.emit.emit(AiEvent::progress(self.tool_call_id.clone(), value.into()));
    }

    /// Returns a value of the run, or else one that the program provided for its tools.
    ///
    /// # Errors
    /// [`ToolError`] (unavailable) if no value of this type was provided.
    pub fn deps<T: Send + Sync + 'static>(&self) -> Result<Deps<T>, ToolError> {
        let found = self.call.dependencies.get().or_else(|| self.provided.get());
        found.map(Deps).ok_or_else(|| {
            ToolError::unavailable(format_args!(
                "the program provides no `{}` for its tools",
                type_name::<T>()
            ))
        })
    }
}

/// A type that a tool requires the program to provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    pub(crate) id: TypeId,
    /// The name of the Rust type, for messages.
    pub type_name: &'static str,
}

impl Need {
    /// The requirement for a `T`.
    #[must_use]
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), type_name: type_name::<T>() }
    }
}

/// A parameter of a `#[tool]` function that comes from the context instead of the model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken from the context of a tool",
    note = "a tool takes its arguments, `Deps<T>`, `Option<Replies>` and `ToolContext`"
)]
pub trait FromContext: Sized {
    /// The value that the program must provide for the parameter, checked before the first call.
    fn need() -> Option<Need>;

    /// Extracts the parameter from the context.
    ///
    /// # Errors
    /// [`ToolError`] if the value was not provided.
    fn from_context(context: &ToolContext) -> Result<Self, ToolError>;
}

impl FromContext for ToolContext {
    fn need() -> Option<Need> {
        None
    }

    fn from_context(context: &ToolContext) -> Result<Self, ToolError> {
        Ok(context.clone())
    }
}

impl FromContext for Option<Replies> {
    fn need() -> Option<Need> {
        None
    }

    fn from_context(context: &ToolContext) -> Result<Self, ToolError> {
        Ok(context.replies.clone())
    }
}

impl<T: Send + Sync + 'static> FromContext for Deps<T> {
    fn need() -> Option<Need> {
        Some(Need::of::<T>())
    }

    fn from_context(context: &ToolContext) -> Result<Self, ToolError> {
        context.deps()
    }
}
