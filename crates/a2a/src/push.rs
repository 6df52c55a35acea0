//! Configurations of push notifications, as records of the store.
//!
//! They are the only state of this protocol beside the log: who is notified of a task, and how far. They
//! have secrets of the client, which no answer has.

use crate::error::{A2aError, Result, shorten};
use crate::task::TaskRuns;
use crate::wire::{Authentication, PushConfig};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use weftwork_server::TurnSource;
use weftwork_store::{
    Content, Sequence, SequenceQuery, SequenceRow, SequenceWrite, Store, StoreError,
};
use weftwork_types::port::CheckUrl;
use weftwork_types::{Principal, Timestamp};

/// Kind of the sequences of configurations; the key is an organisation, a task and an id.
const CONFIGS: &str = "a2a_push";
/// Version of the form of the records.
const FORMAT: u32 = 1;
/// Maximum number of configurations of a task.
pub(crate) const CONFIGS_MAX: usize = 10;
const ID_CHARS_MAX: usize = 128;
const URL_BYTES_MAX: usize = 2_048;
const SECRET_BYTES_MAX: usize = 4_096;

/// A configuration as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredPush {
    /// Client that made it, on behalf of whom the task is read.
    pub(crate) who: Principal,
    pub(crate) agent: String,
    pub(crate) config: PushConfig,
    /// Number of the runs of the task all of whose updates were delivered.
    pub(crate) runs: usize,
    /// Number of the updates of the next run that were delivered.
    pub(crate) updates: usize,
    /// `true` if nothing more is delivered.
    pub(crate) is_over: bool,
    /// Process that delivers, and the time until which no other one does.
    pub(crate) holder: Option<String>,
    pub(crate) held_until: Timestamp,
}

/// The store of the configurations, and the client that sends notifications.
#[derive(Debug, Clone)]
pub(crate) struct Pushes {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) egress: Arc<dyn CheckUrl>,
}

/// A configuration with the version of its record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) push: StoredPush,
    pub(crate) version: u64,
}

fn sequence_of(who: &Principal, task: &str, id: &str) -> Sequence {
    Sequence::new(CONFIGS, format!("{}/{task}/{id}", who.org))
}

fn of_store(error: StoreError) -> A2aError {
    A2aError::of_fault(error.fault())
}

/// The principal of the records: the task has been checked before.
fn server() -> Principal {
    Principal::of_workers()
}

impl Pushes {
    /// Checks a configuration before anything is stored.
    ///
    /// # Errors
    /// An error that names the member, and not its value if that is secret.
    pub(crate) fn check(&self, config: &PushConfig) -> Result<()> {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if config.id.len() > ID_CHARS_MAX || !config.id.bytes().all(is_id) {
            let expected = "at most 128 letters, digits and `_.:-`";
            return Err(A2aError::wrong("id", &config.id, expected));
        }
        if config.url.len() > URL_BYTES_MAX {
            let found = format!("a text of {} bytes", config.url.len());
            return Err(A2aError::wrong("url", &found, "at most 2048"));
        }
        self.egress.check_url(&config.url).map_err(|error| {
            A2aError::invalid("url", format!("`url` cannot be notified: {}", shorten_url(&error)))
        })?;
        check_secret("token", &config.token)?;
        if let Some(Authentication { scheme, credentials }) = &config.authentication {
            let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if scheme.is_empty() || !scheme.bytes().all(is_scheme) {
                let expected = "a scheme of HTTP, such as Bearer";
                return Err(A2aError::wrong("authentication.scheme", scheme, expected));
            }
            check_secret("authentication.credentials", credentials)?;
        }
        Ok(())
    }

    /// Stores a configuration, in place of one with its id.
    ///
    /// # Errors
    /// An error for a task with too many of them, and those of the store.
    pub(crate) async fn put(
        &self,
        source: &TurnSource,
        who: &Principal,
        task: &TaskRuns,
        runs: usize,
        config: PushConfig,
    ) -> Result<PushConfig> {
        let mut config = config;
        config.task_id = task.id();
        if config.id.is_empty() {
            config.id = uuid::Uuid::from_u128(source.clock.unique()).to_string();
        }
        let known = self.list(who, &config.task_id).await?;
        let is_new = known.iter().all(|found| found.push.config.id != config.id);
        if is_new && known.len() >= CONFIGS_MAX {
            let message =
                format!("the task has {CONFIGS_MAX} configurations, which is the maximum");
            return Err(A2aError::invalid("id", message));
        }
        let status = task.status(&*source.platform, who).await?;
        let push = StoredPush {
            who: who.clone(),
            agent: task.chain.first().agent.clone(),
            config: config.clone(),
            runs,
            updates: 0,
            is_over: status.state.is_terminal() && runs >= task.ended(),
            holder: None,
            held_until: Timestamp(0),
        };
        let to = sequence_of(who, &config.task_id, &config.id);
        let content = Content::json(FORMAT, &push).map_err(of_store)?;
        let write = vec![SequenceWrite::replace(to, content)];
        let now = source.clock.now();
        self.store.write_sequences(&server(), write, now).await.map_err(of_store)?;
        source.changed.notify_waiters();
        Ok(config)
    }

    /// Returns a configuration of a task.
    ///
    /// # Errors
    /// An error if there is none, and those of the store.
    pub(crate) async fn read(&self, who: &Principal, task: &str, id: &str) -> Result<Found> {
        let found = self.list(who, task).await?;
        let mut found = found.into_iter().filter(|found| found.push.config.id == id);
        found.next().ok_or_else(A2aError::config_missing)
    }

    /// Returns the configurations of a task, ordered by id.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn list(&self, who: &Principal, task: &str) -> Result<Vec<Found>> {
        let first = sequence_of(who, task, "").key;
        let last = Some(format!("{first}~"));
        let query = SequenceQuery { first, last, ..SequenceQuery::all(CONFIGS) };
        let rows = self.store.sequence_rows(&server(), query).await.map_err(of_store)?;
        rows.iter().map(|row| read_row(row).map_err(of_store)).collect()
    }

    /// Returns all configurations of which something may be delivered.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn pending(&self) -> Result<Vec<Found>, StoreError> {
        let mut query = SequenceQuery::all(CONFIGS);
        let mut pending = Vec::new();
        loop {
            let rows = self.store.sequence_rows(&server(), query.clone()).await?;
            let Some(last) = rows.last() else { return Ok(pending) };
            query = query.following(last);
            for row in &rows {
                match read_row(row) {
                    Ok(found) if found.push.is_over => {}
                    Ok(found) => pending.push(found),
                    Err(error) => {
                        tracing::warn!(%error, "a push notification configuration cannot be read");
                    }
                }
            }
        }
    }

    /// Writes the progress of deliveries.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the configuration was changed or deleted meanwhile, and other errors
    /// of the store.
    pub(crate) async fn update(&self, found: &mut Found, now: Timestamp) -> Result<(), StoreError> {
        let Found { push, version } = found;
        let to = sequence_of(&push.who, &push.config.task_id, &push.config.id);
        let write = SequenceWrite::replace(to, Content::json(FORMAT, push)?).expecting(*version);
        self.store.write_sequences(&server(), vec![write], now).await?;
        *version += 1;
        Ok(())
    }

    /// Deletes a configuration; one that does not exist stays so.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn delete(
        &self,
        who: &Principal,
        task: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<()> {
        let Ok(found) = self.read(who, task, id).await else { return Ok(()) };
        let to = sequence_of(who, task, id);
        let content = Content::json(FORMAT, &found.push).map_err(of_store)?;
        // The first write takes the version from a process that delivers, which would write the record
        // again.
        let writes = vec![
            SequenceWrite::replace(to.clone(), content),
            SequenceWrite::delete(to, i64::MAX as u64),
        ];
        self.store.write_sequences(&server(), writes, now).await.map_err(of_store)
    }
}

fn read_row(row: &SequenceRow) -> Result<Found, StoreError> {
    Ok(Found { push: row.json()?, version: row.version })
}

/// Returns a configuration as answers have it: without secrets.
pub(crate) fn shown(config: PushConfig) -> PushConfig {
    let authentication = config
        .authentication
        .map(|of| Authentication { scheme: of.scheme, credentials: String::new() });
    PushConfig { token: String::new(), authentication, ..config }
}

fn check_secret(field: &str, secret: &str) -> Result<()> {
    let is_visible = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    if secret.len() > SECRET_BYTES_MAX || !secret.bytes().all(is_visible) {
        let message = format!(
            "`{field}` has {} bytes; expected at most {SECRET_BYTES_MAX}, visible characters of ASCII",
            secret.len()
        );
        return Err(A2aError::invalid(field, message));
    }
    Ok(())
}

/// The text of an error about an address, cut.
fn shorten_url(error: &weftwork_types::port::EgressError) -> String {
    // A client learns nothing of the configuration.
    let text = error.to_string();
    let text = text.split("; allow the host").next().unwrap_or_default();
    shorten(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_configuration_is_shown_without_its_secrets() {
        let config: PushConfig = serde_json::from_value(json!({
            "id": "a", "taskId": "t", "url": "https://example.com", "token": "s3cret",
            "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
        }))
        .expect("is read");
        let shown = json!(shown(config));
        assert_eq!(
            shown,
            json!({
                "id": "a", "taskId": "t", "url": "https://example.com",
                "authentication": {"scheme": "Bearer"},
            })
        );
    }

    #[test]
    fn the_stored_form_is_this_one() {
        let who = Principal::new(weftwork_types::OrgId::new("acme").expect("an id"), "ada");
        let push = StoredPush {
            who,
            agent: "golf".to_owned(),
            config: PushConfig {
                id: "a".to_owned(),
                task_id: "t".to_owned(),
                url: "https://example.com".to_owned(),
                token: "s".to_owned(),
                authentication: None,
                tenant: String::new(),
            },
            runs: 1,
            updates: 2,
            is_over: false,
            holder: Some("h".to_owned()),
            held_until: Timestamp(5),
        };
        let stored = json!({
            "who": {"org": "acme", "subject": "ada"},
            "agent": "golf",
            "config": {"id": "a", "taskId": "t", "url": "https://example.com", "token": "s"},
            "runs": 1, "updates": 2, "is_over": false, "holder": "h", "held_until": 5,
        });
        assert_eq!(json!(push), stored);
        assert_eq!(serde_json::from_value::<StoredPush>(stored).expect("is read"), push);
    }
}
