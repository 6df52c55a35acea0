//! Runs as streams of events.

use crate::begin::{Asking, Begun, find};
use crate::error::{AguiError, Result};
use crate::history::History;
use crate::input::{RunIds, RunInput, Version};
use crate::reader::{RunReader, Step};
use crate::{agent, answers, event, state};
use axum::Json;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LOCATION;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use weftwork_server::{MountedClient, name_ignored};
use weftwork_types::event::RunEvent;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::port::RunHandle;
use weftwork_types::run::RunOutcome;
use weftwork_types::{BoxFuture, BoxStream};

/// Runs an agent, or follows a run that the same id began.
///
/// # Errors
/// A status of HTTP for a request that began no run. Errors about interrupts are a stream.
pub(crate) async fn run(
    client: MountedClient,
    slug: &str,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response> {
    let agent = agent::find(&client, slug)?;
    let input = RunInput::read(&bytes)?;
    let asking = Asking { client: &client, headers: &headers, agent: &agent, input: &input };
    let begun = match asking.begin().await {
        Ok(begun) => begun,
        Err(error) => return refused(&client, &input, error),
    };
    let place = MountedClient::place_of(&begun.turn.at);
    let mut response = follow(client, &input, begun).await?;
    let headers = response.headers_mut();
    name_ignored(headers, input.ignored.iter().map(String::as_str));
    headers.extend(place.parse().map(|place| (CONTENT_LOCATION, place)));
    Ok(response)
}

/// Cancels a run, and returns its status.
///
/// # Errors
/// Status 404 if the conversation has no such run.
pub(crate) async fn cancel(client: MountedClient, slug: &str, bytes: Bytes) -> Result<Response> {
    let agent = agent::find(&client, slug)?;
    let RunIds { thread, run } = RunIds::read(&bytes)?;
    let who = client.principal();
    let platform = client.platform()?;
    let turns = platform.turns(who, &thread).await.map_err(AguiError::refused)?;
    let turn = find(&turns, &run).filter(|turn| turn.agent == agent.slug);
    let at = &turn.ok_or_else(AguiError::run_missing)?.at;
    let handle = platform.follow(who, &at.run).await.map_err(|_| AguiError::run_missing())?;
    platform.cancel(who, &at.run).await.map_err(AguiError::refused)?;
    // It stops at its next await point.
    let status = handle.outcome.await.status();
    Ok(Json(json!({"threadId": thread, "runId": run, "status": status})).into_response())
}

/// Returns the answer to a request that began no run.
fn refused(client: &MountedClient, input: &RunInput, error: AguiError) -> Result<Response> {
    let Some(last) = error.event() else { return Err(error) };
    let events = [event::run_started(&input.thread, &input.run), last];
    Ok(client.stream(stream::iter(events.map(|event| data(&event)))))
}

/// Returns the response that streams a run from its beginning. A client that leaves does not stop the run.
async fn follow(client: MountedClient, input: &RunInput, begun: Begun) -> Result<Response> {
    let Begun { handle, turn, earlier, needs_messages } = begun;
    let history = History { client: client.clone(), earlier, turn };
    let state = history.state().await?;
    let mut begin =
        vec![event::run_started(&input.thread, &input.run), event::state_snapshot(&state)];
    if needs_messages {
        begin.push(event::messages_snapshot(&history.messages().await?));
    }
    let RunHandle { run, events, outcome } = handle;
    let reader = RunReader::new(run, history.seen_calls().await?);
    let shown = ShownRun {
        thread: input.thread.clone(),
        run: input.run.clone(),
        version: input.version,
        state,
        history,
        reader,
    };
    let streaming = Streaming { shown, events, outcome };
    let rest = stream::unfold(Some(streaming), async |streaming| streaming?.next().await);
    let events = stream::iter(begin).chain(rest.flat_map(stream::iter));
    Ok(client.stream(events.map(|event| data(&event))))
}

fn data(event: &Value) -> Event {
    Event::default().data(event.to_string())
}

/// A stream of a run.
struct Streaming {
    shown: ShownRun,
    events: BoxStream<'static, RunEvent>,
    outcome: BoxFuture<'static, RunOutcome>,
}

impl Streaming {
    /// Returns the next events; none after the end.
    async fn next(mut self) -> Option<(Vec<Value>, Option<Self>)> {
        let result = match self.events.next().await {
            Some(event) => {
                let steps = self.shown.reader.read(&event);
                self.shown.encode(steps).await.map(|events| (events, Some(self)))
            }
            None => self.shown.end(self.outcome.await).await.map(|events| (events, None)),
        };
        let warn = |error: &AguiError| {
            tracing::warn!(code = error.code(), "a stream of AG-UI ended early");
        };
        result.inspect_err(warn).ok()
    }
}

/// A run as its client sees it.
struct ShownRun {
    /// Ids that the client gave.
    thread: String,
    run: String,
    version: Version,
    /// State before the run.
    state: Value,
    history: History,
    reader: RunReader,
}

impl ShownRun {
    async fn encode(&self, steps: Vec<Step>) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        for step in steps {
            events.push(match step {
                Step::Event(event) => event,
                Step::Snapshot => self.snapshot().await?,
            });
        }
        Ok(events)
    }

    /// Returns the messages of the conversation as they are now.
    async fn snapshot(&self) -> Result<Value> {
        let mut messages = self.history.messages().await?;
        messages.extend(self.reader.messages());
        Ok(event::messages_snapshot(&messages))
    }

    /// Returns the last events; none if this process stops, and another one continues the run: the client
    /// sees that the stream is cut.
    async fn end(mut self, outcome: RunOutcome) -> Result<Vec<Value>> {
        let client = &self.history.client;
        let turn = client.platform()?.turn(client.principal(), &self.history.turn.at.run).await;
        if !turn.map_err(AguiError::refused)?.status.is_final() {
            return Ok(Vec::new());
        }
        let steps = self.reader.end(&outcome);
        let mut events = self.encode(steps).await?;
        match outcome {
            RunOutcome::Completed { output } => {
                let after = state::of_output(&output);
                let delta = state::delta(&self.state, &after);
                if !delta.is_empty() {
                    events.push(event::state_delta(&delta));
                }
                events.push(self.finished(json!({"type": "success"}), after.get("content")));
            }
            RunOutcome::Interrupted { questions, .. } => {
                events.push(event::state_snapshot(&self.state));
                events.push(self.snapshot().await?);
                events.push(self.interrupted(&questions));
            }
            RunOutcome::Failed { fault } => events.push(self.failed(&fault.code, &fault.message)),
            RunOutcome::LimitReached { step_limit } => {
                let message = format!("the run reached its limit of {step_limit} supersteps");
                events.push(self.failed("step_limit", &message));
            }
            RunOutcome::Cancelled { .. } => events.push(match self.version {
                Version::From1 => self.finished(json!({"type": "cancelled"}), None),
                Version::Before1 => self.failed("cancelled", "the run was cancelled"),
            }),
        }
        Ok(events)
    }

    fn interrupted(&self, questions: &[Interrupt]) -> Value {
        let asking = questions.iter().filter(|question| question.asks());
        let shown = asking.map(|question| answers::shown(question, self.reader.call_of(question)));
        let interrupts: Vec<_> = shown.collect();
        // A run that waits for a time alone asks nobody, and continues by itself.
        match interrupts.is_empty() {
            true => self.finished(json!({"type": "success"}), None),
            false => self.finished(json!({"type": "interrupt", "interrupts": interrupts}), None),
        }
    }

    fn finished(&self, outcome: Value, result: Option<&Value>) -> Value {
        let Self { thread, run, .. } = self;
        let mut event = json!({
            "type": "RUN_FINISHED",
            "threadId": thread,
            "runId": run,
            "outcome": outcome,
            "usage": self.reader.usage(),
        });
        if let Some(result) = result {
            event["result"] = result.clone();
        }
        event
    }

    fn failed(&self, code: &str, message: &str) -> Value {
        let usage = self.reader.usage();
        json!({"type": "RUN_ERROR", "message": message, "code": code, "usage": usage})
    }
}
