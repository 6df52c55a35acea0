//! Changes of the state, forks, and runs from old checkpoints.

use super::chain::{abc, stops_before_b};
use super::{Kit, Log, a, b, c, chain, counted_a, counted_b, counted_c};
use weftwork_graph::{END, Graph, START, Stops};

same_traces! {
    update_state: stops_before_b;
    update_state_input: abc;
    update_state_ambiguous: stops_before_the_join;
    bulk_update: abc;
    command_input_goto: abc;
    new_input_at_checkpoint: abc;
    replay: counted;
    fork_update: counted;
}

fn counted(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", counted_a).node("b", counted_b).node("c", counted_c);
    chain(graph, &["a", "b", "c", END])
}

fn stops_before_the_join(kit: &Kit) -> Graph<Log> {
    let graph = kit.graph().node("a", a).node("b", b).node("c", c);
    let graph = graph.edge(START, "a").edge(START, "b").join(["a", "b"], "c");
    graph.interrupt_before(Stops::Nodes(vec!["c".to_owned()]))
}
