//! The agents of a runtime as a [`Platform`].

use super::response::failure;
use super::{HostedAgents, RecordRequest};
use crate::action::{Action, RecordAction};
use crate::definition::DefinitionFolder;
use crate::exposure::NewExposure;
use crate::mode::RequestError;
use crate::records::{
    Conversation, ConversationQuery, agent_of_thread, conversations, erase_conversation,
    export_conversation, read_conversation,
};
use crate::rows::{NewRow, RowError, RowWriter};
use crate::task_list;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_store::StoreError;
use weftwork_types::code::Fault;
use weftwork_types::exposure::ExposureChange;
use weftwork_types::peer::PeerCounts;
use weftwork_types::port::{AgentSummary, DefinitionRefusal, NewDefinition, Platform, TaskCaller};
use weftwork_types::task::{Mode, Payload, TaskRequest, TaskResponse};
use weftwork_types::{BoxFuture, Principal};

/// Maximum number of conversations in a list.
const CONVERSATIONS_MAX: usize = 1_000;

impl Platform for HostedAgents {
    fn agents(&self, who: &Principal) -> Vec<AgentSummary> {
        let summary = |folder: &Arc<DefinitionFolder>| AgentSummary {
            peer: self.agents.peer_state(folder, &**self.runtime.clock()),
            ..self.agents.summary(folder)
        };
        self.agents.definitions(who).iter().map(summary).collect()
    }

    fn peers(&self) -> PeerCounts {
        self.agents.peers(&**self.runtime.clock())
    }

    fn task(&self, by: TaskCaller, request: TaskRequest) -> BoxFuture<'_, TaskResponse> {
        Box::pin(self.fulfil(by, request, None))
    }

    fn record<'a>(
        &'a self,
        who: &'a Principal,
        mode: Mode,
        conversation: &'a str,
        payload: &'a Payload,
    ) -> BoxFuture<'a, TaskResponse> {
        Box::pin(async move {
            let refused = |fault: Fault| failure(mode, &fault, Map::new());
            let (kind, action) = match Action::of(mode, payload) {
                Ok(Action::Record(kind, action)) => (kind, action),
                Ok(Action::Run | Action::Again(_) | Action::Orchestration(_)) => {
                    let run = RequestError::Member {
                        member: "action",
                        found: "that of a run".to_owned(),
                        expected: "an action on records; ask the agent for others".to_owned(),
                    };
                    return refused(run.fault());
                }
                Err(error) => return refused(error.fault()),
            };
            let thread = match self.thread_of(who, conversation).await {
                Ok(thread) => thread,
                Err(fault) => return refused(fault),
            };
            // A new record has the form that the agent of the conversation gives it.
            let agent = match action == RecordAction::Create {
                true => agent_of_thread(&**self.runtime.store(), who, &thread).await,
                false => Ok(None),
            };
            let agent = match agent {
                Ok(agent) => agent,
                Err(error) => return refused(error.fault()),
            };
            let request = RecordRequest {
                mode,
                kind,
                action,
                conversation,
                thread: &thread,
                agent: agent.as_deref(),
                payload,
                key: None,
            };
            self.act(who, request).await
        })
    }

    fn conversations<'a>(
        &'a self,
        who: &'a Principal,
        agent: Option<&'a str>,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let after = after.map(str::parse).transpose().map_err(|_| {
                RequestError::Member {
                    member: "after",
                    found: "another text".to_owned(),
                    expected: "the `next` of an earlier list".to_owned(),
                }
                .fault()
            })?;
            let agent = agent.map(str::to_owned);
            let query =
                ConversationQuery { agent, after, limit: limit.clamp(1, CONVERSATIONS_MAX) };
            let page = conversations(&**self.runtime.store(), who, query).await;
            let page = page.map_err(|error| error.fault())?;
            let listed: Vec<_> = page.conversations.iter().map(shown).collect();
            let next = page.next.map(|next| next.to_string());
            Ok(json!({"conversations": listed, "next": next}))
        })
    }

    fn conversation<'a>(
        &'a self,
        who: &'a Principal,
        id: &'a str,
        whole: bool,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let records = self.records(who);
            let found = read_conversation(&records, id).await.map_err(|error| error.fault())?;
            let thread = &found.conversation.thread;
            let mut value = match whole {
                true => export_conversation(&records, id).await.map_err(|error| error.fault())?,
                false => json!({"plans": found.plans, "deliverables": found.deliverables}),
            };
            value["conversation"] = shown(&found.conversation);
            value["tasks"] = task_list::tasks(&self.runtime, who, thread).await?.into();
            if whole {
                let state = self.runtime.state(who, thread).await;
                value["messages"] =
                    state.map(|state| state.values["messages"].clone()).unwrap_or_default();
            }
            Ok(value)
        })
    }

    fn orchestrations<'a>(
        &'a self,
        who: &'a Principal,
        agent: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            self.list_orchestrations(who, agent).await.map_err(|error| error.fault())
        })
    }

    fn orchestration<'a>(
        &'a self,
        who: &'a Principal,
        conversation: &'a str,
    ) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            self.show_orchestration(who, conversation).await.map_err(|error| error.fault())
        })
    }

    fn erase<'a>(&'a self, who: &'a Principal, id: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            erase_conversation(&self.records(who), id).await.map_err(|error| error.fault())
        })
    }

    fn put_definition<'a>(
        &'a self,
        who: &'a Principal,
        new: NewDefinition,
    ) -> BoxFuture<'a, Result<AgentSummary, DefinitionRefusal>> {
        Box::pin(async move {
            let NewDefinition { slug, organization, files, condition } = new;
            let by = RowWriter::Client(who.clone());
            let row = NewRow { slug, organization, files, condition, by };
            let now = self.runtime.clock().now();
            let written = self.agents.put_row(&**self.runtime.store(), &row, now).await;
            Ok(self.agents.summary(&*written.map_err(refusal)?))
        })
    }

    fn remove_definition<'a>(
        &'a self,
        who: &'a Principal,
        organization: Option<&'a str>,
        slug: &'a str,
    ) -> BoxFuture<'a, Result<(), DefinitionRefusal>> {
        Box::pin(async move {
            let now = self.runtime.clock().now();
            let by = RowWriter::Client(who.clone());
            let store = &**self.runtime.store();
            let removed = self.agents.remove_row(store, &by, organization, slug, now).await;
            removed.map_err(refusal)
        })
    }

    fn expose<'a>(
        &'a self,
        who: &'a Principal,
        slug: &'a str,
        change: ExposureChange,
    ) -> BoxFuture<'a, Result<AgentSummary, DefinitionRefusal>> {
        Box::pin(async move {
            let missing = || StoreError::NotFound { kind: "agent", id: slug.to_owned() };
            let found = self.agents.definition(who, slug);
            let found = found.ok_or_else(|| DefinitionRefusal::Store(missing().fault()))?;
            let organization = found.definition.organization.clone();
            let by = RowWriter::Client(who.clone());
            let new = NewExposure { organization, slug: slug.to_owned(), change, by };
            let now = self.runtime.clock().now();
            let exposed = self.agents.expose(&**self.runtime.store(), new, now).await;
            exposed.map_err(refusal)?;
            Ok(self.agents.summary(&found))
        })
    }
}

fn refusal(error: RowError) -> DefinitionRefusal {
    let text = error.to_string();
    match error {
        RowError::Problems { problems } => DefinitionRefusal::Problems {
            text,
            problems: problems.iter().map(|problem| json!(problem)).collect(),
        },
        RowError::Taken { problem } => DefinitionRefusal::Taken { text, problem: json!(problem) },
        RowError::Forbidden { .. } => DefinitionRefusal::Forbidden { text },
        RowError::Store(error) => DefinitionRefusal::Store(error.fault()),
    }
}

fn shown(conversation: &Conversation) -> Value {
    json!({
        "id": conversation.id,
        "title": conversation.title,
        "agent": conversation.agent,
        "thread": conversation.thread,
        "createdAt": conversation.created_at,
        "updatedAt": conversation.updated_at,
    })
}
