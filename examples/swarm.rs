//! A swarm of three that hand the conversation to one another: `cargo run --example swarm [MODEL]`.
//!
//! The model is `scripted` by default; `local` is the embedded one. The member that has the
//! conversation keeps it in the next run of the thread.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use weftwork::agents::Swarm;
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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "scripted".to_owned());
    let model = Config::from_env()?.open_model(&model)?;
    let agent = |name: &str| ReactAgent::new(name, model.clone());
    let swarm = Swarm::new("shop")
        .member(agent("reception"), "greets people")
        .member(
            agent("weather").tools(ToolBox::new().with(get_weather)),
            "answers questions about the weather",
        )
        .member(
            agent("orders").tools(ToolBox::new().with(look_up_order)),
            "looks up where an order is",
        )
        .example("weather", "What is the weather in Oslo?")
        .example("orders", "Where is order B7?")
        .hand_offs("reception", ["weather", "orders"])
        .hand_offs("weather", ["orders"])
        .hand_offs("orders", ["weather"])
        .default_member("reception")
        .build()?;
    println!("{}", swarm.mermaid());

    let runtime = Runtime::in_memory().graph("shop", swarm).open().await?;
    let thread = runtime.thread("shop", "customer-7")?;
    for (request, active, expected) in [
        ("What is the weather in Rome?", "weather", "21"),
        ("What is the weather in Oslo?", "weather", "Oslo"),
        ("Where is order A1?", "orders", "tomorrow"),
    ] {
        let ended = thread.say(request).await?;
        let output = ended.output()?;
        println!("{request} {}: {ended}", output["active_agent"]);
        assert_eq!(output["active_agent"], active);
        assert!(ended.text().contains(expected), "{output}");
    }
    Ok(())
}
