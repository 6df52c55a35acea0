//! `weft graph`: draws the graph of an agent.

use crate::CliError;
use crate::args::{Drawing, Graph};
use crate::exit::Exit;
use crate::house::House;

pub(crate) fn graph(command: &Graph, house: &House) -> Result<Exit, CliError> {
    match command {
        Graph::Show { agent, format } => {
            let graph = house.graph_of(agent)?;
            house.screen.piece(match format {
                Drawing::Mermaid => graph.mermaid(),
                Drawing::Svg => graph.svg(),
            })?;
            Ok(Exit::Done)
        }
    }
}
