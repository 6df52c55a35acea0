use weftwork_graph::State;

#[derive(State)]
enum Count {
    None,
    Some(u32),
}

fn main() {}
