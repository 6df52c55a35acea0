use weftwork_tools::tool;

#[tool]
fn multiply(a: f64, b: f64) -> f64 {
    a * b
}

fn main() {}
