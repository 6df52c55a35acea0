//! `weft graph`: draws the graph of an agent.

use crate::args::{Drawing, Graph};
use weftwork::agents::AgentError;
use weftwork::find_agent;
use weftwork::graph::CompiledGraph;
use weftwork::platform::DefinitionFolder;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

pub(crate) fn graph(command: &Graph, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Graph::Show { agent, format } => {
            let graph = match steps_of(agent, context)? {
                Some(steps) => steps,
                None => context.graph_of(agent)?,
            };
            context.terminal.piece(match format {
                Drawing::Mermaid => graph.mermaid(),
                Drawing::Svg => graph.svg(),
            })?;
            Ok(Exit::Done)
        }
    }
}

/// Returns the steps of an agent that is defined in a file and has an orchestration.
fn steps_of(agent: &str, context: &CommandContext) -> Result<Option<CompiledGraph>, CliError> {
    let Ok(agent) = find_agent(&context.agents, agent) else { return Ok(None) };
    if !agent.is_defined() {
        return Ok(None);
    }
    let definitions = context.config.read_definitions()?;
    let folder = definitions.sound.iter().find(|folder| folder.slug == agent.name());
    Ok(folder.map(DefinitionFolder::steps_graph).transpose().map_err(AgentError::from)?.flatten())
}
