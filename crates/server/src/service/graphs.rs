//! Hosted graphs.

use super::Service;
use crate::error::{ApiError, Result};
use crate::translate::assistant::Assistant;
use crate::translate::schema;
use serde_json::{Map, Value};
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_runtime::unversioned;

/// A hosted graph, under the id by which runs request it.
pub(super) struct Hosted {
    pub(super) id: String,
    pub(super) graph: CompiledGraph,
}

impl Service {
    /// Returns the name of a graph under which clients know it. Versions of a graph have one name.
    pub(crate) fn name_of<'a>(&'a self, graph: &'a str) -> &'a str {
        let names = &self.state.names;
        if let Some(name) = names.get(graph) {
            return name;
        }
        let graph = unversioned(graph);
        let plain = graph.split_once(':').map_or(graph, |(_, plain)| plain);
        if names.values().any(|name| name == plain) { graph } else { plain }
    }

    /// Returns the description of a hosted graph.
    pub(super) fn description_of(&self, name: &str) -> Option<String> {
        let mut own = self.state.settings.descriptions.iter();
        if let Some((_, description)) = own.find(|(id, _)| self.name_of(id) == name) {
            return Some(description.clone());
        }
        let found = self.state.runtime.sourced(self.who(), name).ok()?;
        Some(found.description).filter(|description| !description.is_empty())
    }

    /// Returns the names of the graphs of the server, and of those that the organisation of the client
    /// has.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.state.names.values().cloned().collect();
        let listed = self.state.runtime.listed(self.who());
        names.extend(listed.iter().map(|listed| self.name_of(&listed.id).to_owned()));
        names
    }

    /// Returns the name of a hosted graph, given its name or id.
    pub(super) fn graph_of(&self, graph: &str) -> Result<String> {
        let own = self.state.names.iter().find(|(id, name)| *id == graph || *name == graph);
        if let Some((_, name)) = own {
            return Ok(name.clone());
        }
        match self.state.runtime.sourced(self.who(), graph) {
            Ok(found) => return Ok(self.name_of(&found.id).to_owned()),
            Err(RuntimeError::UnknownGraph { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let known: Vec<_> = self.names().iter().map(|name| format!("'{name}'")).collect();
        Err(ApiError::missing(format!(
            "Graph '{graph}' not found. Expected one of: [{}]",
            known.join(", ")
        )))
    }

    /// Returns a hosted graph by its name; of a graph with versions, the current one.
    pub(super) fn hosted(&self, name: &str) -> Result<Hosted> {
        let runtime = &self.state.runtime;
        if let Some((id, graph)) = runtime.graphs().find(|(id, _)| self.name_of(id) == name) {
            return Ok(Hosted { id: id.to_owned(), graph: graph.clone() });
        }
        match runtime.sourced(self.who(), name) {
            Ok(found) => Ok(Hosted { id: unversioned(&found.id).to_owned(), graph: found.graph }),
            Err(RuntimeError::UnknownGraph { .. }) => {
                Err(ApiError::missing(format!("graph `{name}` is not hosted by this server")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the assistant that a request names by its UUID, or by the name of its graph.
    pub(super) async fn chosen(&self, assistant: &str) -> Result<Assistant> {
        match self.graph_of(assistant) {
            Ok(name) => return Ok(self.of_graph(&name)),
            Err(error) if error.is_missing() => {}
            // An agent that cannot be asked here.
            Err(error) => return Err(error),
        }
        let Ok(id) = uuid::Uuid::try_parse(assistant) else {
            let known = self.names();
            return Err(ApiError::invalid(format!(
                "Invalid assistant: '{assistant}'. Must be either:\n- A valid assistant UUID, or\n- \
                 One of the registered graphs: {}",
                known.join(", ")
            )));
        };
        let found = self.find_assistant(id).await?;
        found.ok_or_else(|| ApiError::missing(format!("Assistant with ID {id} not found")))
    }

    /// Returns the nodes and edges of the graph of an assistant, and of its subgraphs to a depth.
    pub(crate) async fn graph(&self, assistant: &str, depth: usize) -> Result<Value> {
        let assistant = self.chosen(assistant).await?;
        Ok(self.hosted(assistant.record.graph())?.graph.topology(depth))
    }

    /// Returns the JSON Schemas of the graph of an assistant.
    pub(crate) async fn schemas(&self, assistant: &str) -> Result<Value> {
        let assistant = self.chosen(assistant).await?;
        let name = assistant.record.graph();
        Ok(schema::schemas_to_json(name, &self.hosted(name)?.graph))
    }

    /// Returns the schemas of the subgraphs of an assistant by their namespaces: of one, or of all
    /// of one level or of all levels.
    pub(crate) async fn subgraphs(
        &self,
        assistant: &str,
        namespace: Option<&str>,
        recurse: bool,
    ) -> Result<Value> {
        let assistant = self.assistant(assistant).await?;
        let mut found = Map::new();
        let graph = self.hosted(assistant.record.graph())?.graph;
        add_subgraphs(&graph, "", recurse || namespace.is_some(), &mut found);
        if let Some(namespace) = namespace {
            let below = format!("{namespace}|");
            found.retain(|name, _| name == namespace || recurse && name.starts_with(&below));
        }
        Ok(found.into())
    }
}

fn add_subgraphs(graph: &CompiledGraph, prefix: &str, recurse: bool, to: &mut Map<String, Value>) {
    for (node, subgraph) in graph.subgraphs() {
        let namespace = format!("{prefix}{node}");
        to.insert(namespace.clone(), schema::schemas_to_json(subgraph.name(), subgraph));
        if recurse {
            add_subgraphs(subgraph, &format!("{namespace}|"), recurse, to);
        }
    }
}
