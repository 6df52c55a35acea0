use weftwork::prelude::*;

async fn price(tools: Tools) -> Result<u64, Box<dyn std::error::Error>> {
    let found = tools.call("price", Default::default()).await?;
    Ok(found.value.as_u64().unwrap_or_default())
}

fn main() {}
