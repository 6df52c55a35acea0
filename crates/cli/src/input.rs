//! Standard input and Ctrl-C.

use crate::CliError;
use std::io::{BufRead, stdin};
use tokio::sync::mpsc;

/// The lines of standard input, read by a separate thread because a blocking read cannot be
/// cancelled. At most two lines are read ahead.
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

    /// Returns the next line, or `None` at the end of input. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, CliError> {
        let line = self.lines.recv().await.transpose();
        line.map_err(|error| CliError::Input(error.to_string()))
    }
}

/// Reads one line, without reading ahead as [`Lines`] does. Blocks.
pub(crate) fn one_line() -> Result<String, CliError> {
    let mut line = String::new();
    stdin().read_line(&mut line).map_err(|error| CliError::Input(error.to_string()))?;
    Ok(line)
}

/// A listener for Ctrl-C on a separate thread, so that a tool that blocks the runtime cannot delay
/// it. While the listener exists and after, Ctrl-C does not end the process.
#[derive(Debug)]
pub(crate) struct Interrupts {
    heard: mpsc::UnboundedReceiver<()>,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self, CliError> {
        Self::listen_to(&[keyboard])
    }

    /// Listens for the request to terminate (SIGTERM) as well as for Ctrl-C.
    pub(crate) fn listen_with_terminate() -> Result<Self, CliError> {
        #[cfg(unix)]
        return Self::listen_to(&[keyboard, terminate]);
        #[cfg(not(unix))]
        Self::listen()
    }

    fn listen_to(signals: &[fn() -> std::io::Result<Signal>]) -> Result<Self, CliError> {
        let failed = |error: std::io::Error| CliError::Input(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.map_err(failed)?;
        let signals: Vec<Signal> = {
            let _inside = runtime.enter();
            let opened = signals.iter().map(|open| open()).collect::<Result<_, _>>();
            opened.map_err(failed)?
        };
        let (send, heard) = mpsc::unbounded_channel();
        let listen = move || {
            let all = signals.into_iter().map(|mut signal| {
                let send = send.clone();
                async move { while signal.recv().await.is_some() && send.send(()).is_ok() {} }
            });
            runtime.block_on(futures_util::future::join_all(all));
        };
        let thread = std::thread::Builder::new().name("weft-signals".to_owned());
        thread.spawn(listen).map_err(failed)?;
        Ok(Self { heard })
    }

    /// Discards what was pressed until now, for another reader of the terminal.
    pub(crate) fn clear(&mut self) {
        while self.heard.try_recv().is_ok() {}
    }

    /// Waits for the next Ctrl-C. Cancel safe.
    pub(crate) async fn next(&mut self) {
        // The channel stays open: the thread lives as long as the process.
        self.heard.recv().await.unwrap_or_default();
    }
}

#[cfg(unix)]
use tokio::signal::unix::Signal;
#[cfg(windows)]
use tokio::signal::windows::CtrlC as Signal;

#[cfg(unix)]
fn keyboard() -> std::io::Result<Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(unix)]
fn terminate() -> std::io::Result<Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
}

#[cfg(windows)]
fn keyboard() -> std::io::Result<Signal> {
    tokio::signal::windows::ctrl_c()
}
