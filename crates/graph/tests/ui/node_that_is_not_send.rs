use std::rc::Rc;
use weftwork_graph::{Graph, State};

#[derive(State)]
struct Count {
    n: u32,
}

async fn node(_: State<Count>) -> CountUpdate {
    let kept = Rc::new(1);
    std::future::ready(()).await;
    CountUpdate::new().n(*kept)
}

fn main() {
    let _ = Graph::<Count>::new("count").node("node", node);
}
