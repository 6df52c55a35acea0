//! Display of a run: streamed text, tool calls and their results.

use super::markdown::Markdown;
use super::remote_calls::{RemoteCall, RemoteCalls};
use super::wrap::Wrap;
use super::{Style, Terminal, plain, short};
use crate::CliError;
use std::collections::BTreeMap;
use weftwork::models::ModelInfo;
use weftwork::types::MessageId;
use weftwork::types::event::{AiEvent, RunEvent};
use weftwork::types::message::{Message, Role};

/// Maximum length of a displayed tool result, in characters.
const RESULT_CHARS_MAX: usize = 160;

/// Lines that begin with the tag of the model, if the model has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marks {
    EachLine,
    /// The first line of all answers.
    Once,
}

/// A display of the events of runs.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    terminal: &'a Terminal,
    mark: String,
    marks: Marks,
    markdown: Markdown,
    wrap: Wrap,
    line_open: bool,
    /// Messages with partial text that are not final, and whether that text is shown.
    partial: BTreeMap<MessageId, bool>,
    /// Streamed text of no known message, as assistants of other servers send it: their messages are
    /// complete only at the end of the run, one after the other.
    unnamed: String,
    /// Message of the text that is being shown.
    current: Option<MessageId>,
    calls: BTreeMap<String, String>,
    remote_calls: RemoteCalls,
}

impl<'a> Answer<'a> {
    /// Creates a display of runs of a model; `None` for assistants of other servers.
    pub(crate) fn new(terminal: &'a Terminal, model: Option<&ModelInfo>) -> Self {
        let mark = model.and_then(weftwork::tag).map(|tag| format!("[{tag}] "));
        let mark = mark.map_or_else(String::new, |mark| terminal.paint(Style::Quiet, mark));
        let wrap = super::wrap::for_output(terminal.read, console::measure_text_width(&mark));
        Self { mark, marks: Marks::EachLine, wrap, ..Self::without_mark(terminal) }
    }

    /// Creates a display of a conversation, whose first line alone has a tag.
    pub(crate) fn of_chat(terminal: &'a Terminal, model: Option<&ModelInfo>) -> Self {
        let wrap = super::wrap::for_output(terminal.read, 0);
        Self { marks: Marks::Once, wrap, ..Self::new(terminal, model) }
    }

    fn without_mark(terminal: &'a Terminal) -> Self {
        Self {
            terminal,
            mark: String::new(),
            marks: Marks::Once,
            markdown: Markdown::new(terminal.colours()),
            wrap: super::wrap::for_output(terminal.read, 0),
            line_open: false,
            partial: BTreeMap::new(),
            unnamed: String::new(),
            current: None,
            calls: BTreeMap::new(),
            remote_calls: RemoteCalls::default(),
        }
    }

    /// Shows an event.
    pub(crate) fn event(
        &mut self,
        RunEvent { piece, event, .. }: &RunEvent,
    ) -> Result<(), CliError> {
        match event {
            AiEvent::TextDelta { delta } => {
                self.delta(piece.as_ref().and_then(|piece| piece.message.clone()), delta)
            }
            AiEvent::AttemptReset { node } => {
                let void = self.current.clone();
                self.end_line()?;
                let was_shown = match void {
                    Some(message) => self.partial.remove(&message).unwrap_or_default(),
                    None => !std::mem::take(&mut self.unnamed).is_empty(),
                };
                match was_shown {
                    true => self.aside("the answer was cut off; retrying"),
                    false => self.aside(&format!("attempt failed; retrying node {}", plain(node))),
                }
            }
            AiEvent::MessageFinal { message } if message.role == Role::Assistant => {
                self.whole(message)
            }
            AiEvent::ToolCallStart { tool_call_id, tool_name, args } => {
                self.calls.insert(tool_call_id.to_string(), tool_name.clone());
                self.call(&plain(tool_name), &plain(&args.to_string()))
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error } => {
                // The start of a call whose tool asked is in an earlier run.
                let name = self.calls.remove(tool_call_id.as_str());
                let name = name.unwrap_or_else(|| tool_call_id.to_string());
                let result = short(&result.to_string(), RESULT_CHARS_MAX);
                self.result(&plain(&name), &result, *is_error)
            }
            AiEvent::RemoteFrame { mode, data, .. } if mode == "updates" => {
                for made in self.remote_calls.read(data, RESULT_CHARS_MAX) {
                    let RemoteCall { name, args, result, is_error } = made;
                    if let Some(args) = args {
                        self.call(&name, &args)?;
                    }
                    self.result(&name, &result, is_error)?;
                }
                Ok(())
            }
            AiEvent::StoreUnavailable { fault } => {
                self.end_line()?;
                self.terminal.note(format_args!(
                    "the run pauses: {} ({}); it continues when the store accepts writes",
                    plain(&fault.message),
                    plain(&fault.code)
                ));
                Ok(())
            }
            AiEvent::StoreAvailable => {
                self.terminal.note("the store accepts writes again: the run continues");
                Ok(())
            }
            AiEvent::CallReused { kind, name } => {
                self.end_line()?;
                self.aside(&format!("reusing the recorded result of {kind} {name}"))
            }
            _ => Ok(()),
        }
    }

    /// Shows a tool call. The texts have no control characters.
    fn call(&mut self, name: &str, args: &str) -> Result<(), CliError> {
        self.end_line()?;
        let arrow = self.terminal.paint(Style::Good, "→");
        let name = self.terminal.paint(Style::Strong, name);
        self.mark_line(format_args!("{arrow} {name} {args}"))
    }

    /// Shows the result of a tool call. The texts have no control characters.
    fn result(&mut self, name: &str, result: &str, is_error: bool) -> Result<(), CliError> {
        self.end_line()?;
        let style = if is_error { Style::Bad } else { Style::Good };
        let arrow = self.terminal.paint(style, "←");
        self.mark_line(format_args!("{arrow} {name} {result}"))
    }

    /// Shows partial text. Of messages that are produced at the same time, one is shown while it is
    /// produced, and the others once they are final.
    fn delta(&mut self, message: Option<MessageId>, delta: &str) -> Result<(), CliError> {
        match &message {
            Some(message) => {
                let is_shown = self.current.is_none();
                if !*self.partial.entry(message.clone()).or_insert(is_shown) {
                    return Ok(());
                }
            }
            None => self.unnamed.push_str(delta),
        }
        if self.current != message {
            self.end_line()?;
            self.current = message;
        }
        self.text(delta)
    }

    /// Shows a complete message, unless its text was shown before.
    fn whole(&mut self, message: &Message) -> Result<(), CliError> {
        let text = message.joined_text();
        if text.is_empty() {
            return Ok(());
        }
        let was_shown = self.partial.remove(&message.id);
        if !was_shown.unwrap_or_else(|| self.was_streamed(&text)) {
            self.end_line()?;
            self.text(&text)?;
        }
        self.end_line()
    }

    /// Returns `true` if the text of a complete message was streamed as text of no known message.
    fn was_streamed(&mut self, text: &str) -> bool {
        match self.unnamed.strip_prefix(text) {
            Some(rest) => self.unnamed = rest.to_owned(),
            None if self.unnamed.is_empty() => return false,
            None => self.unnamed.clear(),
        }
        true
    }

    /// Ends the current line, if it is not empty.
    pub(crate) fn end_line(&mut self) -> Result<(), CliError> {
        self.current = None;
        let is_code = self.markdown.is_code();
        let rest = self.markdown.end();
        let rest = self.wrap.push(&rest, is_code) + &self.wrap.end();
        self.write(&rest)?;
        if std::mem::take(&mut self.line_open) {
            self.terminal.line("")?;
        }
        Ok(())
    }

    /// Writes a note about the answer.
    pub(crate) fn aside(&mut self, text: &str) -> Result<(), CliError> {
        let text = self.terminal.paint(Style::Quiet, format_args!("({})", plain(text)));
        self.mark_line(text)
    }

    /// Writes a note to standard error.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        self.terminal.note(text);
    }

    fn mark_line(&mut self, text: impl std::fmt::Display) -> Result<(), CliError> {
        let mark = self.mark();
        self.terminal.line(format_args!("{mark}{text}"))
    }

    /// Returns the tag of the next line.
    fn mark(&mut self) -> String {
        match self.marks {
            Marks::EachLine => self.mark.clone(),
            Marks::Once => std::mem::take(&mut self.mark),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), CliError> {
        for line in plain(text).split_inclusive('\n') {
            let styled = self.markdown.push(line);
            let wrapped = self.wrap.push(&styled, self.markdown.is_code());
            self.write(&wrapped)?;
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), CliError> {
        for line in text.split_inclusive('\n') {
            if !std::mem::replace(&mut self.line_open, !line.ends_with('\n')) {
                let mark = self.mark();
                self.terminal.piece(mark)?;
            }
            self.terminal.piece(line)?;
        }
        Ok(())
    }
}
