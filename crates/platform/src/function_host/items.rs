//! `ctx.store`: the items of an agent in the long-term store.

use super::{Args, FunctionHost, wrong};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::{NodeError, NodeResult, Once};
use weftwork_sandbox::HostError;
use weftwork_types::item::{
    Item, ItemQuery, ItemRef, ItemStore, Namespace, Prefix, PutOptions, Ttl,
};

/// Most items of an answer.
const ITEMS_MAX: usize = 100;
const KEY: &str = "the key of an item";

/// A request of code for items.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SearchRequest {
    Text(String),
    Whole(WholeSearch),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WholeSearch {
    query: Option<String>,
    limit: Option<usize>,
}

impl FunctionHost<'_> {
    pub(super) async fn get_item(&self, what: Once, mut args: Args) -> Result<Value, HostError> {
        let key = args.text("ctx.store.get", KEY)?;
        let get = async {
            let who = &self.ctx.calls().principal;
            let item = self.items()?.get(who, &self.item(key)?, Ttl::Keep).await?;
            Ok(item.map(|item| item.value).unwrap_or_default())
        };
        self.seen(what.reads(), get).await
    }

    pub(super) async fn put_item(&self, what: Once, mut args: Args) -> Result<Value, HostError> {
        let key = args.text("ctx.store.put", KEY)?;
        let value = match args.take() {
            value @ Value::Object(_) => value,
            other => return Err(wrong("ctx.store.put", &other, "an object as the value")),
        };
        let put = async {
            let who = &self.ctx.calls().principal;
            self.items()?.put(who, &self.item(key)?, value, PutOptions::default()).await?;
            Ok(Value::Null)
        };
        // The same value under the same key: to repeat it changes nothing.
        self.seen(what.idempotent(), put).await
    }

    pub(super) async fn delete_item(&self, what: Once, mut args: Args) -> Result<Value, HostError> {
        let key = args.text("ctx.store.delete", KEY)?;
        let delete = async {
            let who = &self.ctx.calls().principal;
            Ok(self.items()?.delete(who, &self.item(key)?).await?.into())
        };
        self.seen(what.idempotent(), delete).await
    }

    pub(super) async fn search_items(&self, what: Once, args: Args) -> Result<Value, HostError> {
        let expected = "a text, or `{query, limit}`";
        let request = match args.read("ctx.store.search", expected)? {
            SearchRequest::Text(query) => WholeSearch { query: Some(query), limit: None },
            SearchRequest::Whole(request) => request,
        };
        let search = async {
            let namespace = self.namespace()?;
            let limit = request.limit.unwrap_or(ItemQuery::default().limit).min(ITEMS_MAX);
            let query = ItemQuery { text: request.query, limit, ..ItemQuery::default() };
            let who = &self.ctx.calls().principal;
            let found = self.items()?.search(who, &Prefix::from(&namespace), &query).await?;
            let own = found.into_iter().filter(|item| item.namespace == namespace);
            Ok(own.map(|Item { key, value, .. }| json!({"key": key, "value": value})).collect())
        };
        self.seen(what.reads(), search).await
    }

    fn items(&self) -> NodeResult<Arc<dyn ItemStore>> {
        let items = self.ctx.calls().items.clone();
        items.ok_or_else(|| NodeError::message("this program has no long-term store"))
    }

    /// The namespace of the agent, in the organisation of the principal.
    fn namespace(&self) -> NodeResult<Namespace> {
        Ok(Namespace::new(["agents", self.agent.slug.as_str()])?)
    }

    fn item(&self, key: String) -> NodeResult<ItemRef> {
        Ok(ItemRef::new(self.namespace()?, key)?)
    }
}
