//! How an app fails.

use std::path::PathBuf;
use weftwork_agents::AgentError;
use weftwork_egress::ConfigError;
use weftwork_graph::RuntimeError;
use weftwork_models::ModelError;
use weftwork_store::StoreError;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::id::InvalidId;
use weftwork_types::port::ExecuteError;

/// An app could not be put together, or did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration file cannot be read.
    #[error("configuration file `{}` cannot be read: {reason}", path.display())]
    ConfigUnreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The configuration file holds something it may not.
    #[error("configuration file `{}`, line {line}: {reason}", path.display())]
    ConfigInvalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there, and what was expected.
        reason: String,
    },
    /// A setting has a value it cannot have.
    #[error("{setting} is `{found}`, expected {expected}")]
    BadSetting {
        /// The setting and where it comes from.
        setting: String,
        /// What was found.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// No agent has that name.
    #[error("unknown agent `{found}`; {}", agents_there_are(found, known))]
    UnknownAgent {
        /// The name asked for.
        found: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A file is no whole export.
    #[error("the export cannot be used, line {line}: {what}")]
    BadExport {
        /// The line, from 1.
        line: u64,
        /// What is wrong there, and what was expected.
        what: String,
    },
    /// A file to which something goes, or from which it comes, cannot be used.
    #[error("the file cannot be written or read: {reason}")]
    ExportFile {
        /// What the system said.
        reason: String,
    },
    /// There is no place for data.
    #[error(
        "no folder for data: neither `XDG_DATA_HOME` nor `HOME` is set; set one of them, or name the store with `WEFT_STORE=sqlite:PATH`"
    )]
    NoDataFolder,
    /// An id is not one.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// The thread has ended well and waits for nothing.
    #[error("thread `{thread}` waits for nothing: its last run has completed; give it new input")]
    NothingOpen {
        /// The thread.
        thread: String,
    },
    /// The model cannot be had.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The embedded model's weights cannot be had.
    #[cfg(feature = "local")]
    #[error(transparent)]
    Weights(#[from] weftwork_local::Error),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime refused.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// An agent is not sound.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The HTTP client cannot be made as configured.
    #[error(transparent)]
    Egress(#[from] ConfigError),
    /// A run was not accepted, or failed.
    #[error("{0}")]
    Run(Fault),
}

impl From<ExecuteError> for Error {
    fn from(error: ExecuteError) -> Self {
        Self::Run(error.fault)
    }
}

impl Error {
    pub(crate) fn export_file(error: &std::io::Error) -> Self {
        Self::ExportFile { reason: error.to_string() }
    }

    /// The error as it is stored and shown: its stable code, its message, and whether trying again
    /// may help.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::ConfigUnreadable { .. } => "W0701",
            Self::ConfigInvalid { .. } => "W0702",
            Self::BadSetting { .. } => "W0703",
            Self::UnknownAgent { .. } => "W0704",
            Self::NoDataFolder => "W0705",
            Self::Id(_) => "W0706",
            Self::NothingOpen { .. } => "W0707",
            Self::BadExport { .. } => "W0715",
            Self::ExportFile { .. } => "W0716",
            Self::Model(error) => return error.fault(),
            #[cfg(feature = "local")]
            Self::Weights(error) => return error.fault(),
            Self::Store(error) => return error.fault(),
            Self::Runtime(error) => return error.fault(),
            Self::Agent(error) => error.code().0,
            Self::Egress(error) => error.code().0,
            Self::Run(fault) => return fault.clone(),
        };
        Fault::new(ErrorCode(code), self.to_string())
    }
}

fn agents_there_are(found: &str, known: &[String]) -> String {
    let list = known.join(", ");
    match crate::config::nearest(found, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? Known are: {list}"),
        None => format!("known are: {list}"),
    }
}
