//! Actions on plans and deliverables, through the modes `plan` and `build`.

use crate::mode::{OrchestrationAction, RequestError};
use crate::records::{
    Author, Edit, Form, Merge, NewVersion, ORCHESTRATION, Record, RecordError, RecordId,
    RecordKind, RecordRef, Records, VersionContent, version_writes,
};
use serde_json::{Value, json};
use weftwork_store::StoreError;
use weftwork_types::code::Fault;
use weftwork_types::task::{Mode, Payload};
use weftwork_types::{ThreadId, Timestamp};

/// Names of all actions.
const NAMES: &str = "create, read, list, edit, rerun, set_current, copy_version, delete_version, merge_versions, delete";

/// The part of a mode that a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A run of the agent.
    Run,
    /// A run that makes a further version of a record of this kind.
    Again(RecordKind),
    /// A read or a change of records of this kind, without a run.
    Record(RecordKind, RecordAction),
    /// An action on an orchestration that began.
    Orchestration(OrchestrationAction),
}

/// A read or a change of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordAction {
    Create,
    Read,
    List,
    Edit,
    SetCurrent,
    CopyVersion,
    DeleteVersion,
    MergeVersions,
    Delete,
}

impl Action {
    /// Returns the action of a request.
    pub(crate) fn of(mode: Mode, payload: &Payload) -> Result<Self, RequestError> {
        let Some(name) = payload.action.as_deref() else { return Ok(Self::Run) };
        let unknown = |expected| RequestError::Action { action: name.to_owned(), expected };
        let Some(kind) = kind_of(mode) else {
            return Err(unknown("none in the mode converse; name the mode plan or build"));
        };
        let action = match name {
            // A content that the request has needs no model.
            "create" if payload.content.is_none() => return Ok(Self::Run),
            "rerun" => return Ok(Self::Again(kind)),
            "create" => RecordAction::Create,
            "read" => RecordAction::Read,
            "list" => RecordAction::List,
            "edit" => RecordAction::Edit,
            "set_current" => RecordAction::SetCurrent,
            "copy_version" => RecordAction::CopyVersion,
            "delete_version" => RecordAction::DeleteVersion,
            "merge_versions" => RecordAction::MergeVersions,
            "delete" => RecordAction::Delete,
            _ => return Err(unknown(NAMES)),
        };
        Ok(Self::Record(kind, action))
    }
}

/// An action that was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ActionError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl ActionError {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Record(error) => error.fault(),
            Self::Request(error) => error.fault(),
        }
    }
}

/// Returns the kind of the records of a mode.
pub(crate) fn kind_of(mode: Mode) -> Option<RecordKind> {
    match mode {
        Mode::Plan => Some(RecordKind::Plan),
        Mode::Build => Some(RecordKind::Deliverable),
        _ => None,
    }
}

/// Returns the id of the record that a request names.
pub(crate) fn id_of(kind: RecordKind, payload: &Payload) -> Result<RecordId, RequestError> {
    let member = match kind {
        RecordKind::Plan => "planId",
        RecordKind::Deliverable => "deliverableId",
    };
    let id = match kind {
        RecordKind::Plan => payload.plan_id.as_deref(),
        RecordKind::Deliverable => payload.deliverable_id.as_deref(),
    };
    let wrong = |found: String| RequestError::Member {
        member,
        found,
        expected: format!("the id of a {}", kind.name()),
    };
    let id = id.ok_or_else(|| wrong("missing".to_owned()))?;
    RecordId::new(id).map_err(|error| wrong(error.to_string()))
}

/// The forms of records.
#[derive(Clone, Copy)]
pub(crate) struct Forms<'a> {
    /// Agent that a new record belongs to.
    pub(crate) agent: Option<&'a str>,
    /// Function that returns the form of the records of an agent.
    pub(crate) of: &'a (dyn Fn(Option<&str>) -> Result<Form, RecordError> + Sync),
}

/// A record to be created.
struct NewRecord {
    at: RecordRef,
    new: NewVersion,
}

impl NewRecord {
    fn of(
        kind: RecordKind,
        thread: &ThreadId,
        payload: &Payload,
        new_id: &RecordId,
        forms: Forms<'_>,
    ) -> Self {
        let id = id_of(kind, payload).unwrap_or_else(|_| new_id.clone());
        let new = NewVersion {
            title: payload.title.clone().unwrap_or_default(),
            content: content_of(payload),
            agent: forms.agent.map(str::to_owned),
            ..NewVersion::default()
        };
        Self { at: RecordRef { kind, thread: thread.clone(), id }, new }
    }
}

/// Checks a record to be created, before there is a conversation for it.
pub(crate) fn check_create(
    kind: RecordKind,
    thread: &ThreadId,
    payload: &Payload,
    new_id: &RecordId,
    forms: Forms<'_>,
) -> Result<(), ActionError> {
    let NewRecord { at, new } = NewRecord::of(kind, thread, payload, new_id, forms);
    let author = Author { subject: "", at: Timestamp(0), unique: "" };
    version_writes(&at, &new, &(forms.of)(forms.agent)?, author)?;
    Ok(())
}

/// Reads or changes records.
pub(crate) async fn act(
    records: &Records<'_>,
    kind: RecordKind,
    action: RecordAction,
    thread: &ThreadId,
    payload: &Payload,
    new_id: RecordId,
    forms: Forms<'_>,
) -> Result<Value, ActionError> {
    if action == RecordAction::List {
        let all = records.list(kind, thread).await?;
        return Ok(all.iter().map(|record| json!(record)).collect());
    }
    if action == RecordAction::Create {
        let NewRecord { at, new } = NewRecord::of(kind, thread, payload, &new_id, forms);
        // The new id of a request that is repeated is that of the record which it made before.
        if at.id == new_id
            && let Some(record) = found(records.read(&at).await)?
        {
            return shown(records, &record, None).await;
        }
        let record = records.create(&at, &new, &(forms.of)(forms.agent)?).await?;
        return shown(records, &record, None).await;
    }
    let id = id_of(kind, payload)?;
    let at = RecordRef { kind, thread: thread.clone(), id };
    let version = payload.version;
    let needed = || {
        version.ok_or_else(|| RequestError::Member {
            member: "version",
            found: "missing".to_owned(),
            expected: "the number of a version".to_owned(),
        })
    };
    let record = records.read(&at).await?;
    let current = record.current_version()?;
    let form = match current.kind.as_deref() {
        Some(ORCHESTRATION) if kind == RecordKind::Plan => Form::of_orchestration(),
        _ => (forms.of)(current.agent.as_deref())?,
    };
    let adds = matches!(
        action,
        RecordAction::Edit | RecordAction::CopyVersion | RecordAction::MergeVersions
    );
    // A request that is repeated has the version that it added before.
    if let Some(added) = records.added_under_key(&record).filter(|_| adds) {
        return shown(records, &record, Some(added)).await;
    }
    let record = match action {
        RecordAction::Read => return shown(records, &record, version).await,
        RecordAction::Edit => {
            let title = payload.title.clone();
            let edit = Edit { base: version, title, content: content_of(payload) };
            records.edit(&at, &edit, &form).await?
        }
        RecordAction::SetCurrent => records.set_current(&at, needed()?).await?,
        RecordAction::CopyVersion => records.copy_version(&at, needed()?).await?,
        RecordAction::DeleteVersion => records.delete_version(&at, needed()?).await?,
        RecordAction::MergeVersions => {
            let other = payload.other_version.ok_or_else(|| RequestError::Member {
                member: "otherVersion",
                found: "missing".to_owned(),
                expected: "the number of the version to merge".to_owned(),
            })?;
            let resolution = payload.content.is_some().then(|| content_of(payload));
            let merge = Merge { a: needed()?, b: other, resolution };
            records.merge_versions(&at, &merge, &form).await?
        }
        RecordAction::Delete => {
            records.delete(&at).await?;
            return Ok(json!({"id": at.id, "deleted": true}));
        }
        RecordAction::Create | RecordAction::List => record,
    };
    shown(records, &record, None).await
}

/// A record that may not exist.
fn found(read: Result<Record, RecordError>) -> Result<Option<Record>, RecordError> {
    match read {
        Ok(record) => Ok(Some(record)),
        Err(RecordError::Store(StoreError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The content of a request: a text as it is, another value as JSON.
fn content_of(payload: &Payload) -> String {
    match &payload.content {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

/// A record with the content of a version; of the current one if none is named.
async fn shown(
    records: &Records<'_>,
    record: &Record,
    version: Option<u64>,
) -> Result<Value, ActionError> {
    let VersionContent { version, content } = records.content(record, version).await?;
    let mut value = json!(record);
    value["version"] = json!(version);
    value["content"] = content.into();
    Ok(value)
}
