//! The desk's tools.

use super::database::{Order, OrderDatabase, Refund};
use super::weather::{self, Weather};
use weftwork::tool;
use weftwork::tools::{Deps, ToolContext, ToolError};

/// Finds an order by its number.
#[tool(example(request = "Where is order A1003?", args = {"order_id": "A1003"}))]
pub(super) fn lookup_order(
    /// The order's number, such as A1003.
    #[schemars(length(min = 1, max = 20))]
    order_id: String,
    orders: Deps<OrderDatabase>,
) -> Result<Order, ToolError> {
    orders.order(&order_id)
}

/// Gives money back for an order.
#[tool(
    effect = external_side_effect,
    on_unknown = idempotent,
    example(request = "Refund order A1002, amount 40.", args = {"order_id": "A1002", "amount": 40})
)]
pub(super) fn refund_order(
    /// The order's number, such as A1002.
    #[schemars(length(min = 1, max = 20))]
    order_id: String,
    /// How much, in euros.
    #[schemars(range(min = 0.01, max = 10000.0))]
    amount: f64,
    orders: Deps<OrderDatabase>,
    context: ToolContext,
) -> Result<Refund, ToolError> {
    orders.refund(&order_id, amount, &context.idempotency_key)
}

/// Tells the weather of a city.
#[tool(example(request = "What is the weather in Oslo?", args = {"city": "Oslo"}))]
pub(super) fn get_weather(
    /// The city.
    #[schemars(length(min = 1, max = 40))]
    city: String,
) -> Result<Weather, ToolError> {
    weather::weather_of(&city).ok_or_else(|| {
        let cities = weather::known_cities();
        ToolError::failed(format_args!("no weather for `{city}`; there is: {cities}"))
    })
}

/// Multiplies two numbers.
#[tool(example(request = "What is 6 times 7?", args = {"a": 6, "b": 7}))]
pub(crate) fn multiply(
    /// The first number.
    a: f64,
    /// The second number.
    b: f64,
) -> f64 {
    a * b
}
