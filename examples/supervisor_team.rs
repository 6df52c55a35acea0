//! A supervisor with a team of three: `cargo run --example supervisor_team [MODEL]`.
//!
//! The model is `scripted` by default; `local` is the embedded one. The supervisor hands work to its
//! members and answers with what they report. A question of a member ends the run, and names it.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use weftwork::agents::Supervisor;
use weftwork::prelude::*;

/// Returns the weather of a city.
#[tool(example(request = "What is the weather in Oslo?", args = {"city": "Oslo"}))]
fn get_weather(city: String) -> String {
    format!("{city} has 21 degrees and sun")
}

/// Looks up where an order is.
#[tool(example(request = "Where is order B7?", args = {"order": "B7"}))]
fn look_up_order(order: String) -> String {
    format!("order {order} arrives tomorrow")
}

/// Refunds an order.
#[tool(effect = external_side_effect, example(request = "Refund order B7.", args = {"order": "B7"}))]
fn refund_order(order: String) -> String {
    format!("order {order} is refunded")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "scripted".to_owned());
    let model = Config::from_env()?.open_model(&model)?;
    let agent = |name: &str| ReactAgent::new(name, model.clone());
    let approval = Policy::new().ask_human("refund_order", "it moves money")?;
    let refunds = agent("refunds").tools(ToolBox::new().with(refund_order)).policy(approval);
    let orders = agent("orders").tools(ToolBox::new().with(look_up_order));
    let weather = agent("weather").tools(ToolBox::new().with(get_weather));

    let team = Supervisor::new("team", model.clone())
        .instructions("You lead a team. Hand each request to the member whose work it is.")
        .member(weather, "answers questions about the weather")
        .member(orders, "looks up where an order is")
        .member(refunds, "refunds an order")
        .example("weather", "What is the weather in Oslo?")
        .example("orders", "Where is order B7?")
        .example("refunds", "Refund order B7.")
        .build()?;
    println!("{}", team.mermaid());

    let runtime = Runtime::in_memory().graph("team", team).open().await?;
    for (request, expected) in
        [("What is the weather in Rome?", "21"), ("Where is order A1?", "tomorrow")]
    {
        let thread = runtime.thread("team", format!("question-{expected}"))?;
        let ended = thread.say(request).await?;
        println!("{request} {ended}");
        assert!(ended.text().contains(expected), "{ended}");
    }

    let thread = runtime.thread("team", "refund")?;
    let ended = thread.say("Refund order A1.").await?;
    let [question] = ended.questions() else { return Err("a refund needs an approval".into()) };
    let member = question.graph.as_deref().unwrap_or_default();
    println!("{member}: {}", question.ask);
    assert_eq!(member, "refunds");

    let ended = thread.answer(question.approve()).await?;
    println!("{ended}");
    assert_eq!(ended.output()?["reports"][0]["member"], "refunds");
    Ok(())
}
