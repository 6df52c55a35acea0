//! A folder of documents as a search of the web.

use crate::root::Root;
use crate::walk;
use serde_json::json;
use std::io;
use std::path::Path;
use std::sync::Arc;
use weftwork_tools::ToolError;
use weftwork_tools::builtin::{WebHit, WebSearch, html_text};
use weftwork_types::BoxFuture;
use weftwork_types::item::{Indexing, Terms};
use weftwork_types::port::CallContext;

/// A search over copies of pages in a folder of this machine, as a [`WebSearch`]. It is no search of
/// the web: it finds only what the folder has, and reaches no network.
///
/// The address of a page is the base with its path. A file `*.html` or `*.htm` is read without its
/// markup; all other text files as they are. Without an index, each search reads the folder, within
/// the limits of this crate. Pages are ordered by the share of the query's words that they contain,
/// then by path.
#[derive(Debug, Clone)]
pub struct Documents {
    root: Arc<Root>,
    base: String,
}

impl Documents {
    /// Opens a folder with copies of the pages under a base address, such as
    /// `https://docs.example.com/`.
    ///
    /// # Errors
    /// The error of the system, if the folder does not exist or cannot be read.
    pub fn open(path: impl AsRef<Path>, base: impl Into<String>) -> io::Result<Self> {
        let base = format!("{}/", base.into().trim_end_matches('/'));
        Ok(Self { root: Arc::new(Root::open(path.as_ref())?), base })
    }
}

impl WebSearch for Documents {
    fn search<'a>(
        &'a self,
        context: &'a CallContext,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<WebHit>, ToolError>> {
        Box::pin(async move {
            let Some(terms) = Terms::of(query) else { return Ok(Vec::new()) };
            let words: Vec<String> =
                query.to_lowercase().split_whitespace().map(str::to_owned).collect();
            let root = Arc::clone(&self.root);
            let base = self.base.clone();
            walk::run(Arc::clone(&context.clock), move |walk| {
                let mut hits: Vec<(f64, WebHit)> = Vec::new();
                walk.visit(root.beneath("")?, "", &mut |path, text| {
                    let (title, text) = page(path, text);
                    let whole = json!([title, text]);
                    if let Some(score) = terms.score(&whole, &Indexing::All) {
                        let place = hits.partition_point(|(other, _)| *other >= score);
                        let hit = WebHit {
                            url: format!("{base}{path}"),
                            title,
                            snippet: snippet(&text, &words),
                        };
                        hits.insert(place, (score, hit));
                        hits.truncate(limit);
                    }
                    true
                });
                Ok(hits.into_iter().map(|(_, hit)| hit).collect())
            })
            .await
        })
    }
}

/// The title and the text of a page.
fn page(path: &str, raw: &str) -> (String, String) {
    let lower = path.to_ascii_lowercase();
    let (title, text) = match lower.ends_with(".html") || lower.ends_with(".htm") {
        true => html_text(raw),
        false => {
            let heading = raw.lines().find_map(|line| line.strip_prefix("# "));
            (heading.map(str::to_owned), raw.to_owned())
        }
    };
    let name = || path.rsplit('/').next().unwrap_or(path).to_owned();
    (title.unwrap_or_else(name), text)
}

/// The first line with a word of the query, else the beginning of the text.
fn snippet(text: &str, words: &[String]) -> String {
    let has_word = |line: &&str| {
        let line = line.to_lowercase();
        words.iter().any(|word| line.contains(word.as_str()))
    };
    let line = text.lines().find(has_word).or_else(|| text.lines().next());
    line.unwrap_or_default().to_owned()
}
