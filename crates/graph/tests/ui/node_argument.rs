use weftwork_graph::{Graph, State};

#[derive(State)]
struct Count {
    n: u32,
}

async fn node(n: u32) -> CountUpdate {
    CountUpdate::new().n(n)
}

fn main() {
    let _ = Graph::<Count>::new("count").node("node", node);
}
