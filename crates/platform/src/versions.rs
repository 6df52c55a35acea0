//! Versions of definitions in the store, so that threads which began with one go on with it.
//!
//! Each version is a sequence with one record. Another sequence has the version that an operator made
//! current in place of that of the file; it counts until the file changes.

use crate::definition::{Definition, DefinitionFolder, FileText};
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
const CHOSEN: &str = "agent_current";
/// Organisation in which the versions are stored. It is none of clients.
const ORG: &str = "weft.agents";
/// Organisation of a definition for all, in keys.
const ALL: &str = "*";
/// Version of the stored form.
const FORMAT: u32 = 1;

/// A version as stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredVersion {
    slug: String,
    definition: Definition,
    files: Vec<StoredFile>,
    hash: Hash,
    at: Timestamp,
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
    /// Hash of the definition of the file at that time; `None` if there was none.
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
}

fn operator() -> Result<Principal, StoreError> {
    let org = OrgId::new(ORG).map_err(|error| StoreError::Conflict {
        location: "the organisation of definitions".to_owned(),
        expected: "an id".to_owned(),
        found: error.to_string(),
    })?;
    Ok(Principal::new(org, "operator"))
}

fn key(org: Option<&str>, slug: &str) -> String {
    format!("{}/{slug}", org.unwrap_or(ALL))
}

impl Agents {
    /// Stores the versions that the store does not have, and reads those that it has, and the choices of
    /// operators.
    ///
    /// # Errors
    /// Errors of the store. The agents stay as they were.
    pub async fn keep_versions(&self, store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        let who = operator()?;
        let mut known = BTreeSet::new();
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
                    Ok(version) => stored.push((version.at, version.into_folder())),
                    Err(error) => tracing::warn!(%error, "a version of an agent cannot be read"),
                }
            }
        }
        let mut writes = Vec::new();
        for folder in self.versions() {
            let org = folder.definition.organization.as_deref();
            let key = format!("{}@{}", key(org, &folder.slug), folder.version());
            if known.insert(key.clone()) {
                let content = Content::json(FORMAT, &StoredVersion::of(&folder, now))?;
                writes.push(SequenceWrite::replace(Sequence::new(VERSIONS, key), content));
            }
        }
        if !writes.is_empty() {
            store.write_sequences(&who, writes, now).await?;
        }
        let rows = store.sequence_rows(&who, SequenceQuery::all(CHOSEN)).await?;
        let chosen = rows.iter().map(|row| row.json()).collect::<Result<Vec<Chosen>, _>>()?;
        self.add_stored(stored, &chosen);
        Ok(())
    }

    /// Makes a version of an agent the current one, until the file of the agent changes: a version by
    /// the beginning of its hash, or by its semver.
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
            in_place_of: self.of_file(org, slug).map(|folder| folder.hash),
        };
        let content = Content::json(FORMAT, &chosen)?;
        let write = SequenceWrite::replace(Sequence::new(CHOSEN, key(org, slug)), content);
        store.write_sequences(&who, vec![write], now).await?;
        self.add_stored(Vec::new(), &[chosen]);
        Ok(VersionInfo {
            version: found.version(),
            semver: found.definition.version.clone(),
            at: None,
            current: true,
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
            let folder = stored.into_folder();
            versions.push(VersionInfo {
                version: folder.version(),
                semver: folder.definition.version.clone(),
                at,
                current: is_current,
            });
        }
        versions.sort_by(|a, b| (b.at, &b.version).cmp(&(a.at, &a.version)));
        Ok(versions)
    }
}

impl StoredVersion {
    fn of(folder: &Arc<DefinitionFolder>, at: Timestamp) -> Self {
        let file =
            |file: &FileText| StoredFile { path: file.path.clone(), text: file.text.clone() };
        Self {
            slug: folder.slug.clone(),
            definition: folder.definition.clone(),
            files: folder.files.iter().map(file).collect(),
            hash: folder.hash,
            at,
        }
    }

    fn into_folder(self) -> DefinitionFolder {
        let file = |file: StoredFile| FileText { path: file.path, text: file.text };
        let files = self.files.into_iter().map(file).collect();
        DefinitionFolder::stored(self.slug, self.definition, files, self.hash)
    }
}
