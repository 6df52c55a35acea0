//! Graphs that note the names of their nodes, and how they are run.

use serde_json::{Value, json};
use std::sync::Arc;
use weftwork_graph::channel::{Append, LastValue};
use weftwork_graph::run_loop::{Host, InMemoryCheckpointer, Start, StartCommand};
use weftwork_graph::{Answers, ChannelDef, DynUpdate, Dynamic, Graph, RunOutcome, START};

/// An empty graph with a list `log` and a value `s`.
pub(crate) fn graph(name: &str) -> Graph<Dynamic> {
    let channels = vec![
        ChannelDef::new("log", Append::<Value>::new()),
        ChannelDef::new("s", LastValue::<Value>::new()),
    ];
    Graph::dynamic(name, channels)
}

/// A node that notes its name.
pub(crate) fn note(
    name: &'static str,
) -> impl Fn(weftwork_graph::Input) -> std::future::Ready<DynUpdate> {
    move |_| std::future::ready(log(name))
}

pub(crate) fn log(what: &str) -> DynUpdate {
    DynUpdate::new().write("log", json!([what]))
}

/// A chain of nodes that note their names.
pub(crate) fn chain(names: &[&'static str]) -> Graph<Dynamic> {
    let mut built = graph("chain").edge(START, names[0]);
    for name in names {
        built = built.node(*name, note(name));
    }
    for pair in names.windows(2) {
        built = built.edge(pair[0], pair[1]);
    }
    built
}

pub(crate) fn kept() -> Host {
    Host::new().with_checkpointer(InMemoryCheckpointer::new())
}

pub(crate) fn empty() -> Start {
    Start::Input(json!({}))
}

pub(crate) fn answer(value: Value) -> Start {
    let resume = Some(Answers::One(value));
    Start::Command(StartCommand { resume, ..StartCommand::default() })
}

pub(crate) fn logged(outcome: RunOutcome) -> Vec<String> {
    let RunOutcome::Completed { output } = outcome else { panic!("{outcome:?}") };
    let log = output["log"].as_array().expect("a list");
    log.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

/// Counts how often something happened.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<std::sync::atomic::AtomicU32>);

impl Count {
    pub(crate) fn up(&self) -> u32 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}
