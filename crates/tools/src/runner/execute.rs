//! The second step of a call: journal, budget, running the tool, recording the result.

use super::ToolRunner;
use super::admit::CallSlot;
use super::announce::{Announced, Charge};
use super::ask::{AskingCall, Rounds};
use super::attempt::{Cut, time_left};
use super::large::is_cut;
use super::prepare::{Head, Plan, ReadyCall};
use super::retry::Made;
use super::spans::{record_call_end, record_replay};
use super::unknown::{Begun, Looked, UnknownCall};
use crate::content;
use crate::error::{RunToolError, code, cut};
use crate::schema::{WHOLE, drop_undeclared};
use crate::tool::Tool;
use crate::toolbox::{Entry, Kind};
use crate::{Dispatched, Questions, ToolOutput};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument as _;
use weftwork_schema::Quotes;
use weftwork_types::canonical::{self, DEPTH_MAX, can_be_nested};
use weftwork_types::event::AiEvent;
use weftwork_types::message::Part;
use weftwork_types::port::{
    Attempts, BudgetError, CallKey, CallKind, CallResult, Demand, IdempotencyKey, Intent, Opened,
    Reservation,
};
use weftwork_types::session::SessionEvent;
use weftwork_types::tool::{
    Effect, ToolErrorKind, ToolFailure, ToolOutcome, ToolRecord, UnknownOutcome,
};
use weftwork_types::usage::Usage;

/// Levels around the value of a result in the records, states and events that it becomes a part of.
const LEVELS_AROUND: usize = 10;
/// Member of the record of a call with the events that it dispatched.
const DISPATCHED: &str = "dispatched";

/// The result of executing a call.
#[derive(Debug)]
pub enum Executed {
    /// The call has an outcome for the model.
    Done(ToolOutcome),
    /// It is unknown whether an earlier attempt took effect, and the tool declares that a person
    /// decides. Ask [`UnknownCall::ask`], then call [`ToolRunner::resolve`].
    OutcomeUnknown(UnknownCall),
    /// The tool asks a person. Ask [`AskingCall::questions`], then call [`ToolRunner::reply`].
    Asks(AskingCall),
}

/// A call that passed all checks.
#[derive(Debug)]
pub(super) struct RunCall {
    pub(super) head: Head,
    pub(super) entry: Arc<Entry>,
    pub(super) tool: Arc<dyn Tool>,
    /// The place of the call among those made at once, if their number is limited.
    pub(super) slot: Option<CallSlot>,
    /// Questions of the tool that were answered.
    pub(super) rounds: Rounds,
}

/// The budget of a round.
struct Reserved {
    reservation: Option<Reservation>,
    /// Number of attempts on record of a call that only reads.
    made: u32,
}

impl ToolRunner {
    /// Brings a call to its outcome, making it at most once. A call that only reads or is idempotent
    /// is made again as its rule of the policy [says](crate::Rule::retry): each attempt has the same
    /// idempotency key, and all of them are one call for events, budgets and the journal.
    ///
    /// If the journal has an outcome for the call, that is returned, and `call_reused` is emitted.
    /// If the process died inside the call, the tool's declaration decides. Values, invalid results
    /// and failures reported by the tool are recorded. Panics, timeouts and cancellation are not,
    /// because they do not show what the tool did.
    ///
    /// # Errors
    /// [`RunToolError`] if the journal refuses a record, its record of the call cannot be read, or
    /// the budget is used up.
    ///
    /// # Cancel safety
    /// Dropping the future drops the tool's future and emits a failed result. An effect in progress
    /// then has an unknown outcome when the same call is executed again.
    pub async fn execute(&self, call: ReadyCall) -> Result<Executed, RunToolError> {
        let span = self.call_span(&call.head);
        let ended = self.execute_call(call).instrument(span.clone()).await;
        record_call_end(&span, &ended);
        ended
    }

    async fn execute_call(&self, call: ReadyCall) -> Result<Executed, RunToolError> {
        let ReadyCall { head, plan } = call;
        let (entry, tool) = match plan {
            Plan::Refuse(failure) => return Ok(head.done(ToolOutcome::Failed(failure))),
            Plan::Answer(value) => return Ok(head.done(ToolOutcome::ok(value))),
            Plan::Run(entry) => match &entry.kind {
                Kind::Run(tool) => {
                    let tool = Arc::clone(tool);
                    (entry, tool)
                }
                // `prepare` never plans a run of this kind, because it has no code to run.
                Kind::AskHuman => return Ok(head.done(not_runnable())),
            },
        };
        let mut call = RunCall { head, entry, tool, slot: None, rounds: Rounds::default() };
        if time_left(call.tool.as_ref(), &call.head.context).is_zero() {
            let late = Cut::TimedOut { after: Duration::ZERO }.failure(call.name(), false);
            return Ok(call.done(ToolOutcome::Failed(late)));
        }
        let intent = call.intent();
        match self.admit(&call, &intent).await? {
            Ok(slot) => call.slot = slot,
            Err(refused) => return Ok(call.done(ToolOutcome::Failed(refused))),
        }
        self.begin(call).await
    }

    /// Begins a round of a call: the only one, unless the tool asks.
    pub(super) async fn begin(&self, call: RunCall) -> Result<Executed, RunToolError> {
        let Reserved { reservation, made } = call.reserve_unless_recorded().await?;
        match call.head.context.journal.open(call.intent()).await? {
            Opened::New { key } => {
                self.make(call, Begun { key, made: made.saturating_add(1) }, reservation).await
            }
            Opened::Settled { key, result } => call.reuse(key, result),
            Opened::Unknown { key, made } => self.unknown(call, Begun { key, made }).await,
        }
    }

    /// Runs the tool for a round. If this future is dropped, the reservation is released.
    pub(super) async fn make(
        &self,
        call: RunCall,
        begun: Begun,
        reservation: Option<Reservation>,
    ) -> Result<Executed, RunToolError> {
        let announced = call.announce(Charge::Charged);
        let made = self.make_attempts(&call, begun).await;
        if let Some(reservation) = reservation {
            reservation.settle(Usage::tool_call()).await;
        }
        let Made { begun, ended } = made?;
        let key = begun.key;
        match ended {
            Ok(result) => {
                let outcome = match result {
                    Ok(ToolOutput::Value(value)) => self.check_result(&call, key, value),
                    Ok(ToolOutput::WithContent { value, content }) => {
                        self.check_content(&call, key, value, content)
                    }
                    Ok(ToolOutput::Questions(asked)) => match self.check_questions(&call, asked) {
                        Ok(asked) => {
                            call.set_dispatched(Vec::new());
                            return self.asked(call, key, announced, asked).await;
                        }
                        Err(refused) => ToolOutcome::Failed(refused),
                    },
                    Ok(ToolOutput::Waits) => {
                        call.set_dispatched(Vec::new());
                        return self.asked(call, key, announced, Questions::new([])).await;
                    }
                    Err(error) => {
                        let is_lost = error.is_outcome_unknown();
                        let mut failure = error.into_failure();
                        call.head.shape_failure(&mut failure);
                        if is_lost {
                            return self
                                .cut_short(call, begun, announced, Cut::Lost(failure))
                                .await;
                        }
                        call.note_attempts(&mut failure, begun.made);
                        ToolOutcome::Failed(failure)
                    }
                };
                self.settled(call, key, announced, outcome).await
            }
            Err(how) => self.cut_short(call, begun, announced, how).await,
        }
    }

    /// Handles an interrupted tool, which may have taken effect. A read fails; for an effect the
    /// tool's declaration decides.
    async fn cut_short(
        &self,
        call: RunCall,
        begun: Begun,
        announced: Announced,
        how: Cut,
    ) -> Result<Executed, RunToolError> {
        call.set_dispatched(Vec::new());
        let key = begun.key;
        let spec = &call.entry.spec;
        let effect = spec.effect != Effect::ReadOnly;
        let mut failure = how.failure(&spec.name, effect || call.rounds.have_acted());
        call.note_attempts(&mut failure, begun.made);
        let looked = match spec.on_unknown {
            _ if !effect => Looked::NotFound,
            UnknownOutcome::Idempotent => Looked::NotFound,
            UnknownOutcome::Ask => Looked::CannotTell,
            UnknownOutcome::Reconcile => self.look_up(&call, key).await,
        };
        match looked {
            Looked::Found(value) => {
                let outcome = self.check_result(&call, key, value);
                self.settled(call, key, announced, outcome).await
            }
            Looked::NotFound => {
                let outcome = ToolOutcome::Failed(failure);
                announced.finish(&outcome);
                Ok(Executed::Done(outcome))
            }
            Looked::CannotTell => {
                announced.finish(&ToolOutcome::Failed(failure.clone()));
                let reason = failure.safe_message;
                Ok(Executed::OutcomeUnknown(UnknownCall { call: Box::new(call), begun, reason }))
            }
        }
    }

    /// Records an outcome, then emits its event.
    pub(super) async fn settled(
        &self,
        call: RunCall,
        key: CallKey,
        announced: Announced,
        outcome: ToolOutcome,
    ) -> Result<Executed, RunToolError> {
        match &outcome {
            ToolOutcome::Ok { .. } => {
                call.head.context.journal.succeeded(call.rounds.call_key(key));
            }
            ToolOutcome::Failed(_) => call.set_dispatched(Vec::new()),
        }
        call.settle(key, &outcome).await?;
        announced.finish(&outcome);
        Ok(Executed::Done(outcome))
    }

    /// Validates the value that a tool returned, and adds its shown form. A value over the maximum
    /// size is stored by reference.
    pub(super) fn check_result(&self, call: &RunCall, key: CallKey, value: Value) -> ToolOutcome {
        self.check_content(call, key, value, Vec::new())
    }

    /// As [`ToolRunner::check_result`], for a value with content that the model reads after it.
    fn check_content(
        &self,
        call: &RunCall,
        key: CallKey,
        mut value: Value,
        content: Vec<Part>,
    ) -> ToolOutcome {
        let entry = &call.entry;
        let name = &entry.spec.name;
        if let Some(schema) = &entry.spec.output {
            drop_undeclared(&mut value, schema);
        }
        let shown = entry.shown();
        let quotes = match shown.iter().any(|name| name == WHOLE) {
            true => Quotes::Values,
            false => Quotes::Nothing,
        };
        let problems = entry.output.as_ref();
        let problems = problems.and_then(|checker| checker.check(&value, quotes).err());
        match problems {
            None => {
                let value = content::bounded(content::joined(value, content));
                if !can_be_nested(&value, LEVELS_AROUND) {
                    return ToolOutcome::Failed(too_deep(name));
                }
                match content::bytes_over(&value, self.result_bytes_max) {
                    None => call.head.outcome(value, shown),
                    Some(bytes) => self
                        .by_reference(call, key, &value, bytes)
                        .unwrap_or_else(|| self.too_large(name, bytes)),
                }
            }
            Some(detail) => ToolOutcome::Failed(ToolFailure::new(
                ToolErrorKind::Validation,
                code::INVALID_RESULT,
                format!("tool `{name}` ran, but its result breaks its declared schema: {detail}"),
            )),
        }
    }
}

impl ToolRunner {
    fn too_large(&self, name: &str, bytes: usize) -> ToolOutcome {
        let max = self.result_bytes_max;
        ToolOutcome::Failed(ToolFailure::new(
            ToolErrorKind::Execution,
            code::RESULT_TOO_LARGE,
            format!(
                "tool `{name}` ran, but its result of {bytes} bytes is over the limit of {max} bytes and was discarded; request less data at a time"
            ),
        ))
    }
}

/// The failure of a call whose result cannot be recorded.
fn too_deep(name: &str) -> ToolFailure {
    let max = DEPTH_MAX - LEVELS_AROUND;
    ToolFailure::new(
        ToolErrorKind::Execution,
        code::RESULT_TOO_LARGE,
        format!(
            "tool `{name}` ran, but its result is nested more than {max} levels deep and was discarded; request a part of it"
        ),
    )
}

impl Head {
    fn done(self, outcome: ToolOutcome) -> Executed {
        self.announce(Charge::Free).finish(&outcome);
        Executed::Done(outcome)
    }

    fn announce(&self, charge: Charge) -> Announced {
        // The model may have invented a name of any length.
        let name = cut(&self.wire_name, crate::name::WIRE_NAME_CHARS_MAX);
        Announced::start(&self.context.emit, &self.tool_call_id, &name, self.shown_args(), charge)
    }
}

impl RunCall {
    pub(super) fn name(&self) -> &str {
        &self.entry.spec.name
    }

    /// The key that is sent along with the call, the same one in all rounds.
    pub(super) fn idempotency_key(&self, round: CallKey) -> IdempotencyKey {
        IdempotencyKey::of(&self.head.context.thread, self.rounds.call_key(round))
    }

    /// Reserves the budget of the call; `None` if an earlier round has used it.
    pub(super) async fn reserve(&self) -> Result<Option<Reservation>, BudgetError> {
        if !self.rounds.is_first() {
            return Ok(None);
        }
        let demand = Demand::ToolCall { tool: self.name().to_owned() };
        self.head.context.budget.reserve(&demand).await.map(Some)
    }

    /// Reserves the budget of a round that is not on record. The budget comes before the intent: a
    /// call that it refuses is not made, and is not recorded as begun.
    async fn reserve_unless_recorded(&self) -> Result<Reserved, RunToolError> {
        let reads = self.entry.spec.effect == Effect::ReadOnly;
        let made = match self.head.context.journal.look(self.intent()).await? {
            Opened::New { .. } => 0,
            // It is made again, and the journal opens it as a new one.
            Opened::Unknown { made, .. } if reads => made,
            Opened::Unknown { .. } | Opened::Settled { .. } => {
                return Ok(Reserved { reservation: None, made: 0 });
            }
        };
        Ok(Reserved { reservation: self.reserve().await?, made })
    }

    /// Emits the start event of the call, unless an earlier round has.
    pub(super) fn announce(&self, charge: Charge) -> Announced {
        match self.rounds.is_first() {
            true => self.head.announce(charge),
            false => Announced::open(&self.head.context.emit, &self.head.tool_call_id),
        }
    }

    pub(super) fn done(self, outcome: ToolOutcome) -> Executed {
        self.announce(Charge::Free).finish(&outcome);
        Executed::Done(outcome)
    }

    pub(super) fn intent(&self) -> Intent {
        let spec = &self.entry.spec;
        let input = self.rounds.input(&self.head.args);
        Intent {
            kind: CallKind::Tool,
            name: spec.name.clone(),
            input: canonical::hash(input.as_ref().unwrap_or(&self.head.args)),
            call_id: Some(self.head.tool_call_id.to_string()),
            effect: spec.effect,
            attempts: match spec.effect {
                Effect::ReadOnly => Attempts::Each,
                Effect::StateChange | Effect::ExternalSideEffect => Attempts::Shared,
            },
        }
    }

    pub(super) async fn settle(
        &self,
        key: CallKey,
        outcome: &ToolOutcome,
    ) -> Result<(), RunToolError> {
        let mut record = json!(outcome);
        let dispatched = self.close_dispatched();
        if let Some(dispatched) = dispatched.filter(|events| !events.is_empty()) {
            record[DISPATCHED] = json!(dispatched);
        }
        self.record(key, record).await
    }

    /// Accepts events for the session of the run, if it has one. An earlier round or attempt may
    /// have left some, which are dropped.
    pub(super) fn open_dispatched(&self, round: CallKey) {
        if let Some(dispatched) = self.head.context.dependencies.get::<Dispatched>() {
            dispatched.open(self.idempotency_key(round));
        }
    }

    /// Returns the events that the call dispatched to the session, and refuses further ones.
    fn close_dispatched(&self) -> Option<Vec<SessionEvent>> {
        Some(self.head.context.dependencies.get::<Dispatched>()?.close())
    }

    /// Replaces the events that the call dispatched, and refuses further ones.
    pub(super) fn set_dispatched(&self, events: Vec<SessionEvent>) {
        if let Some(dispatched) = self.head.context.dependencies.get::<Dispatched>() {
            dispatched.set(events);
        }
    }

    pub(super) async fn record(&self, key: CallKey, value: Value) -> Result<(), RunToolError> {
        Ok(self.head.context.journal.settle(key, CallResult { value }).await?)
    }

    /// Reads the record of a round, and restores the events that it dispatched.
    pub(super) fn read(&self, mut result: CallResult) -> Result<ToolRecord, RunToolError> {
        let unreadable = |e: serde_json::Error| RunToolError::RecordUnreadable {
            tool: self.name().to_owned(),
            tool_call_id: self.head.tool_call_id.to_string(),
            detail: e.to_string(),
        };
        let dispatched = match result.value.get_mut(DISPATCHED).map(Value::take) {
            Some(events) => serde_json::from_value(events).map_err(unreadable)?,
            None => Vec::new(),
        };
        let record: ToolRecord = serde_json::from_value(result.value).map_err(unreadable)?;
        self.set_dispatched(dispatched);
        Ok(record)
    }

    /// Returns a recorded outcome with its shown form. The present declaration decides what is
    /// shown, also of a result that was recorded before.
    pub(super) fn shown_now(&self, outcome: ToolOutcome) -> ToolOutcome {
        match outcome {
            ToolOutcome::Ok { value, shown } if is_cut(&value) => ToolOutcome::Ok { value, shown },
            ToolOutcome::Ok { value, .. } => self.head.outcome(value, self.entry.shown()),
            failed => failed,
        }
    }

    fn reuse(self, key: CallKey, result: CallResult) -> Result<Executed, RunToolError> {
        record_replay();
        let outcome = match self.read(result)? {
            ToolRecord::Ended(outcome) => outcome,
            // Its start was emitted in the run in which the tool asked.
            ToolRecord::Asked(asked) => {
                let call = Self { slot: None, ..self };
                return Ok(call.asking(key, asked, true));
            }
        };
        if self.rounds.is_first() {
            // Of later rounds there is no start in this run that could count as a call.
            self.head.context.emit.emit(AiEvent::CallReused {
                kind: "tool".to_owned(),
                name: self.name().to_owned(),
            });
        }
        let outcome = self.shown_now(outcome);
        if matches!(outcome, ToolOutcome::Ok { .. }) {
            self.head.context.journal.succeeded(self.rounds.call_key(key));
        }
        // `CallReused` has taken the start out of the count.
        self.announce(Charge::Charged).finish(&outcome);
        Ok(Executed::Done(outcome))
    }
}

pub(super) fn not_runnable() -> ToolOutcome {
    ToolOutcome::Failed(ToolFailure::new(
        ToolErrorKind::Unavailable,
        code::TOOL_UNAVAILABLE,
        "`ask_human` is answered by a person and cannot be run",
    ))
}
