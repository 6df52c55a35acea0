//! `weft graph`: draws the graph of an agent.

use super::agents::Definitions;
use crate::args::{Drawing, Graph};
use weftwork::agents::AgentError;
use weftwork::find_agent;
use weftwork::graph::CompiledGraph;
use weftwork::platform::{AGENTS, DefinitionFolder};
use weftwork::runtime::GraphSource as _;
use weftwork_cli_base::CliError;
use weftwork_cli_base::context::CommandContext;
use weftwork_cli_base::exit::Exit;

pub(crate) async fn graph(command: &Graph, context: &CommandContext) -> Result<Exit, CliError> {
    match command {
        Graph::Show { agent, format } => {
            let graph = graph_of(agent, context).await?;
            context.terminal.piece(match format {
                Drawing::Mermaid => graph.mermaid(),
                Drawing::Svg => graph.svg(),
            })?;
            Ok(Exit::Done)
        }
    }
}

/// Returns the graph of an agent; of an agent with a definition that has steps, the steps.
async fn graph_of(agent: &str, context: &CommandContext) -> Result<CompiledGraph, CliError> {
    let unknown = match find_agent(&context.agents, agent) {
        Ok(found) if found.is_defined() => {
            let files = context.config.read_definitions()?.sound;
            let folder = files.iter().find(|folder| folder.slug == found.name());
            let steps = folder.map(steps_of).transpose()?.flatten();
            return steps.map_or_else(|| context.graph_of(agent), Ok);
        }
        Ok(_) => return context.graph_of(agent),
        // It may be a row of the store.
        Err(unknown) => unknown,
    };
    let Definitions { agents, who, .. } = Definitions::read(None, context).await?;
    let slug = agent.strip_prefix(AGENTS).unwrap_or(agent);
    let Some(folder) = agents.definition(&who, slug) else { return Err(unknown.into()) };
    match steps_of(&folder)? {
        Some(steps) => Ok(steps),
        None => Ok(agents.resolve(&who, slug)?.ok_or(unknown)?.graph),
    }
}

fn steps_of(folder: &DefinitionFolder) -> Result<Option<CompiledGraph>, CliError> {
    Ok(folder.steps_graph().map_err(AgentError::from)?)
}
