use weftwork_graph::{Graph, State};

#[derive(State)]
struct Count {
    n: u32,
}

fn node(_: State<Count>) -> CountUpdate {
    CountUpdate::new().n(1)
}

fn main() {
    let _ = Graph::<Count>::new("count").node("node", node);
}
