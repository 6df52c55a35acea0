//! Assistants: one for each hosted graph, and the assistants that clients created, with versions.
//!
//! An assistant of a client is one item of the store, with all its versions. The items belong to an
//! organisation of the server, one for each organisation of clients, so that neither graphs nor clients
//! find them among their own items.

use super::Service;
use crate::error::{ApiError, Result};
use crate::translate::assistant::{Assistant, Record, Version};
use crate::translate::ids;
use axum::http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;
use weftwork_runtime::deleted_runs::of_server;
use weftwork_store::{ItemQuery, ItemRef, Namespace, Prefix, PutOptions, SearchFrom, ThreadQuery};
use weftwork_types::Principal;

/// Maximum number of assistants that the clients of an organisation make.
const ASSISTANTS_MAX: usize = 1_000;
/// Maximum number of versions of an assistant.
const VERSIONS_MAX: usize = 100;

/// Members that a new version replaces; the remaining members stay.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) graph: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) config: Option<Map<String, Value>>,
    pub(crate) context: Option<Value>,
    pub(crate) metadata: Map<String, Value>,
}

impl Service {
    /// Returns the assistants of the hosted graphs and of clients.
    pub(crate) async fn assistants(&self) -> Result<Vec<Assistant>> {
        let mut all: Vec<_> = self.names().iter().map(|name| self.of_graph(name)).collect();
        let query = ItemQuery { limit: ASSISTANTS_MAX, ..ItemQuery::default() };
        let who = self.own()?;
        let within = Prefix::from(&assistants_namespace()?);
        for item in self.items().search(&who, &within, &query).await? {
            all.push(read_assistant(&item.key, item.value)?);
        }
        Ok(all)
    }

    /// Returns the assistant with a UUID.
    pub(crate) async fn assistant(&self, id: &str) -> Result<Assistant> {
        let id = ids::parse_uuid("assistant", id)?;
        match self.find_assistant(id).await? {
            Some(found) => Ok(found),
            None => Err(ApiError::not_found()),
        }
    }

    pub(super) async fn find_assistant(&self, id: Uuid) -> Result<Option<Assistant>> {
        if let Some(name) = self.names().iter().find(|name| ids::assistant_of(name) == id) {
            return Ok(Some(self.of_graph(name)));
        }
        let found =
            self.items().get(&self.own()?, &item_of_assistant(id)?, Default::default()).await?;
        found.map(|item| read_assistant(&item.key, item.value)).transpose()
    }

    pub(super) fn of_graph(&self, name: &str) -> Assistant {
        let metadata = Map::from_iter([("created_by".to_owned(), "system".into())]);
        let first = Version::first(self.since());
        let description = self.description_of(name);
        let version = Version { name: name.to_owned(), description, metadata, ..first };
        let record = Record::new(name.to_owned(), version);
        Assistant { id: ids::assistant_of(name), record }
    }

    /// Creates an assistant; an existing one is returned if the client accepts that.
    pub(crate) async fn create_assistant(
        &self,
        id: Option<&str>,
        accepts_existing: bool,
        changes: Changes,
    ) -> Result<Assistant> {
        let graph = self.graph_of(changes.graph.as_deref().unwrap_or_default())?;
        let id = match id {
            Some(id) => ids::parse_uuid("assistant", id)?,
            None => Uuid::new_v4(),
        };
        let _one_at_a_time = self.lock_assistants().await;
        if let Some(found) = self.find_assistant(id).await? {
            return match accepts_existing {
                true => Ok(found),
                false => Err(ApiError::conflict(format!("Assistant {id} already exists"))),
            };
        }
        if self.assistants().await?.len() >= ASSISTANTS_MAX + self.names().len() {
            let detail = format!("there are {ASSISTANTS_MAX} assistants, the maximum; delete some");
            return Err(ApiError::invalid(detail));
        }
        let mut version = Version::first(self.now());
        version.name = graph.clone();
        version.change(changes);
        let assistant = Assistant { id, record: Record::new(graph, version) };
        self.put(&assistant).await?;
        Ok(assistant)
    }

    /// Adds a version to an assistant.
    pub(crate) async fn change_assistant(&self, id: &str, changes: Changes) -> Result<Assistant> {
        let graph = match &changes.graph {
            Some(graph) => Some(self.graph_of(graph)?),
            None => None,
        };
        let _one_at_a_time = self.lock_assistants().await;
        let mut assistant = self.own_assistant(id).await?;
        let mut version = assistant.current().clone();
        version.created_at = self.now();
        version.change(changes);
        assistant.record.add(graph, version, VERSIONS_MAX)?;
        self.put(&assistant).await?;
        Ok(assistant)
    }

    /// Makes a version of an assistant the current one.
    pub(crate) async fn set_version(&self, id: &str, version: u32) -> Result<Assistant> {
        let _one_at_a_time = self.lock_assistants().await;
        let mut assistant = self.own_assistant(id).await?;
        assistant.record.set(version, self.now())?;
        self.put(&assistant).await?;
        Ok(assistant)
    }

    /// Deletes an assistant, with the threads on which it ran last if that is wanted.
    pub(crate) async fn delete_assistant(&self, id: &str, threads: bool) -> Result<()> {
        let _one_at_a_time = self.lock_assistants().await;
        let assistant = self.own_assistant(id).await?;
        self.items().delete(&self.own()?, &item_of_assistant(assistant.id)?).await?;
        if threads {
            let id = Value::from(assistant.id.to_string());
            let metadata = Map::from_iter([("assistant_id".to_owned(), id)]);
            let mut query = ThreadQuery { metadata, ..ThreadQuery::default() };
            loop {
                let page = self.store().search_threads(self.who(), query.clone()).await?;
                for thread in page.threads {
                    self.delete_thread(&thread.row.id).await?;
                }
                let Some(next) = page.next else { break };
                query.from = SearchFrom::After(next);
            }
        }
        Ok(())
    }

    /// Returns an assistant that clients may change.
    async fn own_assistant(&self, id: &str) -> Result<Assistant> {
        let assistant = self.assistant(id).await?;
        if self.names().iter().any(|name| ids::assistant_of(name) == assistant.id) {
            let detail = format!(
                "assistant {id} stands for the hosted graph `{}` and does not change; create \
                 another assistant of that graph",
                assistant.record.graph()
            );
            return Err(ApiError::new(StatusCode::FORBIDDEN, detail));
        }
        Ok(assistant)
    }

    async fn put(&self, assistant: &Assistant) -> Result<()> {
        let value = serde_json::to_value(&assistant.record)
            .map_err(|error| ApiError::invalid(error.to_string()))?;
        let who = self.own()?;
        let at = item_of_assistant(assistant.id)?;
        Ok(self.items().put(&who, &at, value, PutOptions::default()).await?)
    }

    /// Returns the principal of the server for the organisation of the client.
    pub(super) fn own(&self) -> Result<Principal> {
        Ok(of_server(self.who())?)
    }
}

fn assistants_namespace() -> Result<Namespace> {
    Ok(Namespace::new(["assistants"])?)
}

fn item_of_assistant(id: Uuid) -> Result<ItemRef> {
    Ok(ItemRef::new(assistants_namespace()?, id.to_string())?)
}

fn read_assistant(key: &str, value: Value) -> Result<Assistant> {
    let damaged = |error: String| {
        let detail = format!("assistant `{key}` cannot be read: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    };
    let id = Uuid::try_parse(key).map_err(|error| damaged(error.to_string()))?;
    let record: Record =
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
    record.check().map_err(damaged)?;
    Ok(Assistant { id, record })
}
