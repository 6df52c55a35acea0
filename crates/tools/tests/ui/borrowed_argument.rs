use weftwork_tools::tool;

/// Looks up an order.
#[tool]
fn look_up(order: &str) -> String {
    order.to_owned()
}

fn main() {}
