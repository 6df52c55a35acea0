//! Terminal output: data on standard output, everything else on standard error.

mod answer;
mod keys;
mod markdown;
mod progress;
mod remote_calls;
mod summary;
mod table;
mod time;
mod wrap;

pub use answer::Answer;
pub use keys::HiddenKeys;
pub(crate) use keys::show_keys;
pub use progress::{count_items, weights_progress};
pub use summary::summarize_event;
pub use table::Table;
pub use time::{format_moment, parse_instant};

use crate::CliError;
use std::fmt::{Display, Write as _};
use std::io::{IsTerminal, Write as _, stderr, stdin, stdout};

/// The style of a text, shown by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Strong,
    Quiet,
    Good,
    Bad,
    Ask,
}

impl Style {
    fn start(self) -> &'static str {
        match self {
            Self::Strong => "\x1b[1m",
            Self::Quiet => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[1;31m",
            Self::Ask => "\x1b[1;33m",
        }
    }
}

const PLAIN_AGAIN: &str = "\x1b[0m";

/// Statement about a thread that no other command finds.
pub(crate) const IN_MEMORY: &str = "the store is in memory: the thread ends with this process";

/// The output streams of a command, with their use of colours.
#[derive(Debug, Clone)]
pub struct Terminal {
    out_colour: bool,
    error_colour: bool,
    /// `true` if standard input is a terminal.
    pub typed: bool,
    /// `true` if standard output is a terminal.
    pub read: bool,
    /// The beginning of the commands that are shown to people: the program with its global flags.
    pub weft: String,
    /// `true` if the store outlives the command, so that other commands find what is in it.
    pub lasting: bool,
}

impl Terminal {
    /// The streams of the process. Colours are used on terminals, unless `NO_COLOR` is set or
    /// `TERM` is `dumb`.
    pub fn of_process(weft: String) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let read = stdout().is_terminal();
        Self {
            out_colour: wanted && read,
            error_colour: wanted && stderr().is_terminal(),
            typed: stdin().is_terminal(),
            read,
            weft,
            lasting: true,
        }
    }

    /// Returns the advice to continue a thread with a command. None continues one whose store ends
    /// with this process.
    pub fn how_to_continue(&self, command: impl Display) -> String {
        match self.lasting {
            true => format!("continue with: {} {command}", self.weft),
            false => IN_MEMORY.to_owned(),
        }
    }

    pub fn colours(&self) -> bool {
        self.out_colour
    }

    /// Writes a line of data.
    pub fn line(&self, text: impl Display) -> Result<(), CliError> {
        let mut out = stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    /// Writes data without a line break, and flushes it.
    pub fn piece(&self, text: impl Display) -> Result<(), CliError> {
        let mut out = stdout().lock();
        write!(out, "{text}")?;
        Ok(out.flush()?)
    }

    /// Writes a line to standard error. A write error is ignored.
    pub fn note(&self, text: impl Display) {
        writeln!(stderr().lock(), "{text}").unwrap_or_default();
    }

    /// Styles a text for standard output.
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        paint_text(self.out_colour, style, text)
    }

    /// Styles a text for standard error.
    pub fn paint_error(&self, style: Style, text: impl Display) -> String {
        paint_text(self.error_colour, style, text)
    }
}

fn paint_text(colour: bool, style: Style, text: impl Display) -> String {
    if colour { format!("{}{text}{PLAIN_AGAIN}", style.start()) } else { text.to_string() }
}

/// Returns the width of the terminal in columns, if standard output is one.
fn terminal_columns() -> Option<usize> {
    let (_, columns) = console::Term::stdout().size_checked()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Escapes control characters other than line breaks and tabs, and characters that change the text
/// direction. Models and tools write texts that a person reads before an approval, so these texts
/// must not move the cursor or reorder letters.
pub fn to_plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if turns || letter.is_control() && !matches!(letter, '\n' | '\t') {
            // Writing to a string cannot fail.
            write!(out, "\\u{{{:x}}}", u32::from(letter)).unwrap_or_default();
        } else {
            out.push(letter);
        }
    }
    out
}

/// Truncates a text to `chars_max` characters and puts it on one line.
pub fn shorten(text: &str, chars_max: usize) -> String {
    let line = to_plain(text).replace(['\n', '\t'], " ");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{shorten, to_plain};

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(to_plain("a\x1b[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\n");
        assert_eq!(shorten("one\ntwo three", 7), "one two…");
    }
}
