//! Text that a run tells while a model speaks: how it is kept, and how it is followed.

use crate::faulty::Faulty;
use crate::support::{Bench, check_stream, completed, moving, on_each_store, store};
use futures_util::StreamExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Cell};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, Retry, START, State,
};
use weftwork_store::{Commit, Store, StoreError};
use weftwork_testkit::ManualClock;
use weftwork_types::event::{AiEvent, AttemptReset, Piece, PieceKind, Position, RunEvent};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::{Clock, GraphExecutor, RunHandle};
use weftwork_types::run::{Durability, RunInput, RunOutcome, RunRef};
use weftwork_types::{BoxStream, Principal};

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

/// Instruction for a node.
#[derive(Debug)]
enum Line {
    Say(String),
    Think(&'static str),
    Tell(u32),
    /// An attempt of its model dies.
    Break,
    Fail,
    End,
}

type Lines = Arc<Mutex<mpsc::UnboundedReceiver<Line>>>;

/// Instructions for each node, in one process.
#[derive(Debug, Default)]
struct Script(BTreeMap<String, Lines>);

/// Sender of a node's instructions.
type Prompter = mpsc::UnboundedSender<Line>;

async fn speaks(ctx: Ctx, script: Deps<Script>) -> NodeResult<TalkUpdate> {
    let mut lines = script.0.0[ctx.node()].lock().await;
    let id = ctx.message_id();
    let mut said = String::new();
    while let Some(line) = lines.recv().await {
        match line {
            Line::Say(text) => {
                ctx.token(&id, &text);
                said.push_str(&text);
            }
            Line::Think(text) => {
                ctx.calls().emit.emit(AiEvent::ReasoningDelta { delta: text.to_owned() });
            }
            Line::Tell(n) => ctx.emit(json!(n)),
            Line::Break => {
                said.clear();
                let node = "a model".to_owned();
                ctx.calls().emit.emit(AiEvent::AttemptReset(AttemptReset::of_node(node)));
            }
            Line::Fail => return Err(NodeError::message("no luck").retriable()),
            Line::End => break,
        }
    }
    let message = Message::text(id, Role::Assistant, said);
    Ok(TalkUpdate::new().messages([message]))
}

/// Creates the script of nodes, with a sender for each.
fn script<const N: usize>(nodes: [&str; N]) -> (Script, [Prompter; N]) {
    let mut script = Script::default();
    let prompters = nodes.map(|node| {
        let (prompter, lines) = mpsc::unbounded_channel();
        script.0.insert(node.to_owned(), Arc::new(Mutex::new(lines)));
        prompter
    });
    (script, prompters)
}

/// Nodes that speak at the same time, and who prompts each.
fn graph<const N: usize>(nodes: [&str; N]) -> (CompiledGraph, [Prompter; N]) {
    let (script, prompters) = script(nodes);
    let mut graph = Graph::<Talk>::new("talk").with(script);
    for node in nodes {
        let retry = Retry::new(3).backoff(Duration::from_millis(10), 1.0);
        graph = graph.node(node, speaks).retry(node, retry).edge(START, node);
    }
    (graph.build().expect("sound"), prompters)
}

fn say(prompter: &Prompter, text: impl Into<String>) {
    prompter.send(Line::Say(text.into())).expect("somebody listens");
}

async fn process(store: &Arc<dyn Store>, clock: &ManualClock, graph: CompiledGraph) -> Bench {
    Bench::with_clock(Arc::clone(store), graph, Arc::new(clock.clone())).await
}

async fn started(bench: &Bench) -> RunHandle {
    let input = RunInput::Start { input: json!({}) };
    bench.runtime.execute(Bench::request(input)).await.expect("accepted")
}

async fn pieces(store: &Arc<dyn Store>, at: &RunRef) -> Vec<Piece> {
    store.pieces(&Principal::local(), at, Position::START, 99).await.expect("reads")
}

fn texts(pieces: &[Piece]) -> Vec<(&str, u64, u64)> {
    let shown = pieces.iter().map(|p| (p.text.as_str(), p.at.end.seq, p.at.end.bytes));
    shown.collect()
}

/// Lets everything that can go on do so, until there is what the test waits for.
async fn until<T>(found: impl AsyncFn() -> Option<T>) -> T {
    loop {
        if let Some(found) = found().await {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

async fn saved(store: &Arc<dyn Store>, at: &RunRef, bytes: usize) -> Vec<Piece> {
    let enough = |all: &Vec<Piece>| all.iter().map(|p| p.text.len()).sum::<usize>() >= bytes;
    until(async || Some(pieces(store, at).await).filter(enough)).await
}

/// Formats events in order: text as it is, other events by their names.
fn shown(events: &[RunEvent]) -> String {
    let shown = events.iter().map(|told| match &told.event {
        AiEvent::TextDelta { delta } => delta.clone(),
        AiEvent::ReasoningDelta { delta } => format!("({delta})"),
        AiEvent::Custom { value, .. } => format!("<{value}>"),
        AiEvent::MessageFinal { message } => format!("<final {}>", message.joined_text()),
        AiEvent::AttemptReset(reset) => format!("<reset {}>", reset.node),
        AiEvent::TakenOver { .. } => "<taken over>".to_owned(),
        AiEvent::RunStarted { .. } => "<started>".to_owned(),
        event if event.is_step() => "<step>".to_owned(),
        AiEvent::Checkpoint(_) | AiEvent::TasksEnded { .. } => String::new(),
        AiEvent::Done { .. } => "<done>".to_owned(),
        AiEvent::StoreUnavailable { .. } | AiEvent::StoreAvailable => String::new(),
        other => format!("{other:?}"),
    });
    shown.collect()
}

/// Collects live events until their text ends with `end`; no time passes.
async fn collect_until(events: &mut BoxStream<'static, RunEvent>, end: &str) -> String {
    let mut all = Vec::new();
    while !shown(&all).ends_with(end) {
        let event = events.next().await;
        all.push(event.unwrap_or_else(|| panic!("{}", shown(&all))));
    }
    shown(&all)
}

/// Collects events until their text ends with `end`, while the clock advances, for a follower that
/// polls.
async fn heard(
    clock: &ManualClock,
    events: &mut BoxStream<'static, RunEvent>,
    end: &str,
) -> String {
    moving(clock, collect_until(events, end)).await
}

async fn watched(bench: &Bench, at: &RunRef, after: Position) -> BoxStream<'static, RunEvent> {
    let run = bench.runtime.follow_run(&Principal::local(), at).await;
    run.expect("there is such a run").after(after.into()).into_handle().events
}

async fn ends(clock: &ManualClock, store: &Arc<dyn Store>, handle: RunHandle) -> Vec<RunEvent> {
    let events: Vec<_> = moving(clock, handle.events.collect()).await;
    completed(handle.outcome.await);
    assert!(shown(&events).ends_with("<done>"));
    assert_eq!(pieces(store, &handle.run).await, [], "nothing is left after the run");
    events
}

#[tokio::test]
async fn text_is_saved_when_it_has_waited_for_a_quarter_of_a_second() {
    let store = store();
    let clock = ManualClock::new();
    let (graph, [a]) = graph(["a"]);
    let bench = process(&store, &clock, graph).await;
    let mut handle = started(&bench).await;
    a.send(Line::Think("hm")).expect("listens");
    say(&a, "hel");
    let shown = collect_until(&mut handle.events, "hel").await;
    assert_eq!(shown, "<started>(hm)hel", "who watches hears it at once");
    say(&a, "lo");
    collect_until(&mut handle.events, "lo").await;
    clock.advance(Duration::from_millis(249));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pieces(&store, &handle.run).await, []);
    clock.advance(Duration::from_millis(1));
    let found = saved(&store, &handle.run, 7).await;
    assert_eq!(texts(&found), [("hm", 3, 2), ("hello", 3, 7)], "deltas are joined");
    assert_eq!((&found[0].kind, found[0].at.node.as_str()), (&PieceKind::Reasoning, "a"));
    a.send(Line::End).expect("listens");
    ends(&clock, &store, handle).await;
}

#[tokio::test]
async fn much_text_is_saved_at_once_and_other_commits_take_text_along() {
    let store = store();
    let clock = ManualClock::new();
    let (graph, [a]) = graph(["a"]);
    let handle = started(&process(&store, &clock, graph).await).await;
    say(&a, "x".repeat(4_095));
    say(&a, "y");
    let found = saved(&store, &handle.run, 1).await;
    assert_eq!(texts(&found), [(format!("{}y", "x".repeat(4_095)).as_str(), 3, 4_096)]);
    say(&a, "before");
    a.send(Line::Tell(1)).expect("listens");
    say(&a, "behind");
    let found = saved(&store, &handle.run, 4_102).await;
    assert_eq!(texts(&found[1..2]), [("before", 3, 4_102)]);
    assert_eq!(clock.elapsed(), Duration::ZERO);
    clock.advance(Duration::from_millis(250));
    let found = saved(&store, &handle.run, 4_108).await;
    assert_eq!(texts(&found[2..]), [("behind", 4, 6)]);
    a.send(Line::End).expect("listens");
    ends(&clock, &store, handle).await;
}

#[tokio::test]
async fn whoever_follows_from_another_process_sees_the_text_grow() {
    let store = store();
    let clock = ManualClock::new();
    let (here, [a]) = graph(["a"]);
    let one = process(&store, &clock, here).await;
    let two = process(&store, &clock, graph(["a"]).0).await;
    let handle = started(&one).await;
    let mut events = watched(&two, &handle.run, Position::START).await;
    let mut beside = watched(&one, &handle.run, Position::START).await;
    let run = handle.run.clone();
    say(&a, "Once ");
    assert_eq!(collect_until(&mut beside, "Once ").await, "<started>Once ");
    assert_eq!(heard(&clock, &mut events, "Once ").await, "<started>Once ");
    say(&a, "upon ");
    say(&a, "a");
    assert_eq!(heard(&clock, &mut events, "a").await, "upon a");
    a.send(Line::Tell(7)).expect("listens");
    assert_eq!(heard(&clock, &mut events, "<7>").await, "<7>");
    say(&a, " time");
    a.send(Line::End).expect("listens");
    let live = ends(&clock, &store, handle).await;
    check_stream(&live);
    let rest: Vec<_> = moving(&clock, events.collect()).await;
    let end = "<step><final Once upon a time><done>";
    let rest = shown(&rest);
    assert!(rest == end || rest == format!(" time{end}"), "{rest}");
    let rest: Vec<_> = moving(&clock, beside.collect()).await;
    assert_eq!(shown(&rest), format!("upon a<7> time{end}"), "every word");
    assert_eq!(shown(&live), format!("<started>Once upon a<7> time{end}"));
    let late: Vec<_> = watched(&two, &run, Position::START).await.collect().await;
    assert_eq!(shown(&late), format!("<started><7>{end}"), "only the message is left of it");
}

#[tokio::test]
async fn whoever_comes_back_gets_exactly_the_rest() {
    let store = store();
    let clock = ManualClock::new();
    let (here, [a]) = graph(["a"]);
    let one = process(&store, &clock, here).await;
    let two = process(&store, &clock, graph(["a"]).0).await;
    let handle = started(&one).await;
    for word in ["One ", "two ", "thrée "] {
        say(&a, word);
    }
    a.send(Line::Tell(1)).expect("listens");
    a.send(Line::Think("hm")).expect("listens");
    say(&a, "four ");
    a.send(Line::Tell(2)).expect("listens");
    say(&a, "five ");
    say(&a, "six.");
    let RunHandle { run, mut events, outcome } = handle;
    let mut live = Vec::new();
    while !shown(&live).ends_with("six.") {
        live.push(events.next().await.expect("goes on"));
    }
    clock.advance(Duration::from_millis(250));
    saved(&store, &run, 15 + 7 + 9).await;
    for seen in 0..live.len() {
        let after = live[..seen]
            .last()
            .map_or(Position::START, |event| event.position().expect("all have a place"));
        for bench in [&one, &two] {
            let mut rest = watched(bench, &run, after).await;
            let heard = heard(&clock, &mut rest, "six.").await;
            assert_eq!(heard, shown(&live[seen..]), "after {after:?}");
        }
    }
    // One who was here has heard more than the store has.
    say(&a, " More");
    live.push(events.next().await.expect("goes on"));
    let after = live.last().and_then(RunEvent::position).expect("all have a place");
    let mut rest = [watched(&one, &run, after).await, watched(&two, &run, after).await];
    say(&a, " and more");
    for rest in &mut rest {
        assert_eq!(heard(&clock, rest, "more").await, " and more");
    }
    a.send(Line::End).expect("listens");
    let rest: Vec<_> = moving(&clock, events.collect()).await;
    assert!(
        shown(&rest)
            .ends_with("and more<step><final One two thrée four five six. More and more><done>")
    );
    completed(outcome.await);
}

#[test]
fn text_of_a_dead_worker_is_void_before_there_is_new_text() {
    let store = store();
    let clock = ManualClock::new();
    let dies = tokio_runtime();
    let goes_on = tokio_runtime();
    let (here, [a]) = graph(["a"]);
    let (there, [again]) = graph(["a"]);
    let run = dies.block_on(async {
        let mut handle = started(&process(&store, &clock, here).await).await;
        say(&a, "half a sen");
        collect_until(&mut handle.events, "sen").await;
        clock.advance(Duration::from_millis(250));
        saved(&store, &handle.run, 10).await;
        say(&a, "ten");
        handle.run
    });
    goes_on.block_on(async {
        let two = process(&store, &clock, there).await;
        let mut events = watched(&two, &run, Position::START).await;
        assert_eq!(heard(&clock, &mut events, "sen").await, "<started>half a sen");
        // Nothing of it runs any more, and it puts nothing back.
        dies.shutdown_background();
        let recovered = async || two.runtime.recover().await.expect("reads").pop();
        let handle = moving(&clock, until(recovered)).await;
        let taken = heard(&clock, &mut events, "<reset a>").await;
        assert_eq!(taken, "<taken over><reset a>");
        assert_eq!(pieces(&store, &run).await, []);
        say(&again, "a whole one");
        assert_eq!(heard(&clock, &mut events, "one").await, "a whole one");
        again.send(Line::End).expect("listens");
        assert!(matches!(moving(&clock, handle.outcome).await, RunOutcome::Completed { .. }));
        let rest: Vec<_> = moving(&clock, events.collect()).await;
        assert_eq!(shown(&rest), "<step><final a whole one><done>", "it had started before");
        assert_eq!(pieces(&store, &run).await, []);
    });
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[tokio::test]
async fn several_who_speak_at_the_same_time_are_told_apart() {
    let store = store();
    let clock = ManualClock::new();
    let (graph, [a, b]) = graph(["a", "b"]);
    let mut handle = started(&process(&store, &clock, graph).await).await;
    for (who, word) in [(&a, "a1 "), (&b, "b1 "), (&a, "a2 "), (&b, "b2 ")] {
        say(who, word);
        collect_until(&mut handle.events, word).await;
    }
    clock.advance(Duration::from_millis(250));
    let found = saved(&store, &handle.run, 12).await;
    let nodes: Vec<_> = found.iter().map(|p| (p.at.node.as_str(), p.text.as_str())).collect();
    assert_eq!(nodes, [("a", "a1 "), ("b", "b1 "), ("a", "a2 "), ("b", "b2 ")]);
    assert_eq!(found[0].at.task, found[2].at.task);
    assert_ne!(found[0].at.task, found[1].at.task);
    b.send(Line::Fail).expect("listens");
    assert_eq!(collect_until(&mut handle.events, "b>").await, "<reset b>");
    assert_eq!(pieces(&store, &handle.run).await.len(), 4, "that of `a` stands before it");
    a.send(Line::Break).expect("listens");
    collect_until(&mut handle.events, "<reset a>").await;
    assert_eq!(pieces(&store, &handle.run).await, []);
    for who in [&a, &b] {
        say(who, "again");
        who.send(Line::End).expect("listens");
    }
    let rest: Vec<_> = moving(&clock, handle.events.collect()).await;
    let end = "<step><final again><final again><done>";
    assert_eq!(shown(&rest), format!("againagain{end}"));
    assert_eq!(pieces(&store, &handle.run).await, []);
}

#[tokio::test]
async fn a_full_store_holds_up_nobody_who_listens() {
    let inner = store();
    let clock = ManualClock::new();
    let faulty = Faulty::new(Arc::clone(&inner));
    let full = Arc::new(Cell::new(true));
    faulty.interfere({
        let full = Arc::clone(&full);
        move |_, _, commit| {
            let text = commit.is_some_and(|commit| !commit.pieces.is_empty());
            if text && *full.lock().expect("not poisoned") {
                return Err(StoreError::Full {
                    location: "it".to_owned(),
                    reason: "full".to_owned(),
                });
            }
            Ok(Duration::ZERO)
        }
    });
    let store: Arc<dyn Store> = faulty;
    let (graph, [a]) = graph(["a"]);
    let mut handle = started(&process(&store, &clock, graph).await).await;
    for n in 0..100 {
        say(&a, format!("{n} "));
        collect_until(&mut handle.events, &format!("{n} ")).await;
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(pieces(&inner, &handle.run).await, []);
    *full.lock().expect("not poisoned") = false;
    let all = moving(&clock, saved(&inner, &handle.run, 290)).await;
    let all: String = all.into_iter().map(|piece| piece.text).collect();
    assert!(all.starts_with("0 1 2 ") && all.ends_with("98 99 "), "{all}");
    a.send(Line::End).expect("listens");
    let rest: Vec<_> = moving(&clock, handle.events.collect()).await;
    assert!(shown(&rest).ends_with("<done>"));
    assert_eq!(pieces(&inner, &handle.run).await, []);
}

#[tokio::test]
async fn text_of_a_run_that_is_stopped_stays_in_its_log_without_what_is_final_or_void() {
    let store = store();
    let clock = ManualClock::new();
    let (graph, [a, b, c]) = graph(["a", "b", "c"]);
    let bench = process(&store, &clock, graph).await;
    let mut handle = started(&bench).await;
    say(&a, "one ");
    collect_until(&mut handle.events, "one ").await;
    clock.advance(Duration::from_millis(250));
    saved(&store, &handle.run, 4).await;
    say(&b, "void");
    collect_until(&mut handle.events, "void").await;
    b.send(Line::Break).expect("listens");
    say(&c, "other");
    say(&a, "two");
    c.send(Line::Tell(1)).expect("listens");
    collect_until(&mut handle.events, "<1>").await;
    bench.runtime.cancel(&Principal::local(), &handle.run).await.expect("runs");
    let rest: Vec<_> = moving(&clock, handle.events.collect()).await;
    assert!(shown(&rest).ends_with("<done>"));
    assert_eq!(pieces(&store, &handle.run).await, []);
    let log = store.events(&Principal::local(), &handle.run, 0, 99).await.expect("reads");
    let stopped = log.iter().filter_map(|logged| match &logged.event {
        AiEvent::TextStopped { at, text } => Some(format!("{}: {text}", at.node)),
        _ => None,
    });
    let mut stopped: Vec<_> = stopped.collect();
    stopped.sort();
    assert_eq!(stopped, ["a: one two", "c: other"]);
}

#[tokio::test]
async fn text_of_a_superstep_that_is_begun_again_is_void() {
    let inner = store();
    let clock = ManualClock::new();
    let faulty = Faulty::new(Arc::clone(&inner));
    let refuses = Arc::new(AtomicBool::new(false));
    faulty.interfere({
        let refuses = Arc::clone(&refuses);
        move |name, _, _| {
            if name == "read of a checkpoint" && refuses.swap(false, Ordering::SeqCst) {
                let location = "it".to_owned();
                let reason = "restarts".to_owned();
                return Err(StoreError::Unavailable { location, reason, retriable: true });
            }
            Ok(Duration::ZERO)
        }
    });
    let store: Arc<dyn Store> = faulty;
    let (script, [a]) = script(["a"]);
    let graph = Graph::<Talk>::new("talk").with(script).node("a", speaks).edge(START, "a");
    let graph = graph.build().expect("sound");
    let mut handle = started(&process(&store, &clock, graph).await).await;
    say(&a, "half");
    collect_until(&mut handle.events, "half").await;
    // What is open then cannot be read: the superstep is begun again.
    refuses.store(true, Ordering::SeqCst);
    a.send(Line::Fail).expect("listens");
    say(&a, "whole");
    a.send(Line::End).expect("listens");
    let rest = ends(&clock, &store, handle).await;
    assert_eq!(shown(&rest), "<reset a>whole<step><final whole><done>");
}

/// The time of the store goes by only while nothing can go on.
#[tokio::test(start_paused = true)]
async fn text_of_a_superstep_outlives_the_late_commit_of_the_one_before() {
    let inner = store();
    let clock = ManualClock::new();
    let faulty = Faulty::new(Arc::clone(&inner));
    faulty.interfere(|name, moment, _| {
        let late = name == "commit of a step" && moment == crate::faulty::Moment::Before;
        Ok(if late { Duration::from_secs(1) } else { Duration::ZERO })
    });
    let store: Arc<dyn Store> = faulty;
    let (script, [a, b]) = script(["a", "b"]);
    let graph = Graph::<Talk>::new("talk").with(script).node("a", speaks).node("b", speaks);
    let graph = graph.edge(START, "a").edge("a", "b").build().expect("sound");
    let bench = process(&store, &clock, graph).await;
    let mut request = Bench::request(RunInput::Start { input: json!({}) });
    request.options.durability = Durability::Async;
    let mut handle = bench.runtime.execute(request).await.expect("accepted");
    say(&a, "A");
    a.send(Line::End).expect("listens");
    say(&b, "B");
    let heard = collect_until(&mut handle.events, "B").await;
    assert_eq!(heard, "<started>A<step><final A>B", "in order, however late the commit");
    clock.advance(Duration::from_millis(250));
    let found = saved(&inner, &handle.run, 1).await;
    assert_eq!(texts(&found), [("B", 5, 1)]);
    b.send(Line::End).expect("listens");
    let rest: Vec<_> = handle.events.collect().await;
    assert_eq!(shown(&rest), "<step><final B><done>");
    assert_eq!(pieces(&inner, &handle.run).await, []);
}

#[tokio::test]
async fn a_run_without_text_costs_nothing_more() {
    let inner = store();
    let clock = ManualClock::new();
    let faulty = Faulty::new(inner);
    let commits: Arc<Cell<Vec<Commit>>> = Arc::default();
    faulty.interfere({
        let commits = Arc::clone(&commits);
        move |_, moment, commit| {
            if moment == crate::faulty::Moment::Before {
                commits.lock().expect("not poisoned").extend(commit.cloned());
            }
            Ok(Duration::ZERO)
        }
    });
    let store: Arc<dyn Store> = faulty;
    let mut graph = Graph::<Talk>::new("silent");
    let nodes: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
    let mut before = START;
    for node in &nodes {
        let message = |ctx: Ctx| async move {
            let message = Message::text(ctx.message_id(), Role::Assistant, "silent");
            TalkUpdate::new().messages([message])
        };
        graph = graph.node(node, message).edge(before, node);
        before = node;
    }
    let bench = process(&store, &clock, graph.build().expect("sound")).await;
    ends(&clock, &store, started(&bench).await).await;
    let commits = std::mem::take(&mut *commits.lock().expect("not poisoned"));
    assert_eq!(commits.len(), nodes.len() + 1, "the start, and one for each superstep");
    assert!(commits.iter().all(|commit| commit.void.is_none() && commit.pieces.is_empty()));
    assert_eq!(clock.sleeps(), [], "no timers");
}

on_each_store![
    a_full_store_holds_up_nobody_who_listens;
    each_step:
    text_is_saved_when_it_has_waited_for_a_quarter_of_a_second,
    much_text_is_saved_at_once_and_other_commits_take_text_along,
    whoever_follows_from_another_process_sees_the_text_grow,
    whoever_comes_back_gets_exactly_the_rest,
    text_of_a_dead_worker_is_void_before_there_is_new_text,
    several_who_speak_at_the_same_time_are_told_apart,
    text_of_a_superstep_outlives_the_late_commit_of_the_one_before,
    a_run_without_text_costs_nothing_more,
];
