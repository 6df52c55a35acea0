//! Definitions as rows of the store, which all processes over the store follow.
//!
//! A row names a [stored version](crate::versions) of its organisation and slug. Each change of rows,
//! and of choices of versions, is a record of a sequence, so that a process finds out with one read
//! that something has changed.

use crate::definition::{
    DEFINITIONS_MAX, DefinitionFolder, Definitions, Problem, check_among, read_texts,
};
use crate::exposure::end_exposure;
use crate::source::{Agents, describe_row};
use crate::versions::{ALL, CHOSEN, FORMAT, Origin, StoredVersion, key, operator, version_write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use weftwork_store::{
    Change, Content, Sequence, SequenceQuery, SequenceRow, SequenceWrite, Store, StoreError,
};
use weftwork_types::canonical::Hash;
use weftwork_types::code::Fault;
use weftwork_types::port::RowCondition;
use weftwork_types::{ErrorCode, Principal, Timestamp};

/// Kind of the sequences of rows; the key is an organisation and a slug.
const ROWS: &str = "agent_row";
/// Kind of the two sequences that count changes.
const CHANGES: &str = "agent_change";
/// Key of the count of changes of rows, of choices of versions, and of exposures.
const OF_ROWS: &str = "rows";
/// Key of the count of requests to read the files again.
const OF_FILES: &str = "files";
/// Kind of the sequences of what the rows of an organisation have written; the key is the
/// organisation.
const USAGE: &str = "agent_usage";
/// Maximum number of rows of an organisation.
const ROWS_MAX: usize = 200;
/// Maximum number of versions that the rows of an organisation write.
const VERSIONS_MAX: u64 = 2_000;
/// Maximum size of these versions, in bytes.
const VERSIONS_BYTES_MAX: u64 = 64 << 20;
/// Number of attempts of a write while others write.
const ATTEMPTS: usize = 5;

/// A row as stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRow {
    slug: String,
    organization: Option<String>,
    /// Version of the definition.
    hash: Hash,
    /// Subject that wrote the row.
    by: String,
    at: Timestamp,
}

/// Number and size of the versions that the rows of an organisation have written, as stored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredUsage {
    versions: u64,
    bytes: u64,
}

/// A definition to be written as a row.
#[derive(Debug, Clone, Default)]
pub struct NewRow {
    /// Slug; by default that of the definition.
    pub slug: Option<String>,
    /// Organisation; by default that of the definition, else all.
    pub organization: Option<String>,
    /// Texts of the files by their names, as in a folder: `agent.yaml`, and those that it names.
    pub files: BTreeMap<String, String>,
    /// Condition of the write.
    pub condition: RowCondition,
    /// Writer of the row.
    pub by: RowWriter,
}

/// The writer of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RowWriter {
    /// The operator, who has the store, and changes the definitions of all organisations.
    #[default]
    Operator,
    /// A client with the right `admin`, which changes those of its organisation. A client of the
    /// organisation of the operator, `local`, changes those for all, too.
    Client(Principal),
}

impl RowWriter {
    pub(crate) fn check(&self, org: Option<&str>) -> Result<(), RowError> {
        let Self::Client(who) = self else { return Ok(()) };
        if who.may_define_for(org) {
            return Ok(());
        }
        let found = match org {
            Some(org) => format!("of organisation {org}"),
            None => "for all organisations".to_owned(),
        };
        Err(RowError::Forbidden { found, own: who.org.to_string() })
    }

    pub(crate) fn subject(&self) -> &str {
        match self {
            Self::Operator => "operator",
            Self::Client(who) => &who.subject,
        }
    }
}

/// A row that was not written or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// The definition has problems.
    #[error("{}", lines(problems))]
    Problems {
        /// All problems, with their places.
        problems: Vec<Problem>,
    },
    /// Another definition has the organisation and the slug.
    #[error("{problem}")]
    Taken {
        /// The problem, which names both.
        problem: Box<Problem>,
    },
    /// The writer may not change definitions of that organisation.
    #[error(
        "the definition is one {found}, and the client is of organisation {own}; expected the key \
         `organization: {own}`"
    )]
    Forbidden {
        /// Organisation of the definition.
        found: String,
        /// Organisation of the writer.
        own: String,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RowError {
    /// Converts the error to the form in which it is shown.
    pub(crate) fn fault(&self) -> Fault {
        let code = match self {
            Self::Problems { problems } => problems.first().map(|problem| problem.kind.code()),
            Self::Taken { problem } => Some(problem.kind.code()),
            Self::Forbidden { .. } => None,
            Self::Store(error) => return error.fault(),
        };
        // That of a member of `ctx` that is not granted.
        Fault::new(code.unwrap_or(ErrorCode("W1055")), self.to_string())
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The counts of changes that a process has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    rows: u64,
    files: u64,
}

/// Changes that a process took over from the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Followed {
    /// `true` if rows, choices of versions or exposures have changed.
    pub rows: bool,
    /// `true` if the files are to be read again.
    pub files: bool,
}

impl Followed {
    /// Returns `true` if something has changed.
    #[must_use]
    pub fn is_change(self) -> bool {
        self.rows || self.files
    }
}

fn sequence_of(org: Option<&str>, slug: &str) -> Sequence {
    Sequence::new(ROWS, key(org, slug))
}

/// The write that counts a change.
fn count(of: &str, now: Timestamp) -> Result<SequenceWrite, StoreError> {
    let content = Content::json(FORMAT, &now)?;
    Ok(SequenceWrite::replace(Sequence::new(CHANGES, of), content))
}

/// The write that counts a change of rows, choices or exposures.
pub(crate) fn count_rows(now: Timestamp) -> Result<SequenceWrite, StoreError> {
    count(OF_ROWS, now)
}

impl Agents {
    /// Writes a definition as a row. It is checked as a file is, among the definitions that the
    /// organisation has. New threads of this process get it at once, those of others when they
    /// [follow](Self::follow) the store.
    ///
    /// # Errors
    /// [`RowError::Problems`] of the definition, or if the organisation has too many rows or versions,
    /// [`RowError::Taken`] if a file has its organisation and slug, or the row should be new,
    /// [`RowError::Forbidden`], [`StoreError::Conflict`] if the row has another version than expected,
    /// and errors of the store.
    pub async fn put_row(
        &self,
        store: &dyn Store,
        row: &NewRow,
        now: Timestamp,
    ) -> Result<Arc<DefinitionFolder>, RowError> {
        let folder = self.check_row(row)?;
        let who = operator()?;
        for attempt in 1..=ATTEMPTS {
            let writes = self.row_writes(store, row, &folder, now).await?;
            match store.write_sequences(&who, writes, now).await {
                // Another writer came first: its row is read, and the condition is checked again.
                Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => {}
                written => {
                    written?;
                    break;
                }
            }
        }
        self.read_rows(store).await?;
        Ok(Arc::new(folder))
    }

    /// Returns the writes of a row, whose condition is fulfilled.
    async fn row_writes(
        &self,
        store: &dyn Store,
        row: &NewRow,
        folder: &DefinitionFolder,
        now: Timestamp,
    ) -> Result<Vec<SequenceWrite>, RowError> {
        let org = folder.definition.organization.as_deref();
        let who = operator()?;
        let to = sequence_of(org, &folder.slug);
        let version = store.effect_version(&who, &to).await?;
        let present = store.sequence_rows(&who, SequenceQuery::of(to.clone(), 0)).await?;
        let present = present.last().map(SequenceRow::json::<StoredRow>).transpose()?;
        match (&row.condition, &present) {
            (RowCondition::New, Some(_)) => {
                let problem = Box::new(folder.taken(describe_row(folder)));
                return Err(RowError::Taken { problem });
            }
            (RowCondition::Version(expected), found) => {
                let found = found.as_ref().map(|row| row.hash.to_string());
                let is_it = |found: &String| expected.len() >= 4 && found.starts_with(expected);
                if !found.as_ref().is_some_and(is_it) {
                    let found = found.map(|hash| hash.chars().take(16).collect());
                    return Err(RowError::Store(StoreError::Conflict {
                        location: describe_row(folder),
                        expected: format!("version {expected}"),
                        found: found.unwrap_or_else(|| "no row".to_owned()),
                    }));
                }
            }
            _ => {}
        }
        let stored = StoredRow {
            slug: folder.slug.clone(),
            organization: folder.definition.organization.clone(),
            hash: folder.hash,
            by: row.by.subject().to_owned(),
            at: now,
        };
        let written = SequenceWrite::replace(to, Content::json(FORMAT, &stored)?);
        let mut writes = vec![written.expecting(version), count_rows(now)?];
        let known = stored_origin(store, folder).await?;
        // An agent may have proposed the version before.
        let version = match known {
            None | Some(Origin::Draft) => Some(version_write(folder, Origin::Row, now)?),
            Some(Origin::File | Origin::Row) => None,
        };
        if let Some(org) = org {
            let new = version.as_ref().filter(|_| known.is_none());
            writes.push(usage_write(store, folder, org, present.is_none(), new).await?);
        }
        writes.extend(version);
        Ok(writes)
    }

    /// Stores a definition as a version that nothing uses, until an operator makes it current. It is
    /// checked as a row is.
    ///
    /// # Errors
    /// As [`put_row`](Self::put_row).
    pub(crate) async fn put_draft(
        &self,
        store: &dyn Store,
        row: &NewRow,
        now: Timestamp,
    ) -> Result<DefinitionFolder, RowError> {
        let folder = self.check_definition(row)?;
        let org = folder.definition.organization.as_deref();
        for attempt in 1..=ATTEMPTS {
            if stored_origin(store, &folder).await?.is_some() {
                break;
            }
            let version = version_write(&folder, Origin::Draft, now)?;
            let of = org.unwrap_or(ALL);
            let usage = usage_write(store, &folder, of, false, Some(&version)).await?;
            match store.write_sequences(&operator()?, vec![usage, version], now).await {
                Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => {}
                written => {
                    written?;
                    break;
                }
            }
        }
        self.find_stored(store, org, &folder.slug, folder.hash).await?;
        Ok(folder)
    }

    /// Checks the definition of a row, which no file has.
    fn check_row(&self, row: &NewRow) -> Result<DefinitionFolder, RowError> {
        let folder = self.check_definition(row)?;
        let org = folder.definition.organization.as_deref();
        let Some(file) = self.of_file(org, &folder.slug) else { return Ok(folder) };
        // Where the files of a server are is not told to its clients.
        let other = match &row.by {
            RowWriter::Operator => file.file_path().display().to_string(),
            RowWriter::Client(_) => "a file of the server".to_owned(),
        };
        Err(RowError::Taken { problem: Box::new(folder.taken(other)) })
    }

    /// Checks a definition among the others, as it would be checked in a folder with them.
    fn check_definition(&self, row: &NewRow) -> Result<DefinitionFolder, RowError> {
        let problems = |problems| RowError::Problems { problems };
        let folder = read_texts(row.slug.as_deref(), row.organization.as_deref(), &row.files);
        let folder = folder.map_err(problems)?;
        let mut others = Vec::new();
        let given = [
            ("/slug", row.slug.as_deref(), Some(folder.slug.as_str())),
            (
                "/organization",
                row.organization.as_deref(),
                folder.definition.organization.as_deref(),
            ),
        ];
        for (pointer, given, found) in given {
            if let Some(given) = given.filter(|given| found != Some(*given)) {
                let expected = format!("`{given}`, under which the definition is stored");
                others.push(folder.bad_value(pointer, expected));
            }
        }
        if !others.is_empty() {
            return Err(problems(others));
        }
        let org = folder.definition.organization.as_deref();
        row.by.check(org)?;
        let present = self.all_current();
        let is_other = |of: &&DefinitionFolder| {
            (of.definition.organization.as_deref(), &of.slug) != (org, &folder.slug)
        };
        let others: Vec<_> = present.iter().map(|of| &**of).filter(is_other).collect();
        if others.len() >= DEFINITIONS_MAX {
            let expected = format!("at most {DEFINITIONS_MAX} definitions");
            return Err(problems(vec![folder.bad_value("", expected)]));
        }
        let found = check_among(&folder, &others);
        if found.is_empty() { Ok(folder) } else { Err(problems(found)) }
    }

    /// Removes a row, the choice of a version of it, and its exposure. The versions stay, for the threads
    /// that began with them.
    ///
    /// # Errors
    /// [`RowError::Forbidden`], [`StoreError::NotFound`] if there is no such row,
    /// [`StoreError::Conflict`] if it is changed meanwhile, and errors of the store.
    pub async fn remove_row(
        &self,
        store: &dyn Store,
        by: &RowWriter,
        org: Option<&str>,
        slug: &str,
        now: Timestamp,
    ) -> Result<(), RowError> {
        by.check(org)?;
        let who = operator()?;
        let to = sequence_of(org, slug);
        let version = store.effect_version(&who, &to).await?;
        if store.sequence_rows(&who, SequenceQuery::of(to.clone(), 0)).await?.is_empty() {
            let of = org.map(|org| format!(" of organisation {org}")).unwrap_or_default();
            let id = format!("{slug}{of} in the store");
            return Err(StoreError::NotFound { kind: "agent", id }.into());
        }
        let chosen = Sequence::new(CHOSEN, key(org, slug));
        let writes = vec![
            SequenceWrite::delete(to, version).expecting(version),
            SequenceWrite::delete(chosen, i64::MAX as u64),
            // A later agent with this slug is another one, which nobody exposed.
            end_exposure(org, slug),
            count_rows(now)?,
        ];
        store.write_sequences(&who, writes, now).await?;
        Ok(self.read_rows(store).await?)
    }

    /// Lets the processes over a store read their files again.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn request_reload(store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
        store.write_sequences(&operator()?, vec![count(OF_FILES, now)?], now).await
    }

    /// Takes over what has changed in the store since the last call: rows, choices of versions, exposures. If
    /// a reload was requested, `read_files` reads the files; without a result, the agents of files stay
    /// as they were. Costs two reads if nothing has changed.
    ///
    /// # Errors
    /// Errors of the store. What was not taken over is taken over by the next call.
    pub async fn follow(
        &self,
        store: &dyn Store,
        now: Timestamp,
        read_files: impl FnOnce() -> Option<Definitions>,
    ) -> Result<Followed, StoreError> {
        let before = self.seen().unwrap_or_default();
        let seen = read_counts(store).await?;
        let changed =
            Followed { rows: seen.rows != before.rows, files: seen.files != before.files };
        if changed.files {
            if let Some(read) = read_files() {
                self.reload(read);
            }
            self.keep_versions(store, now).await?;
            if let Some(known) = self.seen().as_mut() {
                known.files = seen.files;
            }
        } else if changed.rows {
            self.read_rows(store).await?;
        }
        Ok(changed)
    }

    fn seen(&self) -> MutexGuard<'_, Option<Seen>> {
        self.seen_changes().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all rows, choices and exposures, and the versions that they name and that this process does not have.
    pub(crate) async fn read_rows(&self, store: &dyn Store) -> Result<(), StoreError> {
        let _reading = self.reading().lock().await;
        self.read_rows_alone(store).await
    }

    /// Reads as `read_rows` does, under a lock that the caller holds.
    pub(crate) async fn read_rows_alone(&self, store: &dyn Store) -> Result<(), StoreError> {
        let who = operator()?;
        // What is written after this read is found by the next one.
        let counts = read_counts(store).await?;
        let mut rows = Vec::new();
        let mut query = SequenceQuery::all(ROWS);
        loop {
            let read = store.sequence_rows(&who, query.clone()).await?;
            let Some(last) = read.last() else { break };
            query = query.following(last);
            for row in &read {
                match row.json::<StoredRow>() {
                    Ok(row) => rows.push(row),
                    // One row that cannot be read costs itself alone.
                    Err(error) => self.warn_unreadable(&row.sequence, &error),
                }
            }
        }
        let chosen = self.read_chosen(store).await?;
        let exposures = self.read_exposures(store).await?;
        let mut found = Vec::new();
        for StoredRow { slug, organization, hash, .. } in &rows {
            let version = self.find_stored(store, organization.as_deref(), slug, *hash).await?;
            match version {
                Some(folder) => found.push(folder),
                None => tracing::warn!(slug, "the version of a row of an agent is missing"),
            }
        }
        for chosen in &chosen {
            let org = chosen.organization.as_deref();
            self.find_stored(store, org, &chosen.slug, chosen.hash).await?;
        }
        self.set_rows(found, &chosen, exposures);
        // The first read follows that of the files.
        let mut seen = self.seen();
        let files = seen.map_or(counts.files, |seen| seen.files);
        *seen = Some(Seen { rows: counts.rows, files });
        Ok(())
    }

    /// Returns a version that this process has, or reads it from the store.
    async fn find_stored(
        &self,
        store: &dyn Store,
        org: Option<&str>,
        slug: &str,
        hash: Hash,
    ) -> Result<Option<Arc<DefinitionFolder>>, StoreError> {
        if let Some(known) = self.version_of(org, slug, hash) {
            return Ok(Some(known));
        }
        let version: String = hash.to_string().chars().take(16).collect();
        let at = StoredVersion::sequence(org, slug, &version);
        let rows = store.sequence_rows(&operator()?, SequenceQuery::of(at, 0)).await?;
        let Some(row) = rows.last() else { return Ok(None) };
        match row.json::<StoredVersion>() {
            Ok(stored) => self.add_stored(vec![stored]),
            Err(error) => {
                self.warn_unreadable(&row.sequence, &error);
                return Ok(None);
            }
        }
        Ok(self.version_of(org, slug, hash))
    }
}

/// Returns where the version of a definition comes from; `None` if the store does not have it.
pub(crate) async fn stored_origin(
    store: &dyn Store,
    folder: &DefinitionFolder,
) -> Result<Option<Origin>, StoreError> {
    let org = folder.definition.organization.as_deref();
    let at = StoredVersion::sequence(org, &folder.slug, &folder.version());
    let rows = store.sequence_rows(&operator()?, SequenceQuery::of(at, 0)).await?;
    Ok(rows.last().map(SequenceRow::json::<StoredVersion>).transpose()?.map(|of| of.origin()))
}

/// The write that counts a version of an organisation, in which its rows are within their limits. It
/// expects that no other row of the organisation is written meanwhile.
async fn usage_write(
    store: &dyn Store,
    folder: &DefinitionFolder,
    org: &str,
    is_new: bool,
    version: Option<&SequenceWrite>,
) -> Result<SequenceWrite, RowError> {
    let who = operator()?;
    let refuse = |found: String, expected: String| {
        Err(RowError::Problems { problems: vec![folder.too_large(found, expected)] })
    };
    let to = Sequence::new(USAGE, org);
    let at = store.effect_version(&who, &to).await?;
    let rows = store.sequence_rows(&who, SequenceQuery::of(to.clone(), 0)).await?;
    let used = rows.last().map(SequenceRow::json::<StoredUsage>).transpose()?;
    let StoredUsage { mut versions, mut bytes } = used.unwrap_or_default();
    if is_new {
        let first = key(Some(org), "");
        let last = Some(format!("{first}~"));
        let query = SequenceQuery { first, last, ..SequenceQuery::all(ROWS) };
        let count = store.sequence_rows(&who, query).await?.len();
        if count >= ROWS_MAX {
            let found = format!("{count} agents of organisation {org} in the store");
            return refuse(found, format!("at most {ROWS_MAX}; remove one that is not used"));
        }
    }
    if let Some(Change::Replace(content)) = version.map(|write| &write.change) {
        versions += 1;
        bytes += content.bytes.len() as u64;
        if versions > VERSIONS_MAX || bytes > VERSIONS_BYTES_MAX {
            let found =
                format!("{versions} versions of organisation {org} in the store, of {bytes} bytes");
            let expected = format!("at most {VERSIONS_MAX}, of {VERSIONS_BYTES_MAX} bytes");
            return refuse(found, expected);
        }
    }
    let content = Content::json(FORMAT, &StoredUsage { versions, bytes })?;
    Ok(SequenceWrite::replace(to, content).expecting(at))
}

async fn read_counts(store: &dyn Store) -> Result<Seen, StoreError> {
    let who: Principal = operator()?;
    let rows = store.effect_version(&who, &Sequence::new(CHANGES, OF_ROWS)).await?;
    let files = store.effect_version(&who, &Sequence::new(CHANGES, OF_FILES)).await?;
    Ok(Seen { rows, files })
}
