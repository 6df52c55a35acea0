//! The actions on orchestrations.

use super::error::OrchestrationError;
use super::rollback::RollbackResult;
use crate::definition::Outline;
use crate::mode::OrchestrationAction;
use crate::platform::{Checked, HostedAgents};
use crate::source::AGENTS;
use serde_json::{Map, Value, json};
use weftwork_store::StoreError;
use weftwork_types::port::TaskCaller;
use weftwork_types::task::{TaskRequest, TaskResponse};
use weftwork_types::{Principal, ThreadId};

impl HostedAgents {
    /// Acts on an orchestration that began.
    pub(crate) async fn act_on_orchestration(
        &self,
        by: &TaskCaller,
        request: &TaskRequest,
        checked: &Checked,
        action: OrchestrationAction,
    ) -> Result<TaskResponse, OrchestrationError> {
        let who = &by.principal;
        let slug = checked.agent.as_str();
        let graph = format!("{AGENTS}{slug}");
        let runs = self.runtime().thread_for(who, &graph, checked.thread.as_str())?;
        let ended = match action {
            OrchestrationAction::HumanResponse => self.answer_approval(by, request, &runs).await?,
            OrchestrationAction::Resume => self.resume_paused(by, &request.payload, &runs).await?,
            OrchestrationAction::Pause => {
                let content = self.pause(by, &request.payload, &runs).await?;
                return Ok(self.not_run(checked, content, "paused", Map::new()));
            }
            OrchestrationAction::Rollback => {
                let outline = self.outline_of(who, slug, &checked.thread).await?;
                match self.roll_back(by, &request.payload, &outline, &runs).await? {
                    RollbackResult::Performed(ended) => ended,
                    RollbackResult::Listed(list) => {
                        let content = list.get("rollback").cloned().unwrap_or_default();
                        return Ok(self.not_run(checked, content, "confirmation_required", list));
                    }
                }
            }
            OrchestrationAction::Execute | OrchestrationAction::Continue => {
                self.continue_orchestration(by, &runs).await?
            }
        };
        Ok(self.response(who, checked, &ended).await)
    }

    /// The answer to an action that needs no run.
    fn not_run(
        &self,
        checked: &Checked,
        content: Value,
        status: &str,
        mut metadata: Map<String, Value>,
    ) -> TaskResponse {
        metadata.insert("conversationId".to_owned(), checked.conversation.clone().into());
        metadata.insert("thread".to_owned(), json!(checked.thread));
        metadata.insert("status".to_owned(), status.into());
        TaskResponse::success(checked.mode, content, metadata)
    }

    /// Returns the steps with which the orchestration of a thread runs: those of its version.
    pub(crate) async fn outline_of(
        &self,
        who: &Principal,
        slug: &str,
        thread: &ThreadId,
    ) -> Result<Outline, OrchestrationError> {
        let rows = match self.runtime().store().runs(who, thread).await {
            Err(StoreError::NotFound { .. }) => Vec::new(),
            rows => rows?,
        };
        let of_run = rows.last().and_then(|row| self.agents().of_version(who, &row.new.graph));
        let folder = of_run.or_else(|| self.agents().definition(who, slug));
        let orchestration = folder.as_ref().and_then(|of| of.definition.orchestration.as_ref());
        Ok(orchestration.map(Outline::of).unwrap_or_default())
    }
}
