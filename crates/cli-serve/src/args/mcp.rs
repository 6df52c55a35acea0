//! Arguments of `weft mcp serve`.

use clap::Args;
use std::num::NonZeroUsize;
use std::time::Duration;
use weftwork_cli_base::args::parse;

const HELP: &str = "\
A host of MCP starts it, and sends a message a line to the standard input. Answers, and nothing else,
are on the standard output. It ends with the input, or by SIGTERM; runs that have not ended go on with
the next server, worker or command of this kind of the store.

`weft agents expose SLUG --mcp` exposes an agent, and prints the entry for the file of a host.

Example: weft mcp serve --store sqlite:/home/ada/agents.db";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct McpServe {
    /// Offer all agents of files and of the store, also those that are not exposed
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of runs that are executed at a time; further ones wait in the store
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Maximum time for active runs to finish their superstep at the end
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::duration)]
    pub(crate) grace: Duration,
}
