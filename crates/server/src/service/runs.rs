//! Runs: their requests, their ends, and their frames.

use super::{Service, Wanted};
use crate::body::{CheckpointBody, IfNotExists, RunBody};
use crate::error::{ApiError, Result};
use crate::input::{Ignored, NewIds};
use crate::log::LogEntry;
use crate::translate::assistant::Assistant;
use crate::translate::stream::{Received, Requested, Stream, Translator};
use crate::translate::{ids, messages, rows, state};
use axum::http::StatusCode;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value, json};
use std::time::Duration;
use uuid::Uuid;
use weftwork_runtime::{FORKED_FROM, OutputStream, Selection, Subgraphs, Texts};
use weftwork_store::mailbox::without_reserved;
use weftwork_store::{RunRow, StoreError, ThreadQuery, ThreadStatus};
use weftwork_types::event::{NoPosition, Position};
use weftwork_types::port::{GraphExecutor, RunHandle};
use weftwork_types::run::{CancelAction, RunInput, RunOutcome, RunRef, RunRequest, RunStatus};
use weftwork_types::{BoxFuture, RunId, ThreadId, canonical};

/// Time for which the thread of a stateless run exists after its end.
const KEPT: Duration = Duration::from_secs(60);

/// A run that was requested.
pub(crate) struct Started {
    pub(crate) handle: RunHandle,
    /// Members of its input that its graph does not have.
    pub(crate) ignored: Ignored,
}

/// When a request for a run is compared with the limits of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// With this request, unless it repeats an earlier one.
    Now,
    /// Before, with others.
    Before,
}

/// The place at which a client begins to follow a run.
#[derive(Debug)]
pub(crate) enum FollowStart {
    /// Before the first frame, and before the metadata of the stream.
    Start,
    /// After the events that the client received.
    After(Received),
    /// No place that the client names. A run that has ended has nothing more for it.
    Unknown,
    /// A number, as in the ids of other servers. It is refused unless the run has ended.
    Foreign(NoPosition),
}

/// The runs that a request cancels.
#[derive(Debug)]
pub(crate) enum Bulk {
    /// Runs of a thread.
    Runs { thread: ThreadId, runs: Vec<RunId> },
    /// All unfinished runs: waiting runs, executed runs, or both.
    Unfinished { pending: bool, running: bool },
}

impl Service {
    /// Requests a run. A run without a thread gets one of its own.
    ///
    /// # Errors
    /// Status 429 if more runs wait for a slot of this process than it takes, or if a limit of the
    /// account or key is reached.
    pub(crate) async fn start(&self, thread: Option<&str>, body: &RunBody) -> Result<Started> {
        self.start_as(thread, body, Admission::Now).await
    }

    /// Requests a run, whose limits may have been checked before.
    pub(crate) async fn start_as(
        &self,
        thread: Option<&str>,
        body: &RunBody,
        admission: Admission,
    ) -> Result<Started> {
        self.check_load()?;
        let assistant = self.chosen(&body.assistant_id).await?;
        let hosted = self.hosted(assistant.record.graph())?;
        let mut thread_metadata = Map::new();
        let thread = match thread {
            Some(text) => {
                let thread = self.thread_id(text).await?;
                match self.row(&thread).await {
                    Ok(row) => thread_metadata = row.metadata,
                    Err(error) if !error.is_missing() => return Err(error),
                    Err(_) if body.if_not_exists == IfNotExists::Create => {}
                    Err(_) => return Err(ApiError::missing("Thread or assistant not found.")),
                }
                thread
            }
            None if body.resumes() => {
                return Err(ApiError::bad("You must provide a thread_id when resuming."));
            }
            None => own_thread(body.idempotency_key.as_deref()),
        };
        let mut options = body.options(&assistant, self.now())?;
        let mut ignored = Ignored::default();
        let mut ids = NewIds::of_request(&thread, body.idempotency_key.as_deref());
        let input = body.input(&hosted.graph, &mut ids, &mut ignored)?;
        self.require_for(&input)?;
        if let Some(within) = &options.within
            && matches!(input, RunInput::Start { .. })
        {
            return Err(ApiError::invalid(format!(
                "`checkpoint` is that of subgraph `{}`, and `input` is for the outermost graph; change the state of the subgraph with `POST /threads/{{thread_id}}/state`, or leave `checkpoint_ns` out",
                within.namespace
            )));
        }
        let input = self.read_decisions(&hosted, &thread, options.at, input).await?;
        let input = self.drop_invented_results(&thread, input, &mut ignored).await?;
        let earlier = self.find_earlier(&thread, options.idempotency_key.as_deref()).await?;
        options.metadata = match &earlier {
            // The metadata of the thread may have changed since.
            Some(earlier) if has_all(&earlier.new.options.metadata, &options.metadata) => {
                earlier.new.options.metadata.clone()
            }
            _ => merge_metadata(&assistant, thread_metadata, options.metadata),
        };
        if earlier.is_none() && admission == Admission::Now {
            self.admit_start(1).await?;
        }
        let request = RunRequest {
            principal: self.who().clone(),
            caller: self.caller(),
            graph: hosted.id.to_owned(),
            thread,
            input,
            options: self.within_trace(options),
        };
        let handle = self.runtime().execute(request).await?;
        if earlier.is_some() {
            return Ok(Started { handle, ignored });
        }
        self.log_ignored(&handle.run.thread, &ignored);
        let handle = self.log_run(handle, assistant.record.graph());
        if assistant.id != ids::assistant_of(assistant.record.graph()) {
            // The thread is found by the assistant that ran on it last.
            let id = Value::from(assistant.id.to_string());
            let metadata = Map::from_iter([("assistant_id".to_owned(), id)]);
            let thread = &handle.run.thread;
            self.store().update_metadata(self.who(), thread, metadata, self.now()).await?;
        }
        Ok(Started { handle, ignored })
    }

    /// Adds ignored members of input to the log.
    pub(super) fn log_ignored(&self, thread: &ThreadId, ignored: &Ignored) {
        if let Some(log) = self.log()
            && !ignored.names().is_empty()
        {
            let members = ignored.names().to_vec();
            log.add(LogEntry::InputIgnored { thread: thread.clone(), members });
        }
    }

    /// Returns the run of the first request with this key on a thread.
    pub(super) async fn find_earlier(
        &self,
        thread: &ThreadId,
        key: Option<&str>,
    ) -> Result<Option<RunRow>> {
        if key.is_none() {
            return Ok(None);
        }
        let runs = match self.store().runs(self.who(), thread).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            runs => runs?,
        };
        Ok(runs.into_iter().find(|run| run.new.options.idempotency_key.as_deref() == key))
    }

    /// Adds the start of a run to the log, and its end once it has ended, also if the client that
    /// waits for it leaves.
    pub(super) fn log_run(&self, handle: RunHandle, graph: &str) -> RunHandle {
        let Some(log) = self.log().cloned() else { return handle };
        let RunHandle { run, events, outcome } = handle;
        log.add(LogEntry::RunBegun { run: run.clone(), graph: graph.to_owned() });
        let outcome = outcome.shared();
        let service = self.clone();
        let begun = self.now();
        let logged = outcome.clone();
        let at = run.clone();
        tokio::spawn(async move {
            let outcome = logged.await;
            let status = match outcome {
                RunOutcome::Failed { .. } => service.stored_failure(&at).await,
                outcome => Some(outcome.status()),
            };
            if let Some(status) = status {
                let took = service.now().since(begun);
                log.add(LogEntry::RunEnded { run: at, status, took });
            }
        });
        RunHandle { run, events, outcome: outcome.boxed() }
    }

    /// Returns the status of a run that was reported as failed; `None` for a run without an end, which
    /// goes on in another process. A store that did not take the end yet is waited for.
    async fn stored_failure(&self, run: &RunRef) -> Option<RunStatus> {
        self.runtime().follow_run(self.who(), run).await.ok()?.await;
        let row = self.store().run(self.who(), run).await.ok()?;
        row.status.is_final().then_some(row.status)
    }

    fn run_view_of(&self, row: &RunRow) -> rows::RunView {
        rows::RunView::of(row, self.name_of(&row.new.graph))
    }

    /// Returns the row of a run.
    pub(crate) async fn run_row(&self, run: &RunRef) -> Result<RunRow> {
        let row = self.made_run(run).await?;
        if row.rolled_back_by.is_some() { Err(ApiError::not_found()) } else { Ok(row) }
    }

    /// Returns the row of a run, also of one that was rolled back.
    pub(super) async fn made_run(&self, run: &RunRef) -> Result<RunRow> {
        let row = match self.store().run(self.who(), run).await {
            Err(StoreError::NotFound { .. }) => return Err(ApiError::not_found()),
            row => row?,
        };
        if self.is_deleted(run).await? {
            return Err(ApiError::not_found());
        }
        Ok(row)
    }

    /// Returns the place of a run that is named by its id alone.
    pub(crate) async fn find_run(&self, run: &RunId) -> Result<RunRef> {
        match self.store().find_run(self.who(), run).await {
            Err(StoreError::NotFound { .. }) => Err(ApiError::not_found()),
            row => Ok(row?.new.at),
        }
    }

    /// Returns the runs of a thread, newest first, with those that were rolled back.
    pub(crate) async fn runs(&self, thread: &ThreadId) -> Result<Vec<RunRow>> {
        self.row(thread).await?;
        let mut runs = self.store().runs(self.who(), thread).await?;
        let deleted = self.deleted_runs(thread).await?;
        runs.retain(|run| !deleted.contains(run.new.at.run.as_str()));
        runs.reverse();
        Ok(runs)
    }

    /// Cancels a run, and waits for its end if asked to.
    pub(crate) async fn cancel(
        &self,
        run: &RunRef,
        action: CancelAction,
        wait: bool,
    ) -> Result<()> {
        let row = self.run_row(run).await;
        if !row.as_ref().is_ok_and(|row| !row.status.is_final()) {
            return Err(row.err().filter(|error| !error.is_missing()).unwrap_or_else(|| {
                ApiError::missing(
                    "No matching runs to cancel. Please verify the thread ID and run IDs are \
                     correct, and the runs haven't been deleted or completed.",
                )
            }));
        }
        let cancelled = self.runtime().follow_run(self.who(), run).await?;
        let rollback = self.runtime().cancel_run(self.who(), run, action).await?;
        if wait {
            cancelled.await;
            if let Some(rollback) = rollback {
                rollback.await;
            }
        }
        Ok(())
    }

    /// Cancels several runs.
    pub(crate) async fn cancel_all(&self, bulk: Bulk, action: CancelAction) -> Result<()> {
        let mut found = Vec::new();
        match bulk {
            Bulk::Runs { thread, runs } => {
                let known = self.store().runs(self.who(), &thread).await?;
                let wanted =
                    |row: &&RunRow| runs.contains(&row.new.at.run) && row.rolled_back_by.is_none();
                let unfinished = known.iter().filter(wanted).filter(|row| !row.status.is_final());
                found.extend(unfinished.map(|row| row.new.at.clone()));
            }
            Bulk::Unfinished { pending, running } => {
                let status = Some(ThreadStatus::Busy);
                let query = ThreadQuery { status, ..ThreadQuery::default() };
                for thread in self.search(query, &Wanted::default()).await? {
                    let runs = self.store().runs(self.who(), &thread.row.id).await?;
                    let wanted = |row: &&RunRow| match row.status {
                        RunStatus::Running => running,
                        status => pending && !status.is_final(),
                    };
                    found.extend(runs.iter().filter(wanted).map(|row| row.new.at.clone()));
                }
            }
        }
        if found.is_empty() {
            return Err(ApiError::missing("No runs found to cancel."));
        }
        if action == CancelAction::Interrupt {
            // Newest first, so that no run that is queued begins. The rollback of a run includes the
            // later ones.
            found.reverse();
        }
        for run in found {
            match self.cancel(&run, action, false).await {
                Err(error) if !error.is_missing() => return Err(error),
                // It ended meanwhile.
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits for the end of a run, and returns the values that the thread has then.
    pub(crate) async fn end(&self, run: &RunRef) -> Result<Value> {
        let ended = self.runtime().follow_run(self.who(), run).await?.await;
        self.values(run, ended.outcome().clone()).await
    }

    /// Returns the values that the end of a run leaves.
    ///
    /// # Errors
    /// Status 503 if the run has not ended: this process stops, and another process continues it.
    pub(crate) async fn values(&self, run: &RunRef, outcome: RunOutcome) -> Result<Value> {
        if let Some(failure) = rows::failure_of(&outcome) {
            if self.ending(run).await?.is_none() {
                let detail = "the server stops; the run goes on, join it again";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail));
            }
            return Ok(json!({"__error__": failure}));
        }
        match outcome {
            RunOutcome::Completed { output } => Ok(messages::into_shown(output)),
            outcome => {
                let mut at = self.state(&run.thread, &CheckpointBody::default(), false).await?;
                let mut values = at["values"].take();
                let asked: Vec<_> =
                    outcome.questions().iter().map(state::question_to_json).collect();
                if let Some(members) = values.as_object_mut()
                    && !asked.is_empty()
                {
                    members.insert("__interrupt__".to_owned(), asked.into());
                }
                Ok(values)
            }
        }
    }

    /// Returns the outcome of a run as it is stored; `None` if the run has not ended.
    pub(crate) async fn ending(&self, run: &RunRef) -> Result<Option<RunOutcome>> {
        Ok(self.run_row(run).await?.outcome)
    }

    /// Follows a run in stream modes.
    pub(crate) async fn frames(
        &self,
        run: &RunRef,
        requested: Requested,
        subgraphs: bool,
        place: FollowStart,
    ) -> Result<(OutputStream, Translator)> {
        let row = self.run_row(run).await?;
        let ended = row.status.is_final();
        let is_over = ended && matches!(place, FollowStart::Unknown | FollowStart::Foreign(_));
        let from_start = !is_over && !matches!(place, FollowStart::After(_));
        let received = match place {
            FollowStart::After(received) => received,
            FollowStart::Foreign(problem) if !ended => {
                return Err(ApiError::invalid(problem.to_string()));
            }
            FollowStart::Start | FollowStart::Unknown | FollowStart::Foreign(_) => {
                Received::default()
            }
        };
        let frames = if is_over {
            futures_util::stream::empty().boxed()
        } else {
            let reads_all = requested.needs_beginning();
            // Records of the mode `events` are of all graphs.
            let all = subgraphs || requested.events;
            let select = Selection {
                modes: requested.read(),
                subgraphs: if all { Subgraphs::Include } else { Subgraphs::Omit },
                texts: Texts::Logged,
                ..Selection::default()
            };
            let after = if reads_all { Position::START } else { received.position };
            self.runtime().follow(self.who(), run, after, select).await?
        };
        let stream = Stream { requested, subgraphs, from_start };
        Ok((frames, Translator::new(self.run_view_of(&row), stream, received, &row.new.input)))
    }

    /// Waits for a time.
    pub(crate) fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.runtime().clock().sleep(time)
    }

    /// Deletes the thread of a stateless run some time after its end, so that clients that follow
    /// the run can read its last events.
    pub(crate) fn delete_later(&self, run: RunRef, outcome: BoxFuture<'static, RunOutcome>) {
        let service = self.clone();
        tokio::spawn(async move {
            outcome.await;
            service.runtime().clock().sleep(KEPT).await;
            if let Err(error) = service.delete_thread(&run.thread).await {
                tracing::debug!(?error, thread = %run.thread, "a stateless thread is not deleted");
            }
        });
    }
}

/// Returns the thread of a request that names none: a new one, and the same one for a repeated request.
pub(super) fn own_thread(key: Option<&str>) -> ThreadId {
    let repeated = |key| Uuid::from_u128(canonical::first_128(key));
    ThreadId::from_uuid(key.map_or_else(Uuid::now_v7, repeated))
}

fn has_all(all: &Map<String, Value>, some: &Map<String, Value>) -> bool {
    some.iter().all(|(name, value)| all.get(name) == Some(value))
}

/// Returns the metadata of a run: that of its assistant and of its thread, and its own.
pub(super) fn merge_metadata(
    assistant: &Assistant,
    mut thread: Map<String, Value>,
    own: Map<String, Value>,
) -> Map<String, Value> {
    thread.shift_remove(FORKED_FROM);
    // Marks of an instance come from its thread alone.
    let mut all = without_reserved(assistant.current().metadata.clone());
    all.extend(thread);
    all.insert("graph_id".to_owned(), assistant.record.graph().into());
    all.insert("assistant_id".to_owned(), assistant.id.to_string().into());
    all.extend(without_reserved(own));
    all
}
