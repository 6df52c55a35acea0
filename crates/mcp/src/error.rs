//! Errors of MCP servers, their files and their tools.

use std::path::PathBuf;
use std::time::Duration;
use weftwork_tools::ToolError;
use weftwork_types::ErrorCode;
use weftwork_types::code::Fault;
use weftwork_types::port::EgressError;

/// A file of servers or allowed tools, a server, or one of its tools cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The file of servers or the lock file cannot be read, written or understood.
    #[error("MCP file `{}`: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, with the expected content.
        problem: String,
    },
    /// The file of servers names an environment variable that is not set.
    #[error(
        "MCP file `{}`, server `{server}`: variable `{variable}` is not set; set it, or write `${{{variable}:-DEFAULT}}`", path.display()
    )]
    Variable {
        /// The file.
        path: PathBuf,
        /// The server.
        server: String,
        /// The variable.
        variable: String,
    },
    /// The file of servers has no server of this name.
    #[error("unknown MCP server `{found}`; the file has: {known}")]
    UnknownServer {
        /// The name.
        found: String,
        /// The names in the file.
        known: String,
    },
    /// The server cannot be started or reached, or no protocol was agreed on.
    #[error("MCP server `{server}` cannot be used: {problem}")]
    Start {
        /// The server.
        server: String,
        /// The problem, with the end of what the server wrote to its standard error.
        problem: String,
    },
    /// The server has died too often.
    #[error(
        "MCP server `{server}` was started {starts} times within {} s and ended each time; it is not started again for now", within.as_secs()
    )]
    DiesOften {
        /// The server.
        server: String,
        /// Number of starts.
        starts: usize,
        /// The period in which they were counted.
        within: Duration,
    },
    /// The server ends in calls of this tool, which is not called for a while. Other tools of the
    /// server are.
    #[error(
        "tool `{tool}` is not called now: its server ended in {times} calls of it within {} s; try again later, or run `weft mcp deny {tool}`",
        within.as_secs()
    )]
    EndsServer {
        /// Canonical name of the tool.
        tool: String,
        /// Number of calls in which the server ended.
        times: usize,
        /// The period.
        within: Duration,
    },
    /// The connection ended before the server answered.
    #[error("MCP server `{server}` ended during the request: {problem}")]
    Lost {
        /// The server.
        server: String,
        /// The problem.
        problem: String,
    },
    /// The server answered with something that does not say what the request did.
    #[error("MCP server `{server}` did not answer the request: {problem}")]
    Unanswered {
        /// The server.
        server: String,
        /// The problem, with the words of the server.
        problem: String,
    },
    /// The server does not wait for the answer of a person any more.
    #[error(
        "MCP server `{server}` does not wait for the answer any more, and the call is not made again, because that could do its effect twice; check what it did"
    )]
    Gone {
        /// The server.
        server: String,
    },
    /// The server did not answer in time.
    #[error("MCP server `{server}` did not answer {what} within {} s", after.as_secs())]
    Timeout {
        /// The server.
        server: String,
        /// The request.
        what: &'static str,
        /// The time waited.
        after: Duration,
    },
    /// The server exceeded a limit, and its connection was closed.
    #[error("MCP server `{server}` exceeded a limit: {what}")]
    Limit {
        /// The server.
        server: String,
        /// The limit, and what was found.
        what: String,
    },
    /// The server's address is not allowed, or the HTTP request failed.
    #[error("MCP server `{server}`: {source}")]
    Egress {
        /// The server.
        server: String,
        /// The refusal or failure.
        source: EgressError,
    },
    /// A person has to log in at the server.
    #[error("MCP server `{server}` needs a login: {problem}; run `weft mcp login {server}`")]
    LoginNeeded {
        /// The server.
        server: String,
        /// The reason.
        problem: String,
    },
    /// The login at the server failed.
    #[error("login at MCP server `{server}` failed: {problem}")]
    LoginFailed {
        /// The server.
        server: String,
        /// The problem, with what to do.
        problem: String,
    },
    /// The server refused the request, or its answer violates the protocol.
    #[error("MCP server `{server}` answered with an error: {problem}")]
    Answer {
        /// The server.
        server: String,
        /// The message of the server, or the violation.
        problem: String,
    },
    /// The tool cannot be offered to a model.
    #[error("tool `{tool}` of an MCP server cannot be used: {problem}")]
    Tool {
        /// The tool.
        tool: String,
        /// The problem.
        problem: String,
    },
    /// Nobody has allowed the tool.
    #[error(
        "tool `{tool}` is not allowed; look at it with `weft mcp tools`, then use `weft mcp allow {tool} --effect EFFECT` with its effect: `read-only`, `state-change` or `external-side-effect`"
    )]
    NotAllowed {
        /// The tool.
        tool: String,
    },
    /// The server does not offer the tool.
    #[error("MCP server `{server}` offers no tool `{tool}`{hint}")]
    NoSuchTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// A similar name, or the reason why the tool is missing.
        hint: String,
    },
    /// The server has changed the tool since it was allowed.
    #[error(
        "tool `{tool}` has changed since it was allowed and is disabled: {what} differ; look at `weft mcp diff`, then use `weft mcp allow {tool} --effect EFFECT` again"
    )]
    Changed {
        /// The tool.
        tool: String,
        /// The parts that differ.
        what: String,
    },
}

impl McpError {
    /// Returns the stable error code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode(match self {
            Self::File { .. } => "W0901",
            Self::Variable { .. } => "W0902",
            Self::UnknownServer { .. } => "W0903",
            Self::Start { .. } => "W0904",
            Self::DiesOften { .. } | Self::EndsServer { .. } => "W0905",
            Self::Lost { .. } | Self::Unanswered { .. } => "W0906",
            Self::Timeout { .. } => "W0907",
            Self::Limit { .. } => "W0908",
            Self::Egress { source, .. } => return source.code(),
            Self::Answer { .. } => "W0909",
            Self::Tool { .. } => "W0910",
            Self::NotAllowed { .. } | Self::NoSuchTool { .. } => "W0911",
            Self::Changed { .. } => "W0912",
            Self::Gone { .. } => "W0914",
            Self::LoginNeeded { .. } => "W0915",
            Self::LoginFailed { .. } => "W0916",
        })
    }

    /// Returns `true` if the same request may succeed later.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::DiesOften { .. }
            | Self::EndsServer { .. }
            | Self::Lost { .. }
            | Self::Unanswered { .. }
            | Self::Timeout { .. } => true,
            Self::Egress { source, .. } => source.is_retriable(),
            _ => false,
        }
    }

    /// Returns the error as stored and displayed.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::new(self.code(), self.to_string()).retriable(self.is_retriable())
    }

    /// Returns the error of a request that was sent, as the result of a call. If the server did not
    /// answer, it is unknown what it has done.
    pub(crate) fn after_sending(self) -> ToolError {
        let is_lost = match &self {
            Self::Lost { .. } | Self::Unanswered { .. } | Self::Limit { .. } => true,
            Self::Egress { source, .. } => {
                matches!(
                    source,
                    EgressError::Timeout { .. }
                        | EgressError::Broken { .. }
                        | EgressError::TooLong { .. }
                )
            }
            _ => false,
        };
        let code = self.code();
        match is_lost {
            true => ToolError::outcome_unknown(self).with_code(code),
            false => self.into_tool_error(),
        }
    }

    /// Returns the error of a server as the result of a call. Its text is that of the server, which
    /// may repeat arguments and results: the model reads it, and nobody else.
    fn reported(self) -> ToolError {
        let message = self.to_string();
        match self {
            Self::Answer { server, .. } => ToolError::failed(format_args!(
                "MCP server `{server}` answered with an error, whose text is for the model alone"
            ))
            .with_model_message(&message),
            other => ToolError::failed(other),
        }
    }

    /// Returns the error as the result of a call. What a server wrote to its standard error stays
    /// out of it: a model reads the result.
    pub(crate) fn into_tool_error(self) -> ToolError {
        let code = self.code();
        let error = match self {
            Self::Start { server, .. } => ToolError::unavailable(format_args!(
                "MCP server `{server}` cannot be used; `weft mcp servers` shows the reason"
            )),
            Self::Answer { .. } => self.reported(),
            Self::Limit { .. } | Self::Gone { .. } => ToolError::failed(self),
            _ => ToolError::unavailable(self),
        };
        error.with_code(code)
    }
}
