//! Subscriptions to instances.

use super::AgentRuntime;
use super::error::{of_runtime, of_store};
use super::handler::STATE_CHANNEL;
use super::inspect::is_handler;
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::VecDeque;
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_graph::run_loop::{Modes, StreamEvent};
use weftwork_runtime::{FollowFrom, Output, OutputStream, RunOutput, Selection};
use weftwork_store::RunRow;
use weftwork_store::mailbox::is_terminated;
use weftwork_types::event::AiEvent;
use weftwork_types::instance::{AgentRuntimeError, AgentRuntimeErrorKind};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{RunOutcome, RunRef, RunStatus};
use weftwork_types::{BoxStream, InstanceId, RunId, ThreadId};

/// Interval of checks for the termination of an instance without activities.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Number of checks of a terminated instance before its subscriptions end. The output of an instance
/// is read at least as often.
const QUIET_CHECKS: u32 = 2;

/// A report about an activity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstanceEvent {
    /// Id of the activity.
    pub activity: RunId,
    /// Content of the report.
    #[serde(flatten)]
    pub kind: InstanceEventKind,
}

/// The content of an [`InstanceEvent`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InstanceEventKind {
    /// The activity began, or was being executed when the subscription began.
    Started,
    /// The state after a superstep that was committed, if it is not the one that was reported last; in
    /// its shown form. The last one before the end is the state of the instance, also at an end at
    /// questions.
    State {
        /// The state.
        state: Json,
    },
    /// The activity ended.
    Ended {
        /// Error of an activity that failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<AgentRuntimeError>,
        /// Questions at which the activity ended, in their shown form.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        questions: Vec<Interrupt>,
    },
}

impl AgentRuntime {
    /// Subscribes to the activities of an instance, from the one that is executed now or begins next:
    /// their states, and their ends. Activities of other processes are included. The stream ends when
    /// the instance is terminated and the activity that was executed has ended, when this process
    /// shuts down, or after an error.
    ///
    /// # Errors
    /// Kind `UnknownInstance`; errors of the store.
    pub async fn subscribe(
        &self,
        id: impl AsRef<InstanceId>,
    ) -> Result<BoxStream<'static, Result<InstanceEvent, AgentRuntimeError>>, AgentRuntimeError>
    {
        self.subscribe_from(id, FollowFrom::Now).await
    }

    /// Subscribes as [`subscribe`](Self::subscribe) does, from a position.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_from(
        &self,
        id: impl AsRef<InstanceId>,
        from: FollowFrom,
    ) -> Result<BoxStream<'static, Result<InstanceEvent, AgentRuntimeError>>, AgentRuntimeError>
    {
        let id = id.as_ref().clone();
        let (_, options) = self.instance(&id).await?;
        let thread = ThreadId::from(&id);
        let from = match from {
            // Taken now: the stream may be read later.
            FollowFrom::Now => self.runtime().position(&self.who, &thread).await,
            from => Ok(from),
        };
        let from = from.map_err(|error| of_runtime(id.as_str(), error))?;
        let select = Selection { modes: Modes::VALUES, ..Selection::default() }.with_logged_texts();
        let output = self.runtime().follow(&self.who, &thread, from, select).await;
        let output = output.map_err(|error| of_runtime(id.as_str(), error))?;
        let subscription = InstanceSubscription {
            agents: self.clone(),
            id,
            of_handler: is_handler(&options.graph),
            output,
            begun: None,
            ended: None,
            state: None,
            next: VecDeque::new(),
        };
        let events = futures_util::stream::unfold(Some(subscription), async |subscription| {
            let mut subscription = subscription?;
            match subscription.event().await {
                Ok(event) => Some((Ok(event?), Some(subscription))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(events.boxed())
    }
}

struct InstanceSubscription {
    agents: AgentRuntime,
    id: InstanceId,
    of_handler: bool,
    output: OutputStream,
    /// The activity whose begin was reported last.
    begun: Option<RunId>,
    /// The activity whose end was reported last. Frames may follow the end of a run, as that of the
    /// superstep in which it stopped; the state at the end is reported before it.
    ended: Option<RunId>,
    /// The state that was reported last.
    state: Option<Json>,
    /// Events that were read and not reported yet.
    next: VecDeque<InstanceEvent>,
}

impl InstanceSubscription {
    /// Returns the next event; `None` at the end.
    async fn event(&mut self) -> Result<Option<InstanceEvent>, AgentRuntimeError> {
        let mut quiet = 0;
        loop {
            if let Some(event) = self.next.pop_front() {
                return Ok(Some(event));
            }
            tokio::select! {
                biased;
                output = self.output.next() => {
                    let Some(output) = output else { return Ok(None) };
                    let output = output.map_err(|error| of_runtime(self.id.as_str(), error))?;
                    self.read_output(output).await?;
                    quiet = 0;
                }
                // Not by the clock of runs, which tests may stop.
                () = tokio::time::sleep(CHECK_EVERY) => match self.is_over().await? {
                    // Ends that precede the termination were read meanwhile.
                    true if quiet == QUIET_CHECKS => return Ok(None),
                    true => quiet += 1,
                    false => quiet = 0,
                }
            }
        }
    }

    /// Returns `true` if the instance is terminated and executes nothing.
    async fn is_over(&mut self) -> Result<bool, AgentRuntimeError> {
        let (row, _) = self.agents.instance(&self.id).await?;
        if !is_terminated(&row.metadata) {
            return Ok(false);
        }
        let unfinished = self.agents.store().unfinished_runs(&self.agents.who, &row.id).await;
        let unfinished = unfinished.map_err(|error| of_store(self.id.as_str(), error))?;
        // Those that wait stay in the mailbox, or are cancelled.
        Ok(unfinished.iter().all(|run| run.status == RunStatus::Queued && !run.cancel_requested))
    }

    async fn read_output(&mut self, output: Output) -> Result<(), AgentRuntimeError> {
        let Output { run, output, .. } = output;
        match output {
            RunOutput::Event(event) => match event.event {
                AiEvent::Done { outcome } => self.report_end(&run, outcome).await?,
                event => {
                    // A requeued run begins again.
                    self.ended.take_if(|ended| *ended == run.run);
                    if matches!(event, AiEvent::RunStarted { .. }) {
                        self.report_begin(&run.run);
                    }
                }
            },
            // Texts are read as the log has them.
            RunOutput::Text(_) | RunOutput::Reset(_) => {}
            RunOutput::Frame(_) if self.ended.as_ref() == Some(&run.run) => {}
            RunOutput::Frame(frame) => {
                let item = frame.item().filter(|item| item.ns.is_empty());
                if let Some(StreamEvent::Values { values, .. }) = item.map(|item| &item.event) {
                    self.report_begin(&run.run);
                    let state = self.state_of_instance(values.clone());
                    self.report_state(&run.run, state);
                }
            }
        }
        Ok(())
    }

    fn report_event(&mut self, activity: &RunId, kind: InstanceEventKind) {
        self.next.push_back(InstanceEvent { activity: activity.clone(), kind });
    }

    fn report_begin(&mut self, activity: &RunId) {
        if self.begun.as_ref() != Some(activity) {
            self.begun = Some(activity.clone());
            self.report_event(activity, InstanceEventKind::Started);
        }
    }

    fn report_state(&mut self, activity: &RunId, state: Json) {
        if self.state.as_ref() != Some(&state) {
            self.state = Some(state.clone());
            self.report_event(activity, InstanceEventKind::State { state });
        }
    }

    /// Reports the state that the end of an activity left, if no frame before the end has it: an error
    /// is written or cleared after the last superstep, and the frame of a question follows the end.
    async fn report_last_state(
        &mut self,
        run: &RunRef,
        row: &RunRow,
    ) -> Result<(), AgentRuntimeError> {
        let mailbox = row.new.options.mailbox.as_ref();
        let has_error = mailbox.is_some_and(|mailbox| mailbox.error_channel.is_some());
        let asks = matches!(row.outcome, Some(RunOutcome::Interrupted { .. }));
        let Some(last) = row.last_checkpoint.filter(|_| has_error && !self.of_handler || asks)
        else {
            return Ok(());
        };
        let thread = match self.agents.runtime().thread(&row.new.graph, self.id.as_str()) {
            // Another process executes the activities; frames have the states.
            Err(RuntimeError::UnknownGraph { .. }) => return Ok(()),
            thread => thread.map_err(|error| of_runtime(self.id.as_str(), error))?,
        };
        match thread.with_principal(self.agents.who.clone()).at(last).state().await {
            Ok(state) => {
                let state = self.state_of_instance(state.values);
                self.report_state(&run.run, state);
                Ok(())
            }
            // Retention deleted it, and the states before it.
            Err(RuntimeError::UnknownCheckpoint { .. }) => Ok(()),
            Err(error) => Err(of_runtime(self.id.as_str(), error)),
        }
    }

    /// Returns the state of the instance, given that of its thread.
    fn state_of_instance(&self, mut values: Json) -> Json {
        match self.of_handler {
            true => values.get_mut(STATE_CHANNEL).map(Json::take).unwrap_or_default(),
            false => values,
        }
    }

    async fn report_end(
        &mut self,
        run: &RunRef,
        status: RunStatus,
    ) -> Result<(), AgentRuntimeError> {
        let row = self.agents.store().run(&self.agents.who, run).await;
        let row = row.map_err(|error| of_store(self.id.as_str(), error))?;
        self.begun = None;
        self.ended = Some(run.run.clone());
        if row.status != status {
            let text = "the activity failed and was requeued";
            let error = Some(AgentRuntimeError::new(AgentRuntimeErrorKind::Failed, text));
            self.report_event(&run.run, InstanceEventKind::Ended { error, questions: Vec::new() });
            return Ok(());
        }
        self.report_last_state(run, &row).await?;
        let outcome = row.outcome.as_ref();
        let activity = row.activity().unwrap_or_else(|| run.clone()).run;
        let error =
            outcome.and_then(|outcome| AgentRuntimeError::of_outcome(activity.as_str(), outcome));
        let questions = match outcome {
            // They may be answered by now.
            Some(RunOutcome::Interrupted { interrupts: asked, .. }) => {
                let rows = self.agents.store().interrupts(&self.agents.who, &run.thread).await;
                let rows = rows.map_err(|error| of_store(self.id.as_str(), error))?.into_iter();
                let rows = rows.map(|row| row.interrupt);
                rows.filter(|row| asked.contains(&row.id)).map(Interrupt::into_shown).collect()
            }
            _ => Vec::new(),
        };
        self.report_event(&run.run, InstanceEventKind::Ended { error, questions });
        Ok(())
    }
}
