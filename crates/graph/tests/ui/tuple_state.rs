use weftwork_graph::State;

#[derive(State)]
struct Chat(String);

fn main() {}
