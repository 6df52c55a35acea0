use weftwork_tools::tool;

/// Adds.
#[tool(efect = read_only)]
fn first(a: f64) -> f64 {
    a
}

/// Adds.
#[tool(effect = writes)]
fn second(a: f64) -> f64 {
    a
}

/// Adds.
#[tool(on_unknown = reconcile)]
fn third(a: f64) -> f64 {
    a
}

/// Adds.
#[tool(timeout_ms = 0)]
fn fourth(a: f64) -> f64 {
    a
}

/// Adds.
#[tool(example(request = "Add.", args = "{}"))]
fn fifth(a: f64) -> f64 {
    a
}

/// Adds.
#[tool(shown("."), shown(a))]
fn sixth(a: f64) -> f64 {
    a
}

/// Adds.
#[tool]
fn seventh(#[doc(hidden)] a: f64, #[inline] b: f64, #[arg(text = "x")] c: f64) -> f64 {
    a + b + c
}

fn main() {}
