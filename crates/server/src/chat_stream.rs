//! Responses of a chat: the runs of a message, in a format.

use crate::chat::{self, ChatEncoder, ChatMessage, Doubt, Protocol, ui_message};
use crate::error::Result;
use crate::service::{MessageRuns, Service, StoredTurn, USER_SUFFIX};
use crate::translate::ids;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::time::Duration;
use weftwork_store::Base;
use weftwork_types::InterruptId;
use weftwork_types::event::{AiEvent, RunEvent};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::RunHandle;
use weftwork_types::run::{RunOutcome, RunRef};

/// Interval of what keeps an idle connection open.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The part of a message that a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The message from its beginning.
    Whole,
    /// The parts that the last run adds. The client has the earlier parts.
    LastRun,
}

/// Returns the response that streams a message.
pub(crate) fn response(
    service: Service,
    message: MessageRuns,
    protocol: Protocol,
    extent: Extent,
) -> Response {
    let last = message.runs.last().map(|(run, _)| run.clone());
    let open = service.open_stream();
    let revoked = Box::pin(service.revoked());
    let stream = MessageStream::new(service, message, protocol, extent);
    let frames = stream::unfold(stream, async |stream| {
        let mut stream = stream?;
        match stream.next().await? {
            Ok(frames) => Some((Ok(frames), Some(stream))),
            Err(cut) => Some((Err(cut), None)),
        }
    });
    // Without its terminal frame, clients see that the message is not complete.
    let frames = frames.take_until(revoked).map(move |frames| {
        // The stream is open as long as its frames are read.
        let _open = &open;
        frames
    });
    let mut headers = HeaderMap::new();
    for (name, value) in protocol.headers() {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if let Some(RunRef { thread, run }) = last
        && let Ok(place) =
            HeaderValue::from_str(&format!("/threads/{}/runs/{run}", thread.to_path()))
    {
        headers.insert("content-location", place);
    }
    (headers, Body::from_stream(frames)).into_response()
}

/// Returns the complete messages of the newest turns of a thread, up to a limit, in the shape of the
/// AI SDK.
pub(crate) async fn messages(
    service: Service,
    agent: &str,
    thread: &str,
    limit: Option<usize>,
) -> Result<Vec<Value>> {
    let (thread, mut turns) = service.turns(agent, thread).await?;
    let limit = limit.unwrap_or(usize::MAX);
    let before = limit.saturating_sub(turns.len());
    let earlier = match before {
        0 => Vec::new(),
        before => newest(service.earlier_messages(&thread, turns.first()).await?, before),
    };
    turns.drain(..turns.len().saturating_sub(limit));
    let mut found = chat::of_state(&thread.id, earlier);
    for turn in turns {
        found.extend(messages_of(&service, turn, found.len()).await?);
    }
    Ok(found)
}

/// Returns the messages of a thread that were replaced or rolled back, each with the run that stands
/// in its place as `replacedBy`.
pub(crate) async fn replaced_messages(
    service: Service,
    agent: &str,
    thread: &str,
) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for (turn, by) in service.replaced_turns(agent, thread).await? {
        for mut message in messages_of(&service, turn, found.len()).await? {
            message["metadata"]["replacedBy"] = json!(by);
            found.push(message);
        }
    }
    Ok(found)
}

/// Returns the messages of a turn, of which `before` are listed before.
async fn messages_of(service: &Service, turn: StoredTurn, before: usize) -> Result<Vec<Value>> {
    let StoredTurn { said, base, key, runs } = turn;
    let mut found = Vec::new();
    let first = runs.runs.first().map(|(run, _)| run.run.to_string());
    if !said.is_empty() {
        let id = first.unwrap_or_else(|| format!("last-{before}"));
        let mut said = ui_message::of_user(&format!("{id}{USER_SUFFIX}"), &said);
        if let Some(base) = base {
            // A client that says something else here forks the thread at this checkpoint.
            said["metadata"] = json!({"checkpointId": checkpoint_of(base)});
        }
        if let Some(key) = key {
            // A client that got no response finds its message by the key.
            said["metadata"]["idempotencyKey"] = json!(key);
        }
        found.push(said);
    }
    let stream = MessageStream::new(service.clone(), runs, Protocol::default(), Extent::Whole);
    if let Some(mut stream) = stream {
        let mut whole = ui_message::UiMessage::default();
        while stream.advance().await?.is_some() {
            whole.add(stream.encoder.message.take());
        }
        found.push(whole.into_value());
    }
    Ok(found)
}

/// Returns the ids in frames of the calls that stand for the questions of a message whose runs have
/// ended.
pub(crate) async fn cards(
    service: Service,
    message: MessageRuns,
) -> Result<BTreeMap<InterruptId, String>> {
    let stream = MessageStream::new(service, message, Protocol::default(), Extent::Whole);
    let Some(mut stream) = stream else { return Ok(BTreeMap::new()) };
    while stream.advance().await?.is_some() {
        // Frames are not needed, only their ids.
        drop(stream.encoder.message.take());
    }
    Ok(stream.encoder.message.into_cards())
}

/// Returns the messages of the newest turns.
fn newest(mut messages: Vec<Message>, turns: usize) -> Vec<Message> {
    let said = messages.iter().enumerate().filter(|(_, message)| message.role == Role::User);
    let first = said.map(|(at, _)| at).rev().nth(turns.saturating_sub(1)).unwrap_or(0);
    messages.drain(..first);
    messages
}

fn checkpoint_of(base: Base) -> Option<String> {
    match base {
        Base::Nothing => None,
        Base::At(checkpoint) => Some(ids::to_hyphenated(checkpoint.0)),
    }
}

struct MessageStream {
    service: Service,
    encoder: ChatEncoder,
    /// Runs that were not begun.
    runs: VecDeque<(RunRef, BTreeMap<InterruptId, Value>)>,
    current: Option<RunHandle>,
    /// Text of the current run that may be void.
    doubt: Option<Doubt>,
    extent: Extent,
    state: StreamState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    /// Parts belong to earlier responses.
    Earlier,
    /// Parts belong to this response.
    Response,
    /// The response has its terminal frame.
    Over,
}

/// The next step of a stream.
#[derive(Debug, PartialEq, Eq)]
enum StreamStep {
    Advanced,
    Idle,
}

impl MessageStream {
    /// Creates the stream of a message; `None` for one without runs.
    fn new(
        service: Service,
        message: MessageRuns,
        protocol: Protocol,
        extent: Extent,
    ) -> Option<Self> {
        let MessageRuns { runs, id, held } = message;
        let mut message = ChatMessage::new(&runs.first()?.0);
        if let Some(id) = id.filter(|_| extent == Extent::LastRun) {
            message = message.with_id(id);
        }
        // Readers of the other format refuse results of calls that the response does not have.
        if extent == Extent::LastRun && protocol == Protocol::UiMessageStream {
            message = message.with_held(held);
        }
        Some(Self {
            service,
            encoder: ChatEncoder::new(protocol, message),
            runs: runs.into(),
            current: None,
            doubt: None,
            extent,
            state: StreamState::Earlier,
        })
    }

    /// Returns the next frames; an error cuts the connection, so that clients see that the response
    /// is not complete.
    async fn next(&mut self) -> Option<std::io::Result<Bytes>> {
        loop {
            let step = match self.advance().await {
                Ok(step) => step?,
                Err(error) => return Some(Err(std::io::Error::other(error.detail().to_owned()))),
            };
            if self.state == StreamState::Earlier {
                continue;
            }
            let mut frames = self.encoder.frames();
            if step == StreamStep::Idle {
                frames.push_str(self.encoder.keep_alive());
            }
            if !frames.is_empty() {
                return Some(Ok(Bytes::from(frames)));
            }
        }
    }

    /// Takes one step: the begin of a run, an event, or the end of a run. `None` after the last.
    async fn advance(&mut self) -> Result<Option<StreamStep>> {
        if self.state == StreamState::Over {
            return Ok(None);
        }
        let Some(handle) = &mut self.current else {
            self.begin_run().await?;
            return Ok(Some(StreamStep::Advanced));
        };
        let pause = self.service.pause(HEARTBEAT);
        let event = match select(pin!(handle.events.next()), pause).await {
            Either::Left((event, _)) => event,
            Either::Right(_) => return Ok(Some(StreamStep::Idle)),
        };
        let Some(event) = event else { return Err(continued_elsewhere()) };
        let events = match &mut self.doubt {
            None => vec![event],
            Some(doubt) => {
                let (events, is_over) = doubt.add(event);
                if is_over {
                    self.doubt = None;
                }
                events
            }
        };
        for event in events {
            match event {
                RunEvent { seq: Some(_), event: AiEvent::Done { .. }, .. } => self.end().await?,
                event if goes_on_elsewhere(&event) => return Err(continued_elsewhere()),
                event => self.encoder.message.event(&event),
            }
        }
        Ok(Some(StreamStep::Advanced))
    }

    async fn begin_run(&mut self) -> Result<()> {
        let Some((at, answers)) = self.runs.pop_front() else {
            self.state = StreamState::Over;
            return Ok(());
        };
        let begins = self.extent == Extent::Whole || self.runs.is_empty();
        if self.state == StreamState::Earlier && begins {
            self.encoder.message.begin_response(&at);
            self.state = StreamState::Response;
        }
        self.encoder.message.run(&at, &answers);
        self.doubt = self.service.doubt(&at).await?;
        self.current = Some(self.service.follow(&at).await?);
        Ok(())
    }

    /// Ends the current run. A failed run that was requeued continues, and so does its stream.
    async fn end(&mut self) -> Result<()> {
        let Some(handle) = self.current.take() else { return Ok(()) };
        let outcome = handle.outcome.await;
        if self.extent == Extent::Whole && self.runs.is_empty() {
            for (ns, message) in self.service.waiting_work(&handle.run, &outcome).await? {
                self.encoder.message.work(&ns, &message);
            }
        }
        if self.runs.is_empty() {
            self.encoder.message.end(&outcome);
            self.state = StreamState::Over;
        } else if let RunOutcome::Interrupted { questions, .. } = &outcome {
            self.encoder.message.pause(questions);
        }
        Ok(())
    }
}

/// Returns `true` if the run continues in another process, or its log cannot be read.
fn goes_on_elsewhere(event: &RunEvent) -> bool {
    matches!(event.event, AiEvent::Released { .. } | AiEvent::Done { .. })
}

fn continued_elsewhere() -> crate::error::ApiError {
    crate::error::ApiError::new(
        axum::http::StatusCode::SERVICE_UNAVAILABLE,
        "the run goes on in another process; follow it again",
    )
}
