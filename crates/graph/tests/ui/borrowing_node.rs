use weftwork_graph::{Graph, State};

#[derive(State)]
struct Count {
    n: u32,
}

fn main() {
    let by = 2;
    let double = async |_: State<Count>| CountUpdate::new().n(by);
    let _ = Graph::<Count>::new("count").node("double", double);
}
