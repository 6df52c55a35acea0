//! Items of the long-term store.

use super::Service;
use crate::error::{ApiError, Result};
use crate::translate::time;
use serde_json::{Value, json};
use weftwork_store::{
    Item, ItemQuery, ItemRef, Namespace, NamespaceQuery, Prefix, PutOptions, Ttl,
};

impl Service {
    pub(crate) async fn item(&self, namespace: Vec<String>, key: &str, ttl: Ttl) -> Result<Value> {
        let at = ItemRef::new(Namespace::new(namespace)?, key)?;
        Ok(self.items().get(self.who(), &at, ttl).await?.map_or(Value::Null, item_to_json))
    }

    pub(crate) async fn put_item(
        &self,
        namespace: Vec<String>,
        key: &str,
        value: Value,
        options: PutOptions,
    ) -> Result<()> {
        let at = ItemRef::new(Namespace::new(namespace)?, key)?;
        Ok(self.items().put(self.who(), &at, value, options).await?)
    }

    pub(crate) async fn delete_item(&self, namespace: Vec<String>, key: &str) -> Result<()> {
        let at = ItemRef::new(Namespace::new(namespace)?, key)?;
        self.items().delete(self.who(), &at).await.map(drop).map_err(ApiError::from)
    }

    pub(crate) async fn search_items(
        &self,
        within: Vec<String>,
        query: &ItemQuery,
    ) -> Result<Value> {
        let within = if within.is_empty() { Prefix::all() } else { Prefix::new(within)? };
        let found = self.items().search(self.who(), &within, query).await?;
        let with_score = |item: Item| {
            let score = item.score;
            let mut item = item_to_json(item);
            item["score"] = json!(score);
            item
        };
        Ok(json!({"items": found.into_iter().map(with_score).collect::<Vec<_>>()}))
    }

    pub(crate) async fn namespaces(&self, query: &NamespaceQuery) -> Result<Value> {
        let found = self.items().namespaces(self.who(), query).await?;
        Ok(json!({"namespaces": found}))
    }
}

fn item_to_json(item: Item) -> Value {
    json!({
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": time::format_time(item.created_at),
        "updated_at": time::format_time(item.updated_at),
    })
}
