//! Subscriptions to instances.

use super::AgentRuntime;
use super::error::{of_runtime, of_store};
use super::handler::STATE_CHANNEL;
use super::inspect::is_handler;
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::Value as Json;
use weftwork_graph::run_loop::{Modes, StreamEvent};
use weftwork_runtime::{FollowFrom, RunOutput, StreamOptions, ThreadOutput};
use weftwork_types::event::AiEvent;
use weftwork_types::instance::AgentRuntimeError;
use weftwork_types::run::RunRef;
use weftwork_types::{BoxStream, InstanceId, RunId, ThreadId};

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
    /// The activity began.
    Started,
    /// The state after a superstep that was committed, in its shown form. The last one before the end
    /// is the state of the instance.
    State {
        /// The state.
        state: Json,
    },
    /// The activity ended.
    Ended {
        /// Error of an activity that failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<AgentRuntimeError>,
    },
}

impl AgentRuntime {
    /// Subscribes to the activities of an instance, from the one that is executed now or begins next:
    /// their states, and their ends. Activities of other processes are included. The stream ends when
    /// this process shuts down, or after an error.
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
        let streamed = StreamOptions { modes: Modes::VALUES, ..StreamOptions::default() };
        let output = self.runtime().stream_thread(&self.who, &thread, from, streamed);
        let (agents, of_handler) = (self.clone(), is_handler(&options.graph));
        let events = output.filter_map(move |output| {
            let (agents, id) = (agents.clone(), id.clone());
            async move {
                match output {
                    Ok(output) => agents.event(&id, output, of_handler).await.transpose(),
                    Err(error) => Some(Err(of_runtime(id.as_str(), error))),
                }
            }
        });
        Ok(events.boxed())
    }

    async fn event(
        &self,
        id: &InstanceId,
        output: ThreadOutput,
        of_handler: bool,
    ) -> Result<Option<InstanceEvent>, AgentRuntimeError> {
        let ThreadOutput { run, output } = output;
        let kind = match output {
            RunOutput::Event(event) => match event.event {
                AiEvent::RunStarted { .. } => InstanceEventKind::Started,
                AiEvent::Done { .. } => self.ended(id, &run).await?,
                _ => return Ok(None),
            },
            RunOutput::Frame(frame) => {
                let item = frame.item().filter(|item| item.ns.is_empty());
                let Some(StreamEvent::Values { values, .. }) = item.map(|item| &item.event) else {
                    return Ok(None);
                };
                let state = match of_handler {
                    true => values.get(STATE_CHANNEL).cloned().unwrap_or_default(),
                    false => values.clone(),
                };
                InstanceEventKind::State { state }
            }
        };
        Ok(Some(InstanceEvent { activity: run.run, kind }))
    }

    async fn ended(
        &self,
        id: &InstanceId,
        run: &RunRef,
    ) -> Result<InstanceEventKind, AgentRuntimeError> {
        let row = self.store().run(&self.who, run).await;
        let row = row.map_err(|error| of_store(id.as_str(), error))?;
        let outcome = row.outcome.as_ref();
        let error =
            outcome.and_then(|outcome| AgentRuntimeError::of_outcome(run.run.as_str(), outcome));
        Ok(InstanceEventKind::Ended { error })
    }
}
