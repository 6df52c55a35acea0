//! Writes of tools to the state of their agent.

use crate::calls::{make_call, recorded_outcome};
use serde::Serialize;
use std::sync::Arc;
use weftwork_graph::{Ctx, NodeResult, StateSpec};
use weftwork_tools::{Dispatched, ToolError, ToolRunner};
use weftwork_types::message::ToolCall;
use weftwork_types::port::CallContext;
use weftwork_types::session::SessionEvent;
use weftwork_types::tool::ToolOutcome;

/// Prefix of the slices of writes in the record of a call.
const CHANNEL: &str = "$channel/";

/// The channels of an agent's state besides its conversation, as a parameter `Deps<StateWrites>` of
/// the tools of an agent over a state of your own
/// ([`ReactAgent::with_state`](crate::ReactAgent::with_state)).
///
/// Writes are part of the record of the call: they are applied when the superstep ends, in the order
/// of the calls in the message, if the call succeeds, and a recorded call that is reused applies the
/// same ones. A channel that holds its last value takes one write in a superstep, so that it fails
/// the run if two calls of one message write to it: mark it `append` or `reduce`.
///
/// ```
/// use weftwork_agents::StateWrites;
/// use weftwork_tools::{Deps, ToolError, tool};
///
/// /// Puts an article into the basket.
/// #[tool]
/// fn add(article: String, state: Deps<StateWrites>) -> Result<String, ToolError> {
///     state.write("basket", &[&article])?;
///     Ok(format!("{article} is in the basket"))
/// }
/// ```
#[derive(Debug)]
pub struct StateWrites {
    channels: Channels,
    dispatched: Arc<Dispatched>,
}

/// Names of the channels that tools may write to.
#[derive(Debug, Clone)]
pub(crate) struct Channels(Arc<[String]>);

impl Channels {
    /// The channels of a state besides its conversation.
    pub(crate) fn of<S: StateSpec>() -> Self {
        let names = S::channels().into_iter().map(|channel| channel.name.into_owned());
        Self(names.filter(|name| name != "messages").collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl StateWrites {
    /// Writes a value to a channel. The value is one write of the channel: a list of items for a
    /// channel that appends.
    ///
    /// # Errors
    /// [`ToolError`] if the state has no such channel, the value cannot be written as JSON, or the
    /// call writes too much (W0620).
    pub fn write(&self, channel: &str, value: &impl Serialize) -> Result<(), ToolError> {
        if !self.channels.0.iter().any(|name| name == channel) {
            let known = self.channels.0.join("`, `");
            return Err(ToolError::failed(format_args!(
                "the state of the agent has no channel `{channel}` that tools write to; its channels are `{known}`"
            )));
        }
        let event = serde_json::to_value(value).map_err(|error| {
            ToolError::failed(format_args!("the value for channel `{channel}` is no JSON: {error}"))
        })?;
        self.dispatched.push(SessionEvent { slice: format!("{CHANNEL}{channel}"), event })
    }
}

/// A call whose tool may write to the state.
struct WritingCall {
    dispatched: Arc<Dispatched>,
    calls: CallContext,
}

impl WritingCall {
    fn new(ctx: &Ctx, channels: &Channels) -> Self {
        let dispatched = Arc::new(Dispatched::new());
        let writes =
            StateWrites { channels: channels.clone(), dispatched: Arc::clone(&dispatched) };
        let plain = ctx.calls().clone();
        let dependencies =
            plain.dependencies.clone().with(writes).with_shared(Arc::clone(&dispatched));
        Self { dispatched, calls: CallContext { dependencies, ..plain } }
    }

    /// Adds the writes of a call that succeeded to those of the task.
    fn apply(&self, ctx: &Ctx, outcome: &ToolOutcome) {
        if !matches!(outcome, ToolOutcome::Ok { .. }) {
            return;
        }
        for SessionEvent { slice, event } in self.dispatched.events() {
            if let Some(channel) = slice.strip_prefix(CHANNEL) {
                ctx.write_also(channel, event);
            }
        }
    }
}

/// Brings a call to its outcome, with the writes of its tool.
pub(crate) async fn outcome_with_writes(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    channels: &Channels,
) -> NodeResult<ToolOutcome> {
    let writing = WritingCall::new(ctx, channels);
    let outcome = make_call(ctx, runner, call, &writing.calls).await?.outcome;
    writing.apply(ctx, &outcome);
    Ok(outcome)
}

/// Returns the outcome of a call that is left open, with the recorded writes of its tool.
pub(crate) async fn left_open_with_writes(
    ctx: &Ctx,
    runner: &ToolRunner,
    call: &ToolCall,
    channels: &Channels,
) -> NodeResult<ToolOutcome> {
    let writing = WritingCall::new(ctx, channels);
    let outcome = recorded_outcome(ctx, runner, call, &writing.calls).await?;
    writing.apply(ctx, &outcome);
    Ok(outcome)
}
