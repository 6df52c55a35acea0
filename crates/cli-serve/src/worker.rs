//! `weft worker`: a process that executes the runs that no other process executes.

use super::staying::{Search, drain_app};
use crate::args::Worker;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use weftwork::App;
use weftwork::graph::SystemClock;
use weftwork::store::Store;
use weftwork::types::event::AiEvent;
use weftwork::types::port::{Clock, RunHandle};
use weftwork::types::run::{RunRef, RunStatus};
use weftwork::types::{BoxFuture, Principal, RunId, Timestamp};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::{CommandContext, default_model};
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::follow::to_json_line;
use weftwork_cli_base::signals::Signals;
use weftwork_cli_base::states::status_word;
use weftwork_cli_base::terminal::{Terminal, format_moment};

/// Time limit for the last lines of runs after the worker was drained.
const LAST_LINES: Duration = Duration::from_secs(1);

pub async fn worker(args: &Worker, context: &CommandContext) -> Result<Exit, CliError> {
    if !context.lasting {
        let reason = "a worker needs a store that other processes use; set one with --store";
        return Err(CliError::BadInput { reason: reason.to_owned() });
    }
    let mut signals = Signals::listen();
    let app = context.open_all(default_model(), args.concurrency).await?;
    let terminal = &context.terminal;
    let agents: Vec<_> = app.agents().iter().map(weftwork::AgentDef::name).collect();
    terminal.note(format_args!(
        "worker {} executes runs in {} with the model {}; agents: {}",
        app.runtime().worker(),
        context.config.store.value,
        app.model().id(),
        agents.join(", ")
    ));
    let mut active =
        Active { app: &app, terminal, json: args.json, runs: BTreeSet::new(), unwritten: false };
    let mut ends = FuturesUnordered::new();
    let mut search = Search::new(&app, context);
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => break,
            Some((run, status)) = ends.next() => active.ended(&run, status)?,
            () = search.due() => {
                for handle in search.look().await? {
                    ends.extend(active.begun(handle).await?);
                }
            }
        }
    }
    terminal.note(format_args!(
        "draining: {} active runs finish their superstep; signal again to exit at once",
        active.runs.len()
    ));
    drain_app(&app, args.grace, &mut signals, terminal).await?;
    let last = async {
        while let Some((run, status)) = ends.next().await {
            active.ended(&run, status)?;
        }
        Ok::<(), CliError>(())
    };
    // A run whose end is not known by now is executed by another worker.
    tokio::time::timeout(LAST_LINES, last).await.unwrap_or(Ok(()))?;
    terminal.note("drained");
    Ok(Exit::Done)
}

/// The end of a run: its status, or `None` if it was released.
type RunEnd = BoxFuture<'static, (RunRef, Option<RunStatus>)>;

/// The runs that this worker executes.
struct Active<'a> {
    app: &'a App,
    terminal: &'a Terminal,
    json: bool,
    runs: BTreeSet<RunId>,
    /// `true` once standard output could not be written. The worker continues without it.
    unwritten: bool,
}

/// A line of JSON about a run.
#[derive(Debug, Serialize)]
struct RunLine<'a> {
    r#type: &'static str,
    at: Timestamp,
    thread: &'a str,
    run: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RunStatus>,
}

impl Active<'_> {
    /// Prints that a run begins, and returns the future of its end; `None` if it is known.
    async fn begun(&mut self, handle: RunHandle) -> Result<Option<RunEnd>, CliError> {
        if !self.runs.insert(handle.run.run.clone()) {
            return Ok(None);
        }
        let row = self.app.store().run(&Principal::local(), &handle.run).await;
        let graph = row.ok().map(|row| row.new.graph);
        self.line("run_begun", &handle.run, graph.as_deref(), None)?;
        Ok(Some(Box::pin(await_end(Arc::clone(self.app.store()), handle))))
    }

    /// Prints that a run has ended or was released.
    fn ended(&mut self, run: &RunRef, status: Option<RunStatus>) -> Result<(), CliError> {
        self.runs.remove(&run.run);
        match status {
            Some(status) => self.line("run_ended", run, None, Some(status)),
            None => self.line("run_released", run, None, None),
        }
    }

    fn line(
        &mut self,
        kind: &'static str,
        run: &RunRef,
        graph: Option<&str>,
        status: Option<RunStatus>,
    ) -> Result<(), CliError> {
        let at = SystemClock::new().now();
        let thread = run.thread.as_str();
        let run = run.run.as_str();
        if self.json {
            let line = RunLine { r#type: kind, at, thread, run, graph, status };
            let line = to_json_line(&line)?;
            self.write_line(line);
            return Ok(());
        }
        let what = match (kind, status) {
            ("run_begun", _) => format!("begun: {}", graph.unwrap_or("unknown agent")),
            (_, Some(status)) => status_word(status).to_owned(),
            _ => "released".to_owned(),
        };
        self.write_line(format_args!(
            "{}  run {run} of thread {thread}: {what}",
            format_moment(at)
        ));
        Ok(())
    }

    fn write_line(&mut self, line: impl std::fmt::Display) {
        if self.unwritten {
            return;
        }
        if let Err(error) = self.terminal.line(line) {
            self.unwritten = true;
            self.terminal.note(format_args!("the worker goes on without output: {error}"));
        }
    }
}

/// Waits until a run ends or is released. The status is that of the store: the outcome of a run that
/// was released is a failure to the handle.
async fn await_end(store: Arc<dyn Store>, handle: RunHandle) -> (RunRef, Option<RunStatus>) {
    let RunHandle { run, mut events, outcome } = handle;
    let mut released = false;
    while let Some(event) = events.next().await {
        released = matches!(event.event, AiEvent::Released { .. });
    }
    if released {
        return (run, None);
    }
    let outcome = outcome.await;
    let status = match store.run(&Principal::local(), &run).await {
        Ok(row) => row.status,
        Err(_) => outcome.status(),
    };
    (run, status.is_final().then_some(status))
}
