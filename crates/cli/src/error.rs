//! How commands fail, and how that is shown.

use crate::exit::Exit;
use crate::screen::{Screen, Style};
use std::process::ExitCode;
use weftwork::types::ErrorCode;
use weftwork::types::code::Fault;

/// A command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// The app did.
    #[error(transparent)]
    App(#[from] weftwork::Error),
    /// The input of a run cannot be used.
    #[error("the input cannot be used: {reason}")]
    BadInput {
        /// What is wrong with it, and what was expected.
        reason: String,
    },
    /// An answer does not fit what is asked.
    #[error("thread `{thread}` cannot take this answer: {reason}")]
    BadAnswer {
        /// The thread.
        thread: String,
        /// Why, and what would fit.
        reason: String,
    },
    /// No page of that code.
    #[error("no error has the code `{found}`; {hint}")]
    UnknownCode {
        /// The code asked for.
        found: String,
        /// What there is.
        hint: String,
    },
    /// The system does not let us read what is typed, or listen for signals.
    #[error("cannot read from the keyboard or the system: {0}")]
    Input(String),
    /// What was to be shown cannot be written.
    #[error("cannot write: {0}")]
    Output(std::io::Error),
    /// Whoever read our output has left. Nothing is said about it.
    #[error("nobody reads any more")]
    NobodyReads,
    /// The demo's story did not go as it must.
    #[error("the demo failed: {what}")]
    DemoFailed {
        /// What did not hold.
        what: String,
    },
    /// Something would be lost, and nobody confirmed it.
    #[error("{what} cannot be undone; confirm it with `--yes`")]
    NotConfirmed {
        /// What would be lost.
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

through_app!(
    weftwork::agents::AgentError,
    weftwork::graph::RuntimeError,
    weftwork::local::Error,
    weftwork::models::ModelError,
    weftwork::store::StoreError,
    weftwork::types::id::InvalidId,
);

impl CliError {
    /// The error as it is shown.
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
        };
        Fault::new(ErrorCode(code), self.to_string())
    }

    /// Shows the error and gives the exit status that belongs to it.
    pub(crate) fn report(&self, screen: &Screen) -> ExitCode {
        match self {
            Self::NobodyReads => Exit::Done.code(),
            _ => report(&self.fault(), screen).code(),
        }
    }
}

/// Shows a fault and gives the exit status that belongs to it.
pub(crate) fn report(fault: &Fault, screen: &Screen) -> Exit {
    let head = screen.paint_error(Style::Bad, format_args!("error[{}]", fault.code));
    screen.note(format_args!("{head}: {}", crate::screen::plain(&fault.message)));
    let retry = if fault.retriable { "; trying again may help" } else { "" };
    screen.note(format_args!("help: weft explain {}{retry}", fault.code));
    Exit::of_code(&fault.code)
}
