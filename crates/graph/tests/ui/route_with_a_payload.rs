use weftwork_graph::Routes;

#[derive(Routes)]
enum Where {
    Tool(String),
    End,
}

fn main() {}
