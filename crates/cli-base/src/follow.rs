//! Display of a run until its end.

use crate::CliError;
use crate::error::report_fault;
use crate::exit::Exit;
use crate::frames::frame_to_json;
use crate::shell;
use crate::signals::{Signal, Signals, exit_at_once};
use crate::spent::Spent;
use crate::terminal::{Answer, Terminal, to_plain};
use futures_util::TryStreamExt;
use serde::Serialize;
use weftwork::config::REMOTE;
use weftwork::models::ModelInfo;
use weftwork::runtime::{RunOutput, Selection, StartedRun};
use weftwork::store::{Store, has_begun};
use weftwork::types::Principal;
use weftwork::types::event::RunEvent;
use weftwork::types::run::{RunOutcome, RunRef};
use weftwork::types::usage::Usage;
use weftwork::{AgentDef, App};

/// The output format of a run.
pub enum View<'a> {
    /// Streamed text for people.
    Text(Box<Answer<'a>>),
    /// A line of JSON for each event, or for each frame if frames are selected, and one for the
    /// outcome if it is wanted.
    Json { terminal: &'a Terminal, frames: Option<Selection>, outcome: bool },
}

/// An element of the stream of a run.
pub enum Element {
    Event(Box<RunEvent>),
    Line(String),
    /// The end of a text within the run.
    TextEnd,
}

/// A run whose events are displayed, in this process or at a server.
pub trait Followed {
    /// Returns the next element, or `None` at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<Option<Element>, CliError>>;

    /// Requests the cancellation of the run. Its end follows as an element.
    fn cancel(&mut self) -> impl Future<Output = Result<(), CliError>>;
}

/// A run of an app.
pub struct AppRun {
    app: App,
    started: StartedRun,
}

impl AppRun {
    /// Creates the display of all events of a run.
    pub fn new(app: &App, started: StartedRun) -> Self {
        Self::selected(app, started, Selection::default().with_logged_texts())
    }

    fn selected(app: &App, started: StartedRun, select: Selection) -> Self {
        Self { app: app.clone(), started: started.select(select) }
    }

    /// The run.
    pub fn run(&self) -> &RunRef {
        self.started.run()
    }

    /// Waits for the end of the run.
    pub async fn outcome(self) -> RunOutcome {
        self.started.await.outcome().clone()
    }
}

impl Followed for AppRun {
    async fn next(&mut self) -> Result<Option<Element>, CliError> {
        while let Some(output) = self.started.try_next().await? {
            match output.output {
                RunOutput::Event(event) => return Ok(Some(Element::Event(event))),
                RunOutput::Frame(frame) => {
                    return Ok(Some(Element::Line(frame_to_json(&frame).to_string())));
                }
                // Texts are read as the log has them.
                RunOutput::Text(_) | RunOutput::Reset(_) => {}
            }
        }
        Ok(None)
    }

    async fn cancel(&mut self) -> Result<(), CliError> {
        Ok(self.app.cancel(self.started.run()).await?)
    }
}

/// The last line of JSON of a run.
#[derive(Debug, Serialize)]
pub struct Last<'a> {
    r#type: &'static str,
    thread: &'a str,
    run: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<&'a str>,
    #[serde(flatten)]
    outcome: &'a RunOutcome,
    /// Reason for which the run did not complete, if it is no question.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<LastError>,
    /// Usage of a run with limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<Usage>,
}

/// The error of a run in its last line.
#[derive(Debug, Serialize)]
struct LastError {
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    message: String,
}

impl LastError {
    fn of(outcome: &RunOutcome) -> Option<Self> {
        match outcome {
            RunOutcome::Failed { fault } => {
                Some(Self { code: Some(fault.code.clone()), message: fault.message.clone() })
            }
            RunOutcome::LimitReached { step_limit } => {
                let message = format!("the run reached its limit of {step_limit} supersteps");
                Some(Self { code: None, message })
            }
            RunOutcome::Cancelled { reason } => {
                let message = reason.clone().unwrap_or_else(|| "the run was cancelled".to_owned());
                Some(Self { code: None, message })
            }
            RunOutcome::Completed { .. } | RunOutcome::Interrupted { .. } => None,
        }
    }
}

impl<'a> Last<'a> {
    /// Creates the line for a run, its model, and the label of the model.
    pub fn new(
        run: &'a RunRef,
        model: Option<String>,
        label: Option<&'a str>,
        outcome: &'a RunOutcome,
    ) -> Self {
        Self {
            r#type: "outcome",
            thread: run.thread.as_str(),
            run: run.run.as_str(),
            model,
            label,
            outcome,
            error: LastError::of(outcome),
            used: None,
        }
    }

    /// Adds the usage of the run.
    #[must_use]
    pub fn used(self, used: Option<Usage>) -> Self {
        Self { used, ..self }
    }
}

/// A run that was shown until its end.
pub(crate) struct Ended {
    pub outcome: RunOutcome,
    /// Error of standard output, since which nothing was shown.
    pub unwritten: Option<CliError>,
}

/// Shows a run until its end. A signal cancels the run; a second one exits the process at once,
/// without losing committed work.
pub(crate) async fn follow_run(
    app: &App,
    started: StartedRun,
    view: &mut View<'_>,
    signals: &mut Signals,
) -> Result<Ended, CliError> {
    let mut followed = match view {
        View::Json { frames: Some(select), .. } => AppRun::selected(app, started, *select),
        _ => AppRun::new(app, started),
    };
    let mut shown = show_elements(&mut followed, view, signals).await?;
    let run = followed.run().clone();
    let outcome = followed.outcome().await;
    // The outcome is reported even if the usage cannot be read.
    let spent = Spent::of(app, &run).await.unwrap_or_else(|error| {
        view.note(usage_unread(&error));
        None
    });
    shown.write(|| view.end(app, &run, &outcome, spent));
    Ok(Ended { outcome, unwritten: shown.unwritten })
}

/// The way in which a run was shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// The signal that cancelled the run.
    pub stopped: Option<Signal>,
    /// Error of standard output, after which nothing was shown. The run continues: a reader of the
    /// output may leave at any time, and the effects of the run do not depend on the reader.
    pub unwritten: Option<CliError>,
}

impl Shown {
    fn write(&mut self, write: impl FnOnce() -> Result<(), CliError>) {
        if self.unwritten.is_none() {
            self.unwritten = write().err();
        }
    }
}

/// Shows the elements of a run, as `follow_run` does.
pub async fn show_elements(
    followed: &mut impl Followed,
    view: &mut View<'_>,
    signals: &mut Signals,
) -> Result<Shown, CliError> {
    let mut shown = Shown::default();
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                if shown.stopped.is_some() {
                    exit_at_once(signal);
                }
                shown.stopped = Some(signal);
                shown.write(|| view.say("stopping; press Ctrl-C again to exit at once"));
                let cancelled = tokio::select! {
                    biased;
                    signal = signals.next() => exit_at_once(signal),
                    cancelled = followed.cancel() => cancelled,
                };
                // Fails if the run has just ended. Its outcome follows.
                if let Err(error) = cancelled {
                    shown.write(|| view.say(&error.to_string()));
                }
            }
            element = followed.next() => match element? {
                Some(element) => shown.write(|| view.element(&element)),
                None => return Ok(shown),
            }
        }
    }
}

/// Returns the note about usage that cannot be read.
pub fn usage_unread(error: &CliError) -> String {
    format!("the usage of the run cannot be read: {}", to_plain(&error.to_string()))
}

impl View<'_> {
    fn element(&mut self, element: &Element) -> Result<(), CliError> {
        match (self, element) {
            (Self::Text(answer), Element::Event(event)) => answer.event(event),
            (Self::Text(answer), Element::Line(line)) => answer.aside(line),
            (Self::Text(answer), Element::TextEnd) => answer.end_line(),
            (Self::Json { .. }, Element::TextEnd) => Ok(()),
            (Self::Json { terminal, .. }, Element::Event(event)) => {
                terminal.line(to_json_line(event)?)
            }
            (Self::Json { terminal, .. }, Element::Line(line)) => terminal.line(line),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), CliError> {
        match self {
            Self::Text(answer) => {
                answer.end_line()?;
                answer.aside(text)
            }
            Self::Json { terminal, .. } => {
                terminal.note(to_plain(text));
                Ok(())
            }
        }
    }

    /// Writes a note to standard error.
    fn note(&self, text: impl std::fmt::Display) {
        match self {
            Self::Text(answer) => answer.note(text),
            Self::Json { terminal, .. } => terminal.note(text),
        }
    }

    fn end(
        &mut self,
        app: &App,
        run: &RunRef,
        outcome: &RunOutcome,
        spent: Option<Spent>,
    ) -> Result<(), CliError> {
        match self {
            Self::Text(answer) => {
                answer.end_line()?;
                spent.iter().for_each(|spent| answer.note(spent));
                Ok(())
            }
            Self::Json { outcome: false, terminal, .. } => {
                spent.iter().for_each(|spent| terminal.note(spent));
                Ok(())
            }
            Self::Json { terminal, .. } => {
                let model = model_of(app);
                let label = model.and_then(|model| model.label.as_deref());
                let used = spent.map(|spent| spent.used);
                let last = Last::new(run, model.map(ModelInfo::id), label, outcome);
                terminal.line(to_json_line(&last.used(used))?)
            }
        }
    }
}

/// Returns the model of an app; `None` if its agents are assistants of other servers, which have
/// models of their own.
pub fn model_of(app: &App) -> Option<&ModelInfo> {
    let is_own = |agent: &AgentDef| !agent.id().starts_with(REMOTE);
    app.agents().iter().any(is_own).then(|| app.model())
}

/// Formats a value as a line of JSON.
pub fn to_json_line(value: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))
}

/// Prints how a run ended, unless it completed, and the command to continue.
pub async fn tell_end(
    store: &dyn Store,
    run: &RunRef,
    outcome: &RunOutcome,
    terminal: &Terminal,
) -> Exit {
    let resume = || {
        terminal
            .how_to_continue(format_args!("threads resume {}", shell::quote_thread(&run.thread)))
    };
    match outcome {
        RunOutcome::Completed { .. } => Exit::Done,
        RunOutcome::Interrupted { interrupts, .. } => {
            if interrupts.is_empty() {
                terminal.note(format_args!("stopped before or after a node; {}", resume()));
            }
            Exit::Waiting
        }
        RunOutcome::LimitReached { step_limit } => {
            terminal.note(format_args!(
                "the run reached its limit of {step_limit} supersteps; {}",
                resume()
            ));
            Exit::Failed
        }
        RunOutcome::Cancelled { .. } => {
            terminal.note(match left_nothing(store, run).await {
                true => format!("cancelled before its input was applied to thread {}", run.thread),
                false => format!("cancelled; {}", resume()),
            });
            Exit::Cancelled
        }
        RunOutcome::Failed { fault } => {
            let exit = report_fault(fault, terminal);
            terminal.note(match left_nothing(store, run).await {
                true if terminal.lasting => format!(
                    "the input was not applied to the thread; run again with other input, or retry with: {} runs requeue {}",
                    terminal.weft, run.run
                ),
                true => "the input was not applied to the thread".to_owned(),
                false => format!("committed work is kept; {}", resume()),
            });
            exit
        }
    }
}

/// Returns `true` if a run has ended without applying its input to its thread, and `false` if not
/// or if the store cannot be read.
async fn left_nothing(store: &dyn Store, run: &RunRef) -> bool {
    let who = Principal::local();
    let Ok(row) = store.run(&who, run).await else { return false };
    row.status.is_final() && row.brings() && has_begun(store, &who, run).await == Ok(false)
}
