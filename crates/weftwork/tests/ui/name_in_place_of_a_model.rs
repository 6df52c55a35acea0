use weftwork::prelude::*;

fn main() {
    let _ = ReactAgent::new("desk", "openai:gpt-4o-mini");
}
