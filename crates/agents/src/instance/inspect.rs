//! States, statuses and statistics of instances.

use super::AgentRuntime;
use super::error::{graph_unavailable, invalid_request, of_runtime, of_store};
use super::handler::STATE_CHANNEL;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use weftwork_store::mailbox::{INSTANCE, SET_ASIDE_FROM, is_terminated};
use weftwork_store::thread::Direction;
use weftwork_store::{
    ActivityCounts, Metadata, SearchFrom, ThreadOrder, ThreadQuery, ThreadRow, open_questions,
};
use weftwork_types::instance::{AgentRuntimeError, AgentRuntimeErrorKind};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{OnQuestion, RunOptions, RunStatus};
use weftwork_types::{InstanceId, ThreadId, Timestamp};

/// The status of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InstanceStatus {
    /// No activity is executed, and the last one succeeded.
    Idle,
    /// An activity is executed.
    Processing,
    /// An activity waits for an answer or for a time, and the others wait behind it.
    Asking,
    /// The last activity failed, or the instance waits for its graph.
    Error,
    /// The instance takes no more activities.
    Terminated,
}

impl InstanceStatus {
    /// The word for the status, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Processing => "processing",
            Self::Asking => "asking",
            Self::Error => "error",
            Self::Terminated => "terminated",
        }
    }
}

/// Numbers of the activities of an instance. A question and its answer are one activity, which counts
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Statistics {
    /// Activities that wait in the mailbox.
    pub waiting: u64,
    /// Activities that are executed, at most one.
    pub running: u64,
    /// Activities that wait for an answer or for a time, at most one.
    pub asking: u64,
    /// Activities that succeeded.
    pub succeeded: u64,
    /// Activities that failed.
    pub failed: u64,
    /// Activities that were cancelled.
    pub cancelled: u64,
}

impl From<ActivityCounts> for Statistics {
    fn from(counts: ActivityCounts) -> Self {
        let ActivityCounts { waiting, running, asking, succeeded, failed, cancelled } = counts;
        Self { waiting, running, asking, succeeded, failed, cancelled }
    }
}

/// An instance at one time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstanceInfo {
    /// Id of the instance.
    pub id: InstanceId,
    /// Id of its graph.
    pub graph: String,
    /// Status of the instance, as this process sees it.
    pub status: InstanceStatus,
    /// Error of the last activity, or of the graph. Only with the status `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<AgentRuntimeError>,
    /// Questions of the activity that waits, in their shown form, timers included. An answer by
    /// [`Thread::answer`](weftwork_runtime::Thread::answer) continues it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Interrupt>,
    /// Activities that asked a question and were set aside, oldest first, at most 1,000.
    pub set_aside: Vec<SetAside>,
    /// Statistics of the activities.
    pub statistics: Statistics,
    /// Maximum number of unfinished activities.
    pub mailbox_capacity: u32,
    /// Treatment of activities that ask a question.
    pub on_question: OnQuestion,
    /// Options of the runs of its activities.
    pub options: RunOptions,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// An activity that asked a question and continues in a thread of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetAside {
    /// The thread, in which the questions are answered.
    pub thread: ThreadId,
    /// Its open questions, in their shown form.
    pub questions: Vec<Interrupt>,
}

/// Maximum number of threads that are looked at for one instance.
const ASIDE_MAX: usize = 1_000;

impl AgentRuntime {
    /// Returns the state of an instance after its last committed superstep, in its shown form: an
    /// object of channel values, or the state of a handler.
    ///
    /// # Errors
    /// Kinds `UnknownInstance` and `GraphUnavailable`; errors of the store.
    pub async fn get_state(&self, id: impl AsRef<InstanceId>) -> Result<Json, AgentRuntimeError> {
        let id = id.as_ref();
        let (_, options) = self.instance(id).await?;
        let thread = self.runtime().thread(&options.graph, id.as_str());
        let thread = thread.map_err(|error| of_runtime(id.as_str(), error))?;
        let state = thread.with_principal(self.who.clone()).state().await;
        let mut state = state.map_err(|error| of_runtime(id.as_str(), error))?.values;
        if is_handler(&options.graph) {
            return Ok(state.get_mut(STATE_CHANNEL).map(Json::take).unwrap_or_default());
        }
        Ok(state)
    }

    /// Returns the state of an instance as a type.
    ///
    /// # Errors
    /// As [`get_state`](Self::get_state), and kind `InvalidState` if the state is no `S`.
    pub async fn get_state_as<S: DeserializeOwned>(
        &self,
        id: impl AsRef<InstanceId>,
    ) -> Result<S, AgentRuntimeError> {
        let id = id.as_ref();
        let state = self.get_state(id).await?;
        serde_json::from_value(state).map_err(|error| {
            let name = std::any::type_name::<S>();
            invalid_request(format!("the state of instance `{id}` is no `{name}`: {error}"))
        })
    }

    /// Returns an instance with its status and statistics.
    ///
    /// # Errors
    /// Kind `UnknownInstance`; errors of the store.
    pub async fn info(
        &self,
        id: impl AsRef<InstanceId>,
    ) -> Result<InstanceInfo, AgentRuntimeError> {
        let id = id.as_ref();
        let (row, options) = self.instance(id).await?;
        let counts = self.store().count_activities(&self.who, &row.id).await;
        let counts = counts.map_err(|error| of_store(id.as_str(), error))?;
        let (status, error) = if is_terminated(&row.metadata) {
            (InstanceStatus::Terminated, None)
        } else if counts.running > 0 {
            (InstanceStatus::Processing, None)
        } else {
            let asks = counts.asking > 0;
            match self.find_problem(id, &row, &options.graph, counts.waiting > 0).await? {
                Some(error) if !asks || error.kind == AgentRuntimeErrorKind::GraphUnavailable => {
                    (InstanceStatus::Error, Some(error))
                }
                _ if asks => (InstanceStatus::Asking, None),
                _ => (InstanceStatus::Idle, None),
            }
        };
        let questions = match status {
            InstanceStatus::Asking => self.questions(&row.id).await?,
            _ => Vec::new(),
        };
        Ok(InstanceInfo {
            id: id.clone(),
            graph: options.graph,
            status,
            error,
            questions,
            set_aside: self.read_set_aside(id, row.created_at).await?,
            statistics: counts.into(),
            mailbox_capacity: options.mailbox.capacity,
            on_question: options.mailbox.on_question,
            options: options.run,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }

    /// Returns the open questions of an instance, in their shown form.
    pub(super) async fn questions(
        &self,
        thread: &ThreadId,
    ) -> Result<Vec<Interrupt>, AgentRuntimeError> {
        let rows = self.store().interrupts(&self.who, thread).await;
        let open = open_questions(rows.map_err(|error| of_store(thread.as_str(), error))?);
        Ok(open.into_iter().map(Interrupt::into_shown).collect())
    }

    /// Returns the activities of an instance that were set aside and wait for answers, since the
    /// instance was created: one of the same id may have been deleted before.
    async fn read_set_aside(
        &self,
        id: &InstanceId,
        created_at: Timestamp,
    ) -> Result<Vec<SetAside>, AgentRuntimeError> {
        let metadata = Metadata::from_iter([(SET_ASIDE_FROM.to_owned(), Json::from(id.as_str()))]);
        let order = ThreadOrder { direction: Direction::Ascending, ..ThreadOrder::default() };
        let query = ThreadQuery {
            metadata,
            from: SearchFrom::Start(order),
            limit: ASIDE_MAX,
            ..ThreadQuery::default()
        };
        let page = self.store().search_threads(&self.who, query).await;
        let page = page.map_err(|error| of_store(id.as_str(), error))?;
        let mut aside = Vec::new();
        for found in page.threads.into_iter().filter(|found| found.row.created_at >= created_at) {
            let questions = self.questions(&found.row.id).await?;
            if !questions.is_empty() {
                aside.push(SetAside { thread: found.row.id, questions });
            }
        }
        Ok(aside)
    }

    /// Returns the error of the graph, that of an activity which cannot be executed here, or that of
    /// the last activity.
    async fn find_problem(
        &self,
        id: &InstanceId,
        row: &ThreadRow,
        graph: &str,
        has_waiting: bool,
    ) -> Result<Option<AgentRuntimeError>, AgentRuntimeError> {
        let thread = ThreadId::from(id);
        if let Err(error) = self.runtime().check_hosted(&self.who, graph, &thread).await {
            return Ok(Some(graph_unavailable(id.as_str(), &error.fault())));
        }
        if has_waiting {
            let now = self.runtime().clock().now();
            let next = self.store().next_run(&self.who, &thread, now).await;
            if let Some((who, next)) = next.map_err(|error| of_store(id.as_str(), error))?
                && let Err(error) = self.runtime().check_dependencies(&who, &next.new).await
            {
                return Ok(Some(graph_unavailable(id.as_str(), &error.fault())));
            }
        }
        let failed = matches!(
            row.status,
            Some(RunStatus::Failed | RunStatus::Cancelled | RunStatus::LimitReached)
        );
        if !failed {
            return Ok(None);
        }
        let last = self.store().last_ended(&self.who, &thread).await;
        let last = last.map_err(|error| of_store(id.as_str(), error))?;
        Ok(last.and_then(|run| {
            let activity = run.activity().unwrap_or_else(|| run.new.at.clone());
            AgentRuntimeError::of_outcome(activity.run.as_str(), run.outcome.as_ref()?)
        }))
    }

    /// Returns the ids of all instances, oldest first, at most `limit`.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self, limit: usize) -> Result<Vec<InstanceId>, AgentRuntimeError> {
        let metadata = Metadata::from_iter([(INSTANCE.to_owned(), Json::Bool(true))]);
        let order = ThreadOrder { direction: Direction::Ascending, ..ThreadOrder::default() };
        let mut query = ThreadQuery {
            metadata,
            from: SearchFrom::Start(order),
            limit,
            ..ThreadQuery::default()
        };
        let mut found = Vec::new();
        loop {
            let page = self.store().search_threads(&self.who, query.clone()).await;
            let page = page.map_err(|error| of_store("any", error))?;
            found.extend(page.threads.iter().map(|thread| InstanceId::from(&thread.row.id)));
            match page.next {
                Some(next) if found.len() < limit => query.from = SearchFrom::After(next),
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}

/// Returns `true` for the id of the graph of a handler.
pub(super) fn is_handler(graph: &str) -> bool {
    graph.starts_with("instance:")
}
