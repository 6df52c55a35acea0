//! Drawings.

use std::fmt::Write;
use weftwork_engine::Plan;
use weftwork_engine::plan::{END, START};

/// A Mermaid flowchart of a plan.
pub(crate) fn mermaid(plan: &Plan, routed_start: bool) -> String {
    let mut out = String::from("flowchart TD\n  START([START])\n");
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        out.write_fmt(text).unwrap_or_default();
        out.push('\n');
    };
    for (i, node) in plan.nodes().iter().enumerate() {
        line(format_args!("  n{i}[\"{}\"]", node.name.replace('"', "#quot;")));
    }
    line(format_args!("  END([END])"));
    for target in plan.entry() {
        line(format_args!("  START --> n{}", target.0));
    }
    if routed_start {
        line(format_args!("  START -.-> END"));
    }
    for (i, node) in plan.nodes().iter().enumerate() {
        for target in &node.edges {
            line(format_args!("  n{i} --> n{}", target.0));
        }
        for name in &node.routes {
            match plan.node_idx(name) {
                Some(target) => line(format_args!("  n{i} -.-> n{}", target.0)),
                None if name == END || name == START => line(format_args!("  n{i} -.-> {name}")),
                None => {}
            }
        }
        if node.edges.is_empty() && node.routes.is_empty() && !joins_from(plan, i) {
            line(format_args!("  n{i} --> END"));
        }
    }
    for (sources, target) in plan.joins() {
        for source in sources {
            line(format_args!("  n{} --> n{}", source.0, target.0));
        }
    }
    out
}

fn joins_from(plan: &Plan, node: usize) -> bool {
    plan.joins().any(|(sources, _)| sources.iter().any(|s| s.0 == node))
}
