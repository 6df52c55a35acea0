use weftwork_tools::tool;

struct Order {
    id: String,
}

/// Looks up an order.
#[tool]
fn lookup_order(order_id: String) -> Order {
    Order { id: order_id }
}

fn main() {}
