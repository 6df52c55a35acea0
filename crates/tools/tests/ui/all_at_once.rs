use weftwork_tools::tool;

#[tool]
unsafe fn lookupOrder<T>(order_id: &str, (a, b): (u8, u8), extra: impl ToString, hint: Option<&str>) -> String {
    order_id.to_owned()
}

fn main() {}
