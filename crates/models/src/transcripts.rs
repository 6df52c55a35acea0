//! Full requests and answers of attempts, in a folder that only its owner reads.

use crate::chat::{ChatEvent, ChatRequest, ChatStream, ModelInfo};
use crate::prompt_hash::prompt_hash;
use crate::{ModelError, fingerprint};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_types::canonical::Hash;

/// Version of the files.
const VERSION: u64 = 1;

/// A folder to which each attempt of a model call is written in full when it ends: what was asked and
/// what came, for evaluation. Nothing is redacted, unlike in events, logs and telemetry.
///
/// A file is `ID.json`, with an id that grows with time, and has the prompt hash and the provider's id of
/// the call, by which the bill names the same attempt. Only the owner of the process can read the folder.
/// A file that cannot be written is a warning in the log, and no error of the call.
#[derive(Debug)]
pub struct TranscriptFolder {
    path: PathBuf,
}

impl TranscriptFolder {
    /// Creates the folder unless it exists.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&path)?;
        Ok(Self { path })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the stream of an attempt, which is written when the stream ends or is dropped.
    pub(crate) fn record(
        self: &Arc<Self>,
        model: &ModelInfo,
        request: &ChatRequest,
        stream: ChatStream,
    ) -> ChatStream {
        let mut transcript = Transcript {
            folder: Arc::clone(self),
            model: model.id(),
            prompt_hash: prompt_hash(&model.id(), request),
            request: fingerprint::request(request),
            events: Vec::new(),
            error: None,
        };
        stream.inspect(move |event| transcript.add(event)).boxed()
    }

    fn write(&self, content: &Value) -> io::Result<()> {
        let file = self.path.join(format!("{}.json", uuid::Uuid::now_v7()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut text = serde_json::to_vec(content)?;
        text.push(b'\n');
        options.open(file)?.write_all(&text)
    }
}

/// An attempt, written when it is dropped.
struct Transcript {
    folder: Arc<TranscriptFolder>,
    model: String,
    prompt_hash: Hash,
    request: Value,
    events: Vec<ChatEvent>,
    error: Option<String>,
}

impl Transcript {
    fn add(&mut self, event: &Result<ChatEvent, ModelError>) {
        match event {
            Ok(event) => self.events.push(event.clone()),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn provider_call_id(&self) -> Option<&str> {
        self.events.iter().rev().find_map(|event| match event {
            ChatEvent::Finish { provider_call_id, .. } => provider_call_id.as_deref(),
            _ => None,
        })
    }
}

impl Drop for Transcript {
    fn drop(&mut self) {
        let content = json!({
            "v": VERSION,
            "model": self.model,
            "prompt_hash": self.prompt_hash,
            "provider_call_id": self.provider_call_id(),
            "request": self.request,
            "events": self.events,
            "error": self.error,
        });
        if let Err(error) = self.folder.write(&content) {
            let folder = self.folder.path.display();
            tracing::warn!(%folder, %error, "the transcript of a model call cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FinishReason;
    use futures_util::FutureExt as _;
    use weftwork_types::MessageId;
    use weftwork_types::message::{Message, Role};

    fn written(folder: &TranscriptFolder) -> Vec<Value> {
        let files = std::fs::read_dir(folder.path()).expect("a folder");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        let read = |file: &PathBuf| std::fs::read(file).expect("is read");
        files.iter().map(|file| serde_json::from_slice(&read(file)).expect("JSON")).collect()
    }

    #[test]
    fn an_attempt_is_written_in_full_however_it_ends() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder =
            TranscriptFolder::create(parent.path().join("transcripts")).expect("is created");
        let folder = Arc::new(folder);
        let info = ModelInfo { provider: "p".to_owned(), model: "m".to_owned(), label: None };
        let id = MessageId::new("1").expect("an id");
        let messages = vec![Message::text(id, Role::User, "the secret plan")];
        let request = ChatRequest { messages, ..ChatRequest::default() };
        let word = || Ok(ChatEvent::TextDelta("a word".to_owned()));
        let provider_call_id = Some("call-7".to_owned());
        let finish = || {
            let reason = FinishReason::Stop;
            Ok(ChatEvent::Finish { reason, provider_call_id: provider_call_id.clone() })
        };
        let failed = || Err(ModelError::Deadline { provider: "p".to_owned() });
        for events in [vec![word(), finish()], vec![word(), failed()], vec![word(), word()]] {
            let stream = futures_util::stream::iter(events).boxed();
            let mut kept = folder.record(&info, &request, stream);
            // The last one is dropped before its end.
            kept.next().now_or_never().flatten().expect("an event").expect("a word");
            kept.next().now_or_never();
        }
        let written = written(&folder);
        let ends: Vec<_> = written
            .iter()
            .map(|of| (of["events"].as_array().map_or(0, Vec::len), of["error"].is_string()))
            .collect();
        assert_eq!(ends, [(2, false), (1, true), (2, false)]);
        assert_eq!(written[0]["provider_call_id"], "call-7");
        assert_eq!(written[0]["prompt_hash"], json!(prompt_hash("p:m", &request)));
        for transcript in &written {
            assert!(transcript["request"].to_string().contains("the secret plan"), "{transcript}");
        }
        #[cfg(unix)]
        for (path, mode) in std::fs::read_dir(folder.path())
            .expect("a folder")
            .map(|file| (file.expect("a file").path(), 0o600))
            .chain([(folder.path().to_owned(), 0o700)])
        {
            let metadata = std::fs::metadata(&path).expect("exists");
            let found = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
            assert_eq!(found, mode, "{}", path.display());
        }

        // A folder that is gone is no error of the call.
        std::fs::remove_dir_all(folder.path()).expect("is removed");
        let stream = futures_util::stream::iter(vec![word(), finish()]).boxed();
        let kept = folder.record(&info, &request, stream).collect::<Vec<_>>().now_or_never();
        assert_eq!(kept.map(|events| events.len()), Some(2));
    }
}
