//! Usage of an evaluation, counted from the events of its runs.

use weftwork_types::event::AiEvent;
use weftwork_types::usage::Usage;

/// Counts the usage that events report. Calls whose recorded results were reused are not counted
/// again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    used: Usage,
    reused_tools: u64,
}

impl Count {
    pub(crate) fn read(&mut self, event: &AiEvent) {
        match event {
            AiEvent::UsageReport { fact } => self.used += Usage::model_call(fact.tokens),
            AiEvent::ToolCallStart { .. } => self.used += Usage::tool_call(),
            AiEvent::CallReused { kind, .. } if kind == "tool" => self.reused_tools += 1,
            _ => {}
        }
    }

    pub(crate) fn used(self) -> Usage {
        let tool_calls = self.used.tool_calls.saturating_sub(self.reused_tools);
        Usage { tool_calls, ..self.used }
    }
}
