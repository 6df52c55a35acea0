use weftwork_graph::State;

#[derive(State)]
struct Order {
    text: String,
}

/// The order as a page shows it.
struct OrderView {
    title: String,
}

fn main() {}
