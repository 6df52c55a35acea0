use weftwork::prelude::*;

async fn ask(model: Model) -> NodeResult<()> {
    model.ask(42).await?;
    Ok(())
}

fn main() {}
