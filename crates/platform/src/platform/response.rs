//! The answer to a request.

use super::{Checked, HostedAgents};
use crate::orchestration::PAUSE_KEY;
use crate::records::{Record, RecordError, RecordId, RecordKind, RecordRef, Version};
use crate::sub_agent::{FailedRequest, fault_in, led_to};
use serde_json::{Map, Value, json};
use weftwork_runtime::EndedRun;
use weftwork_store::StoreError;
use weftwork_types::Principal;
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{RunOutcome, RunRef};
use weftwork_types::task::{Mode, TaskResponse};

impl HostedAgents {
    /// The answer to a request whose run has ended.
    pub(crate) async fn response(
        &self,
        who: &Principal,
        checked: &Checked,
        ended: &EndedRun,
    ) -> TaskResponse {
        let run = ended.run();
        let mut metadata = ids_of(&checked.conversation, run);
        if let Ok(used) = self.runtime.used(who, run).await {
            metadata.insert("usage".to_owned(), json!(used));
        }
        match ended.outcome() {
            RunOutcome::Completed { output } => {
                let answer = output.get("answer").cloned().unwrap_or_default();
                if let Some(known) = answer.get("metadata").and_then(Value::as_object) {
                    metadata.extend(known.clone());
                }
                if let Some(fault) = fault_in(&answer) {
                    return failed(checked, run, &fault, metadata);
                }
                self.add_version(who, run, &mut metadata).await;
                let content = answer.get("content").cloned().unwrap_or_default();
                TaskResponse::success(checked.mode, content, metadata)
            }
            RunOutcome::Interrupted { .. } => {
                let questions: Vec<_> =
                    ended.questions().iter().map(|asked| json!(asked)).collect();
                let text = ended.questions().first().map(|asked| asked.ask.to_string());
                let approval = ended.questions().iter().find(|asked| asked.approval().is_some());
                if let Some(approval) = approval {
                    metadata.insert("approvalId".to_owned(), json!(approval.id));
                }
                let is_paused = |asked: &Interrupt| asked.key.as_deref() == Some(PAUSE_KEY);
                let status = match ended.questions().iter().any(is_paused) {
                    true => "paused",
                    false => "input_required",
                };
                metadata.insert("status".to_owned(), status.into());
                let report = self.report_waiting(who, &checked.agent, &run.thread).await;
                metadata.extend(report.unwrap_or_default());
                metadata.insert("questions".to_owned(), questions.into());
                TaskResponse::success(checked.mode, text.unwrap_or_default().into(), metadata)
            }
            RunOutcome::Failed { fault } => failed(checked, run, fault, metadata),
            other => {
                let error = format!("the run ended with the status {}", json!(other.status()));
                let response = TaskResponse::failure(checked.mode.name(), error);
                TaskResponse { metadata, ..response }
            }
        }
    }

    /// Adds the numbers of the versions that a run made, and warnings about those that it passed over.
    async fn add_version(&self, who: &Principal, run: &RunRef, metadata: &mut Map<String, Value>) {
        let given = metadata.get("warnings").and_then(Value::as_array).cloned();
        let mut warnings: Vec<Value> = given.unwrap_or_default();
        warnings.extend(self.other_version(who, metadata).map(Value::from));
        for kind in [RecordKind::Plan, RecordKind::Deliverable] {
            let Some(Value::Object(known)) = metadata.get_mut(kind.name()) else { continue };
            let id = known.get("id").cloned().unwrap_or_default();
            let Ok(named) = RecordId::new(id.as_str().unwrap_or_default()) else { continue };
            let at = RecordRef { kind, thread: run.thread.clone(), id: named };
            let record = match self.records(who).read(&at).await {
                Ok(record) => Some(record),
                Err(RecordError::Store(StoreError::NotFound { .. })) => None,
                Err(_) => continue,
            };
            let version = record.as_ref().and_then(|record| {
                let is_of_run = |version: &&Version| version.run.as_ref() == Some(&run.run);
                record.versions.iter().rev().find(is_of_run)
            });
            if let Some(version) = version {
                known.insert("version".to_owned(), version.number.into());
            }
            if record.is_none() {
                let id = id.as_str().unwrap_or_default();
                let kind = kind.name();
                let text = format!("{kind} `{id}` was deleted while the run made a version of it");
                warnings.push(Value::from(text));
            }
            // A person edited the record while the run made its version.
            let unmerged = record.as_ref().map(Record::unmerged);
            let unmerged = unmerged.unwrap_or_default();
            for number in unmerged {
                warnings.push(Value::from(format!(
                    "version {number} of {} `{}` is not part of the current one; merge the two, or make it current",
                    kind.name(),
                    id.as_str().unwrap_or_default()
                )));
            }
        }
        if !warnings.is_empty() {
            metadata.insert("warnings".to_owned(), json!(warnings));
        }
    }

    /// Says that a conversation goes on with another version than the current one.
    fn other_version(&self, who: &Principal, metadata: &Map<String, Value>) -> Option<String> {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let agent = text("agent")?;
        let version = text("version")?;
        let current = self.agents.definition(who, agent)?.version();
        (current != version).then(|| {
            format!(
                "the conversation goes on with version {version} of agent {agent}; new conversations get version {current}"
            )
        })
    }
}

/// Returns the ids that the answer to a request names.
pub(super) fn ids_of(conversation: &str, run: &RunRef) -> Map<String, Value> {
    Map::from_iter([
        ("conversationId".to_owned(), conversation.into()),
        ("thread".to_owned(), json!(run.thread)),
        ("run".to_owned(), json!(run.run)),
    ])
}

/// The answer to a request whose run failed. The last failure in it is that of the agent itself.
fn failed(
    checked: &Checked,
    run: &RunRef,
    fault: &Fault,
    mut metadata: Map<String, Value>,
) -> TaskResponse {
    let attempt = fault.details.as_ref().and_then(|details| details.attempt).unwrap_or(1);
    let Checked { agent, mode, .. } = checked;
    let request = FailedRequest { agent, step: mode.name(), attempt };
    let known = metadata.get("failures").and_then(Value::as_array).cloned();
    let led = || led_to(fault).iter().map(|failure| json!(failure)).collect();
    let mut failures = known.unwrap_or_else(led);
    failures.push(json!(request.failure(fault, Some(&run.run))));
    metadata.insert("failures".to_owned(), failures.into());
    failure(*mode, fault, metadata)
}

pub(super) fn failure(mode: Mode, fault: &Fault, metadata: Map<String, Value>) -> TaskResponse {
    failure_of(mode.name().to_owned(), fault, metadata)
}

/// The answer to a request that failed, with the code of the failure.
pub(super) fn failure_of(
    mode: String,
    fault: &Fault,
    mut metadata: Map<String, Value>,
) -> TaskResponse {
    metadata.insert("code".to_owned(), fault.code.clone().into());
    metadata.insert("retriable".to_owned(), fault.retriable.into());
    TaskResponse { metadata, ..TaskResponse::failure(mode, fault.message.clone()) }
}
