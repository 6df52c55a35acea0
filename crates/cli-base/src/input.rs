//! Standard input.

use crate::CliError;
use crate::terminal::Terminal;
use std::io::{BufRead, stdin};
use tokio::sync::mpsc;

/// The lines of standard input, read by a separate thread because a blocking read cannot be
/// cancelled. At most two lines are read ahead.
#[derive(Debug)]
pub struct Lines {
    lines: mpsc::Receiver<std::io::Result<String>>,
}

impl Lines {
    pub fn of_process() -> Result<Self, CliError> {
        let (send, lines) = mpsc::channel(1);
        let read = move || {
            for line in stdin().lock().lines() {
                if send.blocking_send(line).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("weft-lines".to_owned());
        thread.spawn(read).map_err(|error| CliError::Input(error.to_string()))?;
        Ok(Self { lines })
    }

    /// Returns the next line, or `None` at the end of input. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<String>, CliError> {
        let line = self.lines.recv().await.transpose();
        line.map_err(|error| CliError::Input(error.to_string()))
    }
}

/// Reads one line, without reading ahead as [`Lines`] does. Blocks.
pub fn one_line() -> Result<String, CliError> {
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|error| CliError::Input(error.to_string()))?;
    Ok(line)
}

/// Asks for confirmation of what cannot be undone, unless it is given. Returns `true` if confirmed.
///
/// # Errors
/// [`CliError::NotConfirmed`] if nobody can be asked.
pub fn confirm(what: String, given: bool, terminal: &Terminal) -> Result<bool, CliError> {
    if given {
        return Ok(true);
    }
    if !terminal.typed {
        return Err(CliError::NotConfirmed { what });
    }
    terminal.piece(format_args!("{what} cannot be undone. Continue? [y/n] "))?;
    let yes = matches!(one_line()?.trim().to_lowercase().as_str(), "y" | "yes");
    if !yes {
        terminal.note("nothing was changed");
    }
    Ok(yes)
}
