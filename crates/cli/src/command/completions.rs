//! `weft completions`: generates shell completions.

use crate::args::{Cli, Completions};
use clap::CommandFactory;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Terminal;

pub(crate) fn completions(args: &Completions, terminal: &Terminal) -> Result<Exit, CliError> {
    // Generated in memory, because the generator panics on a write error.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weft", &mut script);
    terminal.piece(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
