//! Input from a terminal: lines that can be edited, with a history.

use crate::CliError;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, ColorMode, CompletionType, Config, Context, Editor, Helper, KeyEvent};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// Maximum number of entries of the history; the oldest ones give way.
const HISTORY_MAX: usize = 1_000;
/// File of the history of messages, in the user's data folder.
const HISTORY: &str = "chat-history";

/// Returns the file of the history of messages.
pub fn history_file(config: &weftwork::Config) -> Option<PathBuf> {
    Some(config.data.as_ref()?.join(HISTORY))
}

/// The content of the input, which decides when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message or a command, which enters the history. A backslash at the end of a line continues
    /// it.
    Message,
    /// A single line.
    Line,
    /// A single line that completes a decision. Ctrl-C goes back to the decision.
    Reason,
    /// A single line about the question just shown. Input typed before it does not count, so that a
    /// person approves only a call that they have seen.
    Decision,
    /// A JSON value, complete when it is closed.
    Json,
}

/// A request for input.
#[derive(Debug)]
pub struct Request {
    pub kind: Kind,
    /// Prompt, plain and with its style.
    pub prompt: (String, String),
    /// Text that can be edited.
    pub initial: String,
}

/// The end of an input.
#[derive(Debug, PartialEq, Eq)]
pub enum Edited {
    Text(String),
    /// Ctrl-D.
    End,
    /// Ctrl-C, which discards the text.
    Interrupt {
        /// `true` if there was no text.
        was_empty: bool,
    },
}

/// The settings of an editor.
#[derive(Debug)]
pub struct Settings {
    /// File of the history; `None` for a history that ends with the process.
    pub history: Option<PathBuf>,
    pub colours: bool,
    /// Words that are completed at the begin of a message.
    pub words: &'static [&'static str],
}

/// An editor on a thread of its own, because reading blocks. It reads only when it is asked to, so
/// that other programs and questions can use the terminal in between.
#[derive(Debug)]
pub struct LineEditor {
    requests: mpsc::Sender<Request>,
    edited: mpsc::Receiver<Result<Edited, ReadlineError>>,
}

impl LineEditor {
    pub fn start(settings: Settings) -> Result<Self, CliError> {
        let failed = |error: String| CliError::Input(error);
        let (requests, mut asked) = mpsc::channel::<Request>(1);
        let (send, edited) = mpsc::channel(1);
        let run = move || {
            let mut lines = match EditorThread::open(settings) {
                Ok(lines) => lines,
                Err(error) => return drop(send.blocking_send(Err(error))),
            };
            while let Some(request) = asked.blocking_recv() {
                if send.blocking_send(lines.read(&request)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("weft-editor".to_owned());
        thread.spawn(run).map_err(|error| failed(error.to_string()))?;
        Ok(Self { requests, edited })
    }

    /// Reads input. Not cancel safe: the input of a dropped call is returned by the next one.
    pub async fn read(&mut self, request: Request) -> Result<Edited, CliError> {
        // A thread that ended has reported its error.
        drop(self.requests.send(request).await);
        let edited = self.edited.recv().await.unwrap_or(Ok(Edited::End));
        edited.map_err(|error| CliError::Input(error.to_string()))
    }
}

struct EditorThread {
    editor: Editor<InputRules, FileHistory>,
    history: Option<PathBuf>,
    config: Config,
    words: &'static [&'static str],
}

impl EditorThread {
    fn open(settings: Settings) -> rustyline::Result<Self> {
        let colours = if settings.colours { ColorMode::Enabled } else { ColorMode::Disabled };
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)?
            .history_ignore_dups(true)?
            .completion_type(CompletionType::List)
            .color_mode(colours)
            .build();
        let mut editor = new_editor(&config, settings.words)?;
        let history = settings.history.filter(|file| prepare_history(file));
        if let Some(file) = &history {
            // A damaged history is no reason not to chat.
            editor.load_history(file).unwrap_or_default();
        }
        Ok(Self { editor, history, config, words: settings.words })
    }

    fn read(&mut self, request: &Request) -> rustyline::Result<Edited> {
        if request.kind == Kind::Decision {
            discard_typed();
            // The other editor may have keys that were typed ahead.
            return read_input(&mut new_editor(&self.config, self.words)?, request);
        }
        let text = match read_input(&mut self.editor, request)? {
            Edited::Text(text) if request.kind == Kind::Message => {
                let continued = self.editor.helper().map(|input| input.continued.take());
                join_lines(&text, continued.unwrap_or_default())
            }
            edited => return Ok(edited),
        };
        if !text.trim().is_empty() {
            let is_new = self.editor.add_history_entry(text.as_str())?;
            if let Some(file) = &self.history
                && is_new
            {
                // The message counts even if it cannot be kept, as on a full disk.
                self.editor.append_history(file).unwrap_or_default();
            }
        }
        Ok(Edited::Text(text))
    }
}

fn new_editor(
    config: &Config,
    words: &'static [&'static str],
) -> rustyline::Result<Editor<InputRules, FileHistory>> {
    let mut editor = Editor::with_config(config.clone())?;
    let kind = Cell::new(Kind::Message);
    let is_empty = Cell::new(true);
    let continued = RefCell::default();
    editor.set_helper(Some(InputRules { kind, is_empty, continued, words }));
    editor.bind_sequence(KeyEvent::alt('\r'), Cmd::Newline);
    Ok(editor)
}

fn read_input(
    editor: &mut Editor<InputRules, FileHistory>,
    request: &Request,
) -> rustyline::Result<Edited> {
    if let Some(input) = editor.helper() {
        input.kind.set(request.kind);
        input.is_empty.set(request.initial.is_empty());
        input.continued.take();
    }
    match editor.readline_with_initial(&request.prompt, (request.initial.as_str(), "")) {
        Ok(text) => Ok(Edited::Text(text)),
        Err(ReadlineError::Eof) => Ok(Edited::End),
        Err(ReadlineError::Interrupted) => {
            let was_empty = editor.helper().is_none_or(|input| input.is_empty.get());
            Ok(Edited::Interrupt { was_empty })
        }
        Err(error) => Err(error),
    }
}

/// Discards what was typed and not read yet.
fn discard_typed() {
    #[cfg(unix)]
    {
        use rustix::termios::{QueueSelector, tcflush};
        // Standard input is a terminal here; without one nothing is to be discarded.
        tcflush(std::io::stdin(), QueueSelector::IFlush).unwrap_or_default();
    }
}

/// Creates the folder of a history. Returns `false` if it cannot be used.
fn prepare_history(file: &Path) -> bool {
    file.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok())
}

/// Removes the backslashes that continued typed lines, but no backslashes of pasted lines. `continued`
/// are the lines that ended with a backslash when Enter was pressed.
fn join_lines(text: &str, mut continued: Vec<String>) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let before = &lines[..lines.len().saturating_sub(1)];
    let candidates = before.iter().filter(|line| line.ends_with('\\')).count();
    // A line may have been edited after it was continued.
    let are_all_continued = candidates <= continued.len();
    let joined = lines.iter().enumerate().map(|(at, line)| {
        let inner = line.strip_suffix('\\').filter(|_| at < before.len());
        let found = continued.iter().position(|one| one == line);
        match (inner, found) {
            (Some(inner), Some(found)) => {
                continued.remove(found);
                inner
            }
            (Some(inner), None) if are_all_continued => inner,
            _ => line,
        }
    });
    joined.collect::<Vec<_>>().join("\n")
}

/// State and rules of the input.
struct InputRules {
    kind: Cell<Kind>,
    is_empty: Cell<bool>,
    /// Lines of a message that ended with a backslash when Enter was pressed.
    continued: RefCell<Vec<String>>,
    words: &'static [&'static str],
}

impl Helper for InputRules {}

impl Highlighter for InputRules {}

impl Hinter for InputRules {
    type Hint = String;

    /// Called after each change; shows nothing.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.is_empty.set(line.is_empty());
        None
    }
}

impl Validator for InputRules {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let kind = self.kind.get();
        let text = context.input();
        let is_complete = is_complete(kind, text);
        if kind == Kind::Message && !is_complete {
            let line = text.rsplit('\n').next().unwrap_or_default();
            self.continued.borrow_mut().push(line.to_owned());
        }
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

fn is_complete(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Message => !text.ends_with('\\'),
        Kind::Line | Kind::Reason | Kind::Decision => true,
        // Wrong JSON is complete: its error is shown.
        Kind::Json => serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_or_else(|error| !error.is_eof() || text.trim().is_empty(), |_| true),
    }
}

impl Completer for InputRules {
    type Candidate = &'static str;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<&'static str>)> {
        let typed = line.get(..at).unwrap_or_default();
        let is_message = self.kind.get() != Kind::Json && !typed.is_empty();
        let fits = |word: &&&str| is_message && word.starts_with(typed);
        Ok((0, self.words.iter().filter(fits).copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, is_complete, join_lines};

    #[test]
    fn input_goes_on_until_it_is_complete() {
        for (kind, text, expected) in [
            (Kind::Message, "Hello", true),
            (Kind::Message, "Hello \\", false),
            (Kind::Message, "Hello \\\nthere", true),
            (Kind::Line, "\\", true),
            (Kind::Json, "{\"a\": 1", false),
            (Kind::Json, "{\"a\": 1}", true),
            (Kind::Json, "{\"a\" 1", true),
            (Kind::Json, "", true),
        ] {
            assert_eq!(is_complete(kind, text), expected, "{text:?}");
        }
        for (text, continued, expected) in [
            ("a\\\nb\nc", &["a\\"][..], "a\nb\nc"),
            // Pasted lines are not changed.
            ("a\\\nb", &[], "a\\\nb"),
            ("a\\\nb\\\nc", &["b\\"], "a\\\nb\nc"),
            // A line that was edited later.
            ("ax\\\nb", &["a\\"], "ax\nb"),
            ("a\\", &["a\\"], "a\\"),
        ] {
            let continued = continued.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(join_lines(text, continued), expected, "{text:?}");
        }
    }
}
