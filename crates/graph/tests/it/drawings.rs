//! Drawings of graphs.

use serde_json::Value;
use weftwork_graph::channel::LastValue;
use weftwork_graph::{
    ChannelDef, CompiledGraph, DynUpdate, Dynamic, END, Finish, Flow, Graph, Input, Next,
    NodeResult, START, State, SubgraphState,
};

async fn nothing(_: Input) -> DynUpdate {
    DynUpdate::new()
}

fn over(name: &str, nodes: &[&str]) -> Graph<Dynamic> {
    let graph = Graph::dynamic(name, vec![ChannelDef::new("s", LastValue::<Value>::new())]);
    nodes.iter().fold(graph, |graph, name| graph.node(*name, nothing))
}

fn routed(graph: Graph<Dynamic>, from: &str, targets: &[&str]) -> Graph<Dynamic> {
    graph.route_to(from, targets.to_vec(), |_: State<Dynamic>| Next::End)
}

fn react() -> CompiledGraph {
    let graph = over("react", &["ask", "tools"]).edge(START, "ask").edge("tools", "ask");
    routed(graph, "ask", &["tools", END]).build().expect("sound")
}

/// Two branches, a join, a long edge past them, a loop, a node that comes back to itself.
fn everything() -> CompiledGraph {
    let inner = over("inner", &["draft", "review"]).edge(START, "draft").edge("draft", "review");
    let inner = routed(inner, "review", &["draft", END]).build().expect("sound");
    let deeper = over("deeper", &["only"]).subgraph("write", inner, SubgraphState::PerThread);
    let deeper = deeper.edge(START, "only").edge("only", "write").build().expect("sound");
    let flow = Flow::new("tally", async |Input(n): Input| NodeResult::Ok(Finish::value(n)));
    let graph = over("everything", &["plan", "look up", "weigh", "merge", "say \"<hi>\" & bye"]);
    let graph = graph.subgraph("work", deeper, SubgraphState::PerTask);
    let graph = graph.subgraph("count", flow.build().expect("sound"), SubgraphState::Stateless);
    let graph = graph.edge(START, "plan").edge("plan", "look up").edge("plan", "weigh");
    let graph = graph.join(["look up", "weigh"], "merge").edge("plan", "merge");
    let graph = graph.edge("merge", "work").edge("work", "count");
    let graph = routed(graph, "count", &["plan", "count", "say \"<hi>\" & bye"]);
    routed(graph, "weigh", &[]).build().expect("sound")
}

fn odd() -> CompiledGraph {
    let long = "a name that is longer than any name needs to be, and a little longer still";
    let graph = over("odd \u{1} <name>", &[long, "größe 大きさ", "rest"]);
    let graph = routed(graph, START, &[long, "größe 大きさ", END]);
    graph.edge(long, "rest").edge("größe 大きさ", "rest").build().expect("sound")
}

/// Checks that tags match and that nothing is left unescaped.
fn well_formed(image: &str) {
    let mut open = Vec::new();
    for piece in image.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains(['"', '\'']) || tag == "style", "{text}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn a_graph_as_mermaid() {
    insta::assert_snapshot!("mermaid", everything().mermaid());
    insta::assert_snapshot!("mermaid_odd", odd().mermaid());
}

#[test]
fn a_graph_as_svg() {
    for (name, graph) in [("react", react()), ("everything", everything()), ("odd", odd())] {
        let image = graph.svg();
        assert_eq!(image, graph.clone().svg(), "the same graph gives the same image");
        well_formed(&image);
        insta::assert_snapshot!(format!("svg_{name}"), image);
    }
}

#[test]
fn a_chain_of_a_thousand_nodes_is_drawn() {
    let names: Vec<String> = (0..1_000).map(|i| format!("n{i}")).collect();
    let graph = names.iter().fold(over("chain", &[]), |graph, name| graph.node(name, nothing));
    let graph = names.windows(2).fold(graph, |graph, pair| graph.edge(&pair[0], &pair[1]));
    let graph = graph.edge(START, "n0").edge("n0", "n999").build().expect("sound");
    well_formed(&graph.svg());
}
