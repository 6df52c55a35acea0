//! Errors of the runtime.

use super::build::BuildError;
use super::code::{CRASH_LOOP, NO_DEPENDENCIES, NODE_FAILED, UNFIT};
use super::invalid_graph::InvalidGraph;
use super::not_resumable::NotResumable;
use weftwork_engine::ids::did_you_mean;
use weftwork_engine::{EngineError, Plan};
use weftwork_types::canonical::DEPTH_MAX;
use weftwork_types::code::{Fault, Phase, ReachedLimit};
use weftwork_types::id::InvalidId;
use weftwork_types::instance::AgentRuntimeError;
use weftwork_types::port::BudgetError;
use weftwork_types::secret::HiddenValues;
use weftwork_types::{CheckpointId, ErrorCode, InterruptId, StoreError};

/// The runtime did not accept a request, or a run ended for a reason of the house.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No graph of that id is hosted here.
    #[error("no graph `{found}` here; {}", list_hosted(known))]
    UnknownGraph {
        /// The id asked for.
        found: String,
        /// The ids there are.
        known: Vec<String>,
    },
    /// Two hosted graphs have one id.
    #[error(
        "graph `{id}` is given twice; ids of graphs are unique: give one of them another id, or create an instance of the hosted one by its id (`AgentRuntime::create_of`)"
    )]
    DuplicateGraph {
        /// The id.
        id: String,
    },
    /// The graph cannot read the thread, which another graph left.
    #[error(
        "graph `{asked}` cannot continue thread `{thread}` of graph `{found}`: {reason}; use another thread"
    )]
    OtherGraph {
        /// The thread.
        thread: String,
        /// The graph that runs on it.
        found: String,
        /// The graph that was asked for.
        asked: String,
        /// Part of the thread that the graph cannot read.
        reason: String,
    },
    /// There is nothing to continue.
    #[error("thread `{thread}` has nothing to continue; give it input")]
    NothingToContinue {
        /// The thread.
        thread: String,
    },
    /// A change from outside, or a stop of a run, names a node that is not there.
    #[error(
        "{what} names node `{node}`, which the graph does not have; its nodes are: {known}{}",
        did_you_mean.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
    )]
    UnknownNode {
        /// The request that names it.
        what: &'static str,
        /// The name.
        node: String,
        /// A name that is close.
        did_you_mean: Option<String>,
        /// The nodes there are.
        known: String,
    },
    /// A request carries a value that could not be read back.
    #[error(
        "{what} is nested deeper than {DEPTH_MAX} levels and could not be read back; make it flatter, or give it as text"
    )]
    TooDeep {
        /// Description of the value.
        what: &'static str,
    },
    /// Typed input is of another state than the graph's.
    #[error("the input is {what}; {fix}: give an update of that")]
    OtherState {
        /// The state that the input belongs to.
        what: String,
        /// The state of the graph.
        fix: String,
    },
    /// A run was started with nothing to continue and without input.
    #[error(
        "the run got nothing to start with: give it input (an object of channel values), or a command with an update or a node to go to"
    )]
    EmptyInput,
    /// An operation needs checkpoints, and the host has no checkpointer.
    #[error(
        "{what} needs kept checkpoints, and the host keeps none; give it a checkpointer (`Host::with_checkpointer`)"
    )]
    NoCheckpointer {
        /// The operation that needs checkpoints.
        what: &'static str,
    },
    /// A single answer was given while several questions are open.
    #[error(
        "one answer was given and {open} questions are open; give a map from the ids of the questions to their answers"
    )]
    ManyQuestions {
        /// Number of open questions.
        open: usize,
    },
    /// An answer does not satisfy the schema of its question, which stays open.
    #[error(
        "the answer to question `{question}` of node `{node}` does not fit its schema: {problem}"
    )]
    WrongAnswer {
        /// The question.
        question: InterruptId,
        /// The node that asked it.
        node: String,
        /// Description of the problem, with places in the answer.
        problem: String,
    },
    /// An answer was given by a key that no open question has.
    #[error("no open question has the key `{found}`; {}", list_keys(open))]
    UnknownKey {
        /// The key.
        found: String,
        /// The keys of the open questions.
        open: Vec<String>,
    },
    /// An answer was given by the id of a question that is not open.
    #[error("the question `{found}` is not open; {}", list_ids(open))]
    UnknownQuestion {
        /// The id.
        found: InterruptId,
        /// The ids of the open questions.
        open: Vec<InterruptId>,
    },
    /// An answer was given at a checkpoint of a subgraph that is not the newest one.
    #[error(
        "an answer was given at an older checkpoint of subgraph `{ns}`, where no question can be answered; name the checkpoint of the outermost graph that had the question open"
    )]
    AnsweredPastWithin {
        /// The namespace of the subgraph.
        ns: String,
    },
    /// The schema that a node gave for an answer is none.
    #[error("the schema of an answer does not compile, so that none could fit it: {problem}")]
    BadAnswerSchema {
        /// Description of the problem.
        problem: String,
    },
    /// A request names a namespace that leads to no graph.
    #[error(
        "no graph at `{ns}` in this one; a way is `node:task` for each graph on it, joined by `|`, and the nodes that run graphs are: {known}"
    )]
    UnknownNamespace {
        /// The namespace.
        ns: String,
        /// The nodes that run graphs.
        known: String,
    },
    /// A thread has no checkpoint of that id.
    #[error(
        "thread `{thread}` has no checkpoint `{checkpoint}`{}; its `history` lists them",
        name_namespace(ns)
    )]
    UnknownCheckpoint {
        /// The thread.
        thread: String,
        /// The namespace of the graph; empty for the outermost one.
        ns: String,
        /// The id.
        checkpoint: CheckpointId,
    },
    /// A run whose workers died one after the other, at the same place.
    #[error(
        "run `{run}` ended {attempts} processes, one after the other, without getting any further, and is not begun again; mend what ends them and requeue it"
    )]
    CrashLoop {
        /// The run.
        run: String,
        /// Number of workers that held the run since its last progress.
        attempts: u32,
    },
    /// A person left open whether something was done, and it is not done again.
    #[error(
        "nobody knows whether `{name}` was done, and a person said to leave it; see on the other side what came of it"
    )]
    GivenUp {
        /// Name of the operation that runs once.
        name: String,
    },
    /// The work of [`Ctx::once`](crate::Ctx::once) asked a question.
    #[error(
        "`{name}` is done once, and its work asked a question: whoever answers it would begin the work a second time; ask before it, and give the answer to the work"
    )]
    AskedWithin {
        /// Name of the operation that runs once.
        name: String,
    },
    /// The recorded result of an operation that runs once does not match the type that the node
    /// reads.
    #[error(
        "what is on record of `{name}` is not what the node expects of it: {problem}; give it another name or input when it has become something else"
    )]
    OtherResult {
        /// Name of the operation that ran once.
        name: String,
        /// The reason for which it cannot be read.
        problem: String,
    },
    /// An output was wanted of a run that did not complete.
    #[error("run `{run}` has no output: it {reason}; only a completed run has one")]
    NotCompleted {
        /// The run.
        run: String,
        /// End of the run, as the rest of a sentence.
        reason: &'static str,
    },
    /// Messages were wanted of a run whose output has none.
    #[error(
        "the output of graph `{graph}` has no list `messages` of messages; read its members with `output` or `state`"
    )]
    NoMessages {
        /// The graph.
        graph: String,
    },
    /// The typed output of an agent was wanted of a run that has none, or one of another type.
    #[error("the run of `{graph}` has no output of type `{expected}`: found {found}{}", explain_value(problem.as_deref()))]
    NoValue {
        /// The graph.
        graph: String,
        /// Name of the type.
        expected: String,
        /// Value, or members of the output of the run.
        found: String,
        /// The reason for which the value is none of the type; `None` if there is no value.
        problem: Option<String>,
    },
    /// A name is not a valid id.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// The last run of a thread completed or waits for an answer, so that there is nothing to
    /// resume.
    #[error("nothing to resume on thread `{thread}`: {reason}")]
    NothingToResume {
        /// The thread.
        thread: String,
        /// Why.
        reason: NotResumable,
    },
    /// An idempotency key of a client is not one that a client may use.
    #[error("idempotency key `{found}` is not valid: {problem}")]
    InvalidKey {
        /// The key.
        found: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// This process shuts down and takes no more runs.
    #[error("this process stops and takes no more runs; ask another worker, or ask again later")]
    Stopping,
    /// A list of changes from outside is empty.
    #[error("a list of changes is empty; give each superstep at least one change")]
    NoUpdates,
    /// Changes that do not go together.
    #[error("{reason}")]
    BadUpdate {
        /// Description of the problem.
        reason: &'static str,
    },
    /// A node commanded the graph around its own, and there is none.
    #[error("a node commanded the graph around its own, and there is none; use `Command::update`")]
    NoParent,
    /// The run reached its deadline.
    #[error("{}", deadline_passed(*limit_ms))]
    DeadlinePassed {
        /// Time that was left when this process started to execute the run; 0 if its stored
        /// deadline had passed before.
        limit_ms: u64,
    },
    /// A change from outside names no node, and more than one could have made it.
    #[error(
        "the change names no node, and no single one ran last; name the node that it is made as (`as_node`)"
    )]
    AmbiguousUpdate,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run has no dependencies: the function that makes them failed, or a value is missing.
    #[error("graph `{graph}` has no dependencies for the run: {source}")]
    Dependencies {
        /// Id of the graph.
        graph: String,
        /// Cause.
        source: Box<Fault>,
    },
    /// The budget of the run cannot be opened.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A superstep could not be closed, or a stored one not be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The graph is not sound.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A graph that was to be hosted, or the agent that it is made of, is not valid.
    #[error(transparent)]
    InvalidGraph(#[from] InvalidGraph),
    /// A node or a route failed, the graph refused its input, or an executor of the program refused
    /// the request.
    #[error(transparent)]
    Node(Fault),
}

impl RuntimeError {
    /// Creates the error of a function that makes the dependencies of the runs of a graph.
    #[must_use]
    pub fn dependencies(graph: &str, error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::Dependencies { graph: graph.to_owned(), source: Box::new(fault_of(error)) }
    }

    /// Creates the error of a run that has no value of a type that its graph declares.
    #[must_use]
    pub fn missing_dependency(graph: &str, type_name: &str) -> Self {
        let text = format!(
            "no `{type_name}` was given; host the graph by `graph_with`, with a function that returns one"
        );
        let source = Box::new(Fault::new(NO_DEPENDENCIES, text));
        Self::Dependencies { graph: graph.to_owned(), source }
    }

    /// Parts of a run do not fit each other: a bug of this library, which ends the run.
    pub(crate) fn broken_invariant(what: &'static str) -> Self {
        Self::Engine(EngineError::BrokenInvariant { what })
    }

    /// A name that is no node of the graph.
    pub(crate) fn unknown_node(what: &'static str, node: &str, plan: &Plan) -> Self {
        let names = || plan.nodes().iter().map(|node| &*node.name);
        Self::UnknownNode {
            what,
            node: node.to_owned(),
            did_you_mean: did_you_mean(node, names()),
            known: names().collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns `true` if this build cannot read what a thread has stored: its graph is not hosted or
    /// has changed, or a record is damaged or newer. Other errors are of the request or the store.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Engine(EngineError::BrokenInvariant { .. }) => false,
            Self::Engine(_) | Self::UnknownGraph { .. } => true,
            Self::Store(error) => {
                matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. })
            }
            _ => false,
        }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Node(_) => NODE_FAILED,
            Self::UnknownGraph { .. } => ErrorCode("W0111"),
            Self::DuplicateGraph { .. } => ErrorCode("W0112"),
            Self::OtherGraph { .. } => ErrorCode("W0113"),
            Self::NothingToContinue { .. } => ErrorCode("W0114"),
            Self::UnknownNode { .. } => ErrorCode("W0115"),
            Self::AmbiguousUpdate => ErrorCode("W0116"),
            Self::TooDeep { .. } | Self::OtherState { .. } => UNFIT,
            Self::EmptyInput => ErrorCode("W0118"),
            Self::NoCheckpointer { .. } => ErrorCode("W0119"),
            Self::ManyQuestions { .. } => ErrorCode("W0120"),
            Self::UnknownNamespace { .. } => ErrorCode("W0121"),
            Self::NoUpdates | Self::BadUpdate { .. } => ErrorCode("W0122"),
            Self::NoParent => ErrorCode("W0123"),
            Self::DeadlinePassed { .. } => ErrorCode("W0124"),
            Self::UnknownCheckpoint { .. } => ErrorCode("W0126"),
            Self::WrongAnswer { .. } => ErrorCode("W0127"),
            Self::UnknownKey { .. } => ErrorCode("W0128"),
            Self::UnknownQuestion { .. } => ErrorCode("W0138"),
            Self::AnsweredPastWithin { .. } => ErrorCode("W0139"),
            Self::BadAnswerSchema { .. } => ErrorCode("W0129"),
            Self::CrashLoop { .. } => CRASH_LOOP,
            Self::NotCompleted { .. } | Self::NoMessages { .. } | Self::NoValue { .. } => {
                ErrorCode("W0135")
            }
            Self::InvalidId(_) => ErrorCode("W0706"),
            Self::NothingToResume { .. } => ErrorCode("W0707"),
            Self::Stopping => ErrorCode("W0131"),
            Self::InvalidKey { .. } => ErrorCode("W0137"),
            Self::GivenUp { .. } => ErrorCode("W0132"),
            Self::OtherResult { .. } => ErrorCode("W0133"),
            Self::AskedWithin { .. } => ErrorCode("W0134"),
            Self::Store(error) => error.code(),
            Self::Dependencies { .. } => NO_DEPENDENCIES,
            Self::Budget(error) => error.code(),
            Self::Engine(error) => error.code(),
            Self::Build(error) => error.code(),
            Self::InvalidGraph(error) => error.code(),
        }
    }

    /// Returns the text for a log. An error that may quote values of a state, which may be hidden in
    /// it, is named by its code alone.
    #[must_use]
    pub fn log_text(&self) -> String {
        match self {
            Self::Engine(error) if error.quotes_values() => format!("error {}", error.code()),
            Self::Node(fault) => format!("error {}", fault.code),
            _ => self.to_string(),
        }
    }

    /// Removes what a run hides from an error that quotes values of its state.
    pub(crate) fn shaped(self, hidden: &HiddenValues) -> Self {
        if !matches!(&self, Self::Node(_) | Self::Engine(_)) {
            return self;
        }
        let fault = self.fault();
        let mut shaped = fault.clone();
        hidden.shape_fault(&mut shaped);
        if shaped == fault { self } else { Self::Node(shaped) }
    }

    /// The error as it is stored and shown.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Store(error) => error.fault(),
            Self::Budget(error) => error.fault(),
            Self::Dependencies { source, .. } => Fault::new(self.code(), self.to_string())
                .retriable(source.retriable)
                .with_sources_of(self)
                .in_phase(Phase::Dependencies),
            Self::Node(fault) => fault.clone(),
            Self::DeadlinePassed { limit_ms } if *limit_ms > 0 => {
                let unit = "ms until the deadline".to_owned();
                let limit = ReachedLimit { unit, used: *limit_ms, needed: None, limit: *limit_ms };
                Fault::new(self.code(), self.to_string()).with_limit(limit)
            }
            other => Fault::new(other.code(), other.to_string()).with_sources_of(other),
        }
    }
}

/// Converts an error to a fault; a fault and errors of this workspace retain their codes. An error
/// whose source is a fault of the same text is that fault, such as that of a model call.
pub(super) fn fault_of(error: Box<dyn std::error::Error + Send + Sync>) -> Fault {
    let error = match error.downcast::<Fault>() {
        Ok(fault) => return *fault,
        Err(other) => other,
    };
    if let Some(error) = error.downcast_ref::<RuntimeError>() {
        return error.fault();
    }
    if let Some(error) = error.downcast_ref::<AgentRuntimeError>() {
        return error.fault.clone();
    }
    if let Some(error) = error.downcast_ref::<EngineError>() {
        return error.fault();
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return error.fault();
    }
    let text = error.to_string();
    match error.source().and_then(|source| source.downcast_ref::<Fault>()) {
        Some(fault) if fault.message == text => fault.clone(),
        _ => Fault::new(NODE_FAILED, text).with_sources_of(error.as_ref()),
    }
}

fn explain_value(problem: Option<&str>) -> String {
    match problem {
        Some(problem) => format!("; {problem}"),
        None => {
            "; declare the type with `output::<T>()` of the agent, or read the members with `output`"
                .to_owned()
        }
    }
}

fn list_hosted(known: &[String]) -> String {
    match known {
        [] => "this process hosts none".to_owned(),
        known => format!("known are: {}", known.join(", ")),
    }
}

fn list_keys(open: &[String]) -> String {
    match open {
        [] => "none has a key".to_owned(),
        open => format!("the keys of the open ones are: {}", open.join(", ")),
    }
}

fn list_ids(open: &[InterruptId]) -> String {
    let ids: Vec<_> = open.iter().map(InterruptId::to_string).collect();
    match ids.as_slice() {
        [] => "no question of the thread is".to_owned(),
        ids => format!("the open ones are: {}", ids.join(", ")),
    }
}

fn name_namespace(ns: &str) -> String {
    if ns.is_empty() { String::new() } else { format!(" of the graph at `{ns}`") }
}

fn deadline_passed(limit_ms: u64) -> String {
    let what = match limit_ms {
        0 => "the deadline of the run had passed before it was executed here".to_owned(),
        _ => format!("the run reached its deadline after {limit_ms} ms and was cancelled"),
    };
    format!("{what}; set a later deadline, or continue from the stored checkpoints")
}
