//! `weft agents`: lists agents.

use crate::CliError;
use crate::args::Agents;
use crate::context::CommandContext;
use crate::exit::Exit;
use crate::terminal::Table;

pub(crate) fn agents(command: &Agents, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Agents::List => {
            let mut table = Table::new(&["AGENT", "ID", "DESCRIPTION"]);
            for agent in &context.agents {
                let cells = [agent.name(), agent.id(), agent.description()];
                table.row(cells.map(str::to_owned));
            }
            table.write(&context.terminal)?;
            Ok(Exit::Done)
        }
    }
}
