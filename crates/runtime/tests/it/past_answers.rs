//! Answers at older checkpoints: the questions of the checkpoint that is named take them, in runs of
//! the program as in hosted ones, and whenever the process of the run dies.

use crate::death::{self, DeathAt};
use crate::faulty::Moment;
use crate::support::{Bench, completed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use weftwork_graph::channel::Append;
use weftwork_graph::run_loop::{
    CheckpointRef, HistoryFilter, Host, Start, StartCommand, StateQuery, SubState,
};
use weftwork_graph::{
    ChannelDef, CompiledGraph, Ctx, DynUpdate, Dynamic, Finish, Graph, NodeResult, RunOutcome,
    RuntimeError, START, Semantics, Snapshot, SubgraphState, TaskDef,
};
use weftwork_runtime::{Runtime, StoreCheckpointer, Thread};
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_types::Principal;
use weftwork_types::run::Answers;

const GRAPH: &str = "test:graph";

fn dynamic(name: &str, semantics: Semantics) -> Graph<Dynamic> {
    let log = ChannelDef::new("log", Append::<Value>::new());
    Graph::dynamic(name, vec![log]).semantics(semantics)
}

async fn ask(ctx: Ctx) -> NodeResult<DynUpdate> {
    Ok(DynUpdate::new().write("log", json!([ctx.interrupt(json!("pay?"))?])))
}

async fn call_task(ctx: Ctx) -> NodeResult<DynUpdate> {
    async fn pay(ctx: Ctx) -> NodeResult<Finish> {
        Ok(Finish::value(ctx.interrupt(json!("pay?"))?))
    }
    let answer = ctx.task(&TaskDef::new("pay", pay), Value::Null).await?;
    Ok(DynUpdate::new().write("log", json!([answer])))
}

/// Place of a node that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Itself,
    InTask,
    InSubgraph,
}

fn graph(asks: Asks, semantics: Semantics) -> CompiledGraph {
    let graph = dynamic("shop", semantics);
    let graph = match asks {
        Asks::Itself => graph.node("till", ask),
        Asks::InTask => graph.node("till", call_task),
        Asks::InSubgraph => {
            let till = dynamic("till", semantics).node("ask", ask).edge(START, "ask").build();
            graph.subgraph("till", till.expect("sound"), SubgraphState::PerTask)
        }
    };
    graph.edge(START, "till").build().expect("sound")
}

/// A way to run the graph on one thread.
enum Front {
    Local(CompiledGraph, Host),
    Hosted(Thread),
}

impl Front {
    fn local(graph: CompiledGraph) -> Self {
        let store = Arc::new(MemoryStore::new());
        let host = Host::new().with_checkpointer(StoreCheckpointer::new(store, Principal::local()));
        Self::Local(graph, host)
    }

    async fn hosted(graph: CompiledGraph) -> Self {
        let runtime = Runtime::in_memory().graph(GRAPH, graph).open().await.expect("opens");
        Self::Hosted(runtime.thread(GRAPH, "t").expect("valid names"))
    }

    async fn start(&self) -> Result<RunOutcome, RuntimeError> {
        match self {
            Self::Local(graph, host) => graph.run(host, json!({})).thread("t").outcome().await,
            Self::Hosted(thread) => Ok(thread.start(json!({})).await?.outcome().clone()),
        }
    }

    /// Answers at a checkpoint, or at the newest one.
    async fn answer(&self, at: Option<&Snapshot>, answers: Answers) -> Result<Value, RuntimeError> {
        let at = at.and_then(|at| at.checkpoint());
        let outcome = match self {
            Self::Local(graph, host) => {
                let resume = Some(answers);
                let command = Start::Command(StartCommand { resume, ..StartCommand::default() });
                let run = graph.run(host, command).thread("t");
                match at {
                    Some(at) => run.at(at).outcome().await?,
                    None => run.outcome().await?,
                }
            }
            Self::Hosted(thread) => {
                let thread = match at {
                    Some(at) => thread.clone().at(at),
                    None => thread.clone(),
                };
                thread.answer(answers).await?.outcome().clone()
            }
        };
        Ok(completed(outcome)["log"].clone())
    }

    async fn history(&self) -> Vec<Snapshot> {
        let history = match self {
            Self::Local(graph, host) => graph.history(host, &StateQuery::thread("t")).await,
            Self::Hosted(thread) => thread.history(&HistoryFilter::default()).await,
        };
        history.expect("reads")
    }
}

/// The outcome of each request at the older checkpoint, as text without ids.
async fn outcomes(front: &Front) -> Vec<String> {
    front.start().await.expect("accepted");
    let asked = front.history().await.remove(0);
    let question = asked.interrupts[0].id;
    front.answer(None, json!("yes").into()).await.expect("accepted");
    let newest = front.history().await.remove(0);
    let by_id = |answer: &str| Answers::ById(BTreeMap::from([(question, json!(answer))]));
    let unknown = weftwork_types::InterruptId(7);
    let other = Answers::ById(BTreeMap::from([(unknown, json!("no"))]));
    let requests = [
        (Some(&asked), json!("no").into()),
        (Some(&asked), by_id("never")),
        (Some(&asked), by_id("yes")),
        (Some(&asked), other.clone()),
        (Some(&newest), json!("no").into()),
        (Some(&newest), other),
    ];
    let mut all = Vec::new();
    for (at, answers) in requests {
        let told = match front.answer(at, answers).await {
            Ok(log) => log.to_string(),
            Err(error) => {
                let open = error.to_string().contains(&question.to_string());
                format!("{} names the open question: {open}", error.code().0)
            }
        };
        all.push(told);
    }
    all
}

#[tokio::test]
async fn runs_of_a_program_and_hosted_runs_answer_the_same_questions() {
    for asks in [Asks::Itself, Asks::InTask, Asks::InSubgraph] {
        for semantics in [Semantics::weft(), Semantics::langgraph()] {
            let local = outcomes(&Front::local(graph(asks, semantics))).await;
            let hosted = outcomes(&Front::hosted(graph(asks, semantics)).await).await;
            if semantics == Semantics::weft() {
                let taken = ["[\"no\"]", "[\"never\"]", "[\"yes\"]"];
                assert_eq!(local[..3], taken, "{asks:?} in process");
            }
            assert_eq!(local, hosted, "{asks:?} {semantics:?}");
        }
    }
}

/// The place of the subgraph that asks.
async fn place_within(front: &Front) -> CheckpointRef {
    let at = StateQuery::thread("t");
    let state = match front {
        Front::Local(graph, host) => graph.state(host, &at, true).await,
        Front::Hosted(thread) => thread.view().with_subgraphs().state().await,
    };
    let task = state.expect("reads").tasks.remove(0);
    match task.state {
        Some(SubState::Snapshot(within)) => within.config.expect("it has run"),
        other => panic!("a subgraph, not {other:?}"),
    }
}

async fn answer_within(front: &Front, place: &CheckpointRef) -> Result<RunOutcome, RuntimeError> {
    let answers = Answers::One(json!("yes"));
    match front {
        Front::Local(graph, host) => {
            let resume = Some(answers);
            let command = Start::Command(StartCommand { resume, ..StartCommand::default() });
            graph.run(host, command).thread("t").from(place).outcome().await
        }
        Front::Hosted(thread) => Ok(thread.answer(answers).from(place).await?.outcome().clone()),
    }
}

#[tokio::test]
async fn answers_at_older_checkpoints_of_subgraphs_are_refused() {
    let graph = graph(Asks::InSubgraph, Semantics::weft());
    for front in [Front::local(graph.clone()), Front::hosted(graph.clone()).await] {
        front.start().await.expect("accepted");
        let older = place_within(&front).await;
        front.start().await.expect("accepted");
        let newest = place_within(&front).await;
        let refused = answer_within(&front, &older).await.expect_err("an older one");
        assert_eq!(refused.code().0, "W0139");
        assert_eq!(place_within(&front).await, newest);
        let outcome = answer_within(&front, &newest).await.expect("accepted");
        assert_eq!(completed(outcome)["log"], json!(["yes"]));
    }
}

/// Answers at the older checkpoint in a process that dies at a commit.
async fn dies_at(
    inner: &Arc<dyn Store>,
    graph: &CompiledGraph,
    asked: &Snapshot,
    death: DeathAt,
) -> bool {
    let graph = graph.clone();
    let at = asked.checkpoint().expect("an id");
    death::dies_at(inner, death, async move |store| {
        let builder = Runtime::builder(store).graph(GRAPH, graph);
        let runtime = builder.open().await.expect("opens");
        let thread = runtime.thread(GRAPH, "t").expect("valid names").at(at);
        let handle = thread.answer(json!("no")).begin().await.expect("accepted").into_handle();
        (handle, runtime)
    })
    .await
}

#[tokio::test]
async fn a_crash_at_any_commit_loses_no_answer_at_an_older_checkpoint() {
    for asks in [Asks::Itself, Asks::InTask, Asks::InSubgraph] {
        let mut crashes = 0;
        for moment in [Moment::Before, Moment::After] {
            for write in 1.. {
                let graph = graph(asks, Semantics::weft());
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                let bench = Bench::on(Arc::clone(&store), graph.clone()).await;
                let thread = bench.runtime.thread(GRAPH, "t").expect("valid names");
                thread.start(json!({})).await.expect("accepted");
                let asked = thread.state().await.expect("reads");
                thread.answer(json!("yes")).await.expect("accepted");
                if !dies_at(&store, &graph, &asked, DeathAt { commit: write, moment }).await {
                    break;
                }
                crashes += 1;
                let outcome = match thread.resume().await {
                    Ok(resumed) => resumed.await.outcome().clone(),
                    // It died after it had recorded the end.
                    Err(RuntimeError::NothingToResume { .. }) => RunOutcome::Completed {
                        output: thread.state().await.expect("reads").values,
                    },
                    Err(error) => panic!("{error}"),
                };
                let output = completed(outcome);
                assert_eq!(output["log"], json!(["no"]), "{asks:?}, {moment:?} commit {write}");
            }
        }
        assert!(crashes >= 4, "{asks:?}: {crashes} crashes");
    }
}
