//! Reading the stream of a remote run to its end, across broken connections.

use crate::error::RemoteError;
use crate::limits::{
    ATTEMPTS_MAX, EMITTED_BYTES_MAX, FRAME_BYTES_MAX, NAMESPACE_BYTES_MAX, STREAM_BYTES_MAX, delay,
};
use crate::server::{RemoteServer, Request};
use crate::wire::{Asked, Failure, Run, Started, partial_text};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use weftwork_graph::{Ctx, Modes};
use weftwork_types::MessageId;
use weftwork_types::port::{EgressResponse, Method};
use weftwork_types::sse::{SseEvent, SseParser};

/// Stream modes that a run is started with. A client that follows it gets the same.
pub(crate) const MODES: [&str; 4] = ["values", "updates", "custom", "messages-tuple"];
/// Id of an event before the first one.
const START: &str = "-1";
/// Separator of the mode and the parts of a namespace in names of events.
const SEPARATOR: char = '|';
/// Member with the questions at which a run stops.
const INTERRUPT: &str = "__interrupt__";

/// A run on a thread of a server.
#[derive(Clone, Copy)]
pub(crate) struct RunAt<'a> {
    pub(crate) server: &'a RemoteServer,
    pub(crate) thread: &'a str,
}

/// Reader of the stream of a run, on behalf of a node.
pub(crate) struct Follower<'a> {
    at: RunAt<'a>,
    ctx: &'a Ctx,
    /// Id of the run; empty until the stream reports it.
    run: String,
    last_event: Option<String>,
    bytes: u64,
    emitted_bytes: usize,
    read: Read,
}

/// Content of the frames of a run.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Last values of the outermost graph.
    pub(crate) values: Option<Value>,
    pub(crate) failure: Option<Failure>,
    /// Schemas of answers, by the ids of their questions.
    pub(crate) schemas: BTreeMap<String, Value>,
}

/// End of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// The server ended the stream.
    Ended,
    /// It broke.
    Broken,
}

impl RunAt<'_> {
    /// Requests a run.
    pub(crate) async fn run(&self, ctx: &Ctx, run: &str) -> Result<Run, RemoteError> {
        let url = self.server.at(&["threads", self.thread, "runs", run]);
        let what = "a run";
        let request = Request { what, method: Method::Get, url, body: None };
        let found = self.server.repeat(&**ctx.clock(), &request).await?;
        read(self.server, what, found)
    }
}

/// Reads a part of the protocol.
pub(crate) fn read<T: DeserializeOwned>(
    server: &RemoteServer,
    what: &'static str,
    value: Value,
) -> Result<T, RemoteError> {
    serde_json::from_value(value).map_err(|error| server.malformed(what, error.to_string()))
}

impl<'a> Follower<'a> {
    /// A reader of a run, whose id is known unless its first stream reports it.
    pub(crate) fn new(at: RunAt<'a>, ctx: &'a Ctx, run: Option<String>) -> Self {
        Self {
            at,
            ctx,
            run: run.unwrap_or_default(),
            last_event: None,
            bytes: 0,
            emitted_bytes: 0,
            read: Read::default(),
        }
    }

    /// Reads the stream until the run has ended: the given one first, and another one after each
    /// connection that ends before.
    ///
    /// # Errors
    /// As [`RemoteError`]; not for broken connections, as long as the server can be reached.
    pub(crate) async fn follow(
        mut self,
        first: Option<EgressResponse>,
    ) -> Result<(Run, Read), RemoteError> {
        let mut next = first;
        let mut quiet = 0;
        let mut refused = 0;
        loop {
            let before = self.bytes;
            let connection = match next.take() {
                Some(response) => self.read_stream(response).await?,
                None => {
                    // Those of the earlier connection are not the last ones if the server does not
                    // replay the rest. The end of the run is read from the state of the thread then.
                    self.read.values = None;
                    let reopened = self.reopen_stream().await;
                    refused = if reopened.is_ok() { 0 } else { refused + 1 };
                    match reopened {
                        Ok(response) => self.read_stream(response).await?,
                        Err(error) if error.is_retriable() && refused < ATTEMPTS_MAX => {
                            Connection::Broken
                        }
                        // The server does not replay the run. Its result is read all the same.
                        Err(RemoteError::Refused { status: 404 | 410 | 422, .. }) => {
                            Connection::Ended
                        }
                        Err(error) => return Err(error),
                    }
                }
            };
            if self.run.is_empty() {
                return Err(self.at.server.malformed("a stream", "it does not report its run"));
            }
            quiet = if self.bytes > before { 0 } else { quiet + 1 };
            if connection == Connection::Ended {
                let run = self.at.run(self.ctx, &self.run).await?;
                if !run.status.is_active() {
                    return Ok((run, self.read));
                }
            }
            if quiet > 0 {
                self.ctx.clock().sleep(delay(quiet)).await;
            }
        }
    }

    /// Opens the stream after the last event that was read.
    async fn reopen_stream(&self) -> Result<EgressResponse, RemoteError> {
        let RunAt { server, thread } = self.at;
        let mut url = server.at(&["threads", thread, "runs", &self.run, "stream"]);
        // `langgraph dev` replays nothing if `stream_mode` is given, and otherwise the modes that the
        // run was started with. It ignores this name, which `weft serve` reads.
        url.set_query(Some(&format!("stream_modes={}", MODES.join(","))));
        let request = Request { what: "a stream", method: Method::Get, url, body: None };
        // Without ids of events, a replay would repeat those that were read.
        let after = self.last_event.as_deref().or((self.bytes == 0).then_some(START));
        server.open_after(&request, after, None).await
    }

    async fn read_stream(&mut self, response: EgressResponse) -> Result<Connection, RemoteError> {
        let what = "a stream";
        let kind = response.header("content-type").unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            let reason = format!("expected `text/event-stream`, found `{kind}`");
            return Err(self.at.server.malformed(what, reason));
        }
        if let Some(place) = response.header("content-location").filter(|_| self.run.is_empty()) {
            self.run = place.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let mut body = response.body;
        let mut parser = SseParser::new(FRAME_BYTES_MAX);
        let mut events = Vec::new();
        while let Some(piece) = body.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) if error.is_retriable() => return Ok(Connection::Broken),
                Err(error) => return Err(self.at.server.broken(what, error)),
            };
            let pushed = parser.push(&piece, &mut events);
            for event in events.drain(..) {
                if self.read_event(event)? {
                    return Ok(Connection::Ended);
                }
            }
            if let Err(error) = pushed {
                let max = format!("{} bytes", error.bytes_max);
                return Err(self.at.server.too_large("a frame", max));
            }
        }
        Ok(Connection::Ended)
    }

    /// Reads an event; `true` if it is the last one.
    fn read_event(&mut self, mut event: SseEvent) -> Result<bool, RemoteError> {
        let server = self.at.server;
        self.bytes += event.data.len() as u64 + 1;
        if self.bytes > STREAM_BYTES_MAX {
            return Err(server.too_large("a stream", format!("{STREAM_BYTES_MAX} bytes")));
        }
        if event.id.is_some() {
            self.last_event = event.id.take();
        }
        if event.name == "end" {
            return Ok(true);
        }
        server.scrub(&mut event.data);
        let (mode, within) = event.name.split_once(SEPARATOR).unwrap_or((&event.name, ""));
        if within.len() > NAMESPACE_BYTES_MAX {
            let max = format!("{NAMESPACE_BYTES_MAX} bytes");
            return Err(server.too_large("a namespace", max));
        }
        let mode = match mode {
            "values" => Modes::VALUES,
            "updates" => Modes::UPDATES,
            "custom" => Modes::CUSTOM,
            "messages" | "metadata" | "error" => Modes::NONE,
            // Events of newer servers.
            _ => return Ok(false),
        };
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|error| server.malformed("a frame", error.to_string()))?;
        match event.name.as_str() {
            "metadata" => {
                let Started { run_id } = read(server, "a frame", data)?;
                if self.run.is_empty() {
                    self.run = run_id;
                }
                return Ok(false);
            }
            "error" => {
                let failure = serde_json::from_value(data.clone());
                self.read.failure = Some(failure.unwrap_or_else(|_| Failure {
                    error: "Error".to_owned(),
                    message: data.to_string(),
                }));
                return Ok(false);
            }
            "values" => {
                self.note_values(&data);
                // The run stops here, as the frame of its questions has reported.
                if data.get(INTERRUPT).is_some() {
                    return Ok(false);
                }
            }
            _ => self.note_questions(&data),
        }
        self.emit_frame(mode, within, data, event.data.len());
        Ok(false)
    }

    fn note_values(&mut self, data: &Value) {
        self.note_questions(data);
        let mut values = data.clone();
        if let Some(members) = values.as_object_mut() {
            members.shift_remove(INTERRUPT);
        }
        self.read.values = Some(values);
    }

    fn note_questions(&mut self, data: &Value) {
        for asked in data.get(INTERRUPT).and_then(Value::as_array).into_iter().flatten() {
            if let Ok(Asked { id, response_schema: Some(schema), .. }) =
                serde_json::from_value(asked.clone())
            {
                self.read.schemas.insert(id, schema);
            }
        }
    }

    /// Emits a frame to the observers of the local run, unless too much was emitted.
    fn emit_frame(&mut self, mode: Modes, within: &str, data: Value, bytes: usize) {
        let is_first = self.emitted_bytes <= EMITTED_BYTES_MAX;
        self.emitted_bytes = self.emitted_bytes.saturating_add(bytes);
        if self.emitted_bytes > EMITTED_BYTES_MAX {
            if is_first {
                let remote = self.at.server.name();
                let run = &self.run;
                tracing::warn!(
                    remote,
                    run,
                    "frames beyond {EMITTED_BYTES_MAX} bytes are not emitted"
                );
            }
            return self.ctx.heartbeat();
        }
        if mode != Modes::NONE {
            return self.ctx.emit_remote(within, mode, data);
        }
        // Messages with other ids appear when they are final.
        if let Some((id, text)) = partial_text(&data)
            && let Ok(id) = MessageId::new(id)
        {
            self.ctx.emit_remote_text(within, &id, &text);
        }
    }
}
