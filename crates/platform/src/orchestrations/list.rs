//! The orchestrations of a principal: their steps, and what they wait for.

use super::error::OrchestrationError;
use super::is_orchestration;
use crate::orchestration::{PAUSE_KEY, Pause, Progress, find_pause, id_of_node, root_of};
use crate::platform::HostedAgents;
use crate::records::{
    Conversation, ConversationQuery, RecordError, conversations, read_conversation,
};
use serde_json::{Map, Value, json};
use weftwork_store::{StoreError, open_questions};
use weftwork_types::code::Fault;
use weftwork_types::interrupt::Interrupt;
use weftwork_types::run::RunStatus;
use weftwork_types::{Principal, ThreadId};

type Result<T> = std::result::Result<T, OrchestrationError>;

/// Number of conversations that are read at once.
const PAGE: usize = 200;

/// Selection of orchestrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selected {
    /// Orchestrations that have not ended.
    Open,
    All,
}

impl HostedAgents {
    /// Lists the orchestrations that have not ended, those of the last changed conversation first.
    pub(crate) async fn list_orchestrations(
        &self,
        who: &Principal,
        agent: Option<&str>,
    ) -> Result<Value> {
        let store = &**self.runtime().store();
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let query = ConversationQuery { agent: agent.map(str::to_owned), after, limit: PAGE };
            let page = conversations(store, who, query).await.map_err(failed)?;
            for conversation in &page.conversations {
                let described = self.describe(who, conversation, Selected::Open).await;
                found.extend(described.unwrap_or_else(|error| unread(conversation, error)));
            }
            after = page.next;
            if after.is_none() {
                return Ok(json!({"orchestrations": found}));
            }
        }
    }

    /// Describes the last orchestration of a conversation.
    pub(crate) async fn show_orchestration(&self, who: &Principal, id: &str) -> Result<Value> {
        let found = read_conversation(&self.records(who), id).await.map_err(failed)?;
        let described = self.describe(who, &found.conversation, Selected::All).await?;
        let reason = "its last request began none".to_owned();
        described.ok_or(OrchestrationError::Nothing { action: "show", reason })
    }

    async fn describe(
        &self,
        who: &Principal,
        of: &Conversation,
        selected: Selected,
    ) -> Result<Option<Value>> {
        let store = &**self.runtime().store();
        let thread = &of.thread;
        let Some(agent) = of.agent.as_deref() else { return Ok(None) };
        let rows = match store.runs(who, thread).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            rows => rows?,
        };
        let is_active = rows.iter().any(|row| !row.status.is_final());
        let last = rows.last().map(|row| row.status);
        if !root_of(rows).is_some_and(|row| is_orchestration(&row.new.input)) {
            return Ok(None);
        }
        let values = self.runtime().state(who, thread).await?.values;
        let progress = read_progress(&values);
        if selected == Selected::Open && progress.is_none() && !is_active {
            return Ok(None);
        }
        let pause = find_pause(store, who, thread).await?;
        let open = open_questions(store.interrupts(who, thread).await?);
        let answer = &values["answer"];
        let status = match (&pause, progress.is_none() && !is_active) {
            (_, true) if answer.get("error").is_some() => "failed",
            (_, true) => "completed",
            (Some(_), false) => "paused",
            (None, false) if is_active => "running",
            (None, false) if !open.is_empty() => "waiting",
            (None, false) if last == Some(RunStatus::Cancelled) => "cancelled",
            (None, false) => "failed",
        };
        let mut described = match &progress {
            Some(_) => self.report(who, agent, thread, progress.as_ref()).await?,
            None => reported(answer),
        };
        described.insert("conversationId".to_owned(), of.id.clone().into());
        described.insert("agent".to_owned(), agent.into());
        described.insert("thread".to_owned(), json!(thread));
        described.insert("status".to_owned(), status.into());
        let waits: Vec<Value> = open.into_iter().filter_map(describe_question).collect();
        described.insert("waits".to_owned(), waits.into());
        if let Some(Pause { by, at, expires_at, .. }) = pause {
            let paused = json!({"by": by, "at": at, "expiresAt": expires_at});
            described.insert("paused".to_owned(), paused);
        }
        Ok(Some(Value::Object(described)))
    }

    /// Describes the steps of an orchestration that waits, as the answer of one that has ended does.
    pub(crate) async fn report_waiting(
        &self,
        who: &Principal,
        agent: &str,
        thread: &ThreadId,
    ) -> Result<Map<String, Value>> {
        let values = self.runtime().state(who, thread).await?.values;
        self.report(who, agent, thread, read_progress(&values).as_ref()).await
    }

    async fn report(
        &self,
        who: &Principal,
        agent: &str,
        thread: &ThreadId,
        progress: Option<&Progress>,
    ) -> Result<Map<String, Value>> {
        let Some(progress) = progress else { return Ok(Map::new()) };
        let outline = self.outline_of(who, agent, thread).await?;
        Ok(progress.outline_over(&outline).map(|of| progress.describe(&of)).unwrap_or_default())
    }
}

/// Describes an orchestration that cannot be read, such as that of a version which this process does not
/// have. It does not hide the others.
fn unread(of: &Conversation, error: OrchestrationError) -> Option<Value> {
    let Fault { code, message, .. } = error.fault();
    Some(json!({
        "conversationId": of.id, "agent": of.agent, "thread": of.thread, "status": "unreadable",
        "code": code, "error": message,
    }))
}

fn failed(error: RecordError) -> OrchestrationError {
    error.fault().into()
}

fn read_progress(values: &Value) -> Option<Progress> {
    serde_json::from_value(values.get("orchestration")?.clone()).ok()
}

/// The members of an answer that describe the steps.
fn reported(answer: &Value) -> Map<String, Value> {
    let metadata = &answer["metadata"];
    let member = |name: &str| Some((name.to_owned(), metadata.get(name)?.clone()));
    ["steps", "failures", "rollback"].into_iter().filter_map(member).collect()
}

/// Describes a question; `None` for the one of a pause.
fn describe_question(question: Interrupt) -> Option<Value> {
    if question.key.as_deref() == Some(PAUSE_KEY) {
        return None;
    }
    let mut described = json!({
        "question": question.ask.to_string(),
        "agent": question.graph,
        "step": id_of_node(&question.node),
        "expiresAt": question.expires_at,
    });
    let name = if question.approval().is_some() { "approvalId" } else { "questionId" };
    described[name] = json!(question.id);
    Some(described)
}
