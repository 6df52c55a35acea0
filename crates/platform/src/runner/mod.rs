//! Runners: one for each type of agent, which adds the nodes of the modes to its graph.

mod api;
mod context;
mod external;
mod function;
mod tool;

use crate::agent::Agent;
use crate::definition::{AgentType, Execution};
use crate::mode;
use crate::orchestration;
use crate::state::{AgentState, last_request};
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_agents::check_new_media;
use weftwork_graph::{CompiledGraph, Ctx, Graph, InvalidGraph, Retry, State, Timeout};
use weftwork_tools::ToolRunner;
use weftwork_types::message::Message;
use weftwork_types::task::{Mode, Payload};

/// The runners, one line for each type.
const RUNNERS: [&dyn Runner; 5] =
    [&api::Api, &context::Context, &external::External, &function::Function, &tool::Tool];

/// A type of agent. Its graph has a node for each mode of the definition; those of `converse` and
/// `plan` are the same for all types that have no others.
pub(crate) trait Runner: Sync {
    /// Returns the type.
    fn agent_type(&self) -> AgentType;

    /// Adds the node `converse`.
    fn converse(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("converse", mode::converse)
    }

    /// Adds the node `plan`.
    fn plan(&self, graph: Graph<AgentState>) -> Graph<AgentState> {
        graph.node("plan", mode::plan)
    }

    /// Adds the node `build`.
    fn build(&self, graph: Graph<AgentState>) -> Graph<AgentState>;
}

/// Returns the runner of a type.
pub(crate) fn find(agent_type: AgentType) -> Option<&'static dyn Runner> {
    RUNNERS.into_iter().find(|runner| runner.agent_type() == agent_type)
}

/// Returns the request of a build as the code and the transforms of a definition read it.
fn request_value(state: &State<AgentState>, payload: &Payload, ctx: &Ctx) -> Value {
    json!({
        "message": last_request(state).map(Message::joined_text).unwrap_or_default(),
        "input": state.input(),
        "payload": payload,
        "mode": Mode::Build,
        "conversation": ctx.thread(),
    })
}

/// Applies the limits of an execution to the node of a mode.
fn limited(graph: Graph<AgentState>, mode: Mode, execution: &Execution) -> Graph<AgentState> {
    let graph = match execution.time_limit() {
        Some(limit) => graph.timeout(mode.name(), Timeout::run(limit)),
        None => graph,
    };
    match execution.retries {
        Some(retries) => graph.retry(mode.name(), Retry::new(retries + 1)),
        None => graph,
    }
}

/// Compiles the graph of an agent.
pub(crate) fn compile(
    runner: &dyn Runner,
    agent: Agent,
    tools: ToolRunner,
) -> Result<CompiledGraph, InvalidGraph> {
    let agent = Arc::new(agent);
    let modes: Vec<Mode> = agent.definition.modes().to_vec();
    let mut graph = Graph::<AgentState>::new(agent.slug.clone())
        .version(agent.version.clone())
        .with(Arc::clone(&agent))
        .with(tools.summaries())
        .with(tools)
        .check_input({
            let agent = Arc::clone(&agent);
            move |input| {
                mode::check_input(&agent, input).map_err(|error| error.fault())?;
                check_new_media(&*agent.model, input)
            }
        });
    graph = orchestration::add_steps(graph, &agent, &modes);
    for mode in modes {
        graph = match mode {
            Mode::Plan => runner.plan(graph),
            Mode::Build => runner.build(graph),
            _ => runner.converse(graph),
        };
        if let Some(execution) = &agent.definition.execution {
            graph = limited(graph, mode, execution);
        }
    }
    Ok(graph.build()?)
}
