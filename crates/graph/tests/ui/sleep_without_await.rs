use std::time::Duration;
use weftwork_graph::{Ctx, NodeResult};

async fn wait(ctx: Ctx) -> NodeResult<()> {
    ctx.sleep(Duration::from_secs(1))?;
    Ok(())
}

fn main() {}
