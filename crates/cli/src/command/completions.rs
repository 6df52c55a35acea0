//! `weft completions`: what a shell needs to complete our commands.

use crate::CliError;
use crate::args::{Cli, Completions};
use crate::exit::Exit;
use crate::screen::Screen;
use clap::CommandFactory;

pub(crate) fn completions(args: &Completions, screen: &Screen) -> Result<Exit, CliError> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weft", &mut script);
    screen.piece(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
