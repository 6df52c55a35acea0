//! The log of the program: events of its crates, a line each, on standard error.
//!
//! Events of other crates are left out at every level: what some of them write, such as the headers
//! of requests, has keys in it.

use crate::args::LogFormat;
use std::io::{self, Write};
use std::str::FromStr;
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use weftwork_cli_base::terminal::{Terminal, to_plain};

/// Environment variable with the levels, if the command line has none.
const VARIABLE: &str = "RUST_LOG";
/// Begin of the names of our crates, which are the targets of their events.
const OURS: &str = "weft";

/// The least level of the logged events: one for all, or one for each part.
#[derive(Debug, Clone)]
pub(crate) struct LogLevels(Targets);

impl FromStr for LogLevels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut levels = Targets::new();
        for part in text.split(',').map(str::trim) {
            let named = part.split_once('=');
            let level = named.map_or(part, |(_, level)| level);
            let level: LevelFilter = level.parse().map_err(|_| {
                "expected off, error, warn, info, debug or trace, or levels by part, such as \
                 warn,weftwork_runtime=debug"
                    .to_owned()
            })?;
            levels = match named {
                None => levels.with_default(level),
                Some((name, _)) if name.starts_with(OURS) => levels.with_target(name, level),
                Some((name, _)) => {
                    return Err(format!(
                        "`{name}` is no part of this program: its parts begin with `{OURS}`"
                    ));
                }
            };
        }
        Ok(Self(levels))
    }
}

impl From<LevelFilter> for LogLevels {
    fn from(level: LevelFilter) -> Self {
        Self(Targets::new().with_default(level))
    }
}

/// Starts the log. A program that has a log of its own keeps it.
pub(crate) fn start_log(
    levels: Option<LogLevels>,
    format: LogFormat,
    usual: LevelFilter,
    terminal: &Terminal,
) {
    let levels = levels.or_else(|| of_variable(terminal)).unwrap_or_else(|| usual.into());
    // Lines have no spans: their fields would repeat on each line of a run.
    let ours = filter_fn(|it| it.is_event() && it.target().starts_with(OURS));
    let filter = tracing_subscriber::filter::FilterExt::and(levels.0, ours);
    let layer = layer().with_ansi(false).with_writer(ErrorLines);
    let layer = match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // Fails only if there is another log.
    drop(tracing_subscriber::registry().with(layer.with_filter(filter)).try_init());
}

/// The levels of the environment. Other programs share the variable: its names of other parts mean
/// nothing here, and a value that cannot be read is no error.
fn of_variable(terminal: &Terminal) -> Option<LogLevels> {
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
    let levels = value.to_str().and_then(|value| value.parse().ok()).map(LogLevels);
    if levels.is_none() {
        terminal.note(format_args!("{VARIABLE} is ignored: it has no levels, such as `info`"));
    }
    levels
}

/// Standard error, to which each event is written as one line: error texts from outside have line
/// breaks and control characters.
struct ErrorLines;

impl Write for ErrorLines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = to_plain(text.trim_end_matches('\n')).replace('\n', "\\n");
        // A closed standard error cannot be reported anywhere.
        writeln!(io::stderr().lock(), "{line}").unwrap_or_default();
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for ErrorLines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}
