use weftwork_graph::{Ctx, NodeResult};

struct Table {
    people: u32,
}

async fn ask(ctx: Ctx) -> NodeResult<u32> {
    let table: Table = ctx.ask_as("Which table?")?;
    Ok(table.people)
}

fn main() {}
