//! The runs of a call, as they are stored.

use crate::error::{McpError, Result};
use crate::source::Source;
use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use weftwork_types::event::BegunCalls;
use weftwork_types::port::{RunHandle, TurnChain, TurnRun};
use weftwork_types::run::RunOutcome;
use weftwork_types::{Principal, RunId, Timestamp};

/// Member of the metadata of runs that this protocol began.
const METADATA: &str = "mcp";

/// Data of this protocol about a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallMetadata {
    /// Key of the signatures of what clients send back: of one call and its principal, from whom it is no
    /// secret.
    pub(crate) seal: String,
    /// Hash of the answers that began the run; `None` for the first run of a call, and for one that a text
    /// in the conversation began.
    pub(crate) answers: Option<String>,
}

impl CallMetadata {
    pub(crate) fn to_map(&self) -> Map<String, Value> {
        let own = json!({"seal": self.seal, "answers": self.answers});
        Map::from_iter([(METADATA.to_owned(), own)])
    }

    /// Returns the data about a run; `None` if another protocol began it.
    pub(crate) fn of(turn: &TurnRun) -> Option<Self> {
        let own = turn.metadata.get(METADATA)?;
        let text = |name: &str| own.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self { seal: text("seal")?, answers: text("answers") })
    }
}

/// The runs of a call.
#[derive(Debug, Clone)]
pub(crate) struct CallRuns {
    /// The first one, whose id is that of the call as a task, and those that answer its questions.
    pub(crate) chain: TurnChain,
}

impl CallRuns {
    /// Returns the call that a run began.
    ///
    /// # Errors
    /// An error for a call that does not exist, is another principal's, of an agent that is not offered,
    /// or was not begun by this protocol.
    pub(crate) async fn find(source: &Source, who: &Principal, id: &str) -> Result<Self> {
        let found = Self::find_any(source, who, id).await?;
        let is_first = found.first().answers.is_none() && found.first().at.run.as_str() == id;
        let is_own = CallMetadata::of(found.first()).is_some();
        let is_offered = source.tool(who, &found.first().agent).is_ok();
        match is_first && is_own && is_offered {
            true => Ok(found),
            false => Err(McpError::task_missing()),
        }
    }

    /// Returns a run with those that continue it.
    async fn find_any(source: &Source, who: &Principal, id: &str) -> Result<Self> {
        let uuid = Uuid::try_parse(id).map_err(|_| McpError::task_missing())?;
        let chain = source.turns.platform.chain(who, &RunId::from_uuid(uuid)).await;
        Ok(Self { chain: chain.map_err(|fault| McpError::of_fault(&fault))? })
    }

    /// Returns the call of which a run is a part, and the place of the run in it.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) async fn containing(
        source: &Source,
        who: &Principal,
        run: &RunId,
    ) -> Result<(Self, usize)> {
        let turn = source.turns.platform.turn(who, run).await;
        let turn = turn.map_err(|fault| McpError::of_fault(&fault))?;
        let turns = source.turns.platform.turns(who, &turn.conversation).await;
        let turns = turns.map_err(|fault| McpError::of_fault(&fault))?;
        let mut first = turn;
        while let Some(asked) = &first.answers {
            let before = turns.iter().find(|turn| turn.at.run == *asked);
            first = before.ok_or_else(McpError::task_missing)?.clone();
        }
        let call = Self::find(source, who, first.at.run.as_str()).await?;
        let place = call.chain.iter().position(|turn| turn.at.run == *run);
        let place = place.ok_or_else(McpError::task_missing)?;
        Ok((call, place))
    }

    /// Returns the call as it is now.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn reload(&self, source: &Source, who: &Principal) -> Result<Self> {
        let chain = source.turns.platform.chain(who, &self.first().at.run).await;
        Ok(Self { chain: chain.map_err(|fault| McpError::of_fault(&fault))? })
    }

    pub(crate) fn first(&self) -> &TurnRun {
        self.chain.first()
    }

    pub(crate) fn last(&self) -> &TurnRun {
        self.chain.last()
    }

    pub(crate) fn id(&self) -> String {
        self.first().at.run.to_string()
    }

    pub(crate) fn conversation(&self) -> &str {
        &self.first().conversation
    }

    /// Returns the key of the signatures of the call.
    pub(crate) fn seal(&self) -> String {
        CallMetadata::of(self.first()).unwrap_or_default().seal
    }

    /// Returns the time at which a client cancelled the call while it waited.
    pub(crate) fn cancelled_at(&self) -> Option<Timestamp> {
        self.chain.rolled_back_at()
    }

    /// Returns the outcome of the last run; `None` if it has not ended.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn outcome(
        &self,
        source: &Source,
        who: &Principal,
    ) -> Result<Option<RunOutcome>> {
        if self.cancelled_at().is_some() {
            return Ok(Some(RunOutcome::cancelled()));
        }
        let last = self.last();
        if !last.status.is_final() {
            return Ok(None);
        }
        let handle = source.turns.platform.follow(who, &last.at.run).await;
        let handle = handle.map_err(|fault| McpError::of_fault(&fault))?;
        Ok(Some(handle.outcome.await))
    }

    /// Returns the calls of tools that the last run has begun, and of which the outcome is not known; none
    /// of a call that was cancelled while it waited, whose log is not shown.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn begun_calls(&self, source: &Source, who: &Principal) -> Result<BegunCalls> {
        let mut begun = BegunCalls::default();
        if self.cancelled_at().is_some() {
            return Ok(begun);
        }
        let handle = source.turns.platform.follow(who, &self.last().at.run).await;
        let RunHandle { mut events, outcome, .. } =
            handle.map_err(|fault| McpError::of_fault(&fault))?;
        while let Some(event) = events.next().await {
            begun.read(&event);
        }
        outcome.await.questions().iter().for_each(|question| begun.read_question(question));
        Ok(begun)
    }

    /// Stops the call. One that waits for an answer is rolled back: its questions are closed.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn cancel(&self, source: &Source, who: &Principal) -> Result<()> {
        let platform = &*source.turns.platform;
        let last = self.last();
        let refused = |fault| McpError::of_fault(&fault);
        if self.cancelled_at().is_none() && last.status.is_final() {
            platform.roll_back(who, &self.first().at.run).await.map_err(refused)?;
        } else if self.cancelled_at().is_none() {
            let handle = platform.follow(who, &last.at.run).await.map_err(refused)?;
            platform.cancel(who, &last.at.run).await.map_err(refused)?;
            // It stops at its next await point.
            handle.outcome.await;
        }
        source.turns.changed.notify_waiters();
        Ok(())
    }
}
