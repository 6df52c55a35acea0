//! Parts of the commands that run until a signal stops them: the search for runs that no process
//! executes, and the drain at the end.

use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};
use weftwork::App;
use weftwork::graph::RuntimeError;
use weftwork::types::port::RunHandle;
use weftwork_cli_base::CliError;
use weftwork_cli_base::signals::{Signal, Signals, exit_at_once};
use weftwork_cli_base::terminal::Terminal;

/// Interval of searches for runs without a worker and for threads whose time has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Code of the error of a store whose file was replaced, deleted or made unreadable.
const FILE_CHANGED: &str = "W0219";

/// The search for runs that no process executes.
pub(super) struct Search<'a> {
    app: &'a App,
    terminal: &'a Terminal,
    every: Interval,
    problem: Option<String>,
}

impl<'a> Search<'a> {
    pub(super) fn new(app: &'a App, terminal: &'a Terminal) -> Self {
        let mut every = interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { app, terminal, every, problem: None }
    }

    /// Waits until it is time to look. Cancel safe.
    pub(super) async fn due(&mut self) {
        self.every.tick().await;
    }

    /// Takes over runs without a worker, and wakes threads whose time has come. The process stays
    /// if the store cannot be read, because it may be available again later; each problem is printed
    /// once.
    ///
    /// # Errors
    /// The error of a store whose file is another one now.
    pub(super) async fn look(&mut self) -> Result<Vec<RunHandle>, CliError> {
        match self.recover_and_wake().await {
            Ok(handles) => {
                self.problem = None;
                Ok(handles)
            }
            Err(error) if error.fault().code == FILE_CHANGED => Err(error.into()),
            Err(error) => {
                let error = error.to_string();
                if self.problem.as_ref() != Some(&error) {
                    self.terminal.note(format_args!("cannot look for runs: {error}"));
                }
                self.problem = Some(error);
                Ok(Vec::new())
            }
        }
    }

    async fn recover_and_wake(&self) -> Result<Vec<RunHandle>, RuntimeError> {
        let mut handles = self.app.runtime().recover().await?;
        handles.extend(self.app.runtime().wake().await?);
        Ok(handles)
    }
}

/// Stops the execution of runs in order; a further signal ends the process at once. Runs that did
/// not finish their superstep in time are printed.
pub(super) async fn drain_app(
    app: &App,
    grace: Duration,
    signals: &mut Signals,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let left = tokio::select! {
        biased;
        _ = signals.next() => exit_at_once(Signal::Interrupt),
        left = app.runtime().shutdown(grace) => left?,
    };
    for run in left {
        terminal.note(format_args!("run {run} was not released; others take it over"));
    }
    Ok(())
}
