//! The log of `weft dev`: a line for each request, and for the start and the end of each run.

use std::time::Duration;
use weftwork::types::run::RunStatus;
use weftwork_cli_base::states::status_word;
use weftwork_cli_base::terminal::{Style, Terminal, shorten};
use weftwork_server::LogEntry;

/// Length of the longest printed path in characters.
const PATH_CHARS_MAX: usize = 120;

/// Prints an entry to standard error.
pub(super) fn print_entry(terminal: &Terminal, entry: LogEntry) {
    match entry {
        // What the page reads at intervals would hide the rest.
        LogEntry::Answered { from_page: true, status: ..400, .. } => {}
        LogEntry::Answered { method, path, status, took, .. } => {
            let style = match status {
                ..400 => Style::Good,
                400..500 => Style::Ask,
                _ => Style::Bad,
            };
            let status = terminal.paint_error(style, status);
            let path = shorten(&path, PATH_CHARS_MAX);
            let took = terminal.paint_error(Style::Quiet, format_duration(took));
            terminal.note(format_args!("{status} {method:6} {path} {took}"));
        }
        LogEntry::RunBegun { run, graph } => {
            let sign = terminal.paint_error(Style::Strong, "run");
            terminal.note(format_args!(
                "{sign} {} begins: {}, thread {}",
                run.run,
                shorten(&graph, PATH_CHARS_MAX),
                run.thread
            ));
        }
        LogEntry::InputIgnored { thread, members } => {
            let sign = terminal.paint_error(Style::Ask, "ignored");
            let members = shorten(&members.join(", "), PATH_CHARS_MAX);
            terminal.note(format_args!("{sign} {members}: not in the graph, thread {thread}"));
        }
        LogEntry::RunEnded { run, status, took } => {
            let sign = terminal.paint_error(Style::Strong, "run");
            let style = match status {
                RunStatus::Completed => Style::Good,
                RunStatus::Failed => Style::Bad,
                _ => Style::Ask,
            };
            let status = terminal.paint_error(style, status_word(status));
            let took = terminal.paint_error(Style::Quiet, format_duration(took));
            terminal.note(format_args!("{sign} {} ends: {status} {took}", run.run));
        }
        _ => {}
    }
}

/// Returns a time in milliseconds, or in seconds if it is long.
fn format_duration(took: Duration) -> String {
    match took.as_millis() {
        millis @ ..10_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", took.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (took, text) in [(0, "0 ms"), (9_999, "9999 ms"), (61_250, "61.2 s")] {
            assert_eq!(format_duration(Duration::from_millis(took)), text);
        }
    }
}
