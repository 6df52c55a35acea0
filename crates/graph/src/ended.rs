//! The end of a run.

use crate::{CompiledGraph, RuntimeError, State, StateSpec};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use std::fmt;
use weftwork_engine::ids::cut;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::message::Messages;
use weftwork_types::run::RunOutcome;

/// Name of the channel with the typed output of an agent.
pub const OUTPUT: &str = "output";

/// Returns the name of a type without the paths of its modules.
fn short_type_name<T>() -> String {
    let name = std::any::type_name::<T>();
    let mut short = String::with_capacity(name.len());
    let mut word = 0;
    for c in name.chars() {
        if c == ':' {
            short.truncate(word);
        } else {
            short.push(c);
            if !c.is_alphanumeric() && c != '_' {
                word = short.len();
            }
        }
    }
    short
}

/// The end of a run, by [`CompiledGraph::invoke`] or in a thread of a runtime (`EndedRun`).
///
/// ```
/// # use weftwork_graph::{Graph, START, State};
/// # #[derive(State)]
/// # struct Count { #[channel(default)] n: u32 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # async fn double(count: State<Count>) -> CountUpdate { CountUpdate::new().n(count.n() * 2) }
/// # let graph = Graph::<Count>::new("double").node("double", double).edge(START, "double");
/// # let graph = graph.build()?;
/// let ended = graph.invoke(CountUpdate::new().n(21)).await?;
/// assert_eq!(ended.output()?["n"], 42);
/// assert_eq!(*ended.state::<Count>()?.n(), 42);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Ended {
    /// Id of the run, or name of its graph, for errors.
    name: String,
    outcome: RunOutcome,
    graph: CompiledGraph,
}

impl Ended {
    /// The end of a run of a graph. The name, the id of the run or else the name of its graph, is in
    /// errors.
    #[must_use]
    pub fn new(name: impl Into<String>, outcome: RunOutcome, graph: CompiledGraph) -> Self {
        Self { name: name.into(), outcome, graph }
    }

    /// Outcome of the run.
    #[must_use]
    pub fn outcome(&self) -> &RunOutcome {
        &self.outcome
    }

    /// Questions at which the run ended.
    #[must_use]
    pub fn questions(&self) -> &[Interrupt] {
        self.outcome.questions()
    }

    /// Returns `true` if the run ended only because it waits for a time: all its questions are
    /// timers. The thread continues by itself.
    #[must_use]
    pub fn waits_for_time(&self) -> bool {
        let questions = self.questions();
        !questions.is_empty() && !questions.iter().any(Interrupt::asks)
    }

    /// Output of a run that completed, as JSON, in its shown form.
    ///
    /// # Errors
    /// [`RuntimeError::NotCompleted`] with the outcome of any other run, [`RuntimeError::Node`]
    /// with the fault of a failed one.
    pub fn output(&self) -> Result<&Json, RuntimeError> {
        match &self.outcome {
            RunOutcome::Completed { output } => Ok(output),
            RunOutcome::Failed { fault } => Err(RuntimeError::Node(fault.clone())),
            RunOutcome::Interrupted { interrupts, .. } if interrupts.is_empty() => {
                Err(self.without_output("stopped before or after a node"))
            }
            RunOutcome::Interrupted { .. } => Err(self.without_output("waits for an answer")),
            RunOutcome::LimitReached { .. } => Err(self.without_output("reached its step limit")),
            RunOutcome::Cancelled { .. } => Err(self.without_output("was cancelled")),
        }
    }

    fn without_output(&self, reason: &'static str) -> RuntimeError {
        RuntimeError::NotCompleted { run: self.name.clone(), reason }
    }

    /// State at the end of a run that completed, typed, in its shown form: results of tools have
    /// the value that may be shown. `Thread::read` returns the whole state of a thread with the right to
    /// it.
    ///
    /// # Errors
    /// As [`output`](Self::output), and [`RuntimeError::OtherState`].
    pub fn state<S: StateSpec>(&self) -> Result<State<S>, RuntimeError> {
        let none = Map::new();
        self.graph.read_state(self.output()?.as_object().unwrap_or(&none))
    }

    /// Messages of the thread at the end of a run that completed, in their shown form.
    ///
    /// # Errors
    /// As [`output`](Self::output), and [`RuntimeError::NoMessages`] if the output has no list
    /// `messages` of messages.
    pub fn messages(&self) -> Result<Messages, RuntimeError> {
        let messages = &self.output()?["messages"];
        Messages::deserialize(messages)
            .map_err(|_| RuntimeError::NoMessages { graph: self.graph.name().to_owned() })
    }

    /// Typed output of an agent at the end of a run that completed: of
    /// `ReactAgent::output::<T>()`, `Supervisor::output` or a hosted prompt with an output type.
    ///
    /// ```
    /// # use weftwork_graph::{Graph, Input, NodeResult, START, State};
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    /// struct Verdict { refund: bool }
    /// # #[derive(State)]
    /// # struct Decided { output: Verdict }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn decide(_: Input) -> NodeResult<DecidedUpdate> {
    /// #     Ok(DecidedUpdate::new().output(Verdict { refund: true }))
    /// # }
    /// # let agent = Graph::<Decided>::new("desk").node("decide", decide).edge(START, "decide");
    /// # let agent = agent.build()?;
    /// # #[derive(Debug, Deserialize)]
    /// # struct Price { cents: u32 }
    /// let ended = agent.invoke(serde_json::json!({})).await?;
    /// assert_eq!(ended.value::<Verdict>()?, Verdict { refund: true });
    /// let other = ended.value::<Price>().expect_err("it is a verdict");
    /// assert!(other.to_string().contains("found {\"refund\":true}"), "{other}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`output`](Self::output), and [`RuntimeError::NoValue`] with what was found and expected
    /// if the graph has no typed output, or one of another type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, RuntimeError> {
        let output = self.output()?;
        let refused = |found: String, problem: Option<String>| RuntimeError::NoValue {
            graph: self.graph.name().to_owned(),
            expected: short_type_name::<T>(),
            found,
            problem,
        };
        let found = output.get(OUTPUT).filter(|value| !value.is_null());
        let Some(found) = found else {
            let members = output.as_object().into_iter().flat_map(Map::keys);
            let members: Vec<&str> = members.map(String::as_str).collect();
            let found = match members.as_slice() {
                [] => "an output without members".to_owned(),
                members => format!("an output with the members {}", members.join(", ")),
            };
            return Err(refused(found, None));
        };
        T::deserialize(found)
            .map_err(|error| refused(cut(&found.to_string()), Some(error.to_string())))
    }

    /// Text of the last message of the assistant; empty if the run did not complete or its output
    /// has no such message.
    #[must_use]
    pub fn text(&self) -> String {
        self.messages().map(|messages| messages.text()).unwrap_or_default()
    }
}

/// Writes the [text](Ended::text) of a run that completed, or its output if that has no messages;
/// of a run that waits for answers its questions, of any other one why it has no output.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let questions: Vec<String> =
            self.questions().iter().map(|question| question.ask.to_string()).collect();
        if !questions.is_empty() {
            return write!(f, "{}", questions.join("\n"));
        }
        match (self.messages(), self.output()) {
            (Ok(messages), _) => write!(f, "{}", messages.text()),
            (Err(_), Ok(output)) => write!(f, "{output}"),
            (Err(_), Err(error)) => write!(f, "{error}"),
        }
    }
}
