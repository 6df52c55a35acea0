//! Items of the store: the long-term memory of an agent.

use super::Query;
use crate::{FnTool, ToolBox, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weftwork_types::item::{
    Item, ItemQuery, ItemRef, ItemStore, Namespace, Prefix, PutOptions, Ttl,
};
use weftwork_types::tool::{Effect, UnknownOutcome};

#[derive(Deserialize, JsonSchema)]
struct Key {
    /// The key of the item.
    #[schemars(length(min = 1, max = 128))]
    key: String,
}

#[derive(Deserialize, JsonSchema)]
struct Put {
    /// The key of the item; an existing item is replaced.
    #[schemars(length(min = 1, max = 128))]
    key: String,
    /// The value, an object.
    value: Map<String, Value>,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    /// `false` if there is no item of this key; then there is no value.
    found: bool,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
}

#[derive(Serialize, JsonSchema)]
struct Stored {
    key: String,
}

#[derive(Serialize, JsonSchema)]
struct Hits {
    items: Vec<Hit>,
}

#[derive(Serialize, JsonSchema)]
struct Hit {
    key: String,
    value: Value,
}

/// The items of one namespace. The principal of a call selects the organisation.
#[derive(Clone)]
struct Shelf {
    items: Arc<dyn ItemStore>,
    namespace: Namespace,
}

impl Shelf {
    fn at(&self, key: String) -> Result<ItemRef, ToolError> {
        ItemRef::new(self.namespace.clone(), key).map_err(ToolError::invalid_args)
    }
}

pub(super) fn add(tools: ToolBox, items: &Arc<dyn ItemStore>, namespace: &Namespace) -> ToolBox {
    let shelf = Shelf { items: Arc::clone(items), namespace: namespace.clone() };
    tools.with(get(shelf.clone())).with(put(shelf.clone())).with(search(shelf))
}

fn get(shelf: Shelf) -> FnTool {
    let about = "Reads an item that was stored before, by its key.";
    FnTool::new("get_item", about, move |Key { key }: Key, context: ToolContext| {
        let shelf = shelf.clone();
        async move {
            let at = shelf.at(key.clone())?;
            let item = shelf.items.get(context.principal(), &at, Ttl::Keep).await?;
            let value = item.map(|item| item.value);
            Ok::<_, ToolError>(Found { found: value.is_some(), key, value })
        }
    })
    .shown(["found", "key"])
    .example("What did I say about my diet?", json!({"key": "diet"}))
}

fn put(shelf: Shelf) -> FnTool {
    let about = "Stores an item under a key, for later conversations too.";
    FnTool::new("put_item", about, move |Put { key, value }: Put, context: ToolContext| {
        let shelf = shelf.clone();
        async move {
            let at = shelf.at(key.clone())?;
            let who = context.principal();
            let value = Value::Object(value);
            shelf.items.put(who, &at, value, PutOptions::default()).await?;
            Ok::<_, ToolError>(Stored { key })
        }
    })
    .effect(Effect::StateChange)
    // The same value under the same key: to repeat it changes nothing.
    .on_unknown(UnknownOutcome::Idempotent)
    .example("Remember that I eat no nuts.", json!({"key": "diet", "value": {"text": "no nuts"}}))
}

fn search(shelf: Shelf) -> FnTool {
    let about = "Searches the stored items by words and returns the best matches.";
    FnTool::new("search_items", about, move |query: Query, context: ToolContext| {
        let shelf = shelf.clone();
        async move {
            let limit = query.limit();
            let query = ItemQuery { text: Some(query.query), limit, ..ItemQuery::default() };
            let within = Prefix::from(&shelf.namespace);
            let found = shelf.items.search(context.principal(), &within, &query).await?;
            // Items of namespaces below this one are not those of these tools.
            let own = |item: &Item| item.namespace == shelf.namespace && item.score.is_some();
            let hit = |item: Item| Hit { key: item.key, value: item.value };
            Ok::<_, ToolError>(Hits { items: found.into_iter().filter(own).map(hit).collect() })
        }
    })
    .shown(["items[].key"])
    .example("What do you know about my food?", json!({"query": "food diet"}))
}
