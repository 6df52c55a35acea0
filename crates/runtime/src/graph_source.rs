//! Graphs that are not known when the runtime is opened.

use std::fmt;
use weftwork_graph::{CompiledGraph, RuntimeError};
use weftwork_types::Principal;

/// Source of graphs beside those of the program: each organisation may have its own, they may change,
/// and there are several versions of each.
///
/// The id of a version is that of its graph, the character `@`, and the version: `agents:golf@3f2a`.
/// A request that names the graph alone, `agents:golf`, gets the version of the thread's last run, or
/// else the current one; its run has the whole id, so that a thread continues with the version that it
/// began with.
///
/// The methods do no I/O: they are called for each request.
pub trait GraphSource: Send + Sync + fmt::Debug {
    /// Returns the graph of an id for a principal: of this version, or the current one of an id without
    /// a version. `None` if the principal has no such graph.
    ///
    /// # Errors
    /// A [`RuntimeError`] if the graph cannot be made here.
    fn resolve(&self, who: &Principal, id: &str) -> Result<Option<SourcedGraph>, RuntimeError>;

    /// Returns the current graphs of a principal, ordered by their ids.
    fn list(&self, who: &Principal) -> Vec<ListedGraph>;

    /// Returns the ids of all versions of all organisations: of the runs that this process takes over.
    fn ids(&self) -> Vec<String>;
}

/// A graph of a source.
#[derive(Debug, Clone)]
pub struct SourcedGraph {
    /// Id with the version.
    pub id: String,
    /// The graph.
    pub graph: CompiledGraph,
    /// Purpose, in a sentence; empty if it has none.
    pub description: String,
}

impl SourcedGraph {
    /// A graph of the program.
    pub(crate) fn own(id: &str, graph: CompiledGraph) -> Self {
        Self { id: id.to_owned(), graph, description: String::new() }
    }
}

/// A graph in the list of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGraph {
    /// Id without a version.
    pub id: String,
    /// Current version.
    pub version: String,
    /// Purpose, in a sentence; empty if it has none.
    pub description: String,
}

/// Returns the part of an id before the version.
#[must_use]
pub fn unversioned(id: &str) -> &str {
    id.split_once('@').map_or(id, |(graph, _)| graph)
}
