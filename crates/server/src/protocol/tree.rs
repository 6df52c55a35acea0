//! The graphs of a run and their status, as the log of the run reports them.

use crate::translate::ids;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weftwork_types::event::{AiEvent, CheckpointSource, TaskEnd, TaskStatus};
use weftwork_types::run::RunStatus;

/// The status of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// A subgraph runs.
    Started,
    /// The outermost graph runs.
    Running,
    Completed,
    Failed,
    Interrupted,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A change of the status of a graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// Namespace of the graph in the form of the log.
    pub(crate) ns: String,
    pub(crate) status: Status,
    pub(crate) error: Option<String>,
}

/// The graphs of a run.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Name of the outermost graph.
    graph: String,
    /// Status by namespace, in the form of the log.
    graphs: BTreeMap<String, Status>,
}

impl Tree {
    pub(crate) fn new(graph: String) -> Self {
        Self { graph, graphs: BTreeMap::new() }
    }

    /// Follows an event of the log. `failure` is the reason of a run that failed.
    pub(crate) fn follow(&mut self, event: &AiEvent, failure: Option<&str>) -> Vec<Change> {
        let mut changes = Vec::new();
        let begins = match event {
            AiEvent::Done { .. } => false,
            AiEvent::Requeued { .. } => true,
            // A run that continues reports its tasks before its start.
            _ => !self.graphs.contains_key(""),
        };
        if begins {
            self.set_status(String::new(), Status::Running, None, &mut changes);
        }
        match event {
            AiEvent::Checkpoint(stored) => {
                self.end_subgraphs(&stored.ns, &stored.ended, &mut changes);
                if stored.source != CheckpointSource::Empty {
                    self.open_subgraph(&stored.ns, &mut changes);
                }
            }
            AiEvent::TasksStarted { ns, .. } => self.open_subgraph(ns, &mut changes),
            AiEvent::TasksEnded { ns, ended, .. } => self.end_subgraphs(ns, ended, &mut changes),
            AiEvent::Done { outcome } => self.close_all(*outcome, failure, &mut changes),
            _ => {}
        }
        changes
    }

    /// Opens a subgraph and the subgraphs that contain it.
    fn open_subgraph(&mut self, ns: &str, changes: &mut Vec<Change>) {
        if ns.is_empty() {
            return;
        }
        let ends = ns.match_indices('|').map(|(at, _)| at).chain([ns.len()]);
        for prefix in ends.filter_map(|end| ns.get(..end)) {
            if self.graphs.get(prefix) != Some(&Status::Started) {
                self.set_status(prefix.to_owned(), Status::Started, None, changes);
            }
        }
    }

    /// Ends the subgraphs of tasks that ended.
    fn end_subgraphs(&mut self, ns: &str, ended: &[TaskEnd], changes: &mut Vec<Change>) {
        for task in ended {
            let parent = if ns.is_empty() { String::new() } else { format!("{ns}|") };
            let of_task = format!("{parent}{}:{:032x}", task.node, task.id.0);
            let of_node = format!("{parent}{}", task.node);
            let is_open = |name: &String| self.graphs.get(name) == Some(&Status::Started);
            let Some(name) = [of_task, of_node].into_iter().find(is_open) else { continue };
            let status = match task.status {
                TaskStatus::Ok | TaskStatus::Cached => Status::Completed,
                TaskStatus::Failed => Status::Failed,
                TaskStatus::Asks | TaskStatus::Stopped => Status::Interrupted,
            };
            let error = task.fault.as_ref().map(|fault| fault.message.clone());
            self.set_status(name, status, error, changes);
        }
    }

    /// Ends all graphs, the innermost ones first.
    fn close_all(&mut self, outcome: RunStatus, failure: Option<&str>, changes: &mut Vec<Change>) {
        let status = match outcome {
            RunStatus::Completed => Status::Completed,
            RunStatus::Interrupted | RunStatus::Cancelled => Status::Interrupted,
            _ => Status::Failed,
        };
        let graphs = self.graphs.iter().rev();
        let open = graphs.filter(|(ns, known)| **known == Status::Started && !ns.is_empty());
        let open: Vec<_> = open.map(|(ns, _)| ns.clone()).collect();
        for ns in open {
            self.set_status(ns, status, None, changes);
        }
        let error = failure.filter(|_| status == Status::Failed).map(str::to_owned);
        self.set_status(String::new(), status, error, changes);
    }

    fn set_status(
        &mut self,
        ns: String,
        status: Status,
        error: Option<String>,
        changes: &mut Vec<Change>,
    ) {
        self.graphs.insert(ns.clone(), status);
        changes.push(Change { ns, status, error });
    }

    /// Returns the name of a graph: for a subgraph, that of its node.
    pub(crate) fn name<'a>(&'a self, ns: &'a str) -> &'a str {
        match ns.rsplit('|').next() {
            None | Some("") => &self.graph,
            Some(part) => part.split(':').next().unwrap_or(part),
        }
    }

    /// Returns the graphs as a tree.
    pub(crate) fn to_json(&self) -> Value {
        self.subtree_to_json("")
    }

    /// Returns the graphs as a list.
    pub(crate) fn entries(&self) -> Vec<Value> {
        let entries = self.graphs.iter().map(
            |(ns, status)| json!({"namespace": ids::split_namespace(ns), "status": status.name()}),
        );
        entries.collect()
    }

    fn subtree_to_json(&self, ns: &str) -> Value {
        let within = |other: &&String| {
            let rest = match ns {
                "" => Some(other.as_str()),
                ns => other.strip_prefix(ns).and_then(|rest| rest.strip_prefix('|')),
            };
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('|'))
        };
        let children: Vec<_> =
            self.graphs.keys().filter(within).map(|child| self.subtree_to_json(child)).collect();
        let status = self.graphs.get(ns).copied().unwrap_or(Status::Running);
        let mut tree = json!({
            "namespace": ids::split_namespace(ns),
            "status": status.name(),
            "graph_name": self.name(ns),
        });
        if !children.is_empty() {
            tree["children"] = children.into();
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::event::CheckpointStored;
    use weftwork_types::{CheckpointId, TaskId};

    fn checkpoint(ns: &str, ended: Vec<TaskEnd>) -> AiEvent {
        AiEvent::Checkpoint(Box::new(CheckpointStored {
            ns: ns.to_owned(),
            id: CheckpointId(1),
            parent: None,
            source: CheckpointSource::Loop,
            step: 1,
            ended,
            due: Vec::new(),
        }))
    }

    fn says(changes: Vec<Change>) -> Vec<String> {
        changes.into_iter().map(|at| format!("{} {}", at.ns, at.status.name())).collect()
    }

    #[test]
    fn subgraphs_start_with_their_first_event_and_end_with_their_task() {
        let mut tree = Tree::new("parent".to_owned());
        let started = AiEvent::RunStarted { graph: "x:parent".to_owned(), continues: None };
        assert_eq!(says(tree.follow(&started, None)), [" running"]);
        let sub = format!("sub:{:032x}", 7);
        let inner = format!("sub:{:032x}|in:{:032x}", 7, 8);
        assert_eq!(tree.follow(&started, None), []);
        let opened = tree.follow(&checkpoint(&inner, Vec::new()), None);
        assert_eq!(says(opened), [format!("{sub} started"), format!("{inner} started")]);
        assert_eq!(tree.follow(&checkpoint(&sub, Vec::new()), None), []);
        let shown = tree.to_json();
        assert_eq!(shown["graph_name"], "parent");
        assert_eq!(shown["children"][0]["graph_name"], "sub");
        let deep = &shown["children"][0]["children"][0];
        assert_eq!((&deep["graph_name"], &deep["status"]), (&json!("in"), &json!("started")));
        assert_eq!(deep["namespace"][1], "in:00000000-0000-0000-0000-000000000008");
        let end = TaskEnd::new(TaskId(7), "sub", TaskStatus::Ok);
        let ended = tree.follow(&checkpoint("", vec![end]), None);
        assert_eq!(says(ended), [format!("{sub} completed")]);
        let done = AiEvent::Done { outcome: RunStatus::Failed };
        let ended = tree.follow(&done, Some("boom!"));
        assert_eq!(ended[1].error.as_deref(), Some("boom!"));
        assert_eq!(says(ended), [format!("{inner} failed"), " failed".to_owned()]);
    }
}
