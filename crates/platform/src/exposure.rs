//! Exposure of agents: the protocols of other programs by which each is reached, in all its versions.
//!
//! An exposure is a sequence with one record, beside the rows. All processes over the store follow its
//! changes with those of the rows.

use crate::rows::{RowError, RowWriter, count_rows};
use crate::source::{Agents, Name};
use crate::versions::{FORMAT, key, operator};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_store::{
    Content, Sequence, SequenceQuery, SequenceRow, SequenceWrite, Store, StoreError,
};
use weftwork_types::exposure::{AgentProtocol, ExposureChange};
use weftwork_types::{Principal, Timestamp};

/// Kind of the sequences of exposures; the key is an organisation and a slug.
const EXPOSURES: &str = "agent_exposure";

/// Agents that are exposed.
pub(crate) type Exposures = BTreeMap<Name, BTreeSet<AgentProtocol>>;

/// An exposure as stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredExposure {
    slug: String,
    organization: Option<String>,
    protocols: BTreeSet<AgentProtocol>,
    /// Subject that wrote it.
    by: String,
    at: Timestamp,
}

/// A change of the exposure of an agent.
#[derive(Debug, Clone)]
pub struct NewExposure {
    /// Organisation of the agent; `None` if it is for all.
    pub organization: Option<String>,
    /// Slug.
    pub slug: String,
    /// The change.
    pub change: ExposureChange,
    /// Writer of the change.
    pub by: RowWriter,
}

fn sequence_of(org: Option<&str>, slug: &str) -> Sequence {
    Sequence::new(EXPOSURES, key(org, slug))
}

/// The write that ends the exposure of an agent.
pub(crate) fn end_exposure(org: Option<&str>, slug: &str) -> SequenceWrite {
    SequenceWrite::delete(sequence_of(org, slug), i64::MAX as u64)
}

impl Agents {
    /// Changes the protocols by which an agent is exposed, and returns them. They are those of the agent
    /// of exactly this organisation, in all its versions.
    ///
    /// # Errors
    /// [`RowError::Forbidden`], [`StoreError::NotFound`] if there is no such agent,
    /// [`StoreError::Conflict`] if another one changes the exposure meanwhile, and errors of the store.
    pub async fn expose(
        &self,
        store: &dyn Store,
        new: NewExposure,
        now: Timestamp,
    ) -> Result<BTreeSet<AgentProtocol>, RowError> {
        let NewExposure { organization, slug, change, by } = new;
        let org = organization.as_deref();
        by.check(org)?;
        if self.current_of(org, &slug).is_none() {
            return Err(StoreError::NotFound { kind: "agent", id: slug }.into());
        }
        let who = operator()?;
        let to = sequence_of(org, &slug);
        let version = store.effect_version(&who, &to).await?;
        let rows = store.sequence_rows(&who, SequenceQuery::of(to.clone(), 0)).await?;
        let before = rows.last().map(SequenceRow::json::<StoredExposure>).transpose()?;
        let before = before.map(|stored| stored.protocols).unwrap_or_default();
        let protocols = change.apply(&before);
        let by = by.subject().to_owned();
        let stored = StoredExposure {
            slug: slug.clone(),
            organization: organization.clone(),
            protocols: protocols.clone(),
            by,
            at: now,
        };
        let content = Content::json(FORMAT, &stored)?;
        let written = SequenceWrite::replace(to, content).expecting(version);
        store.write_sequences(&who, vec![written, count_rows(now)?], now).await?;
        self.read_rows(store).await?;
        Ok(protocols)
    }

    /// Returns the protocols by which an agent is exposed.
    #[must_use]
    pub fn exposed(&self, org: Option<&str>, slug: &str) -> BTreeSet<AgentProtocol> {
        self.exposure_of(&(org.map(str::to_owned), slug.to_owned()))
    }

    /// Reads the exposures of all agents.
    pub(crate) async fn read_exposures(&self, store: &dyn Store) -> Result<Exposures, StoreError> {
        let who: Principal = operator()?;
        let mut query = SequenceQuery::all(EXPOSURES);
        let mut found = Exposures::new();
        loop {
            let rows = store.sequence_rows(&who, query.clone()).await?;
            let Some(last) = rows.last() else { return Ok(found) };
            query = query.following(last);
            for row in &rows {
                match row.json::<StoredExposure>() {
                    Ok(stored) => {
                        found.insert((stored.organization, stored.slug), stored.protocols);
                    }
                    // An agent whose exposure cannot be read is not exposed.
                    Err(error) => self.warn_unreadable(&row.sequence, &error),
                }
            }
        }
    }
}
