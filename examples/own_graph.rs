//! A graph of your own that asks a person: `cargo run --example own_graph`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde_json::json;
use weftwork::prelude::*;

/// The state: each field is a channel.
#[derive(State)]
struct Refund {
    #[channel(default)]
    amount: u32,
    #[channel(append)]
    log: List<String>,
}

/// Successors of `check`: the node `approve`, or the end.
#[derive(Routes)]
enum AfterCheck {
    Approve,
    End,
}

async fn check(refund: State<Refund>) -> RefundUpdate {
    RefundUpdate::new().log([format!("checked {}", refund.amount())])
}

fn after_check(refund: State<Refund>) -> AfterCheck {
    if *refund.amount() > 100 { AfterCheck::Approve } else { AfterCheck::End }
}

async fn approve(refund: State<Refund>, ctx: Ctx) -> NodeResult<RefundUpdate> {
    let answer = ctx.interrupt(json!({"may this be paid?": refund.amount()}))?;
    Ok(RefundUpdate::new().log([format!("answered {answer}")]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::<Refund>::new("refund")
        .node("check", check)
        .node("approve", approve)
        .edge(START, "check")
        .route("check", after_check)
        .build()?;
    // `Runtime::sqlite("orders.db")?` and `Runtime::postgres(url)?` keep the threads on disk.
    let runtime = Runtime::in_memory().graph("refund", graph).open().await?;
    let order = runtime.thread("refund", "order-7")?;

    let asked = order.start(RefundUpdate::new().amount(250)).await?;
    assert_eq!(asked.questions().len(), 1);

    // Later, in any process that hosts the graph over the same store.
    let ended = order.answer(json!(true)).await?;
    let refund = ended.state::<Refund>()?;
    assert_eq!(*refund.amount(), 250);
    assert!(refund.log().iter().eq(["checked 250", "answered true"]));
    println!("{}", ended.output()?);
    Ok(())
}
