//! The delivery of push notifications.
//!
//! Updates of a task are delivered in their order, each at least once. Each update that was delivered is
//! recorded, so that another process, or this one after a restart, continues after it.

use crate::error::A2aError;
use crate::follow::{Follower, Until};
use crate::push::{Found, Pushes};
use crate::reader::Update;
use crate::stream::Events;
use crate::task::TaskRuns;
use crate::wire::StreamResponse;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;
use weftwork_server::TurnSource;
use weftwork_store::StoreError;
use weftwork_types::port::{EgressRequest, Method, Redirects};

/// Time after which the configurations are read again.
const SWEEP: Duration = Duration::from_secs(5);
/// Time for which a process holds a configuration, and interval at which it renews the hold.
const HOLD: Duration = Duration::from_secs(60);
const RENEW: Duration = Duration::from_secs(20);
/// Maximum number of configurations that a process delivers at a time.
const DELIVERIES_MAX: usize = 256;
/// Number of attempts at an update, after which nothing more is delivered.
const ATTEMPTS_MAX: u32 = 8;
/// Wait after the first attempt; it doubles.
const BACKOFF: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(15);
/// Header with the token of a configuration.
const TOKEN: &str = "x-a2a-notification-token";

/// The delivery of push notifications of a server.
#[derive(Debug)]
pub struct Deliveries {
    pub(crate) source: TurnSource,
    pub(crate) pushes: Pushes,
}

/// The end of the work at a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All that the task has was delivered.
    Done,
    /// Another process has it, or a client changed it.
    Lost,
}

impl Deliveries {
    /// Delivers until the future is dropped.
    ///
    /// # Cancel safety
    /// A notification that was sent may be sent again.
    pub async fn run(self) {
        let me = uuid::Uuid::from_u128(self.source.clock.unique()).to_string();
        let mut at_work = BTreeSet::new();
        let mut jobs = FuturesUnordered::new();
        loop {
            let mut changed = pin!(self.source.changed.notified());
            changed.as_mut().enable();
            match self.due(&me, &at_work, DELIVERIES_MAX.saturating_sub(jobs.len())).await {
                Ok(due) => {
                    for found in due {
                        let name = name_of(&found);
                        at_work.insert(name.clone());
                        jobs.push(self.deliver_all(found).map(move |()| name));
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "push notifications are delayed");
                }
            }
            let wait = select(changed, self.source.clock.sleep(SWEEP));
            if jobs.is_empty() {
                wait.await;
            } else if let Either::Left((Some(name), _)) = select(jobs.next(), wait).await {
                at_work.remove(&name);
            }
        }
    }

    /// Takes configurations of which something can be delivered.
    async fn due(
        &self,
        me: &str,
        at_work: &BTreeSet<String>,
        limit: usize,
    ) -> Result<Vec<Found>, StoreError> {
        let mut due = Vec::new();
        for mut found in self.pushes.pending().await? {
            if due.len() >= limit {
                break;
            }
            let now = self.source.clock.now();
            let is_held = found.push.held_until > now && found.push.holder.as_deref() != Some(me);
            if is_held || at_work.contains(&name_of(&found)) || !self.has_more(&mut found).await {
                continue;
            }
            found.push.holder = Some(me.to_owned());
            found.push.held_until = now.plus(HOLD);
            match self.pushes.update(&mut found, now).await {
                Ok(()) => due.push(found),
                // Another process was faster.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(due)
    }

    async fn task_of(&self, found: &Found) -> Result<TaskRuns, A2aError> {
        let push = &found.push;
        TaskRuns::find(&*self.source.platform, &push.who, &push.agent, &push.config.task_id).await
    }

    /// Returns `true` if the task has a run that was not delivered, or was cancelled. A configuration
    /// whose task was deleted is deleted too.
    async fn has_more(&self, found: &mut Found) -> bool {
        match self.task_of(found).await {
            Ok(task) => {
                task.chain.count() > found.push.runs || task.chain.rolled_back_at().is_some()
            }
            Err(error) if error.is_missing() => {
                let push = &found.push;
                let now = self.source.clock.now();
                let config = &push.config;
                let deleted = self.pushes.delete(&push.who, &config.task_id, &config.id, now).await;
                if deleted.is_err() {
                    tracing::warn!("the configuration of a deleted task is deleted later");
                }
                false
            }
            Err(_) => false,
        }
    }

    async fn deliver_all(&self, mut found: Found) {
        if self.deliver_task(&mut found).await == Ok(End::Lost) {
            return;
        }
        found.push.holder = None;
        found.push.held_until = weftwork_types::Timestamp(0);
        if let Err(error) = self.pushes.update(&mut found, self.source.clock.now()).await {
            tracing::debug!(%error, "a push notification configuration was changed meanwhile");
        }
    }

    /// Delivers the updates of a task until it waits or has ended.
    async fn deliver_task(&self, found: &mut Found) -> Result<End, A2aError> {
        let task = self.task_of(found).await?;
        let events = Events::of(&task);
        let done = found.push.runs;
        let who = found.push.who.clone();
        let mut follower = Follower::new(self.source.clone(), who, task, done, Until::Asks);
        let mut seen = 0;
        loop {
            let update = {
                let mut next = pin!(follower.next());
                loop {
                    match select(next, self.source.clock.sleep(RENEW)).await {
                        Either::Left((update, _)) => break update?,
                        Either::Right(((), again)) => next = again,
                    }
                    if self.hold(found).await.is_err() {
                        return Ok(End::Lost);
                    }
                }
            };
            let Some(update) = update else { return Ok(End::Done) };
            let Some(event) = notified(&events, &update) else { continue };
            seen += 1;
            if seen > found.push.updates {
                if !self.deliver(found, &event).await {
                    found.push.is_over = true;
                    return Ok(End::Done);
                }
                found.push.updates = seen;
            }
            found.push.is_over = update.ends().is_some_and(|status| status.state.is_terminal());
            if let Some(done) = follower.completed() {
                found.push.runs = done;
                found.push.updates = 0;
                seen = 0;
            }
            if self.hold(found).await.is_err() {
                return Ok(End::Lost);
            }
        }
    }

    async fn hold(&self, found: &mut Found) -> Result<(), StoreError> {
        let now = self.source.clock.now();
        found.push.held_until = now.plus(HOLD);
        self.pushes.update(found, now).await
    }

    /// Sends an update, again after a wait if that may help. Returns `false` if it was not taken.
    async fn deliver(&self, found: &mut Found, event: &StreamResponse) -> bool {
        let body = Bytes::from(json!(event).to_string());
        let mut wait = BACKOFF;
        for attempt in 1..=ATTEMPTS_MAX {
            match self.send(found, body.clone()).await {
                Sent::Taken => return true,
                Sent::Refused(reason) => {
                    tracing::warn!(reason, attempt, "a push notification was refused");
                    return false;
                }
                Sent::Failed(reason) => {
                    tracing::warn!(reason, attempt, "a push notification failed");
                }
            }
            if attempt < ATTEMPTS_MAX {
                self.source.clock.sleep(wait).await;
                wait = wait.saturating_mul(2);
                if self.hold(found).await.is_err() {
                    return false;
                }
            }
        }
        false
    }

    async fn send(&self, found: &Found, body: Bytes) -> Sent {
        let config = &found.push.config;
        let mut request = EgressRequest::new(Method::Post, config.url.as_str());
        let header = |name: &str, value: String| (name.to_owned(), value);
        request.headers.push(header("content-type", "application/a2a+json".to_owned()));
        if !config.token.is_empty() {
            request.headers.push(header(TOKEN, config.token.clone()));
        }
        if let Some(of) = &config.authentication {
            let value = format!("{} {}", of.scheme, of.credentials);
            request.headers.push(header("authorization", value.trim().to_owned()));
        }
        request.body = body;
        request.head_timeout = TIMEOUT;
        request.idle_timeout = TIMEOUT;
        request.body_max = Some(0);
        request.redirects = Redirects::Return;
        match self.pushes.egress.send(request).await {
            Ok(response) => match response.status {
                200..=299 => Sent::Taken,
                status @ (408 | 425 | 429 | 500..=599) => Sent::Failed(format!("status {status}")),
                status => Sent::Refused(format!("status {status}")),
            },
            // The text of an error has the address, which may have a secret.
            Err(error) if error.is_retriable() => Sent::Failed(error.code().to_string()),
            Err(error) => Sent::Refused(error.code().to_string()),
        }
    }
}

/// The outcome of an attempt.
enum Sent {
    Taken,
    /// A further attempt may succeed.
    Failed(String),
    Refused(String),
}

fn name_of(found: &Found) -> String {
    let push = &found.push;
    format!("{}/{}/{}", push.who.org, push.config.task_id, push.config.id)
}

/// The event of an update that is delivered: a status, or a complete artifact.
fn notified(events: &Events, update: &Update) -> Option<StreamResponse> {
    match update {
        Update::Status(_) => Some(events.of_update(update.clone())),
        Update::Artifact { whole, .. } => {
            let artifact = whole.clone()?;
            let whole = None;
            Some(events.of_update(Update::Artifact { artifact, append: false, last: true, whole }))
        }
    }
}
