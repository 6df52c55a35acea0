//! Runs as streams of events and as whole answers.

use crate::answer::{Answer, AnswerReader, Step};
use crate::error::{ApiError, Result};
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{StreamExt, stream};
use serde_json::Value;
use weftwork_server::MountedClient;
use weftwork_types::BoxStream;
use weftwork_types::event::RunEvent;
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef};

/// A form of streams: the events of the steps of an answer.
pub(crate) trait Encoder: Send + 'static {
    /// The events before the first step.
    fn begin(&mut self) -> Vec<Event>;

    /// The events of a step.
    fn step(&mut self, step: &Step) -> Vec<Event>;

    /// The events after the last step.
    fn end(&mut self, answer: &Answer) -> Vec<Event>;
}

/// Returns the response that streams a run. A client that leaves does not stop the run.
pub(crate) fn respond(
    client: &MountedClient,
    handle: RunHandle,
    reader: AnswerReader,
    mut encoder: impl Encoder,
) -> Response {
    let begin = encoder.begin();
    let RunHandle { run, events, outcome } = handle;
    let state = Streaming { client: client.clone(), run, events, outcome, reader, encoder };
    let rest = stream::unfold(Some(state), async |state| {
        let mut state = state?;
        match state.events.next().await {
            Some(event) => {
                let steps = state.reader.read(&event);
                let events = state.encode(&steps);
                Some((events, Some(state)))
            }
            None => Some((state.end().await, None)),
        }
    });
    client.stream(stream::iter(begin).chain(rest.flat_map(stream::iter)))
}

/// A stream of a run.
struct Streaming<E> {
    client: MountedClient,
    run: RunRef,
    events: BoxStream<'static, RunEvent>,
    outcome: weftwork_types::BoxFuture<'static, RunOutcome>,
    reader: AnswerReader,
    encoder: E,
}

impl<E: Encoder> Streaming<E> {
    fn encode(&mut self, steps: &[Step]) -> Vec<Event> {
        steps.iter().flat_map(|step| self.encoder.step(step)).collect()
    }

    /// Returns the last events; none if this process stops, and another one continues the run: the client
    /// sees that the stream is cut.
    async fn end(mut self) -> Vec<Event> {
        let outcome = self.outcome.await;
        if !has_ended(&self.client, &self.run).await {
            return Vec::new();
        }
        let (steps, answer) = self.reader.end(outcome);
        let mut events: Vec<_> = steps.iter().flat_map(|step| self.encoder.step(step)).collect();
        events.extend(self.encoder.end(&answer));
        events
    }
}

/// Returns the answer of a run, once it has ended.
///
/// # Errors
/// Status 503 if this process stops before.
pub(crate) async fn whole(
    client: &MountedClient,
    handle: RunHandle,
    mut reader: AnswerReader,
) -> Result<Answer> {
    let RunHandle { run, mut events, outcome } = handle;
    while let Some(event) = events.next().await {
        reader.read(&event);
    }
    let outcome = outcome.await;
    if !has_ended(client, &run).await {
        return Err(ApiError::stopping());
    }
    Ok(reader.end(outcome).1)
}

async fn has_ended(client: &MountedClient, run: &RunRef) -> bool {
    let Ok(platform) = client.platform() else { return false };
    let turn = platform.turn(client.principal(), &run.run).await;
    turn.is_ok_and(|turn| turn.status.is_final())
}

/// An event that has no name.
pub(crate) fn data(value: &Value) -> Event {
    Event::default().data(value.to_string())
}
