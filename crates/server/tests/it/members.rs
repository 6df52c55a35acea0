//! Questions of members of a team have the name of the member, in chats and in the inbox.

use crate::chat::{chunks, user};
use crate::client::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use weftwork::agents::Supervisor;
use weftwork::models::ScriptedModel;
use weftwork::prelude::*;
use weftwork_runtime::Runtime;

/// Refunds an order.
#[tool(effect = external_side_effect, example(request = "Refund order B7.", args = {"order": "B7"}))]
fn refund_order(order: String) -> String {
    format!("order {order} is refunded")
}

/// Returns the weather of a city.
#[tool(example(request = "What is the weather in Oslo?", args = {"city": "Oslo"}))]
fn get_weather(city: String) -> String {
    format!("{city} has 21 degrees and sun")
}

/// Greets a person.
#[tool(effect = external_side_effect, example(request = "Greet Anna.", args = {"name": "Anna"}))]
fn greet(name: String) -> String {
    format!("greeted {name}")
}

fn approval_of(tool: &str) -> Policy {
    Policy::new().ask_human(tool, "it is seen").expect("a pattern")
}

/// A team with a member whose call waits for approval, one that asks, and a tool of its own.
fn team() -> CompiledGraph {
    let model = || Arc::new(ScriptedModel::rules());
    let refunds = ReactAgent::new("refunds", model())
        .tools(ToolBox::new().with(refund_order))
        .policy(approval_of("refund_order"));
    let weather = ReactAgent::new("weather", model())
        .tools(ToolBox::new().with(get_weather).with_ask_human());
    Supervisor::new("team", model())
        .member(refunds.build().expect("sound"), "refunds an order")
        .member(weather.build().expect("sound"), "answers questions about the weather")
        .example("refunds", "Refund order B7.")
        .example("weather", "What is the weather in Oslo?")
        .tools(ToolBox::new().with(greet))
        .policy(approval_of("greet"))
        .build()
        .expect("sound")
}

/// The facts about questions in a list of parts.
fn questions(parts: &[Value]) -> Vec<&Value> {
    let facts = parts.iter().filter(|part| part["type"] == "data-question");
    facts.map(|part| &part["data"]).collect()
}

#[tokio::test]
async fn a_question_of_a_member_names_it() {
    let runtime = Runtime::in_memory().graph("team", team()).open().await.expect("opens");
    let client = Client::over(runtime);
    for (thread, text, member, answer) in [
        ("r", "Refund order A1.", json!("refunds"), json!({"type": "approve"})),
        ("w", "What is the weather?", json!("weather"), json!({"answer": "Rome"})),
        ("g", "Greet Bert.", json!(null), json!({"type": "approve"})),
    ] {
        let body = json!({"threadId": thread, "messages": [user(text)]});
        let streamed = chunks(&client.post("/chat/team", body).await);
        let [asked] = questions(&streamed)[..] else { panic!("{text}: {streamed:?}") };
        assert_eq!(asked["graph"], member, "{text}: {asked}");
        let stored = client.get(&format!("/chat/team/{thread}")).await.json();
        let parts = stored[1]["parts"].as_array().expect("parts");
        assert_eq!(questions(parts), [asked]);
        let open = client.get("/interrupts").await.json();
        let [row] = &open.as_array().expect("a list")[..] else { panic!("{text}: {open}") };
        assert_eq!((&row["agent"], &row["graph"]), (&json!("team"), &member), "{text}: {row}");
        let address = format!("/interrupts/{}/respond", row["id"].as_str().expect("an id"));
        let answered = client.post(&address, answer).await;
        assert_eq!(answered.status, 202, "{text}: {}", answered.body);
        let path = format!("/interrupts?answered=true&thread_id={thread}");
        let answered = client.get(&path).await.json();
        assert_eq!(answered[0]["graph"], member, "{text}: {answered}");
        client.get(&format!("/chat/team/{thread}/stream")).await;
    }
}
