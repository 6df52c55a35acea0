//! Measures the reading of 1,000 definitions, and the choice of one of them for a request, against a
//! whole run of an agent in memory.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock, prints its figures, and fails by panicking"
)]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weftwork_models::ModelError;
use weftwork_models::scripted::{ScriptedModel, Step};
use weftwork_platform::{Agents, Services, read_definitions};
use weftwork_runtime::{GraphSource, Runtime};
use weftwork_store::{MemoryStore, Store};
use weftwork_tools::Policy;
use weftwork_types::port::{Egress, EgressError, EgressRequest, EgressResponse};
use weftwork_types::{BoxFuture, Principal};

/// Number of definitions.
const DEFINITIONS: usize = 1_000;
/// Number of choices that are measured.
const CHOICES: usize = 100_000;
/// Number of runs that are measured.
const RUNS: usize = 200;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(measure());
}

async fn measure() {
    let root = TempDir::new().expect("a folder");
    for number in 0..DEFINITIONS {
        let folder = root.path().join(format!("agent-{number}"));
        fs::create_dir(&folder).expect("is made");
        let text = format!(
            "weft: 1\ntype: context\nversion: 1.0.{number}\nagent_card:\n  description: Agent {number}\n  modes: [converse, plan, build]\ndeliverable: {{format: markdown, sections: [Result, Reason]}}\n"
        );
        fs::write(folder.join("agent.yaml"), text).expect("is written");
        fs::write(folder.join("context.md"), "# Instructions\nAnswer in a sentence.\n")
            .expect("is written");
    }
    let began = Instant::now();
    let read = read_definitions(root.path()).expect("reads");
    let reading = began.elapsed();
    assert!(read.problems.is_empty(), "{:?}", read.problems.first());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let services = Services {
        model: Arc::new(ScriptedModel::from_fn(|_| Step::text("Yes."))),
        open_model: Arc::new(|id| {
            Err(ModelError::Unknown { found: id.to_owned(), known: Vec::new() })
        }),
        tools: Vec::new(),
        policy: Policy::new(),
        store: Arc::clone(&store),
        sandbox: None,
        egress: Arc::new(NoEgress),
        egress_of_organizations: Arc::new(NoEgress),
        secrets: Arc::new(|_, _| Err("there are none".to_owned())),
    };
    let agents = Agents::new(read, services);
    let who = Principal::local();
    let id = |number: usize| format!("agents:agent-{}", number * 7 % DEFINITIONS);
    for number in 0..DEFINITIONS {
        agents.resolve(&who, &id(number)).expect("compiles").expect("is there");
    }
    let mut choices: Vec<Duration> = (0..CHOICES)
        .map(|number| {
            let id = id(number);
            let began = Instant::now();
            let found = agents.resolve(&who, &id);
            let took = began.elapsed();
            assert!(found.expect("compiles").is_some());
            took
        })
        .collect();
    choices.sort();
    let runtime = Runtime::builder(store).graph_source(Arc::new(agents)).open().await;
    let runtime = runtime.expect("opens");
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let thread = runtime.thread(&id(number), format!("t-{number}")).expect("is there");
        let began = Instant::now();
        thread.say("Is it so?").await.expect("runs");
        runs.push(began.elapsed());
    }
    runs.sort();
    let p99 = choices[CHOICES * 99 / 100];
    let run = runs[RUNS / 2];
    println!("reading {DEFINITIONS} definitions: {} ms", reading.as_millis());
    println!("choice: p50 {:?}, p99 {p99:?}", choices[CHOICES / 2]);
    println!("run in memory: p50 {run:?}");
    println!("choice (p99) / run (p50): {:.3}", p99.as_secs_f64() / run.as_secs_f64());
}

/// A network that nothing reaches.
#[derive(Debug)]
struct NoEgress;

impl Egress for NoEgress {
    fn send(&self, _: EgressRequest) -> BoxFuture<'_, Result<EgressResponse, EgressError>> {
        let reason = "there is no network".to_owned();
        Box::pin(std::future::ready(Err(EgressError::Connect { host: String::new(), reason })))
    }
}
