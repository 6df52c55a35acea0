use weftwork_graph::{Graph, State};

#[derive(State)]
struct Count {
    n: u32,
}

fn main() {
    let _ = Graph::<Count>::new("count").route("node", |_: State<Count>| 7u32);
}
