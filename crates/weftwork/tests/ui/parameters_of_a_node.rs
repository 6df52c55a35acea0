//! Parameters that only nodes of graphs have.

use weftwork::prelude::*;

#[derive(State)]
struct Order {
    #[channel(append)]
    log: List<String>,
}

/// Looks up an order.
#[tool]
fn look_up(order: String, ctx: Ctx, state: State<Order>) -> String {
    format!("{order} is paid")
}

fn main() {}
