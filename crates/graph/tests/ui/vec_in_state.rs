use weftwork_graph::State;

#[derive(State)]
struct Chat {
    log: Vec<String>,
}

fn main() {}
