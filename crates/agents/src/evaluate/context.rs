//! The context of a tool call of a prompt.

use super::error::ErrorContext;
use super::scope::{InRun, PromptRun};
use super::{Evaluated, EvaluationError, Evaluator};
use crate::prompt::{OPENED, Prompt, PromptId, Rendered, opened_event};
use crate::session::{Query, Session, SessionError, Slice, fold_slices, session_event};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use weftwork_graph::{List, RuntimeError};
use weftwork_tools::{Dispatched, ToolError, code};
use weftwork_types::canonical::{self, Hash, first_128};
use weftwork_types::code::Fault;
use weftwork_types::message::ToolCall;
use weftwork_types::port::{Budget, CallContext, Journal, Limits};
use weftwork_types::session::SessionEvent;
use weftwork_types::usage::Usage;
use weftwork_types::{Principal, ThreadId, Timestamp, ToolCallId};

/// The prompt whose model called a tool, as a parameter `Deps<PromptContext>` of the tool.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use weftwork_agents::{PromptContext, Slice};
/// use weftwork_tools::{Deps, ToolError, tool};
///
/// #[derive(Clone, Serialize, Deserialize)]
/// struct Note(String);
///
/// impl Slice for Note {
///     const NAME: &'static str = "notes";
///     type Event = Note;
///
///     fn reduce(mut notes: Vec<Self>, note: Note) -> Vec<Self> {
///         notes.push(note);
///         notes
///     }
/// }
///
/// /// Takes a note, and returns the number of notes.
/// #[tool]
/// fn take_note(text: String, prompt: Deps<PromptContext>) -> Result<usize, ToolError> {
///     prompt.dispatch::<Note>(&Note(text))?;
///     Ok(prompt.query::<Note>()?.all().len())
/// }
/// ```
#[derive(Debug)]
pub struct PromptContext {
    in_run: InRun,
    call: CallContext,
    tool_call_id: ToolCallId,
    dispatched: Arc<Dispatched>,
    /// Evaluations that the tool made.
    evaluations: Mutex<Evaluations>,
    nested: Mutex<Usage>,
}

/// Number of evaluations in a round of the call, by prompt and parameters.
#[derive(Debug, Default)]
struct Evaluations {
    round: u32,
    made: BTreeMap<Hash, u32>,
}

impl PromptContext {
    pub(super) fn new(
        in_run: InRun,
        call: CallContext,
        of: &ToolCall,
        dispatched: Arc<Dispatched>,
    ) -> Self {
        Self {
            in_run,
            call,
            tool_call_id: of.id.clone(),
            dispatched,
            evaluations: Mutex::default(),
            nested: Mutex::default(),
        }
    }

    pub(super) fn run(&self) -> &Arc<PromptRun> {
        &self.in_run.run
    }

    /// Identity of the prompt.
    #[must_use]
    pub fn prompt(&self) -> &PromptId {
        self.run().prompt()
    }

    /// The rendered prompt.
    #[must_use]
    pub fn rendered(&self) -> &Rendered {
        self.run().rendered()
    }

    /// Name of the evaluator.
    #[must_use]
    pub fn adapter(&self) -> &str {
        &self.run().resources.name
    }

    /// Id of the session.
    #[must_use]
    pub fn session(&self) -> &ThreadId {
        &self.run().session
    }

    /// Time at which the evaluation is cut off, if it has a deadline.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        self.call.deadline
    }

    /// The rest of the budget of the evaluation.
    #[must_use]
    pub fn budget(&self) -> &Arc<dyn Budget> {
        &self.call.budget
    }

    /// Returns what is left of the budget of the evaluation now, without what is reserved; see
    /// [`Budget::remaining`].
    #[must_use]
    pub fn budget_left(&self) -> Limits {
        self.call.budget_left()
    }

    /// The journal of the task that makes the call.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.call.journal
    }

    /// Principal of the evaluation.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.call.principal
    }

    /// Returns the items of a slice of the session: those at the start of the superstep, changed by
    /// the events that this call dispatched. Calls beside this one are not seen.
    ///
    /// # Errors
    /// [`ToolError`] if a stored event is not one of the slice.
    pub fn query<S: Slice>(&self) -> Result<Query<S>, ToolError> {
        let own = self.dispatched.events();
        fold_slices(self.in_run.events.iter().flat_map(List::iter).chain(&own))
            .map_err(refuse_event)
    }

    /// Dispatches an event to a slice of the session. It is part of the result of the call: it is
    /// applied when the superstep ends, after the events of the calls before this one in the message,
    /// and only if the call succeeds.
    ///
    /// # Errors
    /// [`ToolError`] if the graph does not store sessions, or the call dispatches too much.
    pub fn dispatch<S: Slice>(&self, event: &S::Event) -> Result<(), ToolError> {
        if self.in_run.events.is_none() {
            let graph = self.in_run.graph.clone();
            return Err(refuse_event(SessionError::NoChannel { graph }));
        }
        self.dispatched.push(session_event::<S>(event).map_err(refuse_event)?)
    }

    /// Records that the model opened a section. A graph that stores no sessions offers no tools of
    /// summarized sections.
    pub(crate) fn record_opened(&self, path: String) -> Result<(), ToolError> {
        match self.in_run.events {
            Some(_) => self.dispatched.push(opened_event(&self.run().evaluation, path)),
            None => Ok(()),
        }
    }

    /// Evaluates another prompt within this call: in what is left of the budget, until the deadline,
    /// for the same principal. It begins with the state of the session as this call reads it, and the
    /// events of its tools become events of this call when it completes.
    ///
    /// Its thread is derived from the call, the prompt and the parameters. A call that is executed
    /// again, after a crash or with the answers to its own questions, continues the evaluation or
    /// returns its stored outcome, and does not pay for it twice.
    ///
    /// # Errors
    /// [`EvaluationError`], which `?` turns into the failure of the tool.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the evaluation.
    pub async fn evaluate<P, T>(
        &self,
        prompt: &Prompt<P, T>,
        params: P,
    ) -> Result<Evaluated<T>, EvaluationError>
    where
        P: Serialize + DeserializeOwned + Send + 'static,
        T: DeserializeOwned + 'static,
    {
        let errors =
            ErrorContext { prompt: prompt.id().clone(), thread: None, usage: Usage::default() };
        if self.in_run.is_hosted {
            let text = format!(
                "prompt `{}` is hosted without an evaluator, so that its tools cannot evaluate `{}`; evaluate it with an `Evaluator`, or make the other prompt a tool by `with_model(..).as_tool(..)`",
                self.prompt(),
                prompt.id()
            );
            return Err(errors.fault(Fault::new(code::TOOL_FAILED, text)));
        }
        let evaluator =
            Evaluator::within(Arc::clone(&self.run().resources), self.principal().clone())
                .ok_or_else(|| errors.runtime(&RuntimeError::Stopping))?;
        let params = prompt.json(&params).map_err(|error| errors.prompt(&error))?;
        let key = self.evaluation_key(prompt.id(), &params);
        let id = ThreadId::from_uuid(uuid::Uuid::from_u128(first_128(&key)));
        let mut state = self.state_events();
        state.extend(self.dispatched.events());
        let begun_with = state.len();
        let session = Session::with_events(id, state, None);
        let evaluation = evaluator.evaluate_stored(prompt, params).session(&session);
        let ended = evaluation.nested(key, &self.call).await;
        let used = match &ended {
            Ok(Evaluated::Done(response)) => response.usage,
            Ok(Evaluated::Interrupted(interrupted)) => interrupted.usage,
            Err(error) => *error.usage,
        };
        self.add_nested(used);
        if let Ok(Evaluated::Done(_)) = &ended {
            self.take_over(session.events().split_off(begun_with), &errors)?;
        }
        ended
    }

    /// Returns the key of an evaluation within the call, the same in all repetitions of the call.
    fn evaluation_key(&self, prompt: &PromptId, params: &Value) -> String {
        let call = match self.dispatched.idempotency_key() {
            Some(key) => key.to_string(),
            None => format!("{}\u{0}{}", self.call.thread, self.tool_call_id),
        };
        let prompt = (&prompt.namespace, &prompt.key);
        let of = json!({"call": call, "prompt": prompt, "params": params});
        let of = canonical::hash(&of);
        let mut evaluations = self.evaluations.lock().unwrap_or_else(PoisonError::into_inner);
        let round = self.dispatched.rounds();
        if evaluations.round != round {
            // Each round begins at the first line of the tool.
            *evaluations = Evaluations { round, made: BTreeMap::new() };
        }
        let number = evaluations.made.entry(of).or_default();
        *number += 1;
        format!("{of}/{number}")
    }

    /// Takes over the events of an evaluation that this call made.
    fn take_over(
        &self,
        events: Vec<SessionEvent>,
        errors: &ErrorContext,
    ) -> Result<(), EvaluationError> {
        if self.in_run.events.is_none() {
            return Ok(());
        }
        for event in events.into_iter().filter(|event| event.slice != OPENED) {
            self.dispatched.push(event).map_err(|error| {
                errors.fault(Fault::new(code::TOO_MANY_EVENTS, error.message()))
            })?;
        }
        Ok(())
    }

    fn state_events(&self) -> Vec<SessionEvent> {
        self.in_run.events.iter().flat_map(List::iter).cloned().collect()
    }

    pub(super) fn nested_usage(&self) -> Usage {
        *self.nested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_nested(&self, used: Usage) {
        *self.nested.lock().unwrap_or_else(PoisonError::into_inner) += used;
        self.run().add_nested(used);
    }
}

fn refuse_event(error: SessionError) -> ToolError {
    ToolError::failed(&error).with_code(error.code())
}
