//! Display of a run: streamed text, tool calls and their results.

use super::markdown::Markdown;
use super::remote_calls::{RemoteCall, RemoteCalls};
use super::wrap::Wrap;
use super::{Style, Terminal, shorten, to_plain};
use crate::CliError;
use std::collections::BTreeMap;
use weftwork::models::ModelInfo;
use weftwork::types::event::{
    AiEvent, AttemptReset, PieceAt, RunEvent, TaskEnd, TextSource, Transcript,
};
use weftwork::types::message::{Message, Role};
use weftwork::types::{MessageId, TaskId};

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
pub struct Answer<'a> {
    terminal: &'a Terminal,
    mark: String,
    marks: Marks,
    markdown: Markdown,
    wrap: Wrap,
    line_open: bool,
    /// Messages with partial text that are not final, with the text that is not shown; `None` if the
    /// text is shown as it arrives.
    partial: Transcript<Option<String>>,
    /// Streamed text of no known message, as assistants of other servers send it: their messages are
    /// complete only at the end of the run, one after the other.
    unnamed: String,
    /// Message of the text that is being shown, and the task that produces it.
    current: Option<(MessageId, TaskId)>,
    calls: BTreeMap<String, String>,
    remote_calls: RemoteCalls,
}

impl<'a> Answer<'a> {
    /// Creates a display of runs of a model; `None` for assistants of other servers.
    pub fn new(terminal: &'a Terminal, model: Option<&ModelInfo>) -> Self {
        let mark = model.and_then(weftwork::tag).map(|tag| format!("[{tag}] "));
        let mark = mark.map_or_else(String::new, |mark| terminal.paint(Style::Quiet, mark));
        let wrap = super::wrap::for_output(terminal.read, console::measure_text_width(&mark));
        Self { mark, marks: Marks::EachLine, wrap, ..Self::without_mark(terminal) }
    }

    /// Creates a display of a conversation, whose first line alone has a tag.
    pub fn of_chat(terminal: &'a Terminal, model: Option<&ModelInfo>) -> Self {
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
            partial: Transcript::default(),
            unnamed: String::new(),
            current: None,
            calls: BTreeMap::new(),
            remote_calls: RemoteCalls::default(),
        }
    }

    /// Shows an event.
    pub fn event(&mut self, RunEvent { piece, event, .. }: &RunEvent) -> Result<(), CliError> {
        match event {
            AiEvent::TextDelta { delta } => self.show_delta(piece.as_ref(), delta),
            AiEvent::AttemptReset(reset) => self.reset_text(reset),
            AiEvent::MessageFinal { message } if message.role == Role::Assistant => {
                self.show_whole(message)?;
                self.note_cut(message)
            }
            AiEvent::ToolCallStart { tool_call_id, tool_name, args, .. } => {
                self.calls.insert(tool_call_id.to_string(), tool_name.clone());
                self.show_call(&to_plain(tool_name), &to_plain(&args.to_string()))
            }
            AiEvent::ToolCallResult { tool_call_id, result, is_error, .. } => {
                // The start of a call whose tool asked is in an earlier run.
                let name = self.calls.remove(tool_call_id.as_str());
                let name = name.unwrap_or_else(|| tool_call_id.to_string());
                let result = shorten(&result.to_string(), RESULT_CHARS_MAX);
                self.show_result(&to_plain(&name), &result, *is_error)
            }
            AiEvent::RemoteFrame { mode, data, .. } if mode == "updates" => {
                for made in self.remote_calls.read(data, RESULT_CHARS_MAX) {
                    let RemoteCall { name, args, result, is_error } = made;
                    if let Some(args) = args {
                        self.show_call(&name, &args)?;
                    }
                    self.show_result(&name, &result, is_error)?;
                }
                Ok(())
            }
            AiEvent::StoreUnavailable { fault } => {
                self.break_line()?;
                self.terminal.note(format_args!(
                    "the run pauses: {} ({}); it continues when the store accepts writes",
                    to_plain(&fault.message),
                    to_plain(&fault.code)
                ));
                Ok(())
            }
            AiEvent::StoreAvailable => {
                self.terminal.note("the store accepts writes again: the run continues");
                Ok(())
            }
            AiEvent::CallReused { kind, name } => {
                self.break_line()?;
                self.aside(&format!("reusing the recorded result of {kind} {name}"))
            }
            AiEvent::Checkpoint(stored) => self.tasks_ended(&stored.ended),
            AiEvent::TasksEnded { ended, .. } => self.tasks_ended(ended),
            AiEvent::Done { .. } => self.run_ended(),
            _ => Ok(()),
        }
    }

    /// Notes that text is void, unless none of it was shown and another text is being shown.
    fn reset_text(&mut self, reset: &AttemptReset) -> Result<(), CliError> {
        let void = self.partial.reset(reset);
        // A hidden text that begins anew stays hidden.
        for hidden in void.iter().filter(|text| text.content.is_some()) {
            self.partial.text_at(&hidden.at).content = Some(String::new());
        }
        let is_void = |id: &MessageId| void.iter().any(|text| text.at.message.as_ref() == Some(id));
        if self.current.as_ref().is_some_and(|(id, _)| !is_void(id)) {
            return Ok(());
        }
        let was_shown = self.current.is_some() || !std::mem::take(&mut self.unnamed).is_empty();
        self.end_line()?;
        match was_shown {
            // The event does not say if another attempt follows.
            true => self.aside("the answer was cut off; its text is void"),
            false => {
                self.aside(&format!("an attempt of node {} was cut off", to_plain(&reset.node)))
            }
        }
    }

    /// Shows a tool call. The texts have no control characters.
    fn show_call(&mut self, name: &str, args: &str) -> Result<(), CliError> {
        self.break_line()?;
        let arrow = self.terminal.paint(Style::Good, "→");
        let name = self.terminal.paint(Style::Strong, name);
        self.mark_line(format_args!("{arrow} {name} {args}"))
    }

    /// Shows the result of a tool call. The texts have no control characters.
    fn show_result(&mut self, name: &str, result: &str, is_error: bool) -> Result<(), CliError> {
        self.break_line()?;
        let style = if is_error { Style::Bad } else { Style::Good };
        let arrow = self.terminal.paint(style, "←");
        self.mark_line(format_args!("{arrow} {name} {result}"))
    }

    /// Shows partial text. Of concurrent messages, the first is shown while it is produced, and each
    /// further message once it is final.
    fn show_delta(&mut self, piece: Option<&PieceAt>, delta: &str) -> Result<(), CliError> {
        let source = piece.and_then(|piece| Some((piece.message.clone()?, piece.task)));
        match piece.filter(|_| source.is_some()) {
            Some(at) => {
                let is_new = self.partial.text(&TextSource::of(at)).is_none();
                let text = &mut self.partial.text_at(at).content;
                if is_new && self.current.as_ref().is_some_and(|(_, task)| *task != at.task) {
                    *text = Some(String::new());
                }
                if let Some(hidden) = text {
                    hidden.push_str(delta);
                    return Ok(());
                }
            }
            None => self.unnamed.push_str(delta),
        }
        if self.current != source {
            self.end_line()?;
            self.current = source;
        }
        self.show_text(delta)
    }

    /// Ends the current text if its task ended. Not every text becomes a message of the state.
    fn tasks_ended(&mut self, ended: &[TaskEnd]) -> Result<(), CliError> {
        let is_over =
            self.current.as_ref().is_some_and(|(_, task)| ended.iter().any(|end| end.id == *task));
        if is_over { self.end_line() } else { Ok(()) }
    }

    /// Shows the hidden texts whose messages did not become final.
    fn run_ended(&mut self) -> Result<(), CliError> {
        self.unnamed.clear();
        for hidden in self.partial.end().into_iter().filter_map(|text| text.content) {
            self.end_line()?;
            self.show_text(&hidden)?;
        }
        self.end_line()
    }

    /// Shows a complete message, unless its text was shown before.
    fn show_whole(&mut self, message: &Message) -> Result<(), CliError> {
        let text = message.joined_text();
        if text.is_empty() {
            return Ok(());
        }
        let was_shown = self.partial.finish(&message.id).map(|text| text.content.is_none());
        if !was_shown.unwrap_or_else(|| self.was_streamed(&text)) {
            self.end_line()?;
            self.show_text(&text)?;
        }
        self.end_line()
    }

    /// Notes that the provider cut the text of a message.
    fn note_cut(&mut self, message: &Message) -> Result<(), CliError> {
        let metadata = message.extra.as_ref().map(|extra| &extra.response_metadata);
        let reason = metadata.and_then(|metadata| metadata.get("finish_reason")?.as_str());
        let cause = match reason {
            Some("length") => "it reached the token limit",
            Some("content_filter") => "the provider's content filter ended it",
            _ => return Ok(()),
        };
        self.end_line()?;
        self.terminal.note(format_args!("the answer is cut: {cause}"));
        Ok(())
    }

    /// Returns `true` if the text of a complete message was streamed as text of no known message.
    fn was_streamed(&mut self, text: &str) -> bool {
        let Some(at) = self.unnamed.find(text) else { return false };
        self.unnamed.drain(..at + text.len());
        true
    }

    /// Ends the current text, and its line.
    pub fn end_line(&mut self) -> Result<(), CliError> {
        self.current = None;
        self.break_line()
    }

    /// Ends the current line, if it is not empty.
    fn break_line(&mut self) -> Result<(), CliError> {
        let is_code = self.markdown.is_code();
        let rest = self.markdown.end();
        let rest = self.wrap.push(&rest, is_code) + &self.wrap.end();
        self.write_text(&rest)?;
        if std::mem::take(&mut self.line_open) {
            self.terminal.line("")?;
        }
        Ok(())
    }

    /// Writes a note about the answer.
    pub fn aside(&mut self, text: &str) -> Result<(), CliError> {
        let text = self.terminal.paint(Style::Quiet, format_args!("({})", to_plain(text)));
        self.mark_line(text)
    }

    /// Writes a note to standard error.
    pub fn note(&self, text: impl std::fmt::Display) {
        self.terminal.note(text);
    }

    fn mark_line(&mut self, text: impl std::fmt::Display) -> Result<(), CliError> {
        let mark = self.next_tag();
        self.terminal.line(format_args!("{mark}{text}"))
    }

    /// Returns the tag of the next line.
    fn next_tag(&mut self) -> String {
        match self.marks {
            Marks::EachLine => self.mark.clone(),
            Marks::Once => std::mem::take(&mut self.mark),
        }
    }

    fn show_text(&mut self, text: &str) -> Result<(), CliError> {
        for line in to_plain(text).split_inclusive('\n') {
            let styled = self.markdown.push(line);
            let wrapped = self.wrap.push(&styled, self.markdown.is_code());
            self.write_text(&wrapped)?;
        }
        Ok(())
    }

    fn write_text(&mut self, text: &str) -> Result<(), CliError> {
        for line in text.split_inclusive('\n') {
            if !std::mem::replace(&mut self.line_open, !line.ends_with('\n')) {
                let mark = self.next_tag();
                self.terminal.piece(mark)?;
            }
            self.terminal.piece(line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Terminal};
    use weftwork::types::event::{
        AiEvent, AttemptReset, Piece, PieceAt, PieceKind, Position, RunEvent, TextSource,
    };
    use weftwork::types::{MessageId, TaskId, Timestamp};

    fn origin(task: u128) -> PieceAt {
        let message = MessageId::new(format!("m{task}")).expect("an id");
        PieceAt { message: Some(message), ..PieceAt::new(Position::START, "model", TaskId(task)) }
    }

    fn text(task: u128, text: &str) -> RunEvent {
        let kind = PieceKind::Text;
        let told_at = Timestamp::default();
        Piece { at: origin(task), told_at, kind, text: text.to_owned() }.into()
    }

    fn failed(task: u128) -> RunEvent {
        let reset = AttemptReset::of_task(&origin(task));
        RunEvent::durable(1, Timestamp::default(), AiEvent::AttemptReset(reset))
    }

    /// Returns the task whose text is being shown.
    fn shown(answer: &Answer<'_>) -> Option<TaskId> {
        answer.current.as_ref().map(|(_, task)| *task)
    }

    /// Returns the text of a task that waits until it may be shown.
    fn hidden(answer: &Answer<'_>, task: u128) -> Option<String> {
        answer.partial.text(&TextSource::of(&origin(task))).and_then(|text| text.content.clone())
    }

    #[test]
    fn a_failed_attempt_leaves_the_texts_of_other_tasks() {
        let terminal = Terminal::of_process("weft".to_owned());
        let mut answer = Answer::without_mark(&terminal);
        for event in [text(1, "shown "), text(2, "second"), text(3, "third")] {
            answer.event(&event).expect("shown");
        }
        assert_eq!(shown(&answer), Some(TaskId(1)));
        answer.event(&failed(2)).expect("shown");
        assert_eq!(shown(&answer), Some(TaskId(1)), "its text goes on");
        assert_eq!(hidden(&answer, 2).as_deref(), Some(""), "it begins anew, hidden");
        assert_eq!(hidden(&answer, 3).as_deref(), Some("third"));
        answer.event(&failed(1)).expect("shown");
        assert_eq!(shown(&answer), None, "it was cut off");
        assert_eq!(hidden(&answer, 3).as_deref(), Some("third"));
    }
}
