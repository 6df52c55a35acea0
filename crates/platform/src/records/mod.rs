//! Records of conversations: plans and deliverables with their versions.
//!
//! A record belongs to a thread and is deleted with it. It is one sequence of small events, to
//! which its versions are appended; the contents of the versions are sequences of their own, so
//! that a version is deleted with its content. A record belongs to the subject of its first
//! version: for other subjects of the organisation it does not exist.

mod action;
mod cache;
mod check;
mod conversation;
mod error;
mod heading;
mod html;
mod json_merge;
mod merge;
mod record;
mod version;

pub use action::{Edit, Merge, Records};
pub use cache::RecordCache;
pub(crate) use check::ORCHESTRATION;
pub use check::{ContentProblem, ContentRule, Form};
pub(crate) use conversation::agent_of_thread;
pub use conversation::{
    CONVERSATION, Conversation, ConversationPage, ConversationQuery, ConversationRecords,
    NewConversation, conversation_thread, conversations, erase_conversation, export_conversation,
    find_thread, open_conversation, read_conversation,
};
pub use error::{Changed, MergeConflicts, RecordError};
pub use merge::{ConflictLocation, MergeConflict, merge_contents};
pub use record::{Record, RecordId, RecordKind, RecordRef};
pub(crate) use version::current_write;
pub use version::{
    Author, CONTENT_BYTES_MAX, ContentFormat, NewVersion, RECORDS_MAX, TITLE_CHARS_MAX,
    VERSIONS_MAX, Version, VersionContent, version_writes,
};

/// Result of an operation on records.
type Result<T> = std::result::Result<T, RecordError>;
