use weftwork_tools::tool;

struct Desk;

impl Desk {
    /// Looks up an order.
    #[tool]
    async fn lookup_order(&self, order_id: String) -> String {
        order_id
    }
}

fn main() {}
