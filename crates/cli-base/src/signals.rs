//! Ctrl-C and the request to terminate (SIGTERM).
//!
//! The process handles both from its start on: the first process of a container gets no signal that it
//! does not handle, so that it handles SIGHUP, too. A command that listens decides itself; any other one ends at once.

use crate::CliError;
use crate::exit::Exit;
use crate::terminal::show_keys;
use std::sync::{Mutex, PoisonError};
#[cfg(unix)]
use tokio::signal::unix::Signal as Source;
#[cfg(windows)]
use tokio::signal::windows::CtrlC as Source;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Status of a process that SIGHUP ends, of those that no signal can kill.
const HUNG_UP: i32 = 128 + 1;

/// A request to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signal {
    /// The status of a command that the signal ends.
    pub fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::Interrupted,
            Self::Terminate => Exit::Terminated,
        }
    }
}

/// The commands that listen. The last one gets a signal.
static LISTENERS: Mutex<Vec<UnboundedSender<Signal>>> = Mutex::new(Vec::new());

/// Handles signals until the process ends, on a thread of its own, so that a tool that blocks the
/// runtime cannot delay them.
pub fn handle_signals() -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::Input(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(failed)?;
    let sources = {
        let _inside = runtime.enter();
        open_sources().map_err(failed)?
    };
    let handle = move || {
        let all = sources.into_iter().map(|(signal, mut source)| async move {
            while source.recv().await.is_some() {
                match signal {
                    Some(signal) => deliver_signal(signal),
                    None => std::process::exit(HUNG_UP),
                }
            }
        });
        runtime.block_on(futures_util::future::join_all(all));
    };
    let thread = std::thread::Builder::new().name("weft-signals".to_owned());
    thread.spawn(handle).map(drop).map_err(failed)
}

/// Gives a signal to the command that listens, or ends the process.
fn deliver_signal(signal: Signal) {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(listener) = listeners.last() {
        if listener.send(signal).is_ok() {
            return;
        }
        listeners.pop();
    }
    drop(listeners);
    exit_at_once(signal)
}

/// Ends the process at once, without losing committed work.
pub fn exit_at_once(signal: Signal) -> ! {
    show_keys();
    std::process::exit(signal.exit().number().into())
}

/// A listener for signals. While it exists, they do not end the process.
#[derive(Debug)]
pub struct Signals {
    heard: UnboundedReceiver<Signal>,
    /// A request to terminate that came before [`clear`](Self::clear).
    terminated: bool,
}

impl Signals {
    pub fn listen() -> Self {
        let (send, heard) = unbounded_channel();
        LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).push(send);
        Self { heard, terminated: false }
    }

    /// Discards the keys that were pressed until now, for another reader of the terminal.
    pub fn clear(&mut self) {
        while let Ok(signal) = self.heard.try_recv() {
            self.terminated |= signal == Signal::Terminate;
        }
    }

    /// Waits for the next signal. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        if std::mem::take(&mut self.terminated) {
            return Signal::Terminate;
        }
        match self.heard.recv().await {
            Some(signal) => signal,
            // The sender is dropped only after this listener.
            None => std::future::pending().await,
        }
    }
}

/// The signals that are handled; `None` for SIGHUP, which ends a process by itself unless it is the
/// first one of a container.
#[cfg(unix)]
fn open_sources() -> std::io::Result<Vec<(Option<Signal>, Source)>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut sources = vec![
        (Some(Signal::Interrupt), signal(SignalKind::interrupt())?),
        (Some(Signal::Terminate), signal(SignalKind::terminate())?),
    ];
    if std::process::id() == 1 {
        sources.push((None, signal(SignalKind::hangup())?));
    }
    Ok(sources)
}

#[cfg(windows)]
fn open_sources() -> std::io::Result<Vec<(Option<Signal>, Source)>> {
    Ok(vec![(Some(Signal::Interrupt), tokio::signal::windows::ctrl_c()?)])
}
