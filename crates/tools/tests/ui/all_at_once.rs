use weftwork_tools::tool;

#[tool]
unsafe fn lookupOrder<T>(order_id: &str, [a, b]: [u16; 2], extra: impl ToString, hint: Option<&str>) -> String {
    order_id.to_owned()
}

fn main() {}
