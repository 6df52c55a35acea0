//! The messages of a conversation, made from the logs of its runs.

use crate::begin::message_id;
use crate::content::user_message;
use crate::error::{AguiError, Result};
use crate::reader::{RunReader, SeenCalls};
use crate::state;
use futures_util::StreamExt;
use serde_json::Value;
use std::collections::BTreeSet;
use weftwork_server::MountedClient;
use weftwork_types::code::Fault;
use weftwork_types::message::Role;
use weftwork_types::port::{RunHandle, TurnRun};
use weftwork_types::run::{RunOutcome, RunStatus};

/// A run and those before it in its conversation.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) client: MountedClient,
    /// Earlier runs, oldest first.
    pub(crate) earlier: Vec<TurnRun>,
    pub(crate) turn: TurnRun,
}

/// Messages, each with an id of its own.
#[derive(Debug, Default)]
struct Messages {
    list: Vec<Value>,
    ids: BTreeSet<String>,
}

impl Messages {
    fn add(&mut self, message: Value) {
        let id = message["id"].as_str().unwrap_or_default();
        // A message that was said again after a failure stays at its first place.
        if self.ids.insert(id.to_owned()) {
            self.list.push(message);
        }
    }
}

impl History {
    /// Returns the messages before those that the run makes: of the earlier runs, and those with which it
    /// began.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn messages(&self) -> Result<Vec<Value>> {
        let mut messages = Messages::default();
        let mut seen = SeenCalls::default();
        for turn in &self.earlier {
            self.add_said(turn, &mut messages).await?;
            let (own, now) = self.read(turn, seen).await?;
            seen = now;
            own.into_iter().for_each(|message| messages.add(message));
        }
        self.add_said(&self.turn, &mut messages).await?;
        Ok(messages.list)
    }

    /// Returns the calls that a client of the run has from the runs whose questions it answers.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn seen_calls(&self) -> Result<SeenCalls> {
        let mut chain = Vec::new();
        let mut answers = self.turn.answers.clone();
        for turn in self.earlier.iter().rev() {
            if answers.as_ref() == Some(&turn.at.run) {
                chain.push(turn);
                answers.clone_from(&turn.answers);
            }
        }
        let mut seen = SeenCalls::default();
        for turn in chain.into_iter().rev() {
            seen = self.read(turn, seen).await?.1;
        }
        Ok(seen)
    }

    /// Returns the state before the run.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn state(&self) -> Result<Value> {
        for turn in self.earlier.iter().rev().filter(|turn| turn.status == RunStatus::Completed) {
            let Some(handle) = self.follow(turn).await? else { continue };
            if let RunOutcome::Completed { output } = handle.outcome.await {
                return Ok(state::of_output(&output));
            }
        }
        Ok(state::empty())
    }

    /// Adds the messages of the user with which a run began.
    async fn add_said(&self, turn: &TurnRun, messages: &mut Messages) -> Result<()> {
        let said = self.client.platform()?.said(self.client.principal(), &turn.at.run).await;
        let said = found(said)?.unwrap_or_default();
        for (index, message) in said.iter().enumerate() {
            if message.role == Role::User {
                messages.add(user_message(&message_id(turn, index), message));
            }
        }
        Ok(())
    }

    /// Reads the messages of a run that has ended.
    async fn read(&self, turn: &TurnRun, seen: SeenCalls) -> Result<(Vec<Value>, SeenCalls)> {
        let handle = match turn.status.is_final() {
            true => self.follow(turn).await?,
            false => None,
        };
        let Some(RunHandle { run, mut events, outcome }) = handle else {
            return Ok((Vec::new(), seen));
        };
        let mut reader = RunReader::new(run, seen);
        while let Some(event) = events.next().await {
            reader.read(&event);
        }
        // The output of a run is read from its state, which has the whole conversation.
        if reader.needs_outcome(turn.status) {
            reader.end(&outcome.await);
        }
        Ok(reader.into_messages())
    }

    /// Follows a run; `None` for one that is hidden from clients.
    async fn follow(&self, turn: &TurnRun) -> Result<Option<RunHandle>> {
        let handle = self.client.platform()?.follow(self.client.principal(), &turn.at.run).await;
        found(handle)
    }
}

fn found<T>(result: Result<T, Fault>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(fault) if fault.code == "W0201" => Ok(None),
        Err(fault) => Err(AguiError::refused(fault)),
    }
}
