use weftwork_tools::tool;

struct Closed;

/// Looks up an order.
#[tool]
fn lookup_order(order_id: String) -> Result<String, Closed> {
    Err(Closed)
}

fn main() {}
