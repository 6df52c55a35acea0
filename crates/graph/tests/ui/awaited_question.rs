use weftwork_graph::{Ctx, NodeResult};

async fn ask(ctx: Ctx) -> NodeResult<()> {
    ctx.interrupt("May I?".into()).await?;
    Ok(())
}

fn main() {}
