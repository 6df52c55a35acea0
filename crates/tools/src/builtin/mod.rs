//! Built-in tools, on ports: one port for each external system, and tools on top.
//!
//! A program chooses its tools with one call, [`tool_box`], and adds its own with
//! [`ToolBox::with`]. All of them are read-only but [`Builtin::Items`], whose `put_item` changes
//! state and therefore needs a rule of the policy. Texts of files, pages, passages and items are for
//! the model: streams show where they come from.
//!
//! ```
//! use weftwork_tools::builtin::{Builtin, tool_box};
//! use weftwork_tools::{Policy, ToolRunner};
//!
//! let tools = tool_box([Builtin::Clock, Builtin::Calculator, Builtin::AskHuman]);
//! let runner = ToolRunner::new(tools, Policy::new())?;
//! let names: Vec<String> = runner.specs().into_iter().map(|spec| spec.name).collect();
//! assert_eq!(names, ["current_time", "calculate", "ask_human"]);
//! # Ok::<_, weftwork_tools::ToolBoxErrors>(())
//! ```

mod calculator;
mod clock;
mod html;
mod items;
mod knowledge;
mod repository;
mod web;

pub use calculator::{EXPRESSION_CHARS_MAX, NESTING_MAX};
pub use html::text_of as html_text;
pub use knowledge::{ItemKnowledge, Knowledge, Passage};
pub use repository::{CodeMatch, CodeQuery, CodeSearch, FileText, Repository};
pub use web::{PAGE_BYTES_MAX, PAGE_CHARS_MAX, WebHit, WebSearch};

use crate::ToolBox;
use std::sync::Arc;
use weftwork_types::item::{ItemStore, Namespace};
use weftwork_types::port::Egress;

/// Maximum number of hits that a search returns.
pub const HITS_MAX: u32 = 20;

/// Maximum length of a query, in characters.
pub const QUERY_CHARS_MAX: usize = 1_000;

/// Built-in tools, with the port that they use.
#[derive(Debug, Clone)]
pub enum Builtin {
    /// `current_time`: the time of the [`Clock`](weftwork_types::port::Clock) of the run.
    Clock,
    /// `calculate`: an arithmetic expression.
    Calculator,
    /// `ask_human`: a question to the person.
    AskHuman,
    /// `search_knowledge`: passages of a knowledge base, such as [`ItemKnowledge`].
    Knowledge(Arc<dyn Knowledge>),
    /// `get_item`, `put_item` and `search_items`: items of the principal in one namespace.
    Items(Arc<dyn ItemStore>, Namespace),
    /// `search_web`: pages by a query.
    WebSearch(Arc<dyn WebSearch>),
    /// `fetch_page`: the text of a page. A URL carries what the model writes into it to its host:
    /// restrict the hosts by a rule with a condition on `args.url`.
    WebFetch(Arc<dyn Egress>),
    /// `search_code` and `read_file`: the files of a repository.
    Repository(Arc<dyn Repository>),
}

/// Returns a tool box with the chosen tools, in their order.
pub fn tool_box(tools: impl IntoIterator<Item = Builtin>) -> ToolBox {
    tools.into_iter().fold(ToolBox::new(), |tools, chosen| match chosen {
        Builtin::Clock => tools.with(clock::current_time()),
        Builtin::Calculator => tools.with(calculator::calculate()),
        Builtin::AskHuman => tools.with_ask_human(),
        Builtin::Knowledge(port) => tools.with(knowledge::search_knowledge(port)),
        Builtin::Items(items, namespace) => items::add(tools, &items, &namespace),
        Builtin::WebSearch(port) => tools.with(web::search_web(port)),
        Builtin::WebFetch(egress) => tools.with(web::fetch_page(egress)),
        Builtin::Repository(port) => repository::add(tools, &port),
    })
}

/// Arguments of a search by text.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Query {
    /// Words to search for.
    #[schemars(length(min = 1, max = 1_000))]
    query: String,
    /// Maximum number of hits, 5 if absent.
    #[schemars(range(min = 1, max = 20))]
    limit: Option<u32>,
}

impl Query {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(5).min(HITS_MAX) as usize
    }
}
