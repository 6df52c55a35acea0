//! `weft graph`: draws the graph of an agent.

use crate::CliError;
use crate::args::{Drawing, Graph};
use crate::context::CommandContext;
use crate::exit::Exit;

pub(crate) fn graph(command: &Graph, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Graph::Show { agent, format } => {
            let graph = context.graph_of(agent)?;
            context.terminal.piece(match format {
                Drawing::Mermaid => graph.mermaid(),
                Drawing::Svg => graph.svg(),
            })?;
            Ok(Exit::Done)
        }
    }
}
