//! Search in a knowledge base.

use super::Query;
use crate::error::cut;
use crate::{FnTool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use weftwork_types::BoxFuture;
use weftwork_types::item::{Item, ItemQuery, ItemStore, Namespace, Prefix};
use weftwork_types::port::CallContext;

/// Maximum length of the text of a passage, in characters.
const PASSAGE_CHARS_MAX: usize = 4_000;

/// The port to a knowledge base.
pub trait Knowledge: Send + Sync + std::fmt::Debug {
    /// Returns at most `limit` passages that the principal of the call may read, the best match
    /// first.
    ///
    /// # Errors
    /// [`ToolError`], whose message the model reads.
    ///
    /// # Cancel safety
    /// The future is dropped at the deadline of the tool.
    fn search<'a>(
        &'a self,
        context: &'a CallContext,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Passage>, ToolError>>;
}

/// A passage of a knowledge base.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Passage {
    /// Name of the source, unique in its knowledge base.
    pub source: String,
    /// Title of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text.
    pub text: String,
}

/// A knowledge base of items: all items of the principal's organisation under a namespace. The text
/// of a passage is the member `text` of an item, else its whole value, and its title the member
/// `title`.
#[derive(Debug, Clone)]
pub struct ItemKnowledge {
    items: Arc<dyn ItemStore>,
    within: Namespace,
}

impl ItemKnowledge {
    /// Creates a knowledge base of the items in a namespace and in those below it.
    #[must_use]
    pub fn new(items: Arc<dyn ItemStore>, within: Namespace) -> Self {
        Self { items, within }
    }
}

impl Knowledge for ItemKnowledge {
    fn search<'a>(
        &'a self,
        context: &'a CallContext,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Passage>, ToolError>> {
        Box::pin(async move {
            let query = ItemQuery { text: Some(query.to_owned()), limit, ..ItemQuery::default() };
            let within = Prefix::from(&self.within);
            let found = self.items.search(&context.principal, &within, &query).await?;
            // A query without a letter or digit selects everything, and matches nothing.
            Ok(found.into_iter().filter(|item| item.score.is_some()).map(passage).collect())
        })
    }
}

fn passage(item: Item) -> Passage {
    let text = |member: &str| item.value[member].as_str().map(str::to_owned);
    Passage {
        source: format!("{}/{}", item.namespace, item.key),
        title: text("title"),
        text: text("text").unwrap_or_else(|| item.value.to_string()),
    }
}

#[derive(Serialize, JsonSchema)]
struct Passages {
    passages: Vec<Passage>,
}

pub(super) fn search_knowledge(port: Arc<dyn Knowledge>) -> FnTool {
    let about = "Searches the knowledge base and returns passages with their sources.";
    FnTool::new("search_knowledge", about, move |query: Query, context: ToolContext| {
        let port = Arc::clone(&port);
        async move {
            let limit = query.limit();
            let mut passages = port.search(&context.call, &query.query, limit).await?;
            passages.truncate(limit);
            for passage in &mut passages {
                passage.text = cut(&passage.text, PASSAGE_CHARS_MAX);
            }
            Ok::<_, ToolError>(Passages { passages })
        }
    })
    .shown(["passages[].source", "passages[].title"])
    .example("How do we pay suppliers?", json!({"query": "pay suppliers"}))
}
