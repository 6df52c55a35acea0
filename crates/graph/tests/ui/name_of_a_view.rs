use weftwork_graph::State;

#[derive(State)]
struct Order {
    text: String,
}

/// What a page shows of an order.
struct OrderView {
    title: String,
}

fn main() {}
