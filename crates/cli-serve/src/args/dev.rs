//! Arguments of `weft dev`.

use clap::Args;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use weftwork_cli_base::args::parse;

const HELP: &str = "\
Serves as weft serve does, for the programs of this machine only, and without a token unless --token
gives one. Requests that name another host than localhost, or that come from a page of another origin,
are refused.

It restarts at the same address when this program was built again, and when one of its files has
changed: the configuration, the rules for tools, the MCP servers and their lock file, and those of
--watch. Active runs finish their superstep before, and continue afterwards. A configuration that is
not valid is reported, and the server stays as it is.

A line is printed for each request, and for the start and the end of each run. SIGTERM and Ctrl-C stop
it as they stop weft serve.

Example: weft dev --model scripted --store memory --watch prompts/desk.md";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Dev {
    /// Loopback address and port; port 0 selects a free one
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8123",
        overrides_with = "listen"
    )]
    pub(crate) listen: SocketAddr,
    /// Token of requests, at least 16 characters
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Restart when this file changes too; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) watch: Vec<PathBuf>,
    /// Do not open the page in a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Maximum number of runs that are executed at a time; further ones wait in the store
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Maximum time for active runs to finish their superstep when the server stops or restarts
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::duration)]
    pub(crate) grace: Duration,
    /// Set by a server that restarts
    #[arg(long, hide = true)]
    pub(crate) restarted: bool,
}
