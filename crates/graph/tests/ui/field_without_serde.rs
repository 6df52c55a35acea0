use weftwork_graph::State;

#[derive(Debug, Clone)]
struct Order {
    amount: u32,
}

#[derive(State)]
struct Shop {
    name: String,
    order: Order,
}

fn main() {}
