//! Versions of definitions in the store, so that threads which began with one go on with it.
//!
//! Each version is a sequence with one record. Another sequence has the version that an operator made
//! current in place of that of the file or the row; it counts until that one changes.

use crate::definition::{Definition, DefinitionFolder, FileText};
use crate::rows::{count_rows, stored_origin};
use crate::source::Agents;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use weftwork_store::{Content, Sequence, SequenceQuery, SequenceWrite, Store, StoreError};
use weftwork_types::canonical::Hash;
use weftwork_types::{OrgId, Principal, Timestamp};

/// Kind of the sequences of versions; the key is an organisation, a slug and a hash.
const VERSIONS: &str = "agent_version";
/// Kind of the sequences of versions that an operator made current; the key is an organisation and a
/// slug.
pub(crate) const CHOSEN: &str = "agent_current";
/// Organisation in which the versions are stored. It is none of clients.
const ORG: &str = "weft.agents";
/// Organisation of a definition for all, in keys.
pub(crate) const ALL: &str = "*";
/// Version of the stored form.
pub(crate) const FORMAT: u32 = 1;

/// A version as stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredVersion {
    slug: String,
    definition: Definition,
    files: Vec<StoredFile>,
    hash: Hash,
    at: Timestamp,
    origin: Origin,
}

/// Where a version comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// A file, for which it stands in while the file has problems.
    File,
    /// A row.
    Row,
    /// An agent that proposed it. Nobody has made it current yet.
    Draft,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFile {
    path: String,
    text: String,
}

/// A version that an operator made current.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    pub(crate) slug: String,
    pub(crate) organization: Option<String>,
    /// The version.
    pub(crate) hash: Hash,
    /// Hash of the definition of the file or the row at that time; `None` if there was none.
    pub(crate) in_place_of: Option<Hash>,
}

/// A version in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionInfo {
    /// Beginning of the hash, as in ids.
    pub version: String,
    /// Version as the definition has it.
    pub semver: Option<String>,
    /// Time at which it was first seen; `None` for one that is not stored.
    pub at: Option<Timestamp>,
    /// `true` for the version that new threads get.
    pub current: bool,
    /// `true` for one that an agent proposed, and that is neither that of the file nor that of the row.
    pub draft: bool,
}

pub(crate) fn operator() -> Result<Principal, StoreError> {
    let org = OrgId::new(ORG).map_err(|error| StoreError::Conflict {
        location: "the organisation of definitions".to_owned(),
        expected: "an id".to_owned(),
        found: error.to_string(),
    })?;
    Ok(Principal::new(org, "operator"))
}

pub(crate) fn key(org: Option<&str>, slug: &str) -> String {
    format!("{}/{slug}", org.unwrap_or(ALL))
}

/// The write of a version.
pub(crate) fn version_write(
    folder: &DefinitionFolder,
    origin: Origin,
    now: Timestamp,
) -> Result<SequenceWrite, StoreError> {
    let org = folder.definition.organization.as_deref();
    let at = StoredVersion::sequence(org, &folder.slug, &folder.version());
    let content = Content::json(FORMAT, &StoredVersion::of(folder, origin, now))?;
    Ok(SequenceWrite::replace(at, content))
}

impl Agents {
    /// Stores the versions that the store does not have, and reads those that it has, the rows, and the
    /// choices of operators.
    ///
    /// # Errors
    /// Errors of the store. The agents stay as they were.
    pub async fn keep_versions(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let who = operator()?;
        let _reading = self.reading().lock().await;
        let mut known = BTreeSet::new();
        let mut of_others = BTreeSet::new();
        let mut query = SequenceQuery::all(VERSIONS);
        let mut stored = Vec::new();
        loop {
            let rows = store.sequence_rows(&who, query.clone()).await?;
            let Some(last) = rows.last() else { break };
            query = query.following(last);
            for row in &rows {
                known.insert(row.sequence.key.clone());
                // One version that cannot be read costs itself alone.
                match row.json::<StoredVersion>() {
                    Ok(version) => {
                        if version.origin != Origin::File {
                            of_others.insert(row.sequence.key.clone());
                        }
                        stored.push(version);
                    }
                    Err(error) => self.warn_unreadable(&row.sequence, &error),
                }
            }
        }
        let mut writes = Vec::new();
        for folder in self.versions() {
            let org = folder.definition.organization.as_deref();
            let at = StoredVersion::sequence(org, &folder.slug, &folder.version());
            let is_file =
                || self.of_file(org, &folder.slug).is_some_and(|of| of.hash == folder.hash);
            // The version of a row that is one of a file now stands in for that file, too.
            if !known.contains(&at.key) || of_others.contains(&at.key) && is_file() {
                writes.push(version_write(&folder, Origin::File, now)?);
            }
        }
        if !writes.is_empty() {
            store.write_sequences(&who, writes, now).await?;
        }
        self.add_stored(stored);
        self.read_rows_alone(store).await
    }

    /// Reads the choices of operators.
    pub(crate) async fn read_chosen(&self, store: &dyn Store) -> Result<Vec<Chosen>, StoreError> {
        let who = operator()?;
        let mut query = SequenceQuery::all(CHOSEN);
        let mut chosen = Vec::new();
        loop {
            let rows = store.sequence_rows(&who, query.clone()).await?;
            let Some(last) = rows.last() else { return Ok(chosen) };
            query = query.following(last);
            for row in &rows {
                match row.json() {
                    Ok(choice) => chosen.push(choice),
                    // One choice that cannot be read costs itself alone.
                    Err(error) => self.warn_unreadable(&row.sequence, &error),
                }
            }
        }
    }

    /// Makes a version of an agent the current one, until the file or the row of the agent changes: a
    /// version by the beginning of its hash, or by its semver.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is no such version, [`StoreError::Conflict`] if there are
    /// several, and errors of the store.
    pub async fn use_version(
        &self,
        store: &dyn Store,
        org: Option<&str>,
        slug: &str,
        version: &str,
        now: Timestamp,
    ) -> Result<VersionInfo, StoreError> {
        let who = operator()?;
        let found = match self.find_versions(org, slug, version).as_slice() {
            [found] => Arc::clone(found),
            [] => {
                let id = format!("{version} of agent {slug}");
                return Err(StoreError::NotFound { kind: "version", id });
            }
            several => {
                let hashes: Vec<_> = several.iter().map(|folder| folder.version()).collect();
                return Err(StoreError::Conflict {
                    location: format!("version {version} of agent {slug}"),
                    expected: "the beginning of one hash".to_owned(),
                    found: hashes.join(", "),
                });
            }
        };
        let chosen = Chosen {
            slug: slug.to_owned(),
            organization: org.map(str::to_owned),
            hash: found.hash,
            in_place_of: self.defined(org, slug).map(|folder| folder.hash),
        };
        let content = Content::json(FORMAT, &chosen)?;
        let write = SequenceWrite::replace(Sequence::new(CHOSEN, key(org, slug)), content);
        let mut writes = vec![write, count_rows(now)?];
        if stored_origin(store, &found).await? == Some(Origin::Draft) {
            writes.push(version_write(&found, Origin::Row, now)?);
        }
        store.write_sequences(&who, writes, now).await?;
        self.read_rows(store).await?;
        Ok(VersionInfo {
            version: found.version(),
            semver: found.definition.version.clone(),
            at: None,
            current: true,
            draft: false,
        })
    }

    /// Returns the versions of an agent that the store has, the newest first.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn stored_versions(
        &self,
        store: &dyn Store,
        org: Option<&str>,
        slug: &str,
    ) -> Result<Vec<VersionInfo>, StoreError> {
        let who = operator()?;
        let first = format!("{}@", key(org, slug));
        let last = Some(format!("{first}~"));
        let query = SequenceQuery { first, last, ..SequenceQuery::all(VERSIONS) };
        let rows = store.sequence_rows(&who, query).await?;
        let current = self.current_of(org, slug).map(|folder| folder.hash);
        let mut versions = Vec::new();
        for row in &rows {
            let stored: StoredVersion = row.json()?;
            let is_current = current == Some(stored.hash);
            let at = Some(stored.at);
            let draft = stored.origin == Origin::Draft;
            let folder = stored.into_folder();
            versions.push(VersionInfo {
                version: folder.version(),
                semver: folder.definition.version.clone(),
                at,
                current: is_current,
                draft,
            });
        }
        versions.sort_by(|a, b| (b.at, &b.version).cmp(&(a.at, &a.version)));
        Ok(versions)
    }
}

impl StoredVersion {
    /// Returns the sequence of a version, by the beginning of its hash.
    pub(crate) fn sequence(org: Option<&str>, slug: &str, version: &str) -> Sequence {
        Sequence::new(VERSIONS, format!("{}@{version}", key(org, slug)))
    }

    /// Returns the time at which it was first seen.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns where it comes from.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    fn of(folder: &DefinitionFolder, origin: Origin, at: Timestamp) -> Self {
        let file =
            |file: &FileText| StoredFile { path: file.path.clone(), text: file.text.clone() };
        Self {
            slug: folder.slug.clone(),
            definition: folder.definition.clone(),
            files: folder.files.iter().map(file).collect(),
            hash: folder.hash,
            at,
            origin,
        }
    }

    pub(crate) fn into_folder(self) -> DefinitionFolder {
        let file = |file: StoredFile| FileText { path: file.path, text: file.text };
        let files = self.files.into_iter().map(file).collect();
        DefinitionFolder::stored(self.slug, self.definition, files, self.hash)
    }
}
