//! The drawn graphs as graphs that run, and a probe that sees each task start and finish.

use super::logic::{self, Seen};
use super::spec::{Act, Fate, Kind, Spec};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weftwork_graph::channel::{Append, Ephemeral, LastValue, Reduce, Topic};
use weftwork_graph::{
    ChannelDef, Command, CompiledGraph, Ctx, DynUpdate, Dynamic, END, Graph, Input, Next,
    NodeError, NodeResult, Retry, START, Semantics, SendTo, State, Stops, SubgraphState,
};
use weftwork_testkit::World;
use weftwork_types::MessageId;
use weftwork_types::canonical::hash;
use weftwork_types::port::{Attempts, CallKey, CallKind, CallResult, Intent, Opened};
use weftwork_types::tool::Effect;

/// A task, by an id that it has again when it runs again.
pub(super) type Mark = MessageId;

/// Sees tasks start and finish.
#[derive(Debug, Default)]
pub(super) struct Probe(Mutex<Seeing>);

#[derive(Debug, Default)]
struct Seeing {
    /// Failures so far of nodes that fail first.
    failures: BTreeMap<(String, i64), u32>,
    /// Tasks that finished since somebody asked.
    fresh: Vec<Mark>,
    /// Tasks that must not run again.
    kept: BTreeSet<Mark>,
    /// Tasks that did.
    repeated: Vec<String>,
    /// Calls that must not be made again.
    kept_calls: BTreeSet<CallKey>,
    /// The repeated calls, by their nodes.
    made_again: Vec<String>,
}

impl Probe {
    fn lock(&self) -> MutexGuard<'_, Seeing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self, mark: &Mark, node: &str) {
        let mut seeing = self.lock();
        if seeing.kept.contains(mark) {
            seeing.repeated.push(node.to_owned());
        }
    }

    /// Forbids tasks that finished so far to run again.
    pub(super) fn keep_fresh(&self) {
        let mut seeing = self.lock();
        let fresh = std::mem::take(&mut seeing.fresh);
        seeing.kept.extend(fresh);
    }

    /// Allows tasks that finished since the last time to run again.
    pub(super) fn forget_fresh(&self) {
        self.lock().fresh.clear();
    }

    /// This task must not run again.
    pub(super) fn record(&self, mark: Mark) {
        self.lock().kept.insert(mark);
    }

    /// Tasks that ran though they were not to.
    pub(super) fn repeated(&self) -> Vec<String> {
        self.lock().repeated.clone()
    }

    /// This call must not be made again.
    pub(super) fn keep_call(&self, key: CallKey) {
        self.lock().kept_calls.insert(key);
    }

    /// Calls that were made though they were not to.
    pub(super) fn made_again(&self) -> Vec<String> {
        self.lock().made_again.clone()
    }

    /// Makes a call, unless it is on record.
    async fn call(&self, ctx: &Ctx, name: &str, effect: Effect) -> NodeResult<()> {
        let attempts = if effect == Effect::ReadOnly { Attempts::Each } else { Attempts::Shared };
        let kind = CallKind::Tool;
        let input = hash(&json!(name));
        let name = name.to_owned();
        let intent = Intent { kind, name, input, call_id: None, effect, attempts };
        if let Opened::New { key } = ctx.calls().journal.open(intent).await? {
            {
                let mut seeing = self.lock();
                if seeing.kept_calls.contains(&key) {
                    seeing.made_again.push(ctx.node().to_owned());
                }
            }
            ctx.calls().journal.settle(key, CallResult { value: json!("well") }).await?;
        }
        Ok(())
    }

    fn fails(&self, node: &str, step: i64, times: u32) -> bool {
        let mut seeing = self.lock();
        let failures = seeing.failures.entry((node.to_owned(), step)).or_default();
        *failures += 1;
        *failures <= times
    }
}

/// Environment of the nodes.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) probe: Arc<Probe>,
    /// `true` if checkpoints of this graph are stored.
    pub(super) keeps: bool,
}

/// The graph.
pub(super) fn graph(name: &str, spec: &Arc<Spec>, scene: &Scene) -> CompiledGraph {
    let channels = spec.channels.iter().map(|(name, kind)| channel(name, *kind)).collect();
    let mut graph = Graph::<Dynamic>::dynamic(name, channels);
    if spec.lenient {
        graph = graph.semantics(Semantics::langgraph());
    }
    for index in 0..spec.nodes.len() {
        graph = with_node(graph, spec, index, scene);
    }
    for to in &spec.entry {
        graph = graph.edge(START, &spec.nodes[*to].name);
    }
    if let Some(targets) = &spec.start_route {
        graph = with_route(graph, spec, None, targets.clone());
    }
    for (sources, to) in &spec.joins {
        graph = graph.join(names(spec, sources), &spec.nodes[*to].name);
    }
    if !spec.stops.is_empty() {
        graph = graph.interrupt_before(Stops::at(names(spec, &spec.stops)));
    }
    if name != "outer" {
        graph = graph.output(["log"]);
    }
    graph.build().expect("drawn graphs are sound")
}

fn channel(name: &'static str, kind: Kind) -> ChannelDef {
    match kind {
        Kind::Last => ChannelDef::new(name, LastValue::<Value>::new()),
        Kind::Append => ChannelDef::new(name, Append::<Value>::new()),
        Kind::Add => ChannelDef::new(name, Reduce::<i64>::new(|| 0, |sum, n| sum + n)),
        Kind::Topic => ChannelDef::new(name, Topic::<Value>::new()),
        Kind::One => ChannelDef::new(name, Ephemeral::<Value>::one()),
        Kind::Any => ChannelDef::new(name, Ephemeral::<Value>::any()),
    }
}

pub(super) fn names(spec: &Spec, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|node| spec.nodes[*node].name.clone()).collect()
}

fn with_node(
    graph: Graph<Dynamic>,
    spec: &Arc<Spec>,
    index: usize,
    scene: &Scene,
) -> Graph<Dynamic> {
    let node = &spec.nodes[index];
    let name = node.name.as_str();
    let mut graph = match &node.inner {
        Some((inner, keep)) => {
            let keeps = scene.keeps && *keep != SubgraphState::Stateless;
            let within = Scene { keeps, ..scene.clone() };
            let inner = self::graph(&format!("{name} within"), &Arc::new(*inner.clone()), &within);
            graph.subgraph(name, inner, *keep)
        }
        None => graph.node(name, handler(spec, index, scene, Role::Node)),
    };
    if let Some(reads) = &node.reads {
        graph = graph.reads(name, reads.iter().copied());
    }
    if node.deferred {
        graph = graph.defer(name);
    }
    if node.attempts > 1 {
        let retry = Retry::new(node.attempts).backoff(Duration::from_millis(1), 1.0);
        graph = graph.retry(name, retry.without_jitter());
    }
    if node.fate == Fate::Handled {
        graph = graph.on_error(name, handler(spec, index, scene, Role::ErrorHandler));
    }
    for to in &node.edges {
        graph = graph.edge(name, &spec.nodes[*to].name);
    }
    if let Some(targets) = &node.route {
        graph = with_route(graph, spec, Some(index), targets.clone());
    }
    let ends: Vec<usize> = node.goto.iter().chain(&node.sends).copied().collect();
    if ends.is_empty() { graph } else { graph.ends(name, names(spec, &ends)) }
}

fn with_route(
    graph: Graph<Dynamic>,
    spec: &Arc<Spec>,
    from: Option<usize>,
    targets: Vec<usize>,
) -> Graph<Dynamic> {
    let name = from.map_or(START, |from| spec.nodes[from].name.as_str());
    let named = names(spec, &targets).into_iter().chain([END.to_owned()]);
    let spec = Arc::clone(spec);
    graph.route_to(name, named.collect::<Vec<_>>(), move |state: State<Dynamic>| {
        let chosen = logic::routed(from, &targets, &state.object());
        if chosen.is_empty() {
            return vec![Next::End];
        }
        names(&spec, &chosen).into_iter().map(Next::node).collect()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Node,
    ErrorHandler,
}

type Ran =
    std::pin::Pin<Box<dyn Future<Output = NodeResult<Command<Dynamic>>> + std::marker::Send>>;

fn handler(
    spec: &Arc<Spec>,
    index: usize,
    scene: &Scene,
    role: Role,
) -> impl Fn(Input, State<Dynamic>, Ctx) -> Ran + std::marker::Send + Sync + 'static {
    let spec = Arc::clone(spec);
    let scene = scene.clone();
    move |Input(input), state, ctx| {
        let part = Part { spec: Arc::clone(&spec), index, scene: scene.clone(), role };
        Box::pin(part.run(input, state.object(), ctx))
    }
}

/// A task of a node.
struct Part {
    spec: Arc<Spec>,
    index: usize,
    scene: Scene,
    role: Role,
}

impl Part {
    async fn run(self, input: Value, view: Value, ctx: Ctx) -> NodeResult<Command<Dynamic>> {
        let mark = ctx.message_id();
        let node = &self.spec.nodes[self.index];
        // In the semantics of the reference error handlers run again.
        let once = !(self.spec.lenient && self.role == Role::ErrorHandler);
        if once {
            self.scene.probe.started(&mark, &node.name);
        }
        let mut answers = Vec::new();
        if self.role == Role::Node {
            self.act(&input, &ctx, &mut answers).await?;
        }
        let seen = Seen { view: &view, input: &input, answers: &answers };
        let left = logic::result(&self.spec, self.index, self.role == Role::ErrorHandler, &seen);
        if self.scene.keeps && once {
            self.scene.probe.lock().fresh.push(mark);
        }
        let mut update = DynUpdate::new();
        for (channel, value, replace) in left.writes {
            update = match replace {
                true => update.overwrite(channel, value),
                false => update.write(channel, value),
            };
        }
        let name = |node: usize| self.spec.nodes[node].name.clone();
        let mut command = Command::<Dynamic>::update(update);
        for to in left.goto {
            command = command.goto(name(to));
        }
        for (to, arg) in left.sends {
            command = command.send(SendTo::to(name(to), arg));
        }
        Ok(command)
    }

    async fn act(&self, input: &Value, ctx: &Ctx, answers: &mut Vec<Value>) -> NodeResult<()> {
        let node = &self.spec.nodes[self.index];
        self.scene.probe.call(ctx, "before", Effect::ReadOnly).await?;
        for act in &node.acts {
            match act {
                Act::Pause => self.scene.world.pause().await,
                Act::Sleep(ms) => ctx.clock().sleep(Duration::from_millis(*ms)).await,
                Act::Ask if node.fate == Fate::Handled => {}
                Act::Ask => {
                    let question = logic::question(node, answers.len(), input);
                    answers.push(ctx.interrupt(question)?);
                }
            }
        }
        let effect = [Effect::ReadOnly, Effect::StateChange][self.index % 2];
        self.scene.probe.call(ctx, "after", effect).await?;
        let failed = || Err(NodeError::message(format!("`{}` fails", node.name)).retriable());
        match node.fate {
            Fate::FailsFirst(times) if self.scene.probe.fails(&node.name, ctx.step(), times) => {
                failed()
            }
            Fate::Handled => failed(),
            _ => Ok(()),
        }
    }
}

/// Returns the content of a question as JSON.
pub(super) fn asked(interrupt: &weftwork_types::interrupt::Interrupt) -> Value {
    match &interrupt.ask {
        weftwork_types::interrupt::Ask::Value { value } => value.clone(),
        _ => json!(null),
    }
}
