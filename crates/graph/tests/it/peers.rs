//! Bugs that other graph runtimes shipped, each as a test of its own on in-process runs.

use crate::support::{Count, answer, chain, empty, graph, kept, log, logged, note};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weftwork_graph::run_loop::{CheckpointAddress, StreamItem};
use weftwork_graph::run_loop::{Checkpointer, Host, InMemoryCheckpointer, Start, StateQuery};
use weftwork_graph::{
    CompiledGraph, Ctx, DynUpdate, Dynamic, Finish, Graph, Input, List, Modes, Next, NodeError,
    NodeResult, RunOutcome, RuntimeError, START, SendTo, State, Stops, StreamEvent, TaskDef,
};

const EVERYTHING: [Modes; 7] = [
    Modes::VALUES,
    Modes::UPDATES,
    Modes::TASKS,
    Modes::CHECKPOINTS,
    Modes::CUSTOM,
    Modes::MESSAGES,
    Modes::DEBUG,
];

fn payload() -> Value {
    json!({"amount": 25, "to": ["Ada"]})
}

fn counted(
    count: &Count,
    name: &'static str,
) -> impl Fn(Input) -> std::future::Ready<DynUpdate> + use<> {
    let count = count.clone();
    move |_| {
        count.up();
        std::future::ready(log(name))
    }
}

/// A counted node before a gate, and another behind it.
fn gated(before: &Count, behind: &Count) -> CompiledGraph {
    let gate = async |_: Input, ctx: Ctx| {
        let answer = ctx.interrupt(payload())?;
        NodeResult::Ok(log(&format!("gate {answer}")))
    };
    let graph = graph("gated").node("before", counted(before, "before")).node("gate", gate);
    let graph = graph.node("behind", counted(behind, "behind")).edge(START, "before");
    graph.edge("before", "gate").edge("gate", "behind").build().expect("sound")
}

async fn run(graph: &CompiledGraph, host: &Host, start: Start) -> RunOutcome {
    graph.run(host, start).thread("t").outcome().await.expect("runs")
}

async fn watched(
    graph: &CompiledGraph,
    host: &Host,
    start: Start,
    modes: Modes,
) -> (Vec<StreamItem>, RunOutcome) {
    let mut stream = graph.run(host, start).thread("t").modes(modes).stream();
    let mut items = Vec::new();
    while let Some(item) = stream.next().await {
        items.push(item);
    }
    let outcome = stream.outcome().expect("it has ended").as_ref().expect("runs");
    (items, outcome.clone())
}

fn is_gate(outcome: &RunOutcome) -> bool {
    matches!(outcome, RunOutcome::Interrupted { questions: interrupts, .. } if interrupts.len() == 1)
}

#[tokio::test]
async fn resuming_does_not_execute_finished_nodes_again() {
    let before = Count::default();
    let behind = Count::default();
    let graph = gated(&before, &behind);
    let host = kept();
    assert!(is_gate(&run(&graph, &host, empty()).await));
    let ended = run(&graph, &host, answer(json!(1))).await;
    assert_eq!(logged(ended), ["before", "gate 1", "behind"], "each update is applied once");
    assert_eq!((before.get(), behind.get()), (1, 1));
}

#[tokio::test]
async fn a_streamed_run_leaves_checkpoints() {
    for modes in EVERYTHING {
        let before = Count::default();
        let behind = Count::default();
        let graph = gated(&before, &behind);
        let host = kept();
        assert!(is_gate(&watched(&graph, &host, empty(), modes).await.1));
        let history = graph.history(&host, &StateQuery::thread("t")).await.expect("is kept");
        assert_eq!(history.len(), 3, "the input, what led to the first node, and its step");
        let ended = watched(&graph, &host, answer(json!(1)), modes).await.1;
        assert_eq!(logged(ended), ["before", "gate 1", "behind"], "{modes:?}");
    }
}

#[tokio::test]
async fn watching_messages_does_not_run_a_node_twice() {
    for modes in EVERYTHING {
        let calls = Count::default();
        let counted = calls.clone();
        let model = move |_: Input, ctx: Ctx| {
            counted.up();
            ctx.token(&ctx.message_id(), "a word");
            std::future::ready(log("billed"))
        };
        let graph = graph("model").node("a", model).edge(START, "a").build().expect("sound");
        let (items, ended) = watched(&graph, &Host::new(), empty(), modes).await;
        assert_eq!((logged(ended), calls.get()), (vec!["billed".to_owned()], 1), "{modes:?}");
        let messages = items.iter().filter(|i| matches!(i.event, StreamEvent::Message { .. }));
        assert_eq!(messages.count(), usize::from(modes == Modes::MESSAGES));
    }
}

#[tokio::test]
async fn an_approval_gate_holds_in_every_stream_mode() {
    for modes in EVERYTHING {
        let before = Count::default();
        let behind = Count::default();
        let graph = gated(&before, &behind);
        let host = kept();
        let (_, first) = watched(&graph, &host, empty(), modes).await;
        assert!(is_gate(&first), "{modes:?}: {first:?}");
        let (_, again) = watched(&graph, &host, Start::Continue, modes).await;
        assert_eq!(again, first, "going on without an answer does not open the gate");
        assert_eq!(behind.get(), 0, "{modes:?}");
    }
}

#[tokio::test]
async fn a_static_stop_holds_once_for_each_time_its_node_is_due() {
    let rounds = Count::default();
    let graph = chain(&["plan", "act"]).route_to("act", ["plan"], move |_: State<Dynamic>| {
        if rounds.up() < 3 { Next::node("plan") } else { Next::End }
    });
    let graph = graph.interrupt_before(Stops::at(["act"])).build().expect("sound");
    let host = kept();
    let mut outcome = run(&graph, &host, empty()).await;
    let mut stops = 0;
    while matches!(outcome, RunOutcome::Interrupted { .. }) {
        stops += 1;
        assert!(stops < 10, "the gated node never runs");
        outcome = run(&graph, &host, Start::Continue).await;
    }
    let acted = logged(outcome).iter().filter(|name| *name == "act").count();
    assert_eq!((stops, acted), (3, 3));
}

#[tokio::test]
async fn a_fan_in_runs_once() {
    let runs = Count::default();
    let graph = graph("fan").node("a", note("a")).node("b", note("b")).node("c", note("c"));
    let graph = graph.node("in", counted(&runs, "in")).edge(START, "a").edge(START, "b");
    let graph = graph.edge(START, "c").edge("a", "in").edge("b", "in").edge("c", "in");
    let graph = graph.build().expect("sound");
    let ended = graph.invoke(json!({})).await.expect("runs");
    assert_eq!(logged(ended.outcome().clone()), ["a", "b", "c", "in"]);
    assert_eq!(runs.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn parallel_updates_merge_in_task_order() {
    let after = |name: &'static str, ms: u64| {
        move |_: Input, ctx: Ctx| async move {
            ctx.clock().sleep(Duration::from_millis(ms)).await;
            log(name)
        }
    };
    let graph = graph("order").node("a", after("a", 30)).node("b", after("b", 20));
    let graph = graph.node("c", after("c", 10)).edge(START, "c").edge(START, "b");
    let graph = graph.edge(START, "a").build().expect("sound");
    let ended = graph.invoke(json!({})).await.expect("runs");
    assert_eq!(logged(ended.outcome().clone()), ["a", "b", "c"]);
}

#[tokio::test]
async fn an_unknown_route_is_an_error() {
    let graph = graph("route").node("a", note("a")).edge(START, "a");
    let graph = graph.route_to("a", [] as [&str; 0], |_: State<Dynamic>| Next::node("nowhere"));
    let graph = graph.build().expect("sound");
    let error = graph.invoke(json!({})).await.expect_err("it leads nowhere");
    assert_eq!(error.fault().code, "W0104", "{error}");
}

#[tokio::test]
async fn the_payload_of_a_question_reaches_the_caller() {
    let graph = gated(&Count::default(), &Count::default());
    let host = kept();
    let (items, outcome) = watched(&graph, &host, empty(), Modes::UPDATES).await;
    let RunOutcome::Interrupted { questions: interrupts, .. } = &outcome else {
        panic!("{outcome:?}")
    };
    let ask = weftwork_types::interrupt::Ask::Value { value: payload() };
    assert_eq!(interrupts[0].ask, ask);
    let told = StreamEvent::Interrupts(interrupts.clone());
    assert!(items.iter().any(|item| item.event == told), "{items:#?}");
    let state = graph.state(&host, &StateQuery::thread("t"), false).await.expect("is kept");
    assert_eq!(&state.interrupts, interrupts);
}

#[tokio::test]
async fn a_pruned_thread_stays_small_and_goes_on() {
    let saver = InMemoryCheckpointer::new();
    let host = Host::new().with_checkpointer(saver.clone());
    let graph = chain(&["a", "b"]).build().expect("sound");
    for turn in 1..=50 {
        let ended = run(&graph, &host, empty()).await;
        assert_eq!(logged(ended).len(), 2 * turn, "nothing of the state is lost");
        graph.prune(&host, "t", 3).await.expect("is in memory");
        assert_eq!(saver.len(), 3);
    }
}

#[tokio::test]
async fn what_finished_beside_a_failure_is_kept_with_its_writes() {
    let ran = Count::default();
    let tries = Count::default();
    let tried = tries.clone();
    let fails = move |_: Input| {
        let first = tried.up() == 1;
        let result = if first { Err(NodeError::message("boom")) } else { Ok(log("b")) };
        std::future::ready(result)
    };
    let graph = graph("beside").node("a", counted(&ran, "a")).node("b", fails);
    let graph = graph.edge(START, "a").edge(START, "b").build().expect("sound");
    let saver = InMemoryCheckpointer::new();
    let place = CheckpointAddress { thread: "t".into(), ns: "".into() };
    let host = Host::new().with_checkpointer(saver.clone());
    graph.run(&host, empty()).thread("t").outcome().await.expect_err("it fails first");
    let saved = saver.load(&place, graph.plan(), None).await.expect("reads").expect("a checkpoint");
    let writes = saved.tasks.iter().filter_map(|(_, task)| task.output());
    assert_eq!(writes.map(|output| output.writes.len()).collect::<Vec<_>>(), [1]);
    assert_eq!(logged(run(&graph, &host, Start::Continue).await), ["a", "b"]);
    assert_eq!((ran.get(), tries.get()), (1, 2));
}

#[tokio::test]
async fn tasks_sent_to_one_node_are_all_run_even_with_equal_arguments() {
    let work = |Input(n): Input| std::future::ready(log(&n.to_string()));
    let graph = graph("sends").node("fan", note("fan")).node("work", work).edge(START, "fan");
    let graph = graph.route_to("fan", ["work"], |_: State<Dynamic>| {
        Vec::from([7, 7, 7].map(|n| Next::Send(SendTo::to("work", n))))
    });
    let graph = graph.build().expect("sound");
    let ended = graph.invoke(json!({})).await.expect("runs");
    assert_eq!(logged(ended.outcome().clone()), ["fan", "7", "7", "7"]);
}

#[test]
fn a_plan_grows_with_its_graph_and_not_with_the_square() {
    let size = |nodes: usize| {
        let names: Vec<&'static str> =
            (0..nodes).map(|n| &*Box::leak(format!("n{n:05}").into_boxed_str())).collect();
        let mut graph = chain(&names);
        for name in &names[1..] {
            graph = graph.edge(START, *name);
        }
        let graph = graph.build().expect("sound");
        format!("{:?}", graph.plan()).len()
    };
    let small = size(200);
    let large = size(800);
    assert!(large < small * 5, "200 nodes: {small}, 800 nodes: {large}");
}

/// Number of copies of an item.
static COPIES: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Item(String);

impl Clone for Item {
    fn clone(&self) -> Self {
        COPIES.fetch_add(1, Ordering::SeqCst);
        Self(self.0.clone())
    }
}

#[derive(State)]
struct Tools {
    #[channel(append)]
    answers: List<Item>,
    #[channel(default)]
    turns: u64,
}

#[tokio::test]
async fn neither_steps_nor_checkpoints_copy_what_was_answered_before() {
    const TURNS: usize = 400;
    let graph = Graph::<Tools>::new("tools")
        .node("tool", async |tools: State<Tools>| {
            let item = Item(format!("answer {}", tools.answers().len()));
            ToolsUpdate::new().answers([item]).turns(tools.turns() + 1)
        })
        .edge(START, "tool")
        .route_to("tool", ["tool"], |tools: State<Tools>| {
            if *tools.turns() < TURNS as u64 { Next::node("tool") } else { Next::End }
        })
        .build()
        .expect("sound");
    let saver = InMemoryCheckpointer::new();
    let host = Host::new().with_checkpointer(saver.clone());
    let run = graph.run(&host, empty()).thread("t").step_limit(1_000);
    let ended = run.finish().await.expect("runs");
    let answers = ended.state::<Tools>().map(|tools| tools.answers().len());
    assert_eq!(answers, Some(TURNS));
    assert!(saver.len() > TURNS);
    let copies = COPIES.load(Ordering::SeqCst);
    // A list is made of chunks: the one that grows is copied, those before it are shared.
    assert!(copies < 40 * TURNS, "{copies} copies of items in {TURNS} turns");
}

#[tokio::test]
async fn a_tool_asks_and_what_it_did_before_is_not_done_again() {
    async fn refund(ctx: &Ctx, look_up: &TaskDef) -> NodeResult<Value> {
        let found = ctx.task(look_up, json!("order 7")).await?;
        let answer = ctx.interrupt(json!({"refund": found}))?;
        Ok(json!([found, answer]))
    }
    let looked = Count::default();
    let counted = looked.clone();
    let look_up = TaskDef::new("look_up", move |Input(order): Input| {
        counted.up();
        std::future::ready(NodeResult::Ok(Finish::value(json!(format!("{order}: 25")))))
    });
    let agent = move |_: Input, ctx: Ctx| {
        let look_up = look_up.clone();
        async move {
            let refunded = refund(&ctx, &look_up).await?;
            NodeResult::Ok(log(&refunded.to_string()))
        }
    };
    let graph = graph("agent").node("agent", agent).edge(START, "agent").build().expect("sound");
    let host = kept();
    assert!(is_gate(&run(&graph, &host, empty()).await));
    let ended = logged(run(&graph, &host, answer(json!("yes"))).await);
    assert_eq!(ended, [json!(["\"order 7\": 25", "yes"]).to_string()]);
    assert_eq!(looked.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_step_47_of_50_loses_one_step() {
    let steps = Count::default();
    let counted = steps.clone();
    let step = move |_: Input| {
        let step = counted.up();
        async move {
            if step == 47 {
                std::future::pending::<()>().await;
            }
            log("step")
        }
    };
    let mut graph = graph("long").edge(START, "n0");
    for n in 0..50 {
        graph = graph.node(format!("n{n}"), step.clone());
        graph = if n > 0 { graph.edge(format!("n{}", n - 1), format!("n{n}")) } else { graph };
    }
    let graph = graph.step_limit(100).build().expect("sound");
    let host = kept();
    let crashed = tokio::time::timeout(Duration::from_secs(60), run(&graph, &host, empty())).await;
    crashed.expect_err("the process was killed");
    let ended = run(&graph, &host, Start::Continue).await;
    assert_eq!(logged(ended).len(), 50);
    assert_eq!(steps.get(), 51, "only the step that was cut off runs again");
}

#[tokio::test]
async fn a_thread_of_an_edited_graph_is_refused() {
    let host = kept();
    let before = chain(&["a", "b", "c"]);
    let before = before.interrupt_before(Stops::at(["b"])).build().expect("sound");
    run(&before, &host, empty()).await;
    let other_channel = Graph::dynamic("chain", Vec::new()).node("a", note("a")).edge(START, "a");
    for edited in [chain(&["a", "c"]), chain(&["a", "b", "c", "d"]), other_channel] {
        let edited = edited.build().expect("sound");
        let refused = edited.run(&host, Start::Continue).thread("t").outcome().await;
        let error: RuntimeError = refused.expect_err("it is another graph");
        assert_eq!(error.code().0, "W0107", "{error}");
    }
    assert_eq!(logged(run(&before, &host, Start::Continue).await), ["a", "b", "c"]);
}
