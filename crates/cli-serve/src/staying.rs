//! Parts of the commands that run until a signal stops them: the search for runs that no process
//! executes and for changed definitions, and the drain at the end.

use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};
use weftwork::config::{Origin, Setting};
use weftwork::graph::RuntimeError;
use weftwork::platform::Definitions;
use weftwork::types::port::RunHandle;
use weftwork::{App, Config};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::signals::{Signal, Signals, exit_at_once};
use weftwork_cli_base::terminal::Terminal;

/// Interval of searches for runs without a worker and for threads whose time has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Code of the error of a store whose file was replaced, deleted or made unreadable.
const FILE_CHANGED: &str = "W0219";

/// Number of searches between two looks for changed definitions.
const LOOKS_BETWEEN: u32 = 4;

/// The search for runs that no process executes, and for definitions that have changed.
pub(super) struct Search<'a> {
    app: &'a App,
    config: &'a Config,
    terminal: &'a Terminal,
    looks: u32,
    every: Interval,
    of_runs: LastProblem,
    of_definitions: LastProblem,
}

/// The problem that was printed last, so that one that stays is printed once.
#[derive(Debug, Default)]
struct LastProblem(Option<String>);

impl LastProblem {
    fn note(&mut self, terminal: &Terminal, what: &str, found: Result<(), RuntimeError>) {
        let error = found.err().map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|error| self.0.as_ref() != Some(*error)) {
            terminal.note(format_args!("{what}: {error}"));
        }
        self.0 = error;
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(app: &'a App, context: &'a CommandContext) -> Self {
        let mut every = interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let CommandContext { config, terminal, .. } = context;
        let of_runs = LastProblem::default();
        let of_definitions = LastProblem::default();
        Self { app, config, terminal, looks: 0, every, of_runs, of_definitions }
    }

    /// Waits until it is time to look. Cancel safe.
    pub(super) async fn due(&mut self) {
        self.every.tick().await;
    }

    /// Takes over runs without a worker, and wakes threads whose time has come. The process stays
    /// if the store cannot be read, because it may be available again later; each problem is printed
    /// once. The runs that were taken over are returned, whatever could not be read after them.
    ///
    /// # Errors
    /// The error of a store whose file is another one now.
    pub(super) async fn look(&mut self) -> Result<Vec<RunHandle>, CliError> {
        let mut handles = Vec::new();
        match self.recover_and_wake(&mut handles).await {
            Err(error) if error.fault().code == FILE_CHANGED => return Err(error.into()),
            looked => self.of_runs.note(self.terminal, "cannot look for runs", looked),
        }
        self.looks = (self.looks + 1) % LOOKS_BETWEEN;
        if self.looks == 0 {
            let followed = self.follow_definitions().await;
            self.of_definitions.note(
                self.terminal,
                "cannot look for changed definitions",
                followed,
            );
        }
        Ok(handles)
    }

    async fn recover_and_wake(&self, handles: &mut Vec<RunHandle>) -> Result<(), RuntimeError> {
        handles.extend(self.app.runtime().recover().await?);
        handles.extend(self.app.runtime().wake().await?);
        Ok(())
    }

    /// Takes over definitions of the store that have changed, and reads those of files again if that
    /// was requested.
    async fn follow_definitions(&self) -> Result<(), RuntimeError> {
        let agents = self.app.defined_agents();
        let now = self.app.runtime().clock().now();
        let read = || read_definitions(self.config, self.terminal);
        if agents.follow(&**self.app.store(), now, read).await?.is_change() {
            note_changed(self.app, self.terminal);
        }
        Ok(())
    }
}

/// Reads the definitions of files, and prints their problems. `None` if the folder cannot be read.
pub(super) fn read_definitions(config: &Config, terminal: &Terminal) -> Option<Definitions> {
    // The first definition makes the folder.
    let folder = PathBuf::from("agents");
    let is_made = config.agents.is_none() && folder.is_dir();
    let made = is_made.then(|| {
        let agents = Some(Setting { value: folder, origin: Origin::Default });
        Config { agents, ..config.clone() }
    });
    let read = match made.as_ref().unwrap_or(config).read_definitions() {
        Ok(read) => read,
        Err(error) => {
            terminal.note(format_args!("the agents stay as they are: {error}"));
            return None;
        }
    };
    for problem in &read.problems {
        terminal.note(problem);
    }
    if !read.problems.is_empty() {
        terminal.note("agents with problems stay as they were");
    }
    Some(read)
}

/// Prints that definitions have changed, and those that are rows and files at once.
pub(super) fn note_changed(app: &App, terminal: &Terminal) {
    let agents = app.defined_agents();
    for problem in agents.conflicts() {
        terminal.note(problem);
    }
    let count = agents.definitions(app.principal()).len();
    terminal.note(format_args!("definitions changed: {count} agents"));
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
