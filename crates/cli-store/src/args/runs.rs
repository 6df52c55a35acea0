//! Arguments of `weft runs`.

use clap::{Args, Subcommand};
use std::num::NonZeroUsize;
use weftwork::types::event::Position;
use weftwork::types::run::RunStatus;
use weftwork_cli_base::args::{FrameFlags, parse};
use weftwork_cli_base::position;

#[derive(Debug, Subcommand)]
pub enum Runs {
    /// List runs, newest first
    List(RunList),
    /// Show a run: its request, its progress, its outcome
    #[command(after_help = "Example: weft runs show 019f3ad0-8c56-7c10-b2f5-0a4a2a4f6f11")]
    Show {
        /// Run id
        run: String,
        /// Print the stored run as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the events of a run until its end, while it is executed here or elsewhere, or later
    Watch(Watch),
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
    #[command(after_help = "Example: weft runs cancel 019f3ad0-8c56-7c10-b2f5-0a4a2a4f6f11")]
    Cancel {
        /// Run id
        run: String,
        /// Take the thread back to its state before the run, also if the run has ended
        #[arg(long)]
        rollback: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Example: weft runs list --status failed --limit 5")]
pub struct RunList {
    /// Only runs of this thread
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// Only runs with this status, such as `running`, `interrupted` or `failed`
    #[arg(long, value_parser = parse::run_status)]
    pub(crate) status: Option<RunStatus>,
    /// Include runs that were rolled back, or that a client of a server deleted
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of runs
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Print each run as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A position in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Event(Position),
    Frame(Position),
}

const WATCH_HELP: &str = "\
Every line begins with the position after its event. With --mode, lines are the frames of these
stream modes as JSON instead: values, updates, messages, custom, tasks, checkpoints, debug. Ctrl-C
ends only this command, and the run continues. The exit status is that of the run.

Examples: weft runs watch 019f3ad0-8c56-7c10-b2f5-0a4a2a4f6f11 --after 12
          weft runs watch 019f3ad0-8c56-7c10-b2f5-0a4a2a4f6f11 --mode values,updates --after 12-3";

#[derive(Debug, Args)]
#[command(after_help = WATCH_HELP)]
pub struct Watch {
    /// Run id
    pub(crate) run: String,
    /// Start after this position, which an earlier line shows
    #[arg(long, value_name = "POSITION", value_parser = after)]
    pub(crate) after: Option<After>,
    #[command(flatten)]
    pub(crate) frames: FrameFlags,
    /// Print every event as a line of JSON, followed by the outcome
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses the position of an event or of a frame.
fn after(text: &str) -> Result<After, String> {
    let event = position::parse(text).map(After::Event);
    let found = event.or_else(|| text.parse().ok().map(After::Frame));
    found.ok_or_else(|| "expected a position such as 12 or 12+340, or 12-3 of a frame".to_owned())
}
