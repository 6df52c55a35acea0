//! Operations that a node performs once, whatever the outcome of its run.

use crate::context::Ctx;
use crate::error::{NodeError, RuntimeError, Stop};
use crate::output::NodeResult;
use crate::question::Question;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::sync::atomic::Ordering;
use weftwork_types::canonical::hash;
use weftwork_types::port::{
    Attempts, CallKey, CallKind, CallResult, IdempotencyKey, Intent, Opened,
};
use weftwork_types::tool::{Effect, UnknownAnswer};

/// An operation for [`Ctx::once`]. By default it changes something outside, and when its outcome is
/// unknown, a person is asked.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Once {
    name: String,
    input: Json,
    id: Option<String>,
    effect: Effect,
    idempotent: bool,
}

impl Once {
    /// An operation with a name, such as `charge`.
    pub fn new(name: impl Into<String>) -> Self {
        let input = Json::Null;
        let effect = Effect::ExternalSideEffect;
        Self { name: name.into(), input, id: None, effect, idempotent: false }
    }

    /// Sets the input. With another input it is another operation, and done again.
    pub fn with(mut self, input: Json) -> Self {
        self.input = input;
        self
    }

    /// Sets the id of the operation, such as the number of an order. Without one, operations of the
    /// same name and input are distinguished by their order within the task.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Marks the operation as read-only: it does not wait for the disk, and without a result on
    /// record it is done again.
    pub fn reads(mut self) -> Self {
        self.effect = Effect::ReadOnly;
        self
    }

    /// Marks the operation as idempotent: the receiver recognises the key, so the operation may be
    /// sent twice. When its outcome is unknown, it is done again with the same key.
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    fn intent(&self) -> Intent {
        Intent {
            kind: CallKind::Once,
            name: self.name.clone(),
            input: hash(&self.input),
            call_id: self.id.clone(),
            effect: self.effect,
            attempts: match self.effect {
                Effect::ReadOnly => Attempts::Each,
                Effect::StateChange | Effect::ExternalSideEffect => Attempts::Shared,
            },
        }
    }
}

impl From<&str> for Once {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// The record of a completed operation.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    value: Json,
    /// The numbers of the task's questions that it took, which are not asked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asked: Vec<u32>,
}

impl Ctx {
    /// Does an operation once: its result is recorded, and when the node runs again, after a
    /// question, a failure or a crash, it gets that result and does nothing.
    ///
    /// Before the work begins, its intent is on disk, and when this returns, its result; the work
    /// gets a key to send along, the same one whenever it is done again. When the process died in
    /// the work, or the work failed, its outcome is unknown. Then a person is asked, as
    /// [`UnknownAnswer`]; or it is done again, when it is [`idempotent`](Once::idempotent). So a
    /// failure that is an answer of the receiver is better returned as a value. A node asks its
    /// questions, these among them, in the same order whenever it runs, and the work asks none.
    ///
    /// An operation that only [`reads`](Once::reads) waits for nothing; its result is recorded with
    /// the superstep, or when the node waits for something after it.
    ///
    /// ```
    /// use serde_json::json;
    /// use weftwork_graph::{Ctx, Dynamic, DynUpdate, Graph, NodeResult, Once, START};
    ///
    /// async fn pay(ctx: Ctx) -> NodeResult<DynUpdate> {
    ///     let charge = Once::new("charge").with(json!({"cents": 4200})).idempotent();
    ///     let receipt: String = ctx
    ///         .once(charge, async |key| Ok(format!("charged with {}", &key.to_string()[..4])))
    ///         .await?;
    ///     ctx.interrupt(json!({"may this be shipped?": receipt}))?;
    ///     Ok(DynUpdate::new())
    /// }
    /// # let graph = Graph::<Dynamic>::dynamic("pay", Vec::new()).node("pay", pay);
    /// # assert!(graph.edge(START, "pay").build().is_ok());
    /// ```
    ///
    /// On another branch of the thread it is done anew, with another key. In a run of this process
    /// without a checkpointer nothing is recorded, and with durability
    /// [`Exit`](crate::Durability::Exit) nothing before the run ends.
    ///
    /// # Errors
    /// Errors of the work; W0132 when a person gave it up; W0133 when the recorded result is no
    /// `T`; W0134 when the work asked something; a [`NodeError`] that stops the node while there is
    /// no answer. Return it with `?`.
    ///
    /// # Cancel safety
    /// When the future is dropped within the work, the outcome is unknown, as after a crash.
    pub async fn once<T: Serialize + DeserializeOwned>(
        &self,
        what: impl Into<Once>,
        work: impl AsyncFnOnce(IdempotencyKey) -> NodeResult<T>,
    ) -> NodeResult<T> {
        let what = what.into();
        let journal = &self.calls().journal;
        let (key, mut asked) = match journal.open(what.intent()).await? {
            Opened::New { key } => (key, Vec::new()),
            Opened::Settled { result, .. } => return self.recorded_result(&what, result),
            Opened::Unknown { key, .. } if what.idempotent => (key, Vec::new()),
            Opened::Unknown { key, made } => match self.ask_about::<T>(&what, key, made)? {
                (UnknownAnswer::CallAgain, asked) => {
                    journal.begin_again(key).await?;
                    (key, asked)
                }
                (UnknownAnswer::Happened { value }, asked) => {
                    let happened = read_result(&what, value.clone())?;
                    journal.settle(key, call_result(value, asked)?).await?;
                    return Ok(happened);
                }
                (UnknownAnswer::GiveUp, _) => {
                    return Err(node_error(RuntimeError::GivenUp { name: what.name }));
                }
            },
        };
        let task_state = &self.at().task_state;
        let before = task_state.asked.load(Ordering::Relaxed);
        let done = work(IdempotencyKey::of(&self.calls().thread, key)).await;
        let within = before..task_state.asked.load(Ordering::Relaxed);
        if let Err(NodeError(Stop::Interrupted)) = &done {
            self.withdraw_questions(within);
            return Err(node_error(RuntimeError::AskedWithin { name: what.name }));
        }
        let done = done?;
        // For example, a timer that has expired is a question that is not asked.
        asked.extend(within);
        journal.settle(key, call_result(serde_json::to_value(&done)?, asked)?).await?;
        Ok(done)
    }

    fn recorded_result<T: DeserializeOwned>(
        &self,
        what: &Once,
        result: CallResult,
    ) -> NodeResult<T> {
        let Recorded { value, asked } = read_result(what, result.value)?;
        self.at().task_state.take_questions(&asked);
        read_result(what, value)
    }

    /// Asks once for each time that it was begun: an answer speaks of what came before it, and not
    /// of what was begun because of it. What cannot be a result is asked again. Says besides
    /// which questions that took.
    fn ask_about<T: DeserializeOwned>(
        &self,
        what: &Once,
        key: CallKey,
        made: u32,
    ) -> NodeResult<(UnknownAnswer, Vec<u32>)> {
        let name = &what.name;
        let question = |reason: &str| {
            let question = Question::value(json!({
                "kind": "once_outcome_unknown",
                "name": name,
                "input": what.input,
                "idempotency_key": IdempotencyKey::of(&self.calls().thread, key),
                "reason": reason,
            }));
            question.answer_schema(UnknownAnswer::schema(json!(true)))
        };
        let begun = format!("`{name}` was begun and left no result");
        let mut asked = Vec::new();
        let mut answered = 0;
        let mut reason = begun.clone();
        loop {
            let answer = self.ask_question(question(&reason))?.value;
            asked.push(self.at().task_state.asked.load(Ordering::Relaxed).saturating_sub(1));
            reason.clone_from(&begun);
            let Ok(answer) = serde_json::from_value(answer) else { continue };
            if let UnknownAnswer::Happened { value } = &answer
                && let Err(problem) = serde_json::from_value::<T>(value.clone())
            {
                reason = format!("{begun}, and what was answered cannot be its result: {problem}");
                continue;
            }
            answered += 1;
            if answered >= made {
                return Ok((answer, asked));
            }
        }
    }
}

fn call_result(value: Json, asked: Vec<u32>) -> NodeResult<CallResult> {
    Ok(CallResult { value: serde_json::to_value(Recorded { value, asked })? })
}

fn read_result<T: DeserializeOwned>(what: &Once, value: Json) -> NodeResult<T> {
    serde_json::from_value(value).map_err(|problem| {
        let name = what.name.clone();
        let problem = problem.to_string();
        node_error(RuntimeError::OtherResult { name, problem })
    })
}

fn node_error(error: RuntimeError) -> NodeError {
    NodeError(Stop::Failed(error.fault()))
}
