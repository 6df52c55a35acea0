//! Turns of conversations, for servers of other protocols.

use crate::action::Action;
use crate::mode::{self, RequestError};
use crate::platform::{HostedAgents, fault, repeated, title_of};
use crate::records::{Conversation, NewConversation};
use crate::source::AGENTS;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_graph::RuntimeError;
use weftwork_runtime::deleted_runs::{mark_of_run, of_server};
use weftwork_runtime::{ThreadRun, unversioned};
use weftwork_store::thread::is_of_other;
use weftwork_store::{
    PutOptions, ReadItems as _, RunRow, Store, StoreError, StoreItems, ThreadRow, Ttl,
    WriteItems as _, by_execution,
};
use weftwork_types::code::Fault;
use weftwork_types::message::{Message, langchain};
use weftwork_types::port::{
    AgentTurns, Begun, Platform as _, RunHandle, Says, TaskCaller, Turn, TurnChain, TurnRun,
};
use weftwork_types::run::{Answers, CancelAction, RunInput, RunOptions, RunOutcome};
use weftwork_types::task::TaskRequest;
use weftwork_types::{BoxFuture, CheckpointId, Principal, RunId, ThreadId, Timestamp};

impl HostedAgents {
    async fn begin_turn(&self, by: TaskCaller, turn: Turn) -> Result<RunHandle, Fault> {
        let who = &by.principal;
        let Turn { agent: slug, mode, conversation, says, after, metadata } = turn;
        let Some(folder) = self.agents().definition(who, &slug) else {
            return Err(RequestError::Agent { agent: slug, nearest: None }.fault());
        };
        let mode = mode::of_definition(&slug, &folder.definition, mode.map(|mode| mode.name()));
        let mode = mode.map_err(|error| error.fault())?;
        let key = by.idempotency_key.clone();
        let conversation = conversation
            .unwrap_or_else(|| self.new_conversation(who, key.as_deref(), &folder.slug));
        let thread = self.thread_of(who, &conversation).await?;
        let mut options = RunOptions {
            other_graph: true,
            idempotency_key: key.clone(),
            metadata,
            ..RunOptions::default()
        };
        let earlier = self.run_with_key(who, &thread, key.as_deref()).await?;
        options.at = match (&earlier, after) {
            // Other runs may have followed since.
            (Some(earlier), _) => earlier.new.options.at,
            (None, Some(after)) => self.place_after(who, &thread, &after).await?,
            (None, None) => None,
        };
        let runs = self.runtime().thread_for(who, &format!("{AGENTS}{slug}"), thread.as_str());
        let runs = runs.map_err(fault)?;
        let run: ThreadRun = match says {
            Says::Answers(answers) => runs.answer(Answers::from_iter(answers)),
            Says::Messages { messages, input } => {
                let title = messages.last().and_then(|last| title_of(&last.joined_text()));
                let messages = with_ids(messages, key.as_deref());
                let mut state = json!({"messages": messages, "mode": mode, "payload": {}});
                if let Some(input) = input {
                    state["input"] = input;
                }
                self.add_chain(&by, &slug, &mut state)?;
                self.check_first(who, &slug, &thread, &state).await?;
                let new = NewConversation {
                    id: conversation,
                    title,
                    agent: Some(slug.clone()),
                    graph: None,
                };
                self.open(who, new).await?;
                // A branch from an earlier place leaves the questions behind.
                if options.at.is_none() && earlier.is_none() {
                    self.check_waiting(who, &thread, None).await?;
                }
                runs.start(state)
            }
        };
        let begun = run
            .options(options)
            .caller(by.caller.clone())
            .parent_span(by.parent_span.clone())
            .begin()
            .await;
        Ok(with_failures(begun.map_err(fault)?.into_handle()))
    }

    async fn earlier_turn(
        &self,
        by: &TaskCaller,
        slug: &str,
        conversation: Option<&str>,
    ) -> Result<Option<TurnRun>, Fault> {
        let TaskCaller { principal: who, idempotency_key, .. } = by;
        let key = idempotency_key.as_deref();
        let Some(folder) = self.agents().definition(who, slug) else { return Ok(None) };
        if key.is_none() {
            return Ok(None);
        }
        let opened = || self.new_conversation(who, key, &folder.slug);
        let conversation = conversation.map_or_else(opened, str::to_owned);
        let thread = self.thread_of(who, &conversation).await?;
        let Some(row) = self.run_with_key(who, &thread, key).await? else { return Ok(None) };
        let turns = self.turns_of_thread(who, &thread).await.map_err(|error| error.fault())?;
        Ok(turns.into_iter().find(|turn| turn.at == row.new.at))
    }

    /// Returns the run of the first request with an idempotency key on a thread.
    async fn run_with_key(
        &self,
        who: &Principal,
        thread: &ThreadId,
        key: Option<&str>,
    ) -> Result<Option<RunRow>, Fault> {
        if key.is_none() {
            return Ok(None);
        }
        let runs = match self.runtime().store().runs(who, thread).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            runs => runs.map_err(|error| error.fault())?,
        };
        Ok(runs.into_iter().find(|row| row.new.options.idempotency_key.as_deref() == key))
    }

    /// Returns the checkpoint from which a thread goes on after a run; `None` if it is the last one.
    async fn place_after(
        &self,
        who: &Principal,
        thread: &ThreadId,
        after: &RunId,
    ) -> Result<Option<CheckpointId>, Fault> {
        let row = self.own_run(who, after).await?;
        if row.new.at.thread != *thread {
            return Err(missing(after));
        }
        let runs = self.runtime().store().runs(who, thread).await;
        let mut runs = by_execution(runs.map_err(|error| error.fault())?);
        // A change of the state from outside belongs to the run before it.
        runs.retain(|row| {
            row.rolled_back_by.is_none() && !matches!(row.new.input, RunInput::Update { .. })
        });
        match runs.last() {
            Some(last) if last.new.at.run == *after => Ok(None),
            _ => Ok(row.last_checkpoint),
        }
    }

    /// Returns the row of a run of a conversation of the principal that clients see.
    async fn own_run(&self, who: &Principal, run: &RunId) -> Result<RunRow, Fault> {
        let store = self.runtime().store();
        let row = store.find_run(who, run).await.map_err(|error| hidden(error, run))?;
        let thread = store.thread(who, &row.new.at.thread).await;
        let thread = thread.map_err(|error| hidden(error, run))?;
        let graph = unversioned(&row.new.graph);
        let is_seen = row.rolled_back_by.is_none()
            && graph.starts_with(AGENTS)
            && !is_of_other(who, &thread.metadata);
        if !is_seen || self.is_hidden(who, &row).await? {
            return Err(missing(run));
        }
        Ok(row)
    }

    fn items(&self) -> StoreItems<dyn Store> {
        let runtime = self.runtime();
        StoreItems::of(Arc::clone(runtime.store()), Arc::clone(runtime.clock()))
    }

    async fn is_hidden(&self, who: &Principal, row: &RunRow) -> Result<bool, Fault> {
        let server = server_of(who)?;
        let mark = mark_of_run(&row.new.at).map_err(|error| error.fault())?;
        let found = self.items().get(&server, &mark, Ttl::Keep).await;
        Ok(found.map_err(|error| error.fault())?.is_some())
    }

    async fn turn_of(&self, who: &Principal, run: &RunId) -> Result<TurnRun, Fault> {
        let row = self.own_run(who, run).await?;
        let thread = self.runtime().store().thread(who, &row.new.at.thread).await;
        let thread = thread.map_err(|error| hidden(error, run))?;
        Ok(turn_of_row(row, conversation_of(who, &thread), None))
    }

    async fn begin_with_details(
        &self,
        by: TaskCaller,
        request: TaskRequest,
        metadata: Map<String, Value>,
    ) -> Result<Begun, Fault> {
        let key = by.idempotency_key.as_deref();
        let checked = self.check(&by.principal, key, &request).await?;
        let request = match checked.action {
            Action::Run => request,
            Action::Again(_) => repeated(request),
            Action::Orchestration(_) | Action::Record(..) => {
                return Ok(Begun::Answer(self.task(by, request).await));
            }
        };
        let started = self.start_run(&by, request, &checked, metadata).await?;
        Ok(Begun::Run(with_failures(started.into_handle())))
    }

    /// Returns the turns of a thread of the principal.
    async fn turns_of_thread(
        &self,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<Vec<TurnRun>, StoreError> {
        let store = self.runtime().store();
        let row = store.thread(who, thread).await?;
        if is_of_other(who, &row.metadata) {
            return Err(StoreError::NotFound { kind: "thread", id: thread.to_string() });
        }
        let conversation = conversation_of(who, &row);
        let rows = by_execution(store.runs(who, thread).await?);
        let begun_at = |run: &RunId| {
            let row = rows.iter().find(|row| row.new.at.run == *run);
            row.map(|row| row.new.created_at)
        };
        let mut turns = Vec::new();
        for row in &rows {
            // A change of the state from outside is no turn.
            let is_turn = !matches!(row.new.input, RunInput::Update { .. });
            if is_turn && unversioned(&row.new.graph).starts_with(AGENTS) {
                let rolled_back = row.rolled_back_by.as_ref();
                let at = rolled_back.map(|by| begun_at(by).unwrap_or(row.new.created_at));
                turns.push(turn_of_row(row.clone(), conversation.clone(), at));
            }
        }
        Ok(turns)
    }

    async fn chain_from(&self, who: &Principal, run: &RunId) -> Result<TurnChain, Fault> {
        let row = self.runtime().store().find_run(who, run).await;
        let row = row.map_err(|error| hidden(error, run))?;
        if self.is_hidden(who, &row).await? {
            return Err(missing(run));
        }
        let turns = self.turns_of_thread(who, &row.new.at.thread).await;
        let turns = turns.map_err(|error| hidden(error, run))?;
        TurnChain::of(&turns, run).ok_or_else(|| missing(run))
    }
}

impl AgentTurns for HostedAgents {
    fn begin(&self, by: TaskCaller, turn: Turn) -> BoxFuture<'_, Result<RunHandle, Fault>> {
        Box::pin(self.begin_turn(by, turn))
    }

    fn earlier<'a>(
        &'a self,
        by: &'a TaskCaller,
        agent: &'a str,
        conversation: Option<&'a str>,
    ) -> BoxFuture<'a, Option<TurnRun>> {
        Box::pin(async move { self.earlier_turn(by, agent, conversation).await.ok().flatten() })
    }

    fn turn<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<TurnRun, Fault>> {
        Box::pin(self.turn_of(who, run))
    }

    fn said<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Vec<Message>, Fault>> {
        Box::pin(async move { Ok(messages_of(&self.own_run(who, run).await?.new.input)) })
    }

    fn follow<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<RunHandle, Fault>> {
        Box::pin(async move {
            let row = self.own_run(who, run).await?;
            let followed = self.runtime().follow_run(who, &row.new.at).await;
            Ok(with_failures(followed.map_err(fault)?.into_handle()))
        })
    }

    fn cancel<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let row = self.own_run(who, run).await?;
            if row.status.is_final() {
                return Ok(());
            }
            let at = &row.new.at;
            match self.runtime().cancel_run(who, at, CancelAction::Interrupt).await {
                Ok(_) => Ok(()),
                // It ended meanwhile.
                Err(_) if self.own_run(who, run).await?.status.is_final() => Ok(()),
                Err(error) => Err(fault(error)),
            }
        })
    }

    fn hide<'a>(&'a self, who: &'a Principal, run: &'a RunId) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let row = self.own_run(who, run).await?;
            if !row.status.is_final() {
                let thread = row.new.at.thread.to_string();
                return Err(StoreError::Busy { thread, run: run.to_string() }.fault());
            }
            let server = server_of(who)?;
            let mark = mark_of_run(&row.new.at).map_err(|error| error.fault())?;
            let put = self.items().put(&server, &mark, json!({}), PutOptions::default()).await;
            put.map_err(|error| error.fault())
        })
    }

    fn begin_request(
        &self,
        by: TaskCaller,
        request: TaskRequest,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Begun, Fault>> {
        Box::pin(self.begin_with_details(by, request, metadata))
    }

    fn turns<'a>(
        &'a self,
        who: &'a Principal,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Vec<TurnRun>, Fault>> {
        Box::pin(async move {
            let thread = self.thread_of(who, conversation).await?;
            match self.turns_of_thread(who, &thread).await {
                Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
                turns => turns.map_err(|error| error.fault()),
            }
        })
    }

    fn chain<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<TurnChain, Fault>> {
        Box::pin(self.chain_from(who, run))
    }

    fn roll_back<'a>(
        &'a self,
        who: &'a Principal,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let row = self.own_run(who, run).await?;
            let at = &row.new.at;
            let rolled = self.runtime().cancel_run(who, at, CancelAction::Rollback).await;
            if let Some(rolled) = rolled.map_err(fault)? {
                rolled.await;
            }
            Ok(())
        })
    }
}

/// Returns the messages in the input of a run.
fn messages_of(input: &RunInput) -> Vec<Message> {
    let RunInput::Start { input } = input else { return Vec::new() };
    let messages = input["messages"].as_array().into_iter().flatten();
    messages.filter_map(|message| langchain::message_of(message.as_object()?)).collect()
}

/// Returns the id of the conversation of a thread.
fn conversation_of(who: &Principal, thread: &ThreadRow) -> String {
    let known = Conversation::of(who, thread).map(|conversation| conversation.id);
    known.unwrap_or_else(|| thread.id.to_string())
}

fn turn_of_row(row: RunRow, conversation: String, rolled_back_at: Option<Timestamp>) -> TurnRun {
    let graph = unversioned(&row.new.graph);
    TurnRun {
        agent: graph.strip_prefix(AGENTS).unwrap_or(graph).to_owned(),
        conversation,
        status: row.status,
        created_at: row.new.created_at,
        ended_at: row.ended_at,
        answers: row.answers,
        rolled_back_at,
        metadata: row.new.options.metadata,
        at: row.new.at,
    }
}

/// Returns the principal under which the marks of hidden runs are stored.
fn server_of(who: &Principal) -> Result<Principal, Fault> {
    of_server(who).map_err(|error| RuntimeError::from(error).fault())
}

/// A run that was not found. One of another principal has the same error.
fn missing(run: &RunId) -> Fault {
    StoreError::NotFound { kind: "run", id: run.to_string() }.fault()
}

fn hidden(error: StoreError, run: &RunId) -> Fault {
    match error {
        StoreError::NotFound { .. } => missing(run),
        error => error.fault(),
    }
}

/// Gives the messages of a request with a key the ids that follow from it: a repeated request has the
/// same messages.
fn with_ids(mut messages: Vec<Message>, key: Option<&str>) -> Vec<Message> {
    let Some(key) = key else { return messages };
    for (index, message) in messages.iter_mut().enumerate() {
        message.id = Message::user_of_request("", &format!("{key}/{index}")).id;
    }
    messages
}

/// The handle of a run that fails if its agent answers with a failure.
fn with_failures(handle: RunHandle) -> RunHandle {
    let RunHandle { run, events, outcome } = handle;
    let outcome = Box::pin(async move {
        match outcome.await {
            RunOutcome::Completed { output } => match failure_in(&output) {
                Some(fault) => RunOutcome::Failed { fault },
                None => RunOutcome::Completed { output },
            },
            other => other,
        }
    });
    RunHandle { run, events, outcome }
}

fn failure_in(output: &Value) -> Option<Fault> {
    crate::sub_agent::fault_in(output.get("answer")?)
}
