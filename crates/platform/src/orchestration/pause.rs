//! Pauses: an orchestration that is paused begins nothing before it is resumed.

use serde::{Deserialize, Serialize};
use serde_json::json;
use weftwork_graph::{Ctx, NodeResult, Question};
use weftwork_store::sequence::PAUSES;
use weftwork_store::{
    Content, RunRow, Sequence, SequenceQuery, SequenceWrite, Store, StoreError, by_execution,
};
use weftwork_types::canonical::{Hash, hash};
use weftwork_types::run::RunInput;
use weftwork_types::{Principal, RunId, ThreadId, Timestamp};

/// Key of the questions at which a paused orchestration waits.
pub(crate) const PAUSE_KEY: &str = "weft:orchestration-paused";
/// Version of the stored form.
const FORMAT: u32 = 1;

/// The pause of an orchestration, as the store has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    /// Hash of the token that resumes it. The token itself is not stored.
    pub(crate) token: Hash,
    /// Run that began the orchestration.
    pub(crate) run: RunId,
    /// Subject that paused it.
    pub(crate) by: String,
    pub(crate) at: Timestamp,
    /// Time after which the token is not taken.
    pub(crate) expires_at: Timestamp,
    /// Time at which the token was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resumed_at: Option<Timestamp>,
}

/// A pause as it was read, with the version of its record.
#[derive(Debug, Default)]
pub(crate) struct ReadPause {
    pub(crate) pause: Option<Pause>,
    version: u64,
}

/// Returns the hash of a token, which is bound to a principal and a thread.
pub(crate) fn hash_token(token: &str, who: &Principal, thread: &ThreadId) -> Hash {
    hash(&json!(["weft:pause", token, who.org, who.subject, thread]))
}

/// Returns the run that began the last request of a thread.
pub(crate) fn root_of(runs: Vec<RunRow>) -> Option<RunRow> {
    let mut runs = by_execution(runs);
    runs.retain(|row| row.rolled_back_by.is_none());
    runs.into_iter().rev().find(|row| matches!(row.new.input, RunInput::Start { .. }))
}

fn sequence_of(thread: &ThreadId) -> Sequence {
    Sequence::new(PAUSES, format!("{}/pause", thread.to_key()))
}

impl ReadPause {
    /// Reads the last pause of a thread.
    pub(crate) async fn of(
        store: &dyn Store,
        who: &Principal,
        thread: &ThreadId,
    ) -> Result<Self, StoreError> {
        let rows = store.sequence_rows(who, SequenceQuery::of(sequence_of(thread), 0)).await?;
        let Some(row) = rows.last() else { return Ok(Self::default()) };
        Ok(Self { pause: Some(row.json()?), version: row.version })
    }

    /// Replaces the pause that was read.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it was replaced meanwhile.
    pub(crate) async fn replace(
        &self,
        store: &dyn Store,
        who: &Principal,
        thread: &ThreadId,
        next: &Pause,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let write = SequenceWrite::replace(sequence_of(thread), Content::json(FORMAT, next)?);
        store.write_sequences(who, vec![write.expecting(self.version)], now).await
    }
}

/// Returns the pause that holds the orchestration of a thread.
pub(crate) async fn find_pause(
    store: &dyn Store,
    who: &Principal,
    thread: &ThreadId,
) -> Result<Option<Pause>, StoreError> {
    let found = ReadPause::of(store, who, thread).await?.pause;
    let Some(pause) = found.filter(|pause| pause.resumed_at.is_none()) else { return Ok(None) };
    // A pause ends with its orchestration.
    let root = root_of(store.runs(who, thread).await?);
    Ok(root.filter(|row| row.new.at.run == pause.run).map(|_| pause))
}

/// Stops the node as long as the orchestration is paused.
pub(super) async fn hold(store: &dyn Store, ctx: &Ctx) -> NodeResult<()> {
    let who = &ctx.calls().principal;
    loop {
        let found = find_pause(store, who, ctx.thread()).await.map_err(|error| error.fault())?;
        let Some(pause) = found else { return Ok(()) };
        let text =
            "the orchestration is paused; `orchestrationAction: resume` with its token resumes it";
        let question = json!({"question": text, "paused": {"by": pause.by, "at": pause.at}});
        // An answer alone resumes nothing.
        ctx.ask_question(Question::value(question).key(PAUSE_KEY))?;
    }
}
