//! Prompts that the server hosts like agents.

use crate::client::Client;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weftwork::prelude::*;
use weftwork::testing::ScriptedModel;
use weftwork::testing::Step;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Trip {
    city: String,
    days: u32,
}

#[tokio::test]
async fn a_client_gives_the_parameters_of_a_prompt_as_input() {
    let prompt = Prompt::<Trip>::builder("travel", "trip", "Plan a trip")
        .section(Section::new("task", "Task", "Plan ${days} days in ${city}."))
        .build()
        .expect("sound");
    let model = ScriptedModel::from_fn(|request| {
        let prompt = request.messages.first().map(Message::joined_text).unwrap_or_default();
        Step::text(format!("I read: {prompt}"))
    });
    let runtime = Runtime::in_memory().graph("trip", prompt.with_model(model)).open().await;
    let client = Client::over(runtime.expect("opens"));
    let input = json!({"city": "Bern", "days": 2});
    let run = json!({"assistant_id": "trip", "input": input});
    let done = client.post("/runs/wait", run).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(done.body.contains("Plan 2 days in Bern."), "{}", done.body);

    let wrong = json!({"assistant_id": "trip", "input": {"city": "Bern", "days": "two"}});
    let refused = client.post("/runs/wait", wrong).await;
    let detail = "the parameters do not fit: at /days";
    assert!(refused.body.contains(detail), "{}", refused.body);
}
