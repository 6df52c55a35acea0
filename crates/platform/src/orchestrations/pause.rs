//! Pausing and resuming.

use super::error::OrchestrationError;
use super::is_orchestration;
use crate::definition::parse_duration;
use crate::mode::RequestError;
use crate::orchestration::{PAUSE_KEY, Pause, ReadPause, find_pause, hash_token, root_of};
use crate::platform::HostedAgents;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use weftwork_runtime::{EndedRun, Thread};
use weftwork_store::StoreError;
use weftwork_types::port::TaskCaller;
use weftwork_types::run::Answers;
use weftwork_types::task::Payload;
use weftwork_types::{RunId, random_token};

type Result<T> = std::result::Result<T, OrchestrationError>;

/// Longest time, and the usual one, in which the token of a pause is taken: 7 days.
const TOKEN_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl HostedAgents {
    /// Pauses an orchestration that has not ended, and returns the token that resumes it.
    pub(crate) async fn pause(
        &self,
        by: &TaskCaller,
        payload: &Payload,
        runs: &Thread,
    ) -> Result<Value> {
        let who = &by.principal;
        let time = token_time(payload)?;
        let run = self.orchestration_under_way(by, runs, "pause").await?;
        let store = &**self.runtime().store();
        let now = self.runtime().clock().now();
        let read = ReadPause::of(store, who, runs.id()).await?;
        // Otherwise everybody who may pause could make the token of the one who did void.
        if let Some(Pause { by, expires_at, .. }) = &read.pause
            && read.pause.as_ref().is_some_and(|pause| pause.holds(&run))
            && *by != who.subject
            && now < *expires_at
        {
            return Err(OrchestrationError::Paused { by: by.clone(), expires_at: *expires_at });
        }
        let token = random_token();
        let pause = Pause {
            token: hash_token(&token, who, runs.id()),
            run,
            by: who.subject.clone(),
            at: now,
            expires_at: now.plus(time),
            resumed_at: None,
        };
        read.replace(store, who, runs.id(), &pause, now).await?;
        Ok(json!({"token": token, "expiresAt": pause.expires_at}))
    }

    /// Uses the token of a pause, and lets the orchestration go on. A token that is not taken changes
    /// nothing, and the refusal does not say why.
    pub(crate) async fn resume_paused(
        &self,
        by: &TaskCaller,
        payload: &Payload,
        runs: &Thread,
    ) -> Result<EndedRun> {
        let who = &by.principal;
        let store = &**self.runtime().store();
        let now = self.runtime().clock().now();
        let token = payload.token.as_deref().ok_or(OrchestrationError::Token)?;
        let read = ReadPause::of(store, who, runs.id()).await?;
        let pause = read.pause.clone().ok_or(OrchestrationError::Token)?;
        let root = root_of(store.runs(who, runs.id()).await?);
        let is_taken = pause.token == hash_token(token, who, runs.id())
            && now < pause.expires_at
            && root.is_some_and(|row| pause.holds(&row.new.at.run));
        if !is_taken {
            return Err(OrchestrationError::Token);
        }
        let used = Pause { resumed_at: Some(now), ..pause };
        match read.replace(store, who, runs.id(), &used, now).await {
            // Of two requests with the token, one uses it.
            Err(StoreError::Conflict { .. }) => return Err(OrchestrationError::Token),
            replaced => replaced?,
        }
        self.release(by, runs).await
    }

    /// Refuses an action on an orchestration that is paused.
    pub(crate) async fn check_paused(&self, by: &TaskCaller, runs: &Thread) -> Result<()> {
        let store = &**self.runtime().store();
        match find_pause(store, &by.principal, runs.id()).await? {
            None => Ok(()),
            Some(Pause { by, expires_at, .. }) => {
                Err(OrchestrationError::Paused { by, expires_at })
            }
        }
    }

    /// Lets an orchestration go on that waits at a pause which has ended, or that stopped.
    pub(crate) async fn release(&self, by: &TaskCaller, runs: &Thread) -> Result<EndedRun> {
        if !is_held(runs).await? {
            return self.finish(runs).await;
        }
        let answers = BTreeMap::from([(PAUSE_KEY.to_owned(), json!(true))]);
        let answer = runs.answer(Answers::ByKey(answers)).caller(by.caller.clone());
        let answer = answer.parent_span(by.parent_span.clone());
        Ok(answer.begin().await?.await)
    }

    /// Returns the run that began the orchestration of a thread which has not ended.
    async fn orchestration_under_way(
        &self,
        by: &TaskCaller,
        runs: &Thread,
        action: &'static str,
    ) -> Result<RunId> {
        let nothing =
            |reason: &str| OrchestrationError::Nothing { action, reason: reason.to_owned() };
        let rows = match self.runtime().store().runs(&by.principal, runs.id()).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            rows => rows?,
        };
        let is_active = rows.iter().any(|row| !row.status.is_final());
        let root = root_of(rows).filter(|row| is_orchestration(&row.new.input));
        let root = root.ok_or_else(|| nothing("its last request began none"))?;
        let has_ended = !is_active && runs.state().await?.values["orchestration"].is_null();
        match has_ended {
            true => Err(nothing("it has ended")),
            false => Ok(root.new.at.run),
        }
    }
}

impl Pause {
    /// Returns `true` if it holds the orchestration that a run began.
    fn holds(&self, root: &RunId) -> bool {
        self.resumed_at.is_none() && self.run == *root
    }
}

/// Returns `true` if the orchestration waits at a pause.
pub(crate) async fn is_held(runs: &Thread) -> Result<bool> {
    let questions = runs.questions().await?;
    Ok(questions.iter().any(|question| question.key.as_deref() == Some(PAUSE_KEY)))
}

/// Returns the time in which the token of a pause is taken.
fn token_time(payload: &Payload) -> Result<Duration> {
    let Some(text) = payload.expires_in.as_deref() else { return Ok(TOKEN_TIME_MAX) };
    let time = parse_duration(text).unwrap_or_default();
    if time.is_zero() || time > TOKEN_TIME_MAX {
        let wrong = RequestError::Member {
            member: "payload.expiresIn",
            found: format!("`{text}`"),
            expected: "a time from `1ms` to `7d`".to_owned(),
        };
        return Err(wrong.fault().into());
    }
    Ok(time)
}
