use weftwork_graph::{Field, Graph, State};

#[derive(State)]
struct Chat {
    topic: String,
}

async fn node(_: Field<Chat>) -> ChatUpdate {
    ChatUpdate::new()
}

fn main() {
    let _ = Graph::<Chat>::new("chat").node("node", node);
}
