use weftwork_graph::{List, State};

#[derive(State)]
struct Chat {
    #[channel(apend)]
    log: List<String>,
}

fn main() {}
