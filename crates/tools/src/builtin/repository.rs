//! Files of a repository: search and reading.

use crate::{FnTool, ToolBox, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use weftwork_types::BoxFuture;
use weftwork_types::port::CallContext;

/// Maximum number of lines that one call reads.
const LINES_MAX: u32 = 2_000;
/// Maximum number of matches that a search returns.
const MATCHES_MAX: u32 = 100;

/// The port to a repository: a tree of text files, of which nothing outside can be reached.
pub trait Repository: Send + Sync + std::fmt::Debug {
    /// Searches the lines of all files. Files that are no text are passed over.
    ///
    /// # Errors
    /// [`ToolError`], whose message the model reads.
    ///
    /// # Cancel safety
    /// The future is dropped at the deadline of the tool.
    fn search<'a>(
        &'a self,
        context: &'a CallContext,
        query: &'a CodeQuery,
    ) -> BoxFuture<'a, Result<CodeSearch, ToolError>>;

    /// Returns at most `lines` lines of a file from the line `first`, counted from 1.
    ///
    /// # Errors
    /// [`ToolError`] if the path leads to no text file of the repository.
    ///
    /// # Cancel safety
    /// The future is dropped at the deadline of the tool.
    fn read<'a>(
        &'a self,
        context: &'a CallContext,
        path: &'a str,
        first: u32,
        lines: u32,
    ) -> BoxFuture<'a, Result<FileText, ToolError>>;
}

/// A search in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CodeQuery {
    /// A regular expression, which is matched with each line.
    #[schemars(length(min = 1, max = 500))]
    pub pattern: String,
    /// A folder or file, relative to the root of the repository; everything if absent.
    #[schemars(length(max = 1_000))]
    pub path: Option<String>,
    /// Maximum number of matches, 50 if absent.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

impl CodeQuery {
    /// Maximum number of matches, from 1 to 100.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(50).clamp(1, MATCHES_MAX) as usize
    }
}

/// The result of a search in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeSearch {
    /// The matches, ordered by path and line.
    pub matches: Vec<CodeMatch>,
    /// Number of files that were searched.
    pub files: u32,
    /// The limit at which the search ended early, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeMatch {
    /// Path of the file, relative to the root of the repository.
    pub path: String,
    /// Number of the line, from 1.
    pub line: u32,
    /// The line, cut if it is long.
    pub text: String,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileText {
    /// Path of the file, relative to the root of the repository.
    pub path: String,
    /// Number of the first line of the text.
    pub first_line: u32,
    /// Number of lines of the file.
    pub lines: u32,
    /// The text.
    pub text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// Path of the file, relative to the root of the repository.
    #[schemars(length(min = 1, max = 1_000))]
    path: String,
    /// Number of the first line, 1 if absent.
    #[schemars(range(min = 1))]
    first_line: Option<u32>,
    /// Maximum number of lines, 500 if absent.
    #[schemars(range(min = 1, max = 2_000))]
    lines: Option<u32>,
}

pub(super) fn add(tools: ToolBox, port: &Arc<dyn Repository>) -> ToolBox {
    tools.with(search_code(Arc::clone(port))).with(read_file(Arc::clone(port)))
}

fn search_code(port: Arc<dyn Repository>) -> FnTool {
    let about = "Searches the lines of the repository's files by a regular expression.";
    FnTool::new("search_code", about, move |query: CodeQuery, context: ToolContext| {
        let port = Arc::clone(&port);
        async move { port.search(&context.call, &query).await }
    })
    .shown(["matches[].path", "matches[].line", "files", "stopped"])
    .example("Where is the function `load`?", json!({"pattern": "fn load\\b"}))
}

fn read_file(port: Arc<dyn Repository>) -> FnTool {
    let about = "Reads lines of a file of the repository.";
    FnTool::new("read_file", about, move |args: Read, context: ToolContext| {
        let port = Arc::clone(&port);
        async move {
            let lines = args.lines.unwrap_or(500).clamp(1, LINES_MAX);
            let first = args.first_line.unwrap_or(1).max(1);
            port.read(&context.call, &args.path, first, lines).await
        }
    })
    .shown(["path", "first_line", "lines"])
    .example("Show me the readme.", json!({"path": "README.md"}))
}
