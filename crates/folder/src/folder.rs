//! A folder as a repository.

use crate::root::{Root, regular};
use crate::walk;
use regex::{Regex, RegexBuilder};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use weftwork_tools::ToolError;
use weftwork_tools::builtin::{CodeMatch, CodeQuery, CodeSearch, FileText, Repository};
use weftwork_types::BoxFuture;
use weftwork_types::port::CallContext;

/// Maximum length of a text that is read by one call, in bytes, and of the file itself times 20.
pub const TEXT_BYTES_MAX: usize = 200_000;
/// Maximum length of a file that is read, in bytes.
const READ_BYTES_MAX: u64 = 20 * TEXT_BYTES_MAX as u64;
/// Maximum length of a matching line, in characters. More is cut.
pub const LINE_CHARS_MAX: usize = 300;
/// Maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A folder of files on this machine, as a [`Repository`]: search and reading, no writing.
///
/// Patterns are those of the crate `regex`, which match in linear time.
#[derive(Debug, Clone)]
pub struct Folder(Arc<Root>);

impl Folder {
    /// Opens a folder. If it is a link, the folder that it leads to is opened.
    ///
    /// # Errors
    /// The error of the system, if the folder does not exist or cannot be read.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(Arc::new(Root::open(path.as_ref())?)))
    }
}

impl Repository for Folder {
    fn search<'a>(
        &'a self,
        context: &'a CallContext,
        query: &'a CodeQuery,
    ) -> BoxFuture<'a, Result<CodeSearch, ToolError>> {
        Box::pin(async move {
            let pattern = pattern(&query.pattern)?;
            let root = Arc::clone(&self.0);
            let limit = query.limit();
            let path = query.path.clone().unwrap_or_default();
            let clock = Arc::clone(&context.clock);
            walk::run(clock, move |walk| {
                let opened = root.beneath(&path)?;
                let mut matches = Vec::new();
                let mut full = false;
                walk.visit(opened, &path, &mut |path, text| {
                    full = !add_matches(&pattern, path, text, limit, &mut matches);
                    !full
                });
                let stopped = walk.stopped.take();
                let stopped = stopped.or_else(|| full.then(|| format!("{limit} matches")));
                Ok(CodeSearch { matches, files: walk.files, stopped })
            })
            .await
        })
    }

    fn read<'a>(
        &'a self,
        _context: &'a CallContext,
        path: &'a str,
        first: u32,
        lines: u32,
    ) -> BoxFuture<'a, Result<FileText, ToolError>> {
        let root = Arc::clone(&self.0);
        let path = path.to_owned();
        Box::pin(async move {
            let read = move || read(&root, path, first, lines);
            let ended = tokio::task::spawn_blocking(read).await;
            ended.map_err(|_| ToolError::failed("the file cannot be read: reading broke off"))?
        })
    }
}

fn pattern(text: &str) -> Result<Regex, ToolError> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|error| {
        ToolError::invalid_args(format_args!("`pattern` is no regular expression: {error}"))
    })
}

/// Adds the matching lines of a file; `false` when there are as many as wanted and more follow.
fn add_matches(
    pattern: &Regex,
    path: &str,
    text: &str,
    limit: usize,
    matches: &mut Vec<CodeMatch>,
) -> bool {
    for (line, text) in (1..).zip(text.lines()) {
        if !pattern.is_match(text) {
            continue;
        }
        if matches.len() >= limit {
            return false;
        }
        let text = text.chars().take(LINE_CHARS_MAX).collect();
        matches.push(CodeMatch { path: path.to_owned(), line, text });
    }
    true
}

fn read(root: &Root, path: String, first: u32, lines: u32) -> Result<FileText, ToolError> {
    let refuse = |problem: String| ToolError::failed(format_args!("`{path}` {problem}"));
    let file = File::from(root.beneath(&path)?);
    let length = regular(&file).ok_or_else(|| refuse("is no file; expected a text file".into()))?;
    let too_long =
        || refuse(format!("has {length} bytes; expected a text of at most {READ_BYTES_MAX}"));
    if length > READ_BYTES_MAX {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    // The file may have grown since.
    file.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| refuse("is no text in UTF-8".to_owned()))?;
    let count = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
    if first > count.max(1) {
        return Err(refuse(format!("has {count} lines; found `first_line` {first}")));
    }
    let mut out = String::new();
    for line in text.lines().skip(first as usize - 1).take(lines as usize) {
        if out.len() + line.len() + 1 > TEXT_BYTES_MAX {
            let room = TEXT_BYTES_MAX.saturating_sub(out.len() + '…'.len_utf8());
            out.push_str(&line[..line.floor_char_boundary(room)]);
            out.push('…');
            break;
        }
        out.push_str(line);
        out.push('\n');
    }
    Ok(FileText { path, first_line: first, lines: count, text: out })
}
