//! Tests that the macros expand to paths of this crate, so that programs need no other one.

use serde_json::json;
use weftwork::prelude::*;
use weftwork::runtime::Runtime;
use weftwork::store::MemoryStore;
use weftwork::types::caller::Caller;
use weftwork::types::port::GraphExecutor;
use weftwork::types::run::{RunInput, RunOptions, RunRequest};
use weftwork::types::{Principal, ThreadId};

#[derive(Debug, State)]
struct Count {
    #[channel(default)]
    n: u32,
    #[channel(append)]
    log: List<String>,
}

#[derive(Routes)]
enum After {
    Step,
    End,
}

async fn step(state: State<Count>) -> CountUpdate {
    CountUpdate::new().n(state.n() + 1).log([format!("was {}", state.n())])
}

#[tokio::test]
async fn a_graph_is_built_and_run_through_the_facade() {
    let graph = Graph::<Count>::new("count")
        .node("step", step)
        .edge(START, "step")
        .route("step", |state: State<Count>| if *state.n() < 3 { After::Step } else { After::End })
        .build()
        .expect("a sound graph");
    let store = std::sync::Arc::new(MemoryStore::new());
    let runtime = Runtime::builder(store).graph("app:count", graph).open().await.expect("opens");
    let handle = runtime.execute(RunRequest {
        principal: Principal::local(),
        caller: Caller::local("test").expect("an id"),
        graph: "app:count".to_owned(),
        thread: ThreadId::new("t").expect("an id"),
        input: RunInput::Start { input: json!({"n": 0}) },
        options: RunOptions::default(),
    });
    let outcome = handle.await.expect("accepted").outcome.await;
    let output = json!({"n": 3, "log": ["was 0", "was 1", "was 2"]});
    assert_eq!(outcome, RunOutcome::Completed { output });
}
