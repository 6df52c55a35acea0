//! A program that runs unchanged over each store: only the line that names the store differs.

use crate::database;
use serde_json::json;
use weftwork::prelude::*;
use weftwork::runtime::RuntimeBuilder;

#[derive(State)]
struct Refund {
    #[channel(default)]
    amount: u32,
    #[channel(append)]
    log: List<String>,
}

async fn approve(refund: State<Refund>, ctx: Ctx) -> NodeResult<RefundUpdate> {
    let answer = ctx.interrupt(json!({"may this be paid?": refund.amount()}))?;
    Ok(RefundUpdate::new().log([format!("answered {answer}")]))
}

async fn opened(over: RuntimeBuilder) -> Runtime {
    let graph = Graph::<Refund>::new("refund").node("approve", approve).edge(START, "approve");
    over.graph("refund", graph.build().expect("sound")).open().await.expect("opens")
}

/// Asks with one runtime, answers with another, and continues on a fork of the thread.
async fn plays(first: RuntimeBuilder, second: impl FnOnce() -> Option<RuntimeBuilder>) {
    let first = opened(first).await;
    let order = first.thread("refund", "order-7").expect("valid names");
    let asked = order.start(RefundUpdate::new().amount(250)).await.expect("accepted");
    assert_eq!(asked.questions().len(), 1);
    let second = match second() {
        Some(second) => opened(second).await,
        None => first.clone(),
    };
    let order = second.thread("refund", "order-7").expect("valid names");
    let ended = order.answer(json!(true)).await.expect("accepted");
    let refund = ended.state::<Refund>().expect("completed");
    assert_eq!(*refund.amount(), 250);
    assert!(refund.log().iter().eq(["answered true"]));
    let fork = order.fork("order-8").await.expect("forked");
    fork.start(RefundUpdate::new().amount(300)).await.expect("accepted");
    let ended = fork.answer(json!(false)).await.expect("accepted");
    let refund = ended.state::<Refund>().expect("completed");
    assert!(refund.log().iter().eq(["answered true", "answered false"]));
    assert_eq!(*order.read::<Refund>().await.expect("reads").amount(), 250);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    plays(Runtime::in_memory(), || None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Runtime::sqlite(folder.path().join("orders.db")).expect("opens");
    plays(open(), || Some(open())).await;
}

#[test]
fn over_postgres() {
    let url = database::fresh();
    let open = || Runtime::postgres(&url).expect("opens");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(plays(open(), || Some(open())));
}
