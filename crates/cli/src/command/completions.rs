//! `weft completions`: generates shell completions.

use crate::CliError;
use crate::args::{Cli, Completions};
use crate::exit::Exit;
use crate::terminal::Terminal;
use clap::CommandFactory;

pub(crate) fn completions(args: &Completions, terminal: &Terminal) -> Result<Exit, CliError> {
    // Generated in memory, because the generator panics on a write error.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weft", &mut script);
    terminal.piece(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
