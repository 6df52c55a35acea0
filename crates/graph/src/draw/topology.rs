//! The topology of a graph as JSON: its nodes and edges.

use super::{Drawing, Kind, Style};
use crate::compiled::CompiledGraph;
use serde_json::{Value, json};

/// Returns the nodes and edges of a graph, with those of subgraphs in their place, down to a depth.
pub(super) fn topology(graph: &CompiledGraph, depth: usize) -> Value {
    let drawing = Drawing::of(graph);
    let mut out = Topology::default();
    out.add(&drawing, "", depth);
    json!({"nodes": out.nodes, "edges": out.edges})
}

#[derive(Default)]
struct Topology {
    nodes: Vec<Value>,
    edges: Vec<Value>,
}

/// The ids of the nodes with which a box begins and ends.
struct Ends {
    first: Vec<String>,
    last: Vec<String>,
}

impl Topology {
    /// Adds the boxes and lines of a drawing. The ids of nodes in subgraphs begin with those of the
    /// nodes that run them.
    fn add(&mut self, drawing: &Drawing, prefix: &str, depth: usize) -> Ends {
        let mut ends = Vec::new();
        for shown in &drawing.boxes {
            let id = match shown.kind {
                Kind::Start => "__start__".to_owned(),
                Kind::End => "__end__".to_owned(),
                Kind::Node | Kind::Anywhere => format!("{prefix}{}", shown.name),
            };
            match shown.kind {
                _ if shown.inner.is_some() && depth > 0 => {}
                Kind::Start | Kind::End if !prefix.is_empty() => {}
                Kind::End => self.nodes.push(json!({"id": id})),
                Kind::Start | Kind::Node | Kind::Anywhere => {
                    let data = json!({"name": id});
                    self.nodes.push(json!({"id": id, "type": "runnable", "data": data}));
                }
            }
            ends.push(Ends { first: vec![id.clone()], last: vec![id] });
        }
        // The nodes of subgraphs follow those of their graph.
        for (shown, end) in drawing.boxes.iter().zip(&mut ends) {
            if let (Some(inner), true) = (&shown.inner, depth > 0) {
                *end = self.add(inner, &format!("{prefix}{}:", shown.name), depth - 1);
            }
        }
        let mut whole = Ends { first: Vec::new(), last: Vec::new() };
        let within = |index: usize, kind: Kind| {
            !prefix.is_empty() && drawing.boxes.get(index).is_some_and(|shown| shown.kind == kind)
        };
        for line in &drawing.lines {
            let (Some(from), Some(to)) = (ends.get(line.from), ends.get(line.to)) else { continue };
            match (within(line.from, Kind::Start), within(line.to, Kind::End)) {
                (true, true) => {}
                (true, false) => whole.first.extend(to.first.iter().cloned()),
                (false, true) => whole.last.extend(from.last.iter().cloned()),
                (false, false) => self.add_lines(from, to, line.style),
            }
        }
        whole
    }

    fn add_lines(&mut self, from: &Ends, to: &Ends, style: Style) {
        for source in &from.last {
            for target in &to.first {
                let mut edge = json!({"source": source, "target": target});
                if style == Style::Route {
                    edge["conditional"] = json!(true);
                }
                self.edges.push(edge);
            }
        }
    }
}
