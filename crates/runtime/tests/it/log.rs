//! Content of the log: checkpoints and tasks by reference.

use crate::recovery::created;
use crate::support::{Bench, check_stream, interrupted, on_each_store, options};
use futures_util::StreamExt;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use weftwork_graph::{
    Arg, CompiledGraph, Ctx, Graph, List, Next, NodeError, NodeResult, START, SendTo, State,
    SubgraphState,
};
use weftwork_types::event::{AiEvent, RunEvent, TaskStatus};
use weftwork_types::run::{RunInput, RunOptions, RunRequest};
use weftwork_types::{CheckpointId, Principal, TaskId, Timestamp, WorkerId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
}

fn said(name: &str) -> LogUpdate {
    LogUpdate::new().log([name.to_owned()])
}

async fn note(ctx: Ctx) -> LogUpdate {
    said(ctx.node())
}

async fn asks(ctx: Ctx) -> NodeResult<LogUpdate> {
    let answer = ctx.interrupt(json!("which?"))?;
    Ok(said(&format!("asked {answer}")))
}

async fn fails(ctx: Ctx) -> NodeResult<LogUpdate> {
    ctx.emit(json!("about to fail"));
    Err(NodeError::message("broken"))
}

fn built(graph: Graph<Log>) -> CompiledGraph {
    graph.build().expect("sound")
}

fn inner() -> CompiledGraph {
    built(Graph::<Log>::new("inner").node("x", note).edge(START, "x"))
}

fn outer(state: SubgraphState) -> CompiledGraph {
    let graph = Graph::<Log>::new("outer").node("a", note).subgraph("within", inner(), state);
    built(graph.edge(START, "a").edge("a", "within"))
}

/// Removes the ids of tasks from a namespace.
fn plain(ns: &str) -> String {
    let parts = ns.split('|').filter(|part| !part.is_empty());
    let names: Vec<_> = parts.map(|part| part.split(':').next().unwrap_or_default()).collect();
    if names.is_empty() { String::new() } else { format!("{}/ ", names.join("/")) }
}

fn line(event: &AiEvent) -> String {
    let ends = |ended: &[weftwork_types::event::TaskEnd]| {
        let ended = ended.iter().map(|end| match end.status {
            TaskStatus::Ok => end.node.clone(),
            other => format!("{}({other:?})", end.node),
        });
        ended.collect::<Vec<_>>().join(" ")
    };
    let names = |due: &[weftwork_types::event::TaskDue]| {
        due.iter().map(|due| due.node.clone()).collect::<Vec<_>>().join(" ")
    };
    match event {
        AiEvent::Checkpoint(stored) => {
            let source = stored.source;
            let step = stored.step;
            let ns = plain(&stored.ns);
            let ended = ends(&stored.ended);
            let due = names(&stored.due);
            format!("{ns}{source:?} {step} [{ended}] -> [{due}]")
        }
        AiEvent::TasksStarted { ns, tasks, .. } => format!("{}starts {}", plain(ns), names(tasks)),
        AiEvent::TasksEnded { ns, ended, .. } => format!("{}ended {}", plain(ns), ends(ended)),
        AiEvent::Custom { ns, node, value, .. } => format!("{}{node} emits {value}", plain(ns)),
        AiEvent::HumanInputRequired { .. } => "asks".to_owned(),
        AiEvent::Done { outcome } => format!("done {outcome:?}"),
        AiEvent::RunStarted { .. } => "started".to_owned(),
        other => format!("{other:?}"),
    }
}

fn lines(events: &[RunEvent]) -> Vec<String> {
    let durable = events.iter().filter(|told| told.seq.is_some());
    durable.map(|told| line(&told.event)).collect()
}

/// References of the logs of a thread: each refers to what was reported before.
#[derive(Default)]
struct References {
    checkpoints: BTreeSet<(String, CheckpointId)>,
    due: BTreeMap<TaskId, String>,
}

impl References {
    fn check(&mut self, events: &[RunEvent]) {
        for told in events {
            let (ended, due) = match &told.event {
                AiEvent::Checkpoint(stored) => {
                    let parent = stored.parent.map(|parent| (stored.ns.clone(), parent));
                    assert!(parent.is_none_or(|parent| self.checkpoints.contains(&parent)));
                    assert!(self.checkpoints.insert((stored.ns.clone(), stored.id)), "{stored:?}");
                    (stored.ended.as_slice(), stored.due.as_slice())
                }
                AiEvent::TasksStarted { ns, checkpoint, tasks, .. } => {
                    assert!(self.checkpoints.contains(&(ns.clone(), *checkpoint)), "{told:?}");
                    (&[][..], tasks.as_slice())
                }
                AiEvent::TasksEnded { ended, .. } => (ended.as_slice(), &[][..]),
                _ => continue,
            };
            for end in ended {
                assert_eq!(self.due.get(&end.id), Some(&end.node), "{told:?}");
            }
            self.due.extend(due.iter().map(|due| (due.id, due.node.clone())));
            assert!(due.iter().all(|due| !due.triggers.is_empty()), "{told:?}");
        }
    }
}

async fn logged(bench: &Bench, request: RunRequest, references: &mut References) -> Vec<String> {
    let (events, _) = bench.run(request).await;
    check_stream(&events);
    assert!(events.iter().all(|told| told.seq.is_none() || told.at.is_some()));
    references.check(&events);
    lines(&events)
}

fn start() -> RunRequest {
    Bench::request(RunInput::Start { input: json!({}) })
}

#[tokio::test]
async fn the_log_reports_checkpoints_and_tasks() {
    let chain = Graph::<Log>::new("chain").node("a", note).node("b", note);
    let chain = built(chain.edge(START, "a").edge("a", "b"));
    let beside = Graph::<Log>::new("beside").node("a", note).node("b", note).node("c", note);
    let beside = built(beside.edge(START, "a").edge(START, "b").join(["a", "b"], "c"));
    let sent = Graph::<Log>::new("sent")
        .node("work", async |Arg(n): Arg<u64>| said(&n.to_string()))
        .node("sum", note)
        .route_to(START, ["work"], |_: State<Log>| {
            (0u64..2).map(|n| Next::Send(SendTo::to("work", n))).collect::<Vec<_>>()
        })
        .edge("work", "sum");
    let failing = Graph::<Log>::new("fails").node("a", note).node("f", fails);
    let failing = built(failing.edge(START, "a").edge("a", "f"));
    let begun = ["started", "Input -1 [] -> []"];
    let cases = [
        ("chain", chain, vec!["Loop 0 [] -> [a]", "Loop 1 [a] -> [b]", "Loop 2 [b] -> []"]),
        ("beside", beside, vec!["Loop 0 [] -> [a b]", "Loop 1 [a b] -> [c]", "Loop 2 [c] -> []"]),
        (
            "sent",
            built(sent),
            vec!["Loop 0 [] -> [work work]", "Loop 1 [work work] -> [sum]", "Loop 2 [sum] -> []"],
        ),
        (
            "nested",
            outer(SubgraphState::PerTask),
            vec![
                "Loop 0 [] -> [a]",
                "Loop 1 [a] -> [within]",
                "within/ Input -1 [] -> []",
                "within/ Loop 0 [] -> [x]",
                "within/ Loop 1 [x] -> []",
                "Loop 2 [within] -> []",
            ],
        ),
        (
            "nested without checkpoints",
            outer(SubgraphState::Stateless),
            vec!["Loop 0 [] -> [a]", "Loop 1 [a] -> [within]", "Loop 2 [within] -> []"],
        ),
        (
            "failure",
            failing,
            vec![
                "Loop 0 [] -> [a]",
                "Loop 1 [a] -> [f]",
                "f emits \"about to fail\"",
                "ended f(Failed)",
                "done Failed",
            ],
        ),
    ];
    for (name, graph, expected) in cases {
        let bench = Bench::new(graph).await;
        let found = logged(&bench, start(), &mut References::default()).await;
        let mut expected: Vec<_> = begun.iter().chain(&expected).map(|s| (*s).to_owned()).collect();
        if name != "failure" {
            expected.push("done Completed".to_owned());
        }
        // With durability `exit`, what a node emits is committed before the checkpoints.
        let mut found = found;
        let at_exit = options().durability == weftwork_types::run::Durability::Exit;
        if at_exit && name == "failure" {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn a_run_that_resumes_reports_the_tasks_that_were_open() {
    let graph = Graph::<Log>::new("asks").node("a", note).node("q", asks).node("c", note);
    let graph = graph.edge(START, "a").edge(START, "q").join(["a", "q"], "c");
    let bench = Bench::new(built(graph)).await;
    let mut references = References::default();
    let found = logged(&bench, start(), &mut references).await;
    let expected = [
        "started",
        "Input -1 [] -> []",
        "Loop 0 [] -> [a q]",
        "ended a q(Asks)",
        "asks",
        "done Interrupted",
    ];
    assert_eq!(found, expected);
    let open = bench.runtime.state(&Principal::local(), &crate::support::thread()).await;
    let open = open.expect("reads").interrupts;
    let answers = BTreeMap::from([(open[0].id, json!("this"))]);
    let answers = Bench::request(RunInput::answers(answers));
    let found = logged(&bench, answers, &mut references).await;
    let expected = [
        "starts a q",
        "started",
        "Loop 1 [a(Cached) q] -> [c]",
        "Loop 2 [c] -> []",
        "done Completed",
    ];
    let mut found = found;
    let mut expected = expected.map(str::to_owned).to_vec();
    // The open tasks may be reported with the first commit or before it.
    found[..2].sort();
    expected[..2].sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn updates_and_branches_are_reported() {
    let graph = Graph::<Log>::new("chain").node("a", note).node("b", note);
    let bench = Bench::new(built(graph.edge(START, "a").edge("a", "b"))).await;
    let mut references = References::default();
    let (events, _) = bench.run(start()).await;
    references.check(&events);
    let before_b = events.iter().find_map(|told| match &told.event {
        AiEvent::Checkpoint(stored) if stored.step == 1 => Some(stored.id),
        _ => None,
    });
    let at = |input| {
        let options = RunOptions { at: before_b, ..options() };
        RunRequest { options, ..Bench::request(input) }
    };
    let update = RunInput::Update { writes: json!({"log": ["x"]}), as_node: Some("a".to_owned()) };
    let found = logged(&bench, at(update), &mut references).await;
    assert_eq!(found, ["started", "Update 2 [] -> [b]", "done Completed"]);
    let found = logged(&bench, at(RunInput::Continue), &mut references).await;
    let expected = ["started", "Fork 2 [] -> [b]", "Loop 3 [b] -> []", "done Completed"];
    assert_eq!(found, expected);
}

/// A worker dies with a superstep open: the next one reports what was not reported.
#[tokio::test]
async fn a_takeover_reports_nothing_twice() {
    let graph = Graph::<Log>::new("chain").node("a", note).node("b", note);
    let graph = built(graph.edge(START, "a").edge("a", "b"));
    let bench = Bench::new(graph).await;
    let at = created(&bench.store).await;
    let who = Principal::local();
    let worker = WorkerId::new("gone").expect("valid id");
    bench.store.claim(&who, &at, &worker, Timestamp(1)).await.expect("free");
    let handle = bench.runtime.take_over(&who, &at).await.expect("nobody has it");
    let told: Vec<_> = handle.events.collect().await;
    References::default().check(&told);
    let taken = "TakenOver { claim: 2 }";
    let expected = [
        taken,
        "started",
        "Input -1 [] -> []",
        "Loop 0 [] -> [a]",
        "Loop 1 [a] -> [b]",
        "Loop 2 [b] -> []",
        "done Completed",
    ];
    assert_eq!(lines(&told), expected);
    let stored = bench.store.events(&who, &at, 0, 99).await.expect("reads");
    let stored = stored.into_iter().map(|e| RunEvent::durable(e.seq, e.at, e.event));
    assert_eq!(stored.collect::<Vec<_>>(), told, "the same later");
}

#[tokio::test]
async fn a_question_in_a_subgraph_is_reported_in_its_namespace() {
    let within = built(Graph::<Log>::new("inner").node("q", asks).edge(START, "q"));
    let graph = Graph::<Log>::new("outer").subgraph("within", within, SubgraphState::PerTask);
    let bench = Bench::new(built(graph.edge(START, "within"))).await;
    let mut references = References::default();
    let (events, outcome) = bench.run(start()).await;
    references.check(&events);
    let open = interrupted(outcome);
    assert!(lines(&events).contains(&"within/ ended q(Asks)".to_owned()), "{:?}", lines(&events));
    let answers = BTreeMap::from([(open[0], json!("this"))]);
    let found = logged(&bench, Bench::request(RunInput::answers(answers)), &mut references).await;
    for expected in ["starts within", "within/ starts q", "within/ Loop 1 [q] -> []"] {
        assert!(found.contains(&expected.to_owned()), "{expected}: {found:?}");
    }
}

on_each_store![
    the_log_reports_checkpoints_and_tasks,
    a_run_that_resumes_reports_the_tasks_that_were_open,
    updates_and_branches_are_reported,
    a_takeover_reports_nothing_twice,
    a_question_in_a_subgraph_is_reported_in_its_namespace,
];
