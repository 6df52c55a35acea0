//! Search of the web, and pages of it.

use super::{Query, html};
use crate::error::cut;
use crate::{FnTool, ToolContext, ToolError};
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use weftwork_types::BoxFuture;
use weftwork_types::port::{CallContext, Egress, EgressRequest, EgressResponse, Method};

/// Maximum length of a page, in bytes.
pub const PAGE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Maximum length of the text of a page, in characters. More is cut.
pub const PAGE_CHARS_MAX: usize = 50_000;
/// Maximum length of a snippet, in characters.
const SNIPPET_CHARS_MAX: usize = 500;

/// The port to a search engine for pages.
pub trait WebSearch: Send + Sync + std::fmt::Debug {
    /// Returns at most `limit` pages, the best match first.
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
    ) -> BoxFuture<'a, Result<Vec<WebHit>, ToolError>>;
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WebHit {
    /// Address of the page.
    pub url: String,
    /// Title of the page.
    pub title: String,
    /// A part of its text.
    pub snippet: String,
}

#[derive(Serialize, JsonSchema)]
struct Hits {
    hits: Vec<WebHit>,
}

pub(super) fn search_web(port: Arc<dyn WebSearch>) -> FnTool {
    let about = "Searches for pages and returns addresses, titles and snippets.";
    FnTool::new("search_web", about, move |query: Query, context: ToolContext| {
        let port = Arc::clone(&port);
        async move {
            let limit = query.limit();
            let mut hits = port.search(&context.call, &query.query, limit).await?;
            hits.truncate(limit);
            for hit in &mut hits {
                hit.snippet = cut(&hit.snippet, SNIPPET_CHARS_MAX);
            }
            Ok::<_, ToolError>(Hits { hits })
        }
    })
    .shown(["hits[].url", "hits[].title"])
    .example("Find the manual of the pump.", json!({"query": "pump manual"}))
}

#[derive(Deserialize, JsonSchema)]
struct Address {
    /// Address of the page, `https` or `http`.
    #[schemars(length(min = 1, max = 2_000))]
    url: String,
}

#[derive(Serialize, JsonSchema)]
struct Page {
    url: String,
    content_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The text: of HTML without its markup.
    text: String,
    /// `true` if the text is only the beginning.
    cut: bool,
}

pub(super) fn fetch_page(egress: Arc<dyn Egress>) -> FnTool {
    let about = "Reads the text of a page of the web by its address.";
    FnTool::new("fetch_page", about, move |Address { url }: Address, _: ToolContext| {
        let egress = Arc::clone(&egress);
        async move {
            let mut request = EgressRequest::new(Method::Get, url.as_str());
            let accept = "text/html, text/plain, application/json, text/*;q=0.9";
            request.headers.push(("accept".to_owned(), accept.to_owned()));
            request.body_max = Some(PAGE_BYTES_MAX);
            let response = egress.send(request).await?;
            page(url, response).await
        }
    })
    .shown(["url", "content_type", "title", "cut"])
    .example("What does example.com say?", json!({"url": "https://example.com/"}))
}

async fn page(url: String, response: EgressResponse) -> Result<Page, ToolError> {
    if !(200..300).contains(&response.status) {
        return Err(ToolError::failed(format_args!(
            "the server answered with status {}; expected 200",
            response.status
        )));
    }
    let header = response.header("content-type").unwrap_or("text/plain").to_owned();
    let content_type = header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !is_text(&content_type) {
        return Err(ToolError::failed(format_args!(
            "the page is `{}`; expected text, HTML, JSON or XML",
            cut(&content_type, 80)
        )));
    }
    let mut bytes = Vec::new();
    let mut body = response.body;
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    // Other encodings than UTF-8 lose the letters that are not ASCII.
    let raw = String::from_utf8_lossy(&bytes);
    let (title, text) = match content_type.contains("html") {
        true => html::text_of(&raw),
        false => (None, raw.chars().filter(|c| !c.is_control() || c.is_whitespace()).collect()),
    };
    let shortened = cut(&text, PAGE_CHARS_MAX);
    let is_cut = shortened.len() != text.len();
    Ok(Page { url, content_type, title, text: shortened, cut: is_cut })
}

fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/")
        || content_type.ends_with("+xml")
        || content_type.ends_with("+json")
        || matches!(content_type, "application/json" | "application/xml" | "application/javascript")
}
