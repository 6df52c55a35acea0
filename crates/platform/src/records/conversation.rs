//! Conversations: threads with the id that a client chose for them.

use super::Result;
use super::action::Records;
use super::error::RecordError;
use super::record::{Record, RecordKind};
use super::version::check_length;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::{Builder, Uuid};
use weftwork_store::thread::{Direction, ThreadKey, is_of_other};
use weftwork_store::{
    IfExists, NewThread, SearchFrom, Store, StoreError, ThreadCursor, ThreadOrder, ThreadQuery,
    ThreadRow,
};
use weftwork_types::canonical;
use weftwork_types::{Principal, ThreadId, Timestamp};

pub use weftwork_store::thread::CONVERSATION;
/// Maximum length of the id of a conversation in bytes.
const ID_BYTES_MAX: usize = 512;

/// A conversation to be opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewConversation {
    /// Id that the client chose: any text of at most 512 bytes.
    pub id: String,
    /// Title.
    pub title: Option<String>,
    /// Agent.
    pub agent: Option<String>,
    /// Graph of the thread, if it is known.
    pub graph: Option<String>,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conversation {
    /// Id that the client chose.
    pub id: String,
    /// Title.
    pub title: Option<String>,
    /// Agent.
    pub agent: Option<String>,
    /// Its thread.
    pub thread: ThreadId,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of the last change of its thread.
    pub updated_at: Timestamp,
}

/// The description of a conversation in the metadata of its thread.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    subject: String,
}

/// A read of the conversations of a principal, the last changed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationQuery {
    /// The only agent; `None` for all.
    pub agent: Option<String>,
    /// Position after an earlier result.
    pub after: Option<ThreadCursor>,
    /// Maximum number of conversations.
    pub limit: usize,
}

/// A part of the conversations of a principal.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationPage {
    /// Conversations, in order.
    pub conversations: Vec<Conversation>,
    /// Position after the last one, if there may be more.
    pub next: Option<ThreadCursor>,
}

/// Returns the thread of a conversation of a principal. Two subjects, and two organisations, never
/// have one thread for the same id.
///
/// # Errors
/// [`RecordError::Limit`] if the id is too long.
pub fn conversation_thread(who: &Principal, id: &str) -> Result<ThreadId> {
    check_length("the id of a conversation", "bytes", id.len(), ID_BYTES_MAX)?;
    let names = json!([CONVERSATION, who.org, who.subject, id]);
    let hash = canonical::hash(&names).0;
    let bytes = std::array::from_fn(|at| hash[at]);
    Ok(ThreadId::from_uuid(Builder::from_custom_bytes(bytes).into_uuid()))
}

/// Returns the thread of a conversation of a principal: that of its id, or the thread with this id if
/// a client made one, by a protocol without conversations.
///
/// # Errors
/// [`RecordError::Limit`] if the id is too long, and errors of the store.
pub async fn find_thread(store: &dyn Store, who: &Principal, id: &str) -> Result<ThreadId> {
    let own = conversation_thread(who, id)?;
    let Ok(uuid) = Uuid::try_parse(id) else { return Ok(own) };
    let named = ThreadId::from_uuid(uuid);
    match store.thread(who, &named).await {
        Ok(row) if !is_of_other(who, &row.metadata) => Ok(named),
        Ok(_) | Err(StoreError::NotFound { .. }) => Ok(own),
        Err(error) => Err(error.into()),
    }
}

/// Opens a conversation: creates its thread if it does not exist.
///
/// # Errors
/// [`RecordError::Limit`] if the id is too long, [`StoreError::Conflict`] if the metadata of the
/// thread would exceed its limit.
pub async fn open_conversation(
    store: &dyn Store,
    who: &Principal,
    new: NewConversation,
    now: Timestamp,
) -> Result<Conversation> {
    let thread = find_thread(store, who, &new.id).await?;
    let is_named = Uuid::try_parse(&new.id).is_ok_and(|uuid| ThreadId::from_uuid(uuid) == thread);
    if is_named {
        let row = store.thread(who, &thread).await?;
        return Ok(Conversation::of_thread(who, &row));
    }
    let description = Description {
        id: new.id,
        title: new.title,
        agent: new.agent,
        subject: who.subject.clone(),
    };
    let metadata = Map::from_iter([(CONVERSATION.to_owned(), json!(description))]);
    let row = store
        .create_thread(
            who,
            NewThread {
                id: thread,
                graph: new.graph,
                metadata: metadata.clone(),
                created_at: now,
                if_exists: IfExists::Return,
            },
        )
        .await?;
    if let Some(found) = Conversation::of(who, &row) {
        return Ok(found);
    }
    // Another client made a thread with this id: what it holds is not the subject's.
    if row.head.is_some() {
        return Err(StoreError::Conflict {
            location: format!("conversation {}", description.id),
            expected: "a thread that its subject has made".to_owned(),
            found: "another one; choose another id of the conversation".to_owned(),
        }
        .into());
    }
    let row = store.update_metadata(who, &row.id, metadata, now).await?;
    Conversation::of(who, &row).ok_or_else(|| missing(&description.id))
}

impl Conversation {
    /// Returns the conversation of a thread; one without title and agent if the thread is not described
    /// as one.
    fn of_thread(who: &Principal, row: &ThreadRow) -> Self {
        Self::of(who, row).unwrap_or_else(|| Self {
            id: row.id.to_string(),
            title: None,
            agent: None,
            thread: row.id.clone(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }

    /// Returns the conversation of a thread; `None` if it has none, or belongs to another subject.
    #[must_use]
    pub fn of(who: &Principal, row: &ThreadRow) -> Option<Self> {
        let described = row.metadata.get(CONVERSATION)?;
        let Description { id, title, agent, subject } = Deserialize::deserialize(described).ok()?;
        let ThreadRow { id: thread, created_at, updated_at, .. } = row.clone();
        (subject == who.subject).then_some(Self {
            id,
            title,
            agent,
            thread,
            created_at,
            updated_at,
        })
    }
}

/// Returns the agent of the conversation of a thread; `None` if it has none or does not exist.
///
/// # Errors
/// Only those of the store.
pub(crate) async fn agent_of_thread(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Option<String>> {
    match store.thread(who, thread).await {
        Ok(row) => Ok(Conversation::of(who, &row).and_then(|conversation| conversation.agent)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns conversations of a principal.
///
/// # Errors
/// Only those of the store.
pub async fn conversations(
    store: &dyn Store,
    who: &Principal,
    query: ConversationQuery,
) -> Result<ConversationPage> {
    let mut wanted = Map::from_iter([("subject".to_owned(), json!(who.subject))]);
    wanted.extend(query.agent.map(|agent| ("agent".to_owned(), json!(agent))));
    let order = ThreadOrder { by: ThreadKey::UpdatedAt, direction: Direction::Descending };
    let page = store
        .search_threads(
            who,
            ThreadQuery {
                metadata: Map::from_iter([(CONVERSATION.to_owned(), Value::Object(wanted))]),
                from: query.after.map_or(SearchFrom::Start(order), SearchFrom::After),
                limit: query.limit,
                ..ThreadQuery::default()
            },
        )
        .await?;
    let found = page.threads.iter().filter_map(|found| Conversation::of(who, &found.row));
    Ok(ConversationPage { conversations: found.collect(), next: page.next })
}

/// A conversation with the records that belong to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConversationRecords {
    /// The conversation.
    pub conversation: Conversation,
    /// Plans, in the order of their ids.
    pub plans: Vec<Record>,
    /// Deliverables, in the order of their ids.
    pub deliverables: Vec<Record>,
}

/// Returns a conversation with the records that belong to it.
///
/// # Errors
/// [`StoreError::NotFound`] if it does not exist.
pub async fn read_conversation(records: &Records<'_>, id: &str) -> Result<ConversationRecords> {
    let conversation = find(records, id).await?;
    let thread = &conversation.thread;
    let plans = records.list(RecordKind::Plan, thread).await?;
    let deliverables = records.list(RecordKind::Deliverable, thread).await?;
    Ok(ConversationRecords { conversation, plans, deliverables })
}

/// Returns a conversation with all its records and their contents as one JSON value. Its messages
/// are in the state of its thread, which only the graph can read.
///
/// # Errors
/// See [`read_conversation`].
pub async fn export_conversation(records: &Records<'_>, id: &str) -> Result<Value> {
    let found = read_conversation(records, id).await?;
    Ok(json!({
        "conversation": found.conversation,
        "plans": with_contents(records, &found.plans).await?,
        "deliverables": with_contents(records, &found.deliverables).await?,
    }))
}

async fn with_contents(records: &Records<'_>, of: &[Record]) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    for record in of {
        let mut versions = Vec::new();
        for version in &record.versions {
            versions.push(records.content(record, Some(version.number)).await?);
        }
        let id = &record.at.id;
        values.push(json!({"id": id, "current": record.current, "versions": versions}));
    }
    Ok(values)
}

/// Deletes a conversation with its thread and all its records.
///
/// # Errors
/// [`StoreError::NotFound`] if it does not exist, [`StoreError::Busy`] if a run of it has not
/// ended.
pub async fn erase_conversation(records: &Records<'_>, id: &str) -> Result<()> {
    let conversation = find(records, id).await?;
    Ok(records.store.delete_thread(records.who, &conversation.thread).await?)
}

async fn find(records: &Records<'_>, id: &str) -> Result<Conversation> {
    let who = records.who;
    let thread = find_thread(records.store, who, id).await?;
    match records.store.thread(who, &thread).await {
        Ok(row) => Ok(Conversation::of_thread(who, &row)),
        Err(StoreError::NotFound { .. }) => Err(missing(id)),
        Err(error) => Err(error.into()),
    }
}

fn missing(id: &str) -> RecordError {
    StoreError::NotFound { kind: "conversation", id: id.chars().take(200).collect() }.into()
}
