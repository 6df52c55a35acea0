//! States with a conversation.

use crate::state::{State, StateSpec};
use weftwork_engine::List;
use weftwork_types::message::Message;

/// A state with a conversation: a struct with `#[derive(State)]` and a field
/// `#[channel(messages)] messages: List<Message>`, for which the derive implements this trait.
/// Prebuilt agents work on any such state, beside whose conversation there may be further fields.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` has no conversation",
    label = "has no field `messages`",
    note = "add `#[channel(messages)] messages: List<Message>` to the struct"
)]
pub trait Conversation: StateSpec {
    /// Returns the messages, oldest first.
    fn conversation(state: &State<Self>) -> &List<Message>;

    /// Returns an update that adds a message.
    fn say(message: Message) -> Self::Update;
}
