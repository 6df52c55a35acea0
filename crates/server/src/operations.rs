//! The operations of the server: one table of their methods, paths and rights.
//!
//! The guard refuses an operation that is not in the table, so that a route without a right does not
//! exist.

use crate::mounted::MountedOperation;
use axum::http::Method;
use std::collections::BTreeMap;
use weftwork_types::exposure::AgentProtocol;
use weftwork_types::{Right, Rights};

/// An operation: its method, its path, its access, its description, and the names of the members of
/// its body.
pub(crate) type Operation =
    (&'static str, &'static str, Access, &'static str, &'static [&'static str]);

/// The principals for which an operation is performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone, without a token: the operation has no data of a principal, or checks secrets itself.
    Open,
    /// Anyone, as [`Open`](Self::Open); the handler knows the client of a request with a token.
    Welcome,
    /// Principals with this right.
    Needs(Right),
    /// Principals with one of these rights. The body decides which one, and the service checks it.
    ByBody(&'static [Right]),
}

const OPEN: Access = Access::Open;
const READ: Access = Access::Needs(Right::Read);
const RUN: Access = Access::Needs(Right::Run);
const APPROVE: Access = Access::Needs(Right::Approve);
const ADMIN: Access = Access::Needs(Right::Admin);
/// A text begins a run, and the answer to a question approves.
const ANSWERS: Access = Access::ByBody(&[Right::Run, Right::Approve]);
/// An action reads, or changes something.
const READS: Access = Access::ByBody(&[Right::Read, Right::Run]);
/// An action reads, or changes something, or answers an approval.
const ACTS: Access = Access::ByBody(&[Right::Read, Right::Run, Right::Approve]);
/// Each command has a right of its own.
const COMMANDS: Access = Access::ByBody(&[Right::Read, Right::Run, Right::Approve]);

pub(crate) const RUN_BODY: &[&str] = &[
    "assistant_id",
    "input",
    "command",
    "checkpoint",
    "metadata",
    "config",
    "context",
    "interrupt_before",
    "interrupt_after",
    "stream_mode",
    "stream_subgraphs",
    "multitask_strategy",
    "if_not_exists",
    "after_seconds",
    "durability",
    "on_disconnect",
    "on_completion",
];
const ASSISTANT_BODY: &[&str] =
    &["graph_id", "assistant_id", "name", "description", "config", "context", "metadata"];
const ASSISTANT_SEARCH: &[&str] =
    &["metadata", "graph_id", "name", "limit", "offset", "sort_by", "sort_order", "select"];
const THREAD_SEARCH: &[&str] = &[
    "ids",
    "metadata",
    "values",
    "query",
    "status",
    "timed",
    "last_run",
    "limit",
    "offset",
    "sort_by",
    "sort_order",
    "select",
    "extract",
];

const RECORD_BODY: &[&str] = &[
    "conversationId",
    "action",
    "planId",
    "deliverableId",
    "version",
    "otherVersion",
    "title",
    "content",
];

const ORCHESTRATION_BODY: &[&str] =
    &["expiresIn", "token", "approvalId", "input", "message", "step", "confirm"];

const DEFINITION_BODY: &[&str] = &["files", "organization", "version"];

/// The operations that clients use.
#[rustfmt::skip]
pub(crate) const OPERATIONS: &[Operation] = &[
    ("get", "/ok", OPEN, "Health of the server, and of its store with `check_db`", &[]),
    ("get", "/health", OPEN, "Health of the server, as other servers of agents ask for it", &[]),
    ("get", "/info", READ, "Version and abilities", &[]),
    ("get", "/metrics", READ, "Counts, for Prometheus or as JSON with `format=json`", &[]),
    ("get", "/schemas/events", READ, "Read the JSON Schema of the events of runs", &[]),
    ("post", "/assistants", ADMIN, "Create an assistant", ASSISTANT_BODY),
    ("post", "/assistants/search", READ, "Find assistants", ASSISTANT_SEARCH),
    ("post", "/assistants/count", READ, "Count assistants", ASSISTANT_SEARCH),
    ("get", "/assistants/{assistant_id}", READ, "Read an assistant", &[]),
    ("patch", "/assistants/{assistant_id}", ADMIN, "Add a version to an assistant", ASSISTANT_BODY),
    ("delete", "/assistants/{assistant_id}", ADMIN, "Delete an assistant", &[]),
    ("post", "/assistants/{assistant_id}/versions", READ, "List the versions of an assistant", &["metadata", "limit", "offset"]),
    ("post", "/assistants/{assistant_id}/latest", ADMIN, "Make a version the current one", &["version"]),
    ("get", "/assistants/{assistant_id}/graph", READ, "Read nodes and edges, with those of subgraphs with `xray`", &[]),
    ("get", "/assistants/{assistant_id}/schemas", READ, "Read the schemas of the graph", &[]),
    ("get", "/assistants/{assistant_id}/tools", READ, "Read the tools of the graph and of its subgraphs with their effects and approvals, and requests that they are for", &[]),
    ("get", "/assistants/{assistant_id}/subgraphs", READ, "Read the schemas of the subgraphs", &[]),
    ("get", "/assistants/{assistant_id}/subgraphs/{namespace}", READ, "Read the schemas of a subgraph", &[]),
    ("get", "/agents", READ, "List the agents that are asked by their slugs", &[]),
    ("post", "/agents", ADMIN, "Add an agent: a definition with its files, as a row of the store", &["files", "organization"]),
    ("put", "/agents/{slug}", ADMIN, "Add or replace the row of an agent", DEFINITION_BODY),
    ("delete", "/agents/{slug}", ADMIN, "Remove the row of an agent: that of the `organization`, or the one for all", &[]),
    ("get", "/agents/{slug}", READ, "Read an agent: its modes, its version, its schemas", &[]),
    ("get", "/agents/{slug}/exposure", READ, "Read by which protocols of other programs an agent is reached, with addresses and examples", &[]),
    ("put", "/agents/{slug}/exposure", ADMIN, "Expose an agent by protocols of other programs, or no longer: `true` or `false` by the name of each", &AgentProtocol::NAMES),
    ("post", "/agents/{slug}/tasks", ACTS, "Ask an agent, in one of its modes", &["mode", "userMessage", "conversationId", "payload"]),
    ("post", "/agent-to-agent/tasks", ACTS, "Ask the agent that the body names, as other servers of agents do", &["agent", "mode", "userMessage", "input", "conversationId", "payload"]),
    ("get", "/conversations", READ, "List the conversations of the client, of one `agent`, `after` a position", &[]),
    ("get", "/conversations/{id}", READ, "Read a conversation with its tasks, plans and deliverables; all of it with `whole`", &[]),
    ("delete", "/conversations/{id}", RUN, "Delete a conversation with all that it has", &[]),
    ("get", "/orchestrations", READ, "List the orchestrations of the client that have not ended, of one `agent`: their steps, and what they wait for", &[]),
    ("get", "/orchestrations/{id}", READ, "Read the last orchestration of a conversation", &[]),
    ("post", "/orchestrations/{id}/{action}", ANSWERS, "Act on an orchestration: `continue`, `pause`, `resume`, `approve`, `reject`, `rollback`", ORCHESTRATION_BODY),
    ("get", "/tasks", READ, "List the tasks of the conversation `conversationId`", &[]),
    ("get", "/plans", READ, "List the plans of the conversation `conversationId`, or read the plan `id`, in a `version`", &[]),
    ("post", "/plans", READS, "Create, edit, merge or delete plans, or make a version the current one", RECORD_BODY),
    ("get", "/deliverables", READ, "List the deliverables of the conversation `conversationId`, or read the deliverable `id`, in a `version`", &[]),
    ("post", "/deliverables", READS, "Create, edit, merge or delete deliverables, or make a version the current one", RECORD_BODY),
    ("post", "/threads", RUN, "Create a thread", &["thread_id", "metadata", "if_exists", "supersteps"]),
    ("post", "/threads/search", READ, "Find threads", THREAD_SEARCH),
    ("post", "/threads/count", READ, "Count threads", THREAD_SEARCH),
    ("post", "/threads/prune", ADMIN, "Delete threads", &["thread_ids", "strategy"]),
    ("get", "/threads/{thread_id}", READ, "Read a thread", &[]),
    ("patch", "/threads/{thread_id}", RUN, "Replace members of the metadata of a thread", &["metadata"]),
    ("delete", "/threads/{thread_id}", RUN, "Delete a thread", &[]),
    ("post", "/threads/{thread_id}/copy", RUN, "Copy a thread; up to a checkpoint, without its runs", &["checkpoint_id", "thread_id"]),
    ("get", "/threads/{thread_id}/state", READ, "Read the newest state", &[]),
    ("post", "/threads/{thread_id}/state", RUN, "Change the state", &["values", "as_node", "checkpoint", "checkpoint_id"]),
    ("post", "/threads/{thread_id}/state/checkpoint", READ, "Read the state at a place", &["checkpoint", "subgraphs"]),
    ("get", "/threads/{thread_id}/state/{checkpoint_id}", READ, "Read the state at a checkpoint", &[]),
    ("get", "/threads/{thread_id}/history", READ, "List the newest states", &[]),
    ("post", "/threads/{thread_id}/history", READ, "List states", &["limit", "before", "metadata", "checkpoint", "select"]),
    ("post", "/threads/{thread_id}/runs", RUN, "Start a run", RUN_BODY),
    ("get", "/threads/{thread_id}/runs", READ, "List the runs of a thread; with `replaced=true`, also those that were replaced or rolled back", &[]),
    ("post", "/threads/{thread_id}/runs/wait", RUN, "Start a run and wait for its values", RUN_BODY),
    ("post", "/threads/{thread_id}/runs/stream", RUN, "Start a run and stream its events", RUN_BODY),
    ("get", "/threads/{thread_id}/runs/{run_id}", READ, "Read a run", &[]),
    ("delete", "/threads/{thread_id}/runs/{run_id}", RUN, "Delete a run", &[]),
    ("get", "/threads/{thread_id}/runs/{run_id}/join", READ, "Wait for the values of a run", &[]),
    ("get", "/threads/{thread_id}/runs/{run_id}/log", READ, "Read the end of a run and the events of its log: supersteps, tasks, calls and their usage, without texts", &[]),
    ("get", "/threads/{thread_id}/runs/{run_id}/stream", READ, "Stream the events of a run, after `Last-Event-ID`", &[]),
    ("post", "/threads/{thread_id}/runs/{run_id}/cancel", RUN, "Cancel a run, and roll its work back with `action=rollback`", &[]),
    ("get", "/threads/{thread_id}/usage", READ, "Read usage and cost of the model calls of a thread and of each of its runs", &[]),
    ("post", "/threads/{thread_id}/commands", COMMANDS, "Carry out a command of the protocol of threads", &["id", "method", "params"]),
    ("post", "/threads/{thread_id}/stream/events", READ, "Stream the events of a thread over all its runs", &["channels", "namespaces", "depth", "since"]),
    ("get", "/threads/{thread_id}/stream/events", READ, "Open a WebSocket for commands and events of a thread", &[]),
    ("post", "/runs", RUN, "Start a run on a thread of its own", RUN_BODY),
    ("post", "/runs/wait", RUN, "Start a run on a thread of its own and wait for its values", RUN_BODY),
    ("post", "/runs/stream", RUN, "Start a run on a thread of its own and stream its events", RUN_BODY),
    ("post", "/runs/batch", RUN, "Start several runs; the body is a list of requests", &[]),
    ("post", "/runs/cancel", RUN, "Cancel several runs", &["thread_id", "run_ids", "status"]),
    ("get", "/runs/{run_id}/stream", READ, "Stream the events of a run that is named by its id alone", &[]),
    ("post", "/chat/{agent}", ANSWERS, "Say something to an agent, or answer it, and stream its message; bodies of assistant-ui and of `useChat`, formats by `protocol`", &["messages", "threadId", "id", "trigger", "model"]),
    ("get", "/chat/{agent}/{thread_id}", READ, "List the messages of a thread, without one that is being produced; of the newest turns with `limit`, those that were replaced with `replaced=true`", &[]),
    ("get", "/chat/{agent}/{thread_id}/stream", READ, "Stream the message that is being produced from its beginning; 204 if there is none", &[]),
    ("post", "/chat/{agent}/{thread_id}/cancel", RUN, "Cancel the message that is being produced; with `wait`, answers once its run has ended", &[]),
    ("get", "/models", READ, "List the models of which chats select one; the first one is that of the agents", &[]),
    ("get", "/setup", READ, "Read the model that the server offers to download, and the progress", &[]),
    ("post", "/setup/download", ADMIN, "Begin the download of that model", &[]),
    ("get", "/errors/{code}", OPEN, "Read the page of an error code, as Markdown", &[]),
    ("get", "/interrupts", READ, "List the open questions; those that people answered with `answered=true`, those of one thread with `thread_id`", &[]),
    ("post", "/interrupts/{interrupt_id}/respond", APPROVE, "Answer a question, and `further` ones of its thread; the first answer counts", &["type", "args", "message", "answer", "further"]),
    ("get", "/artifacts/{artifact_id}", READ, "Read a value that streams and states have by reference", &[]),
    ("get", "/usage", READ, "Report usage and cost of model calls, `by` account, key, agent, version, model or day in a time `zone`, `from` a day `until` another; CSV with `format=csv`; as JSON, the limits of the account and key of the client too", &[]),
    ("put", "/store/items", RUN, "Put an item", &["namespace", "key", "value", "index", "ttl"]),
    ("get", "/store/items", READ, "Read an item, by `namespace` and `key`", &[]),
    ("delete", "/store/items", RUN, "Delete an item", &["namespace", "key"]),
    ("post", "/store/items/search", READ, "Find items", &["namespace_prefix", "filter", "query", "limit", "offset"]),
    ("post", "/store/namespaces", READ, "List namespaces", &["prefix", "suffix", "max_depth", "limit", "offset"]),
];

/// Operations that are not described to clients: the page, the description itself, and threads whose
/// id is the name of an operation.
#[rustfmt::skip]
const UNDESCRIBED: &[(&str, &str, Access)] = &[
    ("get", "/", OPEN),
    ("get", "/docs", OPEN),
    ("get", "/openapi.json", OPEN),
    ("get", "/ui", OPEN),
    ("get", "/ui/", OPEN),
    ("get", "/ui/{path}", OPEN),
    ("post", "/ui/session", OPEN),
    ("delete", "/ui/session", OPEN),
    ("get", "/threads/search", READ),
    ("patch", "/threads/search", RUN),
    ("delete", "/threads/search", RUN),
    ("get", "/threads/count", READ),
    ("patch", "/threads/count", RUN),
    ("delete", "/threads/count", RUN),
    ("get", "/threads/prune", READ),
    ("patch", "/threads/prune", RUN),
    ("delete", "/threads/prune", RUN),
];

impl Access {
    /// Returns `true` if the operation is performed for a principal with these rights.
    pub(crate) fn admits(self, rights: Rights) -> bool {
        match self {
            Self::Open | Self::Welcome => true,
            Self::Needs(right) => rights.has(right),
            Self::ByBody(some) => some.iter().any(|right| rights.has(*right)),
        }
    }

    /// Returns the rights of which the operation needs one.
    pub(crate) fn rights(&self) -> &[Right] {
        match self {
            Self::Open | Self::Welcome => &[],
            Self::Needs(right) => std::slice::from_ref(right),
            Self::ByBody(some) => some,
        }
    }
}

/// The access to all operations, by their paths without the names of parameters.
#[derive(Debug, Clone)]
pub(crate) struct Operations(BTreeMap<String, Vec<(&'static str, Access)>>);

impl Default for Operations {
    fn default() -> Self {
        let described = OPERATIONS.iter().map(|(method, path, access, ..)| (*method, path, access));
        let undescribed = UNDESCRIBED.iter().map(|(method, path, access)| (*method, path, access));
        let mut by_path: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (method, path, access) in described.chain(undescribed) {
            by_path.entry(without_names(path)).or_default().push((method, *access));
        }
        Self(by_path)
    }
}

impl Operations {
    /// Adds the operations of a mounted protocol.
    pub(crate) fn add(&mut self, operations: &[MountedOperation]) {
        for operation in operations {
            let methods = self.0.entry(without_names(operation.path)).or_default();
            methods.push((operation.method, operation.access()));
        }
    }

    /// Returns the access to the operation of a route; `None` if there is no such operation.
    pub(crate) fn access(&self, method: &Method, route: &str) -> Option<Access> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let mut methods = self.0.get(&without_names(route))?.iter();
        let found = methods.find(|(name, _)| method.as_str().eq_ignore_ascii_case(name));
        found.map(|(_, access)| *access)
    }

    /// Returns the methods of the operations at the path of a route, as the header `allow` has them.
    pub(crate) fn methods(&self, route: &str) -> String {
        let methods = self.0.get(&without_names(route)).into_iter().flatten();
        methods.map(|(name, _)| name.to_ascii_uppercase()).collect::<Vec<_>>().join(",")
    }
}

/// Returns a path of a route without the names of its parameters.
fn without_names(path: &str) -> String {
    let part = |part| if str::starts_with(part, '{') { "{}" } else { part };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_an_access_by_its_method_and_any_names_of_parameters() {
        let operations = Operations::default();
        for (method, route, access) in [
            (Method::GET, "/threads/{id}", Some(READ)),
            (Method::HEAD, "/threads/{id}", Some(READ)),
            (Method::DELETE, "/threads/{other}", Some(RUN)),
            (Method::GET, "/artifacts/{*id}", Some(READ)),
            (Method::POST, "/threads/{id}/copy", Some(RUN)),
            (Method::POST, "/threads/prune", Some(ADMIN)),
            (Method::PUT, "/threads/{id}", None),
            (Method::GET, "/unknown", None),
        ] {
            assert_eq!(operations.access(&method, route), access, "{method} {route}");
        }
        assert_eq!(operations.methods("/threads/{id}"), "GET,PATCH,DELETE");
    }
}
