//! Arguments of `weft worker`.

use clap::Args;
use std::num::NonZeroUsize;
use std::time::Duration;
use weftwork_cli_base::args::parse;

const HELP: &str = "\
SIGTERM and Ctrl-C drain the worker: it takes no more runs, lets the active ones finish their
superstep, releases them for other workers, and exits with status 0. A second signal exits at once;
other workers take the runs over.

Example: weft worker --store postgres://ada@db.example/weft --json";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Worker {
    /// Maximum time for active runs to finish their superstep when the worker is drained
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    pub(crate) grace: Duration,
    /// Maximum number of runs that are executed at a time; further ones wait in the store
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Print each run that begins or ends as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}
