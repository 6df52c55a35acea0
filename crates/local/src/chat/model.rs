//! The embedded model as a chat model.

use super::{Audience, Chat, Outcome};
use crate::Error;
use crate::engine::Engine;
use crate::file::Expected;
use crate::weights;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use weftwork_models::{
    Capability, ChatEvent, ChatModel, ChatRequest, ChatStream, ModelError, ModelInfo,
};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::usage::Tokens;

/// The model to run, and the directory for snapshots.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model file.
    pub file: PathBuf,
    /// The expected length and hash of the file; `None` accepts any file that the engine supports.
    pub expected: Option<Expected>,
    /// The directory for snapshots of processed prompts, for later processes; `None` stores none.
    pub snapshots: Option<PathBuf>,
}

/// Maximum number of requests that wait for the embedded model; further requests are refused.
pub const WAITING_MAX: usize = 64;

/// The embedded model: weights on this machine's CPU, one request at a time.
///
/// It runs on a separate thread. Requests are processed in order; at most [`WAITING_MAX`] wait, and
/// further ones fail with [`Error::QueueFull`], which is retriable. A request whose stream was
/// dropped stays in the queue and is skipped when its turn comes.
#[derive(Debug)]
pub struct LocalModel {
    info: ModelInfo,
    file: PathBuf,
    hash: Hash,
    jobs: mpsc::SyncSender<Job>,
}

#[derive(Debug)]
struct Job {
    request: Arc<ChatRequest>,
    events: UnboundedSender<Result<ChatEvent, ModelError>>,
}

impl LocalModel {
    /// Loads the weights; takes a fraction of a second and blocks meanwhile.
    ///
    /// # Errors
    /// Errors of [`Engine::open`], and [`Error::EngineStopped`] if the thread cannot be created.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let engine = Engine::open(&settings.file, settings.expected)?;
        let file = engine.path().to_owned();
        let hash = engine.hash();
        let known = weights::known().iter().find(|known| known.expected().sha256 == hash);
        let info = ModelInfo {
            provider: "local".to_owned(),
            model: known.map_or_else(|| stem(&file), |known| known.name.to_owned()),
            label: Some(known.map_or_else(
                || "weights this build does not know, on this CPU".to_owned(),
                |known| known.label.to_owned(),
            )),
        };
        let (jobs, queue) = mpsc::sync_channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("weft-local".to_owned())
            .spawn(move || work(Chat::new(engine, settings.snapshots), &queue))
            .map_err(|error| Error::EngineStopped { reason: error.to_string() })?;
        Ok(Self { info, file, hash, jobs })
    }

    /// The model file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The SHA-256 of the model file.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.hash
    }
}

impl ChatModel for LocalModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn lacks(&self) -> &[Capability] {
        // It makes one call at a time, checks its sentences about results as a whole, and reads texts.
        &[
            Capability::ParallelToolCalls,
            Capability::Stop,
            Capability::Images,
            Capability::Audio,
            Capability::Video,
            Capability::Documents,
        ]
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let (events, mut received) = unbounded_channel();
        let refused = match self.jobs.try_send(Job { request, events }) {
            Ok(()) => None,
            Err(mpsc::TrySendError::Full(job)) => {
                Some((job, Error::QueueFull { waiting_max: WAITING_MAX }))
            }
            Err(mpsc::TrySendError::Disconnected(job)) => {
                let reason = "it takes no more requests".to_owned();
                Some((job, Error::EngineStopped { reason }))
            }
        };
        if let Some((job, error)) = refused {
            send_event(&job.events, Err(engine_error(&error)));
        }
        Box::pin(futures_util::stream::poll_fn(move |context| received.poll_recv(context)))
    }
}

fn stem(file: &Path) -> String {
    file.file_stem().map_or_else(|| "unknown".to_owned(), |s| s.to_string_lossy().into_owned())
}

fn engine_error(error: &Error) -> ModelError {
    ModelError::Engine { source: error.fault() }
}

/// Sends an event. If the receiver was dropped, the next check for cancellation reports it.
fn send_event(
    events: &UnboundedSender<Result<ChatEvent, ModelError>>,
    event: Result<ChatEvent, ModelError>,
) {
    drop(events.send(event));
}

/// Answers requests until the model is dropped.
fn work(mut chat: Chat, queue: &mpsc::Receiver<Job>) {
    while let Ok(Job { request, events }) = queue.recv() {
        if events.is_closed() {
            continue;
        }
        let mut audience = Channel { events: &events, call_id: call_id(&request) };
        let result = catch_unwind(AssertUnwindSafe(|| chat.answer(&request, &mut audience)));
        match result {
            Ok(Ok(Outcome { input, output, reason: Some(reason) })) => {
                let tokens = Tokens::reported(input as u64, output as u64);
                send_event(&events, Ok(ChatEvent::Usage(tokens)));
                send_event(&events, Ok(ChatEvent::Finish { reason, provider_call_id: None }));
            }
            Ok(Ok(Outcome { reason: None, .. })) => {}
            Ok(Err(error)) => send_event(&events, Err(engine_error(&error))),
            Err(panic) => {
                let reason = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("a panic without a message")
                    .to_owned();
                send_event(&events, Err(engine_error(&Error::EngineStopped { reason })));
                chat.forget();
            }
        }
    }
}

/// The id of the tool call of an answer, derived from the conversation, so that a repeated request
/// produces the same id.
fn call_id(request: &ChatRequest) -> String {
    let mut text = String::new();
    for message in &request.messages {
        text.push_str(&format!("{:?} {} {}\n", message.role, message.id, message.joined_text()));
        message.tool_results().for_each(|result| text.push_str(&format!("{}\n", result.value)));
    }
    let hash = hash_bytes(text.as_bytes()).to_string();
    format!("call_{}", &hash[..16])
}

struct Channel<'a> {
    events: &'a UnboundedSender<Result<ChatEvent, ModelError>>,
    call_id: String,
}

impl Channel<'_> {
    fn emit_call(&self, id: Option<String>, name: Option<String>, args: String) {
        send_event(self.events, Ok(ChatEvent::ToolCallDelta { index: 0, id, name, args }));
    }
}

impl Audience for Channel<'_> {
    fn tool(&mut self, name: &str) {
        self.emit_call(Some(self.call_id.clone()), Some(name.to_owned()), String::new());
    }

    fn args(&mut self, piece: &str) {
        self.emit_call(None, None, piece.to_owned());
    }

    fn words(&mut self, piece: &str) {
        send_event(self.events, Ok(ChatEvent::TextDelta(piece.to_owned())));
    }

    fn wanted(&self) -> bool {
        !self.events.is_closed()
    }
}
