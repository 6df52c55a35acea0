use weftwork_graph::{Graph, State};

#[derive(State)]
struct Count {
    n: u32,
}

async fn node(_: State<Count>) -> u32 {
    1
}

fn main() {
    let _ = Graph::<Count>::new("count").node("node", node);
}
