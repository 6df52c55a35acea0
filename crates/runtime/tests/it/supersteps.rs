//! Order, reducers, routes, sends, joins, limits, failures.

use crate::support::{Bench, check_stream, completed, failed, on_each_store, store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weftwork_graph::{
    Arg, Cache, ChannelDef, Command, Ctx, Deps, DynUpdate, Dynamic, END, Graph, List, Next,
    NodeError, NodeResult, Routes, START, SendTo, State, channel,
};
use weftwork_runtime::Runtime;
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunOptions, RunOutcome};
use weftwork_types::{Principal, ThreadId};

#[derive(State)]
struct Log {
    #[channel(append)]
    log: List<String>,
    #[channel(reduce = |sum, n| sum + n)]
    n: i64,
    last: String,
}

fn say(text: &str) -> LogUpdate {
    LogUpdate::new().log([text])
}

#[tokio::test]
async fn a_chain_runs_in_order_and_tells_each_step() {
    let graph = Graph::<Log>::new("chain")
        .node("a", async |_: State<Log>| say("a").n(1))
        .node("b", async |state: State<Log>| say("b").n(10).last(format!("n was {}", state.n())))
        .edge(START, "a")
        .edge("a", "b")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let input = RunInput::Start { input: json!({"n": 100}) };
    let (events, outcome) = bench.run(Bench::request(input)).await;
    check_stream(&events);
    assert_eq!(completed(outcome), json!({"log": ["a", "b"], "n": 111, "last": "n was 101"}));
    let again = completed(bench.start(json!({"log": "c"})).await);
    assert_eq!(again["log"], json!(["a", "b", "c", "a", "b"]), "state lives on in the thread");
}

#[derive(Routes)]
enum Where {
    Again,
    End,
}

#[tokio::test]
async fn a_route_sees_the_nodes_own_writes_and_can_loop() {
    let graph = Graph::<Log>::new("loop")
        .node("again", async |_: State<Log>| LogUpdate::new().n(1))
        .edge(START, "again")
        .route("again", |state: State<Log>| if *state.n() < 5 { Where::Again } else { Where::End })
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    assert_eq!(completed(bench.start(json!({})).await)["n"], json!(5));
}

#[tokio::test]
async fn sends_run_side_by_side_and_apply_in_the_order_they_were_sent() {
    let graph = Graph::<Log>::new("fan")
        .node("work", async |Arg(n): Arg<u64>, ctx: Ctx| {
            // The later it was sent, the sooner it ends.
            ctx.clock().sleep(std::time::Duration::from_millis(5 * (4 - n))).await;
            say(&format!("w{n}"))
        })
        .node("sum", async |state: State<Log>| {
            LogUpdate::new().last(format!("{} items", state.log().len()))
        })
        .route_to(START, ["work"], |_: State<Log>| {
            (0u64..4).map(|n| Next::Send(SendTo::to("work", n))).collect::<Vec<_>>()
        })
        .edge("work", "sum")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let output = completed(bench.start(json!({})).await);
    assert_eq!(output["log"], json!(["w0", "w1", "w2", "w3"]));
    assert_eq!(output["last"], json!("4 items"), "the fan-in runs once");
}

#[tokio::test]
async fn a_join_waits_for_branches_of_unequal_length() {
    let graph = Graph::<Log>::new("join")
        .node("a", async |_: State<Log>| say("a"))
        .node("a2", async |_: State<Log>| say("a2"))
        .node("b", async |_: State<Log>| say("b"))
        .node("end", async |_: State<Log>| say("end"))
        .edge(START, "a")
        .edge(START, "b")
        .edge("a", "a2")
        .join(["a2", "b"], "end")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let output = completed(bench.start(json!({})).await);
    assert_eq!(output["log"], json!(["a", "b", "a2", "end"]));
}

#[tokio::test]
async fn a_deferred_node_runs_once_after_everything_else() {
    let build = |defer: bool| {
        let graph = Graph::<Log>::new("defer")
            .node("short", async |_: State<Log>| say("short"))
            .node("long", async |_: State<Log>| say("long"))
            .node("longer", async |_: State<Log>| say("longer"))
            .node("sink", async |_: State<Log>| say("sink"))
            .edge(START, "short")
            .edge(START, "long")
            .edge("long", "longer")
            .edge("short", "sink")
            .edge("longer", "sink");
        let graph = if defer { graph.defer("sink") } else { graph };
        graph.build().expect("sound")
    };
    let eager = completed(Bench::new(build(false)).await.start(json!({})).await);
    assert_eq!(eager["log"], json!(["long", "short", "longer", "sink", "sink"]));
    let deferred = completed(Bench::new(build(true)).await.start(json!({})).await);
    assert_eq!(deferred["log"], json!(["long", "short", "longer", "sink"]));
}

#[tokio::test]
async fn a_command_goes_where_it_says_and_edges_fire_too() {
    let graph = Graph::<Log>::new("command")
        .node("a", async |_: State<Log>| Command::<Log>::update(say("a")).goto("b"))
        .node("b", async |_: State<Log>| say("b"))
        .node("c", async |_: State<Log>| say("c"))
        .edge(START, "a")
        .edge("a", "c")
        .ends("a", ["b"])
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    assert_eq!(completed(bench.start(json!({})).await)["log"], json!(["a", "b", "c"]));
}

#[tokio::test]
async fn two_writes_to_a_last_value_are_an_error_that_names_both() {
    let graph = Graph::<Log>::new("conflict")
        .node("a", async |_: State<Log>| LogUpdate::new().last("a".to_owned()))
        .node("b", async |_: State<Log>| LogUpdate::new().last("b".to_owned()))
        .edge(START, "a")
        .edge(START, "b")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let (code, message) = failed(bench.start(json!({})).await);
    assert_eq!(code, "W0102");
    assert!(message.contains("`last`") && message.contains("node `a`, node `b`"), "{message}");
}

#[tokio::test]
async fn a_failed_step_keeps_what_its_siblings_finished() {
    let runs = Arc::new(AtomicU32::new(0));
    let fails = Arc::new(AtomicU32::new(1));
    let graph = Graph::<Log>::new("fail")
        .with(Arc::clone(&runs))
        .with(Fails(Arc::clone(&fails)))
        .node("good", async |runs: Deps<Arc<AtomicU32>>| {
            runs.fetch_add(1, Ordering::SeqCst);
            say("good")
        })
        .node("unlucky", async |fails: Deps<Fails>| -> NodeResult<LogUpdate> {
            if fails.0.0.fetch_sub(1, Ordering::SeqCst) == 1 {
                return Err(NodeError::message("no luck"));
            }
            Ok(say("unlucky"))
        })
        .edge(START, "good")
        .edge(START, "unlucky")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    assert_eq!(failed(bench.start(json!({})).await), ("W0109".into(), "no luck".into()));
    let output = completed(bench.proceed().await);
    assert_eq!(output["log"], json!(["good", "unlucky"]));
    assert_eq!(runs.load(Ordering::SeqCst), 1, "the finished sibling is not run again");
}

struct Fails(Arc<AtomicU32>);

#[tokio::test]
async fn panics_of_nodes_routes_and_reducers_end_the_run_and_nothing_else() {
    async fn bad(_: State<Log>) -> LogUpdate {
        panic!("node boom")
    }
    let node = Graph::<Log>::new("p").node("bad", bad).edge(START, "bad");
    let route = Graph::<Log>::new("p")
        .node("a", async |_: State<Log>| say("a"))
        .edge(START, "a")
        .route_to("a", [END], |_: State<Log>| -> Next { panic!("route boom") });
    let reducer = Graph::<Bomb>::new("p")
        .node("a", async |_: State<Bomb>| BombUpdate::new().n(1))
        .edge(START, "a");
    for (graph, code, text) in [
        (node.build(), "W0110", "node `bad` panicked: node boom"),
        (route.build(), "W0110", "route boom"),
        (reducer.build(), "W0108", "the reducer of channel `n` panicked: reducer boom"),
    ] {
        let bench = Bench::new(graph.expect("sound")).await;
        let (found, message) = failed(bench.start(json!({})).await);
        assert_eq!(found, code);
        assert!(message.contains(text), "{message}");
    }
}

#[derive(State)]
struct Bomb {
    #[channel(reduce = boom)]
    n: i64,
}

fn boom(_: i64, _: i64) -> i64 {
    panic!("reducer boom")
}

#[tokio::test]
async fn a_limit_is_an_outcome_and_the_thread_goes_on_from_there() {
    let graph = Graph::<Log>::new("limit")
        .node("a", async |_: State<Log>| LogUpdate::new().n(1))
        .edge(START, "a")
        .route("a", |state: State<Log>| if *state.n() < 10 { Where2::A } else { Where2::End })
        .step_limit(4)
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let outcome = bench.start(json!({})).await;
    assert_eq!(outcome, RunOutcome::LimitReached { step_limit: 4 });
    assert_eq!(bench.proceed().await, RunOutcome::LimitReached { step_limit: 4 });
    assert_eq!(completed(bench.proceed().await)["n"], json!(10));
}

#[tokio::test]
async fn a_run_that_continues_another_one_has_its_step_limit() {
    let graph = Graph::<Log>::new("limit")
        .node("ask", async |ctx: Ctx| {
            ctx.interrupt(json!("go on?"))?;
            NodeResult::Ok(LogUpdate::new())
        })
        .node("a", async |_: State<Log>| LogUpdate::new().n(1))
        .edge(START, "ask")
        .edge("ask", "a")
        .edge("a", "a")
        .build()
        .expect("sound");
    let runtime = Runtime::builder(store()).graph("test:graph", graph).open().await;
    let runtime = runtime.expect("opens");
    let thread = runtime.thread("test:graph", "t").expect("valid names");
    let ended = thread.start(json!({})).step_limit(4).await.expect("accepted");
    assert!(matches!(ended.outcome(), RunOutcome::Interrupted { .. }));
    let ended = thread.answer(json!("yes")).await.expect("accepted");
    assert_eq!(*ended.outcome(), RunOutcome::LimitReached { step_limit: 4 });
    let who = Principal::local();
    let resumed = runtime.resume_with(&who, thread.id(), RunOptions::default()).await;
    let ended = resumed.expect("resumed").await;
    assert_eq!(*ended.outcome(), RunOutcome::LimitReached { step_limit: 4 });
    let ended = thread.proceed().step_limit(6).await.expect("accepted");
    assert_eq!(*ended.outcome(), RunOutcome::LimitReached { step_limit: 6 }, "its own limit");
}

#[derive(Routes)]
enum Where2 {
    A,
    End,
}

#[tokio::test]
async fn bad_input_names_the_channel_and_a_close_one() {
    let graph = Graph::<Log>::new("input")
        .node("a", async |_: State<Log>| say("a"))
        .edge(START, "a")
        .build()
        .expect("sound");
    let bench = Bench::new(graph).await;
    let (code, message) = failed(bench.start(json!({"lag": ["x"]})).await);
    assert_eq!(code, "W0105");
    assert!(message.contains("did you mean `log`"), "{message}");
    let (code, message) = failed(bench.start(json!({"n": "seven"})).await);
    assert_eq!(code, "W0103");
    assert!(message.contains("channel `n`") && message.contains("seven"), "{message}");
}

#[tokio::test]
async fn a_dynamic_state_behaves_as_a_typed_one() {
    let channels = vec![
        ChannelDef::new("log", channel::Append::<Value>::new()),
        ChannelDef::new("n", channel::Reduce::<i64>::new(|| 0, |sum, n| sum + n)),
    ];
    let build = |channel: &'static str| {
        Graph::dynamic("dynamic", channels.clone())
            .node("a", async |_: State<Dynamic>| {
                DynUpdate::new().write("log", json!(["a"])).write("n", json!(1))
            })
            .node("b", move |state: State<Dynamic>| async move {
                let seen = state.get("n").unwrap_or_default();
                DynUpdate::new().write(channel, json!([format!("n was {seen}")]))
            })
            .edge(START, "a")
            .edge("a", "b")
            .build()
            .expect("sound")
    };
    let output = completed(Bench::new(build("log")).await.start(json!({"n": 4})).await);
    assert_eq!(output, json!({"log": ["a", "n was 5"], "n": 5}));
    let (code, message) = failed(Bench::new(build("lag")).await.start(json!({})).await);
    assert_eq!((code.as_str(), message.contains("did you mean `log`")), ("W0105", true));
}

on_each_store![
    a_chain_runs_in_order_and_tells_each_step,
    a_route_sees_the_nodes_own_writes_and_can_loop,
    sends_run_side_by_side_and_apply_in_the_order_they_were_sent,
    a_join_waits_for_branches_of_unequal_length,
    a_deferred_node_runs_once_after_everything_else,
    a_command_goes_where_it_says_and_edges_fire_too,
    two_writes_to_a_last_value_are_an_error_that_names_both,
    a_failed_step_keeps_what_its_siblings_finished,
    panics_of_nodes_routes_and_reducers_end_the_run_and_nothing_else,
    a_limit_is_an_outcome_and_the_thread_goes_on_from_there,
    bad_input_names_the_channel_and_a_close_one,
    a_dynamic_state_behaves_as_a_typed_one,
];

#[tokio::test]
async fn a_runtime_keeps_no_more_results_of_nodes_than_its_limit() {
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let node = move |_: State<Log>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { LogUpdate::new() }
    };
    let graph = Graph::<Log>::new("cached").node("a", node).cache("a", Cache::forever());
    let graph = graph.edge(START, "a").build().expect("sound");
    let builder = Runtime::builder(store()).graph("test:graph", graph);
    let runtime = builder.cache_limit(1).open().await.expect("opens");
    for (number, (word, expected)) in [("x", 1), ("x", 1), ("y", 2), ("x", 3)].iter().enumerate() {
        let mut request = Bench::request(RunInput::Start { input: json!({"log": [word]}) });
        request.thread = ThreadId::new(format!("t{number}")).expect("an id");
        completed(runtime.execute(request).await.expect("accepted").outcome.await);
        assert_eq!(ran.load(Ordering::SeqCst), *expected, "{word}");
    }
}
