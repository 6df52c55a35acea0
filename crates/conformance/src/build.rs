//! Graphs of a spec, put together with the public builder.

use crate::class;
use crate::expr::Vars;
use crate::message;
use crate::node::{Code, Goto, Out, Shared, Turns, goto_of, raise};
use crate::python::{self, Raised};
use crate::reducer;
use crate::spec::{
    Body, BranchMap, BranchSpec, CacheSpec, FlowSpec, GraphSpec, NodeSpec, Persist, Policies,
    Reducer, RetrySpec, Source, StopsSpec, TimeoutSpec,
};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use weftwork_graph::{
    BuildError, Cache, CompiledGraph, Ctx, Dynamic, END, Flow, Graph, Input, Next, Retry, START,
    Semantics, SendTo, State, Stops, SubgraphState, TaskDef, Timeout,
};

/// The first wait before another attempt.
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// Puts the graphs of one spec together.
#[derive(Debug)]
pub(crate) struct Maker {
    world: Arc<Shared>,
    semantics: Semantics,
}

type Building = Graph<Dynamic>;

impl Maker {
    pub(crate) fn new(world: Arc<Shared>, semantics: Semantics) -> Self {
        Self { world, semantics }
    }

    /// Builds the graph of a spec, or returns the exception that building it raises.
    pub(crate) fn make(&self, body: &Body) -> Result<CompiledGraph, Raised> {
        match body {
            Body::Graph(graph) => self.graph(graph, SubgraphCaller::Nothing),
            Body::Flow(flow) => self.flow(flow),
        }
    }

    fn flow(&self, spec: &FlowSpec) -> Result<CompiledGraph, Raised> {
        let mut tasks = BTreeMap::new();
        for (name, node) in &spec.tasks {
            let code = self.code(name, node, Turns::default())?;
            let mut task = TaskDef::new(name.as_str(), move |Input(input): Input, ctx: Ctx| {
                let code = Arc::clone(&code);
                async move { code.run(input, ctx).await.map(Out::into_finish) }
            });
            if let Some(policy) = &node.policies.retry {
                task = task.retry(retry(policy));
            }
            if let Some(policy) = node.policies.cache {
                task = task.with_cache(cache(policy));
            }
            tasks.insert(name.clone(), task);
        }
        self.world.tasks.get_or_init(|| tasks);
        let code = self.code("main", &spec.entry, Turns::default())?;
        let flow = Flow::new("main", move |Input(input): Input, ctx: Ctx| {
            let code = Arc::clone(&code);
            async move { code.run(input, ctx).await.map(Out::into_finish) }
        });
        flow.semantics(self.semantics).build().map_err(refused)
    }

    fn graph(&self, spec: &GraphSpec, caller: SubgraphCaller) -> Result<CompiledGraph, Raised> {
        let keys = Keys::of(spec);
        let channels = keys.all.iter().map(|(key, reducer)| reducer::channel(key, *reducer));
        let mut graph = Graph::dynamic("spec", channels.collect()).semantics(self.semantics);
        let reducers: Arc<BTreeMap<_, _>> = Arc::new(keys.all.iter().cloned().collect());
        for (name, node) in &spec.nodes {
            let turns = Turns {
                branches: spec.branches.iter().filter(|branch| branch.from == *name).count(),
                limited: node.policies.timeout.is_some(),
            };
            graph = self.node(graph, name, turns, node, &reducers)?;
        }
        graph = keys.narrow(graph, spec);
        graph = edges(graph, spec);
        graph = branches(graph, &spec.branches)?;
        if caller == SubgraphCaller::Nothing {
            graph = stops(graph, spec);
        }
        graph.build().map_err(refused)
    }

    fn node(
        &self,
        graph: Building,
        name: &str,
        turns: Turns,
        spec: &NodeSpec,
        reducers: &Arc<BTreeMap<String, Reducer>>,
    ) -> Result<Building, Raised> {
        let mut graph = match &spec.sub {
            Some(sub) => graph.subgraph(
                name,
                self.graph(sub, SubgraphCaller::Nothing)?,
                subgraph_state(spec.persist),
            ),
            None => {
                let code = self.code(name, spec, turns)?;
                let reducers = Arc::clone(reducers);
                graph.node(name, move |Input(input): Input, ctx: Ctx| {
                    let code = Arc::clone(&code);
                    let reducers = Arc::clone(&reducers);
                    async move { code.run(input, ctx).await?.into_command(&reducers) }
                })
            }
        };
        if spec.defer {
            graph = graph.defer(name);
        }
        graph = policies(graph, name, &spec.policies);
        if let Some(ops) = &spec.on_error {
            let handler = NodeSpec { ops: ops.clone(), ..NodeSpec::default() };
            let code = self.code(&format!("{name}!"), &handler, Turns::default())?;
            let reducers = Arc::clone(reducers);
            graph = graph.on_error(name, move |Input(input): Input, ctx: Ctx| {
                let code = Arc::clone(&code);
                let reducers = Arc::clone(&reducers);
                async move { code.run(input, ctx).await?.into_command(&reducers) }
            });
        }
        if let Some(ends) = &spec.ends {
            graph = graph.ends(name, ends.iter().map(String::as_str));
        }
        Ok(graph)
    }

    fn code(&self, name: &str, spec: &NodeSpec, turns: Turns) -> Result<Arc<Code>, Raised> {
        let sub = match &spec.call_sub {
            Some(sub) => {
                Some((self.graph(sub, SubgraphCaller::Code)?, subgraph_state(spec.persist)))
            }
            None => None,
        };
        Ok(Arc::new(Code {
            name: name.to_owned(),
            ops: spec.ops.clone(),
            sub,
            turns,
            world: Arc::clone(&self.world),
        }))
    }
}

/// The surroundings of a graph. A graph that code calls has no stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubgraphCaller {
    Nothing,
    Code,
}

/// The keys of a graph: those of the state, then those that only a narrower schema names.
struct Keys {
    all: Vec<(String, Reducer)>,
    state: usize,
}

impl Keys {
    fn of(spec: &GraphSpec) -> Self {
        let mut keys = Self { all: spec.state.clone(), state: spec.state.len() };
        for names in [&spec.input, &spec.output] {
            names.iter().flatten().for_each(|name| keys.add(name));
        }
        let read = spec.nodes.iter().filter_map(|(_, node)| node.reads.as_ref()).flatten();
        read.for_each(|name| keys.add(name));
        keys
    }

    fn is_managed(&self, name: &str) -> bool {
        self.all.iter().any(|(key, reducer)| key == name && reducer.is_managed())
    }

    fn add(&mut self, name: &str) {
        if !self.all.iter().any(|(key, _)| key == name) {
            self.all.push((name.to_owned(), Reducer::Last));
        }
    }

    /// Sets the visible keys. Keys outside the state are visible only where they are named.
    fn narrow(&self, graph: Building, spec: &GraphSpec) -> Building {
        let private = self.all.len() > self.state;
        let state: Vec<&str> = self.all.iter().take(self.state).map(|(k, _)| k.as_str()).collect();
        let unmanaged: Vec<&str> =
            state.iter().copied().filter(|key| !self.is_managed(key)).collect();
        let mut graph = graph;
        for (name, node) in &spec.nodes {
            graph = match &node.reads {
                Some(keys) => graph.reads(name, unique(keys)),
                None if private => graph.reads(name, state.clone()),
                None => graph,
            };
        }
        graph = match &spec.input {
            Some(keys) => graph.input(unique(keys)),
            None if private => graph.input(unmanaged.clone()),
            None => graph,
        };
        match &spec.output {
            Some(keys) => graph.output(unique(keys)),
            None if private => graph.output(unmanaged),
            None => graph,
        }
    }
}

fn unique(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(name.as_str())).cloned().collect()
}

fn edges(mut graph: Building, spec: &GraphSpec) -> Building {
    for (from, to) in &spec.edges {
        graph = match from {
            Source::Node(from) => graph.edge(from, to),
            Source::All(names) => graph.join(names.iter().map(String::as_str), to),
        };
    }
    graph
}

fn branches(mut graph: Building, branches: &[BranchSpec]) -> Result<Building, Raised> {
    let mut names = BTreeSet::new();
    for branch in branches {
        if !names.insert((&branch.from, &branch.name)) {
            let name = &branch.name;
            let from = &branch.from;
            let message = format!("Branch with name `{name}` already exists for node `{from}`");
            return Err(Raised::new("ValueError", message));
        }
        let targets: Vec<String> = match &branch.map {
            BranchMap::Anywhere => Vec::new(),
            BranchMap::Nodes(nodes) => nodes.clone(),
            BranchMap::Labels(labels) => labels.iter().map(|(_, to)| to.clone()).collect(),
        };
        let branch = branch.clone();
        graph = graph.route_to(branch.from.clone(), targets, move |state: State<Dynamic>| {
            route(&branch, &message::spec(state.object())).map_err(raise)
        });
    }
    Ok(graph)
}

/// Returns the targets of a branch.
fn route(branch: &BranchSpec, state: &Json) -> Result<Vec<Next>, Raised> {
    let result = branch.to.eval(state, &Vars::new())?;
    let results = match result {
        Json::Array(items) => items,
        one => vec![one],
    };
    let mut goto = Vec::with_capacity(results.len());
    for result in &results {
        goto.extend(target(&branch.map, result)?);
    }
    goto.into_iter().map(next).collect()
}

/// The target that one result of a branch stands for. What is no name leads nowhere.
fn target(map: &BranchMap, result: &Json) -> Result<Option<Goto>, Raised> {
    if crate::expr::as_send(result).is_some() {
        return Ok(goto_of(result).pop());
    }
    let missing = |key: &Json| Raised::new("KeyError", key_text(key));
    let to = match map {
        BranchMap::Anywhere => result.as_str(),
        BranchMap::Nodes(nodes) => {
            let found = result.as_str().filter(|to| nodes.iter().any(|node| node == to));
            Some(found.ok_or_else(|| missing(result))?)
        }
        BranchMap::Labels(labels) => {
            let label = python::text(result);
            if labels.is_empty() {
                return Ok(Some(Goto::Node(label)));
            }
            let found = labels.iter().find(|(known, _)| *known == label);
            let (_, to) = found.ok_or_else(|| missing(&label.into()))?;
            Some(to.as_str())
        }
    };
    if result.is_null() || to == Some(START) {
        return Err(Raised::new("ValueError", "Branch did not return a valid destination"));
    }
    Ok(to.map(Goto::named))
}

/// A key as an exception shows it; the end has another name in the reference.
fn key_text(key: &Json) -> String {
    match key.as_str() {
        Some(name) if name == END => "__end__".to_owned(),
        Some(name) if name == START => "__start__".to_owned(),
        _ => python::bare(key),
    }
}

fn next(goto: Goto) -> Result<Next, Raised> {
    match goto {
        Goto::Send(node, _) if node == "__end__" => {
            Err(Raised::new("InvalidUpdateError", "Cannot send a packet to the END node"))
        }
        other => Ok(into_next(other)),
    }
}

/// A target for the graph.
pub(crate) fn into_next(goto: Goto) -> Next {
    match goto {
        Goto::Node(name) => Next::node(name),
        Goto::End => Next::End,
        Goto::Send(node, arg) => Next::Send(SendTo::to(node, message::records(arg))),
    }
}

fn stops(graph: Building, spec: &GraphSpec) -> Building {
    let mut graph = graph;
    if let Some(before) = spec.interrupt_before.clone() {
        graph = graph.interrupt_before(into_stops(before));
    }
    if let Some(after) = spec.interrupt_after.clone() {
        graph = graph.interrupt_after(into_stops(after));
    }
    graph
}

pub(crate) fn into_stops(spec: StopsSpec) -> Stops {
    match spec {
        StopsSpec::All => Stops::All,
        StopsSpec::Nodes(nodes) => Stops::Nodes(nodes),
    }
}

fn subgraph_state(persist: Persist) -> SubgraphState {
    match persist {
        Persist::Inherit => SubgraphState::PerTask,
        Persist::Own => SubgraphState::PerThread,
        Persist::Never => SubgraphState::Stateless,
    }
}

fn policies(graph: Building, name: &str, policies: &Policies) -> Building {
    let mut graph = graph;
    if let Some(spec) = &policies.retry {
        graph = graph.retry(name, retry(spec));
    }
    if let Some(spec) = policies.cache {
        graph = graph.cache(name, cache(spec));
    }
    if let Some(spec) = policies.timeout {
        graph = graph.timeout(name, timeout(spec));
    }
    graph
}

fn retry(spec: &RetrySpec) -> Retry {
    let on = spec.on.clone();
    let retry = Retry::new(spec.max_attempts).backoff(FIRST_WAIT, spec.factor).without_jitter();
    retry.on(move |fault| {
        let class = class::of(fault);
        match &on {
            Some(wanted) => class::is_a(&class, wanted),
            None => class::is_retried(&class),
        }
    })
}

fn cache(spec: CacheSpec) -> Cache {
    match spec {
        CacheSpec::Forever => Cache::forever(),
        CacheSpec::For(time) => Cache::for_time(time),
    }
}

fn timeout(spec: TimeoutSpec) -> Timeout {
    match (spec.run, spec.idle) {
        (Some(run), None) => Timeout::run(run),
        (None, Some(idle)) => Timeout::idle(idle),
        (Some(run), Some(idle)) => Timeout::run(run).and_idle(idle),
        (None, None) => Timeout::default(),
    }
}

fn refused(error: BuildError) -> Raised {
    Raised::new("ValueError", error.to_string())
}
