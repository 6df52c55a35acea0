//! Run-scoped dependencies: values that each run of a hosted graph has of its own.

use crate::recovery::{created, dies};
use crate::support::{completed, failed, on_each_store, store};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weftwork_graph::{Cache, CompiledGraph, Deps, Graph, List, START, State, SubgraphState};
use weftwork_runtime::{DependencyError, Runtime, RuntimeBuilder};
use weftwork_store::{NewRun, Store};
use weftwork_types::port::Dependencies;
use weftwork_types::run::RunOutcome;
use weftwork_types::{OrgId, Principal};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

/// The database of an organisation.
struct Database(String);

struct Region(&'static str);

async fn look(database: Deps<Database>, region: Deps<Region>) -> LogUpdate {
    LogUpdate::new().log([format!("{} in {}", database.0.0, region.0.0)])
}

/// A graph whose node takes the database of its run and the region of the graph.
fn inner() -> Graph<Log> {
    Graph::<Log>::new("inner")
        .with(Region("the north"))
        .with_run_scoped::<Database>()
        .node("look", look)
        .edge(START, "look")
}

fn graph() -> CompiledGraph {
    inner().build().expect("sound")
}

async fn count(ran: Deps<Arc<AtomicU32>>) -> LogUpdate {
    ran.fetch_add(1, Ordering::SeqCst);
    LogUpdate::new()
}

fn database(who: &Principal, run: &NewRun) -> Result<Dependencies, DependencyError> {
    let database = Database(format!("{} {}", who.org, run.at.thread));
    Ok(Dependencies::new().with(database))
}

fn other() -> Principal {
    Principal::new(OrgId::new("other").expect("an id"), "ada")
}

async fn open(
    store: Arc<dyn Store>,
    host: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
) -> Runtime {
    host(Runtime::builder(store)).open().await.expect("opens")
}

async fn run(runtime: &Runtime, who: Principal) -> RunOutcome {
    let thread = runtime.thread("test:graph", "t").expect("valid names").with_principal(who);
    thread.start(json!({})).await.expect("accepted").outcome().clone()
}

#[tokio::test]
async fn two_principals_on_one_graph_have_their_own_values() {
    let runtime = open(store(), |host| host.graph_with("test:graph", graph(), database)).await;
    let (first, second) = tokio::join!(run(&runtime, Principal::local()), run(&runtime, other()));
    assert_eq!(completed(first)["log"], json!(["local t in the north"]));
    assert_eq!(completed(second)["log"], json!(["other t in the north"]));
}

#[tokio::test]
async fn subgraphs_have_the_values_of_the_run_and_they_take_precedence() {
    let outer = || {
        let outer = Graph::<Log>::new("outer").subgraph("inner", graph(), SubgraphState::PerTask);
        outer.edge(START, "inner").build().expect("sound")
    };
    let runtime = open(store(), |host| {
        host.graph_with_async("test:graph", outer(), async |who, run| {
            tokio::task::yield_now().await;
            Ok(database(&who, &run)?.with(Region("the south")))
        })
    });
    let outcome = run(&runtime.await, Principal::local()).await;
    assert_eq!(completed(outcome)["log"], json!(["local t in the south"]));
}

#[tokio::test]
async fn a_takeover_makes_them_again_from_the_same_stored_run() {
    let store = store();
    let at = created(&store).await;
    let stored = store.run(&Principal::local(), &at).await.expect("reads").new;
    dies(&store, &at, 1, None).await;
    let seen: Arc<Mutex<Vec<NewRun>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let runtime = open(store, |host| {
        host.graph_with("test:graph", graph(), move |who, run| {
            noted.lock().expect("not poisoned").push(run.clone());
            database(who, run)
        })
    });
    let handle = runtime.await.take_over(&Principal::local(), &at).await.expect("nobody has it");
    assert_eq!(completed(handle.outcome.await)["log"], json!(["local t in the north"]));
    assert_eq!(*seen.lock().expect("not poisoned"), [stored]);
}

#[tokio::test]
async fn cached_results_of_nodes_are_not_shared_by_runs_with_values_of_their_own() {
    let cached = inner().cache("look", Cache::forever()).build().expect("sound");
    let runtime = open(store(), |host| host.graph_with("test:graph", cached, database)).await;
    run(&runtime, Principal::local()).await;
    let second = run(&runtime, other()).await;
    assert_eq!(completed(second)["log"], json!(["other t in the north"]));
}

#[tokio::test]
async fn a_run_without_its_values_fails_before_its_first_node() {
    let ran = Arc::new(AtomicU32::new(0));
    let graph = || {
        let graph = inner().with(Arc::clone(&ran)).node("count", count).edge(START, "count");
        graph.build().expect("sound")
    };
    let refused = open(store(), |host| {
        host.graph_with("test:graph", graph(), |_, _| Err("the vault is sealed".into()))
    });
    let outcome = run(&refused.await, Principal::local()).await;
    let RunOutcome::Failed { fault } = &outcome else { panic!("expected a failed run") };
    let cause = fault.causes().next().expect("the error of the function");
    assert_eq!(
        (cause.code.as_deref(), cause.message.as_str()),
        (Some("W0109"), "the vault is sealed")
    );
    let (code, message) = failed(outcome);
    assert_eq!(code, "W0136");
    let expected = "graph `test:graph` has no dependencies for the run: the vault is sealed";
    assert_eq!(message, expected);

    let missing = open(store(), |host| host.graph("test:graph", graph())).await;
    let (code, message) = failed(run(&missing, Principal::local()).await);
    assert_eq!(code, "W0136");
    assert!(message.contains("Database` was given; host the graph by `graph_with`"), "{message}");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_run_whose_values_cannot_be_made_here_waits_for_another_worker() {
    let store = store();
    let at = created(&store).await;
    dies(&store, &at, 1, None).await;
    let sealed = open(Arc::clone(&store), |host| {
        host.graph_with("test:graph", graph(), |_, _| Err("the vault is sealed".into()))
    });
    let sealed = sealed.await;
    assert!(sealed.recover().await.expect("reads").is_empty());
    let row = store.run(&Principal::local(), &at).await.expect("reads");
    assert_eq!((row.outcome, row.fence), (None, 1), "it is not claimed");
    sealed.shutdown(Duration::ZERO).await.expect("ends");
    let runtime = open(store, |host| host.graph_with("test:graph", graph(), database)).await;
    let handle = runtime.take_over(&Principal::local(), &at).await.expect("nobody has it");
    assert_eq!(completed(handle.outcome.await)["log"], json!(["local t in the north"]));
}

on_each_store![
    a_run_whose_values_cannot_be_made_here_waits_for_another_worker,
    two_principals_on_one_graph_have_their_own_values,
    a_takeover_makes_them_again_from_the_same_stored_run,
];
