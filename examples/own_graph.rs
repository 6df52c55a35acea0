//! A graph of your own that asks a person: `cargo run --example own_graph`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use serde_json::json;
use weftwork::graph::{Ctx, Graph, Host, List, MemorySaver, NodeResult, Outcome, START};
use weftwork::graph::{Resume, Routes, Start, StartCommand, State};

/// The state: each field is a channel.
#[derive(State)]
struct Refund {
    #[channel(default)]
    amount: u32,
    #[channel(append)]
    log: List<String>,
}

/// Where `check` may lead: the node `approve`, or the end.
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
    let host = Host::new().with_saver(MemorySaver::new());

    let start = Start::typed(RefundUpdate::new().amount(250))?;
    let asked = graph.run(&host, start).thread("order-7").outcome().await?;
    assert!(matches!(asked, Outcome::Interrupted { .. }));

    // Later, with nothing but the name of the thread and the answer.
    let resume = Some(Resume::One(json!(true)));
    let answer = Start::Command(StartCommand { resume, ..StartCommand::default() });
    let ended = graph.run(&host, answer).thread("order-7").outcome().await?;
    let output = ended.output().unwrap_or_default();
    assert_eq!(output["log"], json!(["checked 250", "answered true"]));
    println!("{output}");
    Ok(())
}
