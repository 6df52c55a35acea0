//! The input of runs of a graph, typed or as JSON.

use crate::compiled::CompiledGraph;
use crate::error::RuntimeError;
use crate::output::IntoOutput;
use crate::state::{Seen, State, StateSpec};
use serde_json::{Map, Value as Json};
use weftwork_engine::{Goto, NodeIdx};
use weftwork_types::run::{RunCommand, RunInput, Target};

/// Input of a run: JSON, a [`RunInput`], or an update or command over the graph's state.
///
/// JSON is new input: an object of channel values, or the argument of a flow.
pub trait IntoInput {
    /// Converts to the input of a run of a graph.
    ///
    /// # Errors
    /// [`RuntimeError::OtherState`] when the input is over another state than the graph's,
    /// [`RuntimeError::Engine`] when a value cannot be written as JSON.
    fn into_input(self, graph: &CompiledGraph) -> Result<RunInput, RuntimeError>;
}

impl IntoInput for RunInput {
    fn into_input(self, _: &CompiledGraph) -> Result<RunInput, RuntimeError> {
        Ok(self)
    }
}

impl IntoInput for Json {
    fn into_input(self, _: &CompiledGraph) -> Result<RunInput, RuntimeError> {
        Ok(RunInput::Start { input: self })
    }
}

impl<U: IntoOutput> IntoInput for U {
    fn into_input(self, graph: &CompiledGraph) -> Result<RunInput, RuntimeError> {
        if let Some((what, fix)) = U::check(&graph.info()) {
            return Err(RuntimeError::OtherState { what, fix });
        }
        let output = self.into_output();
        let mut output = output.map_err(|error| RuntimeError::Node(error.into_fault()))?;
        let plan = graph.plan();
        plan.find_named(NodeIdx::START, &mut output)?;
        let mut update = Vec::with_capacity(output.writes.len());
        for (index, write) in &output.writes {
            let (json, replaces) = plan.write_json(*index, write)?;
            if replaces {
                let reason = "an input or update from outside cannot replace the value of a channel; write to it, or let a node replace it";
                return Err(RuntimeError::BadUpdate { reason });
            }
            update.push((plan.channel_name(*index).to_owned(), json));
        }
        if output.goto.is_empty() {
            return Ok(RunInput::Start { input: Json::Object(merge_writes(update)?) });
        }
        let goto = output.goto.iter().filter_map(stored_target).collect();
        Ok(RunInput::Command(RunCommand { answers: None, update, goto }))
    }
}

/// Joins the writes to each channel. Lists are appended to each other.
fn merge_writes(update: Vec<(String, Json)>) -> Result<Map<String, Json>, RuntimeError> {
    let mut members = Map::new();
    for (channel, json) in update {
        match (members.get_mut(&channel), json) {
            (None, json) => drop(members.insert(channel, json)),
            (Some(Json::Array(all)), Json::Array(more)) => all.extend(more),
            _ => {
                let reason = "input writes a channel more than once that is not a list";
                return Err(RuntimeError::BadUpdate { reason });
            }
        }
    }
    Ok(members)
}

/// Target of a command as stored; `None` for the end, which leads nowhere.
fn stored_target(goto: &Goto) -> Option<Target> {
    match goto {
        Goto::Node(node) => Some(Target::Node(node.to_string())),
        Goto::Send { node, arg } => {
            Some(Target::Send { node: node.to_string(), arg: arg.json.clone() })
        }
        Goto::End => None,
    }
}

impl CompiledGraph {
    /// Reads a state of the graph from the JSON of its channels. Channels that are missing have
    /// their initial values.
    ///
    /// # Errors
    /// [`RuntimeError::OtherState`] when the graph's state is not `S`, [`RuntimeError::Engine`]
    /// when a value is not one of its channel.
    pub fn read_state<S: StateSpec>(
        &self,
        values: &Map<String, Json>,
    ) -> Result<State<S>, RuntimeError> {
        let info = self.info();
        if !self.is_over::<S>() {
            let what = format!("of state `{}`", S::NAME);
            let fix = format!("the state of the graph is `{}`", info.state_name);
            return Err(RuntimeError::OtherState { what, fix });
        }
        let slots = self.plan().read_state(values)?;
        Ok(State::over(Seen { slots, plan: self.plan(), node: NodeIdx::START, returned: None }))
    }
}
