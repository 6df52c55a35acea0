//! Agents that are asked by their slugs, and the records that they make.

use super::Service;
use crate::error::{ApiError, Result};
use serde_json::{Value, json};
use weftwork_types::code::Fault;
use weftwork_types::exposure::ExposureChange;
use weftwork_types::port::{
    AgentSummary, DefinitionRefusal, NewDefinition, Platform, TaskCaller, TurnRun,
};
use weftwork_types::task::{Mode, Payload, TaskRequest, TaskResponse};
use weftwork_types::{CallChain, Right};

impl Service {
    pub(crate) fn platform(&self) -> Result<&dyn Platform> {
        let missing = || ApiError::missing("this server has no agents that are asked by slug");
        self.state.settings.platform.as_deref().ok_or_else(missing)
    }

    pub(crate) fn agents(&self) -> Result<Value> {
        Ok(json!({"agents": self.platform()?.agents(self.who())}))
    }

    pub(crate) fn find_agent(&self, slug: &str) -> Result<AgentSummary> {
        let agents = self.platform()?.agents(self.who());
        let found = agents.into_iter().find(|agent| agent.slug == slug);
        found.ok_or_else(|| {
            ApiError::missing(format!(
                "there is no agent {slug}; `GET /agents` lists those there are"
            ))
        })
    }

    pub(crate) async fn put_definition(
        &self,
        new: NewDefinition,
    ) -> Result<Result<AgentSummary, DefinitionRefusal>> {
        Ok(self.platform()?.put_definition(self.who(), new).await)
    }

    pub(crate) async fn remove_definition(
        &self,
        organization: Option<&str>,
        slug: &str,
    ) -> Result<Result<(), DefinitionRefusal>> {
        Ok(self.platform()?.remove_definition(self.who(), organization, slug).await)
    }

    pub(crate) async fn expose_agent(
        &self,
        slug: &str,
        change: ExposureChange,
    ) -> Result<Result<AgentSummary, DefinitionRefusal>> {
        Ok(self.platform()?.expose(self.who(), slug, change).await)
    }

    pub(crate) async fn ask_agent(
        &self,
        request: TaskRequest,
        by: TaskCaller,
    ) -> Result<TaskResponse> {
        self.require_for_request(&request.payload)?;
        let platform = self.platform()?;
        if starts_work(&request.payload) {
            let conversation = request.conversation_id.as_deref();
            self.admit_turn(&by, &request.agent, conversation).await?;
        }
        Ok(platform.task(by, request).await)
    }

    /// Checks the load of the server and the limits of the client for a turn, and counts its run. A
    /// repeated turn begins no run, and has the one that is returned.
    pub(crate) async fn admit_turn(
        &self,
        by: &TaskCaller,
        agent: &str,
        conversation: Option<&str>,
    ) -> Result<Option<TurnRun>> {
        self.check_load()?;
        let earlier = self.platform()?.earlier(by, agent, conversation).await;
        if earlier.is_none() {
            self.admit_start(1).await?;
        }
        Ok(earlier)
    }

    /// Returns the caller of a task of the client.
    pub(crate) fn task_caller(
        &self,
        idempotency_key: Option<String>,
        chain: CallChain,
    ) -> TaskCaller {
        TaskCaller {
            principal: self.who().clone(),
            caller: self.caller(),
            parent_span: self.client.parent_span(),
            idempotency_key,
            chain,
        }
    }

    /// Checks the rights for a request: an answer to an approval approves, as by any other route.
    fn require_for_request(&self, payload: &Payload) -> Result<()> {
        if payload.answers_approval() {
            self.require(Right::Approve)?;
            if payload.action.is_none() {
                return Ok(());
            }
        }
        self.require(right_of(payload))
    }

    pub(crate) async fn record(
        &self,
        mode: Mode,
        conversation: &str,
        payload: &Payload,
    ) -> Result<TaskResponse> {
        self.require(right_of(payload))?;
        Ok(self.platform()?.record(self.who(), mode, conversation, payload).await)
    }

    pub(crate) async fn conversations(
        &self,
        agent: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Value> {
        let found = self.platform()?.conversations(self.who(), agent, after, limit).await;
        found.map_err(refused)
    }

    pub(crate) async fn orchestrations(&self, agent: Option<&str>) -> Result<Value> {
        self.platform()?.orchestrations(self.who(), agent).await.map_err(refused)
    }

    pub(crate) async fn orchestration(&self, conversation: &str) -> Result<Value> {
        self.platform()?.orchestration(self.who(), conversation).await.map_err(refused)
    }

    pub(crate) async fn conversation(&self, id: &str, whole: bool) -> Result<Value> {
        self.platform()?.conversation(self.who(), id, whole).await.map_err(refused)
    }

    pub(crate) async fn erase_conversation(&self, id: &str) -> Result<()> {
        self.platform()?.erase(self.who(), id).await.map_err(refused)
    }
}

/// The right that a request needs: to read for actions that only read.
fn right_of(payload: &Payload) -> Right {
    match payload.action.as_deref() {
        Some("read" | "list") => Right::Read,
        _ => Right::Run,
    }
}

/// Returns `true` if a request starts work: not one that reads, and not one that stops it.
fn starts_work(payload: &Payload) -> bool {
    let pauses = payload.orchestration_action.as_deref() == Some("pause");
    right_of(payload) != Right::Read && !pauses
}

pub(crate) fn refused(fault: Fault) -> ApiError {
    match fault.code.as_str() {
        "W0201" => ApiError::missing(fault.message),
        "W0202" => ApiError::busy(),
        _ if fault.retriable => {
            ApiError::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, fault.message)
        }
        _ => ApiError::invalid(fault.message),
    }
}
