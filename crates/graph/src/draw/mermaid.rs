//! Mermaid flowcharts: dashed arrows are routes, boxes around boxes are subgraphs.

use super::{Drawing, Kind, Style};
use crate::compiled::CompiledGraph;
use std::fmt::Write;

/// A Mermaid flowchart of a graph.
pub(crate) fn mermaid(graph: &CompiledGraph) -> String {
    let mut out = String::from("flowchart TD\n");
    // Writing to a string cannot fail.
    write_drawing(&mut out, &Drawing::of(graph), "", 1).unwrap_or_default();
    out
}

/// Renders a drawing. The names of boxes of a subgraph begin with the name of its own box.
fn write_drawing(
    out: &mut String,
    drawing: &Drawing,
    within: &str,
    depth: usize,
) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    let id = |index: usize| match drawing.boxes.get(index).map(|b| b.kind) {
        Some(Kind::Start) => format!("{within}START"),
        Some(Kind::End) => format!("{within}END"),
        Some(Kind::Anywhere) => format!("{within}ANY"),
        Some(Kind::Node) | None => format!("{within}n{}", index.saturating_sub(1)),
    };
    for (index, shown) in drawing.boxes.iter().enumerate() {
        let id = id(index);
        let name = escape_name(&shown.name);
        match (shown.kind, &shown.inner) {
            (Kind::Start | Kind::End, _) => writeln!(out, "{indent}{id}([{name}])")?,
            (Kind::Anywhere, _) => writeln!(out, "{indent}{id}{{{{{name}}}}}")?,
            (Kind::Node, None) => writeln!(out, "{indent}{id}[\"{name}\"]")?,
            (Kind::Node, Some(inner)) => {
                writeln!(out, "{indent}subgraph {id}[\"{name}\"]")?;
                write_drawing(out, inner, &format!("{id}_"), depth + 1)?;
                writeln!(out, "{indent}end")?;
            }
        }
    }
    for line in &drawing.lines {
        let arrow = match line.style {
            Style::Edge => "-->",
            Style::Route => "-.->",
        };
        writeln!(out, "{indent}{} {arrow} {}", id(line.from), id(line.to))?;
    }
    Ok(())
}

fn escape_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            c => out.push(c),
        }
    }
    out
}
