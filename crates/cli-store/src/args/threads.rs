//! Arguments of `weft threads`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use std::num::NonZeroUsize;
use std::time::Duration;
use weftwork::graph::Source;
use weftwork::store::{ThreadCursor, ThreadStatus};
use weftwork::types::CheckpointId;
use weftwork_cli_base::args::{Keeping, LimitFlags, parse};

#[derive(Debug, Subcommand)]
pub enum Threads {
    /// List threads, most recently changed first
    #[command(visible_alias = "search")]
    List(List),
    /// Show a thread: its runs, its conversation, its open questions
    Show {
        /// Thread id
        id: String,
    },
    /// Print the state of a thread as JSON
    State(State),
    /// List the checkpoints of a thread on all its branches, newest first
    History(History),
    /// Change the state of a thread as if a node had written the values. No node runs; the
    /// successors of the node become due
    Update(Update),
    /// List the recorded model and tool calls of a thread
    Journal {
        /// Thread id
        id: String,
        /// Print each call as a line of JSON
        #[arg(long)]
        json: bool,
        /// List the prompt hash of each model call, compared with the last run of the same agent
        #[arg(long)]
        hashes: bool,
    },
    /// List threads that this build cannot resume, with the reasons
    Check {
        /// Check all threads against the graph of this agent instead of their own
        #[arg(long, value_name = "AGENT")]
        against: Option<String>,
        /// Include completed threads, which continue with the next input
        #[arg(long)]
        all: bool,
        /// Print each checked thread as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Resume a thread: answer its open question, or finish a run whose process died
    Resume(Resume),
    /// Create a thread with the state and history of another one. It has no runs: its next run
    /// executes the tasks that are due at the copied checkpoint
    #[command(after_help = "Example: weft threads fork t t-copy")]
    Fork {
        /// Thread id
        id: String,
        /// Id of the new thread
        new: String,
        /// Checkpoint up to which the thread is copied; the newest by default
        #[arg(long, value_name = "CHECKPOINT")]
        at: Option<CheckpointId>,
    },
    /// Create a thread with everything that continues another one: its state, its open questions,
    /// the finished tasks of its open superstep and its last run. An approval is valid in one
    /// thread only: the copy asks for it anew when it is resumed
    #[command(after_help = "Example: weft threads copy t t-copy")]
    Copy {
        /// Thread id
        id: String,
        /// Id of the new thread
        new: String,
    },
    /// Delete old threads, or only their old checkpoints or events
    Prune(Prune),
    /// Delete a thread with all its data except usage records. An unfinished run is deleted too,
    /// unless a process is executing it
    Delete(Delete),
}

#[derive(Debug, Args)]
pub struct Delete {
    /// Thread id
    pub(crate) id: String,
    /// Delete the history of messages that were typed in chats too, those of all threads
    #[arg(long)]
    pub(crate) history: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft threads state t")]
pub struct State {
    /// Thread id
    pub(crate) id: String,
    /// Checkpoint to read; the newest by default
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) at: Option<CheckpointId>,
    /// Print the checkpoint, the due nodes, the tasks and the open questions as well
    #[arg(long)]
    pub(crate) full: bool,
    /// Include the states of subgraphs
    #[arg(long, requires = "full")]
    pub(crate) subgraphs: bool,
    /// Print the parts of tool results that only the model reads as well
    #[arg(long)]
    pub(crate) whole: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft threads history t --limit 5")]
pub struct History {
    /// Thread id
    pub(crate) id: String,
    /// Maximum number of checkpoints
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Only checkpoints before this one
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) before: Option<CheckpointId>,
    /// Only checkpoints of this origin: `input`, `loop`, `update` or `fork`
    #[arg(long, value_parser = parse::source)]
    pub(crate) source: Option<Source>,
    /// Only the checkpoint after this superstep
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) step: Option<i64>,
    /// Only checkpoints of this run
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    /// Only checkpoints of runs whose metadata contains this: `KEY=VALUE` or a JSON object; may be
    /// repeated
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = parse::metadata)]
    pub(crate) metadata: Vec<Map<String, Value>>,
    /// Print each checkpoint with its state as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft threads update t --as agent '{\"topic\": \"refunds\"}'")]
pub struct Update {
    /// Thread id
    pub(crate) id: String,
    /// Node in whose name the values are written
    #[arg(long = "as", value_name = "NODE")]
    pub(crate) node: String,
    /// Values by channel, as a JSON object
    #[arg(value_name = "JSON", value_parser = parse::object)]
    pub(crate) values: Map<String, Value>,
    /// Checkpoint to change, on a new branch; the newest by default
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) at: Option<CheckpointId>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft threads list --metadata user=ada --status interrupted")]
pub struct List {
    /// Maximum number of threads
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Only threads whose metadata contains this: `KEY=VALUE` or a JSON object; may be repeated
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = parse::metadata)]
    pub(crate) metadata: Vec<Map<String, Value>>,
    /// Only threads with this status: `idle`, `busy`, `interrupted` or `error`
    #[arg(long, value_parser = parse::thread_status)]
    pub(crate) status: Option<ThreadStatus>,
    /// Start after the last thread of an earlier list; the list before prints the cursor
    #[arg(long, value_name = "CURSOR", alias = "cursor")]
    pub(crate) after: Option<ThreadCursor>,
    /// Print each thread as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub struct Prune {
    /// Minimum time since the last change, such as `30d`, `12h`, `90m` or `45s`
    #[arg(long, value_name = "AGE", value_parser = parse::duration)]
    pub(crate) older_than: Duration,
    /// Keep the threads, and delete all but their newest N checkpoints; includes waiting threads
    #[arg(id = "keep", long = "keep", value_name = "N")]
    pub(crate) newest: Option<NonZeroUsize>,
    /// Keep the threads, and delete the events of runs that ended that long ago, but not outcomes,
    /// messages and checkpoints
    #[arg(long, conflicts_with_all = ["keep", "waiting", "dry_run"])]
    pub(crate) events: bool,
    /// Include threads that wait for an answer or a timer
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Include threads with an unfinished run whose process is dead
    #[arg(long, conflicts_with_all = ["keep", "events"])]
    pub(crate) unfinished: bool,
    /// List the threads without changing them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub struct Resume {
    /// Thread id
    pub(crate) id: String,
    /// Answer the open question with this text
    #[arg(long, value_name = "TEXT", group = "reply")]
    pub(crate) answer: Option<String>,
    /// Approve the waiting call, with exactly the arguments shown
    #[arg(long, group = "reply")]
    pub(crate) approve: bool,
    /// Reject the waiting call, with a reason for the agent
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "", group = "reply")]
    pub(crate) reject: Option<String>,
    /// Approve the waiting call with these arguments instead, a JSON object
    #[arg(long, value_name = "JSON", group = "reply")]
    pub(crate) edit: Option<String>,
    /// Make no call; this text is the result that the agent reads
    #[arg(long, value_name = "TEXT", group = "reply")]
    pub(crate) respond: Option<String>,
    /// Answer a question by its id with a JSON value; may be repeated
    #[arg(long, value_name = "ID=JSON", group = "reply")]
    pub(crate) answer_json: Vec<String>,
    /// Comment on the decision, for the agent
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Question to answer, if several are open
    #[arg(long, value_name = "ID")]
    pub(crate) question: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) limits: LimitFlags,
    /// Maximum number of supersteps of the run; by default that of the run that it continues
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) step_limit: Option<u32>,
    /// Print every event as a line of JSON, followed by the outcome
    #[arg(long)]
    pub(crate) json: bool,
}
