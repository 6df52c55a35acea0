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

/// One line, for a single question; [`Lines`] would read on. Blocks.
pub(crate) fn one_line() -> Result<String, CliError> {
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|error| CliError::Input(error.to_string()))?;
    Ok(line)
}

/// Hears Ctrl-C, on a thread of its own: a tool that does not give control back must not make us
/// deaf. From when it is made, Ctrl-C no longer ends the process.
#[derive(Debug)]
pub(crate) struct Interrupts {
    heard: mpsc::UnboundedReceiver<()>,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::Input(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(failed)?;
        let mut signal = {
            let _inside = runtime.enter();
            keyboard().map_err(failed)?
        };
        let (send, heard) = mpsc::unbounded_channel();
        let listen = move || {
            runtime.block_on(async {
                while signal.recv().await.is_some() && send.send(()).is_ok() {}
            });
        };
        let thread = std::thread::Builder::new().name("weft-signals".to_owned());
        thread.spawn(listen).map_err(failed)?;
        Ok(Self { heard })
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) {
        // It never ends: the thread lives as long as the process.
        self.heard.recv().await.unwrap_or_default();
    }
}

#[cfg(unix)]
fn keyboard() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn keyboard() -> std::io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
