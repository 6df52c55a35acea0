//! Model of a graph's expected result: supersteps over plain JSON, one task after the other,
//! without failures in between.

use super::logic::{self, Left, Seen};
use super::spec::{Act, Fate, Kind, Spec};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use weftwork_graph::SubgraphState;

/// A checkpoint as far as it does not depend on ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) values: Value,
    /// The nodes that are due, by name.
    pub(super) next: Vec<String>,
}

impl Point {
    /// Where two of them differ.
    pub(super) fn difference(&self, found: &Self) -> String {
        let mut told = Vec::new();
        if self.next != found.next {
            told.push(format!("next {:?}, found {:?}", self.next, found.next));
        }
        let names = self.values.as_object().into_iter().chain(found.values.as_object());
        let names: BTreeSet<&String> = names.flat_map(Map::keys).collect();
        for name in names {
            let expected = &self.values[name];
            let found = &found.values[name];
            let items = expected.as_array().zip(found.as_array());
            let from =
                items.map_or(0, |(a, b)| a.iter().zip(b).take_while(|(a, b)| a == b).count());
            let rest = |value: &Value| match value.as_array() {
                Some(items) => json!(items[from.min(items.len())..]).to_string(),
                None => value.to_string(),
            };
            if expected != found {
                told.push(format!("{name} from {from}: {}, found {}", rest(expected), rest(found)));
            }
        }
        told.join("; ")
    }
}

/// Two tasks wrote what only one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conflict;

/// A thread of a graph.
#[derive(Debug, Clone)]
pub(super) struct Model<'a> {
    spec: &'a Spec,
    values: BTreeMap<&'static str, Value>,
    /// Nodes that an edge, a route or a command led to in the last superstep.
    led: BTreeSet<usize>,
    /// Deferred nodes that something led to, and whether they are released.
    deferred: BTreeMap<usize, bool>,
    joins: Vec<Join>,
    sends: Vec<(usize, Value)>,
    /// The threads of graphs within that keep their state, by their nodes.
    own: BTreeMap<usize, Model<'a>>,
    pub(super) points: Vec<Point>,
}

#[derive(Debug, Clone, Default)]
struct Join {
    arrived: BTreeSet<usize>,
    released: bool,
}

/// A task: its node, none for the hidden first one; and what it was sent.
#[derive(Debug, Clone)]
struct Task {
    node: Option<usize>,
    sent: Option<Value>,
}

/// A task that ended.
struct Done {
    task: Task,
    left: Left,
    edges: bool,
}

impl<'a> Model<'a> {
    pub(super) fn new(spec: &'a Spec) -> Self {
        let first = |(name, kind): &(&'static str, Kind)| match kind {
            Kind::Append => Some((*name, json!([]))),
            Kind::Add => Some((*name, json!(0))),
            _ => None,
        };
        Self {
            spec,
            values: spec.channels.iter().filter_map(first).collect(),
            led: BTreeSet::new(),
            deferred: BTreeMap::new(),
            joins: vec![Join::default(); spec.joins.len()],
            sends: Vec::new(),
            own: BTreeMap::new(),
            points: Vec::new(),
        }
    }

    /// Takes input to its end.
    pub(super) fn round(&mut self, input: &Value) -> Result<(), Conflict> {
        self.points.push(self.point(vec!["__start__".to_owned()]));
        let writes = input.as_object().into_iter().flatten();
        let writes = writes.filter_map(|(name, value)| {
            let (name, _) = self.spec.channels.iter().find(|(known, _)| known == name)?;
            Some((*name, value.clone(), false))
        });
        let left = Left { writes: writes.collect(), ..Left::default() };
        let task = Task { node: None, sent: None };
        let mut done = vec![self.route(Done { task, left, edges: true })?];
        loop {
            self.close(done)?;
            let due = self.due();
            self.points.push(self.point(self.names(&due)));
            if due.is_empty() {
                return Ok(());
            }
            done = due.into_iter().map(|task| self.run(task)).collect::<Result<_, _>>()?;
        }
    }

    fn point(&self, mut next: Vec<String>) -> Point {
        next.sort();
        Point { values: object(self.values.iter()), next }
    }

    fn names(&self, tasks: &[Task]) -> Vec<String> {
        let nodes = tasks.iter().filter_map(|task| task.node);
        nodes.map(|node| self.spec.nodes[node].name.clone()).collect()
    }

    /// The tasks that are due, in the order in which their writes apply: nodes by name, then what
    /// was sent.
    fn due(&self) -> Vec<Task> {
        let mut nodes = self.led.clone();
        nodes.extend(self.deferred.iter().filter(|(_, released)| **released).map(|(n, _)| *n));
        nodes
            .extend((0..self.joins.len()).filter(|j| self.fires(*j)).map(|j| self.spec.joins[j].1));
        let mut nodes: Vec<usize> = nodes.into_iter().collect();
        nodes.sort_by_key(|node| &self.spec.nodes[*node].name);
        let pulled = nodes.into_iter().map(|node| Task { node: Some(node), sent: None });
        let sent = self.sends.iter().cloned();
        let sent = sent.map(|(node, arg)| Task { node: Some(node), sent: Some(arg) });
        pulled.chain(sent).collect()
    }

    fn is_full(&self, join: usize) -> bool {
        self.spec.joins[join].0.iter().all(|node| self.joins[join].arrived.contains(node))
    }

    fn fires(&self, join: usize) -> bool {
        let deferred = self.spec.nodes[self.spec.joins[join].1].deferred;
        self.is_full(join) && (!deferred || self.joins[join].released)
    }

    fn run(&mut self, task: Task) -> Result<Done, Conflict> {
        let Some(index) = task.node else { return Err(Conflict) };
        let node = &self.spec.nodes[index];
        let view = self.view(&self.values, node.reads.as_deref());
        let input = task.sent.clone().unwrap_or_else(|| view.clone());
        if let Some((inner, keep)) = &node.inner {
            let left = self.run_within(index, inner, *keep, &input)?;
            return self.route(Done { task, left, edges: true });
        }
        let asked = node.acts.iter().filter(|act| **act == Act::Ask).count();
        let answer = |i| logic::answer(&logic::question(node, i, &input));
        let handled = node.fate == Fate::Handled;
        let answers: Vec<Value> =
            if handled { Vec::new() } else { (0..asked).map(answer).collect() };
        let seen = Seen { view: &view, input: &input, answers: &answers };
        let left = logic::result(self.spec, index, handled, &seen);
        if handled {
            return Ok(Done { task, left, edges: false });
        }
        self.route(Done { task, left, edges: true })
    }

    fn run_within(
        &mut self,
        node: usize,
        inner: &'a Spec,
        keep: SubgraphState,
        input: &Value,
    ) -> Result<Left, Conflict> {
        let mut fresh = Model::new(inner);
        let model = match keep {
            SubgraphState::PerThread => self.own.entry(node).or_insert(fresh),
            SubgraphState::PerTask | SubgraphState::Stateless => &mut fresh,
        };
        model.round(input)?;
        let log = model.values.get("log").cloned().unwrap_or_default();
        Ok(Left { writes: vec![("log", log, false)], ..Left::default() })
    }

    /// A route sees the state at the start of the superstep with its node's own writes.
    fn route(&self, mut done: Done) -> Result<Done, Conflict> {
        let node = done.task.node.map(|node| &self.spec.nodes[node]);
        let targets = node.map_or(self.spec.start_route.as_ref(), |node| node.route.as_ref());
        if let Some(targets) = targets {
            let mut values = self.values.clone();
            self.fold(&mut values, std::slice::from_ref(&done))?;
            let mut view = self.view(&values, node.and_then(|node| node.reads.as_deref()));
            if let (Some(returned), Some(members)) = (self.returned(&done), view.as_object_mut()) {
                for (name, value) in returned {
                    members.entry(name).or_insert(value);
                }
            }
            done.left.goto.extend(logic::routed(done.task.node, targets, &view));
        }
        Ok(done)
    }

    /// In the semantics of the reference a route also sees what its node returned, as it was
    /// returned, when that was an object without anything special.
    fn returned(&self, done: &Done) -> Option<Map<String, Value>> {
        let special = done.left.writes.iter().any(|(.., replace)| *replace);
        let plain = self.spec.lenient && done.left.goto.is_empty() && done.left.sends.is_empty();
        let writes = done.left.writes.iter();
        let members = || writes.map(|(name, value, _)| ((*name).to_owned(), value.clone()));
        (plain && !special).then(|| members().collect())
    }

    fn view(&self, values: &BTreeMap<&'static str, Value>, reads: Option<&[&str]>) -> Value {
        object(values.iter().filter(|(name, _)| reads.is_none_or(|reads| reads.contains(name))))
    }

    fn close(&mut self, done: Vec<Done>) -> Result<(), Conflict> {
        for done in done.iter().filter(|done| done.task.sent.is_none()) {
            self.consume(done.task.node);
        }
        let mut values = self.values.clone();
        self.fold(&mut values, &done)?;
        self.values = values;
        self.led.clear();
        self.sends.clear();
        let mut leads = false;
        for Done { task, left, edges } in done {
            if edges {
                leads |= self.follow_edges(task.node);
            }
            for to in left.goto {
                leads |= self.lead_to(to);
            }
            self.sends.extend(left.sends);
        }
        if !leads {
            self.deferred.values_mut().for_each(|released| *released = true);
            for join in 0..self.joins.len() {
                let full = self.is_full(join);
                self.joins[join].released |= full;
            }
        }
        Ok(())
    }

    /// A node that ran starts over with its joins, and with its deferral when that was released.
    fn consume(&mut self, node: Option<usize>) {
        let Some(node) = node else { return };
        if self.deferred.get(&node) == Some(&true) {
            self.deferred.remove(&node);
        }
        for join in 0..self.joins.len() {
            if self.spec.joins[join].1 == node && self.fires(join) {
                self.joins[join] = Join::default();
            }
        }
    }

    /// Says whether something became due.
    fn follow_edges(&mut self, node: Option<usize>) -> bool {
        let Some(node) = node else {
            let entry = self.spec.entry.clone();
            return entry.into_iter().fold(false, |any, to| self.lead_to(to) | any);
        };
        let spec = self.spec;
        let mut leads =
            spec.nodes[node].edges.iter().fold(false, |any, to| self.lead_to(*to) | any);
        for (join, (sources, to)) in spec.joins.iter().enumerate() {
            if sources.contains(&node) && self.joins[join].arrived.insert(node) {
                leads |= self.is_full(join) && !spec.nodes[*to].deferred;
            }
        }
        leads
    }

    fn lead_to(&mut self, to: usize) -> bool {
        if self.spec.nodes[to].deferred {
            self.deferred.insert(to, false);
            return false;
        }
        self.led.insert(to);
        true
    }

    /// Applies writes, channel by channel, each with those of all tasks.
    fn fold(
        &self,
        values: &mut BTreeMap<&'static str, Value>,
        done: &[Done],
    ) -> Result<(), Conflict> {
        for (channel, kind) in &self.spec.channels {
            let writes = done.iter().flat_map(|done| &done.left.writes);
            let writes: Vec<_> = writes.filter(|(name, ..)| name == channel).collect();
            if writes.is_empty() {
                if kind.lapses() {
                    values.remove(channel);
                }
                continue;
            }
            let replaced: Vec<_> = writes.iter().filter(|(_, _, replace)| *replace).collect();
            let value = match (replaced.as_slice(), writes.as_slice()) {
                ([(_, value, _)], _) => value.clone(),
                ([_, _, ..], _) => return Err(Conflict),
                (_, [_, _, ..]) if kind.is_single() => return Err(Conflict),
                _ => {
                    let writes = writes.iter().map(|(_, value, _)| value);
                    folded(*kind, values.get(channel), writes)
                }
            };
            values.insert(channel, value);
        }
        Ok(())
    }
}

fn folded<'w>(
    kind: Kind,
    before: Option<&Value>,
    writes: impl Iterator<Item = &'w Value>,
) -> Value {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match kind {
        Kind::Append => {
            let before = before.map(items).unwrap_or_default();
            json!(before.into_iter().chain(writes.flat_map(items)).collect::<Vec<_>>())
        }
        Kind::Topic => json!(writes.flat_map(items).collect::<Vec<_>>()),
        Kind::Add => {
            let before = before.and_then(Value::as_i64).unwrap_or_default();
            json!(before + writes.filter_map(Value::as_i64).sum::<i64>())
        }
        Kind::Last | Kind::One | Kind::Any => writes.last().cloned().unwrap_or_default(),
    }
}

fn object<'v>(values: impl Iterator<Item = (&'v &'static str, &'v Value)>) -> Value {
    Value::Object(
        values.map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>(),
    )
}
