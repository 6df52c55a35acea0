//! Creation of instances: states that do not fit, interruptions, and keys.

use super::{Place, close, id, on_three_stores, open, options};
use serde_json::{Value, json};
use weftwork::agents::{AgentRuntime, AgentRuntimeError, AgentRuntimeErrorKind as Kind};
use weftwork::prelude::*;
use weftwork::store::StoreError;

#[derive(Debug, State)]
struct Notes {
    #[channel(append)]
    notes: List<String>,
}

async fn note(_: State<Notes>) -> NotesUpdate {
    NotesUpdate::new().notes(["noted".to_owned()])
}

fn notes() -> CompiledGraph {
    let graph = Graph::<Notes>::new("notes").node("note", note).edge(START, "note");
    graph.build().expect("sound")
}

async fn create(agents: &AgentRuntime, state: Value) -> Result<(), AgentRuntimeError> {
    agents.create_graph_agent(&notes(), state, options()).await.map(drop)
}

/// Number of runs of the thread of the instance; `None` if there is no thread.
async fn runs(agents: &AgentRuntime) -> Option<usize> {
    let (who, thread) = (agents.principal(), (&id()).into());
    match agents.store().thread(who, &thread).await {
        Err(StoreError::NotFound { .. }) => None,
        found => {
            found.expect("reads");
            Some(agents.store().runs(who, &thread).await.expect("reads").len())
        }
    }
}

async fn a_refused_state_leaves_nothing(place: Place) {
    let agents = open(&place).await;
    for state in [json!([1]), json!("a"), json!({"notes": [1]}), json!({"nots": []})] {
        let refused = create(&agents, state.clone()).await.expect_err("does not fit");
        assert_eq!((refused.kind, refused.code()), (Kind::InvalidState, "W0648"), "{state}");
        assert_eq!(refused.fault.causes().count(), 1, "{refused}");
        assert_eq!(runs(&agents).await, None, "{state}");
    }
    create(&agents, json!({"notes": ["begun"]})).await.expect("created");
    assert_eq!(runs(&agents).await, Some(1));
    close(agents).await;
    let agents = open(&place).await;
    create(&agents, json!([1])).await.expect("exists, and the state has no effect");
    assert_eq!(agents.get_state(id()).await, Ok(json!({"notes": ["begun"]})));
    close(agents).await;
}

on_three_stores![a_refused_state_leaves_nothing];
