mod chat {
    #[derive(weftwork_graph::State)]
    pub struct Chat {
        topic: String,
    }

    #[derive(weftwork_graph::State)]
    struct Hidden {
        secret: String,
    }
}

async fn node(_: weftwork_graph::Field<chat::chat_fields::Topic>) {}

async fn spy(_: weftwork_graph::Field<chat::hidden_fields::Secret>) {}

fn main() {}
