//! `/threads`.

use super::extract::Extract;
use super::page::{self, Page};
use crate::body::{self, IfExistsBody, OneOrMany};
use crate::error::{ApiError, Result};
use crate::service::{LastRun, Service, Superstep, Wanted};
use crate::translate::{ids, time};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weftwork_store::thread::{Direction, ThreadKey};
use weftwork_store::{IfExists, SearchFrom, ThreadOrder, ThreadQuery, ThreadStatus};

pub(super) fn routes() -> Router<Service> {
    Router::new()
        .route("/threads", post(create))
        .route("/threads/search", of_thread("search").post(search))
        .route("/threads/count", of_thread("count").post(count))
        .route("/threads/{id}", get(one).patch(change).delete(delete))
        .route("/threads/{id}/copy", post(copy))
        .route("/threads/prune", of_thread("prune").post(prune))
}

/// The methods of `/threads/{id}` at a path whose last part is the name of an operation: a thread may
/// have that id too.
fn of_thread(id: &'static str) -> MethodRouter<Service> {
    let path = move || Path(id.to_owned());
    get(move |service| one(service, path()))
        .patch(move |service, body| change(service, path(), body))
        .delete(move |service| delete(service, path()))
}

#[derive(Debug, Deserialize)]
struct Create {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    if_exists: IfExistsBody,
    #[serde(default)]
    supersteps: Option<Vec<SuperstepBody>>,
}

#[derive(Debug, Deserialize)]
struct SuperstepBody {
    updates: Vec<UpdateBody>,
}

#[derive(Debug, Deserialize)]
struct UpdateBody {
    #[serde(default)]
    values: Value,
    #[serde(default)]
    command: Option<Value>,
    as_node: String,
}

impl SuperstepBody {
    fn read(mut self) -> Result<Superstep> {
        let count = self.updates.len();
        match (self.updates.pop(), count) {
            (Some(UpdateBody { values, command: None | Some(Value::Null), as_node }), 1) => {
                Ok(Superstep { values, as_node })
            }
            (Some(_), 1) => Err(ApiError::invalid("an update in `supersteps` has no `command`")),
            _ => Err(ApiError::invalid(format!("a superstep has {count} updates; expected one"))),
        }
    }
}

async fn create(service: Service, body: Bytes) -> Result<Json<Value>> {
    let Create { thread_id, metadata, if_exists, supersteps } = body::read(&body)?;
    let if_exists = if if_exists.accepts_existing() { IfExists::Return } else { IfExists::Refuse };
    let metadata = metadata.unwrap_or_default();
    let supersteps = supersteps.unwrap_or_default().into_iter().map(SuperstepBody::read);
    let supersteps = supersteps.collect::<Result<_>>()?;
    service.create_thread(thread_id.as_deref(), metadata, if_exists, supersteps).await.map(Json)
}

async fn one(service: Service, Path(id): Path<String>) -> Result<Json<Value>> {
    service.thread(&service.thread_id(&id).await?).await.map(Json)
}

#[derive(Debug, Deserialize)]
struct ThreadChange {
    #[serde(default)]
    metadata: Map<String, Value>,
}

async fn change(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let ThreadChange { metadata } = body::read(&body)?;
    service.set_metadata(&service.thread_id(&id).await?, metadata).await.map(Json)
}

async fn delete(service: Service, Path(id): Path<String>) -> Result<StatusCode> {
    service.delete_with_runs(&service.thread_id(&id).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize)]
struct Copy {
    /// The checkpoint up to which the thread is copied, without its runs.
    #[serde(default)]
    checkpoint_id: Option<String>,
    /// Id of the copy, with which a client finds it if the reply is lost; a new one without it.
    #[serde(default)]
    thread_id: Option<String>,
}

async fn copy(service: Service, Path(id): Path<String>, body: Bytes) -> Result<Json<Value>> {
    let Copy { checkpoint_id, thread_id } = match body.is_empty() {
        true => Copy::default(),
        false => body::read(&body)?,
    };
    let at = checkpoint_id.as_deref().map(ids::parse_checkpoint).transpose()?;
    let from = service.thread_id(&id).await?;
    let mut copy = service.copy_thread(&from, at, thread_id.as_deref()).await?;
    // A copy has not run; its values are read like the values of any thread.
    if let Some(members) = copy.as_object_mut() {
        members.retain(|name, _| !["values", "error", "interrupts"].contains(&name.as_str()));
        members.insert("config".to_owned(), json!({}));
    }
    Ok(Json(copy))
}

/// Member with the time for which a thread waits.
const WAITS_UNTIL: &str = "waits_until";
/// Member with the status of the last run, which says more than that of the thread.
const LAST_RUN: &str = "last_run";

#[derive(Debug, Deserialize)]
struct ThreadSearch {
    #[serde(default)]
    ids: Option<Vec<String>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    status: Option<StatusBody>,
    #[serde(default)]
    values: Option<Map<String, Value>>,
    /// Words that texts of the metadata have.
    #[serde(default)]
    query: Option<String>,
    /// `true` for threads that wait for a time, `false` for all other threads.
    #[serde(default)]
    timed: Option<bool>,
    /// Status of the last run, one or several: that of a run, `copied`, or `none`.
    #[serde(default)]
    last_run: Option<OneOrMany<LastRun>>,
    #[serde(default)]
    extract: Option<Map<String, Value>>,
    #[serde(flatten)]
    page: Page,
    #[serde(default)]
    sort_by: Option<SortBy>,
    #[serde(default)]
    sort_order: Option<page::SortOrder>,
    #[serde(default)]
    select: Option<OneOrMany<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StatusBody {
    Idle,
    Busy,
    Interrupted,
    Error,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SortBy {
    ThreadId,
    CreatedAt,
    UpdatedAt,
    StateUpdatedAt,
}

impl ThreadSearch {
    fn wanted(&self) -> Result<Wanted> {
        let query = self.query.as_deref().unwrap_or_default();
        let mut wanted = Wanted::read(self.values.clone().unwrap_or_default(), query, self.timed)?;
        wanted.last_runs = self.last_run.clone().map(OneOrMany::into_vec).unwrap_or_default();
        Ok(wanted)
    }

    async fn query(&self, service: &Service) -> Result<ThreadQuery> {
        let ids = match &self.ids {
            Some(ids) => Some(service.thread_ids(ids).await?),
            None => None,
        };
        let status = self.status.map(|status| match status {
            StatusBody::Idle => ThreadStatus::Idle,
            StatusBody::Busy => ThreadStatus::Busy,
            StatusBody::Interrupted => ThreadStatus::Interrupted,
            StatusBody::Error => ThreadStatus::Error,
        });
        let by = match self.sort_by {
            Some(SortBy::ThreadId) => ThreadKey::Id,
            Some(SortBy::CreatedAt) => ThreadKey::CreatedAt,
            Some(SortBy::UpdatedAt | SortBy::StateUpdatedAt) | None => ThreadKey::UpdatedAt,
        };
        let direction = match self.sort_order {
            Some(page::SortOrder::Asc) => Direction::Ascending,
            Some(page::SortOrder::Desc) | None => Direction::Descending,
        };
        Ok(ThreadQuery {
            ids: ids.map(BTreeSet::from_iter),
            metadata: self.metadata.clone().unwrap_or_default(),
            status,
            from: SearchFrom::Start(ThreadOrder { by, direction }),
            ..ThreadQuery::default()
        })
    }
}

async fn search(service: Service, body: Bytes) -> Result<Response> {
    let search: ThreadSearch = body::read(&body)?;
    let extract = search.extract.clone().map(Extract::read).transpose()?;
    let found = service.search(search.query(&service).await?, &search.wanted()?).await?;
    let (headers, found) = search.page.of(found)?;
    let select = search.select.map(OneOrMany::into_vec);
    let of_values = ["values", "error", "interrupts"];
    let whole = select
        .as_ref()
        .is_none_or(|names| names.iter().any(|name| of_values.contains(&name.as_str())))
        || extract.as_ref().is_some_and(|extract| extract.needs(&of_values));
    let mut page = Vec::new();
    for thread in &found {
        let mut shown = match whole {
            true => match service.with_values(thread).await {
                // It was deleted meanwhile.
                Err(error) if error.is_missing() => continue,
                shown => shown?,
            },
            false => service.without_values(thread),
        };
        // A member of our own, which other clients do not expect.
        if select.as_ref().is_some_and(|names| names.iter().any(|name| name == WAITS_UNTIL)) {
            shown[WAITS_UNTIL] = json!(service.waits_until(thread).await?.map(time::format_time));
        }
        if select.as_ref().is_some_and(|names| names.iter().any(|name| name == LAST_RUN)) {
            shown[LAST_RUN] = json!(LastRun::of(&thread.row).name());
        }
        let extracted = extract.as_ref().map(|extract| extract.of(&shown));
        if let Some(select) = &select {
            body::select_members(&mut shown, select);
        }
        if let Some(extracted) = extracted {
            shown["extracted"] = extracted;
        }
        page.push(shown);
    }
    Ok((headers, Json(page)).into_response())
}

async fn count(service: Service, body: Bytes) -> Result<Json<Value>> {
    let search: ThreadSearch = body::read(&body)?;
    Ok(Json(json!(service.search(search.query(&service).await?, &search.wanted()?).await?.len())))
}

#[derive(Debug, Deserialize)]
struct Prune {
    thread_ids: Vec<String>,
    #[serde(default)]
    strategy: Strategy,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strategy {
    #[default]
    Delete,
    KeepLatest,
}

async fn prune(service: Service, body: Bytes) -> Result<Json<Value>> {
    let Prune { thread_ids, strategy } = body::read(&body)?;
    if strategy == Strategy::KeepLatest {
        return Err(ApiError::invalid("the strategy `keep_latest` is not supported"));
    }
    let threads = service.thread_ids(&thread_ids).await?;
    let mut pruned = 0;
    for thread in threads {
        match service.delete_thread(&thread).await {
            Ok(()) => pruned += 1,
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Json(json!({"pruned_count": pruned})))
}
