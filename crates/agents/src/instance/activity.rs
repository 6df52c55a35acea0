//! Activities, and their way into a mailbox.

use super::create::check_collision;
use super::error::{invalid_request, of_runtime, of_store};
use super::options::StoredOptions;
use super::{AgentRuntime, hosting};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use weftwork_graph::RuntimeError;
use weftwork_runtime::{Runtime, StartedRun, check_key};
use weftwork_store::{NewRun, RunRow, StoreError};
use weftwork_types::canonical::{DEPTH_MAX, can_be_read_back, first_128};
use weftwork_types::instance::{ACTIVITY_PAYLOAD, AgentRuntimeError, PAYLOAD_BYTES_MAX};
use weftwork_types::port::Clock;
use weftwork_types::run::{Multitask, RunInput, RunOptions, RunOutcome, RunRef, RunRequest};
use weftwork_types::{InstanceId, MessageId, ThreadId, Timestamp};

/// Number of looks for the end of an activity whose timeout has passed, and the time between two.
const EXPIRED_LOOKS: usize = 100;
const EXPIRED_LOOK_EVERY: Duration = Duration::from_millis(20);

/// An activity for an instance.
///
/// As JSON it has the members `payload`, `input`, `priority`, `not_before` in milliseconds since 1970,
/// `timeout` in milliseconds, `idempotency_key` and `configurable`, without those that are not set.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[must_use]
pub struct Activity {
    payload: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Json>,
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "write_milliseconds")]
    timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    configurable: Map<String, Json>,
}

fn write_milliseconds<S: Serializer>(limit: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    limit.map(|limit| limit.as_millis()).serialize(to)
}

impl Activity {
    /// Creates an activity with a payload, of at most [`PAYLOAD_BYTES_MAX`] bytes of JSON.
    pub fn new(payload: Json) -> Self {
        Self { payload, ..Self::default() }
    }

    /// Sets writes that are applied to the state when the activity begins: an object of channel
    /// values, such as a message for an agent that takes messages. None by default.
    pub fn input(mut self, writes: Json) -> Self {
        self.input = Some(writes);
        self
    }

    /// Sets the priority: of the activities that wait, one with the highest value begins first. 0 by
    /// default.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the time before which the activity does not begin. Other activities do not wait for it.
    pub fn not_before(mut self, at: Timestamp) -> Self {
        self.not_before = Some(at);
        self
    }

    /// Sets the time after which the activity is cut off, counted from the acceptance. It fails with
    /// the kind `TimedOut`, also if it did not begin until then. A timeout of zero is refused, and
    /// one that ends before [`not_before`](Self::not_before).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the idempotency key: a repeated activity with the same key and content is accepted once,
    /// with the times of the first one. The key is unique within the organisation, not empty, and
    /// does not begin with `weft:`.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Adds configurable entries, which replace those of the instance with the same names.
    pub fn configurable(mut self, entries: Map<String, Json>) -> Self {
        self.configurable.extend(entries);
        self
    }

    /// Gives the messages of the user in the input new ids, for an instance that may have them already:
    /// a message with the id of an older one replaces it there, and is not the last one. The ids follow
    /// from the idempotency key, if there is one, so that a repetition is the same activity.
    pub fn with_new_message_ids(mut self, clock: &dyn Clock) -> Self {
        let key = self.idempotency_key.as_deref();
        let Some(Json::Object(channels)) = &mut self.input else { return self };
        let values = channels.values_mut().flat_map(|value| match value {
            Json::Array(values) => values.iter_mut(),
            value => std::slice::from_mut(value).iter_mut(),
        });
        // In the form of this crate, or of clients.
        let is_of_user = |value: &&mut Json| {
            let authors = [&value["role"], &value["type"]];
            let is_user = |author: &Json| *author == "user" || *author == "human";
            value["id"].is_string() && authors.into_iter().any(is_user)
        };
        for (place, message) in values.filter(is_of_user).enumerate() {
            let id = match key {
                Some(key) => first_128(&format!("{key}#{place}")),
                None => clock.unique(),
            };
            message["id"] = json!(MessageId::from_uuid(uuid::Uuid::from_u128(id)));
        }
        self
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &Json {
        &self.payload
    }

    /// Reads the activity that a run executes, without its idempotency key, as it was sent to an
    /// instance with these options.
    pub(super) fn of_run(run: &NewRun, instance: &RunOptions) -> Self {
        let NewRun { input, options, created_at, .. } = run;
        let mut configurable = options.configurable.clone();
        let payload = configurable.remove(ACTIVITY_PAYLOAD).unwrap_or_default();
        configurable.retain(|name, entry| instance.configurable.get(name) != Some(entry));
        let input = match input {
            RunInput::Start { input } if *input != json!({}) => Some(input.clone()),
            _ => None,
        };
        let timeout = options.deadline.map(|end| end.since(*created_at));
        Self {
            payload,
            input,
            priority: options.mailbox.as_ref().map_or(0, |mailbox| mailbox.priority),
            not_before: options.not_before,
            timeout,
            idempotency_key: None,
            configurable,
        }
    }

    /// Checks what does not depend on the instance.
    fn check(&self, now: Timestamp) -> Result<(), AgentRuntimeError> {
        check_collision(&self.configurable)?;
        let key = self.idempotency_key.as_deref().map_or(Ok(()), check_key);
        key.map_err(|error| AgentRuntimeError::of_runtime(error.fault()))?;
        if !self.configurable.values().chain([&self.payload]).all(can_be_read_back) {
            return Err(invalid_request(format!(
                "the payload or a configurable entry is nested deeper than {DEPTH_MAX} levels and could not be read back; make it flatter, or give it as text"
            )));
        }
        let bytes = self.payload.to_string().len();
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(invalid_request(format!(
                "the payload has {bytes} bytes of JSON; expected at most {PAYLOAD_BYTES_MAX}: store the data elsewhere, such as in an item, and send its name"
            )));
        }
        if self.timeout == Some(Duration::ZERO) {
            return Err(invalid_request(
                "the activity has a timeout of 0 seconds and would never begin; set a longer one, or none",
            ));
        }
        let end = self.timeout.map(|limit| now.plus(limit));
        match (self.not_before, end) {
            (Some(begin), Some(end)) if begin >= end => Err(invalid_request(format!(
                "the activity would time out before it begins: `not_before` is {}, and its timeout ends at {}, in milliseconds since 1970; the timeout counts from the acceptance, so make it longer",
                begin.0, end.0
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the options of the run.
    fn run_options(&self, options: StoredOptions, now: Timestamp) -> RunOptions {
        let StoredOptions { mut mailbox, run, .. } = options;
        mailbox.priority = self.priority;
        let mut options = RunOptions {
            idempotency_key: self.idempotency_key.clone(),
            multitask: Multitask::Enqueue,
            deadline: self.timeout.map(|limit| now.plus(limit)),
            not_before: self.not_before,
            mailbox: Some(mailbox),
            ..run
        };
        options.configurable.extend(self.configurable.clone());
        options.configurable.insert(ACTIVITY_PAYLOAD.to_owned(), self.payload.clone());
        options.metadata.insert(hosting::OF_INSTANCE.to_owned(), Json::Bool(true));
        options
    }
}

/// The end of an activity that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActivityEnd {
    /// The activity succeeded.
    Succeeded,
    /// The activity waits for an answer or for a time, and the others wait behind it; or it is set
    /// aside, if its instance says so, and they go on. [`AgentRuntime::info`] has its questions. Once
    /// they are answered, [`Sent::ended`] waits for the rest of the activity.
    Asks,
}

/// An activity that a mailbox has accepted.
#[derive(Debug, Clone)]
pub struct Sent {
    agents: AgentRuntime,
    at: RunRef,
}

impl AgentRuntime {
    /// Sends an activity to an instance, by its id or handle. When the future completes, the activity
    /// is stored, in one commit, and is executed by this process or another one that hosts the graph. If
    /// activities whose timeout has passed fill the mailbox, this process ends them, if it hosts the
    /// graph.
    ///
    /// # Errors
    /// Kinds `MailboxFull`, `Terminated`, `UnknownInstance` and `PayloadCollision`; `InvalidState` for
    /// a payload that is too large or too deep, and for a timeout that ends before the activity may
    /// begin; [`RuntimeError::InvalidKey`](weftwork_graph::RuntimeError::InvalidKey) as W0137; errors
    /// of the store. Nothing was stored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the activity is accepted or not. Repeat it with an idempotency key.
    pub async fn send(
        &self,
        to: impl AsRef<InstanceId>,
        activity: Activity,
    ) -> Result<Sent, AgentRuntimeError> {
        let id = to.as_ref();
        let request = self.request_of(id, activity).await?;
        let mut at = self.runtime().enqueue(request.clone()).await;
        if matches!(at, Err(RuntimeError::Store(StoreError::MailboxFull { .. })))
            && self.end_expired(id).await?
        {
            at = self.runtime().enqueue(request).await;
        }
        let at = at.map_err(|error| of_runtime(id.as_str(), error))?;
        Ok(Sent { agents: self.clone(), at })
    }

    /// Sends an activity as [`send`](Self::send) does, for execution by another process.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn leave(
        &self,
        to: impl AsRef<InstanceId>,
        activity: Activity,
    ) -> Result<Sent, AgentRuntimeError> {
        let id = to.as_ref();
        let activities = self.runtime();
        let at = activities.enqueue_only(self.request_of(id, activity).await?).await;
        let at = at.map_err(|error| of_runtime(id.as_str(), error))?;
        Ok(Sent { agents: self.clone(), at })
    }

    /// Attends the mailbox of an instance if it has activities whose timeout has passed, which have a
    /// place in it until their turn, and waits a little for the end of one. Returns `false` if it has
    /// none.
    async fn end_expired(&self, id: &InstanceId) -> Result<bool, AgentRuntimeError> {
        let thread = ThreadId::from(id);
        let now = self.runtime().clock().now();
        let unfinished = async || {
            let runs = self.store().unfinished_runs(&self.who, &thread).await;
            runs.map_err(|error| of_store(id.as_str(), error))
        };
        let before = unfinished().await?;
        let is_expired = |run: &RunRow| run.new.options.deadline.is_some_and(|end| end <= now);
        if !before.iter().any(is_expired) {
            return Ok(false);
        }
        self.attend(id);
        for _ in 0..EXPIRED_LOOKS {
            // Not by the clock of runs, which tests may stop.
            tokio::time::sleep(EXPIRED_LOOK_EVERY).await;
            if unfinished().await?.len() < before.len() {
                break;
            }
        }
        Ok(true)
    }

    async fn request_of(
        &self,
        id: &InstanceId,
        activity: Activity,
    ) -> Result<RunRequest, AgentRuntimeError> {
        let now = self.runtime().clock().now();
        activity.check(now)?;
        let (_, options) = self.instance(id).await?;
        let graph = options.graph.clone();
        let options = activity.run_options(options, now);
        Ok(RunRequest {
            principal: self.who.clone(),
            caller: self.caller()?,
            graph,
            thread: ThreadId::from(id),
            input: RunInput::Start { input: activity.input.unwrap_or_else(|| json!({})) },
            options,
        })
    }

    /// Returns the run that continues an activity after a run of it that ended at a question, in the
    /// same thread or in the one in which the activity was set aside. An answer is stored with its run.
    pub(super) async fn continuation(
        &self,
        activity: &RunRef,
        asked: &RunRef,
    ) -> Result<Option<RunRow>, StoreError> {
        let store = self.store();
        let continues = |run: &RunRow| run.new.options.activity.as_ref() == Some(activity);
        let runs = store.runs(&self.who, &asked.thread).await?;
        let mut after = runs.into_iter().skip_while(|run| run.new.at != *asked).skip(1);
        if let Some(next) = after.find(continues) {
            return Ok(Some(next));
        }
        match store.runs(&self.who, &Runtime::aside_of(&self.who, asked)).await {
            Ok(aside) => Ok(aside.into_iter().find(continues)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Executes the activities that wait for an instance in this process, as long as there are any.
    /// Returns at once. [`send`](Self::send) does the same.
    pub fn attend(&self, id: impl AsRef<InstanceId>) {
        self.runtime().attend(&self.who, &ThreadId::from(id.as_ref()));
    }
}

impl Sent {
    /// The activity: the thread of the instance, and the run.
    #[must_use]
    pub fn activity(&self) -> &RunRef {
        &self.at
    }

    /// Returns the run of the activity, in whichever process it is executed: its output, such as the
    /// text of an answer, and its end. The run that continues the activity after an answer is another
    /// one.
    ///
    /// # Errors
    /// W0645 if the graph of the instance is not hosted here; errors of the store.
    pub async fn run(&self) -> Result<StartedRun, AgentRuntimeError> {
        let run = self.agents.runtime().follow_run(&self.agents.who, &self.at).await;
        run.map_err(|error| of_runtime(self.at.thread.as_str(), error))
    }

    /// Waits until the activity has ended or waits for an answer or for a time, in whichever process it
    /// is executed. What follows an answer is part of the activity, also in the thread in which it was
    /// set aside. Activities that a terminated instance keeps do not end.
    ///
    /// # Errors
    /// The error of the activity: kinds `Failed`, `Panicked`, `Cancelled`, `TimedOut` and `StepLimit`,
    /// or an error of the agent runtime that a node returned; errors of the store.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the activity.
    pub async fn ended(&self) -> Result<ActivityEnd, AgentRuntimeError> {
        let mut last = self.at.clone();
        loop {
            let ended = self.agents.runtime().ended(&self.agents.who, &last).await;
            let outcome = ended.map_err(|error| of_runtime(self.at.thread.as_str(), error))?;
            if let Some(error) = AgentRuntimeError::of_outcome(self.at.run.as_str(), &outcome) {
                return Err(error);
            }
            if !matches!(outcome, RunOutcome::Interrupted { .. }) {
                return Ok(ActivityEnd::Succeeded);
            }
            let next = self.agents.continuation(&self.at, &last).await;
            match next.map_err(|error| of_store(self.at.thread.as_str(), error))? {
                Some(next) => last = next.new.at,
                None => return Ok(ActivityEnd::Asks),
            }
        }
    }
}
