//! The commands, one file per command.

mod agents;
mod chat;
mod completions;
mod conformance;
mod demo;
mod doctor;
mod explain;
mod graph;
pub(crate) mod models;
pub(crate) mod question;
mod run;
mod runs;
mod store;
pub(crate) mod threads;

use crate::CliError;
use crate::args::Command;
use crate::exit::Exit;
use crate::house::House;
use crate::screen::Screen;

/// The result of [`without_settings`].
pub(crate) enum Next {
    /// The command was executed.
    Done(Exit),
    /// The command needs the configuration.
    NeedsSettings(Command),
}

/// Executes a command if it needs no configuration.
pub(crate) fn without_settings(
    command: Command,
    store: Option<&str>,
    screen: &Screen,
) -> Result<Next, CliError> {
    match command {
        Command::Explain(args) => explain::explain(&args, screen).map(Next::Done),
        Command::Completions(args) => completions::completions(&args, screen).map(Next::Done),
        Command::Conformance(args) => conformance::conformance(&args, store).map(Next::Done),
        other => Ok(Next::NeedsSettings(other)),
    }
}

/// Executes a command.
pub(crate) async fn run(command: Command, house: &House) -> Result<Exit, CliError> {
    match command {
        Command::Chat(args) => Box::pin(chat::chat(&args, house)).await,
        Command::Run(args) => Box::pin(run::run(&args, house)).await,
        Command::Threads(command) => Box::pin(threads::threads(command, house)).await,
        Command::Runs(command) => Box::pin(runs::runs(&command, house)).await,
        Command::Store(command) => Box::pin(store::store(&command, house)).await,
        Command::Models(command) => Box::pin(models::models(command, house)).await,
        Command::Doctor(args) => Box::pin(doctor::doctor(&args, house)).await,
        Command::Agents(command) => agents::agents(&command, house),
        Command::Graph(command) => graph::graph(&command, house),
        Command::Demo(args) => Box::pin(demo::demo(&args, house)).await,
        Command::Explain(args) => explain::explain(&args, &house.screen),
        Command::Completions(args) => completions::completions(&args, &house.screen),
        Command::Conformance(args) => conformance::conformance(&args, None),
    }
}
