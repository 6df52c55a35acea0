//! An agent of your own with one tool of your own: `cargo run --example first_agent`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use weftwork::prelude::*;

/// Converts miles to kilometres.
#[tool(example(request = "How many kilometres are 10 miles?", args = {"miles": 10}))]
fn miles_to_kilometres(miles: f64) -> f64 {
    miles * 1.609344
}

#[tokio::main]
async fn main() -> Result<(), weftwork::Error> {
    let app = App::builder()
        .default_model("scripted") // for a trial; without it, a model must be configured
        .agent("runner", |model| {
            ReactAgent::new("runner", model)
                .instructions("You answer runners. Convert distances with your tool.")
                .tools(ToolBox::new().with(miles_to_kilometres))
        })
        .open()
        .await?;
    let thread = app.new_thread();
    let ended = app.ask(thread.as_str(), "How many kilometres are 26.2 miles?").await?;
    println!("{ended}");
    Ok(())
}
