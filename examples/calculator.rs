//! A prompt that has a calculator: `cargo run --example calculator [MODEL]`.
//!
//! The model is `scripted` by default; `local` is the embedded one.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use weftwork::prelude::*;

/// Adds two numbers.
#[tool(example(request = "Calculate 1 + 5 using the calculator tool.", args = {"a": 1, "b": 5}))]
fn calculator(a: f64, b: f64) -> f64 {
    a + b
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).unwrap_or_else(|| "scripted".to_owned());
    let task = "Calculate 2 + 2 using the calculator tool.";
    let prompt = Prompt::<()>::builder("examples", "calculator", "Calculator")
        .section(Section::new("task", "Task", task).tool(calculator))
        .build()?;

    let evaluator = Evaluator::builder(Config::from_env()?.open_model(&model)?).open().await?;
    let mut events = evaluator.bus().subscribe();
    let session = evaluator.new_session();
    let evaluated = evaluator.evaluate(&prompt, ()).session(&session).await?;

    for event in events.drain() {
        println!("{}", event.to_shown());
    }
    let response = evaluated.done().ok_or("no question is asked")?;
    println!("{}", response.text);
    assert!(response.text.contains('4'), "2 + 2 is 4");
    Ok(())
}
