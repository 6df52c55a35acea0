//! Mistakes and their messages: two tables, each row a mistake and its message.

mod calls;
mod graphs;
mod panics;

use serde_json::Value;
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::{ChannelDef, DynUpdate, Dynamic, Graph, Input, List, Routes, State};

/// An empty graph with a list `log` and a value `s`.
fn empty() -> Graph<Dynamic> {
    let channels = vec![
        ChannelDef::new("log", Append::<Value>::new()),
        ChannelDef::new("s", LastValue::<Value>::new()),
    ];
    Graph::dynamic("wrong", channels)
}

async fn nothing(_: Input) -> DynUpdate {
    DynUpdate::new()
}

#[derive(State)]
struct Chat {
    #[channel(append)]
    log: List<String>,
    #[channel(default)]
    turns: u64,
    topic: String,
}

#[derive(State)]
struct Other {
    #[channel(default)]
    n: u64,
}

#[derive(Routes)]
enum Turn {
    Speak,
    HangUp,
}

/// The rows of a table, with each message under the name of its row.
fn table(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut names = Vec::new();
    let mut text = String::new();
    for (name, message) in rows {
        assert!(!names.contains(&name), "two rows are named {name}");
        names.push(name);
        text.push_str(&format!("{name}\n    {}\n\n", message.replace('\n', "\n    ")));
    }
    text
}
