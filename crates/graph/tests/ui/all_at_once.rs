use weftwork_graph::{Routes, State};

#[derive(State)]
struct Chat {
    #[channel(append)]
    log: String,
    lines: Vec<String>,
    #[channel(sum)]
    total: u32,
}

#[derive(Routes)]
enum Next {
    Agent(u32),
    Tools { name: String },
}

fn main() {}
