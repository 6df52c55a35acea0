//! Drawings: a graph as boxes and lines, which each format renders.

mod layout;
mod mermaid;
mod place;
mod svg;
mod topology;

use crate::compiled::CompiledGraph;
use weftwork_engine::NodeIdx;
use weftwork_engine::plan::{END, START};

impl CompiledGraph {
    /// The graph as a Mermaid flowchart: dashed arrows are routes and commands, boxes around boxes
    /// are graphs that run as nodes.
    #[must_use]
    pub fn mermaid(&self) -> String {
        mermaid::mermaid(self)
    }

    /// The graph as an SVG image, as [`mermaid`](Self::mermaid) draws it. The same graph gives the
    /// same image; it has no scripts and needs nothing from elsewhere.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::svg(self)
    }

    /// The graph as JSON, in the form of LangGraph's clients: `nodes` with `id`, `type` and `data`,
    /// `edges` with `source` and `target`, and `conditional` for routes and commands. Subgraphs down
    /// to this depth are replaced by their nodes, with ids such as `outer:inner`.
    #[must_use]
    pub fn topology(&self, depth: usize) -> serde_json::Value {
        topology::topology(self, depth)
    }
}

/// A graph as boxes and lines: first START, then the nodes in order, then END.
#[derive(Debug)]
struct Drawing {
    boxes: Vec<Shape>,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Shape {
    name: String,
    kind: Kind,
    /// The graph that the node runs.
    inner: Option<Drawing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Start,
    Node,
    End,
    /// The target of routes that do not declare their targets.
    Anywhere,
}

/// A line between two boxes, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    from: usize,
    to: usize,
    style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// It is always followed.
    Edge,
    /// A route or a command may follow it.
    Route,
}

impl Drawing {
    fn of(graph: &CompiledGraph) -> Self {
        let plan = graph.plan();
        let nodes = plan.nodes();
        let mut boxes = vec![Shape { name: START.to_owned(), kind: Kind::Start, inner: None }];
        boxes.extend(nodes.iter().enumerate().map(|(i, node)| {
            let runs = graph.node(NodeIdx(i)).and_then(|node| node.options.graph.as_ref());
            let inner = runs.map(|(graph, _)| Self::of(graph));
            Shape { name: node.name.to_string(), kind: Kind::Node, inner }
        }));
        boxes.push(Shape { name: END.to_owned(), kind: Kind::End, inner: None });
        let mut drawing = Self { boxes, lines: Vec::new() };
        drawing.start(graph);
        (0..nodes.len()).for_each(|i| drawing.node(graph, i));
        for (sources, target) in plan.joins() {
            sources.iter().for_each(|source| drawing.line(source.0 + 1, target.0 + 1, Style::Edge));
        }
        drawing
    }

    fn end_box(&self) -> usize {
        self.boxes.iter().position(|shape| shape.kind == Kind::End).unwrap_or_default()
    }

    fn line(&mut self, from: usize, to: usize, style: Style) {
        let line = Line { from, to, style };
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    fn routes(&mut self, graph: &CompiledGraph, from: usize, targets: &[String], any: bool) {
        for name in targets {
            let target = graph.plan().node_idx(name).map(|index| index.0 + 1);
            let target = target.or_else(|| (name == END).then(|| self.end_box()));
            target.into_iter().for_each(|target| self.line(from, target, Style::Route));
        }
        if any && targets.is_empty() {
            let known = self.boxes.iter().position(|shape| shape.kind == Kind::Anywhere);
            let anywhere = known.unwrap_or_else(|| {
                let name = "anywhere".to_owned();
                self.boxes.push(Shape { name, kind: Kind::Anywhere, inner: None });
                self.boxes.len() - 1
            });
            self.line(from, anywhere, Style::Route);
        }
    }

    fn start(&mut self, graph: &CompiledGraph) {
        let plan = graph.plan();
        plan.entry().iter().for_each(|target| self.line(0, target.0 + 1, Style::Edge));
        if plan.is_single() {
            self.line(0, 1, Style::Edge);
        }
        let any = !graph.routes(NodeIdx::START).is_empty();
        self.routes(graph, 0, plan.start_routes(), any);
    }

    fn node(&mut self, graph: &CompiledGraph, index: usize) {
        let plan = graph.plan();
        let Some(node) = plan.nodes().get(index) else { return };
        let from = index + 1;
        node.edges.iter().for_each(|target| self.line(from, target.0 + 1, Style::Edge));
        let any = !graph.routes(NodeIdx(index)).is_empty();
        self.routes(graph, from, &node.routes, any);
        let joins = plan.joins().any(|(sources, _)| sources.iter().any(|s| s.0 == index));
        if !joins && !self.lines.iter().any(|line| line.from == from) {
            self.line(from, self.end_box(), Style::Edge);
        }
    }
}
