//! Versions of records, and the events that make them.

use super::Result;
use super::check::Form;
use super::error::RecordError;
use super::record::RecordRef;
use serde::{Deserialize, Serialize};
use std::fmt;
use weftwork_store::sequence::RECORD_CONTENTS;
use weftwork_store::{Content, Sequence, SequenceRow, SequenceWrite, StoreError};
use weftwork_types::canonical::{Hash, hash_bytes};
use weftwork_types::{RunId, Timestamp};

/// Maximum length of a content in bytes.
pub const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a title in characters.
pub const TITLE_CHARS_MAX: usize = 300;
/// Maximum number of versions of a record. Versions that were deleted do not count.
pub const VERSIONS_MAX: usize = 1_000;
/// Maximum number of records of a kind in a thread.
pub const RECORDS_MAX: usize = 1_000;
/// Maximum number of changes of a record.
pub(super) const CHANGES_MAX: usize = 10_000;
/// Version of the stored form of events and contents.
pub(super) const STORED_FORMAT: u32 = 1;
/// Highest version of a sequence in all stores.
pub(super) const ALL: u64 = i64::MAX as u64;

/// Formats of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentFormat {
    /// JSON.
    Json,
    /// Markdown.
    Markdown,
    /// HTML.
    Html,
    /// YAML.
    Yaml,
}

impl fmt::Display for ContentFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Markdown => "Markdown",
            Self::Html => "HTML",
            Self::Yaml => "YAML",
        })
    }
}

/// A version to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewVersion {
    /// Title.
    pub title: String,
    /// Content.
    pub content: String,
    /// Agent that makes the version, or for whom a person makes it.
    pub agent: Option<String>,
    /// Run that makes the version.
    pub run: Option<RunId>,
    /// Number of the version that this one continues.
    pub parent: Option<u64>,
    /// Number of the version that is merged into the parent.
    pub merge_of: Option<u64>,
}

/// The author of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Author<'a> {
    /// Subject of the principal.
    pub subject: &'a str,
    /// Time of the writing.
    pub at: Timestamp,
    /// Part of the key of the content, unique within the record. That of a run follows from the run
    /// and its task, so that a repeated execution writes the same version.
    pub unique: &'a str,
}

/// A version of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Number, from 1. It follows from the order of the events, which have 0.
    #[serde(default)]
    pub number: u64,
    /// Title.
    pub title: String,
    /// Format of the content.
    pub format: ContentFormat,
    /// Declared type, such as `report`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Agent that made the version, or for whom a person made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Number of the version that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// Number of the version that was merged into the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_of: Option<u64>,
    /// Subject that made the version.
    pub by: String,
    /// Run that made the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Time of the writing.
    pub at: Timestamp,
    /// Length of the content in bytes.
    pub bytes: u64,
    /// Hash of the content.
    pub sha256: Hash,
    /// Part of the key of the content within the record.
    pub unique: String,
}

/// A version with its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionContent {
    /// The version.
    #[serde(flatten)]
    pub version: Version,
    /// Its content.
    pub content: String,
}

/// An event of a record, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// A version was added, which is current.
    Version(Box<Version>),
    /// Another version became the current one.
    Current { version: u64, by: String, at: Timestamp },
    /// A version was deleted.
    DeletedVersion { version: u64, by: String, at: Timestamp },
    /// The record was deleted.
    Deleted { by: String, at: Timestamp },
}

impl Event {
    pub(super) fn append(&self, to: &RecordRef) -> Result<SequenceWrite> {
        Ok(SequenceWrite::append(to.sequence(), Content::json(STORED_FORMAT, self)?))
    }
}

impl Version {
    /// Returns the place of the content.
    pub(super) fn contents(&self, of: &RecordRef) -> Sequence {
        Sequence::new(RECORD_CONTENTS, of.content_key(&self.unique))
    }

    pub(super) fn delete_content(&self, of: &RecordRef) -> SequenceWrite {
        SequenceWrite::delete(self.contents(of), ALL)
    }

    /// Reads the content from the records of its sequence.
    pub(super) fn read_content(&self, of: &RecordRef, rows: &[SequenceRow]) -> Result<String> {
        let corrupt = |what: &str| StoreError::Corrupt {
            location: format!("content of version {} of {of}", self.number),
            what: what.to_owned(),
        };
        let row = rows.last().ok_or_else(|| corrupt("it is missing"))?;
        let bytes = &row.content.bytes;
        if hash_bytes(bytes) != self.sha256 {
            return Err(corrupt("it does not have the recorded hash").into());
        }
        let text = String::from_utf8(bytes.clone()).map_err(|_| corrupt("it is not UTF-8"))?;
        Ok(text)
    }
}

/// Returns the writes that add a version to a record, or create the record with it. They expect no
/// version of their sequences and so never conflict: a run adds them to its commit. If a run
/// repeats them, the version counts once.
///
/// # Errors
/// [`RecordError::Limit`] for a title or a content that is too long, [`RecordError::Content`] for a
/// content that is not of the form.
pub fn version_writes(
    at: &RecordRef,
    new: &NewVersion,
    form: &Form,
    author: Author<'_>,
) -> Result<Vec<SequenceWrite>> {
    check_length(at, "characters of a title", new.title.chars().count(), TITLE_CHARS_MAX)?;
    check_length(at, "bytes of content", new.content.len(), CONTENT_BYTES_MAX)?;
    form.check(&new.content)?;
    writes_unchecked(at, new, form.format, form.kind.clone(), author)
}

/// Returns the write that makes another version of a record the current one. It expects no version of
/// the sequence.
pub(crate) fn current_write(
    at: &RecordRef,
    version: u64,
    by: &str,
    now: Timestamp,
) -> Result<SequenceWrite> {
    Event::Current { version, by: by.to_owned(), at: now }.append(at)
}

/// Returns the writes of a version whose content was checked before.
pub(super) fn writes_unchecked(
    at: &RecordRef,
    new: &NewVersion,
    format: ContentFormat,
    kind: Option<String>,
    author: Author<'_>,
) -> Result<Vec<SequenceWrite>> {
    let bytes = new.content.as_bytes().to_vec();
    let version = Version {
        number: 0,
        title: new.title.clone(),
        format,
        kind,
        agent: new.agent.clone(),
        parent: new.parent,
        merge_of: new.merge_of,
        by: author.subject.to_owned(),
        run: new.run.clone(),
        at: author.at,
        bytes: bytes.len() as u64,
        sha256: hash_bytes(&bytes),
        unique: author.unique.to_owned(),
    };
    let content = Content { format: STORED_FORMAT, bytes };
    let stored = SequenceWrite::replace(version.contents(at), content);
    Ok(vec![Event::Version(Box::new(version)).append(at)?, stored])
}

pub(super) fn check_length(
    of: impl fmt::Display,
    unit: &'static str,
    found: usize,
    max: usize,
) -> Result<()> {
    if found <= max {
        return Ok(());
    }
    Err(RecordError::Limit { of: of.to_string(), unit, found, max })
}
