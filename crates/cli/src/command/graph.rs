//! `weft graph`: draws the graph of an agent.

use crate::args::{Drawing, Graph};
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

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
