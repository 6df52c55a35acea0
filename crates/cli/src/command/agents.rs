//! `weft agents`: lists agents.

use super::definitions;
use crate::args::Agents;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::Table;

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
        Agents::Definitions(command) => definitions::definitions(command, &context.terminal),
    }
}
