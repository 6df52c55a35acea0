//! Graphs whose nodes ask, drawn from a seed, as plain data.

use weftwork_testkit::sim::Draw;

/// Depth of the graphs and tasks that nodes call.
const DEPTH_MAX: u32 = 2;

/// A graph: nodes that start together, and one that follows the first of them.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) side_by_side: Vec<Node>,
    pub(super) last: Option<Node>,
}

/// A node, with the name that it has in no other graph of the seed.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) code: Code,
}

#[derive(Debug, Clone)]
pub(super) enum Code {
    Acts(Vec<Act>),
    Subgraph(Box<Shape>),
}

/// Action of a node or of a task of a flow, with the name that no other action of the seed has.
#[derive(Debug, Clone)]
pub(super) struct Act {
    pub(super) name: String,
    pub(super) kind: ActKind,
}

#[derive(Debug, Clone)]
pub(super) enum ActKind {
    /// Asks a question, whose text is the name of the act.
    Ask,
    /// Asks two questions side by side.
    AskTwo,
    /// Fails so often before it works.
    Fail(u32),
    /// Calls a graph.
    Call(Box<Shape>),
    /// Calls the task of a flow.
    Task(Vec<Act>),
    /// Calls tasks of flows side by side.
    Beside(Vec<Vec<Act>>),
}

impl Shape {
    /// The graph of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        Maker { draw: Draw::new(seed) }.shape("g", 0)
    }

    /// The questions that the graph asks if all of it runs once, in order of their texts.
    pub(super) fn questions(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.add_questions(&mut all);
        all.sort();
        all
    }

    fn add_questions(&self, all: &mut Vec<String>) {
        for node in self.side_by_side.iter().chain(&self.last) {
            match &node.code {
                Code::Acts(acts) => add_questions(acts, all),
                Code::Subgraph(inner) => inner.add_questions(all),
            }
        }
    }
}

fn add_questions(acts: &[Act], all: &mut Vec<String>) {
    for act in acts {
        match &act.kind {
            ActKind::Ask => all.push(act.name.clone()),
            ActKind::AskTwo => all.extend(both(&act.name)),
            ActKind::Fail(_) => {}
            ActKind::Call(inner) => inner.add_questions(all),
            ActKind::Task(acts) => add_questions(acts, all),
            ActKind::Beside(tasks) => tasks.iter().for_each(|acts| add_questions(acts, all)),
        }
    }
}

/// The questions of an act that asks two.
pub(super) fn both(name: &str) -> [String; 2] {
    ["l", "r"].map(|side| format!("{name}{side}"))
}

struct Maker {
    draw: Draw,
}

impl Maker {
    fn shape(&mut self, name: &str, depth: u32) -> Shape {
        let width = 1 + self.draw.below(if depth == 0 { 3 } else { 2 });
        let letters = ['a', 'b', 'c'].iter().take(width);
        let names: Vec<_> = letters.map(|letter| format!("{name}_{letter}")).collect();
        let side_by_side = names.iter().map(|name| self.node(name, depth)).collect();
        let follows = self.draw.chance(if depth == 0 { 50 } else { 25 });
        let last = follows.then(|| self.node(&format!("{name}_z"), depth));
        Shape { name: name.to_owned(), side_by_side, last }
    }

    fn node(&mut self, name: &str, depth: u32) -> Node {
        let code = if depth < DEPTH_MAX && self.draw.chance(15) {
            Code::Subgraph(Box::new(self.shape(name, depth + 1)))
        } else {
            Code::Acts(self.acts(name, depth))
        };
        Node { name: name.to_owned(), code }
    }

    /// Draws up to three actions, at least one.
    fn acts(&mut self, name: &str, depth: u32) -> Vec<Act> {
        let count = 1 + self.draw.below(3);
        (0..count).map(|index| self.act(format!("{name}{index}"), depth)).collect()
    }

    fn act(&mut self, name: String, depth: u32) -> Act {
        let calls = depth < DEPTH_MAX;
        let kind = match self.draw.below(100) {
            0..52 => ActKind::Ask,
            52..58 => ActKind::AskTwo,
            58..70 => ActKind::Fail(1 + u32::from(self.draw.chance(20))),
            70..82 if calls => ActKind::Call(Box::new(self.shape(&name, depth + 1))),
            82..94 if calls => ActKind::Task(self.acts(&name, depth + 1)),
            94.. if calls => {
                let tasks = ["x", "y"].map(|side| self.acts(&format!("{name}{side}"), depth + 1));
                ActKind::Beside(tasks.into())
            }
            _ => ActKind::Ask,
        };
        Act { name, kind }
    }
}
