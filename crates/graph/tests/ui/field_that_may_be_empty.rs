use weftwork_graph::{Field, State};

#[derive(State)]
struct Chat {
    topic: String,
}

async fn node(topic: Field<chat_fields::Topic>) -> ChatUpdate {
    ChatUpdate::new().topic(topic.to_uppercase())
}

fn main() {}
