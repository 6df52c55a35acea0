use weftwork_tools::tool;

struct Order {
    id: String,
}

/// Looks up an order.
#[tool]
fn look_up(order: Order) -> String {
    order.id
}

fn main() {}
