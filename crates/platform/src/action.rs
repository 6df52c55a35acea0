//! Actions on plans and deliverables, through the modes `plan` and `build`.

use crate::mode::RequestError;
use crate::records::{
    Edit, Form, Merge, NewVersion, Record, RecordError, RecordId, RecordKind, RecordRef, Records,
    VersionContent,
};
use serde_json::{Value, json};
use weftwork_types::ThreadId;
use weftwork_types::code::Fault;
use weftwork_types::task::{Mode, Payload};

/// Names of all actions.
const NAMES: &str = "create, read, list, edit, rerun, set_current, copy_version, delete_version, merge_versions, delete";

/// The part of a mode that a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A run of the agent.
    Run,
    /// A run that makes a further version of a record.
    Again,
    /// A read or a change of records, without a run.
    Record(RecordAction),
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
        if kind_of(mode).is_none() {
            return Err(unknown("none in the mode converse"));
        }
        Ok(match name {
            // A content that the request has needs no model.
            "create" if payload.content.is_none() => Self::Run,
            "create" => Self::Record(RecordAction::Create),
            "rerun" => Self::Again,
            "read" => Self::Record(RecordAction::Read),
            "list" => Self::Record(RecordAction::List),
            "edit" => Self::Record(RecordAction::Edit),
            "set_current" => Self::Record(RecordAction::SetCurrent),
            "copy_version" => Self::Record(RecordAction::CopyVersion),
            "delete_version" => Self::Record(RecordAction::DeleteVersion),
            "merge_versions" => Self::Record(RecordAction::MergeVersions),
            "delete" => Self::Record(RecordAction::Delete),
            _ => return Err(unknown(NAMES)),
        })
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

/// Reads or changes records.
pub(crate) async fn act(
    records: &Records<'_>,
    kind: RecordKind,
    action: Action,
    thread: &ThreadId,
    payload: &Payload,
    new_id: RecordId,
    forms: Forms<'_>,
) -> Result<Value, ActionError> {
    let Action::Record(action) = action else { return Ok(Value::Null) };
    if action == RecordAction::List {
        let all = records.list(kind, thread).await?;
        return Ok(all.iter().map(|record| json!(record)).collect());
    }
    if action == RecordAction::Create {
        let id = id_of(kind, payload).unwrap_or(new_id);
        let at = RecordRef { kind, thread: thread.clone(), id };
        let new = NewVersion {
            title: payload.title.clone().unwrap_or_default(),
            content: content_of(payload),
            agent: forms.agent.map(str::to_owned),
            ..NewVersion::default()
        };
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
    let agent = record.current_version()?.agent.clone();
    let form = (forms.of)(agent.as_deref())?;
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
