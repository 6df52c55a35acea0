//! Errors of the embedded model.

use std::path::{Path, PathBuf};
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;

/// Errors of the embedded model and its weights.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no model file at that path.
    #[error("no model file at `{}`; get it with `weft models pull {model}`", path.display())]
    FileMissing {
        /// The path that was searched.
        path: PathBuf,
        /// The model it should hold.
        model: String,
    },
    /// The system refused to read or write the file.
    #[error("cannot {action} `{}`: {reason}", path.display())]
    Io {
        /// The operation that failed, such as `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        reason: String,
    },
    /// The file ends too early.
    #[error(
        "model file `{}` is truncated: {found_bytes} bytes, expected {expected_bytes}; delete it and get it again with `weft models pull`",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Expected minimum length, in bytes.
        expected_bytes: u64,
        /// Actual length, in bytes.
        found_bytes: u64,
    },
    /// The file is not the expected one.
    #[error(
        "model file `{}` has SHA-256 {found}, expected {expected}; delete it and get it again with `weft models pull`",
        path.display()
    )]
    HashMismatch {
        /// The file.
        path: PathBuf,
        /// The pinned hash, in hex.
        expected: String,
        /// The actual hash, in hex.
        found: String,
    },
    /// The file is not a GGUF file, or damaged.
    #[error("model file `{}` is not a usable GGUF file: {reason}", path.display())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file is a GGUF file that this engine does not support.
    #[error("model file `{}` cannot be run here: {what} is `{found}`, expected {expected}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The unsupported property.
        what: String,
        /// The value in the file.
        found: String,
        /// The values that the engine supports.
        expected: String,
    },
    /// The program was built for a newer CPU than this one.
    #[error(
        "this CPU ({cpu}) lacks {}; this build of the embedded model needs them: build it without `target-cpu=x86-64-v3` or use another model",
        missing.join(", ")
    )]
    CpuTooOld {
        /// The name of the CPU.
        cpu: String,
        /// The missing features.
        missing: Vec<String>,
    },
    /// The conversation does not fit the model's context.
    #[error(
        "the prompt has {tokens} tokens, the embedded model reads at most {tokens_max}; shorten the conversation or the tool descriptions"
    )]
    PromptTooLong {
        /// Tokens of the prompt and the reserve for the answer.
        tokens: usize,
        /// Maximum number of tokens.
        tokens_max: usize,
    },
    /// A schema cannot be turned into a grammar.
    #[error("the schema of {subject} cannot be enforced by the embedded model: {reason}")]
    Grammar {
        /// The owner of the schema, such as ``tool `refund_order` ``.
        subject: String,
        /// The reason.
        reason: String,
    },
    /// The tool call could not be finished within the token limit.
    #[error(
        "the tool call was not complete after {tokens_max} tokens; raise the limit or simplify the tool's schema"
    )]
    CallUnfinished {
        /// The limit.
        tokens_max: usize,
    },
    /// No source provided the weights.
    #[error("could not get the weights of `{model}`: {}", attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    NoSource {
        /// The model.
        model: String,
        /// The failure of each source.
        attempts: Vec<SourceFailure>,
    },
    /// No such embedded model is known.
    #[error("unknown embedded model `{found}`; known are: {}", known.join(", "))]
    UnknownModel {
        /// The name that was requested.
        found: String,
        /// The names of the known models.
        known: Vec<String>,
    },
    /// A file given for import has no known model.
    #[error("`{}` holds no known model: {reason}", path.display())]
    NothingToImport {
        /// The file.
        path: PathBuf,
        /// The reason it matches no known model.
        reason: String,
    },
    /// The location of the cache is not set.
    #[error(
        "no directory for model files: set `XDG_CACHE_HOME` or `HOME`, or name the file with `WEFT_MODEL_FILE`"
    )]
    NoCacheDirectory,
    /// The thread of the model has ended.
    #[error("the embedded model's thread ended unexpectedly: {reason}; start the program again")]
    EngineStopped {
        /// The known cause.
        reason: String,
    },
    /// Too many requests wait for the model.
    #[error(
        "{waiting_max} requests wait for the embedded model already; try again, or use a model that answers several at a time"
    )]
    QueueFull {
        /// Maximum number of waiting requests.
        waiting_max: usize,
    },
}

/// The failure of a source of weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}: {reason}")]
pub struct SourceFailure {
    /// The source.
    pub source_name: String,
    /// The reason of the failure.
    pub reason: String,
}

impl Error {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::FileMissing { .. } => "W0501",
            Self::Io { .. } => "W0502",
            Self::Truncated { .. } => "W0503",
            Self::HashMismatch { .. } => "W0504",
            Self::NotGguf { .. } => "W0505",
            Self::Unsupported { .. } => "W0506",
            Self::CpuTooOld { .. } => "W0507",
            Self::PromptTooLong { .. } => "W0508",
            Self::Grammar { .. } => "W0509",
            Self::CallUnfinished { .. } => "W0510",
            Self::NoSource { .. } => "W0511",
            Self::UnknownModel { .. } => "W0512",
            Self::NothingToImport { .. } => "W0513",
            Self::NoCacheDirectory => "W0514",
            Self::EngineStopped { .. } => "W0515",
            Self::QueueFull { .. } => "W0516",
        })
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let fault = Fault::new(self.code(), self.to_string());
        fault.retriable(matches!(self, Self::QueueFull { .. }))
    }

    pub(crate) fn io(action: &'static str, path: &Path, error: &std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_thing_and_the_way_out() {
        let attempts = vec![
            SourceFailure { source_name: "a".to_owned(), reason: "gone".to_owned() },
            SourceFailure { source_name: "b".to_owned(), reason: "wrong hash".to_owned() },
        ];
        let error = Error::NoSource { model: "m".to_owned(), attempts };
        assert_eq!(error.to_string(), "could not get the weights of `m`: a: gone; b: wrong hash");
        let error = Error::EngineStopped { reason: "no thread".to_owned() };
        let fault = error.fault();
        assert_eq!(fault.code, "W0515");
        assert!(fault.message.contains("no thread") && fault.message.contains("start"), "{fault}");
        assert!(!fault.retriable);
    }
}
