use serde::{Deserialize, Serialize};
use weftwork_types::code::ErrorCode;

/// A call in a sandbox that has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// This machine cannot confine a process.
    #[error(
        "code cannot be executed here: {missing} is not available ({reason}); function agents and jq need Linux 5.13 or newer with landlock and seccomp"
    )]
    Unavailable {
        /// The layer that is missing: `landlock`, `seccomp`, `rlimit`, or the system.
        missing: String,
        /// The reason.
        reason: String,
    },
    /// The code is no program, or has no function `handler`.
    #[error("the code cannot be used: {reason}")]
    Invalid {
        /// The problem, with the line.
        reason: String,
    },
    /// The code threw an error.
    #[error("the code failed: {message}")]
    Thrown {
        /// Message of the error.
        message: String,
        /// Lines of the code in which it happened.
        stack: String,
    },
    /// The code came to a limit.
    #[error("the code was stopped: {limit}")]
    Limit {
        /// The limit.
        limit: LimitKind,
    },
    /// The code waits for a promise that nothing ends.
    #[error("the code waits for a promise that nothing ends")]
    NeverEnds,
    /// The process ended without an answer, or sent one that cannot be read.
    #[error("the process of the code ended without an answer: {reason}")]
    Broken {
        /// All that is known of its end.
        reason: String,
    },
    /// The process cannot be started.
    #[error("the process of the code cannot be started: {0}")]
    Start(#[source] std::io::Error),
}

/// Limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LimitKind {
    /// Wall time.
    Time,
    /// Memory.
    Memory,
    /// Stack.
    Stack,
    /// Memory or stack of an engine without limits of its own: the system ended its process.
    MemoryOrStack,
    /// Size of the result or of arguments, or of all arguments together.
    Output,
    /// Number of calls of the host.
    Calls,
    /// Size of the answers of the host together.
    Received,
}

impl std::fmt::Display for LimitKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "it took longer than its `timeout_ms`",
            Self::Memory => "it needs more memory than code may have",
            Self::Stack => "its calls are nested too deep",
            Self::MemoryOrStack => {
                "it needs more memory than code may have, or its values or calls are nested too deep"
            }
            Self::Output => "its result, or what it sent, is larger than it may be",
            Self::Received => "it received more than 64 MiB",
            Self::Calls => "it made more than 10,000 calls",
        })
    }
}

impl SandboxError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::Unavailable { .. } => "W1050",
            Self::Invalid { .. } => "W1051",
            Self::Thrown { .. } | Self::NeverEnds => "W1052",
            Self::Limit { .. } => "W1053",
            Self::Broken { .. } | Self::Start(_) => "W1054",
        })
    }
}
