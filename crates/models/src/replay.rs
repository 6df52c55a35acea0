//! Recorded answers: a cassette contains requests and the answers of a real model.

use crate::chat::{ChatEvent, ChatModel, ChatRequest, ChatStream, ModelInfo};
use crate::limiter::Limiter;
use crate::registry::ModelProvider;
use crate::{Capability, ModelError, Price, TokenLimits, fingerprint};
use futures_util::{StreamExt as _, stream as streams};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weftwork_types::message::Media;

/// Version of the cassette format.
const VERSION: u32 = 1;

/// The file format of a cassette.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cassette {
    v: u32,
    /// The recorded model.
    recorded: ModelInfo,
    exchanges: Vec<Exchange>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Exchange {
    /// The request without ids, as returned by [`fingerprint::request`].
    request: Value,
    events: Vec<ChatEvent>,
}

/// A model that answers from a cassette, and rejects requests that the cassette does not contain.
///
/// Requests are matched by content, not by position, so another process can continue with the same
/// cassette. Each recorded answer is used once.
#[derive(Debug)]
pub struct ReplayModel {
    info: ModelInfo,
    file: String,
    exchanges: Vec<Exchange>,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    exchanges: Vec<bool>,
    asked: usize,
}

impl ReplayModel {
    /// Opens a cassette.
    ///
    /// # Errors
    /// [`ModelError::NotRecorded`] with request 0 if the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let file = path.display().to_string();
        let bad = |reason: String| ModelError::NotRecorded { file: file.clone(), index: 0, reason };
        let bytes = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        Self::from_json(&file, &bytes)
    }

    /// Reads a cassette from memory; errors call it `file`.
    ///
    /// # Errors
    /// [`ModelError::NotRecorded`] with request 0 if it cannot be read.
    pub fn from_json(file: &str, json: &[u8]) -> Result<Self, ModelError> {
        let bad =
            |reason: String| ModelError::NotRecorded { file: file.to_owned(), index: 0, reason };
        let cassette: Cassette =
            serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        if cassette.v != VERSION {
            return Err(bad(format!("its version is {}, expected {VERSION}", cassette.v)));
        }
        let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| file.to_owned());
        let info = ModelInfo {
            provider: "replay".to_owned(),
            model: file.to_owned(),
            label: Some(format!("replay of {name}, recorded from {}", cassette.recorded.id())),
        };
        let exchanges = vec![false; cassette.exchanges.len()];
        let used = Mutex::new(Used { exchanges, asked: 0 });
        Ok(Self { info, file: file.to_owned(), exchanges: cassette.exchanges, used })
    }

    fn find_answer(&self, request: &ChatRequest) -> Result<Vec<ChatEvent>, ModelError> {
        let asked = fingerprint::request(request);
        let mut used = lock(&self.used);
        used.asked += 1;
        let index = used.asked;
        let miss =
            |reason: String| ModelError::NotRecorded { file: self.file.clone(), index, reason };
        let same = |at: &usize| self.exchanges[*at].request == asked;
        let found: Vec<usize> = (0..self.exchanges.len()).filter(same).collect();
        let Some(at) = found.iter().copied().find(|at| !used.exchanges[*at]) else {
            if !found.is_empty() {
                return Err(miss("every answer to it was given already".to_owned()));
            }
            let free = (0..self.exchanges.len()).find(|at| !used.exchanges[*at]);
            return Err(miss(match free {
                Some(at) => difference("request", &self.exchanges[at].request, &asked),
                None => "all its answers were given already".to_owned(),
            }));
        };
        used.exchanges[at] = true;
        Ok(self.exchanges[at].events.clone())
    }
}

impl ChatModel for ReplayModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        match self.find_answer(&request) {
            Ok(events) => streams::iter(events).map(Ok).boxed(),
            Err(error) => streams::iter([Err(error)]).boxed(),
        }
    }
}

/// Describes the first difference between two values.
fn difference(path: &str, recorded: &Value, asked: &Value) -> String {
    match (recorded, asked) {
        (Value::Object(a), Value::Object(b)) => {
            let key = a.keys().chain(b.keys()).find(|key| a.get(*key) != b.get(*key));
            let Some(key) = key else { return format!("{path} differs") };
            let inner = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
            let a = inner(a).unwrap_or_default();
            let b = inner(b).unwrap_or_default();
            difference(&format!("{path}.{key}"), &a, &b)
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let at = (0..a.len()).find(|at| a[*at] != b[*at]).unwrap_or_default();
            difference(&format!("{path}[{at}]"), &a[at], &b[at])
        }
        (Value::Array(a), Value::Array(b)) => {
            format!("{path} has {} items, recorded are {}", b.len(), a.len())
        }
        (a, b) => format!("{path} is {}, recorded is {}", cut(b), cut(a)),
    }
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(120).collect()
}

/// A model that passes requests to another model and writes complete answers to a cassette.
///
/// Failed attempts are passed through and not recorded. The file is replaced after each answer, so
/// that it stays readable if the process dies.
#[derive(Debug)]
pub struct Recorder<M: ?Sized> {
    cassette: Arc<Tape>,
    model: Arc<M>,
}

#[derive(Debug)]
struct Tape {
    path: PathBuf,
    content: Mutex<Cassette>,
}

impl<M: ChatModel + ?Sized> Recorder<M> {
    /// Records a model to a file, replacing an existing one.
    #[must_use]
    pub fn new(model: Arc<M>, path: impl Into<PathBuf>) -> Self {
        let content =
            Cassette { v: VERSION, recorded: model.info().clone(), exchanges: Vec::new() };
        let cassette = Tape { path: path.into(), content: Mutex::new(content) };
        Self { cassette: Arc::new(cassette), model }
    }
}

impl Tape {
    fn add(&self, exchange: Exchange) -> Result<(), ModelError> {
        let mut content = lock(&self.content);
        content.exchanges.push(exchange);
        self.write_cassette(&content).map_err(|error| ModelError::NotRecorded {
            file: self.path.display().to_string(),
            index: content.exchanges.len(),
            reason: format!("it cannot be written: {error}"),
        })
    }

    fn write_cassette(&self, content: &Cassette) -> io::Result<()> {
        let text = serde_json::to_string_pretty(content)?;
        let beside = self.path.with_extension("part");
        std::fs::write(&beside, text + "\n")?;
        std::fs::rename(&beside, &self.path)
    }
}

impl<M: ChatModel + ?Sized> ChatModel for Recorder<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn lacks(&self) -> &[Capability] {
        self.model.lacks()
    }

    fn check_medium(&self, media: &Media) -> Result<(), String> {
        self.model.check_medium(media)
    }

    fn check_options(&self, request: &ChatRequest) -> Result<(), String> {
        self.model.check_options(request)
    }

    fn token_limits(&self) -> TokenLimits {
        self.model.token_limits()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    fn limiter(&self) -> Option<&Limiter> {
        self.model.limiter()
    }

    fn stream(&self, request: Arc<ChatRequest>) -> ChatStream {
        let tape = Arc::clone(&self.cassette);
        let mut events = Vec::new();
        let asked = fingerprint::request(&request);
        self.model
            .stream(request)
            .map(move |event| {
                let event = event?;
                events.push(event.clone());
                if matches!(event, ChatEvent::Finish { .. }) {
                    let events = std::mem::take(&mut events);
                    tape.add(Exchange { request: asked.clone(), events })?;
                }
                Ok(event)
            })
            .boxed()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded values are consistent between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens cassettes: `replay:path/to/cassette.json`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayProvider;

impl ModelProvider for ReplayProvider {
    fn name(&self) -> &str {
        "replay"
    }

    fn open(&self, model: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        Ok(Arc::new(ReplayModel::open(Path::new(model))?))
    }

    fn list(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    fn ready(&self) -> Result<(), ModelError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
