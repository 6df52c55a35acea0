//! Errors of apps.

use std::path::PathBuf;
use weftwork_agents::{AgentError, AgentRuntimeError};
use weftwork_egress::ConfigError;
use weftwork_graph::RuntimeError;
use weftwork_models::ModelError;
use weftwork_store::StoreError;
use weftwork_tools::ToolBoxErrors;
use weftwork_types::code::Fault;
use weftwork_types::id::InvalidId;
use weftwork_types::port::ExecuteError;
use weftwork_types::{ErrorCode, ThreadId};

/// A failure to open an [`App`](crate::App) or to perform one of its operations.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration file cannot be read.
    #[error("configuration file `{}` cannot be read: {reason}", path.display())]
    ConfigUnreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// The configuration file has an invalid entry.
    #[error("configuration file `{}`, line {line}: {reason}", path.display())]
    ConfigInvalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem on that line, and the expected content.
        reason: String,
    },
    /// Rules in a file of rules for tools have no tool.
    #[error("rules for tools in `{}`: {source}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// The rules.
        source: ToolBoxErrors,
    },
    /// A setting has an invalid value.
    #[error("{setting} is `{found}`, expected {expected}")]
    BadSetting {
        /// The setting and its origin.
        setting: String,
        /// The value found.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// No agent has that name.
    #[error("unknown agent `{found}`; {}", agents_there_are(found, known))]
    UnknownAgent {
        /// The requested name.
        found: String,
        /// The names of all agents.
        known: Vec<String>,
    },
    /// A file is not a complete export.
    #[error("invalid export, line {line}: {what}")]
    BadExport {
        /// The line, from 1.
        line: u64,
        /// The problem on that line, and the expected content.
        what: String,
    },
    /// An export file cannot be written or read.
    #[error("cannot write or read the export file: {reason}")]
    ExportFile {
        /// The error of the operating system.
        reason: String,
    },
    /// No data directory can be determined.
    #[error(
        "no data directory: neither `XDG_DATA_HOME` nor `HOME` is set; set one of them, or set `WEFT_STORE=sqlite:PATH`"
    )]
    NoDataFolder,
    /// Neither the program nor its configuration names a model.
    #[error(
        "no model is configured: set `WEFT_MODEL`, or `model` in `weft.toml`, to a model such as `openai:gpt-4o-mini`; a program may name one with `AppBuilder::default_model`, for a trial `scripted`, which follows fixed rules"
    )]
    NoModel,
    /// An id is not valid.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// The model cannot be opened.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// The weights of the embedded model cannot be downloaded or loaded.
    #[cfg(feature = "local")]
    #[error(transparent)]
    Weights(#[from] weftwork_local::Error),
    /// An operation of the store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An operation of the runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The graph of an agent is not valid.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// An operation on an instance failed.
    #[error(transparent)]
    Instance(#[from] AgentRuntimeError),
    /// The HTTP client cannot be created from the configuration.
    #[error(transparent)]
    Egress(#[from] ConfigError),
    /// This program was built without a part that the configuration or the command needs.
    #[error(
        "{needed_by} needs the feature `{feature}`, which this program was built without; build it with `--features {feature}`"
    )]
    NotBuiltIn {
        /// The setting or command.
        needed_by: String,
        /// The feature of the crate `weftwork`.
        feature: &'static str,
    },
    /// A file of MCP servers, a server or one of its tools cannot be used.
    #[cfg(feature = "mcp")]
    #[error(transparent)]
    Mcp(Box<weftwork_mcp::McpError>),
    /// A remote cannot be used.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Remote(#[from] weftwork_remote::RemoteError),
    /// An approval was given, and no call of the thread waits for one.
    #[error(
        "no call of thread `{thread}` waits for an approval; `Thread::questions` returns its open questions"
    )]
    NothingToApprove {
        /// The thread.
        thread: ThreadId,
    },
    /// A run was not accepted, or it failed.
    #[error("{0}")]
    Run(Fault),
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        Self::Model(Box::new(error))
    }
}

#[cfg(feature = "mcp")]
impl From<weftwork_mcp::McpError> for Error {
    fn from(error: weftwork_mcp::McpError) -> Self {
        Self::Mcp(Box::new(error))
    }
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

    /// Returns the error as stored and displayed: stable code, message, and a flag that is set if a
    /// retry may succeed.
    #[must_use]
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::ConfigUnreadable { .. } => "W0701",
            Self::ConfigInvalid { .. } => "W0702",
            Self::Rules { source, .. } => source.code().0,
            Self::BadSetting { .. } => "W0703",
            Self::UnknownAgent { .. } => "W0704",
            Self::NoDataFolder => "W0705",
            Self::NoModel => "W0719",
            Self::Id(_) => "W0706",
            Self::BadExport { .. } => "W0715",
            Self::ExportFile { .. } => "W0716",
            Self::NotBuiltIn { .. } => "W0913",
            Self::NothingToApprove { .. } => "W0138",
            #[cfg(feature = "mcp")]
            Self::Mcp(error) => return error.fault(),
            #[cfg(feature = "remote")]
            Self::Remote(error) => return error.fault(),
            Self::Model(error) => return error.fault(),
            #[cfg(feature = "local")]
            Self::Weights(error) => return error.fault(),
            Self::Store(error) => return error.fault(),
            Self::Runtime(error) => return error.fault(),
            Self::Agent(error) => error.code().0,
            Self::Egress(error) => error.code().0,
            Self::Instance(error) => return error.fault.clone(),
            Self::Run(fault) => return fault.clone(),
        };
        Fault::new(ErrorCode(code), self.to_string()).with_sources_of(self)
    }
}

fn agents_there_are(found: &str, known: &[String]) -> String {
    let list = known.join(", ");
    match crate::config::nearest(found, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? (known agents: {list})"),
        None => format!("known agents: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn a_part_that_is_not_built_in_is_named_with_who_needs_it() {
        let needed_by = "the command `weft mcp`".to_owned();
        let fault = Error::NotBuiltIn { needed_by, feature: "mcp" }.fault();
        assert_eq!(fault.code, "W0913");
        let expected = "the command `weft mcp` needs the feature `mcp`";
        assert!(fault.message.starts_with(expected), "{}", fault.message);
        assert!(fault.message.ends_with("`--features mcp`"), "{}", fault.message);
    }
}
