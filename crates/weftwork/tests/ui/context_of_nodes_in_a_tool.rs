use weftwork::prelude::*;

/// Looks up an order.
#[tool]
fn look_up(order: String, ctx: Ctx) -> String {
    format!("{order} {}", ctx.node())
}

fn main() {}
