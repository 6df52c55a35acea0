//! Errors of commands, and their display.

use crate::exit::Exit;
use crate::terminal::{Style, Terminal, to_plain};
use std::process::ExitCode;
use weftwork::types::ErrorCode;
use weftwork::types::code::Fault;
use weftwork::types::port::EgressError;

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// An operation of the app failed.
    #[error(transparent)]
    App(#[from] weftwork::Error),
    /// The input of a run is not valid.
    #[error("invalid input: {reason}")]
    BadInput {
        /// The problem and the expected input.
        reason: String,
    },
    /// An answer does not match an open question.
    #[error("invalid answer for thread `{thread}`: {reason}")]
    BadAnswer {
        /// The thread.
        thread: String,
        /// The problem and the expected answer.
        reason: String,
    },
    /// The error code does not exist.
    #[error("unknown error code `{found}`; {hint}")]
    UnknownCode {
        /// The requested code.
        found: String,
        /// The most similar code, or the form of codes.
        hint: String,
    },
    /// Standard input, signals or another resource of the system is not available.
    #[error("cannot read input or use a system resource: {0}")]
    Input(String),
    /// Output cannot be written.
    #[error("cannot write output: {0}")]
    Output(std::io::Error),
    /// The reader of standard output has closed it. Not reported to the user.
    #[error("standard output was closed by its reader")]
    NobodyReads,
    /// A check of the demo failed.
    #[error("the demo failed: {what}")]
    DemoFailed {
        /// The failed check.
        what: String,
    },
    /// A server cannot be reached, or its connection broke.
    #[error(transparent)]
    Unreachable(#[from] EgressError),
    /// A server refused a request.
    #[error("the server {url} refused the request with status {status}: {detail}")]
    Refused {
        /// Address of the server.
        url: String,
        /// Status of the answer.
        status: u16,
        /// Reason of the server.
        detail: String,
    },
    /// The answer of a server cannot be read.
    #[error("the answer of the server cannot be read: {reason}")]
    BadAnswerOfServer {
        /// The problem.
        reason: String,
    },
    /// A command that destroys data was not confirmed.
    #[error("{what} cannot be undone; confirm with `--yes`")]
    NotConfirmed {
        /// The action that needs confirmation.
        what: String,
    },
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Output(error),
        }
    }
}

macro_rules! through_app {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::App(error.into())
            }
        }
    )*};
}

#[cfg(feature = "mcp")]
through_app!(weftwork::mcp::McpError);

through_app!(
    weftwork::agents::AgentError,
    weftwork::agents::AgentRuntimeError,
    weftwork::graph::RuntimeError,
    weftwork::local::Error,
    weftwork::models::ModelError,
    weftwork::store::StoreError,
    weftwork::types::InvalidId,
);

impl CliError {
    /// Returns the error as displayed: stable code and message.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::App(error) => return error.fault(),
            Self::BadInput { .. } => "W0708",
            Self::BadAnswer { .. } => "W0709",
            Self::UnknownCode { .. } => "W0710",
            Self::Input(_) | Self::Output(_) | Self::NobodyReads => "W0711",
            Self::DemoFailed { .. } => "W0712",
            Self::NotConfirmed { .. } => "W0713",
            Self::Unreachable(error) => error.code().0,
            Self::Refused { .. } => "W0717",
            Self::BadAnswerOfServer { .. } => "W0718",
        };
        Fault::new(ErrorCode(code), self.to_string()).with_sources_of(self)
    }

    /// Returns the error of a command that has not done its work: a reader that left is no success
    /// then.
    pub fn of_unfinished(self) -> Self {
        match self {
            Self::NobodyReads => Self::Output(std::io::ErrorKind::BrokenPipe.into()),
            other => other,
        }
    }

    /// Returns `true` if what a command names does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::App(weftwork::Error::Store(weftwork::store::StoreError::NotFound { .. }))
        )
    }

    /// Prints the error and returns its exit status.
    pub fn report(&self, terminal: &Terminal) -> ExitCode {
        match self {
            Self::NobodyReads => Exit::Done.code(),
            _ => report_fault(&self.fault(), terminal).code(),
        }
    }
}

/// Returns a line for each cause of a fault. A cause that the line before it quotes is left out.
fn describe_causes(fault: &Fault) -> Vec<String> {
    let mut before = fault.message.as_str();
    let mut lines = Vec::new();
    for cause in fault.causes() {
        if !before.contains(&cause.message) {
            let code = cause.code.as_ref().map(|code| format!("[{code}] ")).unwrap_or_default();
            lines.push(format!("caused by: {code}{}", cause.message));
        }
        before = &cause.message;
    }
    lines
}

/// Prints a fault and returns its exit status.
pub fn report_fault(fault: &Fault, terminal: &Terminal) -> Exit {
    // Faults of servers and stores have texts and codes from outside this program.
    let code = to_plain(&fault.code);
    let head = terminal.paint_error(Style::Bad, format_args!("error[{code}]"));
    terminal.note(format_args!("{head}: {}", to_plain(&fault.message)));
    for line in describe_causes(fault) {
        terminal.note(to_plain(&line));
    }
    let retry = if fault.retriable { "; a retry may succeed" } else { "" };
    terminal.note(format_args!("help: weft explain {code}{retry}"));
    Exit::of_code(&fault.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn causes_are_printed_unless_they_are_quoted() {
        let fault = json!({
            "code": "W0109", "message": "the order was not stored", "cause": {
                "message": "no commit: the disk is full", "cause": {
                    "code": "W0204", "message": "the disk is full", "cause": {
                        "code": "W0805", "message": "reset",
                    },
                },
            },
        });
        let fault: Fault = serde_json::from_value(fault).expect("a fault");
        let expected = ["caused by: no commit: the disk is full", "caused by: [W0805] reset"];
        assert_eq!(describe_causes(&fault), expected);
    }
}
