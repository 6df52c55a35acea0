//! What a person types, and the keys that interrupt.

use crate::CliError;
use std::io::{BufRead, stdin};
use tokio::sync::mpsc;

/// The lines of standard input, read as they are asked for by a thread of its own: reading cannot
/// be cut off.
#[derive(Debug)]
pub(crate) struct Lines {
    lines: mpsc::Receiver<std::io::Result<String>>,
}

impl Lines {
    pub(crate) fn of_process() -> Result<Self, CliError> {
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

    /// The next line, or nothing at the end of input. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, CliError> {
        let line = self.lines.recv().await.transpose();
        line.map_err(|error| CliError::Input(error.to_string()))
    }
}

/// Hears Ctrl-C. From when it is made, Ctrl-C no longer ends the process.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signal: tokio::signal::windows::CtrlC,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self, CliError> {
        #[cfg(unix)]
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
        #[cfg(windows)]
        let signal = tokio::signal::windows::ctrl_c();
        signal.map(|signal| Self { signal }).map_err(|error| CliError::Input(error.to_string()))
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) {
        // It never ends: the listener lives as long as the process.
        self.signal.recv().await.unwrap_or_default();
    }
}
