//! Messages that a thread has from elsewhere than its runs.

use super::chat::messages_channel;
use super::{Service, StoredTurn};
use crate::error::Result;
use weftwork_store::{Base, ThreadRow};
use weftwork_types::message::Message;

impl Service {
    /// Returns the messages that a thread had before the first of its turns: those with which it was
    /// created, or that were copied from another thread.
    pub(crate) async fn earlier_messages(
        &self,
        thread: &ThreadRow,
        first: Option<&StoredTurn>,
    ) -> Result<Vec<Message>> {
        let at = match first.and_then(|turn| turn.base) {
            Some(Base::At(checkpoint)) => Some(checkpoint),
            Some(Base::Nothing) => None,
            // No run has changed the state yet.
            None => thread.head,
        };
        let (Some(at), Some((opened, graph))) = (at, self.open(thread)?) else {
            return Ok(Vec::new());
        };
        let Some(channel) = messages_channel(&self.hosted(graph)?) else { return Ok(Vec::new()) };
        let mut values = opened.view().at(at).state().await?.values;
        let stored = values.get_mut(channel).map(serde_json::Value::take).unwrap_or_default();
        let stored = stored.as_array().cloned().unwrap_or_default();
        // A graph may keep other values in the channel; they are no messages.
        Ok(stored.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
    }
}
