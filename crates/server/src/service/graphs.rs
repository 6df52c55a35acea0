//! Hosted graphs.

use super::Service;
use crate::error::{ApiError, Result};
use crate::translate::assistant::Assistant;
use crate::translate::schema;
use serde_json::{Map, Value};
use weftwork_graph::CompiledGraph;

/// A hosted graph.
pub(super) struct Hosted<'a> {
    pub(super) id: &'a str,
    pub(super) graph: &'a CompiledGraph,
}

impl Service {
    /// Returns the name of a graph under which clients know it.
    pub(crate) fn name_of<'a>(&'a self, graph: &'a str) -> &'a str {
        self.state.names.get(graph).map_or(graph, String::as_str)
    }

    /// Returns the description of the hosted graph with a name.
    pub(super) fn description_of(&self, name: &str) -> Option<&str> {
        let descriptions = self.state.settings.descriptions.iter();
        let mut of_name = descriptions.filter(|(id, _)| self.name_of(id) == name);
        of_name.next().map(|(_, description)| description.as_str())
    }

    /// Returns the names of the hosted graphs.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.state.names.values().map(String::as_str)
    }

    /// Returns the name of a hosted graph, given its name or id.
    pub(super) fn graph_of(&self, graph: &str) -> Result<&str> {
        let found = self.state.names.iter().find(|(id, name)| *id == graph || *name == graph);
        found.map(|(_, name)| name.as_str()).ok_or_else(|| {
            let known: Vec<_> = self.names().map(|name| format!("'{name}'")).collect();
            ApiError::missing(format!(
                "Graph '{graph}' not found. Expected one of: [{}]",
                known.join(", ")
            ))
        })
    }

    /// Returns a hosted graph by its name.
    pub(super) fn hosted(&self, name: &str) -> Result<Hosted<'_>> {
        let found = self.state.runtime.graphs().find(|(id, _)| self.name_of(id) == name);
        let (id, graph) = found.ok_or_else(|| {
            ApiError::missing(format!("graph `{name}` is not hosted by this server"))
        })?;
        Ok(Hosted { id, graph })
    }

    /// Returns the assistant that a request names by its UUID, or by the name of its graph.
    pub(super) async fn chosen(&self, assistant: &str) -> Result<Assistant> {
        if let Ok(name) = self.graph_of(assistant) {
            return Ok(self.of_graph(name));
        }
        let Ok(id) = uuid::Uuid::try_parse(assistant) else {
            let known: Vec<_> = self.names().collect();
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
        Ok(schema::schemas_to_json(name, self.hosted(name)?.graph))
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
        add_subgraphs(graph, "", recurse || namespace.is_some(), &mut found);
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
