//! The engine below the chat model: processes prompts and generates answers.

use crate::gguf::Gguf;
use crate::grammar::{Grammar, Grammars};
use crate::llama::{Llama, Memory, Place};
use crate::tokenizer::Tokenizer;
use crate::writer::Listener;
use crate::{Error, cpu, file};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weftwork_types::canonical::Hash;

/// Number of tokens processed at once; cancellation is checked between two batches.
const CHUNK: usize = 256;

/// A loaded model.
///
/// Its methods compute on the calling thread and a separate thread pool. They block during the
/// computation and must not be called on a worker of an async runtime.
#[derive(Debug)]
pub struct Engine {
    path: PathBuf,
    hash: Hash,
    pub(crate) llama: Llama,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) grammars: Grammars,
    /// A separate thread pool, so that the model and other work do not block each other.
    pool: rayon::ThreadPool,
}

/// The tokens that the model has processed. A clone is a point to return to.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) tokens: Vec<u32>,
    pub(crate) memory: Memory,
    /// The model's output after the last token; empty if it must be computed again.
    pub(crate) output: Vec<f32>,
}

impl Engine {
    /// Loads a model file, with one thread per core.
    ///
    /// # Errors
    /// [`Error::CpuTooOld`] before anything else; [`Error::FileMissing`], [`Error::Truncated`],
    /// [`Error::HashMismatch`] when `expected` is given, [`Error::NotGguf`],
    /// [`Error::Unsupported`] and [`Error::Io`] about the file.
    pub fn open(path: &Path, expected: Option<file::Expected>) -> Result<Self, Error> {
        cpu::check()?;
        let (handle, hash) = file::open_checked(path, expected)?;
        let mut gguf = Gguf::open(path, handle)?;
        let tokenizer = Arc::new(Tokenizer::read(&mut gguf)?);
        let llama = Llama::read(&mut gguf, tokenizer.len())?;
        let grammars = Grammars::new(&tokenizer)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(cpu::cores())
            .thread_name(|index| format!("weft-local-{index}"))
            .build()
            .map_err(|error| Error::EngineStopped { reason: error.to_string() })?;
        Ok(Self { path: path.to_owned(), hash, llama, tokenizer, grammars, pool })
    }

    /// The model file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The SHA-256 of the model file.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Maximum number of tokens of prompt and answer together.
    #[must_use]
    pub fn context(&self) -> usize {
        self.llama.shape().context
    }

    /// Creates an empty session.
    #[must_use]
    pub fn session(&self) -> Session {
        Session { tokens: Vec::new(), memory: Memory::new(self.llama.shape()), output: Vec::new() }
    }

    /// The tokens of a text. Control tokens in it are plain text.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text)
    }

    /// The text of tokens; invalid UTF-8 is replaced.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> =
            tokens.iter().flat_map(|token| self.tokenizer.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The token of a control token such as `<|im_start|>`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the vocabulary does not have it.
    pub fn mark(&self, name: &str) -> Result<u32, Error> {
        self.tokenizer.mark(name).ok_or_else(|| Error::Unsupported {
            path: self.path.clone(),
            what: format!("mark `{name}`"),
            found: "missing".to_owned(),
            expected: "a chat vocabulary".to_owned(),
        })
    }

    /// Compiles a JSON schema. `subject` names its owner in errors.
    ///
    /// # Errors
    /// [`Error::Grammar`] if the schema uses features that cannot be enforced.
    pub fn grammar(&self, subject: &str, schema: &Value) -> Result<Grammar, Error> {
        self.grammars.compile(subject, schema)
    }

    /// Moves a session to a prompt and processes only the tokens after the common prefix. Returns
    /// the number of processed tokens, which is smaller after a cancellation.
    ///
    /// # Errors
    /// [`Error::PromptTooLong`].
    ///
    /// # Panics
    /// If a token is not in this model's vocabulary.
    pub fn prefill(
        &self,
        session: &mut Session,
        prompt: &[u32],
        listener: &dyn Listener,
    ) -> Result<usize, Error> {
        if prompt.len() >= self.context() {
            return Err(Error::PromptTooLong { tokens: prompt.len(), tokens_max: self.context() });
        }
        let common = session.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let whole = common == prompt.len() && session.tokens.len() == common;
        if whole && !session.output.is_empty() {
            return Ok(0);
        }
        // The last token is processed again if only its output is missing.
        let kept_tokens = if common == prompt.len() { common.saturating_sub(1) } else { common };
        self.rewind(session, kept_tokens);
        let mut read = 0;
        for chunk in prompt[kept_tokens..].chunks(CHUNK) {
            if !listener.wanted() {
                break;
            }
            self.feed(session, chunk);
            read += chunk.len();
        }
        Ok(read)
    }

    /// Truncates a session to its first `len` tokens.
    pub fn rewind(&self, session: &mut Session, len: usize) {
        if len < session.tokens.len() {
            session.tokens.truncate(len);
            session.memory.truncate(len);
            session.output.clear();
        }
    }

    /// Processes tokens after those of the session.
    pub(crate) fn feed(&self, session: &mut Session, tokens: &[u32]) {
        let width = self.llama.shape().width;
        let places = Place::following(session.tokens.len(), tokens.len());
        let outputs = self.forward(tokens, &places, &mut session.memory);
        session.output = outputs[outputs.len() - width..].to_vec();
        session.tokens.extend_from_slice(tokens);
    }

    pub(crate) fn forward(
        &self,
        tokens: &[u32],
        places: &[Place],
        memory: &mut Memory,
    ) -> Vec<f32> {
        self.pool.install(|| self.llama.forward(tokens, places, memory))
    }

    /// The logits after each row of outputs, `vocabulary` numbers a row.
    pub(crate) fn logits(&self, outputs: &[f32]) -> Vec<f32> {
        self.pool.install(|| self.llama.logits(outputs))
    }
}
