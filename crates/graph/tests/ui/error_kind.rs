use weftwork_graph::{List, State};

#[derive(State)]
struct Appended {
    #[channel(append, error)]
    errors: List<String>,
}

#[derive(State)]
struct Two {
    #[channel(error)]
    first: Option<String>,
    #[channel(error)]
    second: Option<String>,
}

fn main() {}
