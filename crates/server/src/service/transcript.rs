//! Messages that a thread has from elsewhere than its runs.

use super::Service;
use super::chat::{is_update, messages_channel};
use crate::error::Result;
use weftwork_store::Base;
use weftwork_types::ThreadId;
use weftwork_types::message::Message;

impl Service {
    /// Returns the messages that a thread had before an agent's first run on it: those with which
    /// it was created, or that were copied from another thread.
    pub(crate) async fn earlier_messages(&self, agent: &str, thread: &str) -> Result<Vec<Message>> {
        let thread = ThreadId::new(thread)?;
        let row = self.row(&thread).await?;
        let runs = self.runs_of_agent(agent, &thread).await?;
        let at = match runs.iter().find(|row| !is_update(row)).map(|first| first.base) {
            Some(Some(Base::At(checkpoint))) => Some(checkpoint),
            Some(_) => None,
            None => row.head,
        };
        let (Some(at), Some((opened, graph))) = (at, self.open(&row)?) else {
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
