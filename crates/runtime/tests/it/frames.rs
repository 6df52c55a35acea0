//! Frames of runs: computed once however many followers there are.

use crate::faulty::{Faulty, Moment};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, Modes, RuntimeError, START, State, StreamEvent,
    SubgraphState,
};
use weftwork_runtime::{Frame, Runtime, Selection};
use weftwork_sqlite::SqliteStore;
use weftwork_store::Store;
use weftwork_store::memory::MemoryStore;
use weftwork_types::event::Position;
use weftwork_types::message::{Message, Role};
use weftwork_types::port::RunHandle;
use weftwork_types::run::RunOutcome;
use weftwork_types::{BoxStream, Principal};

#[derive(State)]
struct Talk {
    #[channel(append)]
    log: List<String>,
    #[channel(messages)]
    messages: List<Message>,
}

/// Text that each node adds to the state, and the permit to begin.
#[derive(Debug)]
struct Size {
    bytes: usize,
    begins: Semaphore,
}

async fn says(ctx: Ctx, size: Deps<Arc<Size>>) -> TalkUpdate {
    let permit = size.begins.acquire().await.expect("open");
    drop(permit);
    let id = ctx.message_id();
    ctx.token(&id, "it is ");
    ctx.emit(json!(ctx.node()));
    ctx.token(&id, "said");
    let message = Message::text(id, Role::Assistant, "it is said");
    TalkUpdate::new().log(["x".repeat(size.bytes)]).messages([message])
}

fn talk(name: &'static str, size: &Arc<Size>) -> Graph<Talk> {
    Graph::<Talk>::new(name).with(Arc::clone(size))
}

/// Nodes one after the other, and a subgraph among them.
fn graph(size: &Arc<Size>) -> CompiledGraph {
    let within = talk("within", size).node("x", says).node("y", says);
    let within = within.edge(START, "x").edge("x", "y").build().expect("sound");
    let graph = talk("talk", size).node("a", says).node("b", says).node("c", says);
    let graph = graph.subgraph("within", within, SubgraphState::PerTask);
    let graph = graph.edge(START, "a").edge("a", "b").edge("b", "within").edge("within", "c");
    graph.build().expect("sound")
}

fn modes() -> Vec<Modes> {
    let names = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"];
    names.iter().map(|name| Modes::parse(name).expect("a mode")).collect()
}

fn all() -> Modes {
    modes().into_iter().fold(Modes::NONE, |all, mode| all | mode)
}

type Frames = BoxStream<'static, Result<Arc<Frame>, RuntimeError>>;

/// A process with a run that waits for its followers, over a store that counts loads.
struct World {
    runtime: Runtime,
    run: RunHandle,
    size: Arc<Size>,
    loads: Arc<AtomicUsize>,
}

impl World {
    async fn new(store: Arc<dyn Store>, bytes: usize) -> Self {
        let store = Faulty::new(store);
        let loads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&loads);
        store.interfere(move |point, moment, _| {
            if point == "read of a checkpoint" && moment == Moment::Before {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Duration::ZERO)
        });
        let size = Arc::new(Size { bytes, begins: Semaphore::new(0) });
        let runtime = Runtime::builder(store).graph("talk", graph(&size)).open().await;
        let runtime = runtime.expect("opens");
        let thread = runtime.thread("talk", "t").expect("an id");
        let run = thread.start(json!({})).begin().await.expect("accepted").into_handle();
        Self { runtime, run, size, loads }
    }

    async fn frames(&self, modes: Modes, after: Position) -> Frames {
        let select = Selection::frames(modes).with_subgraphs();
        let output = self.runtime.follow(&Principal::local(), &self.run.run, after, select).await;
        let output = output.expect("is there");
        output.try_filter_map(async |output| Ok(output.into_frame())).boxed()
    }

    fn loads(&self) -> usize {
        self.loads.load(Ordering::Relaxed)
    }

    fn begins(&self) {
        self.size.begins.add_permits(1);
    }
}

async fn rest(frames: Frames) -> Vec<Arc<Frame>> {
    frames.try_collect().await.expect("reads")
}

/// Executes a run with a follower for each of these sets of modes, which attach before its nodes
/// begin. Returns the frames of each, and the number of loads.
async fn followed(store: Arc<dyn Store>, modes: &[Modes]) -> (Vec<Vec<Arc<Frame>>>, usize) {
    let world = World::new(store, 20).await;
    let mut streams = Vec::new();
    for modes in modes {
        streams.push(world.frames(*modes, Position::START).await);
    }
    // None of them reads before all are there.
    let followers: Vec<_> = streams.into_iter().map(|frames| tokio::spawn(rest(frames))).collect();
    world.begins();
    let mut received = Vec::new();
    for follower in followers {
        received.push(follower.await.expect("ends"));
    }
    let loads = world.loads();
    let outcome = world.run.outcome.await;
    assert!(matches!(outcome, RunOutcome::Completed { .. }), "{outcome:?}");
    (received, loads)
}

fn count(frames: &[Arc<Frame>], is: fn(&StreamEvent) -> bool) -> usize {
    frames.iter().filter_map(|frame| frame.item()).filter(|item| is(&item.event)).count()
}

/// As many loads for many followers as for one, which all receive the same frames.
async fn is_computed_once(store: impl Fn() -> Arc<dyn Store>) {
    let (alone, loads) = followed(store(), &[all()]).await;
    let alone = alone.into_iter().next().expect("one");
    let nested = alone.iter().filter(|frame| frame.item().is_some_and(|item| !item.ns.is_empty()));
    assert!(nested.count() > 0 && loads > 0);
    assert!(count(&alone, |event| matches!(event, StreamEvent::Message { .. })) >= 5);
    let (many, shared) = followed(store(), &[all(); 50]).await;
    assert_eq!(shared, loads, "50 followers cause no more loads than one");
    for frames in &many {
        assert_eq!(frames.len(), alone.len());
        assert_eq!(frames, &many[0]);
    }
    let (each, shared) = followed(store(), &modes()).await;
    assert_eq!(shared, loads, "one follower for each mode causes no more loads than one for all");
    assert_eq!(each.iter().map(Vec::len).sum::<usize>(), alone.len());
}

#[tokio::test]
async fn frames_are_computed_once_in_memory() {
    is_computed_once(|| Arc::new(MemoryStore::new())).await;
}

#[tokio::test]
async fn frames_are_computed_once_over_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let number = AtomicUsize::new(0);
    is_computed_once(|| {
        let file = folder.path().join(format!("{}.db", number.fetch_add(1, Ordering::Relaxed)));
        Arc::new(SqliteStore::open(&file, &Default::default()).expect("opens"))
    })
    .await;
}

/// A follower that reads nothing until the run has ended, one that comes later, and those that
/// reconnect, cause the loads that one follower needs, each at most; all receive the same frames.
#[tokio::test]
async fn followers_that_lag_or_come_later_load_by_themselves() {
    // More than the retained frames of a run.
    let world = World::new(Arc::new(MemoryStore::new()), 32 << 10).await;
    let live = tokio::spawn(rest(world.frames(all(), Position::START).await));
    let slow = world.frames(all(), Position::START).await;
    world.begins();
    let live = live.await.expect("ends");
    let loads = world.loads();
    let slow = rest(slow).await;
    assert_eq!(whole(&slow), whole(&live));
    let lagged = world.loads() - loads;
    assert!(lagged > 0 && lagged <= loads, "{lagged} and {loads}");
    let later = rest(world.frames(all(), Position::START).await).await;
    assert_eq!(whole(&later), whole(&live));
    assert!(world.loads() - loads - lagged <= loads);
    for frame in &live {
        let mut rest = rest(world.frames(all(), frame.position).await).await;
        rest.retain(|frame| !is_partial(frame));
        let expected = live.iter().filter(|other| other.position > frame.position);
        let expected: Vec<_> = expected.filter(|other| !is_partial(other)).cloned().collect();
        assert_eq!(rest, expected, "after {}", frame.position);
    }
}

/// A follower of messages that reconnects while another one follows does not load the checkpoints
/// before its position again.
#[tokio::test]
async fn a_follower_that_reconnects_knows_the_messages_of_others() {
    let world = World::new(Arc::new(MemoryStore::new()), 20).await;
    let mut others = world.frames(all(), Position::START).await;
    world.begins();
    let mut last = None;
    while let Some(frame) = others.next().await {
        last = Some(frame.expect("reads"));
        if world.loads() > 8 && last.as_ref().is_some_and(|frame| !is_partial(frame)) {
            break;
        }
    }
    let at = last.expect("some").position;
    let before = world.loads();
    let again = world.frames(all(), at).await;
    let one = rest(others).await;
    let loads = world.loads();
    let two = rest(again).await;
    assert_eq!(whole(&two), whole(&one));
    let made = world.loads() - loads;
    // At most the checkpoints of the event at its position, and those from which its loops began.
    assert!(!two.is_empty() && before > 8 && made <= 4, "{made} after {before}");
}

fn is_partial(frame: &Frame) -> bool {
    use weftwork_graph::MessagePart::{Chunk, Reset};
    frame.item().is_some_and(|item| {
        matches!(&item.event, StreamEvent::Message { part: Chunk { .. } | Reset { .. }, .. })
    })
}

/// Frames without partial text, which is not repeated once its message is final.
fn whole(frames: &[Arc<Frame>]) -> Vec<&Arc<Frame>> {
    frames.iter().filter(|frame| !is_partial(frame)).collect()
}
