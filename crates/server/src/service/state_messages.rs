//! Messages of a thread that the logs of its runs do not have.

use super::chat::messages_channel;
use super::{Service, StoredTurn};
use crate::error::Result;
use std::collections::BTreeSet;
use weftwork_graph::run_loop::{Snapshot, SubState};
use weftwork_store::{Base, ThreadRow};
use weftwork_types::MessageId;
use weftwork_types::message::Message;
use weftwork_types::run::{RunOutcome, RunRef};

/// Channel of the conversation of a member.
const MESSAGES: &str = "messages";

impl Service {
    /// Returns the messages of members of a team that wait for a person at the end of a run, with the
    /// namespaces of the members. They become part of the thread when the members have finished.
    pub(crate) async fn waiting_work(
        &self,
        run: &RunRef,
        outcome: &RunOutcome,
    ) -> Result<Vec<(String, Message)>> {
        if outcome.questions().iter().all(|question| question.graph.is_none()) {
            return Ok(Vec::new());
        }
        let runs = self.store().runs(self.who(), &run.thread).await?;
        let row = self.row(&run.thread).await?;
        let is_last = runs.last().is_some_and(|last| last.new.at == *run);
        let Some((opened, _)) = self.open(&row)?.filter(|_| is_last) else { return Ok(Vec::new()) };
        let mut work = Vec::new();
        match opened.view().with_subgraphs().state().await {
            Ok(state) => collect_messages(state, &BTreeSet::new(), &mut work),
            // The questions are shown without it.
            Err(error) if error.is_unreadable() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(work)
    }

    /// Returns the messages that a thread had before the first of its turns: messages with which it was
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
        // A thread whose graph is not hosted is an error here, also if it has no checkpoint.
        let opened = self.open(thread)?;
        let Some(at) = at else { return Ok(Vec::new()) };
        let Some((opened, graph)) = opened else { return Ok(Vec::new()) };
        let hosted = self.hosted(graph)?;
        let Some(channel) = messages_channel(&hosted) else { return Ok(Vec::new()) };
        let mut values = opened.view().at(at).state().await?.values;
        let stored = values.get_mut(channel).map(serde_json::Value::take).unwrap_or_default();
        let stored = stored.as_array().cloned().unwrap_or_default();
        // A graph may keep other values in the channel; they are no messages.
        Ok(stored.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
    }
}

/// Adds the messages of the subgraphs of a graph that the graph does not have.
fn collect_messages(
    mut graph: Snapshot,
    known_outside: &BTreeSet<MessageId>,
    to: &mut Vec<(String, Message)>,
) {
    let values = graph.values.get_mut(MESSAGES).map(serde_json::Value::take).unwrap_or_default();
    let values = values.as_array().cloned().unwrap_or_default();
    let own = values.into_iter().filter_map(|value| serde_json::from_value::<Message>(value).ok());
    let mut known = known_outside.clone();
    let ns = graph.config.map(|config| config.ns).unwrap_or_default();
    for message in own {
        if known.insert(message.id.clone()) && !ns.is_empty() {
            to.push((ns.clone(), message));
        }
    }
    for task in graph.tasks {
        if let Some(SubState::Snapshot(within)) = task.state {
            collect_messages(*within, &known, to);
        }
    }
}
