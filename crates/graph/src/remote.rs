//! Events of graphs that run on other servers on behalf of a node.

use crate::compiled::CompiledGraph;
use crate::context::Ctx;
use crate::run_loop::{EventSource, Modes, StreamEvent, TaskContext};
use serde_json::Value as Json;
use weftwork_types::MessageId;
use weftwork_types::event::AiEvent;

impl Ctx {
    /// The graph that the node is part of.
    #[must_use]
    pub fn graph(&self) -> &CompiledGraph {
        &self.at().loop_context.graph
    }

    /// Emits a frame of a graph that runs on another server on behalf of this node, as it came. It
    /// appears in the mode of its name, as a frame of a subgraph of this node. `within` is the
    /// namespace there, its parts separated by `|`; empty for the outermost graph.
    ///
    /// Modes without a [`remote_name`](Modes::remote_name) and data nested deeper than
    /// [`DEPTH_MAX`](weftwork_types::canonical::DEPTH_MAX) are not emitted.
    pub fn emit_remote(&self, within: &str, mode: Modes, data: Json) {
        self.heartbeat();
        let (Some(name), Ok(())) = (mode.remote_name(), self.check_running()) else { return };
        let at = self.at();
        let ns = at.remote_ns(within);
        if at.loop_context.run.wants(mode) {
            at.loop_context.emit_from(&ns, StreamEvent::Data { mode, data: data.clone() });
        }
        at.emit_event(at.event_source(), AiEvent::RemoteFrame { ns, mode: name.to_owned(), data });
    }

    /// Emits partial text of a message that such a graph produces. A node that returns the message
    /// under the same id does not emit it again.
    pub fn emit_remote_text(&self, within: &str, id: &MessageId, text: &str) {
        self.heartbeat();
        if self.check_running().is_err() {
            return;
        }
        let at = self.at();
        let ns = at.remote_ns(within);
        at.emit_chunk_in(&ns, id, text);
        let by = EventSource { ns: ns.into(), message: Some(id.clone()), ..at.event_source() };
        at.emit_event(by, AiEvent::TextDelta { delta: text.to_owned() });
    }

    /// Returns `true` if the run was cancelled or its deadline has passed, so that work elsewhere
    /// on its behalf should end too. A run that its process releases or loses is not cancelled: it
    /// continues elsewhere.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let deadline = self.calls().deadline;
        deadline.is_some_and(|deadline| deadline <= self.clock().now())
            || self.at().loop_context.run.host.environment().is_cancelled()
    }
}

impl TaskContext {
    /// Namespace of a graph that runs elsewhere on behalf of the task.
    fn remote_ns(&self, within: &str) -> String {
        let ns = self.ns();
        if within.is_empty() { ns } else { format!("{ns}|{within}") }
    }
}
