//! A prompt with parameters, a session and a typed answer: `cargo run --example typed_prompt`.

#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use weftwork::prelude::*;
use weftwork::testing::{ScriptedModel, Step};
use weftwork::tools::Deps;

/// The parameters of the prompt.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    city: String,
    days: u32,
}

/// The answer.
#[derive(Debug, Deserialize, JsonSchema)]
struct Plan {
    title: String,
    steps: Vec<String>,
}

/// An item of the session: a place that was looked up.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Place {
    name: String,
}

impl Slice for Place {
    const NAME: &'static str = "places";
    type Event = Place;

    fn reduce(mut places: Vec<Self>, place: Place) -> Vec<Self> {
        places.push(place);
        places
    }
}

/// Looks up a sight of a city.
#[tool]
fn sight(city: String, prompt: Deps<PromptContext>) -> Result<String, ToolError> {
    let name = format!("the old town of {city}");
    prompt.dispatch::<Place>(&Place { name: name.clone() })?;
    Ok(name)
}

/// A model that plays its part; a real one is `Config::from_env()?.open_model("openai:gpt-4o-mini")?`.
fn model() -> Arc<ScriptedModel> {
    let plan = json!({"title": "Bern in 2 days", "steps": ["Walk through the old town."]});
    let call = Step::call("sight", json!({"city": "Bern"}));
    Arc::new(ScriptedModel::from_steps(vec![call, Step::text(plan.to_string())]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = "Stay in ${city}. Walk where you can.";
    let rest = Section::new("rest", "Rest", "Plan a day of rest.");
    let prompt = Prompt::<Trip>::builder("examples", "trip", "Plan a trip")
        .section(Section::new("task", "Task", "Plan ${days} days in ${city}.").tool(sight))
        .section(Section::new("rules", "Rules", rules).summarized("Rules for trips."))
        .section(rest.enabled(|trip: &Trip| trip.days > 7))
        .output::<Plan>()
        .build()?;

    let evaluator = Evaluator::builder(model()).open().await?;
    let session = evaluator.new_session();
    let trip = Trip { city: "Bern".to_owned(), days: 2 };
    let evaluated = evaluator.evaluate(&prompt, trip).session(&session).await?;
    let response = evaluated.done().ok_or("no question is asked")?;

    let plan = response.output.ok_or("the prompt has an output type")?;
    println!("{}: {:?}", plan.title, plan.steps);
    let places = session.query::<Place>()?;
    println!("looked up: {:?}", places.latest().map(|place| &place.name));
    assert_eq!((plan.steps.len(), places.all().len()), (1, 1));
    Ok(())
}
