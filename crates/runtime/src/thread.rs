//! Threads of hosted graphs: the interface to durable runs.

mod metadata;
mod run;

pub use run::ThreadRun;

use crate::follow::FollowFrom;
use crate::fork::{ForkSource, copy_thread, fork_thread};
use crate::graph_source::unversioned;
use crate::modes::Selection;
use crate::runtime::{EndedRun, OutputStream, Runtime, StartedRun};
use crate::view::ThreadView;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::run_loop::{HistoryFilter, Snapshot, StateForm, StateQuery};
use weftwork_graph::{CompiledGraph, IntoInput, RuntimeError, State, StateSpec};
use weftwork_store::{RunRow, by_execution, open_questions};
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::{Answers, CancelAction, RunInput, RunOptions, RunRef};
use weftwork_types::{CheckpointId, Principal, ThreadId};

/// Interval between two looks for the run that continues a thread after a timer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A thread of a hosted graph. It need not exist: its first run creates it. Cloning is cheap.
///
/// ```
/// use serde_json::json;
/// use weftwork_graph::{Graph, List, START, State};
/// use weftwork_runtime::Runtime;
///
/// #[derive(State)]
/// struct Order {
///     #[channel(append)]
///     log: List<String>,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pack = async |_: State<Order>| OrderUpdate::new().log(["packed"]);
/// let graph = Graph::<Order>::new("order").node("pack", pack).edge(START, "pack").build()?;
/// let runtime = Runtime::in_memory().graph("order", graph).open().await?;
/// let thread = runtime.thread("order", "order-7")?;
/// thread.start(json!({})).await?;
/// thread.start(json!({"log": ["ordered again"]})).await?;
/// // Each run adds to the state of its thread.
/// let log = &thread.read::<Order>().await?;
/// assert_eq!(log.log().len(), 3);
/// assert_eq!(thread.state().await?.next.len(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Thread {
    runtime: Runtime,
    graph: String,
    compiled: CompiledGraph,
    id: ThreadId,
    who: Principal,
    form: StateForm,
    /// Options of the runs that are started, with the checkpoint at which they start.
    options: Arc<RunOptions>,
    /// Time limit of each of these runs.
    deadline: Option<Duration>,
}

impl Runtime {
    /// A thread of a hosted graph, for the local principal.
    ///
    /// The graph is named by its id, or by the part after the colon if that is unique.
    ///
    /// # Errors
    /// [`RuntimeError::UnknownGraph`], and [`RuntimeError::InvalidId`] when `thread` is not a valid
    /// id.
    pub fn thread(&self, graph: &str, thread: impl AsRef<str>) -> Result<Thread, RuntimeError> {
        self.thread_for(&Principal::local(), graph, thread)
    }

    /// A thread of a graph for a principal; see [`thread`](Self::thread).
    ///
    /// # Errors
    /// As [`thread`](Self::thread).
    pub fn thread_for(
        &self,
        who: &Principal,
        graph: &str,
        thread: impl AsRef<str>,
    ) -> Result<Thread, RuntimeError> {
        let found = self.find_graph(who, graph)?;
        // Without a version, each run has the one with which the thread began.
        let id = if unversioned(graph) == graph { unversioned(&found.id) } else { &found.id };
        let graph = id.to_owned();
        let compiled = found.graph;
        let id = ThreadId::new(thread)?;
        let who = who.clone();
        Ok(Thread {
            runtime: self.clone(),
            graph,
            compiled,
            id,
            who,
            form: StateForm::Shown,
            options: Arc::default(),
            deadline: None,
        })
    }
}

impl Thread {
    /// The same thread for another principal.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        self.who = principal;
        self
    }

    /// The thread at one of its checkpoints. Runs and updates from there are on a branch of their
    /// own, which becomes the newest of the thread.
    #[must_use]
    pub fn at(mut self, checkpoint: CheckpointId) -> Self {
        Arc::make_mut(&mut self.options).at = Some(checkpoint);
        self
    }

    /// The same thread with these options for each run that is started on it. The checkpoint chosen
    /// with [`at`](Self::at) stays.
    #[must_use]
    pub fn with_options(mut self, options: RunOptions) -> Self {
        let at = self.options.at.or(options.at);
        self.options = Arc::new(RunOptions { at, ..options });
        self
    }

    /// The same thread with a time limit for each run that is started on it, counted from the time
    /// at which the run is requested.
    #[must_use]
    pub fn with_deadline(mut self, limit: Duration) -> Self {
        self.deadline = Some(limit);
        self
    }

    /// The same thread with the right to its whole state.
    ///
    /// Results of tools can have values that only models read. Without this right, states,
    /// histories, questions and streams have the shown form of such results, which is safe to send
    /// to clients. With it, [`state`](Self::state), [`read`](Self::read),
    /// [`history`](Self::history), [`view`](Self::view), [`questions`](Self::questions) and the
    /// stream mode `values` have the state as it is stored. Other stream modes, the events of runs
    /// and their outcomes always have the shown form.
    #[must_use]
    pub fn whole_state(mut self) -> Self {
        self.form = StateForm::Whole;
        self
    }

    /// Id of the thread.
    #[must_use]
    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Id of the graph.
    #[must_use]
    pub fn graph_id(&self) -> &str {
        &self.graph
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &CompiledGraph {
        &self.compiled
    }

    /// A run with new input: an update of the graph's state, JSON, or any
    /// [`RunInput`](weftwork_types::run::RunInput).
    pub fn start(&self, input: impl IntoInput) -> ThreadRun {
        ThreadRun::new(self, input.into_input(&self.compiled))
    }

    /// A run with a message of the user, for graphs whose state has `messages`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use weftwork_types::message::Message;
    /// # use weftwork_graph::{Graph, List, START, State};
    /// # use weftwork_runtime::Runtime;
    /// # #[derive(State)]
    /// # struct Chat { #[channel(messages)] messages: List<Message> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn read(_: State<Chat>) -> ChatUpdate { ChatUpdate::new() }
    /// # let chat = Graph::<Chat>::new("chat").node("read", read).edge(START, "read").build()?;
    /// # let runtime = Runtime::in_memory().graph("chat", chat).open().await?;
    /// let ended = runtime.thread("chat", "t-1")?.say("Hello").await?;
    /// assert_eq!(ended.messages()?[0].joined_text(), "Hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn say(&self, text: impl Into<String>) -> ThreadRun {
        ThreadRun::with_message(self, text.into())
    }

    /// A run that answers open questions: the only one with a value, or those that the answers name.
    /// A [question](Self::questions) makes the answer to itself, such as
    /// [`approve`](Interrupt::approve).
    pub fn answer(&self, answers: impl Into<Answers>) -> ThreadRun {
        ThreadRun::new(self, Ok(RunInput::answers(answers)))
    }

    /// A run without new input. It continues at the newest checkpoint; at an older one
    /// ([`at`](Self::at)) it runs the tasks due there again.
    pub fn proceed(&self) -> ThreadRun {
        ThreadRun::new(self, Ok(RunInput::Continue))
    }

    /// Changes the state as if `node` had written the update. The successors of the node become
    /// due, and no task runs.
    pub fn update_as(&self, node: &str, update: impl IntoInput) -> ThreadRun {
        let input = update.into_input(&self.compiled).and_then(|input| match input {
            RunInput::Start { input: writes } => {
                Ok(RunInput::Update { writes, as_node: Some(node.to_owned()) })
            }
            _ => Err(RuntimeError::BadUpdate { reason: "an update has writes and no targets" }),
        });
        ThreadRun::new(self, input)
    }

    /// Resumes the thread where its last run did not complete; see [`Runtime::resume`].
    ///
    /// # Errors
    /// As [`Runtime::resume`].
    pub async fn resume(&self) -> Result<StartedRun, RuntimeError> {
        self.runtime.resume(&self.who, &self.id).await
    }

    /// The state of the thread, or of the checkpoint chosen with [`at`](Self::at).
    ///
    /// # Errors
    /// As [`Runtime::state`].
    pub async fn state(&self) -> Result<Snapshot, RuntimeError> {
        self.runtime.read_state(&self.who, &self.id, &self.state_query()).await
    }

    fn state_query(&self) -> StateQuery {
        StateQuery {
            checkpoint: self.options.at,
            form: self.form,
            ..StateQuery::thread(self.id.as_str())
        }
    }

    /// A view of the thread, for the states and histories of subgraphs too.
    pub fn view(&self) -> ThreadView {
        ThreadView::new(&self.runtime, &self.compiled, &self.who, self.state_query())
    }

    /// The state, typed.
    ///
    /// # Errors
    /// As [`state`](Self::state), and [`RuntimeError::OtherState`].
    pub async fn read<S: StateSpec>(&self) -> Result<State<S>, RuntimeError> {
        read_state(&self.compiled, &self.state().await?.values)
    }

    /// Checkpoints of the thread on all its branches, newest first.
    ///
    /// # Errors
    /// As [`Runtime::history`].
    pub async fn history(&self, filter: &HistoryFilter) -> Result<Vec<Snapshot>, RuntimeError> {
        self.runtime.read_history(&self.who, &self.id, &self.state_query(), filter).await
    }

    /// Open questions of the thread.
    ///
    /// # Errors
    /// [`RuntimeError::Store`].
    pub async fn questions(&self) -> Result<Vec<Interrupt>, RuntimeError> {
        let open = open_questions(self.runtime.store().interrupts(&self.who, &self.id).await?);
        if self.form == StateForm::Whole {
            return Ok(open);
        }
        Ok(open.into_iter().map(Interrupt::into_shown).collect())
    }

    /// Returns the runs of the thread, oldest first; those that were rolled back only if asked for.
    ///
    /// # Errors
    /// [`RuntimeError::Store`] with `NotFound` if the thread does not exist.
    pub async fn runs(&self, rolled_back: RolledBack) -> Result<Vec<RunRow>, RuntimeError> {
        let mut runs = self.runtime.store().runs(&self.who, &self.id).await?;
        let shown = |row: &RunRow| row.rolled_back_by.is_none();
        runs.retain(|row| rolled_back == RolledBack::Included || shown(row));
        Ok(runs)
    }

    /// Cancels a run of the thread, and returns the run that takes the thread back if the work of
    /// the cancelled one is to be rolled back; see [`Runtime::cancel_run`].
    ///
    /// # Errors
    /// As [`Runtime::cancel_run`].
    pub async fn cancel_run(
        &self,
        run: &RunRef,
        action: CancelAction,
    ) -> Result<Option<StartedRun>, RuntimeError> {
        self.runtime.cancel_run(&self.who, run, action).await
    }

    /// Cancels the runs of the thread that have not ended; see
    /// [`Threads::cancel`](crate::Threads::cancel).
    ///
    /// # Errors
    /// As [`Threads::cancel`](crate::Threads::cancel).
    pub async fn cancel(&self) -> Result<usize, RuntimeError> {
        let threads = self.runtime.threads().with_principal(self.who.clone());
        Ok(threads.cancel(&self.id).await?.len())
    }

    /// Another thread, with the options of this one.
    fn to_thread(&self, id: ThreadId) -> Self {
        let mut to = Self { id, ..self.clone() };
        Arc::make_mut(&mut to.options).at = None;
        to
    }

    /// Creates a thread with the state and the history of this one, up to its newest checkpoint or
    /// the one chosen with [`at`](Self::at), and returns it. It has no runs: its next run executes
    /// the tasks due at the checkpoint, makes their calls itself, and asks their questions anew. See
    /// [`fork_thread`].
    ///
    /// # Errors
    /// As [`fork_thread`], and [`RuntimeError::InvalidId`] if `to` is not a valid id.
    pub async fn fork(&self, to: impl AsRef<str>) -> Result<Self, RuntimeError> {
        let id = ThreadId::new(to)?;
        let store = self.runtime.store().as_ref();
        let now = self.runtime.clock().now();
        let from = ForkSource { thread: &self.id, checkpoint: self.options.at };
        fork_thread(store, &self.who, from, &id, now).await?;
        Ok(self.to_thread(id))
    }

    /// Creates a thread with everything that continues this one: its state and history, the finished
    /// tasks of its open superstep, its questions with their answers, the time at which it wakes, and
    /// its last run with its log and the recorded calls, under a new run id. See [`copy_thread`].
    ///
    /// # Errors
    /// As [`copy_thread`], and [`RuntimeError::InvalidId`] if `to` is not a valid id.
    pub async fn copy(&self, to: impl AsRef<str>) -> Result<Self, RuntimeError> {
        let id = ThreadId::new(to)?;
        let store = self.runtime.store().as_ref();
        let clock = self.runtime.clock().as_ref();
        copy_thread(store, &self.who, &self.id, &id, clock).await?;
        Ok(self.to_thread(id))
    }

    /// Returns a run of the thread, in whichever process it is executed, also if it has ended: its
    /// output from its start, and its end.
    ///
    /// # Errors
    /// As [`Runtime::follow_run`].
    pub async fn follow_run(&self, run: &RunRef) -> Result<StartedRun, RuntimeError> {
        self.runtime.follow_run(&self.who, run).await
    }

    /// Waits for the end of a run, in whichever process it is executed. If the run ended only
    /// because its timers have not expired, waits for the run that continues it, and so on; returns
    /// the last of these runs.
    ///
    /// A run that waits for timers is returned if another run with input of its own followed it.
    ///
    /// # Errors
    /// As [`Runtime::follow_run`].
    pub async fn wait_through(&self, run: &RunRef) -> Result<EndedRun, RuntimeError> {
        let mut run = run.clone();
        loop {
            let ended = self.follow_run(&run).await?.await;
            if !ended.waits_for_time() {
                return Ok(ended);
            }
            let next = self.run_after(&run).await?;
            if next.new.input != RunInput::Continue {
                return Ok(ended);
            }
            run = next.new.at;
        }
    }

    /// Waits for the run that follows a run, and returns it.
    async fn run_after(&self, run: &RunRef) -> Result<RunRow, RuntimeError> {
        loop {
            let runs = by_execution(self.runtime.store().runs(&self.who, &run.thread).await?);
            let now = self.runtime.clock().now();
            let after = runs.into_iter().skip_while(|row| row.new.at != *run).skip(1);
            // The timer comes before a run that begins later.
            let next = after.into_iter().find(|row| !row.waits_for_time(now));
            if let Some(next) = next {
                return Ok(next);
            }
            self.runtime.clock().sleep(LOOK_EVERY).await;
        }
    }

    /// Follows all runs of the thread as one stream: the current one and those that begin later, in
    /// this process or another; see [`Runtime::follow`]. Each output after the start is delivered
    /// exactly once. A client that reconnects [starts after](crate::Output::start_after) the last
    /// output that it received.
    ///
    /// ```
    /// # use futures_util::StreamExt;
    /// # use serde_json::json;
    /// # use weftwork_graph::{Graph, START, State};
    /// use weftwork_runtime::{FollowFrom, Runtime, Selection};
    ///
    /// # #[derive(State)]
    /// # struct Note { text: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn write(_: State<Note>) -> NoteUpdate {
    /// #     NoteUpdate::new().text("done".to_owned())
    /// # }
    /// # let graph = Graph::<Note>::new("note").node("write", write).edge(START, "write").build()?;
    /// let runtime = Runtime::in_memory().graph("note", graph).open().await?;
    /// let thread = runtime.thread("note", "t-1")?;
    /// let first = thread.start(json!({})).await?;
    /// let second = thread.start(json!({})).await?;
    /// let select = Selection::default().until_rest();
    /// let mut output = thread.follow(FollowFrom::Start, select).await?;
    /// let mut runs = Vec::new();
    /// while let Some(output) = output.next().await {
    ///     runs.push(output?.run);
    /// }
    /// runs.dedup();
    /// assert_eq!(runs, [first.run().clone(), second.run().clone()]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// None at present; an error that occurs later is the last element of the stream.
    pub async fn follow(
        &self,
        from: impl Into<FollowFrom>,
        select: Selection,
    ) -> Result<OutputStream, RuntimeError> {
        self.runtime.follow(&self.who, &self.id, from, select).await
    }
}

/// Selection of runs by their rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RolledBack {
    /// Runs that were rolled back are left out.
    #[default]
    Omitted,
    /// All runs.
    Included,
}

fn read_state<S: StateSpec>(
    graph: &CompiledGraph,
    values: &Json,
) -> Result<State<S>, RuntimeError> {
    let none = Map::new();
    graph.read_state(values.as_object().unwrap_or(&none))
}
