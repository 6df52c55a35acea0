use weftwork_graph::{List, State};

#[derive(State)]
struct Chat {
    log: List<String>,
}

fn main() {}
