//! Graphs drawn from a seed, as plain data.

use weftwork_graph::SubgraphState;
use weftwork_testkit::sim::Draw;

/// A graph.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) channels: Vec<(&'static str, Kind)>,
    /// In the order in which they are added, which is not that of their names.
    pub(super) nodes: Vec<Node>,
    pub(super) entry: Vec<usize>,
    pub(super) start_route: Option<Vec<usize>>,
    pub(super) joins: Vec<(Vec<usize>, usize)>,
    /// `true` if it has the semantics of the reference.
    pub(super) lenient: bool,
    /// Nodes that it stops before.
    pub(super) stops: Vec<usize>,
}

/// Rule by which a channel applies writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Last,
    Append,
    Add,
    Topic,
    One,
    Any,
}

impl Kind {
    pub(super) fn lapses(self) -> bool {
        matches!(self, Self::Topic | Self::One | Self::Any)
    }

    /// Returns `true` if at most one task of a superstep may write it.
    pub(super) fn is_single(self) -> bool {
        matches!(self, Self::Last | Self::One)
    }
}

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) acts: Vec<Act>,
    /// Besides `log` and `total`, which each node writes: channels, and whether their values are
    /// replaced.
    pub(super) writes: Vec<(&'static str, bool)>,
    pub(super) reads: Option<Vec<&'static str>>,
    pub(super) edges: Vec<usize>,
    pub(super) route: Option<Vec<usize>>,
    pub(super) goto: Vec<usize>,
    pub(super) sends: Vec<usize>,
    pub(super) deferred: bool,
    /// Number of attempts in a run.
    pub(super) attempts: u32,
    pub(super) fate: Fate,
    pub(super) inner: Option<(Box<Spec>, SubgraphState)>,
}

/// Action of a node before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Pause,
    Sleep(u64),
    Ask,
}

/// Outcome of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    /// It fails so often before it works.
    FailsFirst(u32),
    /// It always fails, and its error handler takes over.
    Handled,
}

impl Spec {
    /// The graph of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let lenient = draw.chance(40);
        let count = 2 + draw.below(6);
        Maker { draw, prefix: "", count, lenient, unkept: false }.graph()
    }

    pub(super) fn kind(&self, channel: &str) -> Option<Kind> {
        self.channels.iter().find(|(name, _)| *name == channel).map(|(_, kind)| *kind)
    }

    pub(super) fn index(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|one| one.name == node)
    }

    /// Returns `true` if anything in it may go differently after a crash that stored nothing.
    pub(super) fn has_own_state_within(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.inner, Some((_, SubgraphState::PerThread))))
    }
}

struct Maker {
    draw: Draw,
    prefix: &'static str,
    count: usize,
    lenient: bool,
    /// `true` if the graph stores no checkpoints.
    unkept: bool,
}

impl Maker {
    fn graph(mut self) -> Spec {
        let mut spec = Spec {
            channels: vec![("log", Kind::Append), ("total", Kind::Add)],
            nodes: Vec::new(),
            entry: vec![0],
            start_route: None,
            joins: Vec::new(),
            lenient: self.lenient,
            stops: Vec::new(),
        };
        let more = [
            ("last", Kind::Last),
            ("notes", Kind::Append),
            ("topic", Kind::Topic),
            ("one", Kind::One),
            ("any", Kind::Any),
        ];
        spec.channels.extend(self.draw.some(&more, 60));
        self.nodes(&mut spec);
        self.links(&mut spec);
        self.writers(&mut spec);
        if !self.prefix.is_empty() && !self.unkept && self.draw.chance(15) {
            spec.stops.push(self.draw.below(self.count));
        }
        spec
    }

    fn nodes(&mut self, spec: &mut Spec) {
        let mut letters: Vec<char> = ('a'..='i').collect();
        for _ in 0..self.count {
            let letter = letters.remove(self.draw.below(letters.len()));
            let inner = self.inner();
            let acts = if inner.is_some() { Vec::new() } else { self.acts() };
            let mut node = Node {
                name: format!("{}{letter}", self.prefix),
                acts,
                writes: Vec::new(),
                reads: self.draw.chance(15).then(|| vec!["log", "total"]),
                edges: Vec::new(),
                route: None,
                goto: Vec::new(),
                sends: Vec::new(),
                deferred: self.draw.chance(18),
                attempts: 1,
                fate: Fate::Works,
                inner,
            };
            if node.inner.is_some() {
                node.reads = Some(vec!["total"]);
            } else {
                self.fate(&mut node);
            }
            spec.nodes.push(node);
        }
    }

    fn inner(&mut self) -> Option<(Box<Spec>, SubgraphState)> {
        if !self.prefix.is_empty() || !self.draw.chance(14) {
            return None;
        }
        // In the semantics of the reference a graph that keeps its own state drops its input when the
        // run around it goes on.
        let own = if self.lenient { SubgraphState::PerTask } else { SubgraphState::PerThread };
        let keeps = [SubgraphState::PerTask, SubgraphState::PerTask, own, SubgraphState::Stateless];
        let keep = self.draw.pick(&keeps).copied().unwrap_or_default();
        let count = 1 + self.draw.below(4);
        let draw = self.draw.split();
        let unkept = keep == SubgraphState::Stateless;
        let maker = Self { draw, prefix: "in_", count, lenient: self.lenient, unkept };
        Some((Box::new(maker.graph()), keep))
    }

    fn acts(&mut self) -> Vec<Act> {
        let count = self.draw.below(4);
        let acts = (0..count).map(|_| match self.draw.below(10) {
            0..4 => Act::Pause,
            4..8 => Act::Sleep([1, 1, 2, 5][self.draw.below(4)]),
            _ if self.unkept => Act::Pause,
            _ => Act::Ask,
        });
        acts.collect()
    }

    fn fate(&mut self, node: &mut Node) {
        match self.draw.below(100) {
            0..10 => {
                let times = 1 + u32::try_from(self.draw.below(2)).unwrap_or_default();
                node.fate = Fate::FailsFirst(times);
                // Some are tried again by themselves, the others only when the run goes on.
                node.attempts = if self.draw.chance(50) { times + 1 } else { 1 };
            }
            10..15 => node.fate = Fate::Handled,
            _ => {}
        }
    }

    /// Each node but the first is led to by some earlier one, and by others as it happens.
    fn links(&mut self, spec: &mut Spec) {
        for to in 1..self.count {
            let from = self.draw.below(to);
            let plain = spec.nodes[from].inner.is_none();
            match self.draw.below(12) {
                0..2 => spec.nodes[from].route.get_or_insert_default().push(to),
                2..4 if plain => spec.nodes[from].goto.push(to),
                4..6 if plain && self.may_be_sent(spec, to) => spec.nodes[from].sends.push(to),
                6..9 if to > 1 => self.join(spec, to),
                _ => spec.nodes[from].edges.push(to),
            }
        }
        for from in 0..self.count {
            let later: Vec<usize> = (from + 1..self.count).collect();
            let edges = self.draw.some(&later, 12);
            spec.nodes[from].edges.extend(edges);
            spec.nodes[from].edges.sort_unstable();
            spec.nodes[from].edges.dedup();
            if spec.nodes[from].inner.is_some() {
                continue;
            }
            let back = self.draw.below(from + 1);
            match self.draw.below(10) {
                0 => spec.nodes[from].route.get_or_insert_default().push(back),
                1 => spec.nodes[from].goto.push(back),
                2 if self.may_be_sent(spec, back) => spec.nodes[from].sends.push(back),
                _ => {}
            }
        }
        let all: Vec<usize> = (1..self.count).collect();
        if self.draw.chance(20) {
            spec.start_route = Some(all.clone());
        }
        spec.entry.extend(self.draw.some(&all, 12));
    }

    fn join(&mut self, spec: &mut Spec, to: usize) {
        let earlier: Vec<usize> = (0..to).collect();
        let mut sources = self.draw.some(&earlier, 60);
        if sources.len() < 2 {
            sources = vec![to - 2, to - 1];
        }
        spec.joins.push((sources, to));
    }

    /// Returns `false` if the node runs a graph that keeps its own state and so cannot run twice at
    /// a time.
    fn may_be_sent(&self, spec: &Spec, to: usize) -> bool {
        !matches!(spec.nodes[to].inner, Some((_, SubgraphState::PerThread)))
    }

    fn writers(&mut self, spec: &mut Spec) {
        let sent: Vec<usize> = spec.nodes.iter().flat_map(|node| node.sends.clone()).collect();
        let plain = (0..self.count).filter(|node| spec.nodes[*node].inner.is_none());
        let plain: Vec<usize> = plain.collect();
        let owners: Vec<usize> = plain.iter().copied().filter(|n| !sent.contains(n)).collect();
        for (channel, kind) in spec.channels.clone().into_iter().skip(2) {
            let mut writers =
                if kind.is_single() { Vec::new() } else { self.draw.some(&plain, 40) };
            if kind.is_single() {
                writers.extend(self.draw.pick(&owners));
                // A conflict fails the superstep, whoever comes first.
                let clash = self.draw.chance(3);
                writers.extend(self.draw.pick(&owners).filter(|_| clash));
                writers.dedup();
            }
            writers.iter().for_each(|node| spec.nodes[*node].writes.push((channel, false)));
            if kind == Kind::Append
                && self.draw.chance(30)
                && let Some(owner) = self.draw.pick(&owners)
            {
                let writes = &mut spec.nodes[*owner].writes;
                writes.retain(|(name, _)| *name != channel);
                writes.push((channel, true));
            }
        }
    }
}
