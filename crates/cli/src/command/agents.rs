//! `weft agents`: lists agents.

use crate::CliError;
use crate::args::Agents;
use crate::exit::Exit;
use crate::house::House;
use crate::screen::Table;

pub(crate) fn agents(command: &Agents, house: &House) -> Result<Exit, CliError> {
    match command {
        Agents::List => {
            let mut table = Table::new(&["AGENT", "ID", "DESCRIPTION"]);
            for agent in &house.agents {
                let cells = [agent.name(), agent.id(), agent.description()];
                table.row(cells.map(str::to_owned));
            }
            table.write(&house.screen)?;
            Ok(Exit::Done)
        }
    }
}
