//! Clients that leave at any output and come back: the texts that they have at the end are those of
//! the messages, byte for byte, also if the process of the run dies meanwhile.

use crate::support::{Bench, Durability, Place, moving, store, thread, within};
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use weftwork_graph::run_loop::Modes;
use weftwork_graph::{
    CompiledGraph, Ctx, Deps, Graph, List, NodeError, NodeResult, Retry, START, State,
};
use weftwork_runtime::{FollowFrom, Output, OutputStream, RunOutput, Selection};
use weftwork_store::Store;
use weftwork_testkit::ManualClock;
use weftwork_types::event::{AiEvent, AttemptReset, Position, StreamPosition, TextSource};
use weftwork_types::message::{Message, Role};
use weftwork_types::port::GraphExecutor;
use weftwork_types::run::{RunInput, RunRef};
use weftwork_types::{Principal, RunId};

const NODES: [&str; 3] = ["a", "b", "c"];

#[derive(State)]
struct Talk {
    #[channel(messages)]
    messages: List<Message>,
}

/// An instruction for a node.
#[derive(Debug, Clone)]
enum Act {
    Say(String),
    Think,
    /// Emits an event.
    Tell,
    /// An attempt of its model fails.
    Break,
    Fail,
    End,
}

type Lines = Arc<Mutex<mpsc::UnboundedReceiver<Act>>>;
type Prompters = BTreeMap<&'static str, mpsc::UnboundedSender<Act>>;

#[derive(Debug, Default)]
struct Script(BTreeMap<&'static str, Lines>);

async fn speaks(ctx: Ctx, script: Deps<Script>) -> NodeResult<TalkUpdate> {
    let mut lines = script.0.0[ctx.node()].lock().await;
    let id = ctx.message_id();
    let mut said = String::new();
    while let Some(line) = lines.recv().await {
        match line {
            Act::Say(text) => {
                ctx.token(&id, &text);
                said.push_str(&text);
            }
            Act::Think => {
                ctx.calls().emit.emit(AiEvent::ReasoningDelta { delta: "hm".to_owned() });
            }
            Act::Tell => ctx.emit(json!(1)),
            Act::Break => {
                said.clear();
                ctx.calls().emit.emit(AiEvent::AttemptReset(AttemptReset::of_node("a model")));
            }
            Act::Fail => return Err(NodeError::message("no luck").retriable()),
            Act::End => break,
        }
    }
    Ok(TalkUpdate::new().messages([Message::text(id, Role::Assistant, said)]))
}

fn graph() -> (CompiledGraph, Prompters) {
    let mut script = Script::default();
    let mut prompters = Prompters::new();
    for node in NODES {
        let (prompter, lines) = mpsc::unbounded_channel();
        script.0.insert(node, Arc::new(Mutex::new(lines)));
        prompters.insert(node, prompter);
    }
    let mut graph = Graph::<Talk>::new("talk").with(script);
    for node in NODES {
        let retry = Retry::new(20).backoff(Duration::from_millis(10), 1.0);
        graph = graph.node(node, speaks).retry(node, retry).edge(START, node);
    }
    (graph.build().expect("sound"), prompters)
}

/// A story: what nodes do, and after how many acts the first process dies.
#[derive(Debug, Clone)]
struct Story {
    acts: Vec<Told>,
    dies_after: usize,
    modes: Modes,
}

#[derive(Debug, Clone)]
struct Told {
    node: &'static str,
    act: Act,
}

fn story() -> impl Strategy<Value = Story> {
    let long = prop_oneof![9 => "[aü🦀]{1,4}", 1 => "ü{3000}"];
    let act = prop_oneof![
        8 => long.prop_map(Act::Say),
        1 => Just(Act::Think),
        1 => Just(Act::Tell),
        1 => Just(Act::Break),
        1 => Just(Act::Fail),
    ];
    let told = (prop::sample::select(&NODES[..]), act).prop_map(|(node, act)| Told { node, act });
    let modes = prop::sample::select(vec![Modes::NONE, Modes::MESSAGES]);
    (prop::collection::vec(told, 1..14), any::<prop::sample::Index>(), modes).prop_map(
        |(acts, dies, modes)| Story { dies_after: dies.index(acts.len() + 1), acts, modes },
    )
}

/// A client: the texts and events that it has.
#[derive(Debug, Clone, Default)]
struct Client {
    texts: BTreeMap<TextSource, String>,
    seqs: Vec<u64>,
    finals: usize,
    resets: usize,
}

impl Client {
    fn receive(&mut self, output: &Output) {
        match &output.output {
            RunOutput::Text(part) => {
                let text = self.texts.entry(part.source.clone()).or_default();
                assert_eq!(text.len(), part.start, "{part:?} after {text:?}");
                text.push_str(&part.text);
            }
            RunOutput::Reset(source) => {
                self.resets += 1;
                self.texts.remove(source);
            }
            RunOutput::Event(event) => {
                self.seqs.extend(event.seq);
                if let AiEvent::MessageFinal { message } = &event.event {
                    let text = self.texts.remove(&TextSource::Message(message.id.clone()));
                    assert_eq!(text.unwrap_or_default(), message.joined_text());
                    self.finals += 1;
                }
            }
            RunOutput::Frame(_) => {}
        }
    }

    fn receive_all(&mut self, outputs: &[Output]) {
        outputs.iter().for_each(|output| self.receive(output));
    }

    fn check_end(&self, last: u64) {
        assert_eq!(self.seqs, (1..=last).collect::<Vec<_>>(), "each event once, in order");
        assert_eq!(self.finals, NODES.len());
    }
}

struct Reader {
    client: Client,
    output: OutputStream,
}

impl Reader {
    /// Follows the run as a client that left after these outputs.
    async fn after(bench: &Bench, run: &RunRef, seen: &[Output], modes: Modes) -> Self {
        let mut client = Client::default();
        client.receive_all(seen);
        let from = seen.last().map_or(FollowFrom::Start, |last| {
            // As the id of an event, in a header.
            let position = last.position.to_string();
            position.parse::<StreamPosition>().expect("its own form").into()
        });
        let select = Selection { modes, ..Selection::default() };
        let output = bench.runtime.follow(&Principal::local(), run, from, select).await;
        Self { client, output: output.expect("follows") }
    }

    /// Receives what is there now.
    fn receive(&mut self) -> Vec<Output> {
        let mut received = Vec::new();
        while let Some(Some(output)) = self.output.next().now_or_never() {
            received.push(output.expect("reads"));
        }
        self.client.receive_all(&received);
        received
    }

    async fn receive_rest(&mut self, clock: &ManualClock) -> Vec<Output> {
        let mut received = Vec::new();
        while let Some(output) = moving(clock, self.output.next()).await {
            received.push(output.expect("reads"));
        }
        self.client.receive_all(&received);
        received
    }
}

async fn process(store: &Arc<dyn Store>, clock: &ManualClock, graph: CompiledGraph) -> Bench {
    Bench::with_clock(Arc::clone(store), graph, Arc::new(clock.clone())).await
}

/// Lets everybody go on for a while.
async fn settle(clock: &ManualClock) {
    for _ in 0..3 {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_millis(10));
    }
}

fn tell(prompters: &Prompters, Told { node, act }: &Told) {
    prompters[node].send(act.clone()).expect("somebody listens");
}

fn check(Story { acts, dies_after, modes }: Story) {
    let store = store();
    let clock = ManualClock::new();
    let tokio = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let dies = tokio().expect("a runtime");
    let stays = tokio().expect("a runtime");
    let (here, first) = graph();
    let (there, second) = graph();
    let begun = async {
        let one = process(&store, &clock, here).await;
        let request = Bench::request(RunInput::Start { input: json!({}) });
        let run = one.runtime.execute(request).await.expect("accepted").run;
        let mut reader = Reader::after(&one, &run, &[], modes).await;
        let mut whole = Vec::new();
        for told in &acts[..dies_after] {
            tell(&first, told);
            settle(&clock).await;
            whole.extend(reader.receive());
        }
        (run, whole)
    };
    let (run, mut whole) = dies.block_on(begun);
    stays.block_on(async {
        let two = process(&store, &clock, there).await;
        let mut readers = Vec::new();
        for cut in 0..whole.len() {
            readers.push(Reader::after(&two, &run, &whole[..cut], modes).await);
        }
        let mut first_reader = Reader::after(&two, &run, &whole, modes).await;
        dies.shutdown_background();
        let recovered = async {
            while two.runtime.recover().await.expect("reads").is_empty() {
                tokio::task::yield_now().await;
            }
        };
        moving(&clock, recovered).await;
        for told in &acts[dies_after..] {
            tell(&second, told);
            settle(&clock).await;
            whole.extend(first_reader.receive());
            readers.push(Reader::after(&two, &run, &whole, modes).await);
            readers.iter_mut().for_each(|reader| drop(reader.receive()));
        }
        for node in NODES {
            tell(&second, &Told { node, act: Act::End });
        }
        whole.extend(first_reader.receive_rest(&clock).await);
        let last = *first_reader.client.seqs.last().expect("events");
        first_reader.client.check_end(last);
        for cut in 0..=whole.len() {
            readers.push(Reader::after(&two, &run, &whole[..cut], modes).await);
        }
        for mut reader in readers {
            reader.receive_rest(&clock).await;
            reader.client.check_end(last);
        }
    });
}

fn check_stories(cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let stories = TestRunner::new(config).run(&story(), |story| {
        check(story);
        Ok(())
    });
    stories.expect("holds");
}

#[test]
fn the_first_part_and_the_resumed_part_are_the_whole() {
    check_stories(48);
}

#[test]
fn the_first_part_and_the_resumed_part_are_the_whole_on_sqlite() {
    within(Place::Sqlite(Durability::Normal), || check_stories(6));
}

/// More text than is stored: who comes back gets what is missing with the final message.
#[tokio::test]
async fn text_beyond_what_is_stored_comes_with_its_message() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompters) = graph();
    let one = process(&store, &clock, here).await;
    let two = process(&store, &clock, graph().0).await;
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let run = one.runtime.execute(request).await.expect("accepted").run;
    let mut live = Reader::after(&one, &run, &[], Modes::NONE).await;
    let mut whole = Vec::new();
    let mut readers = Vec::new();
    for part in 0..40 {
        for node in ["a", "b"] {
            let act = Act::Say(format!("{part} ").repeat(12_000));
            tell(&prompters, &Told { node, act });
            settle(&clock).await;
            whole.extend(live.receive());
        }
        if part % 4 == 0 {
            for bench in [&one, &two] {
                readers.push(Reader::after(bench, &run, &whole, Modes::NONE).await);
                readers.push(Reader::after(bench, &run, &[], Modes::NONE).await);
            }
        }
        readers.iter_mut().step_by(2).for_each(|reader| drop(reader.receive()));
    }
    for node in NODES {
        tell(&prompters, &Told { node, act: Act::End });
    }
    live.receive_rest(&clock).await;
    let last = *live.client.seqs.last().expect("events");
    for mut reader in readers {
        reader.receive_rest(&clock).await;
        reader.client.check_end(last);
        assert_eq!(reader.client.resets, 0, "nothing with a gap was taken back");
    }
}

#[tokio::test]
async fn positions_are_of_the_run_that_is_followed() {
    let store = store();
    let clock = ManualClock::new();
    let (here, prompters) = graph();
    let bench = process(&store, &clock, here).await;
    let request = Bench::request(RunInput::Start { input: json!({}) });
    let handle = bench.runtime.execute(request).await.expect("accepted");
    let follow = async |from: FollowFrom| {
        let select = Selection::default();
        bench.runtime.follow(&Principal::local(), &handle.run, from, select).await
    };
    let mut live = follow(FollowFrom::Now).await.expect("follows");
    for node in NODES {
        tell(&prompters, &Told { node, act: Act::Say("hm".to_owned()) });
        tell(&prompters, &Told { node, act: Act::End });
    }
    let mut client = Client::default();
    while let Some(output) = moving(&clock, live.next()).await {
        client.receive(&output.expect("reads"));
    }
    client.check_end(*client.seqs.last().expect("events"));
    let after = follow(FollowFrom::Now).await.expect("follows");
    assert_eq!(moving(&clock, after.collect::<Vec<_>>()).await, [], "it has ended");
    let other = RunId::new("other").expect("an id");
    let refused = follow(FollowFrom::in_run(other, Position::START)).await.err();
    assert_eq!(refused.expect("is refused").code().0, "W0201");
    // Of a thread, a position names its run.
    let at = Position::after(3);
    let of_thread =
        bench.runtime.follow(&Principal::local(), &thread(), at, Selection::default()).await;
    assert_eq!(of_thread.err().expect("is refused").code().0, "W0201");
}
